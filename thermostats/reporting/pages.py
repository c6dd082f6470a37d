"""Pages of the report as bytes: one folder per claim, and the index with the table of all claims."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup, escape

from thermostats.modelling.estimates import holm
from thermostats.reporting import words
from thermostats.reporting.findings import Claim, Finding
from thermostats.reporting.freshness import code_sha, machine
from thermostats.reporting.runner import Run
from thermostats.reporting.verdicts import SUPPORTED
from thermostats.tables import store
from thermostats.tables.vocabulary import VERDICTS

DOI = "10.5281/zenodo.18165365"
CORRECTED = "The rule was corrected after a review"
"""How the note begins that says so; without it a rule was fixed before its test was run."""
ROWS_SHOWN = 40
"""Rows of a finding's table on its page; the file beside it has all."""
LEVEL = 0.05
"""Adjusted p above which a supported claim is named below the table."""
MEASURED_GAINS = {
    "last_gain": "last gain",
    "penultimate_gain": "last gain but one",
    "normed_gain": "last gain, normed",
    "geometric_gain": "mean gain a block",
    "total_amplification": "total amplification",
}
FAILED, MISSING = "analysis failed", "not built"
SIGNS = {
    "supported": "✔",
    "not supported": "✘",
    "inconclusive": "◐",
    "needs measurement": "○",
    FAILED: "!",
    MISSING: "…",
}
"""Verdicts by shape, where there is no colour."""
SET = (
    (re.compile(r"(?<=\w)'(?=\w)"), "’"),
    (re.compile(r"(?<![\w.)\]])-(?=\d)"), words.MINUS),
)
"""How plain text is set: apostrophes and minus signs."""
MARKED = (
    (re.compile(r"\b([A-Za-z])_(?:\(([^()]{1,5})\)|(max|min|ij|[A-Za-z0-9])\b)"), r"\1<sub>\2\3</sub>"),
    (re.compile(r"\^(?:\(([^()]{1,9})\)|(\d+(?:\.\d+)?))"), r"<sup>\1\2</sup>"),
)
"""How escaped text is marked up: W_V, n_(L-1) and 10^(1/L)."""
SHOWN = [item.name for item in fields(Finding) if item.name not in {"table", "draw", "posterior"}]


@dataclass(frozen=True)
class Entry:
    """One claim on the index: its findings as written to its folder, or the reason why there are none."""

    id: str
    claim: Claim | None
    findings: tuple[Finding, ...] = ()
    inputs_sha: str = ""
    error: str = ""


def folder_of(claim: str) -> str:
    """Folder of a claim's pages within the report."""
    return claim.lower()


def findings_name(claim: str) -> str:
    """File of a claim's findings within the report."""
    return f"{folder_of(claim)}/findings.json"


def claim_files(run: Run, script: str, script_sha: str, inputs_sha: str) -> dict[str, bytes]:
    """Files of one claim by name within the report: pages, figures, tables, findings."""
    assert run.claim is not None  # noqa: S101
    folder = folder_of(run.claim.id)
    files: dict[str, bytes] = {}
    views = []
    for number, finding in enumerate(run.findings, 1):
        suffix = "" if number == 1 else f"-{number}"
        view: dict[str, Any] = {"finding": finding, "number": number, "figure": "", "table": None}
        if number in run.figures:
            view["figure"] = f"figure{suffix}.svg"
            files[f"{folder}/{view['figure']}"] = run.figures[number]
        if finding.table is not None:
            view["table"] = _table(finding.table, f"table{suffix}.csv")
            files[f"{folder}/table{suffix}.csv"] = finding.table.to_csv(index=False, lineterminator="\n").encode()
        view["compared"] = words.comparison(_numbers(finding.published), _numbers(finding.reproduced))
        views.append(view)
    shared = {
        "claim": run.claim, "views": views, "script": script, "script_sha": script_sha, "inputs_sha": inputs_sha,
        "code_sha": code_sha(), "machine": machine(), "selections": len(run.selections),
        "corrected": corrected(run.findings),
    }  # fmt: skip
    files[f"{folder}/index.html"] = _html().get_template("claim.html").render(shared).encode()
    files[f"{folder}/index.md"] = _markdown().get_template("claim.md").render(shared).encode()
    content = {"claim": asdict(run.claim), "inputs_sha": inputs_sha, "findings": [_plain(f) for f in run.findings]}
    files[findings_name(run.claim.id)] = (
        json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    ).encode()
    return files


def corrected(findings: Sequence[Finding]) -> bool:
    """True where a note says that the claim's rule was corrected after its test was run."""
    return any(note.startswith(CORRECTED) for finding in findings for note in finding.notes)


def read_entry(content: bytes) -> Entry:
    """Entry of a claim from its file of findings."""
    read = json.loads(content)
    findings = tuple(Finding(**{**item, "notes": tuple(item["notes"])}) for item in read["findings"])
    return Entry(read["claim"]["id"], Claim(**read["claim"]), findings, read["inputs_sha"])


def index_files(
    entries: Sequence[Entry],
    measured: pd.DataFrame,
    inconsistencies: pd.DataFrame,
    reconciliation: pd.DataFrame,
    sources: pd.DataFrame,
) -> dict[str, bytes]:
    """Files about all claims: `index.html`, `index.md`, `findings.csv`.

    measured: rows of the table `features` of the runs measured by this package.
    """
    adjusted = adjusted_p_values(entries)
    rows = [_row(entry, adjusted) for entry in entries]
    tally = Counter(row["verdict"] for row in rows)
    shared = {
        "rows": rows, "tally": [(word, tally[word]) for word in (*VERDICTS, FAILED, MISSING) if tally[word]],
        "family": len(adjusted), "inconsistencies": inconsistencies.to_dict("records"),
        "kinds": sorted(Counter(inconsistencies["kind"]).items()), "fates": _fates(reconciliation),
        "sources": len(sources), "machine": machine(), "code_sha": code_sha(),
        "measured": measured_table(measured), "beyond": supported_but_not_adjusted(entries, adjusted),
        "corrected": ", ".join(entry.id for entry in entries if corrected(entry.findings)),
        "one_sided": ", ".join(row["id"] for row in rows if row["holm"] and row["side"]),
    }  # fmt: skip
    return {
        "index.html": _html().get_template("index.html").render(shared).encode(),
        "index.md": _markdown().get_template("index.md").render(shared).encode(),
        "findings.csv": store.to_csv(findings_table(entries), "findings"),
    }


def adjusted_p_values(entries: Sequence[Entry]) -> dict[str, float]:
    """Holm-adjusted p-values of the claims whose first finding rests on a p-value, by claim."""
    family = {
        entry.id: float(entry.findings[0].probability)
        for entry in entries
        if entry.findings
        and words.is_p_value(entry.findings[0].probability_kind)
        and entry.findings[0].probability is not None
    }
    return holm(family) if family else {}


def supported_but_not_adjusted(entries: Sequence[Entry], adjusted: Mapping[str, float]) -> str:
    """One sentence that names claims supported by their rule whose adjusted p is above `LEVEL`; empty: none."""
    named = [
        f"{entry.id} (p {words.relation(adjusted[entry.id])})"
        for entry in entries
        if not entry.error
        and entry.findings
        and entry.findings[0].verdict == SUPPORTED
        and adjusted.get(entry.id, 0.0) > LEVEL
    ]
    if not named:
        return ""
    who = "One claim is supported by its" if len(named) == 1 else f"{len(named)} claims are supported by their"
    return f"{who} own rule with an adjusted p above {LEVEL:g}: {'; '.join(named)}."


def measured_table(features: pd.DataFrame) -> dict[str, Any] | None:
    """Gains that this package measured itself, one row a model, prompt set and precision; None where there are none."""
    rows = features.dropna(subset=list(MEASURED_GAINS), how="all") if len(features) else features
    if rows.empty:
        return None
    shown = pd.DataFrame({
        "model": rows["model_id"], "lab": rows["heritage"], "L": rows["n_layers"],
        "prompts": rows["prompt_set"] + " (" + rows["n_prompts"].astype(str) + ")", "dtype": rows["dtype"],
    })  # fmt: skip
    return _table(shown.assign(**{label: rows[gain] for gain, label in MEASURED_GAINS.items()}), "", len(shown))


def findings_table(entries: Sequence[Entry]) -> pd.DataFrame:
    """Table `findings`: one row per claim and estimand, named figures as canonical JSON."""
    columns = list(store.dtypes("findings"))
    rows = []
    for entry in entries:
        for number, finding in enumerate(entry.findings):
            row = {**asdict(finding), "headline": number == 0, "inputs_sha": entry.inputs_sha}
            for name in ("published", "reproduced"):
                row[name] = json.dumps(row[name], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            rows.append([row[column] for column in columns])
    return store.validate(pd.DataFrame(rows, columns=columns), "findings")


def _row(entry: Entry, adjusted: Mapping[str, float]) -> dict[str, Any]:
    primary = entry.findings[0] if entry.findings else None
    verdict = primary.verdict if primary and not entry.error else FAILED if entry.error else MISSING
    return {
        "id": entry.id, "claim": entry.claim, "folder": folder_of(entry.id), "verdict": verdict, "error": entry.error,
        "finding": None if entry.error else primary, "more": max(0, len(entry.findings) - 1),
        "holm": words.relation(adjusted[entry.id]) if entry.id in adjusted else "",
        "side": "one-sided" if primary and "one-sided" in primary.probability_kind else "",
    }  # fmt: skip


def _fates(reconciliation: pd.DataFrame) -> list[tuple[str, int]]:
    numbers = reconciliation.groupby("fate", sort=False)["numbers"].sum()
    return [(str(fate), int(total)) for fate, total in numbers.sort_values(ascending=False).items()]


def _table(table: pd.DataFrame, name: str, most: int = ROWS_SHOWN) -> dict[str, Any]:
    """A finding's table with its cells as text; columns of numbers are set to the right."""
    columns = [column for _, column in table.items()]
    right = [pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column) for column in columns]
    cells = [_cells(column) for column in columns]
    rows = [list(row) for row in zip(*(column[:most] for column in cells), strict=True)]
    return {
        "name": name,
        "columns": list(zip(map(str, table.columns), right, strict=True)),
        "rows": rows,
        "count": len(table),
    }


def _cells(column: pd.Series) -> list[str]:
    """Cells of a column as text; numbers that are all whole have no decimals."""
    whole = pd.api.types.is_float_dtype(column) and bool((column.dropna() % 1 == 0).all())
    return [_cell(value) for value in (column.astype("Int64") if whole else column)]


def _cell(value: Any) -> str:
    if pd.api.types.is_bool(value):
        return "yes" if value else "no"
    if pd.api.types.is_integer(value):
        return f"{int(value):,}".replace("-", words.MINUS)
    if pd.api.types.is_float(value):
        return words.number(float(value), 4)
    return "" if value is None or value is pd.NA or value is pd.NaT else str(value)


def _numbers(figures: Mapping[str, float]) -> dict[str, float]:
    """Named figures as plain numbers."""
    return {name: float(value) for name, value in figures.items()}


def _plain(finding: Finding) -> dict[str, Any]:
    """A finding without its table and figure, fit for JSON."""
    return {name: _fit(getattr(finding, name)) for name in SHOWN}


def _fit(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _fit(item) for name, item in value.items() if _fit(item) is not None}
    if isinstance(value, tuple | list):
        return [_fit(item) for item in value]
    if pd.api.types.is_integer(value):
        return int(value)
    if pd.api.types.is_float(value):
        return float(value) if math.isfinite(value) else None
    return value


@cache
def _html() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("thermostats.reporting"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    _equip(environment)
    environment.filters["symbols"] = _symbols
    return environment


def _symbols(text: str) -> Markup:
    """Escaped text with its symbols set as symbols."""
    for pattern, replacement in SET:
        text = pattern.sub(replacement, text)
    marked = str(escape(text))
    for pattern, replacement in MARKED:
        marked = pattern.sub(replacement, marked)
    return Markup(marked)  # noqa: S704


@cache
def _markdown() -> jinja2.Environment:
    """Every value that a template prints is escaped for Markdown."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("thermostats.reporting"), autoescape=False, undefined=jinja2.StrictUndefined,  # noqa: S701
        finalize=words.markdown, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    _equip(environment)
    return environment


def _equip(environment: jinja2.Environment) -> None:
    environment.globals.update(signs=SIGNS, doi=DOI)
    environment.filters.update(
        number=words.number, estimate=words.estimate_text, probability=words.probability_text, range=words.range_text,
        first_sentences=words.first_sentences, figure=words.figure, count=lambda value: f"{value:,}",
        slug=lambda text: str(text).replace(" ", "-"),
    )  # fmt: skip

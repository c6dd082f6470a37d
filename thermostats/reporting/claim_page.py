"""Pages of one claim: HTML and Markdown, its figures, tables and findings as files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import pandas as pd

from thermostats import words
from thermostats.claims.claim import Claim
from thermostats.claims.finding import Finding
from thermostats.claims.scripts import is_own
from thermostats.errors import DataError
from thermostats.reporting import rendering
from thermostats.reporting.blocks import FigureView, Files, TableView
from thermostats.reporting.checklist import Checklist, checklist
from thermostats.reporting.freshness import machine
from thermostats.reporting.runner import Run
from thermostats.reporting.svg import inline
from thermostats.words import Compared

CORRECTED = "The rule was corrected after a review"
"""How the note begins that says so; without it a rule was fixed before its test was run."""
SHOWN = [item.name for item in fields(Finding) if item.name not in {"table", "draw", "posterior"}]
FITTED = (
    "model",
    "equations",
    "priors",
    "rule",
    "statement",
    "probability",
    "probability_error",
    "verdict",
    "concluded",
    "classical",
    "rows",
    "sources",
    "computation",
    "warnings",
    "seed",
    "versions",
)
"""What `findings.json` tells of a posterior beside its gate and summary."""


@dataclass(frozen=True)
class Entry:
    """One claim on the index: its findings as written to its folder, or the reason why there are none."""

    id: str
    claim: Claim | None
    findings: tuple[Finding, ...] = ()
    inputs_sha: str = ""
    error: str = ""
    posteriors: tuple[Mapping[str, Any] | None, ...] = ()
    """Of each finding what its file tells of the posterior."""


@dataclass(frozen=True)
class View:
    """A finding as its page shows it."""

    finding: Finding
    number: int
    figure: FigureView | None
    table: TableView | None
    compared: tuple[Compared, ...]
    checklist: Checklist | None


def folder_of(claim: str) -> str:
    """Folder of a claim's pages within the report."""
    return claim.lower()


def findings_name(claim: str) -> str:
    """File of a claim's findings within the report."""
    return f"{folder_of(claim)}/findings.json"


def claim_files(run: Run, script: str, hashes: Mapping[str, str]) -> dict[str, bytes]:
    """Files of one claim by name within the report; `hashes`: SHA-256 of `inputs`, `script` and `code`."""
    assert run.claim is not None  # noqa: S101
    folder = folder_of(run.claim.id)
    files = Files(folder)
    views = [_view(run, number, finding, files) for number, finding in enumerate(run.findings, 1)]
    shared = {
        "claim": run.claim,
        "views": views,
        "fitted": any(view.checklist for view in views),
        "script": script,
        "hashes": hashes,
        "machine": machine(),
        "selections": len(run.selections),
        "corrected": corrected(run.findings),
        "page": folder,
        "up": "../",
        "own": is_own(run.claim.id),
    }
    files.found[files.path("index.html")] = rendering.html("claim.html", **shared)
    files.found[files.path("index.md")] = rendering.markdown("claim.md", **shared)
    content = {
        "claim": asdict(run.claim),
        "inputs_sha": hashes["inputs"],
        "findings": [_plain(finding) for finding in run.findings],
    }
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    files.found[findings_name(run.claim.id)] = f"{text}\n".encode()
    return files.found


def corrected(findings: Sequence[Finding]) -> bool:
    """True where a note says that the claim's rule was corrected after its test was run."""
    return any(note.startswith(CORRECTED) for finding in findings for note in finding.notes)


def read_entry(content: bytes) -> Entry:
    """Entry of a claim from its file of findings.

    Raises DataError where it is damaged.
    """
    try:
        read = json.loads(content)
        posteriors = tuple(item.pop("posterior", None) for item in read["findings"])
        findings = tuple(Finding(**{**item, "notes": tuple(item["notes"])}) for item in read["findings"])
        return Entry(read["claim"]["id"], Claim(**read["claim"]), findings, read["inputs_sha"], "", posteriors)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(
            "the findings of a claim are damaged", got=str(error)[:80], next_step="thermostats report --all"
        ) from error


def _view(run: Run, number: int, finding: Finding, files: Files) -> View:
    assert run.claim is not None  # noqa: S101
    suffix = "" if number == 1 else f"-{number}"
    prefix = f"{files.folder}-{number}"
    figure = None
    if number in run.figures:
        figure = _figure(run.figures[number], f"figure{suffix}.svg", prefix, finding.caption or finding.plain, files)
    table = None
    if finding.table is not None:
        table = files.table(finding.table, f"Numbers behind finding {number}", f"table{suffix}.csv")
    fitted = None
    if finding.posterior is not None:
        stem = f"posterior{suffix}"
        panels = [
            _figure(svg, f"{stem}-{rendering.slug(panel.name)}.svg", f"{prefix}-{place}", panel.caption, files)
            for place, (panel, svg) in enumerate(zip(finding.posterior.panels, run.panels[number], strict=True), 1)
        ]
        fitted = checklist(finding, run.claim.rule, files, stem, panels)
    published, reproduced = (
        {name: float(value) for name, value in figures.items()} for figures in (finding.published, finding.reproduced)
    )
    return View(finding, number, figure, table, tuple(words.comparison(published, reproduced)), fitted)


def _figure(svg: bytes, name: str, prefix: str, caption: str, files: Files) -> FigureView:
    files.found[files.path(name)] = svg
    return FigureView(name, inline(svg, prefix, caption), caption)


def _plain(finding: Finding) -> dict[str, Any]:
    """A finding without its table and figures, fit for JSON."""
    plain = {name: _fit(getattr(finding, name)) for name in SHOWN}
    posterior = finding.posterior
    if posterior is None:
        return plain | {"posterior": None}
    told = {name: _fit(getattr(posterior, name)) for name in FITTED}
    tables = {"checks": posterior.gate.table(), "summary": posterior.summary, "diagnostics": posterior.diagnostics}
    rows = {name: [_fit(row) for row in table.to_dict("records")] for name, table in tables.items()}
    return plain | {"posterior": told | {"passes": posterior.gate.passes} | rows}


def _fit(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _fit(item) for name, item in value.items() if _fit(item) is not None}
    if isinstance(value, tuple | list):
        return [_fit(item) for item in value]
    if pd.api.types.is_bool(value):
        return bool(value)
    if pd.api.types.is_integer(value):
        return int(value)
    if pd.api.types.is_float(value):
        return float(value) if math.isfinite(value) else None
    return None if value is pd.NA else value

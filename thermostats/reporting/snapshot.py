"""The part of a report that is kept under version control: findings, index, and of each claim its
first screen.

It lies in a folder of its own within the report. A report leaves it as it is and says which
findings differ from it; `write_snapshot` writes it anew.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.claims.study import load_studies
from thermostats.formatting import format_number
from thermostats.reporting.pages import INDEX, SNAPSHOT, TABLE, name_folder
from thermostats.reporting.state import describe_machine, remove_files, versions, write_files
from thermostats.tables import store
from thermostats.tables.schemas import NURSERY, OURS

ERRORS = 4.0
"""Monte-Carlo errors of a difference above which two figures from draws differ."""
ROUNDING = 1e-6
"""Relative difference of figures that no draws enter: libraries sum in another order."""
PLAIN = ("estimate", "lower", "upper", "probability")
DRAWN = "posterior"
"""Figures that no draws enter, and the one that comes from draws."""
OF_A_CLAIM = re.compile(r"[a-z]\d\d\.(md|svg)")


def read_findings(path: Path) -> pd.DataFrame:
    """A table of findings that a report wrote."""
    return store.validate(store.read_typed(path, "findings"), "findings", path)


def list_differences(path: Path, now: pd.DataFrame, *, all_claims: bool = True) -> tuple[str, ...]:
    """Findings that differ from a snapshot's by more than chance and rounding explain, a line each.

    all_claims: the report is of all claims; else claims that it does not have are left out.
    """
    before = read_findings(path)
    before = before if all_claims else before[before["claim"].isin(now["claim"])]
    keys = ["finding", "evidence"]
    both = before.merge(now, on=keys, how="outer", suffixes=("_kept", "_now"), indicator="side")
    return tuple(chain.from_iterable(map(_compare_row, both.to_dict("records"))))


def find_redrawn(path: Path, now: pd.DataFrame) -> tuple[str, ...]:
    """Posteriors of the same inputs that PyMC drew both for a snapshot and now, and that chance
    does not reconcile."""
    before = read_findings(path)
    keys = ["finding", "evidence", "inputs_sha"]
    both = before.merge(now, on=keys, how="inner", suffixes=("_kept", "_now"))
    drawn = both[(both["drawn_kept"] != "") & (both["drawn_now"] != "")]
    lines = (_compare_figure(row, DRAWN) for row in drawn.to_dict("records"))
    return tuple(chain.from_iterable(lines))


def write_snapshot(
    out: Path, claims: Sequence[str], index: str, findings: bytes, pictures: Mapping[str, bytes]
) -> tuple[list[str], list[str]]:
    """Write the snapshot of a report that was built; names of the files written and of those
    removed.

    index: its Markdown. pictures: those that it shows, by name.
    """
    files = {TABLE: findings, INDEX: index.encode(), **pictures}
    for claim in claims:
        folder = name_folder(claim)
        page = out / folder / "index.md"
        figure = out / folder / "figure.svg"
        if page.is_file():
            screen = render_first_screen(claim, page.read_text(encoding="utf-8"))
            files[f"{folder}.md"] = screen.encode()
        if figure.is_file():
            files[f"{folder}.svg"] = figure.read_bytes()
    gone = []
    for path in (out / SNAPSHOT).glob("*"):
        if OF_A_CLAIM.fullmatch(path.name) and path.name not in files:
            gone.append(f"{SNAPSHOT}/{path.name}")
    written = write_files(out, {f"{SNAPSHOT}/{name}": files[name] for name in files})
    return written, remove_files(out, gone)


def render_first_screen(claim: str, page: str) -> str:
    """The head of a claim's page: verdict, reason, figure, published against recomputed, rule."""
    head = page.partition("\n## Details\n")[0]
    head = re.sub(r"!\[.*\]\(posterior[^)]*\)\n\n.*\n\n", "", head)
    head = head.replace(" · [Details](#details)", "").replace(": [details](#details).", ".")
    head = head.replace(" · [What the words mean](../methods.md)", "")
    head = re.sub(
        r"\[([^\]]*)\]\((?:\.\./(?:methods|worlds)\.md|(?:worlds|figures|other-sets)\.csv)\)",
        r"\1",
        head,
    )
    head = re.sub(r"\n## Specification curve\n.*?(?=\n## |\Z)", "", head, flags=re.DOTALL)
    head = head.replace(" · [Specification curve](#specification-curve)", "")
    head = head.replace("[rule changed](#history)", "rule changed")
    head = re.sub(r'\]\(figure\.svg( "[^"]*")?\)', f"]({name_folder(claim)}.svg)", head)
    head = head.replace("](../index.md)", "](index.md)")
    head = re.sub(r"\nFull precision: \[[\w-]+\.csv\]\([\w-]+\.csv\)\n", "", head)
    return (
        f"{head.rstrip()}\n\n`thermostats report {claim}` writes the whole page: numbers, fit, "
        f"checks, sensitivity.\n"
    )


def _compare_row(row: Mapping[str, object]) -> Iterator[str]:
    name = _name_row(row)
    if row["side"] != "both":
        yield f"{name}: {'no longer found' if row['side'] == 'left_only' else 'new'}"
        return
    if row["verdict_kept"] != row["verdict_now"]:
        yield f"{name}: {row['verdict_kept']}, now {row['verdict_now']}"
    for what in PLAIN:
        yield from _compare_figure(row, what)
    # what PyMC drew for the snapshot need not be drawn now
    if not row["drawn_kept"] or row["drawn_now"]:
        yield from _compare_figure(row, DRAWN)


def _compare_figure(row: Mapping[str, object], what: str) -> Iterator[str]:
    """A line where a figure is another now, by more than rounding and Monte-Carlo errors."""
    before = convert_number(row[f"{what}_kept"])
    after = convert_number(row[f"{what}_now"])
    if math.isnan(before) and math.isnan(after):
        return
    allowed = ROUNDING * max(abs(before), abs(after), 1e-3)
    if what == DRAWN:
        errors = [convert_number(row[f"mc_error_{side}"]) for side in ("kept", "now")]
        allowed += ERRORS * float(np.hypot(*np.nan_to_num(errors)))
    if not abs(before - after) <= allowed:
        name = _name_row(row)
        yield f"{name}: {what} {format_number(before, 6)}, now {format_number(after, 6)}"


def _name_row(row: Mapping[str, object]) -> str:
    words = (str(row["finding"]), str(row["evidence"]))
    return " of ".join(filter(None, words))


def convert_number(value: object) -> float:
    if value is None or value is pd.NA:
        return math.nan
    return float(str(value))


OF_STUDY = "the study whose figures are in the tables and whose claims are tested"
BUILT_ON = "what that study builds on: the stream as a sum, sheaves and their Laplacians"
OF_OTHERS = "rows joined from this source; add its authors"


@dataclass(frozen=True)
class Citation:
    """One BibTeX entry."""

    kind: str
    key: str
    fields: dict[str, str]
    why: str
    """What it was used for."""

    def __str__(self) -> str:
        """The entry with its reason before it."""
        fields = [f"  {name} = {{{value}}}" for name, value in self.fields.items()]
        lines = ",\n".join(fields)
        return f"% {self.why}\n@{self.kind}{{{self.key},\n{lines}\n}}\n"


def list_citations(data: str | Path | None = None) -> tuple[Citation, ...]:
    """What to cite for the rows of a data folder and what is fitted to them."""
    runs = store.load("runs", data)
    sources = store.load("sources", data)
    used = set(runs["source"])
    published = sources[sources["file"].isin(used)]
    stated = (files("thermostats.reporting") / "citations.toml").read_text("utf-8")
    citations = tomllib.loads(stated)
    if not used & {OURS, NURSERY}:
        del citations["transformers"]
    package, *libraries = (Citation(key=key, **entry) for key, entry in citations.items())
    package.fields["version"] = describe_machine()["thermostats"]
    for library in libraries:
        if installed := versions(library.key):
            library.fields["note"] = f"version {installed[library.key]}"
    dois = set(published["doi"])
    works = []
    for study in load_studies().values():
        if study.literature.published.get("doi") in dois:
            works.append(study.literature)
    entries = [(work.published, OF_STUDY) for work in works]
    for work in works:
        entries += [(entry, BUILT_ON) for entry in work.builds_on]
    papers = []
    for entry, why in entries:
        facts = {name: entry[name] for name in entry if name != "key"}
        papers.append(Citation("misc", entry["key"], facts, why))
    joined = []
    for number, name in enumerate(sorted(used - {OURS, NURSERY, *published["file"]}), 1):
        joined.append(Citation("misc", f"source{number}", {"title": f"{{{name}}}"}, OF_OTHERS))
    return package, *papers, *libraries, *joined


def citations(data: str | Path | None = None) -> str:
    """Give BibTeX entries of what to cite for the rows of a folder and for fits to them.

    Parameters
    ----------
    data : str or Path
        A user's folder, whose sources are among them.

    Returns
    -------
    str
        Each entry with its reason.

    Raises
    ------
    UsageError
        For a folder that does not exist.

    Examples
    --------
    >>> import thermostats
    >>> "10.5281/zenodo.18165365" in thermostats.citations()
    True
    """
    return "\n".join(map(str, list_citations(data)))

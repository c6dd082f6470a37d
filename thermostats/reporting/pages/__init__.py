"""Pages of the report, a module each, and the list of those about all claims: what is not in it no
page leads to.

A page is a line of `PAGES` and a module of its name with a function `build_files(tables)`, which
returns
files by name, `NAME.md` among them; its template is `templates/NAME.md`. It is made in a process of
its own, and again where rows changed. A study brings pages of its own alike (`Study.pages`); they
come before these, and the index leads to them.

Pages marked `at_once` show nothing but what findings and settings say. They are made in turn
when all else is there, by `reporting/build.py`, which has a line for each.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from thermostats.errors import UsageError
from thermostats.formatting import join_words
from thermostats.next_steps import write_command
from thermostats.tables.choices import FIRST_MODEL, OWN_ROWS
from thermostats.tables.folders import has_own_runs


@dataclass(frozen=True)
class ReportPage:
    """What the report knows of a page about all claims before the page is made."""

    title: str
    """Text of links to it."""
    in_navigation: bool = True
    """Every page leads to it, where the report has it; else the index alone does."""
    at_once: bool = False
    """Made from findings by `reporting/build.py`; else by `build_files(tables)` of its module."""


PAGES: Mapping[str, ReportPage] = {
    "index": ReportPage("All claims", at_once=True),
    "growth": ReportPage("Why the stream grows", at_once=True),
    "sources": ReportPage("Sources", in_navigation=False),
    "atlas": ReportPage("Layer atlas"),
    "lineage": ReportPage("Tree of descent"),
    "causes": ReportPage("Rival causes"),
    "interventions": ReportPage("What can be changed"),
    "next": ReportPage("What would settle it"),
    "worlds": ReportPage("Simulated worlds", in_navigation=False, at_once=True),
    "methods": ReportPage("Methods", at_once=True),
    "data": ReportPage("Data", at_once=True),
    "bundle": ReportPage("All in one file", in_navigation=False, at_once=True),
}
"""Pages about all claims by name, in the order in which pages lead to them; the bundle, which holds
others, is last."""

MANIFEST = "manifest.json"
CHECKSUMS = "MANIFEST.sha256"
SECONDS = ".seconds.json"
SHIPPED_SECONDS = "seconds.json"
"""In the snapshot's folder: seconds of every claim and page of a report made from nothing
(`benchmarks/report.py`)."""
TABLE = "findings.csv"
BEFORE = "findings-before.csv"
"""The table as it was until the rows of the report changed last."""
MADE_OF = ".made-of.json"
"""Folders of rows and analyses that the report was last made of; empty: those that ship."""
WORLDS_TABLE = "worlds.csv"
"""Of a claim's folder: the simulated worlds in which its rules were tried."""
INDEX = "index.md"
SNAPSHOT = "snapshot"
"""Folder within the report of what is kept of it under version control."""


def name_folder(claim: str) -> str:
    """Folder of a claim's pages within the report."""
    return claim.lower()


def name_single_file(script: Path) -> str:
    """File of a claim's page for sending: `c03-heritage-sign.html` of the script
    `c03_heritage_sign.py`."""
    return f"{script.stem.replace('_', '-')}.html"


def name_findings_file(claim: str) -> str:
    """File of a claim's findings within the report."""
    return f"{name_folder(claim)}/findings.json"


def name_worlds_file(claim: str) -> str:
    """File of the simulated worlds of a claim's rules within the report."""
    return f"{name_folder(claim)}/{WORLDS_TABLE}"


def find_findings_file(out: Path) -> Path:
    """Table of the findings of a folder's last report; of its snapshot where none was made here."""
    snapshot = out / SNAPSHOT / TABLE
    own = out / TABLE
    return snapshot if snapshot.is_file() and not own.is_file() else own


def check_written(out: Path, claims: Sequence[str] | None = None) -> None:
    """Raise UsageError where a folder holds no report."""
    if not find_findings_file(out).is_file():
        folder = None if out == Path("reports") else out
        line = write_command("report", *(claims or ["--all"]), out=folder)
        raise UsageError(
            "no report yet", where=out, next_step=f"name another with --out, or make it: {line}"
        )


def has_own_findings(out: Path) -> bool:
    """Whether a folder's report has findings on rows of the user's own."""
    path = find_findings_file(out)
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", newline="") as file:
        return any(row["evidence"] == OWN_ROWS for row in csv.DictReader(file))


def read_origin(out: Path) -> dict[str, str]:
    """What a report says that it was made of (`State.note_origin`); empty where it does not."""
    try:
        noted = json.loads((out / MADE_OF).read_bytes())
        return {name: str(noted[name]) for name in ("data", "analyses", "rows")}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


OWN_FOLDER = "mine"
"""What pages and messages call a data folder of one's own."""


def refuse_own_findings(out: Path, claims: Sequence[str], *, some: bool) -> NoReturn:
    """Raise UsageError: own rows are asked for, and a report has no finding on them.

    The next line names the folders that the report was made of, where these are known. Of claims
    that it has put to own rows, it says what these lack.

    claims: those that were asked for. some: whether the report has such findings of other claims.
    """
    origin = read_origin(out)
    analyses = origin.get("analyses")
    data = origin.get("data") or (None if has_own_runs() else OWN_FOLDER)
    place = out if out != Path("reports") else None
    what = "this report has no findings on your own rows"
    asked = [(out / name_findings_file(claim)).is_file() for claim in claims]
    if some or (origin.get("data") and asked and all(asked)):
        what = f"{join_words(claims)}: nothing was found on your own rows"
        step = write_command("needs", claims[0], data=data)
    elif data is None or (Path(data).is_dir() and has_own_runs(data)):
        step = write_command(
            "report", *(claims or ["--all"]), analyses=analyses, data=data, out=place
        )
    else:
        step = write_command("measure", FIRST_MODEL, data=data)
    raise UsageError(what, where=out, got=f"evidence {OWN_ROWS}", next_step=step)

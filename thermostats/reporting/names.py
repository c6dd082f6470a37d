"""What files and folders of a report are called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from thermostats.errors import UsageError
from thermostats.next_steps import command

MANIFEST, CHECKSUMS, SECONDS = "manifest.json", "MANIFEST.sha256", ".seconds.json"
SHIPPED_SECONDS = "seconds.json"
"""In the snapshot's folder: seconds of every claim and page of a report made from nothing (`benchmarks/report.py`)."""
TABLE, INDEX = "findings.csv", "index.md"
SNAPSHOT = "snapshot"
"""Folder within the report of what is kept of it under version control."""


def folder_of(claim: str) -> str:
    """Folder of a claim's pages within the report."""
    return claim.lower()


def single_name(script: Path) -> str:
    """File of a claim's page for sending: `c03-heritage-sign.html` of the script `c03_heritage_sign.py`."""
    return f"{script.stem.replace('_', '-')}.html"


def findings_name(claim: str) -> str:
    """File of a claim's findings within the report."""
    return f"{folder_of(claim)}/findings.json"


def findings_file(out: Path) -> Path:
    """Table of the findings of a folder's last report; of its snapshot where none was made here."""
    snapshot = out / SNAPSHOT / TABLE
    return snapshot if snapshot.is_file() and not (out / TABLE).is_file() else out / TABLE


def check_written(out: Path, claims: Sequence[str] | None = None) -> None:
    """Raise UsageError where a folder holds no report."""
    if not findings_file(out).is_file():
        step = f"{command('report', *(claims or ['--all']))}, or name another with --out"
        raise UsageError("no report yet", where=out, next_step=step)

"""What files and folders of a report are called, and which of them are a snapshot's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from thermostats.errors import UsageError

MANIFEST, CHECKSUMS, SECONDS = "manifest.json", "MANIFEST.sha256", ".seconds.json"
IGNORE = ".gitignore"
"""Makes a folder one that holds a snapshot."""
TABLE, INDEX = "findings.csv", "index.md"
NOW = "findings-now.csv"
"""Findings of the last report in a folder whose `findings.csv` is a snapshot's."""


def folder_of(claim: str) -> str:
    """Folder of a claim's pages within the report."""
    return claim.lower()


def findings_name(claim: str) -> str:
    """File of a claim's findings within the report."""
    return f"{folder_of(claim)}/findings.json"


def findings_file(out: Path) -> Path:
    """Table of the findings of the last report of a folder."""
    return out / NOW if (out / NOW).is_file() else out / TABLE


def check_written(out: Path, claims: Sequence[str] | None = None) -> None:
    """Raise UsageError where a folder holds no report."""
    if not findings_file(out).is_file():
        step = f"thermostats report {' '.join(claims or ['--all'])}, or name another with --out"
        raise UsageError("no report yet", where=out, next_step=step)

"""The findings of the last report, as a table for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from thermostats.errors import UsageError, listed, unknown
from thermostats.reporting.names import NOW, TABLE, findings_file
from thermostats.reporting.snapshot import read_findings


def findings(claims: str | Sequence[str] | None = None, *, out: str | Path = "reports") -> pd.DataFrame:
    """Verdicts of the last report, one row a finding, each claim's headline first; columns as in the table `findings`.

    claims: one id such as C04, or several, whatever their case; None: all. out: folder the report was written to.

    Raises UsageError where no report is there or it has no such claim, DataError where its table is damaged.
    """
    folder, wanted = Path(out), listed(claims, "claims")
    check_written(folder)
    table = read_findings(findings_file(folder))
    if wanted is not None:
        there = sorted(set(table["claim"]))
        for claim in wanted:
            check_claim(claim, there)
        table = table[table["claim"].isin([claim.upper() for claim in wanted])]
    return table.sort_values(["claim", "headline"], ascending=[True, False], kind="stable", ignore_index=True)


def check_written(out: Path) -> None:
    """Raise UsageError where a folder holds no report."""
    if not any((out / name).is_file() for name in (NOW, TABLE)):
        raise UsageError("no report yet", where=out, next_step="thermostats report --all, or name another with --out")


def check_claim(claim: str, there: Sequence[str]) -> None:
    """Raise UsageError for a claim that a report does not have."""
    if claim.upper() not in there:
        raise unknown("the report has no such claim", claim, there, otherwise=f"thermostats report {claim.upper()}")

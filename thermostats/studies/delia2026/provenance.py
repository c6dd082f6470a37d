"""What the import of a file found, in one sentence."""

from __future__ import annotations

from thermostats.claims.evidence import Evidence
from thermostats.words import number


def follows(tables: Evidence, source: str) -> str:
    """How many of a file's derived figures follow from its own rows, and how many do not."""
    rows = tables.table("reconciliation", file=source, fate="derivable")
    wrong = tables.table("inconsistencies", file=source, kind="does not follow")
    worst = float(rows["largest_difference"].max()) if len(rows) else 0.0
    close = "all exactly" if worst == 0 else f"all within a relative difference of {number(worst, 1)}"
    failed = f"; figures about it that do not follow: {len(wrong)}" if len(wrong) else ""
    return f"{source}: {int(rows['numbers'].sum())} derived figures follow from its rows, {close}{failed}."

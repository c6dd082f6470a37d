"""The findings of the last report, as a table for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from thermostats.claims.scripts import chosen
from thermostats.errors import listed
from thermostats.reporting.names import check_written, findings_file
from thermostats.reporting.snapshot import read_findings
from thermostats.tables.evidence_sets import ALL, check_set, is_asked


def findings(
    claims: str | Sequence[str] | None = None, *, evidence: str | None = None, out: str | Path = "reports"
) -> pd.DataFrame:
    """Verdicts of the last report, one row per finding, each claim's headline first; columns as in table `findings`.

    claims: one id such as C04, or several, whatever their case; None: all. evidence: the set that questions were put to
    (`published`, `external`, `measured`, `pooled`, `nursery`); None: of each question the set it was first asked of,
    `all`: every set. out: folder the report was written to.

    Raises UsageError where no report is there, it has no such claim or there is no such set, DataError where its table
    is damaged.
    """
    folder, wanted = Path(out), listed(claims, "claims")
    check_written(folder, wanted)
    check_set(evidence, ALL)
    table = read_findings(findings_file(folder))
    of = chosen(wanted, dict.fromkeys(sorted(set(table["claim"])), folder))
    table = table[table["claim"].isin(of)]
    pairs = zip(table["evidence"], table["view_of"], strict=True)
    table = table[[is_asked(evidence, name, first) for name, first in pairs]]
    return table.sort_values(["claim", "headline"], ascending=[True, False], kind="stable", ignore_index=True)

"""Verdicts of the last report as a table: `thermostats.findings`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from thermostats.claims.study import choose_claims
from thermostats.errors import make_list
from thermostats.reporting.changed import find_changes
from thermostats.reporting.pages import check_written, find_findings_file, refuse_own_findings
from thermostats.reporting.snapshot import read_findings
from thermostats.tables.choices import ALL, OWN_ROWS, check_set, is_asked


def findings(
    claims: str | Sequence[str] | None = None,
    *,
    evidence: str | None = None,
    changed: bool = False,
    out: str | Path = "reports",
) -> pd.DataFrame:
    """Read the verdicts of the last report, one row per finding, each claim's headline first.

    Parameters
    ----------
    claims : str or sequence of str
        One id such as C04, or several, whatever their case; None: all.
    evidence : str
        The set that questions were put to, such as `published` or `own` (`thermostats ls evidence`
        lists them); None: of each question the set it was first asked of, `all`: every set.
    changed : bool
        Those alone that moved since the report's rows changed last, as by `join`, before and now,
        on every set; claims that are stale are made again first.
    out : str or Path
        Folder the report was written to.

    Returns
    -------
    DataFrame
        Columns as in table `findings`. Of what changed `attrs["compared_with"]` says what it is
        compared with: without an earlier state the findings that ship.

    Raises
    ------
    UsageError
        Where no report is there, it has no such claim or there is no such set.
    DataError
        Where its table is damaged.

    Examples
    --------
    The findings that ship with the package are in a folder of their own:

    >>> import thermostats
    >>> from thermostats.tables.folders import find_shipped
    >>> table = thermostats.findings(["C03", "C22"], out=find_shipped("reports") / "snapshot")
    >>> table.loc[table["headline"], ["claim", "verdict"]]
      claim        verdict
    0   C03  not supported
    2   C22  not supported
    """
    folder = Path(out)
    wanted = make_list(claims, "claims")
    if changed:
        changes = find_changes(wanted, evidence=evidence, out=folder)
        changes.table.attrs["compared_with"] = changes.compared_with
        return changes.table
    check_written(folder, wanted)
    check_set(evidence, ALL)
    table = read_findings(find_findings_file(folder))
    of = choose_claims(wanted, dict.fromkeys(sorted(set(table["claim"])), folder))
    there = (table["evidence"] == OWN_ROWS).any()
    table = table[table["claim"].isin(of)]
    pairs = zip(table["evidence"], table["view_of"], strict=True)
    table = table[[is_asked(evidence, name, first) for name, first in pairs]]
    if evidence == OWN_ROWS and table.empty:
        refuse_own_findings(folder, wanted or [], some=bool(there))
    return table.sort_values(
        ["claim", "headline"], ascending=[True, False], kind="stable", ignore_index=True
    )

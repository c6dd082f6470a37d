"""Sets of evidence: which measurements a question is put to. Sets share models; they are views, not replications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thermostats.errors import unknown
from thermostats.tables.schemas import EXTERNAL, NURSERY

if TYPE_CHECKING:
    import pandas as pd

PUBLISHED, MEASURED, POOLED = "published", "measured", "pooled"
SETS = {
    PUBLISHED: "what a study's own files say",
    EXTERNAL: "other people's measurements, each with its source and licence",
    MEASURED: "every model measured here or joined by the user",
    POOLED: "published, external and measured together, all measurements of a model in one estimate",
    NURSERY: "the controlled study",
}
"""Sets of evidence and what is in each."""
DECODER = "decoder"
"""What sets are of, where no other modality is asked for: the studies' statements are about decoders."""
ALL = "all"
"""Findings on every set."""


def check_set(name: str | None, *more: str) -> None:
    """Raise UsageError where there is no such set of evidence."""
    if name not in {None, *SETS, *more}:
        raise unknown("no such set of evidence", str(name), [*SETS, *more])


def is_asked(evidence: str | None, of: str, view_of: str) -> bool:
    """Whether a finding is asked for: None of the set that its question was first asked of, `all` of every set."""
    return not view_of if evidence is None else evidence in (ALL, of)


def origin(source: pd.Series[str], published: set[str]) -> pd.Series[str]:
    """Who measured, by source: the files of a study are one instrument and count as one source, `published`."""
    return source.mask(source.isin(published), PUBLISHED)


def in_set(name: str, rows: pd.DataFrame, published: set[str], runs: pd.DataFrame) -> pd.Series[bool]:
    """Which rows with a `source` are of a set; what no run measured is of every set but the controlled study's.

    published: sources that are files of a study. runs: all runs, which say which sources are other people's.
    """
    source = rows["source"]
    if name == NURSERY:
        return source == NURSERY
    here = source != NURSERY
    if name == POOLED or "run_id" not in rows:
        return here
    theirs, others = source.isin(published), source.isin(runs.loc[runs["measure_version"] == EXTERNAL, "source"])
    if name in (PUBLISHED, EXTERNAL):
        return theirs if name == PUBLISHED else others
    return here & ~theirs & ~others

"""Rows of several sources in one set: which labs one source alone measured, and which columns a set lacks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd

from thermostats.claims.evidence import PUBLISHED, Evidence
from thermostats.formatting import listed, plural

READS = {
    "gains": "layers.gain_block",
    "weights": "weights.spectral_norm",
    "outputs": "outputs.entropy",
    "attention": "attention.trace",
}
"""Kinds of measurement that claims read, and the column that holds each."""
LAST = "last"
"""Token position at which claims read gains."""
STUDY = "the study's files"
"""The source `published` in words."""


def coincidence(evidence: Evidence, models: Collection[str]) -> str:
    """A sentence that names labs which one source alone measured; empty in a set of one source, and where none is.

    models: those that a question reads. What holds of such a lab holds of its source as well. Labs are new that the
    study did not measure.
    """
    if len(evidence.sources(models)) < 2:
        return ""
    by_lab = sources_by_lab(evidence, models)
    alone = {str(lab): next(iter(sources)) for lab, sources in by_lab.items() if len(sources) == 1}
    every = set().union(*by_lab)
    if not alone or len(every) < 2:
        return ""
    new = {lab for lab, sources in by_lab.items() if PUBLISHED not in sources}
    if PUBLISHED in every and new and new <= set(alone) and len({alone[lab] for lab in new}) == 1:
        sentence = f"In this set every new lab comes from one source: {listed(sorted(new))} from {alone[min(new)]}."
    else:
        by_source = {source: sorted(lab for lab in alone if alone[lab] == source) for source in sorted(alone.values())}
        parts = [f"{listed(labs)} by {STUDY if source == PUBLISHED else source}" for source, labs in by_source.items()]
        counted = f"{len(alone)} of {plural(len(by_lab), 'lab')}"
        sentence = f"In this set one source alone measured {counted}: {'; '.join(parts)}."
    return f"{sentence} What sets such a lab apart may be due to its source."


def sources_by_lab(evidence: Evidence, models: Collection[str]) -> pd.Series:
    """Who measured each lab's models, as sets of sources by lab: those with rows of gains or of weights."""
    runs = measuring_runs(evidence)
    runs = runs[runs["model_id"].isin(list(models))]
    return evidence.origin(runs["source"]).groupby(runs["heritage"]).agg(set)


def measuring_runs(evidence: Evidence) -> pd.DataFrame:
    """Runs of a set with gains at the last token, norms of weights or summaries."""
    key = ("measuring runs", evidence.name)
    if key not in evidence.memo:
        rows = [evidence.table("layers", position=LAST), evidence.table("weights"), evidence.table("summaries")]
        runs = evidence.table("runs")
        evidence.memo[key] = runs[runs["run_id"].isin(set().union(*(set(frame["run_id"]) for frame in rows)))]
    measuring: pd.DataFrame = evidence.memo[key]
    return measuring


def lacking(evidence: Evidence, columns: Sequence[str]) -> list[str]:
    """Columns, as `table.column`, of which a set has no value; of gains those at the last token count.

    Of the table summaries a column stands for an estimand, such as `summaries.normed_gain`.
    """

    def values(name: str) -> int:
        table, _, column = name.partition(".")
        if table == "summaries":
            return len(evidence.table(table, estimand=column))
        rows = evidence.table(table, **({"position": LAST} if table == "layers" else {}))
        return int(rows[column].notna().sum())

    return [name for name in columns if not values(name)]

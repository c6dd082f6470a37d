"""The rows that an analysis reads: tables under a named selection, with a record of every
selection."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.claims.study import named, studies
from thermostats.formatting import listed, plural
from thermostats.tables.choices import MEASURED, POOLED, PUBLISHED, SETS
from thermostats.tables.folders import shipped
from thermostats.tables.reading import Selection
from thermostats.tables.schemas import EXTERNAL, NURSERY

__all__ = [
    "EXTERNAL",
    "MEASURED",
    "POOLED",
    "PUBLISHED",
    "ROWS",
    "SETS",
    "TIMINGS",
    "VIEWS",
    "Evidence",
]
ROWS: Mapping[str, frozenset[str]] = {
    NURSERY: frozenset({NURSERY}),
    "measured": frozenset({MEASURED}),
    "study": frozenset({PUBLISHED, NURSERY}),
    "study and measured": frozenset({PUBLISHED, NURSERY, MEASURED}),
    "study, external and measured": frozenset({PUBLISHED, NURSERY, MEASURED, EXTERNAL, POOLED}),
}
"""What a claim may say of whose rows it reads, `Rows:` of its words, with the sets of evidence that
its findings and views may then have. A user's rows are measured ones."""
VIEWS = tuple(name for name in SETS if name != PUBLISHED)
"""Sets that a question about published models is put to as well."""
TIMINGS = ("sheaf-exponents", "sheaf-dense")
"""Times that an analysis shows, of one machine: `benchmarks/sheaf_cost.py` writes them to
data/timings."""


class Evidence(Selection):
    """The tables of a data folder as an analysis sees them; records every selection of rows that it
    hands out."""

    def __init__(self, data: str | Path | None = None, name: str = "") -> None:
        super().__init__(data, name)
        self.selections: dict[str, str] = {}
        self.memo: dict[Any, Any] = {}
        """What shared functions have computed, and the selections that they read."""
        self._digests: dict[str, str] = {}

    def fork(self) -> Evidence:
        """The same tables, loaded once for both, with no selection remembered."""
        other = Evidence(self.data)
        other._files, other._loaded, other._digests = self._files, self._loaded, self._digests
        return other

    def table(self, name: str, **equals: str | list[str]) -> pd.DataFrame:
        """Rows as `Selection.table` hands them out, remembered; tables of studies and TIMINGS are
        read too."""
        selected = self._select(name, equals)
        self._remember(
            json.dumps([name, equals, *[self.name] * bool(self.name)], sort_keys=True), selected
        )
        return selected

    def named(self, name: str) -> Evidence:
        """The same tables as another set of evidence; what either hands out is remembered in
        both."""
        other = self.fork()
        other.name, other.selections, other.memo = name, self.selections, self.memo
        return other

    def with_rows(self, rows: Mapping[str, pd.DataFrame]) -> Evidence:
        """The same set with further rows of its tables, as a study to come would have them; nothing
        is written, and of these rows nothing is remembered here."""
        other = self.fork()
        other.name = self.name
        more = {name: pd.concat([self._table(name), own]) for name, own in rows.items()}
        other._files = {**self._files, **{k: v.reset_index(drop=True) for k, v in more.items()}}
        other._loaded, other._digests = {}, {}
        return other

    def without(self, source: str) -> Evidence:
        """The same set without the rows of one source; of these rows nothing is remembered."""
        key = ("without", self.name, source)
        if key not in self.memo:
            other = self.fork()
            other.name, other.left_out = self.name, source
            self.memo[key] = other
        evidence: Evidence = self.memo[key]
        return evidence

    def sources(self, models: Collection[str]) -> list[str]:
        """Who measured some models of the set: sources by name, the files of a study as one."""
        runs = self.table("runs")
        return sorted(set(self.origin(runs.loc[runs["model_id"].isin(list(models)), "source"])))

    @contextmanager
    def recording(self) -> Iterator[dict[str, str]]:
        """Selections handed out meanwhile, by name; they are remembered afterwards as all others
        are."""
        before, self.selections = self.selections, {}
        try:
            yield self.selections
        finally:
            before.update(self.selections)
            self.selections = before

    def columns(self) -> set[str]:
        """Columns of all tables that were read so far."""
        return {str(label) for frame in self._loaded.values() for label in frame}

    def changed(self, selections: Mapping[str, str]) -> bool:
        """True where any of the remembered selections has other rows by now."""
        return any(self._digest(selection) != digest for selection, digest in selections.items())

    def _remember(self, selection: str, selected: pd.DataFrame) -> None:
        if self.left_out:  # the whole set has been read, and is remembered
            return
        if selection not in self._digests:
            csv = selected.to_csv(index=False, lineterminator="\n")
            self._digests[selection] = hashlib.sha256(csv.encode()).hexdigest()
        self.selections[selection] = self._digests[selection]

    def _digest(self, selection: str) -> str:
        if selection not in self._digests:
            name, equals, *of = json.loads(selection)
            other = self.fork().named(of[0]) if of else self.fork()
            other._remember(selection, other._select(name, equals))
        return self._digests[selection]

    def _read(self, name: str) -> pd.DataFrame:
        beside = _beside_the_schema(name)
        return super()._read(name) if beside is None else beside


def _beside_the_schema(name: str) -> pd.DataFrame | None:
    """A table of a study, or times; None for any other name."""
    for study in studies().values():
        if name in study.tables:
            table: pd.DataFrame = named(study.read_table)(study.tables[name])
            return table
    return pd.read_csv(shipped("data") / "timings" / f"{name}.csv") if name in TIMINGS else None


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
    """A sentence that names labs which one source alone measured; empty in a set of one source, and
    where none is.

    models: those that a question reads. What holds of such a lab holds of its source as well. Labs
    are new that the study did not measure.
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
        sentence = (
            f"In this set every new lab comes from one source: {listed(sorted(new))} from "
            f"{alone[min(new)]}."
        )
    else:
        by_source = {
            source: sorted(lab for lab in alone if alone[lab] == source)
            for source in sorted(alone.values())
        }
        parts = [
            f"{listed(labs)} by {STUDY if source == PUBLISHED else source}"
            for source, labs in by_source.items()
        ]
        counted = f"{len(alone)} of {plural(len(by_lab), 'lab')}"
        sentence = f"In this set one source alone measured {counted}: {'; '.join(parts)}."
    return f"{sentence} What sets such a lab apart may be due to its source."


def sources_by_lab(evidence: Evidence, models: Collection[str]) -> pd.Series:
    """Who measured each lab's models, as sets of sources by lab: those with rows of gains or of
    weights."""
    runs = measuring_runs(evidence)
    runs = runs[runs["model_id"].isin(list(models))]
    return evidence.origin(runs["source"]).groupby(runs["heritage"]).agg(set)


def measuring_runs(evidence: Evidence) -> pd.DataFrame:
    """Runs of a set with gains at the last token, norms of weights or summaries."""
    key = ("measuring runs", evidence.name)
    if key not in evidence.memo:
        rows = [
            evidence.table("layers", position=LAST),
            evidence.table("weights"),
            evidence.table("summaries"),
        ]
        runs = evidence.table("runs")
        evidence.memo[key] = runs[
            runs["run_id"].isin(set().union(*(set(frame["run_id"]) for frame in rows)))
        ]
    measuring: pd.DataFrame = evidence.memo[key]
    return measuring


def lacking(evidence: Evidence, columns: Sequence[str]) -> list[str]:
    """Columns, as `table.column`, of which a set has no value; of gains those at the last token
    count.

    Of the table summaries a column stands for an estimand, such as `summaries.normed_gain`.
    """

    def values(name: str) -> int:
        table, _, column = name.partition(".")
        if table == "summaries":
            return len(evidence.table(table, estimand=column))
        rows = evidence.table(table, **({"position": LAST} if table == "layers" else {}))
        return int(rows[column].notna().sum())

    return [name for name in columns if not values(name)]

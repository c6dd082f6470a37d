"""The rows that an analysis reads: tables under a named selection, with a record of every selection."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.claims.study import named, studies
from thermostats.tables.evidence import MEASURED, POOLED, PUBLISHED, SETS
from thermostats.tables.folders import shipped
from thermostats.tables.selection import Selection
from thermostats.tables.vocabulary import EXTERNAL, NURSERY

__all__ = ["EXTERNAL", "MEASURED", "POOLED", "PUBLISHED", "ROWS", "SETS", "TIMINGS", "VIEWS", "Evidence"]
ROWS: Mapping[str, frozenset[str]] = {
    NURSERY: frozenset({NURSERY}),
    "measured": frozenset({MEASURED}),
    "study": frozenset({PUBLISHED, NURSERY}),
    "study and measured": frozenset({PUBLISHED, NURSERY, MEASURED}),
    "study, external and measured": frozenset({PUBLISHED, NURSERY, MEASURED, EXTERNAL, POOLED}),
}
"""What a claim may say of whose rows it reads, `Rows:` of its words, with the sets of evidence that its findings and
views may then have. A user's rows are measured ones."""
VIEWS = tuple(name for name in SETS if name != PUBLISHED)
"""Sets that a question about published models is put to as well."""
TIMINGS = ("sheaf-exponents", "sheaf-dense")
"""Times that an analysis shows, of one machine: `benchmarks/sheaf_cost.py` writes them to data/timings."""


class Evidence(Selection):
    """The tables of a data folder as an analysis sees them; records every selection of rows that it hands out."""

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
        """Rows as `Selection.table` hands them out, remembered; tables of studies and TIMINGS are read too."""
        selected = self._select(name, equals)
        self._remember(json.dumps([name, equals, *[self.name] * bool(self.name)], sort_keys=True), selected)
        return selected

    def named(self, name: str) -> Evidence:
        """The same tables as another set of evidence; what either hands out is remembered in both."""
        other = self.fork()
        other.name, other.selections, other.memo = name, self.selections, self.memo
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
        """Selections handed out meanwhile, by name; they are remembered afterwards as all others are."""
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

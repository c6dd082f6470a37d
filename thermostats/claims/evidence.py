"""The rows that an analysis reads: tables under a named selection, with a record of every selection."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.claims.study import named, studies
from thermostats.errors import UsageError
from thermostats.tables import store
from thermostats.tables.evidence import DECODER, MEASURED, POOLED, PUBLISHED, REPLICATED, SETS, in_set
from thermostats.tables.features import combine
from thermostats.tables.folders import shipped
from thermostats.tables.vocabulary import NURSERY

__all__ = ["MEASURED", "POOLED", "PUBLISHED", "REPLICATED", "SETS", "TIMINGS", "VIEWS", "Evidence"]
VIEWS = tuple(name for name in SETS if name != PUBLISHED)
"""Sets that a question about published models is put to as well."""
RUN_COLUMNS = ["run_id", "model_id", "revision", "prompt_set", "source"]
MODEL_COLUMNS = ["model_id", "revision", "heritage", "family", "modality"]
TIMINGS = ("sheaf-exponents", "sheaf-dense")
"""Times that an analysis shows, of one machine: `benchmarks/sheaf_cost.py` writes them to data/timings."""


class Evidence:
    """The tables of a data folder as an analysis sees them; records every selection of rows that it hands out.

    The texts of prompts are left out, since they are not on every machine; their hashes represent them.
    """

    def __init__(self, data: str | Path | None = None, name: str = "") -> None:
        self.data, self.name = store.data_folder(data), name
        self.selections: dict[str, str] = {}
        self.memo: dict[Any, Any] = {}
        """What shared functions have computed, and the selections that they read."""
        self._files: dict[str, pd.DataFrame] = {}
        self._loaded: dict[str, pd.DataFrame] = {}
        self._digests: dict[str, str] = {}

    def fork(self) -> Evidence:
        """The same tables, loaded once for both, with no selection remembered."""
        other = Evidence(self.data)
        other._files, other._loaded, other._digests = self._files, self._loaded, self._digests
        return other

    def table(self, name: str, **equals: str | list[str]) -> pd.DataFrame:
        """Rows of table `name` whose columns have the given values (one, or one of a list); all rows without.

        Run-keyed tables can be selected by the columns of `runs` and `models` too (`source`, `model_id`, `heritage`),
        which are then joined in. `features` is a table too: one row per model and source (`tables/features.py`).
        Models that are no decoders are handed out, with the column `modality`, where they are asked for by it alone.
        In the controlled study a recipe stands in the place of the lab (`heritage`).
        Without `source` only rows of the named set are handed out. Tables of studies and TIMINGS are read too.
        """
        selected = self._select(name, equals)
        self._remember(json.dumps([name, equals, *[self.name] * bool(self.name)], sort_keys=True), selected)
        return selected

    def named(self, name: str) -> Evidence:
        """The same tables as another set of evidence; what either hands out is remembered in both."""
        other = self.fork()
        other.name, other.selections, other.memo = name, self.selections, self.memo
        return other

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

    def _select(self, name: str, equals: Mapping[str, str | list[str]]) -> pd.DataFrame:
        frame = self._joined(name)
        if "source" in frame and "source" not in equals:
            frame = frame[in_set(self.name or POOLED, frame, set(self._table("sources")["file"]), self._table("runs"))]
        if "modality" in frame and name != "prompts" and "modality" not in equals:
            frame = frame[frame["modality"].fillna(DECODER) == DECODER].drop(columns="modality")
        if self.name == NURSERY and {"heritage", "family"} <= set(frame):
            frame = frame.assign(heritage=frame["family"])
        for label, wanted in equals.items():
            if label not in frame:
                raise UsageError(f"table {name} cannot be selected by {label!r}", allowed=", ".join(frame.columns))
            frame = frame[frame[label].isin(wanted if isinstance(wanted, list) else [wanted])]
        return frame.reset_index(drop=True)

    def _joined(self, name: str) -> pd.DataFrame:
        if name not in self._loaded:
            frame = self._features() if name == "features" else self._table(name)
            if "run_id" in frame and name not in {"runs", "features"}:
                frame = frame.merge(self._table("runs")[RUN_COLUMNS], on="run_id", how="left")
            if "model_id" in frame and "revision" in frame and name not in {"models", "features"}:
                frame = frame.merge(self._table("models")[MODEL_COLUMNS], on=["model_id", "revision"], how="left")
            self._loaded[name] = frame
        return self._loaded[name]

    def _features(self) -> pd.DataFrame:
        names = ("runs", "models", "layers", "summaries", "transitions", "weights")
        return combine(**{name: self._table(name) for name in names})

    def _table(self, name: str) -> pd.DataFrame:
        if name not in self._files:
            frame = _beside_the_schema(name)
            frame = store.load(name, self.data) if frame is None else frame
            self._files[name] = frame.assign(text="") if name == "prompts" else frame
        return self._files[name]


def _beside_the_schema(name: str) -> pd.DataFrame | None:
    """A table of a study, or times; None for any other name."""
    for study in studies().values():
        if name in study.tables:
            table: pd.DataFrame = named(study.read_table)(study.tables[name])
            return table
    return pd.read_csv(shipped("data") / "timings" / f"{name}.csv") if name in TIMINGS else None

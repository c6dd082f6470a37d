"""The tables of a data folder under a named set of evidence: what questions are put to, by analyses and by users."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from thermostats.errors import UsageError, some_of
from thermostats.tables import store
from thermostats.tables.evidence import DECODER, POOLED, in_set, origin
from thermostats.tables.features import combine
from thermostats.tables.runs import superseded
from thermostats.tables.schemas import RUN_TABLES
from thermostats.tables.vocabulary import NURSERY

RUN_COLUMNS = ["run_id", "model_id", "revision", "prompt_set", "source"]
MODEL_COLUMNS = ["model_id", "revision", "heritage", "family", "modality", "quantised"]
OF_FACTS = "lineage"
"""Table whose source is who states a fact of a model, whichever set that is measured in."""


class Selection:
    """Tables of a data folder, each loaded once, and the set of evidence that rows are handed out of.

    The texts of prompts are left out, since they are not on every machine; their hashes represent them.
    """

    def __init__(self, data: str | Path | None = None, name: str = "") -> None:
        self.data, self.name = store.data_folder(data), name
        self.left_out = ""
        """Source whose rows are not handed out."""
        self._files: dict[str, pd.DataFrame] = {}
        self._loaded: dict[str, pd.DataFrame] = {}

    def table(self, name: str, **equals: str | list[str]) -> pd.DataFrame:
        """Rows of table `name` whose columns have the given values (one, or one of a list); all rows without.

        Run-keyed tables can be selected by the columns of `runs` and `models` too (`source`, `model_id`, `heritage`),
        which are then joined in. `features` is a table too: one row per model and source (`tables/features.py`).
        Models that are no decoders are handed out, with the column `modality`, where they are asked for by it alone.
        In the controlled study a recipe stands in the place of the lab (`heritage`).
        Without `source` only rows of the named set are handed out.
        """
        return self._select(name, equals)

    def origin(self, source: pd.Series[str]) -> pd.Series[str]:
        """Who measured, by source; see `tables.evidence.origin`."""
        return origin(source, set(self._table("sources")["file"]))

    def _select(self, name: str, equals: Mapping[str, str | list[str]]) -> pd.DataFrame:
        frame = self._joined(name)
        if "source" in frame and "source" not in equals and name != OF_FACTS:
            frame = frame[in_set(self.name or POOLED, frame, set(self._table("sources")["file"]), self._table("runs"))]
        if self.left_out and {"run_id", "source"} <= set(frame):
            frame = frame[self.origin(frame["source"]) != self.left_out]
        if "modality" in frame and name != "prompts" and "modality" not in equals:
            frame = frame[frame["modality"].fillna(DECODER) == DECODER].drop(columns="modality")
        if self.name == NURSERY and {"heritage", "family"} <= set(frame):
            frame = frame.assign(heritage=frame["family"])
        for label, wanted in equals.items():
            if label not in frame:
                raise UsageError(f"table {name} cannot be selected by {label!r}", allowed=some_of(frame.columns, label))
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
            frame = self._standing(name, self._read(name))
            self._files[name] = frame.assign(text="") if name == "prompts" else frame
        return self._files[name]

    def _standing(self, name: str, frame: pd.DataFrame) -> pd.DataFrame:
        """Rows of a table without those of runs that were measured again."""
        if name != "runs" and name not in RUN_TABLES:
            return frame
        runs = frame if name == "runs" else self._read("runs")
        old = set(runs.loc[superseded(runs), "run_id"])
        return frame[~frame["run_id"].isin(old)] if old else frame

    def _read(self, name: str) -> pd.DataFrame:
        return store.load(name, self.data)

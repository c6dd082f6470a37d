"""What an analysis is and what it returns: the records `Claim` and `Finding`, and the tables an analysis reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from thermostats.errors import UsageError
from thermostats.tables import store


@dataclass(frozen=True)
class Claim:
    """One claim of the study and the rule by which it is judged, written before the data are looked at."""

    id: str
    title: str
    said: str
    """What the study says, in our words, with its figures."""
    estimand: str
    """The quantity the verdict rests on, in words."""
    rule: str
    """When the claim counts as supported, when as not supported; everything else is inconclusive."""
    source: str
    """Section or figure of the preprint, and files."""


@dataclass(frozen=True)
class Finding:
    """What the tables say on one estimand of one claim; a row of the table `findings`.

    `published` and `reproduced` are named figures with the same names where a figure could be recomputed; a name that
    is only in `published` could not. `lower` and `upper` are of the kind and level that `interval` names. `plain` is one
    paragraph that a non-statistician can quote, with every number formatted from the computed values.
    """

    claim: str
    estimand: str
    verdict: str
    plain: str
    published: Mapping[str, float] = field(default_factory=dict)
    reproduced: Mapping[str, float] = field(default_factory=dict)
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    interval: str = ""
    probability: float | None = None
    n_models: int = 0
    n_heritages: int = 0
    rhat_max: float | None = None
    ess_min: float | None = None
    divergences: int | None = None
    notes: tuple[str, ...] = ()
    """Further sentences for the page: which computation gives the published figure, what the data cannot decide."""
    table: pd.DataFrame | None = None
    """The numbers behind the verdict, shown on the page."""
    draw: Callable[..., object] | None = None
    """Draws the finding's figure onto the matplotlib axes it is given."""
    caption: str = ""
    """What the figure shows and what was estimated; its alt text."""


class Tables:
    """The tables of a data folder as an analysis sees them; remembers every selection of rows it handed out."""

    def __init__(self, data: str | Path | None = None) -> None:
        self.data = store.data_folder(data)
        self.selections: dict[str, str] = {}
        self._loaded: dict[str, pd.DataFrame] = {}

    def read(self, name: str, **equals: str | list[str]) -> pd.DataFrame:
        """Rows of table `name` whose columns have the given values (one, or one of a list); all rows without.

        Run-keyed tables can be selected by the columns of `runs` and `models` too (`source`, `model_id`, `heritage`),
        which are then joined in.
        """
        selected = self._select(name, equals)
        self.selections[json.dumps([name, equals], sort_keys=True)] = _digest(selected)
        return selected

    def changed(self, selections: Mapping[str, str]) -> bool:
        """True where any of the remembered selections has other rows by now."""
        return any(_digest(self._select(*json.loads(selection))) != digest for selection, digest in selections.items())

    def _select(self, name: str, equals: Mapping[str, str | list[str]]) -> pd.DataFrame:
        frame = self._table(name)
        if "run_id" in frame and name != "runs":
            frame = frame.merge(self._table("runs")[["run_id", "model_id", "revision", "prompt_set", "source"]], on="run_id", how="left")
        if "model_id" in frame and "revision" in frame and name != "models":
            frame = frame.merge(self._table("models")[["model_id", "revision", "heritage", "family"]], on=["model_id", "revision"], how="left")
        for label, wanted in equals.items():
            if label not in frame:
                raise UsageError(f"table {name} cannot be selected by {label!r}", allowed=", ".join(frame.columns))
            frame = frame[frame[label].isin(wanted if isinstance(wanted, list) else [wanted])]
        return frame.reset_index(drop=True)

    def _table(self, name: str) -> pd.DataFrame:
        if name not in self._loaded:
            self._loaded[name] = store.load(name, self.data)
        return self._loaded[name]


def _digest(frame: pd.DataFrame) -> str:
    return hashlib.sha256(frame.to_csv(index=False, lineterminator="\n").encode()).hexdigest()

"""What a side of a rule is worth: its attained level held against the worst worlds in which it is false.

`make worlds` makes the table by `levels.py`; reports read it. A side is given where its level is at most 5% and below
α* of the plausible box; where it would not be given in the hostile box, the verdict carries that condition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from thermostats.claims.levels import (
    BOUNDS,
    HERE,
    HOSTILE,
    PLAUSIBLE,
    POWER,
    TIPPED,
    TIPPING,
    WANTED,
    Search,
    calibrated,
    named,
    plain,
    point_of,
    worlds_of,
)
from thermostats.claims.noise import ERRORS, column_words, groups_of
from thermostats.claims.question import Question
from thermostats.claims.rule import ALPHA
from thermostats.claims.verdict import SUPPORTED, Verdict
from thermostats.claims.worlds.world import Point, half
from thermostats.formatting import declared, listed, plural
from thermostats.tables.folders import shipped

FAIR = 0.5
"""Power at the declared size below which an open verdict is one of too little data."""
EXPENSIVE = 20.0
"""CPU-seconds that `thermostats report --calibrate` may take for one finding."""
RETRIED = 2
"""Worst worlds that it simulates on the rows at hand."""
COLUMNS = {
    **dict.fromkeys(("rule", "side", "box", "point", "words", "digest"), str),
    **dict.fromkeys(("n_models", "studies"), int),
    **dict.fromkeys(("rate", *BOUNDS, "power", "models_wanted", "groups_wanted"), float),
}
ORDER = ("rule", "n_models", "side", "box", "point", "words", "studies", "rate", *BOUNDS)
ORDER += ("power", "models_wanted", "groups_wanted", "digest")
NUISANCES = {
    "ar": "neighbours in {column} err alike ({value})",
    "ratio": "SDs differ {value} times along {column}",
    "between": "{value} of the errors' variance lies between {groups}",
    "alike": "{value} of the variance of log odds lies between groups",
    "shared": "{value} of the errors' variance is a prompt's in all models",
    "families": "{value} of the errors' variance lies between families",
    "mean": "the mean lies {value} half-widths of its interval off",
}
"""Nuisances in words; others by their name and value."""
TITLES = {
    "ar": "correlation of neighbours in {column}",
    "ratio": "ratio of SDs along {column}",
    "between": "share of the errors' variance between {groups}",
    "alike": "share of the variance of log odds between groups",
    "shared": "share of the errors' variance that prompts have in all models",
    "families": "share of the errors' variance between families",
    "mean": "half-widths of its interval by which the mean is off",
}
"""The same as headings of their tipping points."""
PERCENT = ("between", "alike", "shared", "families")


@dataclass(frozen=True)
class Side:
    """One side of a rule on one design: its rows of the table."""

    rows: pd.DataFrame

    def limit(self, box: str = PLAUSIBLE) -> float:
        """α*: the level below which the side is given, in the worst world of a box; NaN where that is not known."""
        of_box = self.rows[self.rows["box"] == box]
        return float(of_box["bound_05"].min()) if len(of_box) else math.nan

    def gives(self, level: float, box: str = PLAUSIBLE) -> bool:
        """Whether a level is small enough; where no world was tried 5% alone decides."""
        limit = self.limit(box)
        return level <= ALPHA and (math.isnan(limit) or level < limit)

    def p(self, level: float) -> str:
        """p in the worst plausible world, in classes; empty where it is not known."""
        of_box = self.rows[self.rows["box"] == PLAUSIBLE]
        if of_box.empty:
            return ""
        classes = (("< .001", "bound_001"), ("< .01", "bound_01"), ("≤ .05", "bound_05"))
        return next((words for words, column in classes if level < of_box[column].min()), "above .05")

    @property
    def worst(self) -> pd.Series | None:
        """The world in which the side is falsely given most often at 5%."""
        of_box = self.rows[self.rows["box"] == PLAUSIBLE]
        return of_box.loc[of_box["bound_05"].idxmin()] if len(of_box) else None

    @property
    def power(self) -> float:
        """How often the side is given at min(5%, α*) in the world of the declared size; NaN where not simulated."""
        known = self.rows.loc[self.rows["box"] == POWER, "power"]
        return float(known.iloc[0]) if len(known) else math.nan

    @property
    def wanted(self) -> tuple[float, float]:
        """Models and groups that would give a power of 0.8; NaN where that is not known."""
        known = self.rows[self.rows["box"] == POWER]
        return tuple(known[["models_wanted", "groups_wanted"]].iloc[0]) if len(known) else (math.nan, math.nan)

    def condition(self, question: Question, level: float) -> str:
        """What must not be so for a verdict of a level to stand: the hostile world in words; empty where it stands."""
        hostile = self.rows[(self.rows["box"] == HOSTILE) & (self.rows["bound_05"] <= level)]
        if hostile.empty:
            return ""
        point = point_of(hostile.loc[hostile["bound_05"].idxmin(), "point"])
        parts = [in_words(question, name, value) for name, value in point.items() if name in worlds_of(question).box]
        kind = ERRORS.get(str(point["kind"]), str(point["kind"]))
        return f"{listed([*filter(None, parts)])}, with {kind}" if any(parts) else f"with {kind}"

    def tipping(self, question: Question, level: float) -> tuple[str, ...]:
        """How far one nuisance is raised before a verdict of a level falls: others at rest and at half, in words.

        Normal errors first, then log-normal ones, where both were tried.
        """
        known = self.rows[self.rows["box"] == TIPPING]
        points = [(point_of(text), bound) for text, bound in zip(known["point"], known["bound_05"], strict=True)]
        return tuple(filter(None, (_tipping(question, points, name, level) for name in worlds_of(question).box)))


def _tipping(question: Question, points: Sequence[tuple[Point, float]], name: str, level: float) -> str:
    """The values of one nuisance, in either direction, at which a level is no longer small enough."""
    box, parts = worlds_of(question).box, []
    for end in box[name][1:]:
        for kind in TIPPED:
            falls = []
            for others in (0, 1):
                path = [
                    (abs(point[name] - box[name][0]), float(point[name]), limit)
                    for point, limit in points
                    if point["kind"] == kind and on_path(box, point, name, end, others)
                ]
                falls.append(_falls(sorted(path), level, _value(name, end)))
            if points and any(path for path in falls):
                parts.append(f"{' / '.join(falls)}{' with log-normal errors' * (kind != TIPPED[0])}")
    words = TITLES.get(name, name).format(**_places(question))
    return f"{words}: {'; '.join(parts)}" if parts else ""


def on_path(box: Mapping[str, tuple[float, ...]], point: Point, name: str, end: float, others: int) -> bool:
    """Whether a point lies between rest and one bound of a nuisance, with the other nuisances at rest, or at half."""
    rest = box[name][0]
    at = [(rest_of, half(other, rest_of, up)) for other, (rest_of, up, *_) in box.items() if other != name]
    beside = [point[other] for other in box if other != name]
    there = all(np.isclose(value, values[others]) for value, values in zip(beside, at, strict=True))
    return there and min(rest, end) - 1e-6 <= point[name] <= max(rest, end) + 1e-6


def _falls(path: Sequence[tuple[float, float, float]], level: float, end: str) -> str:
    """Where along a path (distance, value, α*) a level is no longer below α*, straight between two that were tried."""
    if not path:
        return ""
    before: tuple[float, float] | None = None
    for _, value, limit in path:
        if level >= limit:
            if before is None or limit >= before[1]:
                return declared(float(f"{value:.2g}"))
            part = (before[1] - level) / (before[1] - limit)
            return declared(float(f"{before[0] + part * (value - before[0]):.2g}"))
        before = (value, limit)
    return f"beyond {end}"


def _value(name: str, value: float) -> str:
    return f"{value:.0%}" if name in PERCENT else declared(float(f"{value:.2g}"))


def _places(question: Question) -> dict[str, str]:
    """Column and groups of a question's errors, in words."""
    errors = worlds_of(question).at().errors
    return {
        "column": column_words(getattr(errors, "along", "") or "place"),
        "groups": groups_of(getattr(errors, "group", "group")),
    }


def in_words(question: Question, name: str, value: float) -> str:
    """One nuisance in words; empty where it is at rest."""
    if value == worlds_of(question).box[name][0]:
        return ""
    shown = declared(1 / value) if name == "ratio" and value < 1 else _value(name, float(value))
    return NUISANCES.get(name, f"{name} is {{value}}").format(value=shown, **_places(question))


@dataclass(frozen=True)
class Calibration:
    """What is known of a rule on the rows at hand, or on the design nearest in size."""

    rows: pd.DataFrame
    size: int = 0
    """Rows of the design that was simulated."""
    here: int = 0
    """Rows at hand."""

    def side(self, verdict: Verdict) -> Side:
        """One side of the rule."""
        return Side(self.rows[self.rows["side"] == verdict])

    @property
    def tried(self) -> bool:
        """Whether the rule was tried at all."""
        return len(self.rows) > 0

    @property
    def provisional(self) -> str:
        """Why a verdict is provisional, in words; empty where it is none."""
        if not self.tried:
            return "its rule has not been tried in simulated worlds"
        if self.size == self.here:
            return ""
        return f"its limits are those of a design of {plural(self.size, 'row')}, the nearest to the {self.here:,} here"

    def takes(self, group: str, larger: str, least: int = 0) -> str:
        """What a study takes that finds the declared effect mostly; empty where that is not known, or below `least`."""
        models, groups = self.side(SUPPORTED).wanted
        if math.isnan(models) or models <= least:
            return ""
        needed = plural(int(models), larger)
        needed += f" of {plural(int(groups), group)}" if larger == "model" else ""
        return f"{needed} would find an effect of the declared size in {WANTED:.0%} of simulations."


@cache
def table() -> pd.DataFrame:
    """The committed levels of every rule, design and world."""
    path = shipped("data") / "worlds.csv"
    if not path.is_file():
        return pd.DataFrame(columns=list(ORDER)).astype(COLUMNS)
    return pd.read_csv(path, dtype=COLUMNS).reindex(columns=list(ORDER)).fillna({"point": ""})


def of_design(question: Question, n: int) -> pd.DataFrame:
    """Rows of the table of this version of a rule on a design of so many rows; may be empty."""
    every = table()
    if question.trial is None or question.trial.worlds is None or every.empty:
        return every.iloc[:0]
    mine = (every["rule"] == question.key) & (every["n_models"] == n) & (every["digest"] == question.digest())
    return every[mine].reset_index(drop=True)


def nearest(question: Question, n: int) -> Calibration:
    """What is known of a rule on the design nearest in size to n rows that it was tried on."""
    sizes = table().loc[lambda frame: frame["rule"] == question.key, "n_models"].unique()
    by_size = {int(size): of_design(question, int(size)) for size in sizes}
    known = [size for size, rows in by_size.items() if len(rows)]
    if not known:
        return Calibration(of_design(question, n), n, n)
    size = min(known, key=lambda size: (abs(math.log(size / max(n, 1))), size))
    return Calibration(by_size[size], size, n)


def on_these(question: Question, rows: pd.DataFrame) -> Calibration:
    """What is known of a rule on rows of one's own: its two worst worlds simulated on them, or all where none is known.

    It takes at most about `EXPENSIVE` CPU-seconds.
    """
    known = nearest(question, len(rows))
    if known.tried and known.size == len(rows):
        return known
    if question.trial is None or question.trial.worlds is None:
        return known
    if not known.tried:
        made = list(calibrated(question, rows, HERE, EXPENSIVE / 100))
    else:
        worst = known.rows[known.rows["box"].isin([PLAUSIBLE, HOSTILE])].sort_values("bound_05")
        worst = worst.groupby(["side", "box"]).head(RETRIED)
        made = []
        for row in worst.itertuples():
            search = Search(question, plain(rows), Verdict(row.side), (), HERE, EXPENSIVE / len(worst))
            point = point_of(str(row.point))
            made.append({**search.simulated(point, str(row.box), HERE.fresh), "point": named(point)})
        power = known.rows[known.rows["box"] == POWER].to_dict("records")
        made += [{str(name): value for name, value in row.items()} for row in power]
    return Calibration(pd.DataFrame(made).reindex(columns=list(ORDER)), len(rows), len(rows))

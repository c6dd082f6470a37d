"""A world: a signal that says what is true and errors that hide it; and a family of worlds with its box of nuisances.

A family has a size (a correlation, a share, a shift) that goes from `null` to `claimed`, and nuisances, each with its
value at rest and its bounds. Whether a statement is true in a world is never written down: `claims/levels.py` computes
it from the rule's own numbers in large samples of that world.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.noise import (
    ERRORS,
    LARGEST_AR,
    LARGEST_RATIO,
    Array,
    Drawn,
    Errors,
    Noise,
    Random,
    Rng,
    column_words,
    groups_of,
)
from thermostats.claims.result import Estimate, Result
from thermostats.errors import DataError
from thermostats.formatting import declared, listed

Outcomes = dict[str, Array]
"""Columns that a world puts in the place of the measured ones, study × row."""
Signal = Callable[[pd.DataFrame, Noise, Random], Outcomes]
Point = Mapping[str, Any]
"""Size by name (`size`), kind of errors (`kind`) and nuisances."""
TOTAL = 0.2
"""Standard deviation of log gain between models: models differ by a factor e^0.2 = 1.2."""
NULL, CLAIMED = "null", "claimed"
AR, BETWEEN, SHARED = (0.0, LARGEST_AR), (0.0, 0.6), (0.0, 0.6)
RATIO = (1.0, LARGEST_RATIO, 1 / LARGEST_RATIO)
MEAN = (0.0, 1.0, -1.0)
"""Nuisances: the value at rest and the bounds. Correlation of neighbours' errors along a column; share of the errors'
variance between labs; share that a prompt has in all models; ratio of SDs at the ends of a column; the mean, see `Off`.
"""


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
PERCENT = ("between", "alike", "shared", "families")


@dataclass(frozen=True)
class World:
    """One kind of study: its signal and its errors."""

    words: str
    signal: Signal
    errors: Drawn
    large: Result | None = None
    """The rule's numbers in a sample without end, where they are known in closed form."""

    def draw(self, rows: pd.DataFrame, random: Random) -> Outcomes:
        """Outcomes of many studies on rows as measured."""
        return self.signal(rows, partial(self.errors.draw, random=random), random)

    def change(self, rows: pd.DataFrame, rng: Rng) -> pd.DataFrame:
        """Rows as measured with the outcomes of one study."""
        return rows.assign(**{name: values[0] for name, values in self.draw(rows, Random(rng)).items()})


@dataclass(frozen=True)
class Worlds:
    """A family of worlds, in which a rule is tried."""

    make: Callable[..., World]
    """The world of a size, a kind of errors (`kind=`) and every nuisance by the name that `box` has."""
    claimed: Any
    """The size that the claim states, or the smallest of interest: its power is the rule's."""
    null: Any = 0.0
    box: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Nuisances by name: value at rest, then its bounds in either direction."""
    kinds: tuple[str, ...] = tuple(ERRORS)
    others: Mapping[str, Any] = field(default_factory=dict)
    """Further sizes by name, such as another cause that is strong."""

    def size(self, name: str) -> Any:
        """A size by its name; a number as name is the part of the way from the null to what is claimed."""
        named = {NULL: self.null, CLAIMED: self.claimed, **self.others}
        return named[name] if name in named else _along(self.null, self.claimed, float(name))

    @property
    def graded(self) -> bool:
        """Whether there are sizes between the null and what is claimed."""
        return isinstance(self.null, float | int | tuple | Mapping)

    def at(self, size: str = CLAIMED, kind: str = "normal", **nuisances: float) -> World:
        """The world of a size by name; nuisances that are not named are at rest."""
        rest = {name: values[0] for name, values in self.box.items()}
        return self.make(self.size(size), kind=kind, **(rest | nuisances))

    def in_words(self, **nuisances: float) -> str:
        """Nuisances that are not at rest, in words."""
        errors, parts = self.at().errors, []
        column, groups = column_words(getattr(errors, "along", "")), groups_of(getattr(errors, "group", ""))
        for name, value in nuisances.items():
            up = 1 / value if name == "ratio" and value < 1 else value
            at = f"{value:.0%}" if name in PERCENT else declared(float(f"{up:.2g}"))
            words = NUISANCES.get(name, f"{name} is {{value}}").format(value=at, column=column, groups=groups)
            parts += [words] * (value != self.box[name][0])
        return listed(parts)

    def plausible(self) -> list[Point]:
        """At most one nuisance at its bound, the others at half of theirs or at rest."""
        points = []
        for ends in self._directions():
            levels = {name: (self.box[name][0], half(name, self.box[name][0], end), end) for name, end in ends.items()}
            for others in (0, 1):
                middle = {name: values[others] for name, values in levels.items()}
                points += [middle, *({**middle, name: value} for name in levels for value in levels[name])]
        return list({tuple(point.items()): point for point in points}.values())

    def hostile(self) -> list[Point]:
        """All nuisances at their bounds."""
        return list(self._directions())

    def _directions(self) -> Iterator[dict[str, float]]:
        """A bound of every nuisance, in each direction."""
        for ends in itertools.product(*(values[1:] for values in self.box.values())):
            yield dict(zip(self.box, ends, strict=True))


def half(name: str, rest: float, end: float) -> float:
    """Half of the way to a bound; of a ratio below 1 that of its inverse, 1/3 and 1/2 as 3 and 2."""
    if name == "ratio" and end < rest:
        return 1 / half(name, 1 / rest, 1 / end)
    return (rest + end) / 2


def _along(null: Any, claimed: Any, part: float) -> Any:
    """A size between two, of numbers, tuples or mappings of numbers."""
    if isinstance(null, Mapping):
        return {name: _along(null[name], claimed[name], part) for name in null}
    if isinstance(null, tuple):
        return tuple(_along(low, high, part) for low, high in zip(null, claimed, strict=True))
    if isinstance(null, str):
        raise DataError("a family of worlds without sizes between its two", got=null, allowed=f"{NULL}, {CLAIMED}")
    return null + part * (claimed - null)


def family(
    signal: Callable[..., Outcomes],
    words: str,
    outcome: str,
    at_rest: tuple[Any, Mapping[str, tuple[float, ...]]],
    claimed: Any,
    null: Any = 0.0,
    kinds: Sequence[str] = tuple(ERRORS),
    others: Mapping[str, Any] = MappingProxyType({}),
    quantity: str = "",
) -> Worlds:
    """Worlds of a signal that takes its size first, with errors whose nuisances are numbers of their own.

    words: with `{}` for the size. outcome: the column that a nuisance `mean` moves. at_rest: errors and box. quantity:
    what the rule calls the size, where its estimate in large samples is not that, for errors of measurement or a bound.
    """

    def make(size: Any, *, kind: str, mean: float | None = None, **nuisances: float) -> World:
        errors, made = replace(at_rest[0], kind=kind, **nuisances), partial(signal, size)
        named = words.format(in_words(size))
        if mean is None:
            large = Result(quantities={quantity: Estimate(size)}) if quantity else None
            return World(f"{named}, {errors.words}", made, errors, large)
        return World(f"{named}, {Off.place(mean)}, {errors.words}", Off(made, outcome, mean), errors)

    return Worlds(make, claimed, null, at_rest[1], tuple(kinds), others)


def in_words(size: Any) -> str:
    """A size in words."""
    if isinstance(size, str):
        return size
    if isinstance(size, Mapping):
        return ", ".join(f"{name} {declared(value)}" for name, value in size.items())
    return ", ".join(map(declared, size if isinstance(size, tuple) else (size,)))


def along(
    column: str = "", *, ordered: bool = True, group: str = "heritage", mean: bool = False
) -> tuple[Errors, dict[str, tuple[float, ...]]]:
    """Errors at rest along a column and in groups, with their nuisances.

    ordered: whether neighbours along the column may err alike. group: empty for none. mean: see `Off`.
    """
    box: dict[str, tuple[float, ...]] = {"ar": AR} if column and ordered else {}
    box |= {"ratio": RATIO} if column else {}
    box |= {"between": BETWEEN} if group else {}
    box |= {"mean": MEAN} if mean else {}
    return Errors(along=column, group=group or "heritage"), box


@dataclass(frozen=True)
class Off:
    """A signal about the measured outcomes' own mean, in their standard deviations, or off it.

    off: in half-widths of the 95% interval of that mean, so that from −1 to 1 it is where the data may have it.
    """

    signal: Signal
    outcome: str
    off: float

    def __call__(self, rows: pd.DataFrame, noise: Noise, random: Random) -> Outcomes:
        """Outcomes of the signal, moved by that mean."""
        measured = rows[self.outcome].to_numpy(np.float64)
        half_width = stats.t.ppf(0.975, len(rows) - 1) / len(rows) ** 0.5
        mean = measured.mean() / (measured.std(ddof=1) or 1.0) + self.off * half_width
        made = self.signal(rows, noise, random)
        return {**made, self.outcome: made[self.outcome] + TOTAL * mean}

    @staticmethod
    def place(off: float) -> str:
        """Where the mean is."""
        return f"mean {off:+.2g} half-widths of its 95% interval off the data's own" if off else "the data's own mean"


def standard(values: Array) -> Array:
    """Off their mean, with variance 1, along the last axis."""
    centred = values - values.mean(axis=-1, keepdims=True)
    spread = centred.std(axis=-1, keepdims=True)
    return np.asarray(centred / np.where(spread, spread, 1.0))

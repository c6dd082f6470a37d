"""Worlds of relations: an outcome goes with a column, along a line, within groups, by a mediator or by a curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.noise import (
    BY_PROMPT,
    ERRORS,
    LARGEST_AR,
    LARGEST_RATIO,
    Errors,
    Noise,
    PromptErrors,
    Rng,
    levels_of,
)
from thermostats.claims.worlds.searches import QUICK, Effort, Search
from thermostats.claims.worlds.world import TOTAL, Signal, World, claimed_or_not, kinds_with, standard
from thermostats.formatting import declared

MOVED = 0.8
"""Correlation of a mediator with what moves it."""


def worlds_of_line(outcome: str, predictor: str, r: float, levels: str = "") -> tuple[World, ...]:
    """An outcome that goes with a column at correlation `r` over the rows, as claimed, or not at all; every error.

    levels: a column whose values have levels of their own in one more world without a relation.
    """
    change = partial(_of_line, outcome, predictor)
    return claimed_or_not(change, (r, f"correlation {declared(r)}"), (0.0, "no relation"), kinds_with(levels))


def searches_of_line(
    outcome: str,
    predictor: str,
    r: float,
    *,
    name: str = "worst",
    kinds: Sequence[str] = tuple(ERRORS),
    effort: Effort = QUICK,
    **bounds: tuple[float, float],
) -> tuple[Search, Search]:
    """Where a rule of a line is looked at hardest: without a relation, and as claimed, with nuisances within bounds.

    ar: correlation of errors of neighbours along the predictor; ratio: of their standard deviation at its two ends;
    both unless said otherwise. On request, between: share of the errors' variance between labs; mean: of the outcome,
    as `Off` has it.
    """
    bounds = {"ar": (0.0, LARGEST_AR), "ratio": (1 / LARGEST_RATIO, LARGEST_RATIO), **bounds}
    made = partial(_line_with_nuisances, outcome, predictor)
    return (
        Search(f"{name}, no relation", False, partial(made, 0.0), bounds, tuple(kinds), effort),
        Search(f"{name}, as claimed", True, partial(made, r), bounds, tuple(kinds), effort),
    )


def _line_with_nuisances(
    outcome: str,
    predictor: str,
    r: float,
    *,
    kind: str,
    ar: float,
    ratio: float,
    between: float = 0.0,
    mean: float = math.nan,
) -> World:
    errors = Errors(kind, between, along=predictor, ar=ar, ratio=ratio)
    line: Signal = partial(_of_line, outcome, predictor, r)
    said = f"correlation {declared(r)}" if r else "no relation"
    if not math.isnan(mean):
        line, said = Off(line, outcome, mean), f"{said}, {Off.place(mean)}"
    return World("", f"{said}, {errors.words}", bool(r), line, errors)


@dataclass(frozen=True)
class Off:
    """A signal about the measured outcomes' own mean, in their standard deviations, or off it.

    off: in half-widths of the 95% interval of that mean, so that from −1 to 1 it is where the data may have it.
    """

    signal: Signal
    outcome: str
    off: float

    def __call__(self, rows: pd.DataFrame, noise: Noise, rng: Rng) -> pd.DataFrame:
        """Outcomes of the signal, moved by that mean."""
        measured = rows[self.outcome].to_numpy(np.float64)
        half = stats.t.ppf(0.975, len(rows) - 1) / len(rows) ** 0.5
        mean = measured.mean() / (measured.std(ddof=1) or 1.0) + self.off * half
        made = self.signal(rows, noise, rng)
        return made.assign(**{self.outcome: made[self.outcome] + TOTAL * mean})

    @staticmethod
    def place(off: float) -> str:
        """Where the mean is."""
        return f"mean {off:+.2g} half-widths of its 95% interval off the data's own" if off else "the data's own mean"


def worlds_in_groups(outcome: str, predictor: str, r: float, between: float) -> tuple[World, ...]:
    """An outcome that goes with a column at correlation `r`, as claimed, or not at all; every error.

    between: share of the variance that lies between labs (`heritage`), whatever the column does.
    """
    kinds = {kind: f"{words}, {between:.0%} of the variance between groups" for kind, words in ERRORS.items()}
    change = partial(_in_groups, outcome, predictor, between)
    return claimed_or_not(change, (r, f"correlation {declared(r)}"), (0.0, "no relation"), kinds)


def worlds_of_path(outcome: str, cause: str, mediator: str, r: float) -> tuple[World, ...]:
    """A cause that moves the mediator (r = 0.8) and an outcome that goes with the mediator alone, at correlation `r`.

    Where the statement does not hold the outcome goes with the cause itself, past the mediator; every error.
    """
    said, change = f"a correlation of {declared(r)} with the ", partial(_of_path, outcome, cause, mediator)
    return claimed_or_not(change, ((r, 0.0), said + "mediator"), ((0.0, r), said + "cause itself"))


def worlds_of_curve(outcome: str, claimed: str, null: str, r: float) -> tuple[World, ...]:
    """Positive outcomes whose log is a column, with errors at which it goes with it at `r`, or another; every error."""

    def change(column: str, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        sd = rows[claimed].std() * (1 / r**2 - 1) ** 0.5
        return rows.assign(**{outcome: np.exp(rows[column].to_numpy() + sd * noise(rows))})

    return claimed_or_not(change, (claimed, f"the curve as claimed, r = {declared(r)}"), (null, "no curve"))


def worlds_of_slopes(
    outcome: str, predictor: str, r: float, kinds: Sequence[str] = tuple(BY_PROMPT)
) -> tuple[World, ...]:
    """Values by prompt that go with a column at correlation `r` inside every model, or not at all."""

    def change(r: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        x = rows.groupby("model_id")[predictor].transform(standard).to_numpy(np.float64)
        return rows.assign(**{outcome: TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows))})

    own = {kind: BY_PROMPT[kind] for kind in kinds}
    return claimed_or_not(
        change, (r, f"correlation {declared(r)} inside models"), (0.0, "no relation"), own, PromptErrors
    )


def worlds_of_exponent(
    outcome: str, predictor: str, claimed: float, margin: float, scatter: float
) -> tuple[World, ...]:
    """A log outcome that rises with a log column at a slope as claimed, or off by a margin; errors of SD `scatter`."""

    def change(slope: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        x = rows[predictor].to_numpy(np.float64)
        return rows.assign(**{outcome: slope * (x - x.mean()) + scatter * noise(rows)})

    words = f"slope {declared(claimed)}, normal errors"
    true = World("as claimed", words, True, partial(change, claimed), Errors(), True)
    off = [(f"{kind}, {slope:g}", kind, slope) for kind in ERRORS for slope in (claimed - margin, claimed + margin)]
    return true, *(
        World(i, f"slope {declared(b)}, {ERRORS[kind]}", False, partial(change, b), Errors(kind)) for i, kind, b in off
    )


def _of_line(outcome: str, predictor: str, r: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
    x = standard(rows[predictor].to_numpy(np.float64))
    return rows.assign(**{outcome: TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows))})


def _in_groups(
    outcome: str, predictor: str, between: float, r: float, rows: pd.DataFrame, noise: Noise, rng: Rng
) -> pd.DataFrame:
    made = r * standard(rows[predictor].to_numpy(np.float64)) + (1 - r**2 - between) ** 0.5 * noise(rows)
    return rows.assign(**{outcome: TOTAL * (made + between**0.5 * standard(levels_of(rows, "heritage", rng)))})


def _of_path(
    outcome: str, cause: str, mediator: str, slopes: tuple[float, float], rows: pd.DataFrame, noise: Noise, rng: Rng
) -> pd.DataFrame:
    x = standard(rows[cause].to_numpy(np.float64))
    between = MOVED * x + (1 - MOVED**2) ** 0.5 * rng.normal(size=len(rows))
    through, past = slopes
    y = through * between + past * x + (1 - through**2 - past**2) ** 0.5 * noise(rows)
    return rows.assign(**{mediator: between, outcome: TOTAL * y})

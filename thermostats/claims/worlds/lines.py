"""Worlds of relations: an outcome goes with a column, along a line, within groups, by a mediator or by a curve."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.noise import BY_PROMPT, ERRORS, Noise, PromptErrors, Random
from thermostats.claims.worlds.world import RATIO, SHARED, TOTAL, Outcomes, Worlds, along, family, standard

MOVED = 0.8
"""Correlation of a mediator with what moves it."""
EVERY = tuple(ERRORS)


def worlds_of_line(
    outcome: str, predictor: str, r: float, *, kinds: Sequence[str] = EVERY, mean: bool = False, **errors: Any
) -> Worlds:
    """An outcome that goes with a column at correlation `r` over the rows, or not at all.

    errors: `ordered` and `group`, and with `mean` the outcome's mean, as `along` has them.
    """
    at_rest = along(predictor, mean=mean, **errors)
    return family(partial(_of_line, outcome, predictor), "correlation {}", outcome, at_rest, r, kinds=kinds)


def worlds_in_groups(outcome: str, predictor: str, r: float, group: str = "heritage", **errors: Any) -> Worlds:
    """The same where the test is made within groups: their levels are in the test, and in no share of the errors.

    The levels have half of the variance, whatever the column does.
    """
    signal = partial(_in_groups, outcome, predictor, group)
    return family(signal, "correlation {}", outcome, along(predictor, group="", **errors), r)


def worlds_of_path(outcome: str, cause: str, mediator: str, r: float, **errors: Any) -> Worlds:
    """A cause that moves the mediator (r = 0.8) and an outcome that goes with the mediator at correlation `r`.

    At the null it goes with the cause itself at `r`, past the mediator.
    """
    words = "correlations with the mediator and with the cause itself of {}"
    signal = partial(_of_path, outcome, cause, mediator)
    return family(signal, words, outcome, along(cause, **errors), (r, 0.0), (0.0, r))


def worlds_of_curve(outcome: str, claimed: str, null: str, r: float, **errors: Any) -> Worlds:
    """Positive outcomes whose log is a column, with errors at which it goes with it at `r`, or another column."""
    signal = partial(_of_curve, outcome, claimed, r)
    return family(signal, "the curve {}", outcome, along(claimed, **errors), claimed, null)


def worlds_of_slopes(outcome: str, predictor: str, r: float, kinds: Sequence[str] = tuple(BY_PROMPT)) -> Worlds:
    """Values by prompt that go with a column at correlation `r` inside every model, or not at all."""
    at_rest = PromptErrors(along=predictor), {"shared": SHARED, "ratio": RATIO}
    signal = partial(_inside, outcome, predictor)
    return family(signal, "correlation {} inside models", outcome, at_rest, r, kinds=kinds)


def worlds_of_exponent(outcome: str, predictor: str, claimed: float, margin: float, scatter: float) -> Worlds:
    """A log outcome that rises with a log column at a slope as claimed, or off by a margin; errors of SD `scatter`."""
    signal, others = partial(_of_exponent, outcome, predictor, scatter), {"steeper": claimed + margin}
    return family(signal, "slope {}", outcome, along(predictor), claimed, claimed - margin, others=others)


def _of_line(outcome: str, predictor: str, r: float, rows: pd.DataFrame, noise: Noise, _: Random) -> Outcomes:
    x = standard(rows[predictor].to_numpy(np.float64))
    return {outcome: TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows))}


def _in_groups(
    outcome: str, predictor: str, group: str, r: float, rows: pd.DataFrame, noise: Noise, random: Random
) -> Outcomes:
    x, levels = standard(rows[predictor].to_numpy(np.float64)), standard(random.levels(rows, group))
    return {outcome: TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows) + levels)}


def _of_path(
    outcome: str,
    cause: str,
    mediator: str,
    slopes: tuple[float, float],
    rows: pd.DataFrame,
    noise: Noise,
    random: Random,
) -> Outcomes:
    x = standard(rows[cause].to_numpy(np.float64))
    between = MOVED * x + (1 - MOVED**2) ** 0.5 * random.normal(len(rows))
    through, past = slopes
    y = through * between + past * x + (1 - through**2 - past**2) ** 0.5 * noise(rows)
    return {mediator: between, outcome: TOTAL * y}


def _of_curve(
    outcome: str, claimed: str, r: float, column: str, rows: pd.DataFrame, noise: Noise, _: Random
) -> Outcomes:
    sd = rows[claimed].std() * (1 / r**2 - 1) ** 0.5
    return {outcome: np.exp(rows[column].to_numpy() + sd * noise(rows))}


def _inside(outcome: str, predictor: str, r: float, rows: pd.DataFrame, noise: Noise, _: Random) -> Outcomes:
    x = rows.groupby("model_id")[predictor].transform(lambda own: standard(own.to_numpy(np.float64))).to_numpy()
    return {outcome: TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows))}


def _of_exponent(
    outcome: str, predictor: str, scatter: float, slope: float, rows: pd.DataFrame, noise: Noise, _: Random
) -> Outcomes:
    x = rows[predictor].to_numpy(np.float64)
    return {outcome: slope * (x - x.mean()) + scatter * noise(rows)}

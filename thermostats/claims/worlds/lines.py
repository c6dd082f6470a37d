"""Worlds of relations: an outcome goes with a column, over models or inside them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.noise import BY_PROMPT, ERRORS, Noise, PromptErrors, Random
from thermostats.claims.worlds.world import RATIO, SHARED, TOTAL, Outcomes, Worlds, along, family, standard

EVERY = tuple(ERRORS)


def worlds_of_line(
    outcome: str, predictor: str, r: float, *, kinds: Sequence[str] = EVERY, mean: bool = False, **errors: Any
) -> Worlds:
    """An outcome that goes with a column at correlation `r` over the rows, or not at all.

    errors: `ordered` and `group`, and with `mean` the outcome's mean, as `along` has them.
    """
    at_rest = along(predictor, mean=mean, **errors)
    return family(partial(_of_line, outcome, predictor), "correlation {}", outcome, at_rest, r, kinds=kinds)


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


def _inside(outcome: str, predictor: str, r: float, rows: pd.DataFrame, noise: Noise, _: Random) -> Outcomes:
    x = rows.groupby("model_id")[predictor].transform(lambda own: standard(own.to_numpy(np.float64))).to_numpy()
    return {outcome: TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows))}


def _of_exponent(
    outcome: str, predictor: str, scatter: float, slope: float, rows: pd.DataFrame, noise: Noise, _: Random
) -> Outcomes:
    x = rows[predictor].to_numpy(np.float64)
    return {outcome: slope * (x - x.mean()) + scatter * noise(rows)}

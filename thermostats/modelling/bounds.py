"""lower_i < y_i < upper_i is all that is known of outcomes of a line: normal factors that stand for the bounds."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.modelling.draws import Array
from thermostats.modelling.leave_out import folds, held_out
from thermostats.modelling.lines import Line, gaussian_of

ROUNDS, DRAWS = 4, 600
"""Rounds of expectation propagation, and predictive draws in each."""
BEYOND = 1.0
"""Where an open outcome is put at first: this far beyond its one bound."""
LEAST_KNOWN = 30.0
"""Standard error of an outcome of which its bounds say nothing."""


def between(line: Line, rows: pd.DataFrame, lower: Array, upper: Array, *, seed: int) -> tuple[Array, Array]:
    """Outcomes and their errors that stand for y_i only known to lie between lower_i and upper_i.

    By expectation propagation every indicator lower_i < y_i < upper_i becomes the normal factor N(y_i | m_i, r_i²) that
    gives the mean and variance of y_i under its prediction from the other rows, truncated to the bounds (Minka 2001,
    arXiv:1301.2294). For narrow bounds that is their middle and width/√12; one bound may be infinite.
    """
    closed = np.isfinite(lower) & np.isfinite(upper)
    with np.errstate(invalid="ignore"):
        y = np.where(closed, (lower + upper) / 2, np.where(np.isfinite(lower), lower + BEYOND, upper - BEYOND))
        error = np.where(closed, (upper - lower) / 12**0.5, BEYOND)
    names = folds([str(i) for i in range(y.size)])
    for _ in range(ROUNDS):
        model = gaussian_of(line, rows.assign(place=y, rounding=error))
        drawn = held_out(model, model.sample(seed=seed), names, seed=seed, size=DRAWS, measured=False).draws
        centre, spread = drawn.mean(axis=0), drawn.std(axis=0)
        a, b = (np.clip((bound - centre) / spread, -35, 35) for bound in (lower, upper))
        mean, variance = stats.truncnorm.stats(a, np.maximum(b, a + 1e-9), centre, spread, moments="mv")
        precision = 1 / variance - 1 / np.square(spread)
        usable = precision > LEAST_KNOWN**-2
        precision = np.where(usable, precision, LEAST_KNOWN**-2)
        y = np.where(usable, (mean / variance - centre / np.square(spread)) / precision, mean)
        error = precision**-0.5
    return np.asarray(y), np.asarray(error)

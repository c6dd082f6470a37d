"""Outcomes that are known only to lie between two bounds, one of which may be infinite."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import stats

from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.held_out import few_folds, held_out
from thermostats.modelling.inference.quadrature import Lines

ROUNDS, DRAWS = 4, 600
BEYOND = 1.0
"""Where an open outcome is put at first: this far beyond its one bound."""
LEAST_KNOWN = 30.0
"""Standard error of an outcome of which its bounds say nothing."""


def between(lines: Lines, lower: Array, upper: Array, *, seed: int) -> Lines:
    """The same model with y_i only known to lie between lower_i and upper_i, by expectation propagation.

    Every indicator lower_i < y_i < upper_i becomes the normal factor N(y_i | m_i, r_i²) that gives the mean and
    variance of y_i under its prediction from the other rows, truncated to the bounds; m and r take the place of y and
    error (Minka 2001, arXiv:1301.2294). For narrow bounds that is their middle and width/√12.
    """
    closed = np.isfinite(lower) & np.isfinite(upper)
    with np.errstate(invalid="ignore"):
        middle = np.where(closed, (lower + upper) / 2, np.where(np.isfinite(lower), lower + BEYOND, upper - BEYOND))
        width = np.where(closed, (upper - lower) / 12**0.5, BEYOND)
    found = replace(lines, y=middle, error=width)
    folds = few_folds([str(i) for i in range(lines.y.size)], "rows")
    for _ in range(ROUNDS):
        drawn = held_out(found, folds, seed=seed, draws=DRAWS, exact=True).draws
        centre, spread = drawn.mean(axis=0), drawn.std(axis=0)
        a, b = (np.clip((bound - centre) / spread, -35, 35) for bound in (lower, upper))
        mean, variance = stats.truncnorm.stats(a, np.maximum(b, a + 1e-9), centre, spread, moments="mv")
        known = 1 / variance - 1 / np.square(spread)
        usable = known > LEAST_KNOWN**-2
        known = np.where(usable, known, LEAST_KNOWN**-2)
        y = np.where(usable, (mean / variance - centre / np.square(spread)) / known, mean)
        found = replace(lines, y=np.asarray(y), error=np.asarray(known**-0.5))
    return found

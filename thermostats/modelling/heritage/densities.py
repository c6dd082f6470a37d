"""Density of models' means given the blocks, for every law of what is left between models."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from thermostats.modelling.heritage.laws import NORMAL, law
from thermostats.modelling.heritage.model import HeritagePosterior, explained
from thermostats.modelling.inference.draws import Array, Draws
from thermostats.modelling.inference.sums import logsumexp

HELD = 500_000
"""Numbers held at a time: draws × models × nodes."""


def log_density_of(posterior: HeritagePosterior, draws: Draws, models: NDArray[np.int64]) -> Array:
    """Log density of the means of some models given the blocks and the law of the residuals, all draws × models."""
    mean, error = (values[models] for values in posterior.design.means())
    centre, own = explained(posterior.design, draws)
    centre = centre[:, models]
    if posterior.residuals == NORMAL:
        return np.asarray(stats.norm.logpdf(mean, centre, np.hypot(own, error)))
    given = law(posterior.residuals)
    if given.of_labs:
        return np.asarray(stats.norm.logpdf(mean, centre, np.sqrt(own**2 * draws.flat("factor")[:, models] + error**2)))
    shapes = given.number_of(draws.flat("shape"))
    found = np.empty(centre.shape)
    for h in np.unique(shapes):
        every = np.flatnonzero(shapes == h)
        parts = -(-every.size * models.size * given.factor.shape[1] // HELD)
        for rows in np.array_split(every, max(1, parts)):
            spread = np.sqrt(own[rows, :, None] ** 2 * given.factor[h] + error[:, None] ** 2)
            density = stats.norm.logpdf((mean - centre[rows])[..., None], own[rows, :, None] * given.shift[h], spread)
            found[rows] = logsumexp(density + given.log_p[h], axis=-1)
    return found

"""Other priors, other errors and other groups of the models at hand, as refits or as weights of the fit's draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import stats

from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.quadrature import Lines, Posterior

FACTORS = {"half the prior scales": 0.5, "twice the prior scales": 2.0}
NORMAL = "normal errors of the same variance"
HEAVY = "t₄ errors of the same variance"
NU = 4.0
SAME_SD = (NU / (NU - 2)) ** 0.5
"""Standard deviation of t_4 over its scale."""
AT_ONCE = 4_000_000
"""Numbers of a table of draws × rows; of more, fewer draws at a time."""


def alternatives(lines: Lines, group: str = "lab") -> dict[str, Lines]:
    """The same rows under other priors, with exact outcomes, without group effects, without groups of one row."""
    found = {
        name: replace(lines, sd=lines.sd * f, sigma_scale=lines.sigma_scale * f, tau_scale=lines.tau_scale * f)
        for name, f in FACTORS.items()
    }
    if lines.error.any():
        found["outcomes taken as exact"] = replace(lines, error=np.zeros(lines.y.size))
    if lines.n_groups:
        found[f"no effects of {group}s"] = replace(lines, n_groups=0)
        kept = np.bincount(lines.groups)[lines.groups] > 1
        if not kept.all() and kept.sum() >= 2:
            found[f"without {group}s of one model"] = lines.rows(kept)
    return found


def heavy_errors(lines: Lines, found: Posterior) -> Array:
    """log(joint density with t_4 errors of variance d_i = σ² + error_i² / with normal ones) of every draw."""
    total = np.empty(found.sigma.size)
    for at in np.array_split(np.arange(total.size), -(-total.size * lines.y.size // AT_ONCE)):
        mean = found.beta[at] @ lines.X.T
        if lines.n_groups:
            mean = mean + np.pad(found.effects[at], ((0, 0), (0, 1)))[:, lines.groups]  # -1: none
        e = (lines.y - mean) / np.sqrt(np.square(found.sigma[at])[:, None] + np.square(lines.error))
        total[at] = (stats.t.logpdf(e * SAME_SD, NU) + np.log(SAME_SD) - stats.norm.logpdf(e)).sum(axis=1)
    return total


def rescaled(x: Array, scale: float, factor: float) -> Array:
    """Log ratio of N(0, (factor scale)²) to N(0, scale²), or of half-normals, summed over the axes after the draws."""
    ratio = -0.5 * np.square(x / scale) * (factor**-2 - 1) - np.log(factor)
    return np.asarray(ratio.reshape(*x.shape[:2], -1).sum(axis=-1))

"""Short Markov chains, many side by side, for residuals that are not normal: each begins at a weighted draw.

In a refit each begins at a draw of the fit. A sweep: θ by random walk with all effects summed out; the effects,
exactly; given them models are independent, so that the law's shape is walked with latent numbers summed out, and every
latent number drawn from its grid. Errors stay.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thermostats.modelling.heritage.gaussian import Latent, Means, conditional, density_given
from thermostats.modelling.heritage.laws import narrow
from thermostats.modelling.inference.draws import Array

BURNT, KEPT, THINNED = 24, 10, 4
"""Sweeps that are thrown away, sweeps that are kept, and sweeps to each of these."""
FARTHEST = 5
"""Values of the shape that one step may pass."""
GRID = np.float32
"""Of log densities on the grid of latent numbers: twice as fast as float64, and within 1e-4 of it."""
Narrow = NDArray[np.floating]
HELD = 100_000
"""Numbers of that grid held at a time: they stay in the processor's cache."""
TOGETHER = 8
"""Neighbouring nodes that are summed up before one of them is drawn."""
WALKS = (0.4, 1.0, 1.6)
"""Lengths of the steps of θ, in its standard deviations over the square root of their number."""


def moved(means: Means, theta: Array, latent: Latent, rng: np.random.Generator) -> list[tuple[Array, Latent]]:
    """θ and what makes the model Gaussian after every kept sweep."""
    root = np.linalg.cholesky(np.cov(theta.T) + 1e-6 * np.eye(theta.shape[1])) / theta.shape[1] ** 0.5
    found = []
    for sweep in range(BURNT + KEPT * THINNED):
        theta, beta = _theta_and_effects(means, theta, latent, root, rng)
        latent = _latent_given_effects(means, theta, beta, latent, rng)
        if sweep >= BURNT and (sweep - BURNT) % THINNED == THINNED - 1:
            found.append((theta, latent))
    return found


def _theta_and_effects(
    means: Means, theta: Array, latent: Latent, root: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """θ after its walks, and the effects given it."""
    own = conditional(means, theta, latent)
    now, (_, _, factor, z, _) = density_given(means, theta, own), own
    for walk in WALKS:
        new = theta + walk * rng.standard_normal(theta.shape) @ root.T
        other = conditional(means, new, latent)
        then = density_given(means, new, other)
        taken = np.log(rng.random(len(theta))) < then - now
        theta, now = np.where(taken[:, None], new, theta), np.where(taken, then, now)
        factor[taken], z[taken] = other[2][taken], other[3][taken]
    half = (z + rng.standard_normal(z.shape))[..., None]
    return theta, np.asarray(np.linalg.solve(np.swapaxes(factor, 1, 2), half)[..., 0], np.float64)


def _latent_given_effects(means: Means, theta: Array, beta: Array, latent: Latent, rng: np.random.Generator) -> Latent:
    law, units = means.law, means.units
    residual = (means.y[means.seen] - beta @ means.Z[means.seen].T)[..., None].astype(GRID)
    own, error2 = np.exp(theta[:, -1:, None]).astype(GRID), np.square(latent.errors[:, means.seen, None]).astype(GRID)
    size, places = len(theta), int(units.max()) + 1
    step = rng.integers(1, FARTHEST + 1, size) * rng.choice([-1, 1], size)
    new = latent.shape + step
    inside = (new >= 0) & (new < law.shape.size)
    height, chance = rng.random((size, places)).astype(GRID), np.log(rng.random(size))
    shape, cell = np.clip(new, 0, law.shape.size - 1), np.empty((size, places), dtype=np.int64)
    for at in np.array_split(np.arange(size), max(1, size * places * law.log_p.shape[1] // HELD)):
        given = residual[at], own[at], error2[at]
        p, now = _table(means, latent.shape[at], *given)
        other, then = _table(means, shape[at], *given)
        taken = inside[at] & (chance[at] < then - now)
        shape[at] = np.where(taken, shape[at], latent.shape[at])
        p[taken] = other[taken]
        cell[at] = _drawn(p, height[at])
    column = shape[:, None]
    return Latent(
        errors=latent.errors,
        factor=law.factor[column, cell][:, units],
        shift=law.shift[column, cell][:, units],
        shape=shape,
    )


def _table(
    means: Means, shape: NDArray[np.int64], residual: Narrow, own: Narrow, error2: Narrow
) -> tuple[Narrow, Array]:
    """Of every unit's latent number p of every node up to a factor, rows × units × nodes; log p of the shape."""
    law, of = means.law, means.units[means.seen]
    variance = own * narrow(law.factor).astype(GRID)[shape, None] + error2
    each = residual - np.sqrt(own) * narrow(law.shift).astype(GRID)[shape, None]
    np.square(each, out=each)
    each *= GRID(-0.5)
    each = each / variance
    prior, places = law.log_p[shape].astype(GRID)[:, None], np.arange(means.units.max() + 1)
    if law.of_labs:
        each -= GRID(0.5) * np.log(variance)
        each = (places[:, None] == of).astype(GRID) @ each
        each += prior
    else:
        each += prior
    highest = each.max(axis=2, keepdims=True)
    each -= highest
    p = np.exp(each, out=each)
    if not law.of_labs:
        p /= np.sqrt(variance, out=variance)
    log_p = (highest[..., 0] + np.log(p.sum(axis=2))).sum(axis=1, dtype=float)
    if not law.of_labs and of.size < places.size:
        seen, p = p, np.repeat(np.exp(prior), places.size, axis=1)
        p[:, of] = seen
    return p, law.log_prior[shape] + log_p


def _drawn(p: Narrow, height: Narrow) -> NDArray[np.int64]:
    """One place of the last axis each, by its probability up to a factor; `height`: uniform numbers."""
    flat = p.reshape(-1, p.shape[2])
    rows, nodes = np.arange(len(flat)), np.arange(p.shape[2])
    groups = nodes[::TOGETHER] // TOGETHER
    ends = flat @ (nodes[:, None] // TOGETHER <= groups).astype(p.dtype)
    wanted = height.ravel() * ends[:, -1]
    group = np.minimum((wanted[:, None] > ends).sum(axis=1), groups[-1])
    within = flat.reshape(-1, TOGETHER)[rows * groups.size + group]
    wanted -= ends[rows, group] - within.sum(axis=1)
    within = within @ np.triu(np.ones((TOGETHER, TOGETHER), dtype=p.dtype))
    cell = TOGETHER * group + np.minimum((wanted[:, None] > within).sum(axis=1), TOGETHER - 1)
    return np.asarray(cell.reshape(height.shape))

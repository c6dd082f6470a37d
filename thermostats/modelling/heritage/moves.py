"""Short Markov chains, many side by side, for residuals that are not normal: each begins at a weighted draw.

A sweep: θ by random walk with all effects summed out; the effects, exactly; given them models are independent, so that
the law's shape is walked with latent numbers summed out, and every latent number drawn from its grid. Errors stay.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thermostats.modelling.heritage.gaussian import Latent, Means, conditional, log_density
from thermostats.modelling.inference.draws import Array

BURNT, KEPT, THINNED = 24, 10, 4
"""Sweeps that are thrown away, sweeps that are kept, and sweeps to each of these."""
FARTHEST = 5
"""Values of the shape that one step may pass."""
GRID = np.float32
"""Of log densities on the grid of latent numbers: twice as fast as float64, and within 1e-4 of it."""
WALKS = (0.4, 1.0, 1.6)
"""Lengths of the steps of θ, in its standard deviations over the square root of their number."""


def moved(means: Means, theta: Array, latent: Latent, rng: np.random.Generator) -> list[tuple[Array, Latent]]:
    """θ and what makes the model Gaussian after every kept sweep."""
    root = np.linalg.cholesky(np.cov(theta.T) + 1e-6 * np.eye(theta.shape[1])) / theta.shape[1] ** 0.5
    found = []
    for sweep in range(BURNT + KEPT * THINNED):
        now = log_density(means, theta, latent)
        for walk in WALKS:
            new = theta + walk * rng.standard_normal(theta.shape) @ root.T
            then = log_density(means, new, latent)
            taken = np.log(rng.random(len(theta))) < then - now
            theta, now = np.where(taken[:, None], new, theta), np.where(taken, then, now)
        latent = _latent_given_effects(means, theta, latent, rng)
        if sweep >= BURNT and (sweep - BURNT) % THINNED == THINNED - 1:
            found.append((theta, latent))
    return found


def _latent_given_effects(means: Means, theta: Array, latent: Latent, rng: np.random.Generator) -> Latent:
    _, _, factor, z, _ = conditional(means, theta, latent)
    noise = rng.standard_normal(z.shape)
    beta = np.linalg.solve(np.swapaxes(factor, 1, 2), (z + noise)[..., None])[..., 0]
    own, error2 = np.exp(theta[:, -1:, None]).astype(GRID), np.square(latent.errors[:, means.seen, None]).astype(GRID)
    residual = (means.y[means.seen] - beta @ means.Z[means.seen].T)[..., None].astype(GRID)
    law, units = means.law, means.units
    of, places = units[means.seen], np.arange(units.max() + 1)[:, None]
    factors, shifts = _narrow(law.factor)[:, None], _narrow(law.shift)[:, None]

    def table(shape: NDArray[np.int64]) -> tuple[Array, Array]:
        """Of every unit's latent number p of every node over the highest, rows × units × nodes; log p of the shape."""
        variance = own * factors[shape] + error2
        each = np.square(residual - np.sqrt(own) * shifts[shape]) * (GRID(-0.5) / variance)
        each = each - GRID(0.5) * np.log(variance)
        log_p = np.repeat(law.log_p[shape].astype(GRID)[:, None], places.size, axis=1)
        if law.of_labs:
            log_p += (places == of).astype(GRID) @ each
        else:
            log_p[:, of] += each
        highest = log_p.max(axis=2, keepdims=True)
        log_p -= highest
        p = np.exp(log_p, out=log_p)
        return p, law.log_prior[shape] + (highest[..., 0] + np.log(p.sum(axis=2))).sum(axis=1, dtype=float)

    shape, last = latent.shape, law.shape.size - 1
    p, now = table(shape)
    step = rng.integers(1, FARTHEST + 1, shape.size) * rng.choice([-1, 1], shape.size)
    new = shape + step
    inside = (new >= 0) & (new <= last)
    new = np.clip(new, 0, last)
    other, then = table(new)
    taken = inside & (np.log(rng.random(shape.size)) < then - now)
    shape = np.where(taken, new, shape)
    p[taken] = other[taken]
    cell = _drawn(p, rng)
    column = shape[:, None]
    return Latent(
        errors=latent.errors,
        factor=law.factor[column, cell][:, units],
        shift=law.shift[column, cell][:, units],
        shape=shape,
        cell=cell,
    )


def _narrow(values: Array) -> Array:
    """Values on shapes × nodes; one node where all are the same."""
    return (values if np.ptp(values, axis=1).any() else values[:, :1]).astype(GRID)


def _drawn(p: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """One place of the last axis each, by its probability up to a factor."""
    heights = np.cumsum(p, axis=-1)
    return np.asarray((rng.random(heights.shape[:-1])[..., None] * heights[..., -1:] > heights).sum(axis=-1))

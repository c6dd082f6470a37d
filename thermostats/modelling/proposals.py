"""Importance draws of the log scales θ of a Gaussian model, and of its errors where they are estimates.

The proposal is a Student-t about the mode of p(θ | y), then about the weighted draws of the round before; errors are
drawn from what is known of each, favoured as it alone changes the density of the outcomes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize, special, stats

from thermostats.modelling.draws import Array
from thermostats.modelling.standard_errors import drawn_squares, favour

if TYPE_CHECKING:
    from thermostats.modelling.gaussian import Gaussian

ROUNDS = (1000, 1500, 3000, 6000)
"""Candidates of the rounds in which the proposal is laid."""
EVEN = 0.25
"""Effective share of the candidates from which on the proposal stays."""
TAIL = 5
"""Degrees of freedom of a proposal."""
WIDE, SHARE_WIDE = 3.0, 0.2
"""A proposal has a part that is so many times as wide, so that no region of θ is missed, and its share."""
LIKELY = 20
"""Draws over which is averaged what an error says of its outcome."""
SPREADS = (0.01, 5.0)
"""Least and largest standard deviation of a proposal along its axes."""


def candidates(model: Gaussian, size: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Candidates of θ, squared errors with each, and logs of weights, p(y, θ, errors) over the proposal's density."""
    k = len(model.blocks) + 1
    start = np.full(k, math.log(max(float(model.y.std()), 1e-3) / k**0.5))
    mode = optimize.minimize(lambda t: -model.log_density(t[None])[0], start, method="BFGS", options={"gtol": 1e-2})
    centre, spread = mode.x, _positive(np.atleast_2d(mode.hess_inv))
    near = mode.x[None], model.moments[0][None]
    for number in ROUNDS:
        theta, square, log_weight = _proposed(model, centre, spread, near, number, rng)
        weight = np.exp(log_weight - special.logsumexp(log_weight))
        if number > ROUNDS[0] and 1 / np.square(weight).sum() >= EVEN * number:
            break
        centre = weight @ theta
        spread = _positive((theta - centre).T @ ((theta - centre) * weight[:, None]))
        if model.freedom is not None:
            likely = rng.choice(number, LIKELY, p=weight)
            near = theta[likely], square[likely]
    return _proposed(model, centre, spread, near, size, rng)


def _proposed(
    model: Gaussian, centre: Array, spread: Array, near: tuple[Array, Array], size: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Candidates of a mixture of two Student-t with errors that are likely `near` some draws; logs of their weights."""
    wide = rng.random(size) < SHARE_WIDE
    theta = np.asarray(stats.multivariate_t(np.zeros(centre.size), spread, df=TAIL, seed=rng).rvs(size))
    theta = centre + theta.reshape(size, centre.size) * np.where(wide, WIDE, 1.0)[:, None]
    shares = ((1 - SHARE_WIDE, spread), (SHARE_WIDE, WIDE**2 * spread))
    parts = [math.log(share) + stats.multivariate_t(centre, s, df=TAIL).logpdf(theta) for share, s in shares]
    square, favoured = np.broadcast_to(model.moments[0], (size, model.moments[0].size)), np.zeros(size)
    if model.freedom is not None:
        nodes, log_p = favour(model.error, model.freedom, near[1], *model.single(*near))
        square, favoured = drawn_squares(nodes, log_p, size, rng)
    density = special.logsumexp(np.reshape(parts, (2, size)), axis=0) + favoured
    return theta, square, model.log_density(theta, square) - density


def _positive(spread: Array) -> Array:
    """The nearest covariance whose standard deviations along its axes lie within `SPREADS`."""
    values, vectors = np.linalg.eigh((spread + spread.T) / 2)
    return np.asarray((vectors * np.clip(values, SPREADS[0] ** 2, SPREADS[1] ** 2)) @ vectors.T)

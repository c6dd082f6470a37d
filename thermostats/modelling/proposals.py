"""Importance draws of the log scales θ of a Gaussian model, and of its errors where they are estimates.

The proposal is a Student-t about the mode of p(θ | y), then about weighted draws of the round before, and about the
candidates of the largest weights where their tail is heavy: a region of little mass that the proposal nearly misses
(Raftery and Bao 2010, doi:10.1111/j.1541-0420.2010.01399.x). Errors are drawn from what is known of each, favoured as
it alone changes the density of the outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from scipy import optimize, special, stats

from thermostats.modelling.draws import Array, pareto_smooth, systematic
from thermostats.modelling.standard_errors import drawn_squares, favour

ROUNDS = (1000, 1500, 3000, 6000)
"""Candidates of the rounds in which the proposal is laid."""
TIMES, GOOD_K = (2, 6, 20), 0.5
"""Candidates for every draw, of which there are more while Pareto k is larger than that."""
HEAVIEST = 10
"""So many of the largest weights are places of the next proposal then."""
EVEN = 0.25
"""Effective share of the candidates from which on the proposal stays."""
TAIL = 5
"""Degrees of freedom of a proposal."""
PLACES, NARROW = 50, 0.6
"""A proposal is made of Student-t about weighted draws of the round before, each so many times as wide as all draws."""
WIDE, SHARE_WIDE = 3.0, 0.1
"""It has a part that is so many times as wide as all draws, so that no region of θ is missed, and its share."""
SPREADS = (0.01, 5.0)
"""Least and largest standard deviation of a proposal along its axes."""


class Target(Protocol):
    """What is drawn: the density of log scales and squared errors of a Gaussian model, `gaussian.Gaussian`."""

    @property
    def blocks(self) -> Mapping[str, Array]: ...
    @property
    def unit(self) -> float: ...
    @property
    def moments(self) -> tuple[Array, Array]: ...
    @property
    def error(self) -> Array: ...
    @property
    def freedom(self) -> Array | None: ...
    def log_density(self, theta: Array, square: Array | None = None) -> Array: ...
    def single(self, theta: Array, square: Array) -> tuple[Array, Array]: ...


def candidates(model: Target, draws: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array, float]:
    """Candidates of θ, squared errors of each, logs of weights p(y, θ, errors) over the density of the proposal.

    And smooth weights, and Pareto k. There are more candidates where the tail of the weights asks for it.
    """
    k = len(model.blocks) + 1
    start = np.full(k, math.log(model.unit / k**0.5))
    mode = optimize.minimize(lambda t: -model.log_density(t[None])[0], start, method="BFGS", options={"gtol": 1e-2})
    places, spread, width = mode.x[None], _positive(np.atleast_2d(mode.hess_inv)), 1.0
    squares = model.moments[0][None]
    for number in ROUNDS:
        theta, square, log_weight = _proposed(model, places, squares, spread, width, number, rng)
        weight = np.exp(log_weight - special.logsumexp(log_weight))
        off = theta - weight @ theta
        spread, width = _positive(off.T @ (off * weight[:, None])), NARROW
        rows = systematic(weight, PLACES, rng)
        places, squares = theta[rows], square[rows]
        if number > ROUNDS[0] and 1 / np.square(weight).sum() >= EVEN * number:
            break
    for times in TIMES:
        theta, square, log_weight = _proposed(model, places, squares, spread, width, times * draws, rng)
        smooth, pareto_k = pareto_smooth(log_weight[None])
        if pareto_k[0] <= GOOD_K:
            break
        rows = np.argsort(log_weight)[-HEAVIEST:]
        places, squares = np.concatenate([places, theta[rows]]), np.concatenate([squares, square[rows]])
    return theta, square, log_weight, np.exp(smooth[0]), float(pareto_k[0])


def _proposed(
    model: Target, places: Array, squares: Array, spread: Array, width: float, size: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Candidates of Student-t at places, a share of them wide, with errors likely there, and the logs of their weights.

    `squares`: the squared errors of every place.
    """
    k = places.shape[1]
    wide = rng.random(size) < SHARE_WIDE
    theta = np.asarray(stats.multivariate_t(np.zeros(k), spread, df=TAIL, seed=rng).rvs(size)).reshape(size, k)
    theta = theta * np.where(wide, WIDE, width)[:, None] + places[rng.integers(0, len(places), size)]
    root = np.linalg.inv(np.linalg.cholesky(spread))
    distance = np.square((theta[:, None, :] - places) @ root.T).sum(axis=2)
    constant = special.gammaln((TAIL + k) / 2) - special.gammaln(TAIL / 2) - k / 2 * math.log(TAIL * math.pi)
    constant += math.log(float(np.linalg.det(root))) - math.log(len(places))
    parts = [
        math.log(share) - k * math.log(s) - (TAIL + k) / 2 * np.log1p(distance / (TAIL * s**2))
        for share, s in ((1 - SHARE_WIDE, width), (SHARE_WIDE, WIDE))
    ]
    density = constant + special.logsumexp(np.concatenate(parts, axis=1), axis=1)
    square = np.broadcast_to(model.moments[0], (size, model.moments[0].size))
    if model.freedom is not None:
        nodes, log_p = favour(model.error, model.freedom, squares, *model.single(places, squares))
        square, favoured = drawn_squares(nodes, log_p, size, rng)
        density = density + favoured
    return theta, square, model.log_density(theta, square) - density


def _positive(spread: Array) -> Array:
    """The nearest covariance whose standard deviations along its axes lie within `SPREADS`."""
    values, vectors = np.linalg.eigh((spread + spread.T) / 2)
    return np.asarray((vectors * np.clip(values, SPREADS[0] ** 2, SPREADS[1] ** 2)) @ vectors.T)

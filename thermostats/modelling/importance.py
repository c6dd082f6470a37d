"""Scales and squared errors by importance sampling: from a Student-t about the mode, then about
weighted draws.

Errors that are estimates themselves are scaled inverse χ²; what all units tell of them gives their
degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from thermostats.modelling.draws import (
    Array,
    count_effective,
    normalise_pareto_weights,
    resample_systematically,
)

CENTRE, FACTOR = (-3.0, 1.5), (math.log(0.5), 0.5)
"""Normal priors, mean and standard deviation: of log s_0, and of the log of the standard deviation
of log σ_i."""
SMALLEST = 1e-5
"""Standard deviation of values that are all alike."""
NODES = 64
"""Equally likely values of a squared error among which it is drawn."""
NEAR_INFINITE = 1e6
NEAR = 50_000
"""Numbers of θ and places that stay near the processor."""
AT_ONCE = 16_000_000
"""Numbers held at a time, of units and draws, or of units, places and nodes."""


def estimate_moderated_errors(sd: Array, n: Array) -> tuple[Array, Array]:
    """Standard errors of means of n values with standard deviation `sd`, and their degrees of
    freedom.

    d_0 and s_0² are where likelihood and priors are largest. A single value (n = 1) has the others'
    spread. Where every mean is of one value nothing is known of errors: they are 0, exactly.
    """
    several = n > 1
    if not several.any():
        return np.zeros(n.size), np.full(n.size, np.inf)
    s = np.maximum(sd[several], SMALLEST)
    d = n[several] - 1

    def negative(x: Array) -> float:
        location, log_freedom = x
        ratio = np.square(s) * math.exp(-2 * location)
        likelihood = stats.f.logpdf(ratio, d, math.exp(log_freedom)) - 2 * location
        variance = special.polygamma(1, math.exp(log_freedom) / 2)
        log_factor = 0.5 * math.log(variance) - math.log(2)
        prior_location = stats.norm.logpdf(location, *CENTRE)
        prior_factor = stats.norm.logpdf(log_factor, *FACTOR)
        return -float(likelihood.sum() + prior_location + prior_factor)

    start = np.array([np.log(s).mean(), math.log(4)])
    log_s0, log_d0 = optimize.minimize(negative, start, method="Nelder-Mead").x
    d0 = math.exp(log_d0)
    df = np.where(several, n - 1, 0.0)
    known = np.where(several, np.maximum(sd, SMALLEST), 0.0)
    prior_square = d0 * math.exp(2 * log_s0)
    square = (prior_square + df * np.square(known)) / (d0 + df)
    return np.sqrt(square / n), d0 + df


@dataclass(frozen=True)
class Squares:
    """Squared errors of many draws, of every unit the node that was drawn: draws × n numbers are
    held as one byte each."""

    nodes: Array
    """n × nodes."""
    places: NDArray[np.uint8]
    """Draws × n."""

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> Array:
        """Squared errors of some draws, draws × n."""
        units = np.arange(len(self.nodes))
        return self.nodes[units, self.places[rows]]


def normalise_weights(log_weight: Array) -> Array:
    """Weights that sum to 1."""
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(weight / weight.sum())


def weigh_nodes(
    error: Array, freedom: Array, square: Array, precision: Array, pulled: Array
) -> tuple[Array, Array]:
    """Equally likely nodes of every squared error, error² ν/χ²(ν), and log probabilities to draw
    them by, n × nodes.

    Each is favoured as it alone changes the density of the outcomes, averaged over rows of draws:
    where squared errors are `square`, the inverse covariance P has the diagonal `precision`, and Py
    is `pulled`. A change by δ changes the log density by −½ log(1 + δP_ii) + ½ δ(Py)_i²/(1 +
    δP_ii).
    """
    nu = np.minimum(freedom, NEAR_INFINITE)[:, None]
    quantiles = (np.arange(NODES) + 0.5) / NODES
    total = np.square(error)[:, None] * nu
    nodes = total / stats.chi2.isf(quantiles, nu)
    pieces = -(-square.size * NODES // AT_ONCE)
    log_p = []
    for some in np.array_split(np.arange(len(nodes)), pieces):
        of_units = _weigh_units(nodes[some], square[:, some], precision[:, some], pulled[:, some])
        log_p.append(of_units)
    return nodes, np.concatenate(log_p)


def _weigh_units(nodes: Array, square: Array, precision: Array, pulled: Array) -> Array:
    """Log probabilities of the nodes of some units."""
    change = nodes - square[..., None]
    grown = 1 + change * precision[..., None]
    gained = change * np.square(pulled)[..., None] / grown
    gained -= np.log(grown)
    gained *= 0.5
    log_p = special.log_softmax(gained, axis=-1)
    return np.asarray(special.logsumexp(log_p, axis=0) - math.log(len(log_p)))


def draw_squares(
    nodes: Array, log_p: Array, size: int, rng: np.random.Generator
) -> tuple[Squares, Array]:
    """Draws of squared errors, and the log of how much likelier each row is made than it is."""
    places = np.empty((size, len(nodes)), dtype=np.uint8)
    for unit, heights in enumerate(np.cumsum(np.exp(log_p), axis=1)):
        drawn = np.searchsorted(heights, rng.random(size))
        places[:, unit] = np.minimum(drawn, NODES - 1)
    units = np.arange(len(nodes))
    pieces = -(-places.size // AT_ONCE)
    favoured = []
    for some in np.array_split(places, pieces):
        likelier = log_p[units, some] + math.log(NODES)
        favoured.append(likelier.sum(axis=1))
    return Squares(nodes, places), np.concatenate(favoured)


STEP = math.sqrt(np.finfo(float).eps)
"""Of forward differences."""
DIGITS = 5
"""Decimals of the first proposal, so that the rounding of a processor makes no other draws."""
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
"""A proposal is made of Student-t about weighted draws of the round before, each so many times as
wide as all draws."""
WIDE, SHARE_WIDE = 3.0, 0.1
"""It has a part that is so many times as wide as all draws, so that no region of θ is missed, and
its share."""
SPREADS = (0.01, 5.0)
"""Least and largest standard deviation of a proposal along its axes."""


class Target(Protocol):
    """What is drawn: the density of log scales and squared errors of a Gaussian model,
    `gaussian.Gaussian`."""

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
    def log_density(self, theta: Array, square: Array | Squares | None = None) -> Array: ...
    def single(self, theta: Array, square: Array) -> tuple[Array, Array]: ...


def find_mode(model: Target) -> tuple[Array, Array]:
    """The mode of θ, and the spread there by BFGS, both rounded."""
    k = len(model.blocks) + 1
    start = np.full(k, math.log(model.unit / k**0.5))

    def negative(theta: Array) -> tuple[float, Array]:
        at_steps = np.vstack([theta, theta + STEP * np.eye(k)])
        here, *there = model.log_density(at_steps)
        return -here, (here - np.array(there)) / STEP

    found = optimize.minimize(negative, start, method="BFGS", jac=True, options={"gtol": 1e-2})
    spread = _ensure_positive(np.round(np.atleast_2d(found.hess_inv), DIGITS))
    return np.round(found.x, DIGITS), spread


def draw_candidates(
    model: Target, draws: int, rng: np.random.Generator
) -> tuple[Array, Array | Squares, Array, Array, float]:
    """Candidates of θ, squared errors of each, logs of weights p(y, θ, errors) over the density of
    the proposal.

    And smooth weights, and Pareto k. There are more candidates where the tail of the weights asks
    for it.
    """
    mode, spread = find_mode(model)
    places = mode[None]
    width = 1.0
    squares = model.moments[0][None]
    for number in ROUNDS:
        theta, square, log_weight = _draw_proposals(
            model, places, squares, spread, width, number, rng
        )
        weight = normalise_weights(log_weight)
        off = theta - weight @ theta
        spread = _ensure_positive(off.T @ (off * weight[:, None]))
        width = NARROW
        rows = resample_systematically(weight, PLACES, rng)
        places = theta[rows]
        squares = square[rows]
        if number > ROUNDS[0] and count_effective(weight) >= EVEN * number:
            break
    for times in TIMES:
        theta, square, log_weight = _draw_proposals(
            model, places, squares, spread, width, times * draws, rng
        )
        smooth, pareto_k = normalise_pareto_weights(log_weight[None])
        if pareto_k[0] <= GOOD_K:
            break
        rows = np.argsort(log_weight)[-HEAVIEST:]
        places = np.concatenate([places, theta[rows]])
        squares = np.concatenate([squares, square[rows]])
    return theta, square, log_weight, np.exp(smooth[0]), float(pareto_k[0])


def _draw_proposals(
    model: Target,
    places: Array,
    squares: Array,
    spread: Array,
    width: float,
    size: int,
    rng: np.random.Generator,
) -> tuple[Array, Array | Squares, Array]:
    """Candidates of Student-t at places, a share of them wide, with errors likely there, and the
    logs of their weights.

    `squares`: the squared errors of every place.
    """
    k = places.shape[1]
    wide = rng.random(size) < SHARE_WIDE
    student = stats.multivariate_t(np.zeros(k), spread, df=TAIL, seed=rng)
    steps = np.asarray(student.rvs(size)).reshape(size, k)
    widths = np.where(wide, WIDE, width)
    chosen = rng.integers(0, len(places), size)
    theta = steps * widths[:, None] + places[chosen]
    density = _score_proposal(theta, places, spread, width)
    given = model.moments[0]
    square: Array | Squares = np.broadcast_to(given, (size, given.size))
    if model.freedom is not None:
        diagonal, pulled = model.single(places, squares)
        nodes, log_p = weigh_nodes(model.error, model.freedom, squares, diagonal, pulled)
        square, favoured = draw_squares(nodes, log_p, size, rng)
        density = density + favoured
    return theta, square, model.log_density(theta, square) - density


def _score_proposal(theta: Array, places: Array, spread: Array, width: float) -> Array:
    """log density of the Student-t at places, each with its wide part, at every row of θ."""
    k = places.shape[1]
    root = np.linalg.inv(np.linalg.cholesky(spread))
    power = k / 2 * math.log(TAIL * math.pi)
    half = TAIL / 2
    constant = special.gammaln((TAIL + k) / 2) - special.gammaln(half) - power
    determinant = float(np.linalg.det(root))
    constant += math.log(determinant) - math.log(len(places))
    centres = places @ root.T
    numbers = len(theta) * len(places)
    parts = np.clip(numbers // NEAR, 1, len(theta))
    density = []
    for rows in np.array_split(theta, parts):
        turned = rows @ root.T
        density.append(_mix_parts(turned, centres, width))
    return np.asarray(constant + np.log(np.concatenate(density)))


def _mix_parts(rows: Array, centres: Array, width: float) -> Array:
    """Sum over places of what each gives a row, up to a constant; in units of the spread."""
    k = centres.shape[1]
    distance = np.zeros((len(rows), len(centres)))
    for own, centre in zip(rows.T, centres.T, strict=True):
        distance += np.square(own[:, None] - centre)
    density = np.zeros(len(rows))
    for share, times in ((1 - SHARE_WIDE, width), (SHARE_WIDE, WIDE)):
        log_height = np.log(1 + distance / (TAIL * times**2))
        powers = np.exp(-(TAIL + k) / 2 * log_height)
        height = powers.sum(axis=1)
        density += share * times**-k * height
    return density


def _ensure_positive(spread: Array) -> Array:
    """The nearest covariance whose standard deviations along its axes lie within `SPREADS`."""
    values, vectors = np.linalg.eigh((spread + spread.T) / 2)
    least, largest = SPREADS
    inside = np.clip(values, least**2, largest**2)
    return np.asarray((vectors * inside) @ vectors.T)

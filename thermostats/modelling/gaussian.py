"""y = Xβ + Σ_k Z_k u_k + ε, u_k ~ N(0, s_k²), ε_i ~ N(0, s_0² + error_i²): exact draws, any priors of the scales.

Given the scales everything is Gaussian. θ = log s, a handful of numbers, is drawn by importance sampling: from a
Student-t about the mode of p(θ | y), then from one about the weighted draws. β and the effects are drawn exactly given
the drawn scales. Lines with levels of groups, crossed effects and the heritage model are this model; Searle, Casella
and McCulloch 1992, Variance Components, chapter 9.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from thermostats.errors import UsageError
from thermostats.modelling.draws import EXACT, Array, Draws, Settings, in_chains, of_weights, pareto_smooth
from thermostats.modelling.scales import Scales

ROUNDS = (1000, 1500, 3000, 6000)
"""Candidates of the rounds in which the proposal is laid."""
TIMES, GOOD_K = (2, 6, 20), 0.5
"""Candidates for every draw, of which there are more while Pareto k is larger than that."""
EVEN = 0.25
"""Effective share of the candidates from which on the proposal stays."""
TAIL = 5
"""Degrees of freedom of a proposal."""
PLACES, NARROW = 50, 0.6
"""A proposal is made of Student-t about weighted draws of the round before, each so many times as wide as all draws."""
WIDE, SHARE_WIDE = 3.0, 0.1
"""It has a part that is so many times as wide as all draws, so that no region of θ is missed, and its share."""
NUMBERS = 4_000_000
"""Numbers held at a time."""
SPREADS = (0.01, 5.0)
"""Least and largest standard deviation of a proposal along its axes."""
SMALLEST, LARGEST = 1e-6, 1e6
"""Range of a scale in the likelihood, in units of the outcome's: beyond it no digits are left."""


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Outcomes, columns and priors; n outcomes."""

    y: Array
    X: Array
    """n × p."""
    sd: Array
    """Of the normal priors of β, about 0."""
    blocks: Mapping[str, Array]
    """Design of every kind of effect, n × levels."""
    prior: Scales
    """Of the blocks' scales in their order, and of the residual's, which is the last."""
    error: Array
    """Known standard errors of the outcomes; 0 where there is none."""

    @property
    def observed(self) -> Array:
        """The outcomes."""
        return self.y

    def sample(self, *, seed: int, settings: Settings = Settings()) -> Draws:  # noqa: B008 (frozen)
        """Independent draws of beta, scale (s_1, …, s_K, s_0) and the effects by the names of their blocks.

        Diagnostics are those of the weights: effective number and Pareto k. Raises UsageError for numbers that are not
        finite.
        """
        begin, rng = time.perf_counter(), np.random.default_rng(seed)
        self._check()
        number = settings.chains * settings.draws
        candidates, log_weight, weight, k = _candidates(self, number, rng)
        theta = candidates[systematic(weight, number, rng)]
        effective = float(1 / np.square(weight).sum())
        return Draws(
            values=in_chains(self._effects(theta, rng), settings),
            diagnostics=of_weights(effective, k),
            engine=EXACT,
            settings=settings,
            effective=min(effective, float(len(theta))),
            log_evidence=float(special.logsumexp(log_weight) - math.log(log_weight.size)),
            seconds=time.perf_counter() - begin,
        )

    def log_density(self, theta: Array) -> Array:
        """log p(y | θ) + log p(θ) of every row of θ = log s."""
        return np.concatenate([_given(self, rows)[0] for rows in self._pieces(theta)]) + self.prior.log_density(theta)

    def log_prior(self, values: Mapping[str, Array]) -> Array:
        """Log prior of draws (size × …) up to a constant: of the scales and of β; that of effects is the model."""
        fixed = -0.5 * np.square(values["beta"] / self.sd).sum(axis=1)
        return np.asarray(self.prior.log_prior(np.log(values["scale"])) + fixed)

    def expected(self, values: Mapping[str, Array]) -> Array:
        """Expected outcomes given β and the effects, size × n; levels that no draw has are new ones at 0."""
        mean = values["beta"] @ self.X.T
        for name, design in self.blocks.items():
            levels = values[name].shape[1]
            mean = mean + values[name] @ design[:, :levels].T
        return np.asarray(mean)

    def log_likelihood(self, values: Mapping[str, Array]) -> Array:
        """log p(y_i | β, effects, s_0), size × n."""
        spread = np.hypot(values["scale"][:, -1:], self.error)
        return np.asarray(stats.norm.logpdf(self.y, self.expected(values), spread))

    def replicate(self, values: Mapping[str, Array], rng: np.random.Generator, *, measured: bool = True) -> Array:
        """Outcomes of every draw, size × n; a level that no draw has is drawn anew from its population.

        `measured`: with their errors of measurement.
        """
        mean = self.expected(values)
        for k, (name, design) in enumerate(self.blocks.items()):
            if unseen := design.shape[1] - values[name].shape[1]:
                fresh = values["scale"][:, [k]] * rng.standard_normal((len(mean), unseen))
                mean = mean + fresh @ design[:, -unseen:].T
        spread = np.hypot(values["scale"][:, -1:], self.error if measured else 0.0)
        return np.asarray(mean + spread * rng.standard_normal(mean.shape))

    def from_prior(self, size: int, rng: np.random.Generator) -> dict[str, Array]:
        """Draws of beta, scale and effects from the prior."""
        scale = self.prior.draw(size, rng)
        effects = {
            name: scale[:, [k]] * rng.standard_normal((size, design.shape[1]))
            for k, (name, design) in enumerate(self.blocks.items())
        }
        return {"beta": rng.normal(0.0, self.sd, (size, self.sd.size)), "scale": scale, **effects}

    def rows(self, which: NDArray[np.bool_]) -> Gaussian:
        """The same model of some of the outcomes."""
        blocks = {name: design[which] for name, design in self.blocks.items()}
        return replace(self, y=self.y[which], X=self.X[which], error=self.error[which], blocks=blocks)

    @cached_property
    def design(self) -> Array:
        """X and all blocks side by side, n × q."""
        return np.column_stack([self.X, *self.blocks.values()])

    @cached_property
    def moments(self) -> tuple[Array, Array, Array]:
        """Distinct squared errors, how many outcomes have each, and their cross-products of (design, y), flat."""
        square, which = np.unique(np.square(self.error), return_inverse=True)
        both = np.column_stack([self.design, self.y])
        parts = [both[which == j] for j in range(square.size)]
        return square, np.bincount(which).astype(np.float64), np.stack([(part.T @ part).ravel() for part in parts])

    def _effects(self, theta: Array, rng: np.random.Generator) -> dict[str, Array]:
        """Draws of everything given θ."""
        coefficients = np.concatenate([_given(self, rows, rng)[1] for rows in self._pieces(theta)])
        ends = np.cumsum([self.X.shape[1], *(z.shape[1] for z in self.blocks.values())])
        beta, *effects = np.split(coefficients, ends[:-1], axis=1)
        return {"beta": beta, "scale": np.exp(theta), **dict(zip(self.blocks, effects, strict=True))}

    def _pieces(self, theta: Array) -> Sequence[Array]:
        q = self.design.shape[1] + 1
        return np.array_split(theta, max(1, len(theta) * q * q // NUMBERS))

    def _check(self) -> None:
        arrays = {"outcomes": self.y, "columns": self.X, "known errors": self.error, **self.blocks}
        if bad := [name for name, values in arrays.items() if not np.isfinite(values).all()]:
            raise UsageError("missing or infinite values in a model", got=", ".join(bad), allowed="finite numbers")


def _candidates(model: Gaussian, draws: int, rng: np.random.Generator) -> tuple[Array, Array, Array, float]:
    """Candidates of θ, the logs of their weights p(y, θ) over the density of the proposal, smooth weights, Pareto k.

    There are more where the tail of the weights asks for it.
    """
    k = len(model.blocks) + 1
    start = np.full(k, math.log(max(float(model.y.std()), 1e-3) / k**0.5))
    mode = optimize.minimize(lambda t: -model.log_density(t[None])[0], start, method="BFGS", options={"gtol": 1e-2})
    places, spread, width = mode.x[None], _positive(np.atleast_2d(mode.hess_inv)), 1.0
    for number in ROUNDS:
        theta, log_weight = _proposed(model, places, spread, width, number, rng)
        weight = np.exp(log_weight - special.logsumexp(log_weight))
        off = theta - weight @ theta
        spread, width = _positive(off.T @ (off * weight[:, None])), NARROW
        places = theta[systematic(weight, PLACES, rng)]
        if number > ROUNDS[0] and 1 / np.square(weight).sum() >= EVEN * number:
            break
    for times in TIMES:
        theta, log_weight = _proposed(model, places, spread, width, times * draws, rng)
        smooth, pareto_k = pareto_smooth(log_weight[None])
        if pareto_k[0] <= GOOD_K:
            break
    return theta, log_weight, np.exp(smooth[0]), float(pareto_k[0])


def _proposed(
    model: Gaussian, places: Array, spread: Array, width: float, size: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Candidates of Student-t at places, a share of them wide, and the logs of their weights."""
    k = places.shape[1]
    wide = rng.random(size) < SHARE_WIDE
    theta = np.asarray(stats.multivariate_t(np.zeros(k), spread, df=TAIL, seed=rng).rvs(size)).reshape(size, k)
    theta = theta * np.where(wide, WIDE, width)[:, None] + places[rng.integers(0, len(places), size)]
    root = np.linalg.inv(np.linalg.cholesky(spread))
    square = np.square((theta[:, None, :] - places) @ root.T).sum(axis=2)
    constant = special.gammaln((TAIL + k) / 2) - special.gammaln(TAIL / 2) - k / 2 * math.log(TAIL * math.pi)
    constant += math.log(float(np.linalg.det(root))) - math.log(len(places))
    parts = [
        math.log(share) - k * math.log(s) - (TAIL + k) / 2 * np.log1p(square / (TAIL * s**2))
        for share, s in ((1 - SHARE_WIDE, width), (SHARE_WIDE, WIDE))
    ]
    return theta, model.log_density(theta) - constant - special.logsumexp(np.concatenate(parts, axis=1), axis=1)


def _given(model: Gaussian, theta: Array, rng: np.random.Generator | None = None) -> tuple[Array, Array]:
    """log p(y | θ) of every row of θ and, with `rng`, a draw of β and all effects; without, nothing.

    With d the prior standard deviations of the coefficients, W = (X Z) diag(d), D the variances of the residuals,
    A = I + WᵀD⁻¹W = LLᵀ and b = WᵀD⁻¹y: log p(y | θ) = −½ (n log 2π + log|D| + log|A| + yᵀD⁻¹y − |L⁻¹b|²).
    """
    factor, noise, d = factor_of(model, theta)
    q, counts = d.shape[1], model.moments[1]
    grown = 2 * np.log(np.diagonal(factor, axis1=1, axis2=2)[:, :q]).sum(axis=1)
    quadratic = np.square(factor[:, q, q]) - 1
    density = -0.5 * (model.y.size * math.log(2 * math.pi) + np.log(noise) @ counts + grown + quadratic)
    if rng is None:
        return density, np.empty((len(theta), 0))
    around = factor[:, q, :q] + rng.standard_normal((len(theta), q))
    return density, d * np.linalg.solve(np.swapaxes(factor[:, :q, :q], 1, 2), around[..., None])[..., 0]


def factor_of(model: Gaussian, theta: Array) -> tuple[Array, Array, Array]:
    """Root of A bordered by b, whose last row is L⁻¹b and whose last entry squared is 1 + yᵀD⁻¹y − |L⁻¹b|²; D; d."""
    square, _, products = model.moments
    unit = max(float(model.y.std()), 1e-3)
    scale = np.clip(np.exp(np.clip(theta, -300, 300)), SMALLEST * unit, LARGEST * unit)
    ranks = [design.shape[1] for design in model.blocks.values()]
    fixed = np.broadcast_to(model.sd, (len(theta), model.sd.size))
    d = np.concatenate([fixed, np.repeat(scale[:, :-1], ranks, axis=1)], axis=1)
    noise = np.square(scale[:, -1:]) + square
    q = d.shape[1]
    bordered = np.column_stack([d, np.ones(len(d))])
    inner = ((1 / noise) @ products).reshape(-1, q + 1, q + 1) * bordered[:, :, None] * bordered[:, None, :]
    inner[:, np.arange(q + 1), np.arange(q + 1)] += 1
    return np.asarray(np.linalg.cholesky(inner)), noise, d


def systematic(weight: Array, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows chosen by their weights, systematically, in random order."""
    places = np.searchsorted(np.cumsum(weight) / weight.sum(), (rng.random() + np.arange(size)) / size)
    return rng.permutation(np.minimum(places, weight.size - 1))


def _positive(spread: Array) -> Array:
    """The nearest covariance whose standard deviations along its axes lie within `SPREADS`."""
    values, vectors = np.linalg.eigh((spread + spread.T) / 2)
    return np.asarray((vectors * np.clip(values, SPREADS[0] ** 2, SPREADS[1] ** 2)) @ vectors.T)

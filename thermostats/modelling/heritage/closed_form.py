"""The heritage model of many models in closed form: Gaussian means, effects summed out through the blocks' low rank.

y_i = α + Z_i β + f_i + e_i, β ~ N(0, S(θ)), f_i ~ N(0, τ²φ_model), e_i ~ N(0, se_i²), θ_b = log τ²φ_b.
With D = τ²φ_model + se² and A = ZᵀD⁻¹Z + S⁻¹ one density takes M·q² steps for q effects, so that a thousand models in a
hundred labs take milliseconds. θ, four numbers, is drawn by importance sampling: a t about the mode, then one about the
weighted draws of the round before; everything else is drawn exactly given θ. Draws are independent; the gate is on the
weights.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import logsumexp

from thermostats.modelling.heritage.blocks import BLOCKS, Design
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.checks import PARETO_LIMIT
from thermostats.modelling.inference.draws import Array, Draws, Settings

PROPOSALS, ENOUGH = (1000, 1500, 3000, 6000), 600
"""Draws of θ in every round; from the second on it ends with that many effective draws."""
TAIL_DF = 5.0
FLOOR = 1e-4
"""Smallest standard error of a mean."""
NUMBERS = 2_000_000
"""Numbers held at a time."""
SMALLEST, LARGEST = -200.0, 9.0
"""Ends of θ in the likelihood, the upper one minus log of the prior variance of τ: beyond it the prior is below
e^−4000, and A no longer positive definite in so many digits."""


@dataclass(frozen=True, kw_only=True)
class Means:
    """The means of the models, what they depend on, and the priors."""

    y: Array
    error: Array
    Z: Array
    """M × (1 + q): ones, then the bases of the blocks that are in the model."""
    ranks: tuple[int, ...]
    """Columns of each of these blocks."""
    seen: NDArray[np.bool_]
    """Models whose means are observed; the others are predicted."""
    total_sd: float
    concentration: float


def closed_form(
    laid_out: Design,
    *,
    total_sd: float,
    concentration: float = 1.0,
    seed: int,
    settings: Settings = Settings(),  # noqa: B008 - frozen
    blocks: Sequence[str] = BLOCKS,
    unseen: Sequence[int] = (),
    means: tuple[Array, Array] | None = None,
) -> Draws:
    """Draws of τ, shares, effects and model means, given every model's mean log gain and its standard error.

    Named and shaped as sampling names them; `settings` gives chains and draws. Shares and effects of a block that is
    not in `blocks` are 0; models `unseen` (their numbers) are predicted; `means` stand in for those of the design.
    Where the importance weights cannot be trusted (Pareto k above 0.7, or fewer than 400 effective draws) the
    diagnostics fail.
    """
    start = time.perf_counter()
    rng = np.random.default_rng(seed)
    y, error = laid_out.means() if means is None else means
    bases = {"heritage": laid_out.heritage(), "geometry": laid_out.geometry, "scale": laid_out.scale}
    kept = [name for name in bases if name in blocks]
    given = Means(
        y=y,
        error=np.maximum(error, FLOOR),
        Z=np.column_stack([np.ones(y.size), *(bases[name] for name in kept)]),
        ranks=tuple(bases[name].shape[1] for name in kept),
        seen=~np.isin(np.arange(y.size), unseen),
        total_sd=total_sd,
        concentration=concentration,
    )
    theta, log_weight = _importance(given, rng)
    smoothed, k = sampling.pareto_smooth(log_weight[None, :])
    weight = np.exp(smoothed[0] - logsumexp(smoothed[0]))
    size = settings.chains * settings.draws
    chosen = rng.permutation(np.searchsorted(np.cumsum(weight), (rng.random() + np.arange(size)) / size))
    tau, phi, effects, m = _given(given, theta[np.minimum(chosen, weight.size - 1)], rng)
    drawn = {"tau": tau, "alpha": effects[:, 0], "m": m, "share": np.zeros((size, len(BLOCKS)))}
    drawn["share"][:, [*(BLOCKS.index(name) for name in kept), -1]] = phi
    parts = dict(zip(kept, np.split(effects[:, 1:], np.cumsum(given.ranks)[:-1], axis=1), strict=True))
    for name, effect in (("heritage", "u"), ("geometry", "b_geometry"), ("scale", "b_scale")):
        drawn[effect] = parts.get(name, np.zeros((size, bases[name].shape[1])))
    return sampling.exact_draws(
        drawn,
        seed=seed,
        settings=settings,
        start=start,
        effective=float(1 / np.square(weight).sum()) if k[0] <= PARETO_LIMIT else 0.0,
        weights=f"importance weights, Pareto k {k[0]:.2f}",
        judged=("tau", "share", "alpha"),
    )


def log_density(means: Means, theta: Array) -> Array:
    """log p(y | θ) p(θ) of every row of θ, up to a constant; θ_b = log τ²φ_b.

    The Jacobian of θ to (log τ, log φ_b/φ_model) is constant.
    """
    return np.concatenate([_log_density(means, rows) for rows in np.array_split(theta, _steps(means, theta))])


def _log_density(means: Means, theta: Array) -> Array:
    log_total = logsumexp(theta, axis=1)
    prior_variance, variance, factor, z = _conditional(means, theta)
    quadratic = (np.square(means.y[means.seen]) / variance).sum(axis=1) - np.square(z).sum(axis=1)
    diagonal = np.diagonal(factor, axis1=1, axis2=2)
    determinant = np.log(variance).sum(axis=1) + np.log(prior_variance).sum(axis=1) + 2 * np.log(diagonal).sum(axis=1)
    log_phi = theta - log_total[:, None]
    prior = -0.5 * np.exp(log_total) / means.total_sd**2 + log_total / 2 + means.concentration * log_phi.sum(axis=1)
    return np.asarray(prior - 0.5 * (quadratic + determinant))


def _steps(means: Means, theta: Array) -> int:
    return min(len(theta), max(1, len(theta) * means.Z.size // NUMBERS))


def _conditional(means: Means, theta: Array) -> tuple[Array, Array, Array, Array]:
    """For every row of θ: prior variances of α and all effects, variance of every mean seen given them, L and z.

    L is the root of the effects' posterior precision A = LLᵀ, and their posterior mean L⁻ᵀz.
    """
    variances = np.exp(np.clip(theta, SMALLEST, LARGEST + 2 * np.log(means.total_sd)))
    first = np.full((len(theta), 1), 4 * means.total_sd**2)
    prior_variance = np.concatenate([first, np.repeat(variances[:, :-1], means.ranks, axis=1)], axis=1)
    variance = variances[:, [-1]] + np.square(means.error[means.seen])
    Z = means.Z[means.seen]
    weighted = Z.T / variance[:, None, :]
    factor = np.linalg.cholesky(weighted @ Z + np.eye(Z.shape[1]) / prior_variance[:, None, :])
    z = np.linalg.solve(factor, (weighted @ means.y[means.seen])[..., None])[..., 0]
    return prior_variance, variance, factor, z


def _importance(means: Means, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draws of θ and their log weights."""
    spread_of_y = max(float(means.y[means.seen].std()), 0.01 * means.total_sd)
    start = np.full(len(means.ranks) + 1, 2 * np.log(spread_of_y / 2))
    mode = optimize.minimize(
        lambda theta: -log_density(means, theta[None])[0], start, method="BFGS", options={"gtol": 1e-2}
    )
    centre, spread = mode.x, _positive(np.atleast_2d(mode.hess_inv))
    for size in PROPOSALS:
        proposal = stats.multivariate_t(centre, spread, df=TAIL_DF, seed=rng)
        theta = proposal.rvs(size)
        log_weight = log_density(means, theta) - proposal.logpdf(theta)
        weight = np.exp(log_weight - logsumexp(log_weight))
        if size > PROPOSALS[0] and 1 / np.square(weight).sum() >= ENOUGH:
            break
        centre = weight @ theta
        spread = _positive((theta - centre).T @ ((theta - centre) * weight[:, None]))
    return theta, log_weight


def _given(means: Means, theta: Array, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """τ, shares, and exact draws of standardised effects (α first, as it is) and model means for every row of θ."""
    size, q = len(theta), means.Z.shape[1]
    log_total = logsumexp(theta, axis=1)
    effects, m = np.empty((size, q)), np.empty((size, means.y.size))
    noise, own_noise = rng.standard_normal((size, q)), rng.standard_normal((size, means.y.size))
    rows, which = np.unique(theta, axis=0, return_inverse=True)
    which = which.ravel()
    for part in np.array_split(np.arange(len(rows)), _steps(means, rows)):
        at = np.flatnonzero((which >= part[0]) & (which <= part[-1]))
        prior_variance, _, factor, z = (values[which[at] - part[0]] for values in _conditional(means, rows[part]))
        beta = np.linalg.solve(np.swapaxes(factor, 1, 2), (z + noise[at])[..., None])[..., 0]
        own = np.exp(theta[at, -1:])
        kept = np.where(means.seen, own / (own + np.square(means.error)), 0.0)
        left = np.where(means.seen, kept * np.square(means.error), own)
        explained = beta @ means.Z.T
        m[at] = explained + kept * (means.y - explained) + np.sqrt(left) * own_noise[at]
        effects[at] = beta
        effects[at, 1:] /= np.sqrt(prior_variance[:, 1:])
    return np.exp(log_total / 2), np.exp(theta - log_total[:, None]), effects, m


def _positive(covariance: Array) -> Array:
    """The nearest covariance whose standard deviations along its axes are between 0.01 and 5."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.clip(values, 0.01**2, 25.0)) @ vectors.T)

"""The heritage model in closed form: model means are Gaussian, shares and total SD are summed over numerically.

y_i = α + Σ_b τ√φ_b f_b,i + e_i, e_i ~ N(0, se_i²), φ ~ Dirichlet(a, …, a), τ ~ half-normal, α flat. For fixed φ the
covariance of contrasts is τ²R(φ) + D; with D = AAᵀ and the eigenvalues λ of A⁻¹R A⁻ᵀ every τ of a grid costs a sum.
Milliseconds a data set: for calibration, power and sensitivity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.linalg import null_space

from thermostats.modelling.heritage.bases import Integers
from thermostats.modelling.heritage.design import BLOCKS
from thermostats.modelling.inference.draws import Array

TOTAL_GRID = 40
FLOOR = 1e-4
"""Smallest standard error: below it the whitening would lose digits."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What does not depend on y: roots of block covariances, nodes of φ, whitened eigenvectors, a grid of τ."""

    roots: Array
    """Blocks × M × M."""
    error: Array
    shares: Array
    """K × blocks, of equal weight under the prior."""
    total: Array
    """Grid of τ."""
    log_constant: Array
    """K × grid: log prior of τ less half the log determinant."""
    eigenvalues: Array
    """K × (M − 1)."""
    vectors: Array
    """K × (M − 1) × M: whitened eigenvectors applied to contrasts."""


def prepare(
    covariances: Mapping[str, Array],
    error: Array,
    *,
    total_sd: float,
    concentration: float = 1.0,
    seed: int,
    shares: int = 2048,
) -> Prepared:
    """Everything that is the same for all outcomes of a design; `error` are the standard errors of the means.

    `shares`: nodes of the integral over φ, a power of 2.
    """
    n = error.size
    error = np.maximum(error, FLOOR)
    roots = np.stack([block_root(covariances[name]) for name in BLOCKS])
    phi = _share_nodes(shares, concentration, seed)
    contrast = null_space(np.ones((1, n))).T
    whiten = np.linalg.inv(np.linalg.cholesky((contrast * error**2) @ contrast.T)) @ contrast
    stacked = np.stack([covariances[name] for name in BLOCKS])
    blocks = whiten @ stacked @ whiten.T
    eigenvalues, vectors = np.linalg.eigh(np.tensordot(phi, blocks, axes=1))
    eigenvalues = np.maximum(eigenvalues, 0.0)
    edges = np.geomspace(total_sd * 0.004, total_sd * 4, TOTAL_GRID)
    half_log_det = np.stack([0.5 * np.log1p(tau**2 * eigenvalues).sum(axis=1) for tau in edges], axis=1)
    return Prepared(
        roots=roots,
        error=error,
        shares=phi,
        total=edges,
        log_constant=stats.halfnorm.logpdf(edges, scale=total_sd) + np.log(edges) - half_log_det,
        eigenvalues=eigenvalues,
        vectors=np.swapaxes(vectors, 1, 2) @ whiten,
    )


def posterior(prepared: Prepared, y: Array, *, seed: int, draws: int = 1000) -> dict[str, Array]:
    """Draws given model means y: `sd` and `share` (draws × blocks), `total`, `contribution` (draws × blocks × M).

    Contributions are exact conditional draws: a draw from the prior, corrected by what it misses of y.
    """
    rng = np.random.default_rng(seed)
    scores = np.square(prepared.vectors @ y)
    tau2 = np.square(prepared.total)
    log_weight = np.empty((prepared.shares.shape[0], tau2.size))
    for column, value in enumerate(tau2):
        log_weight[:, column] = -0.5 * (scores / (value * prepared.eigenvalues + 1)).sum(axis=1)
    log_weight += prepared.log_constant
    weight = np.exp(log_weight - log_weight.max()).ravel()
    chosen = _systematic(weight / weight.sum(), draws, rng)
    k, g = np.unravel_index(chosen, log_weight.shape)
    return _contributions(prepared, k, prepared.total[g], y, rng)


def block_sds(contribution: Array) -> Array:
    """Finite-population standard deviations √(Σ_i (f_i − mean f)²/M) over the last axis; Gelman 2005, AOS 33(1)."""
    return np.asarray(contribution.std(axis=-1))


def orders(sd: Array) -> dict[str, float]:
    """Probabilities that standard deviations (draws × blocks) come in an order."""
    heritage, geometry, scale = sd[:, 0], sd[:, 1], sd[:, 2]
    return {
        "heritage > geometry": float((heritage > geometry).mean()),
        "geometry > scale": float((geometry > scale).mean()),
        "heritage > geometry > scale": float(((heritage > geometry) & (geometry > scale)).mean()),
    }


def bayes_factor(posterior_probability: float, prior_probability: float) -> float:
    """Posterior odds over prior odds of an order restriction; infinite where every draw obeys it."""
    if posterior_probability >= 1:
        return np.inf
    odds = posterior_probability / (1 - posterior_probability)
    return odds / (prior_probability / (1 - prior_probability))


def _contributions(
    prepared: Prepared, k: Integers, total: Array, y: Array, rng: np.random.Generator
) -> dict[str, Array]:
    parts = _prior_parts(prepared, k, total, rng)
    simulated = parts.sum(axis=1) + prepared.error * rng.normal(size=(k.size, y.size))
    vectors, eigenvalues = prepared.vectors[k], prepared.eigenvalues[k]
    inner = np.einsum("sim,sm->si", vectors, y - simulated) / (total[:, None] ** 2 * eigenvalues + 1)
    missed = np.einsum("sim,si->sm", vectors, inner)
    for b, root in enumerate(prepared.roots):
        parts[:, b] += (total**2 * prepared.shares[k, b])[:, None] * (missed @ root @ root.T)
    return _named(parts, prepared.shares[k], total)


def _prior_parts(prepared: Prepared, k: Integers, total: Array, rng: np.random.Generator) -> Array:
    n = prepared.error.size
    scale = total[:, None] * np.sqrt(prepared.shares[k])
    parts = [scale[:, [b]] * (rng.normal(size=(k.size, n)) @ root.T) for b, root in enumerate(prepared.roots)]
    return np.stack(parts, axis=1)


def _named(parts: Array, shares: Array, total: Array) -> dict[str, Array]:
    return {"sd": block_sds(parts), "share": shares, "total": total, "contribution": parts}


def _share_nodes(size: int, concentration: float, seed: int) -> Array:
    """Dirichlet nodes of low discrepancy: gamma quantiles of scrambled Sobol points, normalised."""
    points = stats.qmc.Sobol(len(BLOCKS), seed=seed).random(size)
    gammas = stats.gamma.ppf(np.clip(points, 1e-12, 1 - 1e-12), concentration)
    return np.asarray(gammas / gammas.sum(axis=1, keepdims=True))


def block_root(covariance: Array) -> Array:
    """Root B of a covariance, which may be singular: B with BBᵀ = covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _systematic(weight: Array, size: int, rng: np.random.Generator) -> Integers:
    points = (rng.random() + np.arange(size)) / size
    return np.minimum(np.searchsorted(np.cumsum(weight), points), weight.size - 1)

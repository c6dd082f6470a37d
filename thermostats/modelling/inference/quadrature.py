"""Gaussian models by quadrature: exact posteriors, evidence and refits without sampling.

`Lines`: y = Xβ + u_group + ε, β ~ N(prior mean, prior sd²), u_j ~ N(0, τ²), ε_i ~ N(0, σ² + error_i²), σ and τ
half-normal. Given σ and τ all is Gaussian; σ and τ are summed over a grid of their logarithms that is laid once
coarsely and once where the mass is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.sums import logsumexp

NODES = 24
SMALLEST, LARGEST = 1e-5, 6.0
"""Ends of the first grid in units of the half-normal scale; the prior mass below is 0.0008%."""
NEGLIGIBLE = 14.0
"""Nodes whose log density lies this far below the highest are left outside the second grid."""


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Rows of the model and its priors; `groups` counts from 0, and is −1 for a row of a group never seen."""

    y: Array
    X: Array
    groups: NDArray[np.int64]
    n_groups: int
    """0: no group effects, and `groups` is ignored."""
    error: Array
    """Standard errors of y, known; zeros where it is taken as exact."""
    mean: Array
    sd: Array
    """Of the normal priors of β."""
    sigma_scale: float
    tau_scale: float

    def rows(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Lines:
        """The same model of some rows."""
        return replace(self, y=self.y[chosen], X=self.X[chosen], groups=self.groups[chosen], error=self.error[chosen])


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Independent draws of the posterior, and log p(y)."""

    log_evidence: float
    beta: Array
    """draws × coefficients."""
    effects: Array
    """draws × groups."""
    sigma: Array
    tau: Array


def log_evidence(lines: Lines) -> float:
    """log p(y), priors and all."""
    return _grid(lines).log_evidence


def posterior(lines: Lines, *, seed: int, draws: int = 4000) -> Posterior:
    """Independent draws of β, u, σ and τ."""
    grid = _grid(lines)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(grid.weights.size, draws, p=grid.weights)
    i, j = np.divmod(chosen, grid.log_tau.size)
    p = lines.X.shape[1]
    nodes, at = np.unique(chosen, return_inverse=True)
    inverse = np.linalg.inv(np.linalg.cholesky(grid.precision.reshape(-1, p, p)[nodes]))
    half = (inverse @ grid.right.reshape(-1, p, 1)[nodes])[..., 0]
    beta = np.einsum("dqp,dq->dp", inverse[at], half[at] + rng.standard_normal((draws, p)))
    jitter = rng.uniform(-0.5, 0.5, (2, draws))
    sigma = np.exp(grid.log_sigma[i] + jitter[0] * grid.step[0])
    tau = np.exp(grid.log_tau[j] + jitter[1] * grid.step[1]) if lines.n_groups else np.zeros(draws)
    effects = np.empty((draws, 0))
    if lines.n_groups:
        variance = np.exp(2 * grid.log_sigma)[:, None] + np.square(lines.error)
        weight, moment = _by_group(lines, 1 / variance, full=True)
        shrink = np.exp(2 * grid.log_tau[j])[:, None]
        shrink = shrink / (1 + shrink * weight[i])
        residual = moment[:, :, p][i] - np.einsum("dgp,dp->dg", moment[:, :, :p][i], beta) if p else moment[:, :, p][i]
        effects = shrink * residual + np.sqrt(shrink) * rng.standard_normal(shrink.shape)
    return Posterior(log_evidence=grid.log_evidence, beta=beta + lines.mean, effects=effects, sigma=sigma, tau=tau)


def predict(found: Posterior, lines: Lines, *, seed: int) -> Array:
    """Draws of y of the rows of `lines`, draws × rows; rows of group −1, never seen, share a new effect a draw."""
    rng = np.random.default_rng(seed)
    mean = found.beta @ lines.X.T
    if lines.n_groups:
        new = rng.standard_normal((found.tau.size, 1)) * found.tau[:, None]
        known = found.effects[:, np.maximum(lines.groups, 0)]
        mean = mean + np.where(lines.groups >= 0, known, new)
    spread = np.sqrt(np.square(found.sigma)[:, None] + np.square(lines.error))
    return np.asarray(mean + spread * rng.standard_normal(mean.shape))


@dataclass(frozen=True, kw_only=True)
class _Grid:
    log_sigma: Array
    log_tau: Array
    step: tuple[float, float]
    weights: Array
    """Posterior weights of the nodes, flattened with τ running fastest."""
    precision: Array
    """Of β given σ and τ, σ × τ × coefficients × coefficients, and `right`, what it times mean β − prior mean gives."""
    right: Array
    log_evidence: float


def _grid(lines: Lines) -> _Grid:
    wide = [wide_axis(lines.sigma_scale, NODES), wide_axis(lines.tau_scale, NODES) if lines.n_groups else np.zeros(1)]
    log_sigma, log_tau = where_the_mass_is(wide, lambda axes: _densities(lines, axes[0], axes[1])[0], rounds=2)
    densities, precision, right = _densities(lines, log_sigma, log_tau)
    step = (float(log_sigma[1] - log_sigma[0]), float(log_tau[1] - log_tau[0]) if lines.n_groups else 1.0)
    total = float(logsumexp(densities))
    return _Grid(
        log_sigma=log_sigma,
        log_tau=log_tau,
        step=step,
        weights=np.exp(densities - total).ravel(),
        precision=precision,
        right=right,
        log_evidence=total + math.log(step[0]) + (math.log(step[1]) if lines.n_groups else 0.0),
    )


def _densities(lines: Lines, log_sigma: Array, log_tau: Array) -> tuple[Array, Array, Array]:
    """Log of p(y | σ, τ) p(σ) p(τ) σ τ on a grid of log σ and log τ, with the precision of β and its right side.

    u is summed out: with d_i = σ² + error_i² and S_g = Σ_{i∈g} 1/d_i the inverse covariance of the rows is
    D⁻¹ − Σ_g κ_g D⁻¹ 1_g 1_gᵀ D⁻¹, κ_g = τ²/(1 + τ² S_g), its log determinant −Σ log d_i − Σ_g log(1 + τ² S_g).
    """
    p = lines.X.shape[1]
    both = _columns(lines)
    variance = np.exp(2 * log_sigma)[:, None] + np.square(lines.error)  # nodes of σ × rows
    outer = (both[:, :, None] * both[:, None, :]).reshape(len(both), -1)
    moments = ((1 / variance) @ outer).reshape(-1, 1, p + 1, p + 1)
    found = (
        -0.5 * np.log(2 * math.pi * variance).sum(axis=1)[:, None] + _half_normal(log_sigma, lines.sigma_scale)[:, None]
    )
    if lines.n_groups:
        weight, moment = _by_group(lines, 1 / variance)
        tau2 = np.exp(2 * log_tau)[None, :, None]
        grown = 1 + tau2 * weight[:, None, :]
        shared = (moment[..., :, None] * moment[..., None, :]).reshape(*moment.shape[:2], -1)
        moments = moments - (tau2 / grown @ shared).reshape(log_sigma.size, log_tau.size, p + 1, p + 1)
        found = found - 0.5 * np.log(grown).sum(axis=-1) + _half_normal(log_tau, lines.tau_scale)
    found = found - 0.5 * moments[..., p, p]
    inner = moments + np.diag(np.append(lines.sd**-2.0, 1.0))
    inner[..., p, p] += moments[..., p, p]  # positive definite however the last digits come out
    precision, right = inner[..., :p, :p], inner[..., :p, p]
    factor = np.linalg.cholesky(inner)
    z = factor[..., p, :p]  # L⁻¹ times the right side
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1)[..., :p]
    found = found + 0.5 * np.square(z).sum(axis=-1)
    return found - np.log(lines.sd).sum() - np.log(diagonal).sum(axis=-1), precision, right


def _columns(lines: Lines) -> Array:
    """X and, as the last column, y less what the prior means give."""
    return np.column_stack([lines.X, lines.y - lines.X @ lines.mean])


def _by_group(lines: Lines, weight: Array, *, full: bool = False) -> tuple[Array, Array]:
    """Sums of weights and of weights times `_columns` over the rows of every group; `full`: groups without rows too."""
    order = np.argsort(lines.groups, kind="stable")
    present, starts = np.unique(lines.groups[order], return_index=True)
    s = np.add.reduceat(weight[:, order], starts, axis=1)
    m = np.add.reduceat(weight[:, order, None] * _columns(lines)[order], starts, axis=1)
    if not full:
        return s, m
    every, moment = np.zeros((s.shape[0], lines.n_groups)), np.zeros((s.shape[0], lines.n_groups, m.shape[2]))
    every[:, present], moment[:, present] = s, m
    return every, moment


def wide_axis(scale: float, nodes: int) -> Array:
    """Nodes of the logarithm of a half-normal's argument over all of its prior mass."""
    return np.linspace(math.log(SMALLEST * scale), math.log(LARGEST * scale), nodes, dtype=np.float64)


def where_the_mass_is(
    axes: Sequence[Array], log_density: Callable[[Sequence[Array]], Array], rounds: int = 1
) -> list[Array]:
    """Axes of a grid laid anew, with as many nodes, over what is not negligible on the grid laid before."""
    for _ in range(rounds):
        density = log_density(axes)
        kept, others = density > density.max() - NEGLIGIBLE, range(density.ndim)
        axes = [narrowed(axis, kept.any(axis=tuple(k for k in others if k != own))) for own, axis in enumerate(axes)]
    return list(axes)


def narrowed(nodes: Array, kept: NDArray[np.bool_]) -> Array:
    """As many nodes over those kept and the next on either side."""
    at = np.flatnonzero(kept)
    ends = nodes[max(at[0] - 1, 0)], nodes[min(at[-1] + 1, nodes.size - 1)]
    return np.linspace(*ends, nodes.size, dtype=np.float64)


def _half_normal(log_x: Array, scale: float) -> Array:
    """Log density of log x where x is half-normal."""
    return 0.5 * math.log(2 / math.pi) - math.log(scale) - 0.5 * np.square(np.exp(log_x) / scale) + log_x

"""Gaussian models with several kinds of effects, all summed out: exact draws by quadrature over their scales.

z = U a + e, a_j ~ N(0, v_j), e ~ N(0, r²). v_j is known for the first columns of U and s_k² for columns of kind k;
s_k and r are half-normal. With A = UᵀU/r² + diag(1/v) and b = Uᵀz/r²,
−2 log p(z) = n log 2πr² + log|A| + Σ log v + zᵀz/r² − bᵀA⁻¹b, and a given the scales is N(A⁻¹b, A⁻¹).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.quadrature import LARGEST, NEGLIGIBLE, SMALLEST

NODES = 14
"""Of every scale, first widely, then twice where the mass is."""
CANDIDATES = 3
"""Points within the nodes' cells for every draw, among which it is chosen by its density over that of its node."""
NUMBERS = 4_000_000
"""Numbers held at a time."""


@dataclass(frozen=True, kw_only=True)
class Components:
    """Outcomes, columns of effects and the priors of their scales."""

    z: Array
    U: Array
    """Outcomes × effects; the first columns have known prior standard deviations, the others are of some kind."""
    sd: Array
    """Of the first columns."""
    kind: Array
    """Which kind every other column is of, columns × kinds, 0 or 1."""
    scales: Array
    """Prior scales of the half-normals of s_1, s_2, … and r."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Independent draws."""

    effects: Array
    """draws × columns of U."""
    scales: Array
    """draws × (kinds + 1): s_1, s_2, …, r."""
    log_evidence: float
    effective: float
    """Effective number 1/Σw² of the weights by which the scales were chosen among the candidates, at most all."""


def draw(model: Components, *, seed: int, draws: int) -> Drawn:
    """Independent draws of the effects and their scales, and log p(z)."""
    axes = [np.linspace(math.log(SMALLEST * s), math.log(LARGEST * s), NODES) for s in model.scales]
    for _ in range(2):
        density = _densities(model, axes)
        axes = [_narrowed(axis, density, number) for number, axis in enumerate(axes)]
    density = _densities(model, axes)
    steps = np.array([axis[1] - axis[0] for axis in axes])
    total = float(logsumexp(density))
    rng = np.random.default_rng(seed)
    nodes = np.unravel_index(
        rng.choice(density.size, CANDIDATES * draws, p=np.exp(density - total).ravel()), density.shape
    )
    logs = np.column_stack([axis[at] for axis, at in zip(axes, nodes, strict=True)])
    logs = logs + steps * rng.uniform(-0.5, 0.5, logs.shape)
    log_weight = _log_joint(model, logs) - density[nodes]
    weight = np.exp(log_weight - logsumexp(log_weight))
    scales = np.exp(logs[rng.choice(len(logs), draws, p=weight)])
    effects = np.empty((draws, model.U.shape[1]))
    for at in np.array_split(np.arange(draws), _pieces(model, draws)):
        factor, z = _factored(model, scales[at])[:2]
        noise = rng.standard_normal(z.shape)
        effects[at] = np.linalg.solve(np.swapaxes(factor, 1, 2), (z + noise)[..., None])[..., 0]
    evidence = total + float(np.log(steps).sum() + logsumexp(log_weight)) - math.log(len(logs))
    return Drawn(effects=effects, scales=scales, log_evidence=evidence, effective=float(1 / np.square(weight).sum()))


def log_density(model: Components, scales: Array) -> Array:
    """log p(z | scales) of every row of `scales`, draws × (kinds + 1)."""
    factor, half, log_v = _factored(model, scales)
    r2 = np.square(scales[:, -1])
    grown = 2 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    quadratic = np.square(model.z).sum() / r2 - np.square(half).sum(axis=1)
    return np.asarray(-0.5 * (model.z.size * np.log(2 * math.pi * r2) + grown + log_v + quadratic))


def left_out(model: Components, scales: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of every outcome given all others, draws × outcomes, for every row of `scales`.

    With V = r² I + U diag(v) Uᵀ: mean z_i − (V⁻¹z)_i/(V⁻¹)_ii, variance 1/(V⁻¹)_ii.
    """
    means, sds = np.empty((len(scales), model.z.size)), np.empty((len(scales), model.z.size))
    for at in np.array_split(np.arange(len(scales)), _pieces(model, len(scales))):
        factor, half, _ = _factored(model, scales[at])
        r2 = np.square(scales[at, -1])[:, None]
        spread = np.linalg.solve(factor, np.broadcast_to(model.U.T, (len(at), *model.U.T.shape)))
        diagonal = (1 - np.square(spread).sum(axis=1) / r2) / r2
        weighted = (model.z - np.einsum("dqn,dq->dn", spread, half)) / r2
        means[at], sds[at] = model.z - weighted / diagonal, diagonal**-0.5
    return means, sds


def _factored(model: Components, scales: Array) -> tuple[Array, Array, Array]:
    """Cholesky factor L of A, L⁻¹b and Σ log v for every row of scales."""
    variance = np.empty((len(scales), model.U.shape[1]))
    variance[:, : model.sd.size] = np.square(model.sd)
    variance[:, model.sd.size :] = np.square(scales[:, :-1]) @ model.kind.T
    r2 = np.square(scales[:, -1])
    precision = (model.U.T @ model.U) / r2[:, None, None]
    own = np.arange(model.U.shape[1])
    precision[:, own, own] += 1 / variance
    factor = np.asarray(np.linalg.cholesky(precision), dtype=np.float64)
    right = (model.U.T @ model.z) / r2[:, None]
    half = np.asarray(np.linalg.solve(factor, right[..., None])[..., 0], dtype=np.float64)
    return factor, half, np.log(variance).sum(axis=1)


def _densities(model: Components, axes: Sequence[Array]) -> Array:
    """The joint density on a grid."""
    grid = np.meshgrid(*axes, indexing="ij")
    return _log_joint(model, np.column_stack([part.ravel() for part in grid])).reshape(grid[0].shape)


def _log_joint(model: Components, logs: Array) -> Array:
    """log p(z | scales) p(scales) Π scales of every row of logarithms of scales."""
    pieces = np.array_split(logs, _pieces(model, len(logs)))
    found = np.concatenate([log_density(model, np.exp(rows)) for rows in pieces])
    prior = 0.5 * math.log(2 / math.pi) - np.log(model.scales) - 0.5 * np.square(np.exp(logs) / model.scales) + logs
    return np.asarray(found + prior.sum(axis=1))


def _narrowed(axis: Array, density: Array, number: int) -> Array:
    others = tuple(i for i in range(density.ndim) if i != number)
    at = np.flatnonzero(density.max(axis=others) > density.max() - NEGLIGIBLE)
    return np.linspace(axis[max(at[0] - 1, 0)], axis[min(at[-1] + 1, axis.size - 1)], NODES)


def _pieces(model: Components, rows: int) -> int:
    outcomes, effects = model.U.shape
    return max(1, int(rows * effects * max(outcomes, effects)) // NUMBERS)

"""k_g ~ Binomial(n_g, p_g), logit p_g = μ + τ z_g by quadrature: exact posteriors and refits without sampling.

z_g ~ N(0, 1), μ normal, τ half-normal. Given μ and τ groups are independent, and each z_g is summed over a line of
nodes; μ and log τ are summed over a grid that is laid once coarsely and once where the mass is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.quadrature import LARGEST, where_the_mass_is, wide_axis
from thermostats.modelling.inference.sums import logsumexp

MU_SD, TAU_SCALE = 1.5, 1.0
NODES = 48
MU_REACH, Z_REACH = 5.0, 6.0
"""Ends of the lines of μ and z in their prior standard deviations: 6e-7 and 2e-9 of the prior mass lie beyond."""
STEP = 0.5
"""Distance of the nodes of z at the largest τ, in standard deviations of a logit that its own group tells most of."""

AT_ONCE = 4_000_000
"""Numbers of a table of draws × nodes; of more, fewer draws at a time."""

Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Independent draws of the posterior."""

    mu: Array
    tau: Array
    """Zeros where there is one p for all."""
    p: Array
    """draws × groups."""

    def new_group(self, rng: np.random.Generator) -> Array:
        """p of a group not seen, one a draw."""
        return np.asarray(expit(self.mu + self.tau * rng.standard_normal(self.mu.shape)))


def posterior(k: Counts, n: Counts, *, grouped: bool, seed: int, draws: int, factor: float = 1.0) -> Shares:
    """Draws of μ, τ and p; without `grouped` p is one number for all groups, and τ is 0; `factor`: of both scales."""
    rng = np.random.default_rng(seed)
    z, weight = _line(n, factor) if grouped else (np.zeros(1), np.zeros(1))
    mu, tau = _population(k, n, z, weight, draws, rng, factor)
    if not grouped:
        return Shares(mu=mu, tau=tau, p=np.repeat(expit(mu)[:, None], k.size, axis=1))
    p = np.empty((draws, k.size))
    kinds, kind = np.unique(np.column_stack([k, n]), axis=0, return_inverse=True)
    for rows in np.array_split(np.arange(draws), math.ceil(draws * z.size / AT_ONCE)):
        own_mu, own_tau = mu[rows], tau[rows]
        logits = own_mu[:, None] + own_tau[:, None] * z
        no = np.logaddexp(0.0, logits)  # −log(1 − p)
        chance = [(rng.random(rows.size), rng.uniform(-0.5, 0.5, rows.size)) for _ in range(k.size)]
        for number, (own_k, own_n) in enumerate(kinds):
            cumulated = _cumulated(own_k * logits - own_n * no + weight)
            for g in np.flatnonzero(kind == number):
                p[rows, g] = expit(own_mu + own_tau * _node(cumulated, z, *chance[g]))
    return Shares(mu=mu, tau=tau, p=p)


def _population(
    k: Counts, n: Counts, z: Array, weight: Array, draws: int, rng: np.random.Generator, factor: float = 1.0
) -> tuple[Array, Array]:
    """Draws of μ and τ; a single node of z is a model without groups."""
    mus, log_tau, density = _grid(k, n, z, weight, factor)
    chosen = rng.choice(density.size, draws, p=np.exp(density - logsumexp(density)).ravel())
    i, j = np.divmod(chosen, log_tau.size)
    jitter = rng.uniform(-0.5, 0.5, (2, draws))
    mu = mus[i] + jitter[0] * (mus[1] - mus[0])
    return mu, np.exp(log_tau[j] + jitter[1] * (log_tau[1] - log_tau[0])) if z.size > 1 else np.zeros(draws)


def prior(groups: int, *, grouped: bool, seed: int, draws: int) -> Shares:
    """The same from the prior."""
    rng = np.random.default_rng(seed)
    mu = rng.normal(0.0, MU_SD, draws)
    tau = np.abs(rng.normal(0.0, TAU_SCALE, draws)) if grouped else np.zeros(draws)
    z = rng.standard_normal((draws, groups))
    return Shares(mu=mu, tau=tau, p=np.asarray(expit(mu[:, None] + tau[:, None] * z)))


def left_out_pit(k: Counts, n: Counts, folds: Sequence[str], *, seed: int, draws: int) -> Array:
    """P(k_g < observed) + U P(k_g = observed) of every group, predicted from the other folds by exact refits."""
    rng = np.random.default_rng([seed, 1])
    found, fold_of = np.empty(k.size), np.asarray(folds)
    for number, fold in enumerate(dict.fromkeys(folds)):
        rest = fold_of != fold
        z, weight = _line(n[rest])
        mu, tau = _population(k[rest], n[rest], z, weight, draws, np.random.default_rng(seed + number))
        others = Shares(mu=mu, tau=tau, p=np.empty((draws, 0)))
        for g in np.flatnonzero(~rest):
            p = others.new_group(rng)
            below, at = stats.binom.cdf(k[g] - 1, n[g], p), stats.binom.pmf(k[g], n[g], p)
            found[g] = (below + rng.random() * at).mean()
    return found


def _line(n: Counts, factor: float = 1.0) -> tuple[Array, Array]:
    """Nodes of z, fine enough for the largest group, with log N(z; 0, 1)."""
    narrowest = 2 / math.sqrt(n.max())
    size = 2 * math.ceil(Z_REACH * LARGEST * TAU_SCALE * factor / (STEP * narrowest)) + 1
    z = np.linspace(-Z_REACH, Z_REACH, max(size, 101), dtype=np.float64)
    return z, np.asarray(stats.norm.logpdf(z))


def _grid(k: Counts, n: Counts, z: Array, weight: Array, factor: float) -> tuple[Array, Array, Array]:
    """Nodes of μ and of log τ, and the log density over both, where the mass is."""
    grouped = z.size > 1
    size, reach = NODES if grouped else 10 * NODES, MU_REACH * MU_SD * factor
    mu: Array = np.linspace(-reach, reach, size, dtype=np.float64)
    log_tau = wide_axis(TAU_SCALE * factor, size) if grouped else np.zeros(1)
    mu, log_tau = where_the_mass_is([mu, log_tau], lambda a: _density(k, n, a[0], a[1], z, weight, factor))
    return mu, log_tau, _density(k, n, mu, log_tau, z, weight, factor)


def _density(k: Counts, n: Counts, mu: Array, log_tau: Array, z: Array, weight: Array, factor: float) -> Array:
    """log of p(k | μ, τ) p(μ) p(τ) τ, up to a constant, μ × log τ."""
    grouped = z.size > 1
    tau = np.exp(log_tau) if grouped else np.zeros(1)
    found = np.broadcast_to(-0.5 * np.square(mu / (MU_SD * factor))[:, None], (mu.size, tau.size)).copy()
    if grouped:
        found += log_tau - 0.5 * np.square(tau / (TAU_SCALE * factor))
    step = math.log(z[1] - z[0]) if grouped else 0.0
    kinds, times = np.unique(np.column_stack([k, n]), axis=0, return_counts=True)
    for j in range(tau.size):
        logits = mu[:, None] + tau[j] * z
        no = np.logaddexp(0.0, logits)  # −log(1 − p)
        for (own_k, own_n), count in zip(kinds, times, strict=True):
            found[:, j] += count * (logsumexp(own_k * logits - own_n * no + weight, axis=1) + step)
    return found


def _cumulated(log_weights: Array) -> Array:
    """Weights over the nodes, summed up along every row."""
    return np.asarray(np.exp(log_weights - log_weights.max(axis=1, keepdims=True)).cumsum(axis=1))


def _node(cumulated: Array, z: Array, chance: Array, jitter: Array) -> Array:
    """One z per row, by its weights over the nodes, spread evenly around the node; `chance` in [0, 1), one per row."""
    at = (cumulated < chance[:, None] * cumulated[:, -1:]).sum(axis=1)
    return np.asarray(z[at] + jitter * (z[1] - z[0]))

"""y = U a + ε, a_j ~ N(0, v_j), ε_i ~ t₄(0, σ_g(i)), log σ_g ~ N(ν, ω²): effects with heavy errors by Gibbs sampling.

v_j is known for the first columns of U and s_k² for columns of kind k; s_k is half-normal, ν normal, ω log-normal.
Given ε_i = σ_g z_i/√w_i, z ~ N(0, 1), w_i ~ Gamma(2, rate 2), all effects are drawn at once: with W = diag(w_i/σ_g²),
A = UᵀWU + diag(1/v) and b = UᵀWy, a ~ N(A⁻¹b, A⁻¹). σ is walked with w summed out. Every s_k is walked given its
effects and drawn given these over s_k, one after the other, so that spreads near 0 and far from it mix alike (Yu and
Meng 2011, doi:10.1198/jcgs.2011.203main).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from thermostats.modelling.inference.draws import Array, Settings

NU = 4.0
"""Degrees of freedom of the residuals."""
WALKS = 4
"""Steps of a number that is walked, in every sweep."""
STRIDE = 2.4
"""Length of a step in standard deviations; Roberts, Gelman and Gilks 1997."""


@dataclass(frozen=True, kw_only=True)
class Heavy:
    """Rows of the model and its priors."""

    y: Array
    U: Array
    sd: Array
    """Of the first effects, known."""
    kind: Array
    """Which kind every other effect is of, effects × kinds, 0 or 1."""
    scales: Array
    """Of the half-normal priors of s."""
    group: NDArray[np.int64]
    centre: tuple[float, float]
    """Mean and standard deviation of ν."""
    spread: tuple[float, float]
    """Median of ω, and standard deviation of its logarithm."""


def sample(model: Heavy, *, seed: int, settings: Settings) -> dict[str, Array]:
    """Draws of fixed and own (the effects), spreads (s), log_sigma, sigma_centre (ν), sigma_spread (ω).

    Each of shape chain × draw × …; `settings` gives chains, draws and sweeps thrown away before.
    """
    rng, chains = np.random.default_rng(seed), settings.chains
    member = (model.group[:, None] == np.arange(model.group.max() + 1)).astype(np.float64)
    count, known = member.sum(axis=0), model.sd.size
    log_sigma = model.centre[0] + model.centre[1] * rng.standard_normal((chains, count.size))
    spreads = np.abs(rng.normal(0, model.scales, (chains, model.scales.size))) + 1e-3 * model.scales
    nu, omega = np.full((chains, 1), model.centre[0]), np.full((chains, 1), model.spread[0])
    weight, kept = np.ones((chains, model.y.size)), []
    of_kind = [known + np.flatnonzero(model.kind[:, k]) for k in range(model.scales.size)]
    columns = [(own, np.ascontiguousarray(model.U[:, own].T)) for own in of_kind]
    for sweep in range(settings.tune + settings.draws):
        sigma = np.exp(log_sigma)[:, model.group]
        precision = weight / np.square(sigma)
        effects = _effects(model, spreads, precision, rng)
        effects, spreads, rest = _spreads(model, columns, effects, spreads, precision, rng)
        e2 = np.square(rest)
        log_sigma = _log_sigmas(log_sigma, e2, member, count, nu, omega, rng)
        nu, omega = _population(model, log_sigma, omega, rng)
        scaled = e2 * np.exp(-2 * log_sigma)[:, model.group]
        weight = rng.standard_gamma((NU + 1) / 2, scaled.shape) / ((NU + scaled) / 2)
        if sweep >= settings.tune:
            kept.append((effects[:, :known], effects[:, known:], spreads, log_sigma, nu[:, 0], omega[:, 0]))
    names = ("fixed", "own", "spreads", "log_sigma", "sigma_centre", "sigma_spread")
    return {name: np.stack(drawn, axis=1) for name, drawn in zip(names, zip(*kept, strict=True), strict=True)}


def _effects(model: Heavy, spreads: Array, precision: Array, rng: np.random.Generator) -> Array:
    """All effects given the rest, chains × effects."""
    n = model.U.shape[1]
    weighted = model.U.T * precision[:, None, :]
    inner, own = np.empty((len(spreads), n + 1, n + 1)), np.arange(n)
    inner[:, :n, :n], inner[:, n, :n] = weighted @ model.U, weighted @ model.y
    inner[:, n, n] = 1 + 2 * (precision @ np.square(model.y))  # positive definite however the last digits come out
    known = np.broadcast_to(np.square(model.sd), (len(spreads), model.sd.size))
    inner[:, own, own] += 1 / np.column_stack([known, np.square(spreads) @ model.kind.T])
    factor = np.linalg.cholesky(inner)  # its last row is L⁻¹b
    half = factor[:, n, :n] + rng.standard_normal((len(spreads), n))
    return np.stack([solve_triangular(L[:n, :n].T, h, check_finite=False) for L, h in zip(factor, half, strict=True)])


def _spreads(
    model: Heavy,
    columns: Sequence[tuple[NDArray[np.int64], Array]],
    effects: Array,
    spreads: Array,
    precision: Array,
    rng: np.random.Generator,
) -> tuple[Array, Array, Array]:
    """s_k given the effects, then effects and s_k together given what the effects are over s_k; and the residuals.

    `columns`: of every kind its effects and their columns of U, transposed. Given u = a/s the outcome is linear in s_k,
    whose half-normal is that of |s|, s normal: a sign goes to the effects.
    """
    known, count = model.sd.size, model.kind.sum(axis=0)
    squares = np.square(effects[:, known:]) @ model.kind

    def density(log_s: Array) -> Array:
        s2 = np.exp(2 * log_s)
        return np.asarray((1 - count) * log_s - 0.5 * squares / s2 - 0.5 * s2 / np.square(model.scales))

    spreads = np.exp(walked(np.log(spreads), density, STRIDE / np.sqrt(2 * np.maximum(count, 1)), rng))
    effects, rest = effects.copy(), model.y - effects @ model.U.T
    for k, (scale, (own, part)) in enumerate(zip(model.scales, columns, strict=True)):
        direction = effects[:, own] @ part / spreads[:, [k]]
        rest += direction * spreads[:, [k]]
        variance = 1 / ((precision * np.square(direction)).sum(axis=1) + scale**-2.0)
        mean = variance * (precision * direction * rest).sum(axis=1)
        s = mean + np.sqrt(variance) * rng.standard_normal(mean.size)
        effects[:, own] *= (s / spreads[:, k])[:, None]
        rest -= direction * s[:, None]
        spreads[:, k] = np.abs(s)
    return effects, spreads, rest


def _log_sigmas(
    log_sigma: Array, e2: Array, member: Array, count: Array, nu: Array, omega: Array, rng: np.random.Generator
) -> Array:
    """log σ given all else but the w, which are summed out: t₄ residuals."""

    def density(log_s: Array) -> Array:
        tails = np.log1p(e2 * (np.exp(-2 * log_s) @ member.T) / NU) @ member
        return np.asarray(-count * log_s - (NU + 1) / 2 * tails - 0.5 * np.square((log_s - nu) / omega))

    step = STRIDE * np.sqrt((NU + 3) / (2 * NU * count))
    return walked(log_sigma, density, np.minimum(step, STRIDE * omega), rng)


def _population(model: Heavy, log_sigma: Array, omega: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """ν, exactly, and ω given log σ."""
    (middle, sd), (median, log_sd), n = model.centre, model.spread, log_sigma.shape[1]
    variance = 1 / (n / np.square(omega) + sd**-2.0)
    mean = variance * (log_sigma.sum(axis=1, keepdims=True) / np.square(omega) + middle / sd**2)
    nu = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
    squares = np.square(log_sigma - nu).sum(axis=1, keepdims=True)

    def density(log_omega: Array) -> Array:
        prior = -0.5 * np.square((log_omega - math.log(median)) / log_sd)
        return np.asarray(prior - n * log_omega - 0.5 * squares * np.exp(-2 * log_omega))

    step = STRIDE / math.sqrt(2 * n + log_sd**-2.0)
    return nu, np.exp(walked(np.log(omega), density, step, rng))


def walked(x: Array, density: Callable[[Array], Array], step: Array | float, rng: np.random.Generator) -> Array:
    """Numbers independent of each other after `WALKS` steps of random-walk Metropolis; `density`: log, of each."""
    now = density(x)
    for _ in range(WALKS):
        new = x + step * rng.standard_normal(x.shape)
        then = density(new)
        taken = np.log(rng.random(x.shape)) < then - now
        x, now = np.where(taken, new, x), np.where(taken, then, now)
    return x

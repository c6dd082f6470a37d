"""The heritage model of the models' means given its variances: everything Gaussian, through the blocks' low rank.

y_i = α + Z_i β + f_i + e_i, β ~ N(0, S(θ)), f_i ~ N(0, τ²φ_model), e_i ~ N(0, se_i²), θ_b = log τ²φ_b.
With D = τ²φ_model + se² and A = ZᵀD⁻¹Z + S⁻¹ one density takes M·q² steps for q effects, so that a thousand models in a
hundred labs take milliseconds. Residuals that are not normal have their variance and mean moved by a latent number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thermostats.modelling.heritage.laws import Law
from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.sums import logsumexp

NUMBERS = 2_000_000
"""Numbers held at a time."""
FEW = 8
SMALLEST, LARGEST = -200.0, 9.0
"""Ends of θ in the likelihood, the upper one minus log of the prior variance of τ: beyond it the prior is below
e^−4000, and A no longer positive definite in so many digits."""


Conditional = tuple[Array, Array, Array, Array, Array]
"""What `conditional` gives."""


@dataclass(frozen=True, kw_only=True)
class Means:
    """The means of the models, what they depend on, and the priors."""

    y: Array
    error: Array
    """Standard errors, one a model."""
    Z: Array
    """M × (1 + q): ones, then the bases of the blocks that are in the model."""
    ranks: tuple[int, ...]
    """Columns of each of these blocks."""
    seen: NDArray[np.bool_]
    """Models whose means are observed; the others are predicted."""
    total_sd: float
    concentration: float
    law: Law
    """Of the residuals."""
    units: NDArray[np.int64]
    """Whose latent number of that law is every model's: its own, or its lab's."""


@dataclass(frozen=True, kw_only=True)
class Latent:
    """What makes the model Gaussian, a row for every θ; arrays × models but for `shape`."""

    errors: Array
    factor: Array
    """Of the variance of the residuals."""
    shift: Array
    """Of the residuals, in units of their standard deviation."""
    shape: NDArray[np.int64]
    """Number of the value of the law's shape."""

    def of(self, rows: NDArray[np.int64]) -> Latent:
        """Some rows."""
        return Latent(**{name: values[rows] for name, values in vars(self).items()})


def log_density(means: Means, theta: Array, latent: Latent | None = None) -> Array:
    """log p(y | θ) p(θ) of every row of θ, up to a constant; θ_b = log τ²φ_b; `latent`: by default of normal residuals.

    The Jacobian of θ to (log τ, log φ_b/φ_model) is constant.
    """
    latent = plain(means, len(theta)) if latent is None else latent
    pieces = np.array_split(np.arange(len(theta)), _steps(means, theta))
    return np.concatenate(
        [density_given(means, theta[at], conditional(means, theta[at], latent.of(at))) for at in pieces]
    )


def plain(means: Means, size: int) -> Latent:
    """Errors as estimated and normal residuals."""
    whole = (size, means.y.size)
    return Latent(
        errors=np.broadcast_to(means.error, whole),
        factor=np.ones(whole),
        shift=np.zeros(whole),
        shape=np.zeros(size, dtype=np.int64),
    )


def density_given(means: Means, theta: Array, found: Conditional) -> Array:
    """`log_density` from what `conditional` gives for the same rows."""
    log_total = logsumexp(theta, axis=1)
    prior_variance, variance, factor, z, y = found
    quadratic = (np.square(y) / variance).sum(axis=1) - np.square(z).sum(axis=1)
    diagonal = np.diagonal(factor, axis1=1, axis2=2)
    determinant = np.log(variance).sum(axis=1) + np.log(prior_variance).sum(axis=1) + 2 * np.log(diagonal).sum(axis=1)
    log_phi = theta - log_total[:, None]
    prior = -0.5 * np.exp(log_total) / means.total_sd**2 + log_total / 2 + means.concentration * log_phi.sum(axis=1)
    return np.asarray(prior - 0.5 * (quadratic + determinant))


def _steps(means: Means, theta: Array) -> int:
    return min(len(theta), max(1, len(theta) * means.Z.size // NUMBERS))


def conditional(means: Means, theta: Array, latent: Latent) -> Conditional:
    """For every row of θ: prior variances of α and all effects, variance of every mean seen given them, L, z and y.

    L is the root of the effects' posterior precision A = LLᵀ, their posterior mean L⁻ᵀz, and y free of shifts.
    """
    variances = np.exp(np.clip(theta, SMALLEST, LARGEST + 2 * np.log(means.total_sd)))
    first = np.full((len(theta), 1), 4 * means.total_sd**2)
    prior_variance = np.concatenate([first, np.repeat(variances[:, :-1], means.ranks, axis=1)], axis=1)
    own = variances[:, [-1]]
    variance = own * latent.factor[:, means.seen] + np.square(latent.errors[:, means.seen])
    y = means.y[means.seen] - np.sqrt(own) * latent.shift[:, means.seen]
    Z = means.Z[means.seen]
    inner, last, own = np.empty((len(theta), Z.shape[1] + 1, Z.shape[1] + 1)), Z.shape[1], np.arange(Z.shape[1])
    inner[:, :last, :last] = _gram(Z, 1 / variance)
    inner[:, own, own] += 1 / prior_variance
    inner[:, last, :last] = (y / variance) @ Z
    inner[:, last, last] = 1 + (np.square(y) / variance).sum(axis=1)
    factor = np.asarray(np.linalg.cholesky(inner))  # its last row is z
    return prior_variance, variance, factor[:, :last, :last], factor[:, last, :last], y


def _gram(Z: Array, weight: Array) -> Array:
    """Σ_i w_i Z_i Z_iᵀ for every row of weights: one product where it fits, else one a row."""
    if len(weight) > FEW and Z.size * Z.shape[1] <= NUMBERS:
        outer = (Z[:, :, None] * Z[:, None, :]).reshape(len(Z), -1)
        return np.asarray((weight @ outer).reshape(-1, Z.shape[1], Z.shape[1]))
    return np.asarray((Z.T * weight[:, None, :]) @ Z)


def precision_of(means: Means, theta: Array, given: Latent) -> tuple[Array, Array]:
    """Inverse covariance P of the means seen, and Py, by rows of θ."""
    _, variance, factor, z, y = conditional(means, theta, given)
    half = np.linalg.solve(factor, means.Z[means.seen].T / variance[:, None, :])
    precision = -np.swapaxes(half, 1, 2) @ half
    precision[:, np.arange(y.shape[1]), np.arange(y.shape[1])] += 1 / variance
    return precision, y / variance - np.einsum("tqm,tq->tm", half, z)


def given_variances(
    means: Means, theta: Array, latent: Latent, chosen: NDArray[np.int64], rng: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """τ, shares, exact draws of standardised effects (α first, as it is) and model means for chosen rows of θ."""
    size, q = len(chosen), means.Z.shape[1]
    effects, m = np.empty((size, q)), np.empty((size, means.y.size))
    noise, own_noise = rng.standard_normal((size, q)), rng.standard_normal((size, means.y.size))
    rows, which = np.unique(chosen, return_inverse=True)
    theta, latent = theta[rows], latent.of(rows)
    for part in np.array_split(np.arange(len(rows)), _steps(means, theta)):
        at = np.flatnonzero((which >= part[0]) & (which <= part[-1]))
        found = conditional(means, theta[part], latent.of(part))
        prior_variance, _, factor, z, _ = (values[which[at] - part[0]] for values in found)
        own, error2 = np.exp(theta[which[at], -1:]), np.square(latent.errors[which[at]])
        shift, own = np.sqrt(own) * latent.shift[which[at]], own * latent.factor[which[at]]
        beta = np.linalg.solve(np.swapaxes(factor, 1, 2), (z + noise[at])[..., None])[..., 0]
        kept = np.where(means.seen, own / (own + error2), 0.0)
        left = np.where(means.seen, kept * error2, own)
        explained = beta @ means.Z.T + shift
        m[at] = explained + kept * (means.y - explained) + np.sqrt(left) * own_noise[at]
        effects[at] = beta
        effects[at, 1:] /= np.sqrt(prior_variance[:, 1:])
    log_total = logsumexp(theta, axis=1)[which]
    return np.exp(log_total / 2), np.exp(theta[which] - log_total[:, None]), effects, m

"""What is left between models, other than normal: laws of unit variance as mixtures of normals over one latent number.

Residual of model i: own·(shift + √factor·ε), ε ~ N(0, 1), where shift and factor are functions of a latent number of
the model (or of its lab) and of one shape parameter. Both are taken on grids, so that given them all stays Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from thermostats.modelling.inference.draws import Array

NORMAL, STUDENT, SKEW, BY_LAB = "normal residuals", "Student-t residuals", "skew residuals", "scale by lab"
NODES = 64
"""Of the latent number."""


@dataclass(frozen=True, kw_only=True)
class Law:
    """A law of the residuals on its grids."""

    name: str
    of_labs: bool
    """The latent number is the lab's, not the model's."""
    shape: Array
    """Values of the shape parameter."""
    log_prior: Array
    """Of every value, summing to 1."""
    log_p: Array
    """Of every node of the latent number given the shape, shapes × nodes."""
    factor: Array
    shift: Array
    """Both shapes × nodes."""

    def number_of(self, shape: Array) -> NDArray[np.int64]:
        """Numbers of values of the shape parameter."""
        return np.asarray(np.abs(shape[:, None] - self.shape).argmin(axis=1))

    def draws(self, shape: NDArray[np.int64], units: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Factor and shift of new units for rows of `shape` (their numbers), each rows × units."""
        at = shape[:, None]
        heights = np.cumsum(np.exp(self.log_p), axis=1)
        cell = (rng.random((len(shape), units))[..., None] > heights[at]).sum(axis=-1)
        cell = np.minimum(cell, self.log_p.shape[1] - 1)
        return self.factor[at, cell], self.shift[at, cell]


def law(name: str) -> Law:
    """The law of that name.

    Student-t: ν between 2.5 and 60, Gamma(2, rate 0.1), scaled to unit variance. Skew: δ(E − 1) + √(1 − δ²)ε with E
    exponential and δ uniform on (−0.95, 0.95): skewness 2δ³, none where δ is 0. Scale by lab: log-normal factors of
    the variance with mean 1, the SD of their logs half-normal(1).
    """
    if name == NORMAL:
        one = np.ones((1, 1))
        return _law(name, np.zeros(1), np.zeros(1), 0 * one, one, 0 * one)
    if name == STUDENT:
        nu = np.geomspace(2.5, 60, 12)
        log_factor = np.linspace(np.log(0.03), np.log(60), NODES)
        log_p = stats.invgamma.logpdf(np.exp(log_factor), nu[:, None] / 2, scale=nu[:, None] / 2) + log_factor
        factor = np.exp(log_factor) * ((nu - 2) / nu)[:, None]
        return _law(name, nu, stats.gamma.logpdf(nu, 2, scale=10) + np.log(nu), log_p, factor, np.zeros(log_p.shape))
    if name == SKEW:
        delta, e = np.linspace(-0.95, 0.95, 21), (np.arange(NODES) + 0.5) * 8 / NODES
        log_p = np.broadcast_to(-e, (delta.size, NODES))
        factor = np.broadcast_to(1 - np.square(delta)[:, None], log_p.shape)
        return _law(name, delta, np.zeros(delta.size), log_p, factor, delta[:, None] * (e - 1))
    omega, z = np.linspace(0.1, 3, 12), np.linspace(-3.5, 3.5, NODES)
    log_p = np.broadcast_to(-0.5 * np.square(z), (omega.size, NODES))
    factor = np.exp(omega[:, None] * z - np.square(omega)[:, None] / 2)
    return _law(name, omega, -0.5 * np.square(omega), log_p, factor, np.zeros(log_p.shape), of_labs=True)


def narrow(values: Array) -> Array:
    """Values on shapes × nodes; on one node where all are the same."""
    return values if np.ptp(values, axis=1).any() else values[:, :1]


def _law(
    name: str, shape: Array, log_prior: Array, log_p: Array, factor: Array, shift: Array, *, of_labs: bool = False
) -> Law:
    return Law(
        name=name,
        of_labs=of_labs,
        shape=shape,
        log_prior=log_prior - logsumexp(log_prior),
        log_p=log_p - logsumexp(log_p, axis=1, keepdims=True),
        factor=np.asarray(factor),
        shift=np.asarray(shift),
    )


def drawn_latents(
    own: Law, tilt: Array, size: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Numbers of the shape (size) and of the nodes (size × units), and log weights of the draws to be from the law.

    `tilt`, shapes × units × nodes: logs of factors by which draws are favoured.
    """
    joint = own.log_p[:, None, :] + tilt
    evidence = logsumexp(joint, axis=2)
    log_q = own.log_prior + evidence.sum(axis=1)
    q = 0.9 * np.exp(log_q - logsumexp(log_q)) + 0.1 * np.exp(own.log_prior)
    shape, units = rng.choice(q.size, size, p=q / q.sum()), np.arange(tilt.shape[1])
    cell = np.empty((size, units.size), dtype=np.int64)
    for h in np.unique(shape):
        at = np.flatnonzero(shape == h)
        heights = np.cumsum(np.exp(joint[h] - evidence[h][:, None]), axis=1)
        heights = (heights / heights[:, -1:] + units[:, None]).ravel()
        places = np.searchsorted(heights, (rng.random((at.size, units.size)) + units).ravel())
        cell[at] = np.clip(places.reshape(at.size, -1) - units * tilt.shape[2], 0, tilt.shape[2] - 1)
    column = shape[:, None]
    log_weight = (evidence[column, units] - tilt[column, units, cell]).sum(axis=1)
    log_weight = log_weight + own.log_prior[shape] - np.log(q)[shape]
    return shape, cell, log_weight

"""Priors of the scales of a Gaussian model: how its kinds of effects and its residual vary."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from thermostats.modelling.draws import Array

LARGEST = 300.0
"""Log of the largest scale whose square double precision holds; a larger one has that density."""


class Scales(Protocol):
    """A prior of the scales s_1, …, s_K, s_0."""

    @property
    def largest(self) -> float:
        """The largest of what it is stated with, in units of the outcomes."""

    def log_density(self, theta: Array) -> Array:
        """log p(θ) of every row of θ = log s."""

    def log_prior(self, theta: Array) -> Array:
        """The same of what the prior is stated for, up to a constant: what a power of the prior scales."""

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Scales from the prior, size × (K + 1)."""


@dataclass(frozen=True)
class HalfNormals:
    """Independent half-normal scales."""

    scales: tuple[float, ...]

    @property
    def largest(self) -> float:
        return max(self.scales)

    def log_density(self, theta: Array) -> Array:
        constant = 0.5 * math.log(2 / math.pi) - np.log(self.scales).mean()
        return np.asarray(self.log_prior(theta) + (theta + constant).sum(axis=1))

    def log_prior(self, theta: Array) -> Array:
        return np.asarray(-0.5 * np.square(np.exp(np.minimum(theta, LARGEST)) / np.asarray(self.scales)).sum(axis=1))

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        return np.abs(rng.normal(0.0, self.scales, (size, len(self.scales))))


@dataclass(frozen=True)
class Shares:
    """s_k² = τ²φ_k, τ half-normal(`total`), φ ~ Dirichlet(a, …, a) over `number` scales: no kind has a head start."""

    total: float
    number: int
    concentration: float = 1.0

    @property
    def largest(self) -> float:
        return self.total

    def log_density(self, theta: Array) -> Array:
        log_total = special.logsumexp(2 * theta, axis=1)
        log_phi = 2 * theta - log_total[:, None]
        constant = 0.5 * math.log(2 / math.pi) - math.log(self.total) + (self.number - 1) * math.log(2)
        constant += special.gammaln(self.number * self.concentration) - self.number * special.gammaln(
            self.concentration
        )
        return np.asarray(self.log_prior(theta) + log_total / 2 + log_phi.sum(axis=1) + constant)

    def log_prior(self, theta: Array) -> Array:
        log_total = special.logsumexp(2 * theta, axis=1)
        log_phi = 2 * theta - log_total[:, None]
        return np.asarray(
            -0.5 * np.exp(np.minimum(log_total, 2 * LARGEST)) / self.total**2
            + (self.concentration - 1) * log_phi.sum(axis=1)
        )

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        total = np.abs(rng.normal(0.0, self.total, (size, 1)))
        return np.asarray(total * np.sqrt(rng.dirichlet(np.full(self.number, self.concentration), size)))

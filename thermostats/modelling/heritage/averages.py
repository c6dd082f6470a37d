"""Models known by mean, spread and number of prompts: the exact likelihood of (ȳ, s², n), spreads in a hierarchy.

ȳ_i ~ N(m_i, σ_i/√n_i), (n_i − 1)s_i²/σ_i² ~ χ²(n_i − 1), log σ_i ~ N(μ, ω), for normal prompts. ȳ and s² are
independent given σ, so that s² alone gives σ by quadrature, and what ȳ adds is left to the weights of who draws it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.quadrature import where_the_mass_is

CENTRE, SPREAD = (-3.0, 1.5), (math.log(0.5), 0.5)
"""Normal prior of μ and of log ω, mean and standard deviation."""
NODES = (12, 10, 48)
"""Of μ, of log ω, and of every log σ."""
WIDE, REACH = 5.0, 5.0
"""Half widths of the grids: of μ; of log σ in its approximate standard deviations."""
NARROWEST, WIDEST = math.log(0.1), math.log(6.0)
"""Ends of the grid of log ω; the prior mass outside is 0.1%."""
RARE = 1e-3
"""Nodes of the hierarchy that weigh less than that times the heaviest are left out."""
SMALLEST = 1e-5
"""Spread of a model whose prompts are all alike."""
NUMBERS = 2_000_000
"""Numbers held at a time."""


@dataclass(frozen=True, kw_only=True)
class Averages:
    """One entry per model."""

    mean: Array
    sd: Array
    """Over prompts, divisor n − 1; of no meaning where n is 1; where n is infinite the standard error, known."""
    n: Array

    def of(self, kept: NDArray[np.int64]) -> Averages:
        """Those of some models."""
        return Averages(mean=self.mean[kept], sd=self.sd[kept], n=self.n[kept])

    @cached_property
    def error(self) -> Array:
        """Standard errors of the means: root of the posterior mean of σ²/n; 0 where every model has a single row."""
        if not (self.n > 1).any():
            return np.zeros(self.n.size)
        square = sum(w * (p * np.exp(2 * self._log_sigma)).sum(axis=1) for w, p in self._posterior)
        return np.where(np.isinf(self.n), self.sd, np.sqrt(square / self.n))

    def errors(
        self, size: int, rng: np.random.Generator, tilt: Callable[[Array], Array] | None = None
    ) -> tuple[Array, Array]:
        """Draws of the standard errors of the means, size × models, and their log weights to be given the spreads.

        `tilt`: squared errors, models × nodes, to logs of factors by which a model's draws are favoured.
        """
        if np.isinf(self.n).all() or not (self.n > 1).any():
            return np.broadcast_to(self.error, (size, self.n.size)), np.zeros(size)
        nodes, found, log_weight = self._log_sigma, np.empty((size, self.n.size)), np.zeros(size)
        favour = np.zeros(nodes.shape) if tilt is None else tilt(np.exp(2 * nodes) / self.n[:, None])
        favour = np.where(np.isinf(self.n)[:, None], 0.0, favour - favour.max(axis=1, keepdims=True))
        each = rng.multinomial(size, np.array([w for w, _ in self._posterior]))
        models = np.arange(self.n.size)
        for (_, p), at in zip(self._posterior, np.split(rng.permutation(size), np.cumsum(each)[:-1]), strict=True):
            heights = np.cumsum(p * np.exp(favour), axis=1)
            wanted = rng.random((at.size, self.n.size)) + models
            places = np.searchsorted((heights / heights[:, -1:] + models[:, None]).ravel(), wanted.ravel())
            cell = np.clip(places.reshape(wanted.shape) - models * nodes.shape[1], 0, nodes.shape[1] - 1)
            within = (nodes[:, 1] - nodes[:, 0]) * (rng.random(wanted.shape) - 0.5)
            found[at] = np.exp(nodes[models, cell] + within)
            log_weight[at] = (np.log(heights[:, -1]) - favour[models, cell]).sum(axis=1)
        return np.where(np.isinf(self.n), self.sd, found / np.sqrt(self.n)), log_weight

    @cached_property
    def _log_sigma(self) -> Array:
        """Nodes of log σ, models × nodes, about where likelihood and hierarchy agree."""
        df, log_s = self._known
        middle = log_s[df > 0].mean() if (df > 0).any() else CENTRE[0]
        precision = 1 + df  # half that of log s, as the likelihood falls slowly to the right
        centre = (middle + df * log_s) / precision
        return np.asarray(centre[:, None] + np.linspace(-REACH, REACH, NODES[2]) / np.sqrt(precision)[:, None])

    @property
    def _known(self) -> tuple[Array, Array]:
        """Degrees of freedom of every s² (0 of a single row or a known error) and log s."""
        df = np.where(np.isfinite(self.n), self.n - 1, 0.0)
        return df, np.log(np.maximum(np.where(df > 0, self.sd, 1.0), SMALLEST))

    @cached_property
    def _posterior(self) -> list[tuple[float, Array]]:
        """Weight of every node of (μ, ω), and the weights of the nodes of every log σ there, models × nodes."""
        df, log_s = self._known
        x = self._log_sigma
        likelihood = -df[:, None] * (x - log_s[:, None]) - df[:, None] / 2 * np.expm1(2 * (log_s[:, None] - x))
        step = x[:, 1] - x[:, 0]

        def terms(mu: Array, log_omega: Array, rows: slice | NDArray[np.int64]) -> Array:
            """Log of likelihood and hierarchy, … × models × nodes."""
            z = (x[rows] - mu[..., None, None]) / np.exp(log_omega)[..., None, None]
            return np.asarray(likelihood[rows] - 0.5 * z**2 - log_omega[..., None, None])

        def density(axes: Sequence[Array]) -> Array:
            mu, log_omega = np.meshgrid(*axes, indexing="ij")
            found = -0.5 * ((mu - CENTRE[0]) / CENTRE[1]) ** 2 - 0.5 * ((log_omega - SPREAD[0]) / SPREAD[1]) ** 2
            informed = np.flatnonzero(df > 0)
            pieces = max(1, informed.size * mu.size * x.shape[1] // NUMBERS)
            for rows in np.array_split(informed, min(pieces, max(informed.size, 1))):
                inside = np.exp(terms(mu, log_omega, rows)).sum(axis=-1) * step[rows]
                found = found + np.log(np.maximum(inside, 1e-300)).sum(axis=-1)
            return np.asarray(found)

        middle = CENTRE[0] if not (df > 0).any() else float(log_s[df > 0].mean())
        axes = [np.linspace(middle - WIDE, middle + WIDE, NODES[0]), np.linspace(NARROWEST, WIDEST, NODES[1])]
        axes = where_the_mass_is(axes, density, rounds=2)
        log_weight = density(axes)
        weight = np.exp(log_weight - log_weight.max())
        found = []
        for i, j in zip(*np.nonzero(weight > RARE), strict=True):
            own = terms(np.asarray(axes[0][i]), np.asarray(axes[1][j]), slice(None))
            own = np.exp(own - own.max(axis=1, keepdims=True))
            found.append((float(weight[i, j]), own / own.sum(axis=1, keepdims=True)))
        total = sum(w for w, _ in found)
        return [(w / total, p) for w, p in found]


def known(mean: Array, error: Array) -> Averages:
    """Means whose standard errors are known."""
    return Averages(mean=mean, sd=error, n=np.full(mean.size, np.inf))

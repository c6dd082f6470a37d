"""The model of a lineage on a large tree: its drift is never made dense, what it costs grows with the tree's nodes.

y = α + Σ_b X_b u_b + f + ε, f = s (R − 1r̄')z/unit, with K = RR' the covariance of Brownian motion. With k = s²/unit²
and a = K1/n the covariance of the outcomes is V₀ + UMU': V₀ = kK + diag(s_0² + error²), which pruning solves, and
U = (1, a, X_b), M the rest, of few columns. Draws are prior draws moved by what their outcomes lack (Matheron's rule:
z + Cov(z, y)V⁻¹(y − y*)), one solution along the tree a draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from thermostats.modelling.draws import Array
from thermostats.modelling.gaussian import NUMBERS, Gaussian, scales_of
from thermostats.modelling.lineage_drift import Drift
from thermostats.modelling.lineage_pruning import Pruning


@dataclass(frozen=True, kw_only=True)
class AlongTree(Gaussian):
    """A Gaussian model with an intercept, one block of which drifts along a tree; its errors count as exact."""

    LEAVES_OUT: ClassVar = False

    along: str
    """The block."""
    drift: Drift
    pruning: Pruning
    """The tree with the models of these outcomes, in their order."""
    rows_of_sources: Array
    """(R − 1r̄')/unit of the outcomes, n × sources."""
    common: Array
    """a of the outcomes: the mean covariance of each with all models of the fit."""
    mean_common: float
    """Its mean over all models of the fit."""

    def rows(self, which: NDArray[np.bool_]) -> AlongTree:
        """The same model of some of the outcomes."""
        fewer = super().rows(which)
        assert isinstance(fewer, AlongTree)  # noqa: S101 - made by `replace`
        pruning = replace(self.pruning, models=self.pruning.models[which])
        rows, common = self.rows_of_sources[which], self.common[which]
        return replace(fewer, pruning=pruning, rows_of_sources=rows, common=common)

    def log_density(self, theta: Array, square: Array | None = None) -> Array:
        """log p(y | θ) + log p(θ) of every row of θ = log s."""
        density = [self._density(part) for part in self._parts(theta)]
        return np.concatenate(density) + self.prior.log_density(theta)

    def _density(self, theta: Array) -> Array:
        k, noise, inner = self._scales(theta)
        log_det, cross = self.pruning.many(np.column_stack([self._low, self.y]), k, noise)
        grown, moved = self._by_low(inner, cross)
        quadratic = cross[:, -1, -1] - (cross[:, :-1, -1] * moved).sum(axis=1)
        return np.asarray(-0.5 * (self.y.size * math.log(2 * math.pi) + log_det + grown + quadratic))

    def _by_low(self, inner: Array, cross: Array) -> tuple[Array, Array]:
        """log|I + MG| and (I + MG)⁻¹Mg, G = U'V₀⁻¹U and g = U'V₀⁻¹ of the last column."""
        matrix = np.eye(inner.shape[1]) + inner @ cross[:, :-1, :-1]
        right = inner @ cross[:, :-1, -1:]
        return np.asarray(np.linalg.slogdet(matrix)[1]), np.asarray(np.linalg.solve(matrix, right)[..., 0])

    def _effects(self, theta: Array, square: Array, rng: np.random.Generator) -> dict[str, Array]:
        """Draws of everything given θ."""
        parts = [self._drawn(part, rng) for part in self._parts(theta)]
        return {name: np.concatenate([part[name] for part in parts]) for name in ("beta", *self.blocks)} | {
            "scale": np.exp(theta)
        }

    def _drawn(self, theta: Array, rng: np.random.Generator) -> dict[str, Array]:
        (k, noise, inner), scale, size = self._scales(theta), scales_of(self, theta), len(theta)
        z = rng.standard_normal((size, self.rows_of_sources.shape[1]))
        values = {"beta": self.sd * rng.standard_normal((size, 1))}
        lacks = self.y - values["beta"] - np.sqrt(noise) * rng.standard_normal(noise.shape)
        places = {name: scale[:, [place]] for place, name in enumerate(self.blocks)}
        lacks -= places[self.along] * (z @ self.rows_of_sources.T)
        for name in self._others:
            values[name] = places[name] * rng.standard_normal((size, self.blocks[name].shape[1]))
            lacks -= values[name] @ self.blocks[name].T
        low = np.broadcast_to(self._low, (size, *self._low.shape))
        _, cross = self.pruning.many(np.concatenate([low, lacks[..., None]], axis=2), k, noise)
        moved = self._by_low(inner, cross)[1]
        solved = self.pruning.solve(lacks - moved @ self._low.T, k, noise)
        values["beta"] = values["beta"] + np.square(self.sd) * solved.sum(axis=1, keepdims=True)
        for name in self._others:
            values[name] = values[name] + np.square(places[name]) * (solved @ self.blocks[name])
        z += places[self.along] * (solved @ self.rows_of_sources)
        return values | {self.along: places[self.along] * (z @ self.drift.axes)}

    def _scales(self, theta: Array) -> tuple[Array, Array, Array]:
        """k, the variances of what is no drift, draws × n, and M."""
        scale = scales_of(self, theta)
        places = {name: np.square(scale[:, place]) for place, name in enumerate(self.blocks)}
        k, noise = places[self.along] / self.drift.unit**2, np.square(scale[:, -1:]) + np.square(self.error)
        inner = np.zeros((len(theta), self._low.shape[1], self._low.shape[1]))
        inner[:, 0, 0] = float(self.sd[0]) ** 2 + k * self.mean_common
        inner[:, 0, 1] = inner[:, 1, 0] = -k
        at = 2
        for name in self._others:
            columns = np.arange(at, at + self.blocks[name].shape[1])
            inner[:, columns, columns] = places[name][:, None]
            at += columns.size
        return k, noise, inner

    @property
    def _others(self) -> list[str]:
        return [name for name in self.blocks if name != self.along]

    @cached_property
    def _low(self) -> Array:
        """U."""
        return np.column_stack([np.ones(self.y.size), self.common, *(self.blocks[name] for name in self._others)])

    def _parts(self, theta: Array) -> Iterator[Array]:
        numbers = len(theta) * self.pruning.parent.size * (self._low.shape[1] + 1)
        yield from np.array_split(theta, max(1, numbers // NUMBERS))


def along_tree(model: Gaussian, block: str, drift: Drift, names: list[str]) -> AlongTree:
    """A model that drifts by one of its blocks, `drift`, with outcomes of these models; errors count as exact."""
    tree = drift.sources.tree
    held = drift.sources.rows[[tree.place(name) for name in names]][:, drift.mask]
    common = held @ drift.mean
    return AlongTree(
        y=model.y,
        X=model.X,
        sd=model.sd,
        blocks=model.blocks,
        prior=model.prior,
        error=model.error,
        along=block,
        drift=drift,
        pruning=Pruning.of(tree, names),
        rows_of_sources=(held - drift.mean) / drift.unit,
        common=common,
        mean_common=float(drift.mean @ drift.mean),
    )

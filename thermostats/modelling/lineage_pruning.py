"""Pagel's λ on large trees: the likelihood of a line along a tree in time proportional to its nodes.

Every node hands its parent what the models below it say, a precision and a weighted mean of all columns; a branch of
variance v turns a precision p into p/(1 + vp). Felsenstein 1973; Ho and Ané 2014, doi:10.1093/sysbio/syu005.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from thermostats.errors import UsageError
from thermostats.modelling.draws import Array
from thermostats.modelling.lineage_likelihood import ML, REML, Maximum
from thermostats.tables.tree import Tree

EDGE = 1e-9
"""λ is sought up to 1 less this: at 1 a model at its parent's place cannot differ from it."""
STARTS = (0.0, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Pruning:
    """A tree, its nodes level by level, and which of them are models."""

    parent: NDArray[np.int64]
    length: Array
    levels: tuple[NDArray[np.int64], ...]
    """Nodes of every depth, those of one parent side by side; the root first."""
    models: NDArray[np.int64]

    @classmethod
    def of(cls, tree: Tree, names: Sequence[str]) -> Pruning:
        """Of a tree without merges, for models by name. Raises UsageError for merges and for a model twice."""
        if tree.merges:
            raise UsageError(
                "a tree with merged models is not pruned", got=tree.merges[0], allowed="one parent a model"
            )
        if len(set(names)) < len(names):
            raise UsageError("a model twice", allowed="one row per model")
        parent = np.array([-1, *(parents[0] for parents in tree.parents[1:])])
        depth = np.zeros(len(tree), dtype=np.int64)
        for i, above in enumerate(parent[1:], 1):
            depth[i] = depth[above] + 1
        order = np.lexsort((parent, depth))
        levels = tuple(np.split(order, np.flatnonzero(np.diff(depth[order])) + 1))
        at = np.array([tree.place(name) for name in names])
        heights = tree.heights
        return cls(parent, tree.lengths / heights[at].max(), levels, at)

    def products(self, w: Array, drift: float, noise: Array) -> tuple[float, Array]:
        """log|V| and WᵀV⁻¹W of columns W (models × m), V = drift · K + diag(noise), K of unit height."""
        log_det, cross = self.many(w, np.array([drift]), noise[None])
        return float(log_det[0]), cross[0]

    def many(self, w: Array, drift: Array, noise: Array) -> tuple[Array, Array]:
        """The same of many V: drift of size, noise size × models, W the same of all or size × models × m."""
        w = np.broadcast_to(w, (drift.size, *w.shape[-2:]))
        precision = np.zeros((drift.size, self.parent.size))
        weighted = np.zeros((drift.size, self.parent.size, w.shape[2]))
        precision[:, self.models], weighted[:, self.models] = 1 / noise, w / noise[..., None]
        log_det = np.log(noise).sum(axis=1)
        cross = np.swapaxes(w, 1, 2) @ weighted[:, self.models]
        for level, above, first in self._upwards:
            v, p, h = drift[:, None] * self.length[level], precision[:, level], weighted[:, level]
            grown = 1 + v * p
            log_det += np.log(grown).sum(axis=1)
            cross -= np.swapaxes(h, 1, 2) @ (h * (v / grown)[..., None])
            precision[:, above] += np.add.reduceat(p / grown, first, axis=1)
            weighted[:, above] += np.add.reduceat(h / grown[..., None], first, axis=1)
        return log_det, cross

    def solve(self, y: Array, drift: Array, noise: Array) -> Array:
        """V⁻¹y of many V, each with a y of its own, size × models: (y − E(drift | y))/noise, from the tips and back."""
        precision, weighted = np.zeros((2, drift.size, self.parent.size))
        precision[:, self.models], weighted[:, self.models] = 1 / noise, y / noise
        for level, above, first in self._upwards:
            grown = 1 + drift[:, None] * self.length[level] * precision[:, level]
            precision[:, above] += np.add.reduceat(precision[:, level] / grown, first, axis=1)
            weighted[:, above] += np.add.reduceat(weighted[:, level] / grown, first, axis=1)
        place = np.zeros_like(weighted)
        for level in self.levels[1:]:
            v = drift[:, None] * self.length[level]
            from_above = place[:, self.parent[level]]
            place[:, level] = (from_above + v * weighted[:, level]) / (1 + v * precision[:, level])
        return np.asarray((y - place[:, self.models]) / noise)

    @cached_property
    def _upwards(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], ...]:
        """Levels from the tips on: nodes, their parents, and where each parent's children begin."""
        levels = tuple(reversed(self.levels[1:]))
        firsts = [np.flatnonzero(np.diff(self.parent[level], prepend=-2)) for level in levels]
        return tuple((level, self.parent[level][first], first) for level, first in zip(levels, firsts, strict=True))


def pagel_by_pruning(y: Array, x: Array, tree: Tree, names: Sequence[str], *, method: str = REML) -> Maximum:
    """The maximum over λ of the line with Var = σ² ((1 − λ) I + λ K), the same as `lineage_likelihood.pagel`.

    y: an outcome a model; x: columns, models × p, the intercept among them; K the covariance on a tree of unit height.
    """
    pruning, w = Pruning.of(tree, names), np.column_stack([x, y])

    def at(lam: float) -> Maximum:
        return _line(pruning, w, lam, method)

    maxima = []
    for low, high in zip(STARTS, [*STARTS[1:], 1 - EDGE], strict=True):
        inner = optimize.minimize_scalar(
            lambda lam: -at(float(lam)).log_likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-9}
        )
        maxima += [at(low), at(float(inner.x))]
    return max(maxima, key=lambda each: each.log_likelihood)


def _line(pruning: Pruning, w: Array, lam: float, method: str) -> Maximum:
    n, p = len(w), w.shape[1] - 1
    log_det, cross = pruning.products(w, lam, np.full(n, 1 - lam))
    xx, xy = cross[:p, :p], cross[:p, p]
    beta = np.asarray(np.linalg.solve(xx, xy), dtype=np.float64)
    rss = float(cross[p, p] - xy @ beta)
    df = {REML: n - p, ML: n}[method]
    value = -0.5 * (df * (math.log(2 * math.pi * rss / df) + 1) + log_det)
    if method == REML:
        value -= 0.5 * float(np.linalg.slogdet(xx)[1])
    se = np.sqrt(np.diagonal(np.linalg.inv(xx)) * rss / (n - p))
    return Maximum(method=method, parameter=lam, beta=beta, se=se, sigma=math.sqrt(rss / df), log_likelihood=value)

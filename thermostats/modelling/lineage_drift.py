"""X = (R − mean)/unit, R the sources of drift of models (`lineage_processes`): descent as a block of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.modelling.classical.estimates import columns_of
from thermostats.modelling.draws import Array
from thermostats.modelling.lineage_processes import Sources
from thermostats.tables.tree import Tree

DENSE = 400
"""Models up to which covariances are held whole; beyond, what can is pruned."""


@dataclass(frozen=True, eq=False)
class Drift:
    """One block of descent: sources, which of them are its own, and how models' rows are centred, scaled and turned.

    Of its sources only the axes along which the models of the fit differ enter it; ancestors and new models have what
    is at right angles to these besides, of which the fit says nothing.
    """

    sources: Sources
    mask: Any
    mean: Array
    unit: float
    """Root mean square of a centred row: a drift of variance 1 at the top has 1/unit² of the block's."""
    axes: Array
    """Sources × axes, orthonormal."""

    @classmethod
    def of(cls, drift: Sources, rows: Array, mask: Any) -> Drift:
        """Centred over models and scaled so that the mean variance of their effects is 1."""
        of_model = rows[:, mask]
        mean = of_model.mean(axis=0)
        unit = float(np.sqrt(np.square(of_model - mean).sum(axis=1).mean()))
        return cls(drift, mask, mean, unit, _axes((of_model - mean) / unit))

    def scaled(self, rows: Array) -> Array:
        """Rows of sources, centred over the models of the fit and in units of the block."""
        return np.asarray((rows[:, self.mask] - self.mean) / self.unit)

    def rows_of(self, models: Sequence[str], rows: pd.DataFrame, of: NDArray[np.int64]) -> Array:
        """Basis of models: the axes and, where some are new, what lies besides and what is their own."""
        tree = self.sources.tree
        new = [name for name in models if name not in tree]
        if not new:
            held = self.sources.rows[[tree.place(name) for name in models]]
            return np.asarray(self.scaled(held) @ self.axes)
        columns_of(rows, "parent")
        parents, rows_found, length = rows["parent"].astype(str).to_numpy(), [], np.zeros((len(models), len(new)))
        for i, name in enumerate(models):
            if name in tree:
                rows_found.append(self.sources.rows[tree.place(name)])
                continue
            parent = parents[int(np.flatnonzero(of == i)[0])]
            row, scale = self.sources.child(parent, branch_below(tree, parent))
            rows_found.append(row)
            length[i, new.index(name)] = scale / self.unit
        inside, besides = self.split(self.scaled(np.array(rows_found)))
        return np.column_stack([inside, besides, length])

    def split(self, scaled: Array) -> tuple[Array, Array]:
        """Rows along the axes, and what is left of them."""
        inside = scaled @ self.axes
        return inside, scaled - inside @ self.axes.T

    def start(self) -> tuple[Array, Array]:
        """A place that has no drift, such as the root that motion along the tree begins at."""
        return self.split(-self.mean[None] / self.unit)

    def nodes(self) -> tuple[Array, Array]:
        """Every node of the tree along the axes, and what is left of it."""
        return self.split(self.scaled(self.sources.rows))


def _axes(scaled: Array) -> Array:
    """Orthonormal axes along which rows differ, sources × axes; of many rows by their products, which is faster."""
    if len(scaled) <= DENSE:
        _, s, right = np.linalg.svd(scaled, full_matrices=False)
        return np.asarray(right[s > 1e-9 * s[0]].T)
    square, left = np.linalg.eigh(scaled @ scaled.T)
    there = square > 1e-12 * square[-1]
    return np.asarray(scaled.T @ (left[:, there] / np.sqrt(square[there])))


def branch_below(tree: Tree, parent: str) -> float:
    """Length of a branch to a new model below a node, so that it stands as high as the models there do, or all."""
    place = tree.place(parent)
    children = [i for i, parents in enumerate(tree.parents) if place in parents]
    if not children:
        return float(np.median(tree.lengths[1:]))
    heights, below = tree.heights, {place}
    tips = set(tree.tips)
    for i, parents in enumerate(tree.parents):
        if below & set(parents):
            below.add(i)
    return max(float(np.median([heights[i] for i in below if tree.names[i] in tips]) - heights[place]), 1e-9)

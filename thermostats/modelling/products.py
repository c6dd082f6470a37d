"""Σ_i w_i m_i m_iᵀ of the rows m_i of a matrix for many weights w at once, rows that are alike put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thermostats.modelling.draws import Array

LEAST, SHARE = 8, 0.5
"""Columns of a block whose rows that are alike are put together, at least, and its share of distinct rows, at most."""


@dataclass(frozen=True, kw_only=True)
class Products:
    """Cross-products of groups of rows with one weight each."""

    flat: Array
    """Groups × columns²."""

    @classmethod
    def of(cls, parts: Sequence[Array]) -> Products:
        """Of the rows of every group."""
        return cls(flat=np.stack([(part.T @ part).ravel() for part in parts]))

    def weighted(self, weights: Array) -> Array:
        """Weighted sums, draws × columns × columns; weights: draws × groups."""
        columns = round(self.flat.shape[1] ** 0.5)
        return np.asarray((weights @ self.flat).reshape(-1, columns, columns))


@dataclass(frozen=True, kw_only=True)
class Alike:
    """Rows with a weight each, of which many are alike in one block of columns, such as models of one lab.

    With b_g the block's distinct rows and c_i the other columns: Σ_i w_i b b' = Σ_g w_g b_g b_g', Σ_i w_i b c' =
    Σ_g b_g (Σ_{i in g} w_i c_i)'.
    """

    order: NDArray[np.int64]
    """Rows by group."""
    starts: NDArray[np.int64]
    """Where each group begins among them."""
    distinct: Array
    """Groups × columns of the block."""
    others: Array
    """The other columns, rows by group."""
    places: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Columns of the block and others in the matrix."""

    @classmethod
    def of(cls, matrix: Array, widths: Sequence[int]) -> Alike | None:
        """By the widest of some blocks side by side; None where it is narrow or its rows are distinct."""
        wide = int(np.argmax(widths))
        first = sum(widths[:wide])
        block = np.arange(first, first + widths[wide])
        if block.size < LEAST:
            return None
        distinct, group = np.unique(matrix[:, block], axis=0, return_inverse=True)
        if len(distinct) > SHARE * len(matrix):
            return None
        order, others = np.argsort(group.ravel(), kind="stable"), np.delete(np.arange(matrix.shape[1]), block)
        starts = np.flatnonzero(np.diff(group.ravel()[order], prepend=-1))
        return cls(
            order=order, starts=starts, distinct=distinct, others=matrix[np.ix_(order, others)], places=(block, others)
        )

    def weighted(self, weights: Array) -> Array:
        """Weighted sums, draws × columns × columns; weights: draws × rows."""
        block, others = self.places
        total = np.empty((len(weights), block.size + others.size, block.size + others.size))
        sorted_weights = weights[:, self.order]
        of_groups = np.add.reduceat(sorted_weights, self.starts, axis=1)
        squares = (self.distinct[:, :, None] * self.distinct[:, None, :]).reshape(len(self.distinct), -1)
        total[:, block[:, None], block] = (of_groups @ squares).reshape(-1, block.size, block.size)
        sums = np.add.reduceat(sorted_weights[..., None] * self.others, self.starts, axis=1)
        across = self.distinct.T @ sums
        total[:, block[:, None], others] = across
        total[:, others[:, None], block] = np.swapaxes(across, 1, 2)
        of_others = (self.others[:, :, None] * self.others[:, None, :]).reshape(len(self.others), -1)
        total[:, others[:, None], others] = (sorted_weights @ of_others).reshape(-1, others.size, others.size)
        return total

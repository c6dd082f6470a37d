"""log|A| and the sum of squares of a Gaussian model whose groups lie in one another, such as
families within labs.

An effect that all outcomes of a group share is taken out group by group, in closed form, the finest
groups first: of thousands of draws at once this costs a tenth of a Cholesky factor each, and it is
the same number. What is left is a small matrix, of coefficients and of effects that are of no such
groups.

A block of groups has columns h_j 1[i in group j] + o_j: centred indicators have o ≠ 0. What the
offsets give every outcome alike, Σ_j o_j u_j, is put into the intercept; its prior given u is then
one more row, N(t − Σ_j o_j s u_j; μ, sd²).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from thermostats.modelling.draws import Array

LEAST_GROUPS = 8
"""Groups in all from which on taking them out one by one pays."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """Groups of outcomes with an effect each, or with none."""

    scale: int
    """Place of the effects' scale."""
    codes: NDArray[np.intp]
    """Group of every outcome, later of every group of the level before."""
    height: Array
    """Of every group: what its outcomes have of its effect and others have not."""
    offset: Array
    """Of every group: what all outcomes have of its effect."""
    absent: float
    """Σ o² of effects whose groups have no outcome here."""


def find_level(block: Array, scale: int) -> Level | None:
    """The groups of a block of columns; None where it is of no groups that exclude one another."""
    distinct, codes = np.unique(block, axis=0, return_inverse=True)
    low = distinct.min(axis=0)
    high = distinct.max(axis=0)
    varied = high > low
    varying = distinct[:, varied]
    inside = varying == high[varied]
    outside = varying == low[varied]
    in_one_each = (inside.sum(axis=0) == 1).all()
    is_partition = (inside | outside).all() and in_one_each
    if not varied.any() or not is_partition or (inside.sum(axis=1) > 1).any():
        return None
    group, _ = np.nonzero(inside.T)[::-1]
    height = np.zeros(len(distinct))
    offset = np.zeros(len(distinct))
    height[group] = (high - low)[varied]
    offset[group] = low[varied]
    absent = float(np.square(low[~varied]).sum())
    return Level(scale=scale, codes=codes.ravel(), height=height, offset=offset, absent=absent)


def chain_levels(levels: Sequence[Level]) -> list[Level]:
    """The finest level, the finest of those that it lies in, and so on; codes of each but the first
    are of the groups of the one before."""
    chain: list[Level] = []
    finest = np.empty(0, dtype=np.intp)
    for level in sorted(levels, key=lambda level: -level.height.size):
        if not chain:
            chain.append(level)
            finest = level.codes
            continue
        _, first = np.unique(finest, return_index=True)
        coarser = level.codes[first]
        if (coarser[finest] == level.codes).all():
            chain.append(replace(level, codes=coarser))
            finest = level.codes
    return chain


@dataclass(frozen=True, kw_only=True)
class NestedGroups:
    """A model laid out so that its groups are taken out one by one."""

    levels: tuple[Level, ...]
    """The finest first."""
    sums: tuple[sparse.csr_matrix, ...]
    """Sums over the groups of each level but the first, of values of the groups before."""
    linear: sparse.csr_matrix
    """Sums over groups of 1, of every other column and of the outcomes, times weights."""
    pairs: Array
    """Sums of products of two of the other columns and the outcomes, times weights."""
    fixed: Array
    """Prior standard deviations of coefficients."""
    scales: NDArray[np.intp]
    """Places of the scales of the other effects, one a column."""
    away: Array
    """Prior means of coefficients, off the centre in standard deviations."""
    intercept: int
    """Place of the intercept among the coefficients, −1 where there is none."""

    @classmethod
    def build(
        cls,
        columns: Array,
        fixed: Array,
        away: Array,
        blocks: Mapping[str, Array],
        outcomes: Array,
        which: NDArray[np.intp],
    ) -> NestedGroups | None:
        """None where no groups are worth it, and where offsets find no intercept.

        which: the weight of every outcome among the weights.
        """
        found = []
        for place, block in enumerate(blocks.values()):
            found.append(find_level(block, place))
        chain = chain_levels([level for level in found if level is not None])
        has_offsets = any(level.offset.any() or level.absent for level in chain)
        is_one = (columns == 1).all(axis=0)
        ones = np.flatnonzero(is_one)
        groups = sum(level.height.size for level in chain)
        if groups < LEAST_GROUPS or (has_offsets and not ones.size):
            return None
        taken = {level.scale for level in chain}
        others: list[Array] = []
        scales: list[int] = []
        for place, block in enumerate(blocks.values()):
            if place not in taken:
                others.append(block)
                scales += [place] * block.shape[1]
        table = np.column_stack([columns, *others, outcomes])
        size = len(outcomes)
        wide = _build_sums(which).T
        sums = []
        for values in (np.ones(size), *table.T):
            sums.append(_build_sums(chain[0].codes, values))
        first, second = np.tril_indices(table.shape[1])
        products = table[:, first] * table[:, second]
        weighted = sparse.vstack(sums) @ wide
        return cls(
            levels=tuple(chain),
            sums=tuple(_build_sums(level.codes) for level in chain[1:]),
            linear=sparse.csr_matrix(weighted),
            pairs=np.asarray((wide.T @ products).T),
            fixed=fixed,
            scales=np.array(scales, dtype=np.intp),
            away=away,
            intercept=int(ones[0]) if ones.size else -1,
        )

    @property
    def held(self) -> int:
        """Numbers held for a draw."""
        sums, weights = self.linear.shape
        return int(2 * sums + len(self.pairs) + weights)

    def score(self, scale: Array, weights: Array) -> tuple[Array, Array]:
        """log|A| and rᵀD⁻¹r + |m|² − |L⁻¹b|² of every draw, as `gaussian.build_factor` has them.

        scale: draws × scales. weights: 1/D, draws × weights.
        """
        finest = self.levels[0].height.size
        by_group = self.linear @ np.ascontiguousarray(weights.T)
        sums = by_group.reshape(-1, finest, len(scale))
        squares = self.pairs @ weights.T
        grown = np.zeros(len(scale))
        spread = np.ones(len(scale))
        across = np.zeros((len(sums) - 1, len(scale)))
        coupled = np.zeros(sums.shape[1:])
        sd = self.fixed[self.intercept] if self.intercept >= 0 else 1.0
        for place, level in enumerate(self.levels):
            if place:
                collect = self.sums[place - 1]
                sums = np.stack([collect @ part for part in sums])
                coupled = collect @ coupled
            of_kind = scale[:, level.scale]
            root = level.height[:, None] * of_kind
            pulled = sums[0] * root
            shrunk = 1 / (1 + pulled * root)
            own_offset = level.offset[:, None] * of_kind / sd
            constant = root * coupled - own_offset
            grown -= np.log(shrunk).sum(axis=0)
            spread += (np.square(constant) * shrunk).sum(axis=0)
            spread += level.absent * np.square(of_kind / sd)
            part = root * shrunk
            for first, own in enumerate(sums[1:]):
                across[first] += np.einsum("gt,gt->t", own, part * constant)
                reduced = own * (part * root)
                for second in range(first + 1):
                    taken = np.einsum("gt,gt->t", reduced, sums[second + 1])
                    squares[_find_place(first, second)] -= taken
            coupled = coupled - pulled * constant * shrunk
            sums = sums * shrunk
        rest = self._arrange_rest(scale, squares, across, spread)
        factor = np.linalg.cholesky(rest)
        diagonal = np.diagonal(factor, axis1=1, axis2=2)
        log_roots = np.log(diagonal[:, :-1]).sum(axis=1)
        grown += np.log(spread) + 2 * log_roots
        return grown, np.square(diagonal[:, -1]) - 1

    def _arrange_rest(self, scale: Array, squares: Array, across: Array, spread: Array) -> Array:
        """What is left of A, bordered by b and by 1 + rᵀD⁻¹r + |m|², draws × rows × columns; of
        these the lower half.

        squares: sums of products of columns, times what is left of weights. across, spread: mean,
        negative and of each column, and variance of Σ_j o_j s u_j given all else, in prior
        standard deviations of the intercept.
        """
        fixed = np.repeat(self.fixed[:, None], len(scale), axis=1)
        others = scale[:, self.scales].T
        factors = np.concatenate([fixed, others, np.ones((1, len(scale)))])
        away = np.zeros(len(factors))
        away[: len(self.away)] = self.away
        unit = np.ones(len(factors))
        row = -across * factors
        if self.intercept >= 0:
            row[self.intercept] += 1
            row[-1] += away[self.intercept]
            away[self.intercept] = 0
            unit[self.intercept] = 0
        else:
            row[:] = 0
        rest = np.zeros((len(scale), len(factors), len(factors)))
        for first in range(len(factors)):
            for second in range(first + 1):
                square = squares[_find_place(first, second)]
                product = square * factors[first] * factors[second]
                fitted = row[first] * row[second] / spread
                rest[:, first, second] = product + fitted
        places = np.arange(len(factors))
        rest[:, places, places] += unit
        rest[:, -1, :] += away
        rest[:, -1, -1] += away @ away
        return rest


def _find_place(first: int, second: int) -> int:
    """Place of a pair of columns, the second not after the first, among pairs."""
    return first * (first + 1) // 2 + second


def _build_sums(codes: NDArray[np.intp], values: Array | None = None) -> sparse.csr_matrix:
    """Groups × members: what sums members, times `values` where they are given, by group."""
    values = np.ones(codes.size) if values is None else values
    return sparse.csr_matrix((values, (codes, np.arange(codes.size))))

"""Two sides compared within cells: the mean over cells of log ratios of geometric means, by exact permutation.

T = 1/C Σ_c (mean of y over one side of cell c − mean over the other), y the logs, C the cells that hold both. Two ways
to move units: whole groups change sides and keep their cells (units of a group are alike), or single units change sides
within their cell (they are not). The first is valid where groups have something in common, and coarse where they are
few: of k groups of which j are on one side no p is below 1/binomial(k, j). Fisher 1935, The Design of Experiments.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.many import Many
from thermostats.modelling.columns import Array, ClassicalEstimate
from thermostats.settings import coverage

Sides = NDArray[np.bool_]
MOST = 20_000
"""Arrangements that are all tried; of more so many are drawn, the one at hand among them."""
TIE = 1e-12
"""Of the largest statistic: rounding, within which two are the same."""
LEAST_CELLS = 2


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Units of cells that hold both sides."""

    cell: NDArray[np.int64]
    side: Sides
    """Whether a unit is on the first side."""
    group: NDArray[np.int64]
    """Groups lie on one side each."""

    def __post_init__(self) -> None:
        """Refuse what cannot be compared."""
        if (crossed := [int(g) for g in np.unique(self.group) if len(set(self.side[self.group == g])) > 1]) != []:
            raise UsageError("a group lies on both sides", got=crossed[0], allowed="groups on one side each")

    def weights(self, sides: Sides) -> Array:
        """Weights of the units in T for arrangements of sides (a row each); NaN where no cell holds both."""
        member = np.eye(int(self.cell.max()) + 1)[self.cell]
        first, size = sides @ member, member.sum(axis=0)
        both = (first > 0) & (first < size)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = 1 / both.sum(axis=1, keepdims=True)
            up, down = (np.where(both, each / n, 0.0) for n in (first, size - first))
        weights = np.where(sides, up @ member.T, -down @ member.T)
        return np.asarray(np.where(both.any(axis=1, keepdims=True), weights, np.nan))

    @property
    def at_hand(self) -> Array:
        """Weights of the arrangement at hand."""
        return np.asarray(self.weights(self.side[None])[0])

    def of_groups(self, seed: int = 1) -> Array:
        """Weights of arrangements in which whole groups change sides, as many on each as at hand."""
        groups = np.unique(self.group)
        first = np.unique(self.group[self.side])
        return self._arranged([(groups, first.size)], self.group, seed)

    def of_units(self, seed: int = 1) -> Array:
        """Weights of arrangements in which units change sides within their cell."""
        units = np.arange(self.cell.size)
        parts = [(units[at], int(self.side[at].sum())) for at in (self.cell == c for c in np.unique(self.cell))]
        return self._arranged(parts, units, seed)

    def _arranged(self, parts: list[tuple[NDArray[np.int64], int]], of: NDArray[np.int64], seed: int) -> Array:
        """All choices of so many of every part, or `MOST` of them; `of`: what every unit is moved with."""
        if math.prod(math.comb(part.size, k) for part, k in parts) <= MOST:
            chosen = itertools.product(*(itertools.combinations(part.tolist(), k) for part, k in parts))
            sides = np.array([np.isin(of, list(itertools.chain.from_iterable(choice))) for choice in chosen])
        else:
            rng = np.random.default_rng(seed)
            moved = np.zeros((MOST, int(of.max()) + 1), dtype=bool)
            for part, k in parts:
                drawn = rng.random((MOST, part.size)).argsort(axis=1)[:, :k]
                moved[np.arange(MOST)[:, None], part[drawn]] = True
            sides = moved[:, of]
            sides[0] = self.side
        weights = self.weights(sides)
        return np.asarray(weights[np.isfinite(weights).all(axis=1)])

    def by_cell(self) -> Array:
        """Weights of the units in the log ratio of geometric means of every cell, one a row."""
        inside = self.cell == np.unique(self.cell)[:, None]
        up, down = inside & self.side, inside & ~self.side
        return np.asarray(up / up.sum(axis=1, keepdims=True) - down / down.sum(axis=1, keepdims=True))


@dataclass(frozen=True, kw_only=True)
class Permutation:
    """Share of arrangements with a statistic at least as far from 0, or as low, as the one at hand."""

    arrangements: int
    p_value: float
    """Two-sided."""
    p_below: float
    """One-sided, that the first side is lower."""
    least: float
    """The smallest one-sided p that these arrangements could give."""


@dataclass(frozen=True, kw_only=True)
class RatioOfCells(ClassicalEstimate):
    """T with its t interval over cells and p of whole groups; exponentials; p of units moved within cells."""

    ratio: float
    ratio_lower: float
    ratio_upper: float
    groups: Permutation
    units: Permutation


def ratio_of_cells(y: Array, cells: Cells, *, level: float = 0.95, seed: int = 1) -> RatioOfCells:
    """T = mean over cells of the log ratio of geometric means, y the logs; n counts cells.

    Raises UsageError for fewer than two cells: nothing says how ratios differ from cell to cell.
    """
    each = cells.by_cell() @ y
    if each.size < LEAST_CELLS:
        raise UsageError(
            "too few cells that hold both sides", got=each.size, allowed=f"{LEAST_CELLS} cells or more, for an interval"
        )
    estimate, error = float(each.mean()), float(each.std(ddof=1) / math.sqrt(each.size))
    half = float(stats.t.ppf((1 + coverage(level)) / 2, each.size - 1)) * error
    groups, units = (permuted(y, cells, weights) for weights in (cells.of_groups(seed), cells.of_units(seed)))
    ratio, lower, upper = (math.exp(x) for x in (estimate, estimate - half, estimate + half))
    return RatioOfCells(
        test="permutation of whole groups, mean log ratio within cells against 0",
        estimate=estimate,
        lower=estimate - half,
        upper=estimate + half,
        level=level,
        interval="t interval over cells",
        p_value=groups.p_value,
        n=each.size,
        ratio=ratio,
        ratio_lower=lower,
        ratio_upper=upper,
        groups=groups,
        units=units,
    )


def permuted(y: Array, cells: Cells, weights: Array) -> Permutation:
    """p-values of T among arrangements."""
    null, at_hand = weights @ y, float(cells.at_hand @ y)
    near = TIE * float(np.abs(null).max(initial=0.0))
    return Permutation(
        arrangements=len(null),
        p_value=float((np.abs(null) >= abs(at_hand) - near).mean()),
        p_below=float((null <= at_hand + near).mean()),
        least=1 / len(null),
    )


def false_rate(
    cells: Cells,
    weights: Array,
    *,
    group_sd: float,
    unit_sd: float,
    level: float = 0.05,
    size: int = 2000,
    seed: int = 1,
) -> float:
    """How often a two-sided test at `level` over arrangements says that the sides differ, where only groups do.

    y of simulated studies of this design: N(0, group_sd²) of every group plus N(0, unit_sd²) of every unit; what cells
    have in common cancels.
    """
    rng = np.random.default_rng(seed)
    _, group = np.unique(cells.group, return_inverse=True)
    y = rng.normal(0, group_sd, (size, group.max() + 1))[:, group] + rng.normal(0, unit_sd, (size, group.size))
    null, at_hand = np.abs(y @ weights.T), np.abs(y @ cells.at_hand)
    p = (null >= at_hand[:, None] * (1 - TIE)).mean(axis=1)
    return float((p <= level).mean())


def ratios_of_cells(outcomes: Array, cells: Cells, *, level: float = 0.95, seed: int = 1) -> Many:
    """Ratio e^T of many studies (study × unit, logs) with its t interval; p is one-sided, whole groups moved.

    p: the share of arrangements that lie as far to the side of the one at hand. Raises UsageError as `ratio_of_cells`.
    """
    each = cells.by_cell()
    if len(each) < LEAST_CELLS:
        raise UsageError("too few cells that hold both sides", got=len(each), allowed=f"{LEAST_CELLS} cells or more")
    ratios = outcomes @ each.T
    estimate = ratios.mean(axis=1)
    half = stats.t.ppf((1 + coverage(level)) / 2, len(each) - 1) * stats.sem(ratios, axis=1)
    null = outcomes @ cells.of_groups(seed).T * np.where(estimate < 0, 1.0, -1.0)[:, None]
    near = TIE * np.abs(null).max(axis=1, keepdims=True)
    p = (null <= -np.abs(estimate)[:, None] + near).mean(axis=1)
    return Many(np.exp(estimate), np.exp(estimate - half), np.exp(estimate + half), p)

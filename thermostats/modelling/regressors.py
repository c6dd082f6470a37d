"""What is left of outcomes about groups and covariates: eight statistics by which a fit is held
against replicated data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from thermostats.modelling.draws import Array, Statistic

LEAST = 3
"""Degrees of freedom that must be left."""
TINY = 1e-6
"""Share of a column, or of a residual's variance, that counts as none."""
LEAST_UNIT = 1e-300
"""What is divided by where nothing is left."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Regressors:
    """Groups and covariates of n outcomes."""

    x: Array
    """n × p; slopes on the first may differ between groups."""
    groups: NDArray[np.int64] | None = None
    """Number of every outcome's group."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom that are left."""
        return int(len(self.x) - self.basis.shape[1])

    @cached_property
    def members(self) -> Array:
        """Whether an outcome is of a group, n × groups, where groups and covariates leave enough;
        else one of ones."""
        if self.groups is None:
            return np.ones((len(self.x), 1))
        groups = self.groups[:, None] == np.unique(self.groups)
        members = groups.astype(np.float64)
        left = len(members) - _build_basis(members, self.x).shape[1]
        return members if left >= LEAST else np.ones((len(self.x), 1))

    @cached_property
    def basis(self) -> Array:
        """Orthonormal columns of all that is taken off."""
        return _build_basis(self.members, self.x)

    @cached_property
    def left(self) -> Array:
        """Share of every outcome's variance that is left."""
        return np.asarray(1 - np.square(self.basis).sum(axis=1))

    def take_residuals(self, y: Array) -> Array:
        """Residuals of every data set, … × n."""
        return y - (y @ self.basis) @ self.basis.T

    def scale_residuals(self, y: Array) -> Array:
        """Residuals of one standard deviation, in units of their root mean square; where nothing is
        left 0."""
        some = self.left > TINY
        r = self.take_residuals(y)
        squares = np.square(r).sum(axis=-1, keepdims=True)
        unit = np.sqrt(squares / self.freedom)
        scaled = r / np.sqrt(np.where(some, self.left, 1.0))
        return np.asarray(np.where(some, scaled, 0.0) / np.maximum(unit, LEAST_UNIT))


def _build_basis(*columns: Array) -> Array:
    """An orthonormal basis."""
    u, s, _ = np.linalg.svd(np.column_stack(columns), full_matrices=False)
    return u[:, s > TINY * s[0]]


def measure_group_slopes(design: Regressors) -> Statistic | None:
    """Share of the residuals' squares that slopes of every group on the first covariate explain."""
    if design.members.shape[1] < 2 or not design.x.size:
        return None
    return _measure_explained(design, design.members * design.x[:, [0]])


def measure_curvature(design: Regressors) -> Statistic | None:
    """The largest share of the residuals' squares that the square of a covariate explains."""
    off = design.x - design.x.mean(axis=0)
    shares = []
    for square in np.square(off).T:
        column = square[:, None]
        share = _measure_explained(design, column)
        if share is not None:
            shares.append(share)
    return (lambda y: np.max([share(y) for share in shares], axis=0)) if shares else None


def _measure_explained(design: Regressors, columns: Array) -> Statistic | None:
    """None where the columns have nothing beyond the design, or leave nothing."""
    beyond = columns - design.basis @ (design.basis.T @ columns)
    lengths = np.linalg.norm(columns, axis=0)
    beyond = beyond[:, np.linalg.norm(beyond, axis=0) > TINY * (1 + lengths)]
    q = _build_basis(beyond) if beyond.size else beyond
    if not 0 < q.shape[1] < design.freedom:
        return None

    def statistic(y: Array) -> Array:
        explained = np.square(y @ q).sum(axis=-1)
        return np.asarray(explained / _measure_squares(design, y))

    return statistic


def measure_group_spread(design: Regressors) -> Statistic | None:
    """Variance between groups of the mean absolute scaled residual, in units of the mean of all;
    Levene's."""
    members = design.members * (design.left > TINY)[:, None]
    is_several = members.sum(axis=0) >= 2
    members = members[:, is_several]
    if members.shape[1] < 2:
        return None
    sizes = members.sum(axis=0)

    def statistic(y: Array) -> Array:
        size = np.abs(design.scale_residuals(y))
        means = size @ members / sizes
        overall = means @ sizes / sizes.sum()
        relative = means / np.maximum(overall[..., None], LEAST_UNIT)
        squares = np.square(relative - 1)
        return np.asarray(squares @ sizes)

    return statistic


def measure_covariate_spread(design: Regressors) -> Statistic | None:
    """Largest rank correlation of a covariate with the size of the scaled residual, of either
    sign."""
    some = design.left > TINY
    ranks = np.empty((0, 0))
    if design.x.size and some.any():
        ranks = stats.rankdata(design.x[some], axis=0)
    off = ranks - ranks.mean(axis=0) if ranks.size else ranks
    length = np.linalg.norm(off, axis=0)
    varies = length > TINY
    if not varies.any():
        return None
    unit = off[:, varies] / length[varies]

    def statistic(y: Array) -> Array:
        scaled = design.scale_residuals(y)
        residuals = scaled[..., some]
        size = stats.rankdata(np.abs(residuals), axis=-1)
        size -= size.mean(axis=-1, keepdims=True)
        largest = np.abs(size @ unit).max(axis=-1)
        lengths = np.linalg.norm(size, axis=-1)
        return np.asarray(largest / np.maximum(lengths, LEAST_UNIT))

    return statistic


def measure_largest_residual(design: Regressors) -> Statistic | None:
    """Largest absolute scaled residual."""
    return lambda y: np.abs(design.scale_residuals(y)).max(axis=-1)


def measure_skew(design: Regressors) -> Statistic | None:
    """Absolute third standardised moment of the residuals."""
    return lambda y: np.abs(_standardise_moment(design, y, 3))


def measure_heaps(design: Regressors) -> Statistic | None:
    """Minus the fourth standardised moment, which is least for residuals in two heaps."""
    return lambda y: -_standardise_moment(design, y, 4)


def _standardise_moment(design: Regressors, y: Array, power: int) -> Array:
    """A moment of the residuals in units of their standard deviation."""
    moment = (design.take_residuals(y) ** power).mean(axis=-1)
    variance = _measure_squares(design, y) / len(design.x)
    return np.asarray(moment / variance ** (power / 2))


def measure_outlying_group(design: Regressors) -> Statistic | None:
    """Largest distance of a group's mean from the groups' mean, in their standard deviations;
    covariates taken off."""
    members = design.members
    if members.shape[1] < 4:
        return None
    constant = np.ones(len(members))
    off = _build_basis(constant, design.x)
    means = members / members.sum(axis=0)

    def statistic(y: Array) -> Array:
        centre = (y - (y @ off) @ off.T) @ means
        away = centre - centre.mean(axis=-1, keepdims=True)
        largest = np.abs(away).max(axis=-1)
        return np.asarray(largest / np.maximum(away.std(axis=-1), LEAST_UNIT))

    return statistic


def _measure_squares(design: Regressors, y: Array) -> Array:
    squares = np.square(design.take_residuals(y)).sum(axis=-1)
    return np.asarray(np.maximum(squares, LEAST_UNIT))


Measure = Callable[[Regressors], Statistic | None]
CLOSING: Mapping[str, Measure] = {
    "slopes by group": measure_group_slopes,
    "curvature": measure_curvature,
    "spread by group": measure_group_spread,
    "largest residual": measure_largest_residual,
}
"""What moves slopes, shares and standard errors of a linear model."""
WARNING: Mapping[str, Measure] = {
    "spread along a covariate": measure_covariate_spread,
    "skew of residuals": measure_skew,
    "two heaps of residuals": measure_heaps,
    "outlying group": measure_outlying_group,
}
"""What calls for another law of the residuals or of the groups."""
LARGE_IS_ODD = (*CLOSING, *WARNING)


def build_statistics(
    design: Regressors | None, which: Mapping[str, Measure]
) -> dict[str, Statistic]:
    """Those that this design has; none where fewer than `LEAST` degrees of freedom are left."""
    if design is None or design.freedom < LEAST:
        return {}
    statistics = {}
    for name, measure in which.items():
        statistic = measure(design)
        if statistic is not None:
            statistics[name] = statistic
    return statistics

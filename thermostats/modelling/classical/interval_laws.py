"""The law by which a test made an interval, so that its level at any other number is p of the same
test.

An interval that just reaches a number at 95% has p = 5% there. How p goes from there on is a matter
of the test: of Student's t with its degrees of freedom, on the scale on which the interval is
symmetric; of an exact interval of a share, of the binomial tail; of a profile likelihood, of χ².
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from thermostats.modelling.columns import LEVEL

Array = NDArray[Any]
SCALES: Mapping[str, Callable[[Any], Any]] = {
    "": np.asarray,
    "log": np.log,
    "atanh": np.arctanh,
    "logit": special.logit,
}
"""Scales on which intervals are symmetric, by name; of the empty name that of the estimate."""
ALPHA = 1 - LEVEL


class IntervalLaw(Protocol):
    """What gives p at a number from an estimate and an end of its interval."""

    def measure_p(self, estimate: Array, end: Array, bar: Any, *, below: bool) -> Array:
        """Two-sided p that the quantity is a number; below: whether that lies below the estimate,
        as the end does."""

    def take_first(self) -> IntervalLaw:
        """That of the first of many studies."""


@dataclass(frozen=True)
class StudentLaw:
    """An interval of Student's t, or of a normal for endless degrees of freedom."""

    df: Any = np.inf
    """Degrees of freedom, one for all studies or one each."""
    scale: str = ""
    """Scale of `SCALES` on which it is symmetric."""
    level: float = LEVEL
    """Level of the interval; one above 95%, as Bonferroni's, raises p as many times."""

    def measure_p(self, estimate: Array, end: Array, bar: Any, *, below: bool) -> Array:
        """See `IntervalLaw`; 1 on the other side of the estimate."""
        scaled = SCALES[self.scale]
        with np.errstate(invalid="ignore", divide="ignore"):
            middle = scaled(estimate)
            stretch = (middle - scaled(bar)) / (middle - scaled(end))
            outside = 1 - self.level
            reach = -_find_quantile(self.df, outside / 2)
            p = 2 * _compute_tail(self.df, reach * stretch) * ALPHA / outside
            return np.where(stretch > 0, np.minimum(p, 1.0), 1.0)

    def take_first(self) -> StudentLaw:
        """That of the first of many studies."""
        return replace(self, df=float(np.ravel(self.df)[0]))


NORMAL = StudentLaw()


@dataclass(frozen=True)
class ShareLaw:
    """Clopper and Pearson's exact interval of a share of some units, or of an effective number of
    them."""

    units: Any
    """How many, one for all studies or one each."""

    def measure_p(self, estimate: Array, end: Array, bar: Any, *, below: bool) -> Array:
        """See `IntervalLaw`: twice the tail of so many units or more, or fewer.

        A bar that was counted itself may be 0 or 1, of which no count of so many units is sure: it
        counts as half a unit off.
        """
        units = np.asarray(self.units, dtype=np.float64)
        count = np.asarray(estimate, dtype=np.float64) * units
        rest = units - count
        half = 0.5 / np.maximum(units, 1.0)
        is_outside = [np.less_equal(bar, 0), np.greater_equal(bar, 1)]
        share = np.select(is_outside, [half, 1 - half], bar)
        with np.errstate(invalid="ignore"):
            if below:
                tail = special.betainc(count, rest + 1, share)
                tail = np.where(count > 0, tail, 1.0)
            else:
                tail = special.betaincc(count + 1, rest, share)
                tail = np.where(rest > 0, tail, 1.0)
        return np.asarray(np.minimum(2 * tail, 1.0))

    def take_first(self) -> ShareLaw:
        """That of the first of many studies."""
        return replace(self, units=float(np.ravel(self.units)[0]))


@dataclass(frozen=True)
class ProfileLaw:
    """An interval of the numbers that a ratio of likelihoods does not reject by χ² of one degree of
    freedom."""

    nodes: Array
    """Numbers at which likelihoods were compared."""
    ratios: Array
    """Twice the log likelihood below the largest, study × node."""

    def measure_p(self, estimate: Array, end: Array, bar: Any, *, below: bool) -> Array:
        """See `IntervalLaw`: of the likeliest number on the other side of the bar, or on it."""
        beyond = self.nodes <= bar if below else self.nodes >= bar
        if not beyond.any():
            return np.zeros(self.ratios.shape[:-1])
        ratio = self.ratios[..., beyond].min(axis=-1)
        return np.asarray(special.chdtrc(1, ratio))

    def take_first(self) -> ProfileLaw:
        """That of the first of many studies."""
        return replace(self, ratios=self.ratios[0])


def _compute_tail(df: Any, t: Any) -> Array:
    """P(T > t)."""
    df = np.asarray(df, dtype=np.float64)
    below = -np.asarray(t)
    endless = np.isinf(df)
    student = special.stdtr(np.where(endless, 1.0, df), below)
    return np.asarray(np.where(endless, special.ndtr(below), student))


def _find_quantile(df: Any, share: float) -> Array:
    """t with P(T ≤ t) = share."""
    df = np.asarray(df, dtype=np.float64)
    endless = np.isinf(df)
    student = special.stdtrit(np.where(endless, 1.0, df), share)
    return np.asarray(np.where(endless, special.ndtri(share), student))

"""Closed forms: of a universe's rows, the estimate as a function of outcomes, m × rows → m."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.heritage.variance_shares import share_difference
from thermostats.modelling.specification.universes import OUTCOME

Array = npt.NDArray[np.float64]
Statistic = Callable[[Array], Array]
Estimator = Callable[[pd.DataFrame], Statistic]


def correlation_with(column: str, *, method: Literal["pearson", "spearman"] = "pearson", groups: str = "") -> Estimator:
    """Correlation of a column with the outcome; with `groups` both less the means of their groups.

    As `classical.association.correlation`.
    """

    def estimator(rows: pd.DataFrame) -> Statistic:
        codes = pd.factorize(rows[groups])[0] if groups else np.zeros(len(rows), dtype=np.int64)
        if len(rows) - len(set(codes)) < 3 or np.ptp(x := _within(rows[column].to_numpy(np.float64), codes)) == 0:
            raise UsageError("too few rows for a correlation", got=f"{len(rows)} rows", allowed="4, not all alike")
        x = _unit(x if method == "pearson" else stats.rankdata(x))

        def statistic(outcomes: Array) -> Array:
            y = _within(outcomes, codes)
            return np.asarray(_unit(y if method == "pearson" else stats.rankdata(y, axis=1)) @ x)

        return statistic

    return estimator


def difference_of_shares(first: str, second: str, blocks: Mapping[str, Sequence[str]]) -> Estimator:
    """Difference between the corrected shares of two blocks: `heritage.variance_shares.share_difference`."""
    return lambda rows: share_difference(rows, OUTCOME, blocks, first, second)


def difference_of_fractions(column: str, unit: str) -> Estimator:
    """Mean over units of the fraction of negative outcomes, where a true/false column is true less where it is not."""

    def estimator(rows: pd.DataFrame) -> Statistic:
        codes, units = pd.factorize(rows[unit])
        inside = rows.groupby(unit)[column].first().reindex(units).to_numpy(bool)
        if inside.all() or not inside.any():
            raise UsageError("nothing to compare with", where=column, got=f"{len(units)} units", allowed="both sides")
        weights = np.where(inside, 1 / inside.sum(), -1 / (~inside).sum())[codes] / np.bincount(codes)[codes]
        return lambda outcomes: np.asarray((outcomes < 0) @ weights)

    return estimator


def fraction_above(rows: pd.DataFrame) -> Statistic:
    """Fraction of positive outcomes."""
    if rows.empty:
        raise UsageError("no rows", got="0 rows", allowed="1 or more")
    return lambda outcomes: np.asarray((outcomes > 0).mean(axis=1))


def smallest_step(place: str, unit: str) -> Estimator:
    """Smallest difference of mean outcomes of two units whose places follow one another, higher less lower."""

    def estimator(rows: pd.DataFrame) -> Statistic:
        codes, units = pd.factorize(rows[unit])
        places = rows.groupby(unit)[place].first().reindex(units).to_numpy()
        rank = pd.factorize(places, sort=True)[0]
        high, low = np.nonzero(rank[:, None] == rank[None] + 1)
        if not len(high):
            raise UsageError("no two places to compare", where=place, got=f"{len(set(places))}", allowed="2 or more")
        mean = (codes[:, None] == np.arange(len(units))) / np.bincount(codes)
        return lambda outcomes: np.asarray(((outcomes @ mean)[:, high] - (outcomes @ mean)[:, low]).min(axis=1))

    return estimator


def of_each(function: Callable[[pd.DataFrame], float]) -> Estimator:
    """Any estimate of rows, called once for every rearrangement: as slow as the function."""
    return lambda rows: lambda outcomes: np.array([function(rows.assign(outcome=y)) for y in outcomes])


def normal_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """Outcomes as normal scores of their ranks, Φ⁻¹((r − ½)/n), on which heavy tails and skew have no hold."""
    ranks = stats.rankdata(rows[OUTCOME].to_numpy(np.float64))
    return rows.assign(outcome=stats.norm.ppf((ranks - 0.5) / len(rows)) if len(rows) else ranks)


def _within(values: Array, codes: npt.NDArray[np.int64]) -> Array:
    if not codes.any():
        return values
    mean = (codes[:, None] == np.arange(codes.max() + 1)) / np.bincount(codes)
    return np.asarray(values - (values @ mean)[..., codes])


def _unit(values: Array) -> Array:
    centred = values - values.mean(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.asarray(centred / np.sqrt(np.square(centred).sum(axis=-1, keepdims=True)))

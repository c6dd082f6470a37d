"""Tests of many studies of one design at once: what single tests give, as arrays with one element a study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import LEVEL, Array
from thermostats.modelling.classical.resampling import MOST_ARRANGEMENTS, orders

RESAMPLES = 1999
"""Rearrangements where not all are listed, the same for every study."""
HELD = 20_000_000
"""Statistics of rearrangements held at once."""
TOLERANCE = 1e-9
"""Statistics nearer to one another are equal."""


@dataclass(frozen=True)
class Many:
    """Estimates of many studies, by the names that rules use."""

    estimate: Array
    lower: Array
    upper: Array
    p: Array


def correlations(
    x: Array,
    outcomes: Array,
    *,
    method: Literal["pearson", "spearman"] = "pearson",
    groups: Sequence[object] | pd.Series | None = None,
    seed: int = 0,
) -> Many:
    """Correlation of x with every row of `outcomes` (study × row), as `association.correlation` has it of one.

    r is that within groups where there are several; p permutes x, within groups. All n! pairings are listed for n ≤ 8,
    otherwise all studies meet the same rearrangements. Raises UsageError for too few points.
    """
    codes = np.zeros(x.size, dtype=np.int64) if groups is None else pd.factorize(np.asarray(groups))[0]
    k = int(codes.max()) + 1
    df = x.size - k - 2
    if df < 1:
        raise UsageError("too few points inside groups", got=f"{x.size} points in {k} groups", allowed="3 more")
    if k > 1:
        within = (codes[:, None] == np.arange(k)).astype(np.float64)
        within /= within.sum(axis=0)
        x, outcomes = x - (x @ within)[codes], outcomes - (outcomes @ within)[:, codes]
    if method == "spearman":
        x, outcomes = stats.rankdata(x), stats.rankdata(outcomes, axis=1)
    x, y = _unit(x), _unit(outcomes)
    r = np.clip(y @ x, -1.0, 1.0)
    half = stats.norm.ppf((1 + LEVEL) / 2) * np.sqrt((1 if method == "pearson" else 1 + r * r / 2) / df)
    with np.errstate(divide="ignore"):
        lower, upper = np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half)
    return Many(r, lower, upper, _permutation_p(_rearranged(x, codes, seed), y, np.abs(r)))


def _unit(values: Array) -> Array:
    """Off their mean, of length 1, along the last axis."""
    centred = values - values.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt(np.square(centred).sum(axis=-1, keepdims=True)))


def _rearranged(x: Array, codes: NDArray[np.int64], seed: int) -> Array:
    """x in other orders, one a row, within groups; all of them where they can be listed, the observed one first."""
    if codes.max() == 0 and math.factorial(x.size) <= MOST_ARRANGEMENTS:
        return np.asarray(x[orders(x.size)])
    rng = np.random.default_rng(seed)
    place = np.argsort(codes, kind="stable")
    shuffled = np.empty((RESAMPLES + 1, x.size))
    shuffled[0] = x
    shuffled[1:, place] = x[place][np.argsort(codes[place] + rng.random((RESAMPLES, x.size)), axis=1)]
    return shuffled


def _permutation_p(rearranged: Array, y: Array, observed: Array) -> Array:
    """Share of rearrangements, the observed one among them, with a statistic as large as the observed one."""
    step = max(1, HELD // len(rearranged))
    parts = [
        (np.abs(y[at : at + step] @ rearranged.T) >= observed[at : at + step, None] - TOLERANCE).mean(axis=1)
        for at in range(0, len(y), step)
    ]
    return np.concatenate(parts)

"""Permutation p-values, exact where all arrangements can be listed, and BCa intervals that count their failures."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from scipy import stats

from thermostats.modelling.classical.estimates import NO_INTERVAL, RESAMPLES, Array

MOST_ARRANGEMENTS = 41_000
"""Arrangements listed one by one at most: 8! = 40,320 pairings, 2^15 sign flips."""
MOST_DEGENERATE = 0.05
"""Share of degenerate resamples above which no bootstrap interval is given."""
LARGEST = 10_000_000
"""Shuffled values held at once."""
Kind = Literal["independent", "samples", "pairings"]


def permuted(
    data: Sequence[Array], statistic: Callable[..., Array], kind: Kind, *, seed: int, resamples: int = RESAMPLES
) -> tuple[Any, bool, str]:
    """scipy's permutation test of P(statistic ≥ observed), whether it is exact, and in words how it was counted.

    `statistic` takes the samples and `axis` and grows with the distance from the null hypothesis. `kind` is scipy's:
    pairings (shuffle the one sample given), samples (flip the signs of the one sample given), independent (shuffle
    between two samples).
    """
    n = sum(len(sample) for sample in data)
    total = {"pairings": math.factorial(n), "samples": 2**n, "independent": math.comb(n, len(data[0]))}[kind]
    exact = total <= MOST_ARRANGEMENTS
    result = stats.permutation_test(
        tuple(data),
        statistic,
        permutation_type=kind,
        vectorized=True,
        alternative="greater",
        n_resamples=total if exact else resamples,
        batch=None if exact else max(1, LARGEST // n),
        rng=np.random.default_rng(seed),
    )
    return result, exact, f"exact, all {total} arrangements" if exact else f"Monte Carlo, (b + 1)/({resamples} + 1)"


def permutation_p(
    data: Sequence[Array], statistic: Callable[..., Array], kind: Kind, *, seed: int, resamples: int = RESAMPLES
) -> tuple[float, str]:
    """The p-value of `permuted`, and how it was counted."""
    result, _, counted = permuted(data, statistic, kind, seed=seed, resamples=resamples)
    return float(result.pvalue), counted


def bca(data: Array, statistic: Callable[..., Any], *, level: float, seed: int) -> tuple[float, float, str]:
    """BCa bootstrap bounds and their kind in words (Efron 1987, doi:10.1080/01621459.1987.10478410).

    Resamples where `statistic` is not finite are left out and counted; with more than 5% of them, or where the
    jackknife is degenerate, the bounds are NaN and the words say so.
    """
    common: dict[str, Any] = {"vectorized": True, "confidence_level": level}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a degenerate distribution is reported in words below
        drawn: Any = stats.bootstrap(
            (data,), statistic, method="percentile", n_resamples=RESAMPLES, rng=np.random.default_rng(seed), **common
        )
        finite = np.isfinite(drawn.bootstrap_distribution)
        left_out = f"{int((~finite).sum())} of {RESAMPLES} resamples degenerate"
        if finite.mean() < 1 - MOST_DEGENERATE:
            return math.nan, math.nan, f"{NO_INTERVAL}: {left_out}"
        drawn.bootstrap_distribution = drawn.bootstrap_distribution[finite]
        result: Any = stats.bootstrap((data,), statistic, method="BCa", n_resamples=0, bootstrap_result=drawn, **common)
    low, high = map(float, result.confidence_interval)
    if not (math.isfinite(low) and math.isfinite(high)):
        return math.nan, math.nan, f"{NO_INTERVAL}: BCa undefined (degenerate jackknife or distribution); {left_out}"
    return low, high, f"BCa bootstrap, {left_out}"

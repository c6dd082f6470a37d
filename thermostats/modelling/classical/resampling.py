"""Permutation p-values, exact where all arrangements can be listed, and BCa intervals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any, Literal

import numpy as np
from scipy import stats

from thermostats.modelling.classical.estimates import NO_INTERVAL, RESAMPLES, Array
from thermostats.settings import coverage

MOST_ARRANGEMENTS = 41_000
"""Arrangements listed one by one at most: 8! = 40,320 pairings, 2^15 sign flips."""
LARGEST = 10_000_000
"""Shuffled values held at once."""
Kind = Literal["independent", "samples", "pairings"]


def permuted(
    data: Sequence[Array], statistic: Callable[..., Array], kind: Kind, *, seed: int, resamples: int = RESAMPLES
) -> tuple[float, str, Array]:
    """P(statistic ≥ observed) as scipy's permutation test has it, how it was counted, and all arrangements' if exact.

    `statistic` takes the samples and `axis` and grows with the distance from the null hypothesis. `kind` is scipy's:
    pairings (shuffle the one sample given), samples (flip the signs of the one sample given), independent (shuffle
    between two samples).
    """
    n = sum(len(sample) for sample in data)
    total = {"pairings": math.factorial(n), "samples": 2**n, "independent": math.comb(n, len(data[0]))}[kind]
    exact = total <= MOST_ARRANGEMENTS
    counted = f"exact, all {total} arrangements" if exact else f"Monte Carlo, (b + 1)/({resamples} + 1)"
    if exact and kind == "pairings":
        null = statistic(data[0][orders(n)], axis=-1)
        observed = statistic(data[0], axis=-1) * (1 - 100 * np.finfo(float).eps)
        return float(np.mean(null >= observed)), counted, null
    result: Any = stats.permutation_test(
        tuple(data),
        statistic,
        permutation_type=kind,
        vectorized=True,
        alternative="greater",
        n_resamples=total if exact else resamples,
        batch=None if exact else max(1, LARGEST // n),
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue), counted, result.null_distribution if exact else np.empty(0)


@lru_cache(4)
def orders(n: int) -> Array:
    """All n! orders of n places, one a row."""
    return np.array(list(permutations(range(n))))


def bca(data: Array, statistic: Callable[..., Any], *, level: float, seed: int) -> tuple[float, float, str]:
    """BCa bootstrap bounds and their kind in words (Efron 1987, doi:10.1080/01621459.1987.10478410).

    Where the jackknife or the distribution of the resamples is degenerate, the bounds are NaN and the words say so.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a degenerate distribution is reported in words below
        result: Any = stats.bootstrap(
            (data,),
            statistic,
            method="BCa",
            vectorized=True,
            n_resamples=RESAMPLES,
            confidence_level=coverage(level),
            rng=np.random.default_rng(seed),
        )
    left_out = f"{int((~np.isfinite(result.bootstrap_distribution)).sum())} of {RESAMPLES} resamples degenerate"
    low, high = map(float, result.confidence_interval)
    if not (math.isfinite(low) and math.isfinite(high)):
        return math.nan, math.nan, f"{NO_INTERVAL}: BCa undefined (degenerate jackknife or distribution); {left_out}"
    return low, high, f"BCa bootstrap, {left_out}"

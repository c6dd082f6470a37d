"""Classical tests of means: one sample, pairs, two groups; ratios on the log scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import (
    LEVEL,
    RESAMPLES,
    Array,
    ClassicalEstimate,
    is_constant,
    numbers,
    same_length,
)
from thermostats.modelling.classical.resampling import permuted
from thermostats.settings import coverage


@dataclass(frozen=True, kw_only=True)
class Difference(ClassicalEstimate):
    """A mean (difference); on the log scale `ratio` and its bounds are exp of the estimate and its bounds, else NaN."""

    statistic: float
    df: float
    ratio: float
    ratio_lower: float
    ratio_upper: float
    p_permutation: float
    permutation: str


def one_sample(
    values: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    against: float = 0.0,
    log: bool = False,
    level: float = LEVEL,
    seed: int,
    resamples: int = RESAMPLES,
) -> Difference:
    """Mean of `values` against a given value: t interval and sign-flip permutation, exact for n ≤ 15.

    With `log` the natural logarithms are taken first, `against` is a ratio (such as 1 for a gain) and `ratio` is the
    geometric mean; the estimate is then log(geometric mean / against), else mean − against. Where values of a group are
    alike, `groups` (one a value) makes the groups' means the sample.
    Raises UsageError for fewer than 3 values, missing ones, constant ones, or logs of values not above 0.
    """
    x = _by_group(numbers(values, "values", least=3, positive=log), groups, log)
    x = numbers(x, "values", least=3, positive=log, varied=True)
    if log and against <= 0:
        raise UsageError("a logarithm is taken of the value tested", where="against", got=against, allowed="above 0")
    shifted = np.log(x) - math.log(against) if log else x - against
    test = f"t test of the mean {'log ' * log}against {against:g}"
    return _of_one_mean(shifted, test, seed, resamples, log=log, against=against, level=level)


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    log: bool = True,
    level: float = LEVEL,
    seed: int,
    resamples: int = RESAMPLES,
) -> Difference:
    """Mean of log(a/b) (or of a − b) over pairs: t interval, sign-flip permutation; `ratio`: geometric mean of a/b.

    Where pairs of a group are alike, `groups` (one a pair) makes the groups' means the sample.
    Raises UsageError for fewer than 3 pairs, constant differences, missing values, or logs of values not above 0.
    """
    x, y = numbers(a, "a", least=3, positive=log), numbers(b, "b", least=3, positive=log)
    same_length(a=x, b=y)
    differences = _by_group(np.log(x) - np.log(y) if log else x - y, groups)
    if is_constant(differences):
        raise UsageError(
            "every pair differs by the same amount",
            where="a, b",
            got=f"{differences[0]:g} {x.size} times",
            allowed="differences that vary",
        )
    test = f"paired t test of {'log(a/b)' if log else 'a − b'} against 0"
    return _of_one_mean(differences, test, seed, resamples, log=log, level=level)


def welch_difference(
    a: ArrayLike, b: ArrayLike, *, log: bool = True, seed: int, resamples: int = RESAMPLES
) -> Difference:
    """Difference of two groups' means (of logs by default), variances not assumed equal: Welch's t, |t| permuted.

    Raises UsageError for fewer than 3 values a group, both groups constant, missing values, or logs of values not
    above 0.
    """
    x, y = numbers(a, "a", least=3, positive=log), numbers(b, "b", least=3, positive=log)
    x, y = (np.log(x), np.log(y)) if log else (x, y)
    if is_constant(x) and is_constant(y):
        raise UsageError(
            "both groups are constant", where="a, b", got=f"{x[0]:g} and {y[0]:g}", allowed="values that vary"
        )
    test = f"Welch t test of mean {'log ' * log}a − mean {'log ' * log}b against 0"
    result = stats.ttest_ind(x, y, equal_var=False)
    permutation = permuted([x, y], _welch_t, "independent", seed=seed, resamples=resamples)
    return _record(test, "Welch t", result, float(x.mean() - y.mean()), x.size + y.size, permutation, log=log)


def _by_group(x: Array, groups: ArrayLike | None, log: bool = False) -> Array:
    """Means of the groups, geometric ones with `log`."""
    if groups is None:
        return x
    _, codes = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    same_length(values=x, groups=codes)
    means = np.bincount(codes, np.log(x) if log else x) / np.bincount(codes)
    return np.exp(means) if log else means


def _of_one_mean(x: Array, test: str, seed: int, resamples: int, **scale: Any) -> Difference:
    """The mean of x against 0."""
    permutation = permuted(
        [x], lambda flipped, axis: np.abs(np.mean(flipped, axis=axis)), "samples", seed=seed, resamples=resamples
    )
    return _record(test, "t", stats.ttest_1samp(x, 0.0), float(x.mean()), x.size, permutation, **scale)


def _record(
    test: str,
    kind: str,
    result: Any,
    estimate: float,
    n: int,
    permutation: tuple[float, str, Array],
    *,
    log: bool,
    against: float = 1.0,
    level: float = LEVEL,
) -> Difference:
    lower, upper = map(float, result.confidence_interval(coverage(level)))
    ratio, ratio_lower, ratio_upper = (against * math.exp(x) if log else math.nan for x in (estimate, lower, upper))
    return Difference(
        test=test,
        estimate=estimate,
        lower=lower,
        upper=upper,
        level=level,
        interval=f"{kind} confidence interval" + " of the log" * log,
        p_value=float(result.pvalue),
        n=n,
        statistic=float(result.statistic),
        df=float(result.df),
        ratio=ratio,
        ratio_lower=ratio_lower,
        ratio_upper=ratio_upper,
        p_permutation=permutation[0],
        permutation=permutation[1],
    )


def _welch_t(x: Array, y: Array, axis: int = -1) -> Array:
    variance = x.var(axis=axis, ddof=1) / x.shape[axis] + y.var(axis=axis, ddof=1) / y.shape[axis]
    with np.errstate(divide="ignore"):
        return np.asarray(np.abs(x.mean(axis=axis) - y.mean(axis=axis)) / np.sqrt(variance))

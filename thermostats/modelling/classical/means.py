"""Classical tests of means: one sample, pairs, two groups; ratios on the log scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import (
    RESAMPLES,
    Array,
    Estimate,
    is_constant,
    numbers,
    probability,
    same_length,
)
from thermostats.modelling.classical.resampling import permutation_p


@dataclass(frozen=True, kw_only=True)
class Difference(Estimate):
    """A mean (difference); on the log scale `ratio` and its bounds are exp of the estimate and its bounds, else NaN."""

    statistic: float
    df: float
    ratio: float
    ratio_lower: float
    ratio_upper: float
    p_permutation: float
    permutation: str
    p_rank: float
    """Wilcoxon signed-rank (one sample, pairs) or rank-sum (Welch) p."""
    effect: float
    """Cohen's d: mean over SD, or difference over pooled SD."""
    effect_lower: float
    effect_upper: float


def one_sample(
    values: ArrayLike,
    *,
    against: float = 0.0,
    log: bool = False,
    level: float = 0.95,
    seed: int,
    resamples: int = RESAMPLES,
) -> Difference:
    """Mean of `values` against a given value: t interval, exact sign-flip permutation, Wilcoxon, Cohen's d = mean/SD.

    With `log` the natural logarithms are taken first, `against` is a ratio (such as 1 for a gain) and `ratio` is the
    geometric mean; the estimate is then log(geometric mean / against), else mean − against. Sign flips are exact for
    n ≤ 15. Raises UsageError for fewer than 3 values, missing ones, constant ones, or logs of values not above 0.
    """
    x = numbers(values, "values", least=3, positive=log, varied=True)
    if log and against <= 0:
        raise UsageError("a logarithm is taken of the value tested", where="against", got=against, allowed="above 0")
    shifted = np.log(x) - math.log(against) if log else x - against
    test = f"t test of the mean {'log ' * log}against {against:g}"
    return _of_one_mean(shifted, test, log, against, level=level, seed=seed, resamples=resamples)


def paired_difference(
    a: ArrayLike, b: ArrayLike, *, log: bool = True, level: float = 0.95, seed: int, resamples: int = RESAMPLES
) -> Difference:
    """Mean of log(a/b) (or of a − b) over pairs: t interval, sign-flip permutation, Wilcoxon, Cohen's d_z.

    `ratio` is the geometric mean of a/b. Raises UsageError for fewer than 3 pairs, constant differences, missing
    values, or logs of values not above 0.
    """
    x, y = numbers(a, "a", least=3, positive=log), numbers(b, "b", least=3, positive=log)
    same_length(a=x, b=y)
    differences = np.log(x) - np.log(y) if log else x - y
    if is_constant(differences):
        raise UsageError(
            "every pair differs by the same amount",
            where="a, b",
            got=f"{differences[0]:g} {x.size} times",
            allowed="differences that vary",
        )
    test = f"paired t test of {'log(a/b)' if log else 'a − b'} against 0"
    return _of_one_mean(differences, test, log, 1.0, level=level, seed=seed, resamples=resamples)


def welch_difference(
    a: ArrayLike, b: ArrayLike, *, log: bool = True, level: float = 0.95, seed: int, resamples: int = RESAMPLES
) -> Difference:
    """Difference of two groups' means (of logs by default), variances not assumed equal: Welch's t.

    Beside it the permutation of Welch's |t| over group labels, the Wilcoxon rank-sum (Mann–Whitney) p, and Cohen's d on
    the pooled SD with its noncentral-t interval (which does assume equal variances). Raises UsageError for fewer than 3
    values a group, both groups constant, missing values, or logs of values not above 0.
    """
    x, y = numbers(a, "a", least=3, positive=log), numbers(b, "b", least=3, positive=log)
    x, y = (np.log(x), np.log(y)) if log else (x, y)
    if is_constant(x) and is_constant(y):
        raise UsageError(
            "both groups are constant", where="a, b", got=f"{x[0]:g} and {y[0]:g}", allowed="values that vary"
        )
    return _record(
        stats.ttest_ind(x, y, equal_var=False),
        f"Welch t test of mean {'log ' * log}a − mean {'log ' * log}b against 0",
        "Welch t confidence interval",
        log,
        1.0,
        level,
        estimate=float(x.mean() - y.mean()),
        n=x.size + y.size,
        permutation=permutation_p([x, y], _welch_t, "independent", seed=seed, resamples=resamples),
        p_rank=float(stats.mannwhitneyu(x, y).pvalue),
        sd=math.sqrt(((x.size - 1) * x.var(ddof=1) + (y.size - 1) * y.var(ddof=1)) / (x.size + y.size - 2)),
        sd_df=x.size + y.size - 2,
        root=math.sqrt(x.size * y.size / (x.size + y.size)),
    )


def _of_one_mean(
    x: Array, test: str, log: bool, against: float, *, level: float, seed: int, resamples: int
) -> Difference:
    def distance(flipped: Array, axis: int) -> Array:
        return np.asarray(np.abs(np.mean(flipped, axis=axis)))

    return _record(
        stats.ttest_1samp(x, 0.0),
        test,
        "t confidence interval",
        log,
        against,
        level,
        estimate=float(x.mean()),
        n=x.size,
        permutation=permutation_p([x], distance, "samples", seed=seed, resamples=resamples),
        p_rank=float(stats.wilcoxon(x).pvalue),
        sd=float(x.std(ddof=1)),
        sd_df=x.size - 1,
        root=math.sqrt(x.size),
    )


def _record(
    result: Any,
    test: str,
    interval: str,
    log: bool,
    against: float,
    level: float,
    *,
    estimate: float,
    n: int,
    permutation: tuple[float, str],
    p_rank: float,
    sd: float,
    sd_df: int,
    root: float,
) -> Difference:
    """`sd` with its degrees of freedom is the unit of Cohen's d, whose standard error is 1/`root`."""
    lower, upper = map(float, result.confidence_interval(probability(level)))
    ratios = [against * math.exp(x) if log else math.nan for x in (estimate, lower, upper)]
    effect_lower, effect_upper = _noncentral(estimate / sd * root, sd_df, level, root)
    return Difference(
        test=test,
        estimate=estimate,
        lower=lower,
        upper=upper,
        level=level,
        interval=interval + " of the log" * log,
        p_value=float(result.pvalue),
        n=n,
        statistic=float(result.statistic),
        df=float(result.df),
        ratio=ratios[0],
        ratio_lower=ratios[1],
        ratio_upper=ratios[2],
        p_permutation=permutation[0],
        permutation=permutation[1],
        p_rank=p_rank,
        effect=estimate / sd,
        effect_lower=effect_lower,
        effect_upper=effect_upper,
    )


def _noncentral(t: float, df: float, level: float, root: float) -> tuple[float, float]:
    """Interval of an effect δ = ncp/root by inverting the noncentral t distribution (Steiger and Fouladi 1997)."""
    low, high = (float(special.nctdtrinc(df, (1 + side * level) / 2, t)) / root for side in (1, -1))
    return low, high


def _welch_t(x: Array, y: Array, axis: int = -1) -> Array:
    variance = x.var(axis=axis, ddof=1) / x.shape[axis] + y.var(axis=axis, ddof=1) / y.shape[axis]
    with np.errstate(divide="ignore"):
        return np.asarray(np.abs(x.mean(axis=axis) - y.mean(axis=axis)) / np.sqrt(variance))

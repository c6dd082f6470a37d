"""Classical tests of means: one sample, pairs, two groups, equivalence; ratios on the log scale."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, kw_only=True)
class Equivalence(Estimate):
    """Two one-sided tests; equivalent where `p_value` ≤ (1 − level)/2: the interval lies inside ±log(margin)."""

    margin: float
    p_below: float
    p_above: float
    equivalent: bool


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
    result = _against_zero(shifted, level, seed, resamples)
    return _difference(result, f"t test of the mean {'log ' * log}against {against:g}", log, against)


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
    return _difference(
        _against_zero(differences, level, seed, resamples),
        f"paired t test of {'log(a/b)' if log else 'a − b'} against 0",
        log,
        1.0,
    )


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
    probability(level)
    result: Any = stats.ttest_ind(x, y, equal_var=False)
    low, high = map(float, result.confidence_interval(level))
    p_permutation, counted = permutation_p([x, y], _welch_t, "independent", seed=seed, resamples=resamples)
    pooled = math.sqrt(((x.size - 1) * x.var(ddof=1) + (y.size - 1) * y.var(ddof=1)) / (x.size + y.size - 2))
    difference = float(x.mean() - y.mean())
    root = math.sqrt(x.size * y.size / (x.size + y.size))
    d_low, d_high = _noncentral(difference / pooled * root, x.size + y.size - 2, level, root)
    estimate = Difference(
        test="",
        estimate=difference,
        lower=low,
        upper=high,
        level=level,
        interval="Welch t confidence interval",
        p_value=float(result.pvalue),
        n=x.size + y.size,
        statistic=float(result.statistic),
        df=float(result.df),
        ratio=math.nan,
        ratio_lower=math.nan,
        ratio_upper=math.nan,
        p_permutation=p_permutation,
        permutation=counted,
        p_rank=float(stats.mannwhitneyu(x, y).pvalue),
        effect=difference / pooled,
        effect_lower=d_low,
        effect_upper=d_high,
    )
    return _difference(estimate, f"Welch t test of mean {'log ' * log}a − mean {'log ' * log}b against 0", log, 1.0)


def equivalence(a: ArrayLike, b: ArrayLike, *, margin: float, paired: bool = True, alpha: float = 0.05) -> Equivalence:
    """Two one-sided t tests (Schuirmann 1987, doi:10.1007/BF01068419) of |log(a/b)| < log(margin), margin > 1.

    `p_value` is the larger of the two; the interval has level 1 − 2α, so that equivalence at α is the interval lying
    inside ±log(margin). Not equivalent does not mean different. Welch's degrees of freedom where not paired.
    """
    if not (math.isfinite(margin) and margin > 1):
        raise UsageError("an equivalence margin is a ratio", where="margin", got=margin, allowed="above 1, such as 1.1")
    x, y = np.log(numbers(a, "a", least=3, positive=True)), np.log(numbers(b, "b", least=3, positive=True))
    if paired:
        same_length(a=x, b=y)
    if is_constant(x - y) if paired else is_constant(x) and is_constant(y):
        raise UsageError("the log ratios do not vary", where="a, b", got="a constant", allowed="values that vary")
    result: Any = stats.ttest_1samp(x - y, 0.0) if paired else stats.ttest_ind(x, y, equal_var=False)
    level = 1 - 2 * probability(alpha, "alpha")
    low, high = map(float, result.confidence_interval(level))
    estimate = float(np.mean(x) - np.mean(y))
    error = (high - low) / 2 / float(stats.t.ppf((1 + level) / 2, result.df))
    p_below = float(stats.t.sf((estimate + math.log(margin)) / error, result.df))
    p_above = float(stats.t.cdf((estimate - math.log(margin)) / error, result.df))
    p = max(p_below, p_above)
    return Equivalence(
        test=f"two one-sided {'paired' if paired else 'Welch'} t tests, ratio within {1 / margin:.4g} to {margin:.4g}",
        estimate=estimate,
        lower=low,
        upper=high,
        level=level,
        interval="t confidence interval of the log ratio",
        p_value=p,
        n=x.size if paired else x.size + y.size,
        margin=margin,
        p_below=p_below,
        p_above=p_above,
        equivalent=p <= alpha,
    )


def _against_zero(x: Array, level: float, seed: int, resamples: int) -> Difference:
    probability(level)
    result: Any = stats.ttest_1samp(x, 0.0)
    low, high = map(float, result.confidence_interval(level))
    p_permutation, counted = permutation_p(
        [x], lambda flipped, axis: np.abs(np.mean(flipped, axis=axis)), "samples", seed=seed, resamples=resamples
    )
    d = float(x.mean() / x.std(ddof=1))
    root = math.sqrt(x.size)
    d_low, d_high = _noncentral(d * root, x.size - 1, level, root)
    return Difference(
        test="",
        estimate=float(x.mean()),
        lower=low,
        upper=high,
        level=level,
        interval="t confidence interval",
        p_value=float(result.pvalue),
        n=x.size,
        statistic=float(result.statistic),
        df=float(x.size - 1),
        ratio=math.nan,
        ratio_lower=math.nan,
        ratio_upper=math.nan,
        p_permutation=p_permutation,
        permutation=counted,
        p_rank=float(stats.wilcoxon(x).pvalue),
        effect=d,
        effect_lower=d_low,
        effect_upper=d_high,
    )


def _difference(result: Difference, test: str, log: bool, against: float) -> Difference:
    if not log:
        return replace(result, test=test)
    return replace(
        result,
        test=test,
        interval=result.interval + " of the log",
        ratio=against * math.exp(result.estimate),
        ratio_lower=against * math.exp(result.lower),
        ratio_upper=against * math.exp(result.upper),
    )


def _noncentral(t: float, df: float, level: float, root: float) -> tuple[float, float]:
    """Interval of an effect δ = ncp/root by inverting the noncentral t distribution (Steiger and Fouladi 1997)."""
    low, high = (float(special.nctdtrinc(df, (1 + side * level) / 2, t)) / root for side in (1, -1))
    return low, high


def _welch_t(x: Array, y: Array, axis: int = -1) -> Array:
    variance = x.var(axis=axis, ddof=1) / x.shape[axis] + y.var(axis=axis, ddof=1) / y.shape[axis]
    with np.errstate(divide="ignore"):
        return np.asarray(np.abs(x.mean(axis=axis) - y.mean(axis=axis)) / np.sqrt(variance))

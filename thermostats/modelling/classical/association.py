"""Classical tests of association: correlation, also inside models; slope of a linear model; power
law."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Literal

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from numpy.typing import ArrayLike, NDArray
from patsy import PatsyError  # type: ignore[import-untyped]
from scipy import stats
from statsmodels.regression.linear_model import OLSResults, RegressionResultsWrapper
from statsmodels.tools.sm_exceptions import MissingDataError

from thermostats.errors import UsageError, join_some
from thermostats.modelling.classical.many import (
    MOST_ARRANGEMENTS,
    count_draws,
    describe_rearrangements,
    estimate_correlations,
    measure_margin,
    shuffle_values,
    standardise_resampled,
)
from thermostats.modelling.columns import (
    LEVEL,
    NO_INTERVAL,
    RESAMPLES,
    Array,
    ClassicalEstimate,
    check_same_length,
    is_constant,
    read_numbers,
)
from thermostats.settings import check_coverage

LARGEST = 10_000_000
"""Shuffled values held at once."""
Kind = Literal["independent", "samples"]
FISHER = "Fisher-z confidence interval"
NOT_FISHER = f"{NO_INTERVAL}: the Fisher-z interval is undefined at |r| = 1"


def run_permutation_test(
    data: Sequence[Array],
    statistic: Callable[..., Array],
    kind: Kind,
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> tuple[float, str, Array]:
    """P(statistic ≥ observed) as scipy's permutation test has it, how it was counted, and all
    arrangements' if exact.

    `statistic` takes the samples and `axis` and grows with the distance from the null hypothesis.
    `kind` is scipy's: samples (flip the signs of the one sample given), independent (shuffle
    between two samples).
    """
    n = sum(len(sample) for sample in data)
    totals = {"samples": 2**n, "independent": math.comb(n, len(data[0]))}
    total = totals[kind]
    exact = total <= MOST_ARRANGEMENTS
    counted = f"exact, all {total} arrangements"
    arrangements = total
    batch = None
    if not exact:
        counted = f"Monte Carlo, (b + 1)/({resamples} + 1)"
        arrangements = resamples
        batch = max(1, LARGEST // n)
    result: Any = stats.permutation_test(
        tuple(data),
        statistic,
        permutation_type=kind,
        vectorized=True,
        alternative="greater",
        n_resamples=arrangements,
        batch=batch,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue), counted, result.null_distribution if exact else np.empty(0)


def permute_signs(x: Array, *, seed: int, resamples: int = RESAMPLES) -> tuple[float, str, Array]:
    """`run_permutation_test` of |mean of x| under flips of signs."""

    def statistic(flipped: Array, axis: int) -> Array:
        means = np.mean(flipped, axis=axis)
        return np.asarray(np.abs(means))

    return run_permutation_test([x], statistic, "samples", seed=seed, resamples=resamples)


def bootstrap_bca(
    data: Array, statistic: Callable[..., Any], *, level: float, seed: int
) -> tuple[float, float, str]:
    """BCa bootstrap bounds and their kind in words (Efron 1987,
    doi:10.1080/01621459.1987.10478410).

    Where the jackknife or the distribution of the resamples is degenerate, the bounds are NaN and
    the words say so.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a degenerate distribution is reported in words below
        result: Any = stats.bootstrap(
            (data,),
            statistic,
            method="BCa",
            vectorized=True,
            n_resamples=RESAMPLES,
            confidence_level=check_coverage(level),
            rng=np.random.default_rng(seed),
        )
    degenerate = int((~np.isfinite(result.bootstrap_distribution)).sum())
    left_out = f"{degenerate} of {RESAMPLES} resamples degenerate"
    low, high = map(float, result.confidence_interval)
    if not (math.isfinite(low) and math.isfinite(high)):
        undefined = f"{NO_INTERVAL}: BCa undefined (degenerate jackknife or distribution)"
        return math.nan, math.nan, f"{undefined}; {left_out}"
    return low, high, f"BCa bootstrap, {left_out}"


@dataclass(frozen=True, kw_only=True)
class Correlation(ClassicalEstimate):
    """A correlation with its Fisher-z interval."""

    p_permutation: float
    permutation: str
    """How the permutation p was counted."""


@dataclass(frozen=True, kw_only=True)
class WithinCorrelation(ClassicalEstimate):
    """Mean correlation over models; `p_value` permutes the prompts of all models at once."""

    by_model: pd.DataFrame
    """Correlation of each model, with the bounds that `estimate_correlation` gives: estimate,
    lower, upper by name."""
    n_models: int


@dataclass(frozen=True, kw_only=True)
class Slope(ClassicalEstimate):
    """A coefficient of a linear model; the p-value is against `against`."""

    standard_error: float
    df: float
    r_squared: float
    intercept: float


@dataclass(frozen=True, kw_only=True)
class PowerLaw(Slope):
    """An exponent: y = prefactor · x^estimate."""

    prefactor: float
    smallest_without_one: float
    """Smallest exponent with one point left out."""
    largest_without_one: float


def _measure_pearson(x: Array, y: Array, axis: int = -1) -> Array:
    x = _scale_size(x - x.mean(axis=axis, keepdims=True))
    y = _scale_size(y - y.mean(axis=axis, keepdims=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = (x * x).sum(axis=axis) * (y * y).sum(axis=axis)
        r = (x * y).sum(axis=axis) / np.sqrt(squares)
    return np.asarray(np.clip(r, -1.0, 1.0))


def _scale_size(x: Array) -> Array:
    """Numbers over a power of two near the largest, which rounds nothing, so that no square is too
    large or small."""
    largest = float(np.abs(x).max(initial=0.0))
    if not 0 < largest < np.inf:
        return x
    exponent = int(np.frexp(largest)[1])
    return np.ldexp(x, -exponent)


def _measure_spearman(x: Array, y: Array, axis: int = -1) -> Array:
    return _measure_pearson(stats.rankdata(x, axis=axis), stats.rankdata(y, axis=axis), axis)


def _choose_statistic(method: str) -> Callable[..., Array]:
    if method not in ("pearson", "spearman"):
        raise UsageError("no such correlation", got=method, allowed="pearson, spearman")
    return _measure_pearson if method == "pearson" else _measure_spearman


def estimate_correlation(
    x: ArrayLike,
    y: ArrayLike,
    *,
    method: Literal["pearson", "spearman"] = "pearson",
    groups: Sequence[object] | pd.Series | None = None,
    seed: int,
    resamples: int = RESAMPLES,
) -> Correlation:
    """Correlation r with its interval and its p by permutation, both as `many.correlations` has
    them, and its p by t.

    Raises UsageError for fewer than 4 points, a constant column, or missing values.
    """
    a = read_numbers(x, "x", least=4, varied=True)
    b = read_numbers(y, "y", least=4, varied=True)
    check_same_length(x=a, y=b)
    _choose_statistic(method)
    made = estimate_correlations(
        a, b[None], method=method, groups=groups, seed=seed, resamples=resamples
    )
    k = 1 if groups is None else len(set(np.asarray(groups)))
    r = float(made.estimate[0])
    lower = float(made.lower[0])
    upper = float(made.upper[0])
    if k > 1:
        df = a.size - k - 1
        t = abs(r) * math.sqrt(df / max(1 - r * r, 1e-300))
        p_value = 2 * float(stats.t.sf(t, df))
    else:
        correlate = stats.pearsonr if method == "pearson" else stats.spearmanr
        result: Any = correlate(a, b)
        p_value = float(result.pvalue)
    return Correlation(
        test=f"{method.capitalize()} correlation against 0",
        estimate=r,
        lower=lower,
        upper=upper,
        interval=NOT_FISHER if math.isnan(lower) else FISHER,
        p_value=p_value,
        n=a.size,
        p_permutation=float(made.p[0]),
        permutation=describe_rearrangements(a.size, k, resamples),
    )


def find_weakest_correlation(n: int, level: float = 0.05) -> float:
    """Smallest |Spearman correlation| of n points without ties whose exact two-sided p is at most
    `level`.

    Infinite where no order has such a p. All n! orders are enumerated.
    """
    ranks = np.arange(n)
    correlations = [np.corrcoef(ranks, order)[0, 1] for order in permutations(ranks)]
    null = np.abs(correlations).round(9)
    decides = []
    for value in np.unique(null):
        if (null >= value).mean() <= level:
            decides.append(value)
    return float(min(decides, default=np.inf))


def estimate_within_correlation(
    x: pd.DataFrame,
    y: pd.DataFrame,
    *,
    method: Literal["pearson", "spearman"] = "spearman",
    seed: int,
    resamples: int = RESAMPLES,
) -> WithinCorrelation:
    """Mean over models m of r_m = corr over prompts of (x_pm, y_pm); tables of prompts (rows) by
    models (columns).

    The models answered the same prompts, so their correlations are not independent. The permutation
    shuffles the rows of y for all models together (two-sided, Monte Carlo), which keeps that
    dependence. The interval resamples prompts and models both (percentile; Owen 2007,
    doi:10.1214/07-AOAS122), which errs on the wide side.

    Raises: UsageError: tables of different rows or columns, missing or constant columns, fewer than
    4 prompts.
    """
    by_model = correlate_each_model(x, y, method=method)
    a = x.to_numpy(np.float64)
    b = y.to_numpy(np.float64)
    n, m = a.shape
    mean = float(by_model["estimate"].mean())
    rng = np.random.default_rng(seed)
    tail = (1 - LEVEL) / 2
    places = np.arange(n)
    shuffled = shuffle_values(places, resamples, rng)
    is_ranked = method == "spearman"
    values_of_x = stats.rankdata(a, axis=0) if is_ranked else a
    values_of_y = stats.rankdata(b, axis=0) if is_ranked else b
    null = _measure_pearson(values_of_x[None], values_of_y[shuffled], 1).mean(axis=1)
    prompts = rng.integers(0, n, (resamples, n))
    models = rng.integers(0, m, (resamples, m))
    every = _resample_correlations(a, b, prompts, ranked=is_ranked)
    drawn = np.nanmean(np.take_along_axis(every, models, axis=1), axis=1)
    low, high = np.nanquantile(drawn, [tail, 1 - tail])
    as_large = np.sum(np.abs(null) >= abs(mean) - 1e-12)
    return WithinCorrelation(
        test="permutation of prompts, for all models together, of the mean "
        f"{method.capitalize()} correlation against 0",
        estimate=mean,
        lower=float(low),
        upper=float(high),
        interval="percentile bootstrap over prompts and models",
        p_value=float((as_large + 1) / (resamples + 1)),
        n=n,
        by_model=by_model,
        n_models=m,
    )


def correlate_each_model(
    x: pd.DataFrame, y: pd.DataFrame, *, method: Literal["pearson", "spearman"] = "spearman"
) -> pd.DataFrame:
    """Correlation over prompts (rows) of every model (column) of two tables: estimate, lower,
    upper, by the model's name.

    Raises UsageError: tables of different rows or columns, missing or constant columns, fewer than
    4 prompts.
    """
    if list(x.index) != list(y.index) or list(x.columns) != list(y.columns) or x.empty:
        raise UsageError(
            "tables of different prompts or models",
            got=f"{x.shape} and {y.shape}",
            allowed="the same rows and columns",
        )
    a = _read_models(x, "x")
    b = _read_models(y, "y")
    each = _choose_statistic(method)(a[None], b[None], 1)[0]
    squares = 1 + np.square(each) / 2 if method == "spearman" else 1
    errors = np.sqrt(squares / (len(a) - 3))
    half = errors * stats.norm.ppf((1 + LEVEL) / 2)
    with np.errstate(divide="ignore"):
        z = np.arctanh(each)
    columns = {"estimate": each, "lower": np.tanh(z - half), "upper": np.tanh(z + half)}
    return pd.DataFrame(columns, index=list(map(str, x.columns)))


def _read_models(table: pd.DataFrame, name: str) -> Array:
    columns = []
    for model in table.columns:
        columns.append(read_numbers(table[model], f"{name} of {model}", least=4, varied=True))
    return np.column_stack(columns)


def _resample_correlations(
    a: Array, b: Array, prompts: NDArray[np.int64], *, ranked: bool
) -> Array:
    """Correlation of every column (model) of a and b over resampled rows, resample × model; NaN
    where nothing varies.

    A row counts as often as it is drawn; its rank among those drawn is Σ_j w_j ([x_j < x] + ½ [x_j
    = x]), w_j how often row j is.
    """
    times = count_draws(prompts, len(a))
    each = []
    for of_a, of_b in zip(a.T, b.T, strict=True):
        x = standardise_resampled(of_a, times, ranked=ranked)
        y = standardise_resampled(of_b, times, ranked=ranked)
        products = times * x * y
        each.append(products.sum(axis=1))
    return np.asarray(np.clip(np.stack(each, axis=1), -1.0, 1.0))


def fit_ols(frame: pd.DataFrame, formula: str) -> Any:
    """Fit by ordinary least squares; raises UsageError instead of dropping rows or fitting a
    singular design."""
    if frame.empty:
        raise UsageError("an empty table", where=formula, got="0 rows", allowed="at least one row")
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            model = smf.ols(formula, data=frame, missing="drop")
    except (PatsyError, MissingDataError, ValueError, SyntaxError) as error:
        raise UsageError(
            "the formula cannot be applied to the table",
            where=formula,
            got=error,
            allowed=join_some(frame.columns),
            next_step="write a name that is no word of Python in quotes, Q('log params'), or "
            "rename the column",
        ) from error
    exog = model.exog
    finite = np.isfinite(exog).all(axis=1) & np.isfinite(model.endog)
    kept = int(finite.sum())
    if kept < len(frame):
        raise UsageError(
            "missing or infinite values",
            where=formula,
            got=f"{len(frame) - kept} of {len(frame)} rows",
            allowed="finite numbers, logarithms of values above 0 only",
            next_step="drop these rows by name and report how many",
        )
    length = np.maximum(np.linalg.norm(exog, axis=0), np.finfo(np.float64).tiny)
    rank = int(np.linalg.matrix_rank(exog / length))
    coefficients = exog.shape[1]
    if rank < coefficients or model.nobs <= coefficients:
        raise UsageError(
            "the coefficients are not determined",
            where=formula,
            got=f"{int(model.nobs)} rows, rank {rank}",
            allowed=f"more rows than the {coefficients} coefficients, none of them a "
            f"combination of others",
        )
    # by columns of one length: `model.fit` takes a spread of 1e-9 of the largest column for
    # rounding
    inverse = np.linalg.pinv(exog / length) / length[:, None]
    model.rank = rank
    model.pinv_wexog = inverse
    covariance = inverse @ inverse.T
    return RegressionResultsWrapper(
        OLSResults(model, inverse @ model.endog, normalized_cov_params=covariance)
    )


def pick_term(names: Sequence[str], term: str | None, formula: str) -> str:
    """Return the coefficient meant: the one named, or the only one apart from the intercept."""
    others = [name for name in names if name not in ("Intercept", "Group Var")]
    if term is None and len(others) == 1:
        return others[0]
    if term is None or term not in names:
        raise UsageError(
            "it is not clear which coefficient is meant",
            where=formula,
            got=term,
            allowed=", ".join(names),
        )
    return term


def estimate_slope(
    frame: pd.DataFrame,
    formula: str,
    *,
    term: str | None = None,
    against: float = 0.0,
    errors: Literal["HC3", "classical"] = "HC3",
) -> Slope:
    """One coefficient of an ordinary least squares fit, b ± t_{n−p} · se, tested against `against`.

    HC3 errors (MacKinnon and White 1985, doi:10.1016/0304-4076(85)90158-7) allow unequal variances.
    They do not exist, and UsageError is raised, where one row alone decides a coefficient (leverage
    1: the only model of a lab with its own dummy). `term` is needed where the formula has
    several.
    """
    fit = fit_ols(frame, formula)
    terms = list(fit.params.index)
    name = pick_term(terms, term, formula)
    if errors == "HC3":
        basis, root = np.linalg.qr(fit.model.exog)
        leverage = np.square(basis).sum(axis=1)
        if leverage.max() > 1 - 1e-9:
            raise UsageError(
                "HC3 errors do not exist",
                where=formula,
                got="a row with leverage 1",
                allowed="leverage below 1",
                next_step="use errors='classical'",
            )
        place = terms.index(name)
        weights = np.linalg.solve(root, basis.T)[place]
        corrected = fit.resid.to_numpy() / (1 - leverage)
        error = float(np.linalg.norm(weights * corrected))
    elif errors == "classical":
        error = float(fit.bse[name])
    else:
        raise UsageError("no such errors", got=errors, allowed="HC3, classical")
    estimate = float(fit.params[name])
    df = float(fit.df_resid)
    half = float(measure_margin(error, df))
    distance = abs(estimate - against)
    t = distance / error if error > 0 else math.inf if distance else 0.0
    p_value = float(2 * stats.t.sf(t, df))
    return Slope(
        test=f"t test of {name} in {formula} against {against:g}, {errors} errors",
        estimate=estimate,
        lower=estimate - half,
        upper=estimate + half,
        interval=f"t confidence interval, {errors} errors, {df:g} degrees of freedom",
        p_value=p_value,
        n=int(fit.nobs),
        standard_error=error,
        df=df,
        r_squared=float(fit.rsquared),
        intercept=float(fit.params.get("Intercept", 0.0)),
    )


def fit_power_law(x: ArrayLike, y: ArrayLike, *, against: float = 0.0) -> PowerLaw:
    """Exponent b of y = a x^b by least squares of log10 y on log10 x, HC3 errors, and what one
    point does to it.

    Raises UsageError for values that are not positive, a constant x, or fewer than 4 points.
    """
    x = read_numbers(x, "x", least=4, positive=True, varied=True)
    y = read_numbers(y, "y", least=4, positive=True)
    check_same_length(x=x, y=y)
    logs = pd.DataFrame({"log10_x": np.log10(x), "log10_y": np.log10(y)})
    fit = estimate_slope(logs, "log10_y ~ log10_x", against=against)
    without = []
    for i in logs.index:
        others = logs.drop(index=i)
        refitted = fit_ols(others, "log10_y ~ log10_x")
        without.append(float(refitted.params["log10_x"]))
    return PowerLaw(
        **vars(fit),
        prefactor=10**fit.intercept,
        smallest_without_one=min(without),
        largest_without_one=max(without),
    )


@dataclass(frozen=True, kw_only=True)
class Difference(ClassicalEstimate):
    """A mean (difference); on the log scale `ratio` and its bounds are exp of the estimate and its
    bounds, else NaN."""

    statistic: float
    df: float
    ratio: float
    ratio_lower: float
    ratio_upper: float
    p_permutation: float
    permutation: str


def estimate_one_sample(
    values: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    against: float = 0.0,
    log: bool = False,
    level: float = LEVEL,
    seed: int,
    resamples: int = RESAMPLES,
) -> Difference:
    """Mean of `values` against a given value: t interval and sign-flip permutation, exact for n ≤
    15.

    With `log` the natural logarithms are taken first, `against` is a ratio (such as 1 for a gain)
    and `ratio` is the geometric mean; the estimate is then log(geometric mean / against), else mean
    − against. Where values of a group are alike, `groups` (one a value) makes the groups' means the
    sample. Raises UsageError for fewer than 3 values, missing ones, constant ones, or logs of
    values not above 0.
    """
    x = _take_group_means(read_numbers(values, "values", least=3, positive=log), groups, log)
    x = read_numbers(x, "values", least=3, positive=log, varied=True)
    if log and against <= 0:
        raise UsageError(
            "a logarithm is taken of the value tested",
            where="against",
            got=against,
            allowed="above 0",
        )
    shifted = np.log(x) - math.log(against) if log else x - against
    test = f"t test of the mean {'log ' * log}against {against:g}"
    return _estimate_one_mean(shifted, test, seed, resamples, log=log, against=against, level=level)


def estimate_paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    log: bool = True,
    level: float = LEVEL,
    seed: int,
    resamples: int = RESAMPLES,
) -> Difference:
    """Mean of log(a/b) (or of a − b) over pairs: t interval, sign-flip permutation; `ratio`:
    geometric mean of a/b.

    Where pairs of a group are alike, `groups` (one a pair) makes the groups' means the sample.
    Raises UsageError for fewer than 3 pairs, constant differences, missing values, or logs of
    values not above 0.
    """
    x = read_numbers(a, "a", least=3, positive=log)
    y = read_numbers(b, "b", least=3, positive=log)
    check_same_length(a=x, b=y)
    gaps = np.log(x) - np.log(y) if log else x - y
    differences = _take_group_means(gaps, groups)
    if is_constant(differences):
        raise UsageError(
            "every pair differs by the same amount",
            where="a, b",
            got=f"{differences[0]:g} {x.size} times",
            allowed="differences that vary",
        )
    test = f"paired t test of {'log(a/b)' if log else 'a − b'} against 0"
    return _estimate_one_mean(differences, test, seed, resamples, log=log, level=level)


def estimate_welch_difference(
    a: ArrayLike, b: ArrayLike, *, log: bool = True, seed: int, resamples: int = RESAMPLES
) -> Difference:
    """Difference of two groups' means (of logs by default), variances not assumed equal: Welch's t,
    |t| permuted.

    Raises UsageError for fewer than 3 values a group, both groups constant, missing values, or logs
    of values not above 0.
    """
    x = read_numbers(a, "a", least=3, positive=log)
    y = read_numbers(b, "b", least=3, positive=log)
    if log:
        x = np.log(x)
        y = np.log(y)
    if is_constant(x) and is_constant(y):
        got = f"{x[0]:g} and {y[0]:g}"
        allowed = "values that vary"
        raise UsageError("both groups are constant", where="a, b", got=got, allowed=allowed)
    test = f"Welch t test of mean {'log ' * log}a − mean {'log ' * log}b against 0"
    result = stats.ttest_ind(x, y, equal_var=False)
    permutation = run_permutation_test(
        [x, y], _compute_welch_t, "independent", seed=seed, resamples=resamples
    )
    difference = float(x.mean() - y.mean())
    return _record(test, "Welch t", result, difference, x.size + y.size, permutation, log=log)


def _take_group_means(x: Array, groups: ArrayLike | None, log: bool = False) -> Array:
    """Means of the groups, geometric ones with `log`."""
    if groups is None:
        return x
    _, codes = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    check_same_length(values=x, groups=codes)
    sums = np.bincount(codes, np.log(x) if log else x)
    means = sums / np.bincount(codes)
    return np.exp(means) if log else means


def _estimate_one_mean(x: Array, test: str, seed: int, resamples: int, **scale: Any) -> Difference:
    """The mean of x against 0."""
    permutation = permute_signs(x, seed=seed, resamples=resamples)
    result = stats.ttest_1samp(x, 0.0)
    return _record(test, "t", result, float(x.mean()), x.size, permutation, **scale)


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
    lower, upper = map(float, result.confidence_interval(check_coverage(level)))
    ratios = [math.nan] * 3
    if log:
        ratios = [against * math.exp(x) for x in (estimate, lower, upper)]
    ratio, ratio_lower, ratio_upper = ratios
    p_permutation, counted, _ = permutation
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
        p_permutation=p_permutation,
        permutation=counted,
    )


def _compute_welch_t(x: Array, y: Array, axis: int = -1) -> Array:
    of_x = x.var(axis=axis, ddof=1) / x.shape[axis]
    of_y = y.var(axis=axis, ddof=1) / y.shape[axis]
    difference = np.abs(x.mean(axis=axis) - y.mean(axis=axis))
    with np.errstate(divide="ignore"):
        return np.asarray(difference / np.sqrt(of_x + of_y))

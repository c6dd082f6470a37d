"""Classical tests of association: correlation, slope of a linear model, power law."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from numpy.typing import ArrayLike
from patsy import PatsyError  # type: ignore[import-untyped]
from scipy import stats
from statsmodels.tools.sm_exceptions import MissingDataError

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import (
    NO_INTERVAL,
    RESAMPLES,
    Array,
    Estimate,
    numbers,
    probability,
    same_length,
)
from thermostats.modelling.classical.resampling import bca, permutation_p


@dataclass(frozen=True, kw_only=True)
class Correlation(Estimate):
    """A correlation; `lower` and `upper` are the Fisher-z interval, the BCa bootstrap stands beside it."""

    p_permutation: float
    permutation: str
    """How the permutation p was counted."""
    bootstrap_lower: float
    bootstrap_upper: float
    bootstrap: str
    """Kind of bootstrap interval, and how many resamples were degenerate (a constant column) and left out."""


@dataclass(frozen=True, kw_only=True)
class Slope(Estimate):
    """A coefficient of a linear model; the p-value is against `against`."""

    term: str
    against: float
    standard_error: float
    statistic: float
    df: float
    r_squared: float
    intercept: float


@dataclass(frozen=True, kw_only=True)
class PowerLaw(Slope):
    """An exponent: y = prefactor · x^estimate."""

    prefactor: float
    jackknife_error: float
    jackknife_lower: float
    jackknife_upper: float
    smallest_without_one: float
    largest_without_one: float


def _pearson(x: Array, y: Array, axis: int = -1) -> Array:
    x, y = x - x.mean(axis=axis, keepdims=True), y - y.mean(axis=axis, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        r = (x * y).sum(axis=axis) / np.sqrt((x * x).sum(axis=axis) * (y * y).sum(axis=axis))
    return np.asarray(np.clip(r, -1.0, 1.0))


def _spearman(x: Array, y: Array, axis: int = -1) -> Array:
    return _pearson(stats.rankdata(x, axis=axis), stats.rankdata(y, axis=axis), axis)


def correlation(
    x: ArrayLike,
    y: ArrayLike,
    *,
    method: Literal["pearson", "spearman"] = "pearson",
    level: float = 0.95,
    seed: int,
    resamples: int = RESAMPLES,
) -> Correlation:
    """Correlation r with its parametric and permutation p and two intervals.

    Fisher: tanh(artanh r ± z s), s² = 1/(n − 3) for Pearson and (1 + r²/2)/(n − 3) for Spearman (Bonett and Wright
    2000, doi:10.1007/BF02294183). Permutation: |r| ≥ |r_observed| over all n! pairings for n ≤ 8, else Monte Carlo.
    Bootstrap: BCa over pairs. Raises UsageError for fewer than 4 points, a constant column, or missing values.
    """
    x, y = numbers(x, "x", least=4, varied=True), numbers(y, "y", least=4, varied=True)
    same_length(x=x, y=y)
    probability(level)
    if method not in ("pearson", "spearman"):
        raise UsageError("no such correlation", got=method, allowed="pearson, spearman")
    pearson = method == "pearson"
    statistic = _pearson if pearson else _spearman
    result: Any = stats.pearsonr(x, y) if pearson else stats.spearmanr(x, y)
    r = float(statistic(x, y))
    lower, upper, interval = math.nan, math.nan, f"{NO_INTERVAL}: the Fisher-z interval is undefined at |r| = 1"
    if abs(r) < 1 - 1e-12:
        half = stats.norm.ppf((1 + level) / 2) * math.sqrt((1 if pearson else 1 + r * r / 2) / (x.size - 3))
        lower, upper, interval = (
            math.tanh(math.atanh(r) - half),
            math.tanh(math.atanh(r) + half),
            "Fisher-z confidence interval",
        )
    p_permutation, counted = permutation_p(
        [x], lambda shuffled, axis: np.abs(statistic(shuffled, y, axis)), "pairings", seed=seed, resamples=resamples
    )
    low, high, kind = bca([x, y], statistic, level=level, seed=seed, paired=True, resamples=resamples)
    return Correlation(
        test=f"{method.capitalize()} correlation against 0",
        estimate=r,
        lower=lower,
        upper=upper,
        level=level,
        interval=interval,
        p_value=float(result.pvalue),
        n=x.size,
        p_permutation=p_permutation,
        permutation=counted,
        bootstrap_lower=low,
        bootstrap_upper=high,
        bootstrap=kind,
    )


def ols(frame: pd.DataFrame, formula: str) -> Any:
    """Fit by ordinary least squares; raises UsageError instead of dropping rows or fitting a singular design."""
    if frame.empty:
        raise UsageError("an empty table", where=formula, got="0 rows", allowed="at least one row")
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            model = smf.ols(formula, data=frame, missing="drop")
    except (PatsyError, MissingDataError, ValueError) as error:
        raise UsageError(
            "the formula cannot be applied to the table",
            where=formula,
            got=error,
            allowed=", ".join(map(str, frame.columns)),
        ) from error
    finite = np.isfinite(model.exog).all(axis=1) & np.isfinite(model.endog)
    if finite.sum() < len(frame):
        raise UsageError(
            "missing or infinite values",
            where=formula,
            got=f"{len(frame) - int(finite.sum())} of {len(frame)} rows",
            allowed="finite numbers, logarithms of values above 0 only",
            next_step="drop these rows by name and report how many",
        )
    if np.linalg.matrix_rank(model.exog) < model.exog.shape[1] or model.nobs <= model.exog.shape[1]:
        raise UsageError(
            "the coefficients are not determined",
            where=formula,
            got=f"{int(model.nobs)} rows, rank {np.linalg.matrix_rank(model.exog)}",
            allowed=f"more rows than the {model.exog.shape[1]} coefficients, none of them a combination of others",
        )
    return model.fit()


def only_term(names: Sequence[str], term: str | None, formula: str) -> str:
    """Return the coefficient meant: the one named, or the only one beside the intercept."""
    others = [name for name in names if name not in ("Intercept", "Group Var")]
    if term is None and len(others) == 1:
        return others[0]
    if term is None or term not in names:
        raise UsageError("which coefficient is meant is not clear", where=formula, got=term, allowed=", ".join(names))
    return term


def slope(
    frame: pd.DataFrame,
    formula: str,
    *,
    term: str | None = None,
    against: float = 0.0,
    errors: Literal["HC3", "classical"] = "HC3",
    level: float = 0.95,
) -> Slope:
    """One coefficient of an ordinary least squares fit, b ± t_{n−p} · se, tested against `against`.

    HC3 errors (MacKinnon and White 1985, doi:10.1016/0304-4076(85)90158-7) allow unequal variances. They do not exist,
    and UsageError is raised, where one row alone decides a coefficient (leverage 1: the only model of a lab with its
    own dummy). `term` is needed where the formula has several.
    """
    probability(level)
    fit = ols(frame, formula)
    name = only_term(list(fit.params.index), term, formula)
    if errors == "HC3":
        leverage = float(fit.get_influence().hat_matrix_diag.max())
        if leverage > 1 - 1e-9:
            raise UsageError(
                "HC3 errors do not exist",
                where=formula,
                got="a row with leverage 1",
                allowed="leverage below 1",
                next_step="use errors='classical'",
            )
        robust = fit.get_robustcov_results("HC3", use_t=True)
        error = float(robust.bse[list(fit.params.index).index(name)])
    elif errors == "classical":
        error = float(fit.bse[name])
    else:
        raise UsageError("no such errors", got=errors, allowed="HC3, classical")
    estimate, df = float(fit.params[name]), float(fit.df_resid)
    t, half = _t_ratio(estimate - against, error), float(stats.t.ppf((1 + level) / 2, df)) * error
    return Slope(
        test=f"t test of {name} in {formula} against {against:g}, {errors} errors",
        estimate=estimate,
        lower=estimate - half,
        upper=estimate + half,
        level=level,
        interval=f"t confidence interval, {errors} errors, {df:g} degrees of freedom",
        p_value=float(2 * stats.t.sf(abs(t), df)),
        n=int(fit.nobs),
        term=name,
        against=against,
        standard_error=error,
        statistic=t,
        df=df,
        r_squared=float(fit.rsquared),
        intercept=float(fit.params.get("Intercept", 0.0)),
    )


def _t_ratio(distance: float, error: float) -> float:
    return distance / error if error > 0 else math.copysign(math.inf, distance) if distance else 0.0


def power_law(x: ArrayLike, y: ArrayLike, *, against: float = 0.0, level: float = 0.95) -> PowerLaw:
    """Exponent b of y = a x^b by least squares of log10 y on log10 x, HC3 errors, and its jackknife.

    Jackknife: se² = (n − 1)/n Σ (b_(i) − b̄)², interval b ± t_{n−1} se; the smallest and largest b_(i) show what one
    point does. Raises UsageError for values that are not positive, a constant x, or fewer than 4 points.
    """
    x, y = numbers(x, "x", least=4, positive=True, varied=True), numbers(y, "y", least=4, positive=True)
    same_length(x=x, y=y)
    logs = pd.DataFrame({"log10_x": np.log10(x), "log10_y": np.log10(y)})
    fit = slope(logs, "log10_y ~ log10_x", against=against, level=level)
    without = np.array([float(ols(logs.drop(index=i), "log10_y ~ log10_x").params["log10_x"]) for i in logs.index])
    error = math.sqrt((fit.n - 1) / fit.n * float(np.square(without - without.mean()).sum()))
    half = float(stats.t.ppf((1 + level) / 2, fit.n - 1)) * error
    return PowerLaw(
        **vars(fit),
        prefactor=10**fit.intercept,
        jackknife_error=error,
        jackknife_lower=fit.estimate - half,
        jackknife_upper=fit.estimate + half,
        smallest_without_one=float(without.min()),
        largest_without_one=float(without.max()),
    )

"""Models with groups: mixed models, variance components of models crossed with prompts, concordance of rankings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from scipy import stats

from thermostats.errors import ThermostatsError, UsageError
from thermostats.modelling.classical.association import ols, only_term
from thermostats.modelling.classical.estimates import (
    NO_INTERVAL,
    RESAMPLES,
    Array,
    Estimate,
    columns_of,
    labels,
    numbers,
    probability,
)

OPTIMISERS = ("bfgs", "lbfgs", "cg", "powell")
"""Tried in this order until one converges."""
RESIDUAL = "residual"
BOUNDARY = 1e-4
"""On the boundary: a random effect's SD below this share of the residual SD."""


@dataclass(frozen=True, kw_only=True)
class MixedFit:
    """A linear mixed model. Judge nothing by it where `converged` is false; read `note` in every case."""

    formula: str
    terms: Mapping[str, Estimate]
    """Fixed effects by name."""
    group_sd: float
    """Standard deviation of the random intercepts."""
    residual_sd: float
    converged: bool
    boundary: bool
    optimiser: str
    note: str
    """What went wrong or was changed on the way, in words; empty where nothing."""
    log_likelihood: float
    n: int
    n_groups: int


@dataclass(frozen=True, kw_only=True)
class MixedSlope(Estimate):
    """One fixed effect of a mixed model, with what must be known of the fit."""

    term: str
    converged: bool
    boundary: bool
    note: str
    n_groups: int
    group_sd: float
    residual_sd: float


@dataclass(frozen=True, kw_only=True)
class VarianceComponents:
    """Variances of rows, columns and residual of a crossed table; a share is a variance over their sum."""

    method: str
    """Method of moments (complete tables, where it equals REML) or REML, with what went wrong, in words."""
    sd: Mapping[str, float]
    shares: Mapping[str, float]
    shares_lower: Mapping[str, float]
    shares_upper: Mapping[str, float]
    p_values: Mapping[str, float]
    """F tests of no variance; NaN where the table is incomplete."""
    level: float
    interval: str
    boundary: tuple[str, ...]
    """Components whose estimate was at or below zero and is given as zero."""
    converged: bool
    n: int
    n_rows: int
    n_columns: int


@dataclass(frozen=True, kw_only=True)
class Concordance(Estimate):
    """Kendall's W with Friedman's p, and the order of the columns."""

    order: tuple[str, ...]
    """Columns by mean, smallest first."""
    means: Mapping[str, float]
    order_probability: float
    """Share of bootstrap samples of rows whose means have the order asked for (or `order` where none was)."""
    asked: tuple[str, ...]
    every_row: float
    """Share of single rows that have the order asked for."""


def mixed_model(frame: pd.DataFrame, formula: str, groups: str, *, reml: bool = True, level: float = 0.95) -> MixedFit:
    """Linear mixed model y = Xβ + b_g + ε: a random intercept per group.

    Fixed effects have Wald t intervals with between-within degrees of freedom: columns constant within groups take
    groups minus their number, others n − groups − their number. A fit that did not converge under any of OPTIMISERS is
    returned with `converged` false; a variance at zero sets `boundary`. Raises UsageError for missing values, fewer
    than 3 groups, or a design that is not determined.
    """
    columns_of(frame, groups)
    probability(level)
    group = labels(frame[groups], groups)
    if len(set(group)) < 3 or len(set(group)) == group.size:
        raise UsageError(
            "groups that cannot be modelled",
            where=groups,
            got=f"{len(set(group))} groups of {group.size} rows",
            allowed="3 groups or more, some with several rows",
        )
    ols(frame, formula)
    model = smf.mixedlm(formula, frame, groups=group, re_formula="1")
    fit, optimiser, note = _fit_with_fallbacks(model, reml)
    residual, group_sd = math.sqrt(fit.scale), math.sqrt(max(float(np.asarray(fit.cov_re)[0, 0]), 0.0))
    boundary = group_sd < BOUNDARY * residual
    if boundary:
        note = "; ".join(
            filter(None, [note, "on the boundary: a random effect's variance is zero or a correlation is ±1"])
        )
    if not np.isfinite(np.asarray(fit.bse_fe, dtype=np.float64)).all():
        note = "; ".join(filter(None, [note, "standard errors of fixed effects could not be computed"]))
    degrees = _between_within(pd.DataFrame(model.exog, columns=model.exog_names), group)
    terms = {
        name: _wald(
            name, formula, float(fit.fe_params[name]), float(fit.bse_fe[name]), degrees[name], level, group.size
        )
        for name in model.exog_names
    }
    return MixedFit(
        formula=formula,
        terms=terms,
        group_sd=group_sd,
        residual_sd=residual,
        converged=bool(fit.converged),
        boundary=boundary,
        optimiser=optimiser,
        note=note,
        log_likelihood=float(fit.llf),
        n=group.size,
        n_groups=len(set(group)),
    )


def mixed_slope(
    frame: pd.DataFrame, formula: str, groups: str, *, term: str | None = None, level: float = 0.95
) -> MixedSlope:
    """One coefficient of `mixed_model`; `term` is needed where the formula has several."""
    fit = mixed_model(frame, formula, groups, level=level)
    name = only_term(list(fit.terms), term, formula)
    return MixedSlope(
        **vars(fit.terms[name]),
        term=name,
        converged=fit.converged,
        boundary=fit.boundary,
        note=fit.note,
        n_groups=fit.n_groups,
        group_sd=fit.group_sd,
        residual_sd=fit.residual_sd,
    )


def _fit_with_fallbacks(model: Any, reml: bool) -> tuple[Any, str, str]:
    """Try OPTIMISERS in turn; return the fit, the optimiser that gave it, and what the others said."""
    said: list[str] = []
    fit: Any = None
    for optimiser in OPTIMISERS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                fit = model.fit(reml=reml, method=optimiser)
            except np.linalg.LinAlgError as error:
                said.append(f"{optimiser} failed: {error}")
                continue
        if fit.converged:
            return fit, optimiser, "; ".join(said)
        messages = dict.fromkeys(str(w.message).splitlines()[0] for w in caught)
        said.append(f"{optimiser} did not converge" + (f" ({', '.join(messages)})" if messages else ""))
    if fit is None:
        raise ThermostatsError(
            "the mixed model could not be fitted",
            where=model.formula,
            got="; ".join(said),
            next_step="simplify the random effects",
        )
    return fit, optimiser, "; ".join(said)


def _between_within(design: pd.DataFrame, group: Any) -> dict[str, float]:
    between = (design.groupby(group).nunique() <= 1).all()
    n_groups = len(set(group))
    df_between = n_groups - int(between.sum())
    df_within = len(design) - n_groups - int((~between).sum())
    degrees = {str(name): float(df_between if between[name] else df_within) for name in design}
    if min(degrees.values()) < 1:
        raise UsageError(
            "too few groups for the fixed effects",
            got=f"{n_groups} groups, degrees of freedom {degrees}",
            allowed="at least 1 degree of freedom each",
        )
    return degrees


def _wald(name: str, formula: str, estimate: float, error: float, df: float, level: float, n: int) -> Estimate:
    half = float(stats.t.ppf((1 + level) / 2, df)) * error
    return Estimate(
        test=f"Wald t test of {name} in the mixed model {formula} against 0",
        estimate=estimate,
        lower=estimate - half,
        upper=estimate + half,
        level=level,
        interval=f"Wald t confidence interval, {df:g} between-within degrees of freedom",
        p_value=float(2 * stats.t.sf(abs(estimate / error), df)),
        n=n,
    )


def variance_components(
    frame: pd.DataFrame,
    value: str,
    rows: str,
    columns: str,
    *,
    level: float = 0.95,
    seed: int,
    resamples: int = RESAMPLES,
) -> VarianceComponents:
    """Variances of y_ij = μ + a_i + b_j + e_ij, one value a cell, such as model × prompt (on a log scale for gains).

    Complete table: σ²_e = MS_e, σ²_a = (MS_a − MS_e)/J, σ²_b = (MS_b − MS_e)/I, equal to REML where positive; intervals
    are generalised (Weerahandi 1993, doi:10.1080/01621459.1993.10476355), from SS/χ² draws, negative draws set to zero.
    Incomplete table: REML, without intervals. e holds the interaction too. Raises UsageError for missing values, cells
    with several values, or fewer than 3 rows or 2 columns.
    """
    columns_of(frame, value, rows, columns)
    probability(level)
    y = numbers(frame[value], value, least=6, varied=True)
    long = pd.DataFrame({"value": y, "row": labels(frame[rows], rows), "column": labels(frame[columns], columns)})
    if long.duplicated(["row", "column"]).any():
        raise UsageError(
            "several values in one cell",
            where=f"{rows} × {columns}",
            got=int(long.duplicated(["row", "column"]).sum()),
            allowed="one value a cell",
            next_step="select one run, or average first",
        )
    I, J = long["row"].nunique(), long["column"].nunique()  # noqa: E741
    if I < 3 or J < 2:
        raise UsageError("too small a table", where=f"{rows} × {columns}", got=f"{I} × {J}", allowed="at least 3 × 2")
    low = high = p = np.full(3, math.nan)
    interval, converged = f"{NO_INTERVAL}: the table is incomplete", True
    if len(long) < I * J:
        variance, method, converged = _by_reml(long)
    else:
        variance, low, high, p = _by_moments(long, level, seed, resamples)
        method, interval = "method of moments, complete table", "generalised confidence interval of the share"
    kept = np.clip(variance, 0, None)

    def named(values: Array) -> dict[str, float]:
        return dict(zip((rows, columns, RESIDUAL), map(float, values), strict=True))

    return VarianceComponents(
        method=method,
        sd=named(np.sqrt(kept)),
        shares=named(kept / kept.sum()),
        shares_lower=named(low),
        shares_upper=named(high),
        p_values=named(p),
        level=level,
        interval=interval,
        boundary=tuple(name for name, v in named(variance).items() if v <= 1e-8 * kept.sum()),
        converged=converged,
        n=len(long),
        n_rows=I,
        n_columns=J,
    )


def _by_moments(long: pd.DataFrame, level: float, seed: int, resamples: int) -> tuple[Array, Array, Array, Array]:
    """Variances of a complete table, the bounds of their shares, and p of the F tests of no variance."""
    table = long.pivot(index="row", columns="column", values="value").to_numpy(np.float64)
    I, J = table.shape  # noqa: E741
    a, b = table.mean(axis=1) - table.mean(), table.mean(axis=0) - table.mean()
    residual = table - table.mean() - a[:, None] - b[None, :]
    ss = np.array([J * np.square(a).sum(), I * np.square(b).sum(), np.square(residual).sum()])
    df = np.array([I - 1, J - 1, (I - 1) * (J - 1)])
    if ss[2] <= 1e-20 * np.square(table).sum():
        raise UsageError("no residual variance", got=ss[2], allowed="a table that is not exactly additive")

    def variances(mean_squares: Array) -> Array:
        of_rows, of_columns, of_rest = np.moveaxis(mean_squares, -1, 0)
        return np.stack([(of_rows - of_rest) / J, (of_columns - of_rest) / I, of_rest], axis=-1)

    share = np.clip(variances(ss / np.random.default_rng(seed).chisquare(df, (resamples, 3))), 0, None)
    low, high = np.quantile(share / share.sum(axis=1, keepdims=True), [(1 - level) / 2, (1 + level) / 2], axis=0)
    f = (ss / df)[:2] / (ss / df)[2]
    return variances(ss / df), low, high, np.append(stats.f.sf(f, df[:2], df[2]), math.nan)


def _by_reml(long: pd.DataFrame) -> tuple[Array, str, bool]:
    """Variances of an incomplete table, how they were found, and whether that converged."""
    model = smf.mixedlm(
        "value ~ 1",
        long,
        groups=np.zeros(len(long), dtype=int),
        re_formula="0",
        vc_formula={"row": "0 + C(row)", "column": "0 + C(column)"},
    )
    fit, optimiser, note = _fit_with_fallbacks(model, reml=True)
    by_name = dict(zip(model.exog_vc.names, map(float, fit.vcomp), strict=True))
    method = f"REML ({optimiser}), incomplete table" + (f"; {note}" if note else "")
    return np.array([by_name["row"], by_name["column"], float(fit.scale)]), method, bool(fit.converged)


def concordance(
    table: pd.DataFrame, *, asked: Sequence[str] | None = None, level: float = 0.95, seed: int, resamples: int = 2000
) -> Concordance:
    """Do the rows (prompts) agree on the order of the columns (models)? Kendall's W = χ²_Friedman / (n (k − 1)).

    The interval is the percentile bootstrap of W over rows (W cannot be below 0, so it never excludes it; the test is
    Friedman's). `order_probability` resamples rows too: it speaks of these columns, not of others.
    Raises UsageError for missing values, fewer than 3 rows or columns, or an order of unknown columns.
    """
    names = tuple(map(str, table.columns))
    if len(table) < 3 or len(names) < 3:
        raise UsageError(
            "too small a table to rank", got=f"{len(table)} × {len(names)}", allowed="at least 3 rows and 3 columns"
        )
    values = np.column_stack([numbers(table[column], str(column)) for column in table.columns])
    order = tuple(names[i] for i in np.argsort(values.mean(axis=0), kind="stable"))
    wanted = tuple(asked) if asked is not None else order
    if sorted(wanted) != sorted(names):
        raise UsageError("not an order of the columns", got=", ".join(wanted), allowed=", ".join(names))
    at = [names.index(name) for name in wanted]
    result: Any = stats.friedmanchisquare(*values.T)
    scale = len(values) * (len(names) - 1)
    rng, tail = np.random.default_rng(seed), (1 - probability(level)) / 2
    chosen = rng.integers(0, len(values), (resamples, len(values)))
    ranks = stats.rankdata(values, axis=1)
    spread = np.square(ranks - ranks.mean()).sum(axis=1)
    between = np.square(ranks[chosen].mean(axis=1) - ranks.mean()).sum(axis=1)
    with np.errstate(invalid="ignore"):  # every row drawn ties throughout
        drawn = len(values) * between / spread[chosen].sum(axis=1)
    low, high = np.nanquantile(drawn, [tail, 1 - tail])
    means = values[chosen].mean(axis=1)[:, at]
    steps = np.diff(values[:, at], axis=1)
    return Concordance(
        test="Friedman test of no agreement between rows",
        estimate=float(result.statistic) / scale,
        lower=float(low),
        upper=float(high),
        level=level,
        interval="percentile bootstrap over rows",
        p_value=float(result.pvalue),
        n=len(values),
        order=order,
        means=dict(zip(names, map(float, values.mean(axis=0)), strict=True)),
        order_probability=float((np.diff(means, axis=1) > 0).all(axis=1).mean()),
        asked=wanted,
        every_row=float((steps > 0).all(axis=1).mean()),
    )

"""Models crossed with prompts: how the variance divides, and whether prompts agree on the order of models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from scipy import stats

from thermostats.errors import UsageError
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
from thermostats.modelling.classical.mixed import fit_with_fallbacks

RESIDUAL = "residual"


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
    mean_ranks: Mapping[str, float]
    order_probability: float
    """Share of bootstrap samples of rows whose means have the order asked for (or `order` where none was)."""
    asked: tuple[str, ...]
    every_row: float
    """Share of single rows that have the order asked for."""
    pairs: Mapping[str, float]
    """For neighbours a, b of the order asked for, 'a < b' → share of rows where it holds (ties count half)."""


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
    names = (rows, columns, RESIDUAL)
    if len(long) < I * J:
        return _by_reml(long, names, level)
    table = long.pivot(index="row", columns="column", values="value").to_numpy(np.float64)
    a, b = table.mean(axis=1) - table.mean(), table.mean(axis=0) - table.mean()
    residual = table - table.mean() - a[:, None] - b[None, :]
    ss = np.array([J * np.square(a).sum(), I * np.square(b).sum(), np.square(residual).sum()])
    df = np.array([I - 1, J - 1, (I - 1) * (J - 1)])
    if ss[2] <= 1e-20 * np.square(table).sum():
        raise UsageError("no residual variance", where=value, got=ss[2], allowed="a table that is not exactly additive")
    variance = _components(ss / df, I, J)
    drawn = _components(ss / np.random.default_rng(seed).chisquare(df, (resamples, 3)), I, J)
    share = np.clip(drawn, 0, None)
    share = share / share.sum(axis=1, keepdims=True)
    low, high = np.quantile(share, [(1 - level) / 2, (1 + level) / 2], axis=0)
    f = (ss / df)[:2] / (ss / df)[2]
    return _components_record(
        variance,
        names,
        method="method of moments, complete table",
        lower=low,
        upper=high,
        level=level,
        interval="generalised confidence interval of the share",
        p=[*stats.f.sf(f, df[:2], df[2]), math.nan],
        converged=True,
        size=(len(long), I, J),
    )


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
        mean_ranks=dict(zip(names, map(float, ranks.mean(axis=0)), strict=True)),
        order_probability=float((np.diff(means, axis=1) > 0).all(axis=1).mean()),
        asked=wanted,
        every_row=float((steps > 0).all(axis=1).mean()),
        pairs={
            f"{a} < {b}": float((step > 0).mean() + (step == 0).mean() / 2)
            for a, b, step in zip(wanted, wanted[1:], steps.T, strict=False)
        },
    )


def _components(mean_squares: Array, I: int, J: int) -> Array:  # noqa: E741
    rows, columns, residual = np.moveaxis(mean_squares, -1, 0)
    return np.stack([(rows - residual) / J, (columns - residual) / I, residual], axis=-1)


def _by_reml(long: pd.DataFrame, names: tuple[str, str, str], level: float) -> VarianceComponents:
    one = np.zeros(len(long), dtype=int)
    model = smf.mixedlm(
        "value ~ 1", long, groups=one, re_formula="0", vc_formula={"row": "0 + C(row)", "column": "0 + C(column)"}
    )
    fit, optimiser, note = fit_with_fallbacks(model, reml=True)
    by_name = dict(zip(model.exog_vc.names, map(float, fit.vcomp), strict=True))
    variance = np.array([by_name["row"], by_name["column"], float(fit.scale)])
    missing = np.full(3, math.nan)
    return _components_record(
        variance,
        names,
        method=f"REML ({optimiser}), incomplete table" + (f"; {note}" if note else ""),
        lower=missing,
        upper=missing,
        level=level,
        interval=f"{NO_INTERVAL}: the table is incomplete",
        p=missing,
        converged=bool(fit.converged),
        size=(len(long), long["row"].nunique(), long["column"].nunique()),
    )


def _components_record(
    variance: Array,
    names: tuple[str, str, str],
    *,
    method: str,
    lower: Array,
    upper: Array,
    level: float,
    interval: str,
    p: Sequence[float] | Array,
    converged: bool,
    size: tuple[int, int, int],
) -> VarianceComponents:
    kept = np.clip(variance, 0, None)

    def named(values: Sequence[float] | Array) -> dict[str, float]:
        return dict(zip(names, map(float, values), strict=True))

    return VarianceComponents(
        method=method,
        sd=named(np.sqrt(kept)),
        shares=named(kept / kept.sum()),
        shares_lower=named(lower),
        shares_upper=named(upper),
        p_values=named(p),
        level=level,
        interval=interval,
        converged=converged,
        n=size[0],
        n_rows=size[1],
        n_columns=size[2],
        boundary=tuple(name for name, v in zip(names, variance, strict=True) if v <= 1e-8 * kept.sum()),
    )

"""Models with groups: mixed models, and variance components of models crossed with prompts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

from thermostats.errors import ThermostatsError, UsageError
from thermostats.modelling.classical.association import fit_ols
from thermostats.modelling.classical.interval_laws import StudentLaw
from thermostats.modelling.classical.many import Many, measure_margin
from thermostats.modelling.columns import (
    LEVEL,
    NO_INTERVAL,
    RESAMPLES,
    Array,
    ClassicalEstimate,
    check_columns,
    read_labels,
    read_numbers,
)

TAILS = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
LEAST, MOST, NODES = 1e-9, 1e9, 181
"""Ratios λ n̄ between which stationary points are looked for, ten in a decade; 0 is tried as
well."""


@dataclass(frozen=True, kw_only=True)
class Best:
    """The likelihood's highest point."""

    ratio: float
    """Variance of groups over that of the residual; exactly 0 where nothing above 0 is likelier."""
    effects: list[float]
    errors: list[float]
    residual_sd: float
    log_likelihood: float
    beyond: bool
    """The likelihood still grows at the end of the search: groups explain everything, the residual
    nothing."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The likelihood as a function of λ; n outcomes, p columns, G groups."""

    y: Array
    X: Array
    member: Array
    """1 where an outcome is of a group, n × G."""
    reml: bool

    @classmethod
    def build(cls, y: Array, X: Array, group: NDArray[Any], *, reml: bool) -> Profile:
        """The profile of outcomes, columns and the groups' names."""
        is_member = group[:, None] == np.unique(group)
        return cls(y=y, X=X, member=is_member.astype(np.float64), reml=reml)

    def find_maximum(self) -> Best:
        """The likeliest λ of all stationary points, of 0 and of the far end."""
        groups = self.member.shape[1]
        ratios = np.geomspace(LEAST, MOST, NODES) * groups / self.y.size
        nodes = np.concatenate([[0.0], ratios])
        slopes = [self.measure_slope(ratio) for ratio in nodes]
        minima = []
        for (a, left), (b, right) in pairwise(zip(nodes, slopes, strict=True)):
            if left < 0 <= right:
                minima.append(brentq(self.measure_slope, a, b, xtol=1e-300, rtol=1e-15))
        candidates = [0.0, *minima, nodes[-1]]
        ratio = min(candidates, key=lambda ratio: self._evaluate_ratio(ratio)[0])
        deviance, beta, root, square = self._evaluate_ratio(ratio)
        inverse = np.linalg.inv(root)
        errors = np.sqrt(square * np.square(inverse).sum(axis=1))
        return Best(
            ratio=float(ratio),
            effects=beta.tolist(),
            errors=errors.tolist(),
            residual_sd=math.sqrt(square),
            log_likelihood=-deviance / 2,
            beyond=bool(ratio == nodes[-1]),
        )

    def measure_slope(self, ratio: float) -> float:
        """Derivative of −2 log L by λ.

        Σ_g n_g v_g − ν Σ_g (v_g Σ_{i∈g} r_i)²/S [− Σ_g |R^{-T} v_g Σ_{i∈g} X_i|²], v_g = 1/(1 + λ
        n_g), r = y − Xβ, RᵀR = A.
        """
        _, beta, root, square = self._evaluate_ratio(ratio)
        size = self.member.sum(axis=0)
        shrunk = 1 / (1 + ratio * size)
        sums = self.member.T @ (self.y - self.X @ beta)
        of_residuals = np.square(shrunk * sums).sum() / square
        grown = size @ shrunk - of_residuals
        if self.reml:
            by_group = shrunk[:, None] * (self.member.T @ self.X)
            grown -= np.square(np.linalg.solve(root.T, by_group.T)).sum()
        return float(grown)

    def _evaluate_ratio(self, ratio: float) -> tuple[float, Array, Array, float]:
        """−2 log L, β, the root R of the cross-products, and σ²."""
        size = self.member.sum(axis=0)
        inflation = 1 + ratio * size
        away = (1 - 1 / np.sqrt(inflation)) / size
        both = np.column_stack([self.X, self.y])
        sums = away[:, None] * (self.member.T @ both)
        n, p = self.X.shape
        root = np.asarray(np.linalg.qr(both - self.member @ sums, mode="r"))
        of_columns = root[:p, :p]
        freedom = n - p if self.reml else n
        least = np.finfo(np.float64).tiny
        square = max(float(root[p, p] ** 2) / freedom, least)
        log_determinant = np.log1p(ratio * size).sum()
        deviance = log_determinant + freedom * (math.log(2 * math.pi * square) + 1)
        if self.reml:
            deviance += 2 * np.log(np.abs(np.diag(root)[:p])).sum()
        beta = np.linalg.solve(of_columns, root[:p, p])
        return float(deviance), beta, of_columns, square


OPTIMISERS = ("bfgs", "lbfgs", "cg", "powell")
"""Optimisers of an incomplete crossed table, tried in this order until one converges."""
ROUNDING = 1e-13
"""Residuals of no more than that, relative to what they are the difference of, are none."""
AT_ZERO = "on the boundary: the variance of groups is zero, and the model is least squares"
BEYOND = "beyond reach: groups explain everything, and the residual's variance is zero"


@dataclass(frozen=True, kw_only=True)
class MixedFit:
    """A linear mixed model. Judge nothing by it where `converged` is false; read `note` in every
    case."""

    terms: Mapping[str, ClassicalEstimate]
    """Fixed effects by name."""
    group_sd: float
    """Standard deviation of the random intercepts."""
    residual_sd: float
    converged: bool
    note: str
    """What went wrong or was changed on the way, in words; empty where nothing."""
    log_likelihood: float
    n_groups: int


@dataclass(frozen=True, kw_only=True)
class VarianceComponents:
    """Variances of rows, columns and residual of a crossed table; a share is a variance over their
    sum."""

    sd: Mapping[str, float]
    shares: Mapping[str, float]
    shares_lower: Mapping[str, float]
    shares_upper: Mapping[str, float]
    interval: str
    n_rows: int


def fit_mixed_model(
    frame: pd.DataFrame, formula: str, groups: str, *, reml: bool = True
) -> MixedFit:
    """Linear mixed model y = Xβ + b_g + ε: a random intercept per group.

    The variance of groups over that of the residual is searched exactly: the best of all stationary
    points and both ends. Fixed effects have Wald t intervals with between-within degrees of
    freedom: columns constant within groups take groups minus their number, others n − groups −
    their number. A variance of groups at zero is noted; where the residual's is zero, `converged`
    is false. Raises UsageError for missing values, fewer than 3 groups, or a design that is not
    determined.
    """
    check_columns(frame, groups)
    group = read_labels(frame[groups], groups)
    n_groups = len(set(group))
    if n_groups < 3 or n_groups == group.size:
        raise UsageError(
            "groups that cannot be modelled",
            where=groups,
            got=f"{n_groups} groups of {group.size} rows",
            allowed="3 groups or more, some with several rows",
        )
    line = fit_ols(frame, formula)
    model = line.model
    terms = np.abs(model.exog) @ np.abs(line.params) + np.abs(model.endog)
    if line.ssr <= np.square(ROUNDING * terms).sum():
        raise UsageError(
            "no residual variance",
            where=formula,
            got=line.ssr,
            allowed="outcomes that are not exactly a line",
        )
    columns = pd.DataFrame(model.exog, columns=model.exog_names)
    degrees = _count_degrees(columns, group)
    profile = Profile.build(model.endog, model.exog, group, reml=reml)
    best = profile.find_maximum()

    estimates: dict[str, ClassicalEstimate] = {}
    for name, effect, error in zip(model.exog_names, best.effects, best.errors, strict=True):
        df = degrees[name]
        half = float(measure_margin(error, df))
        p_value = 2 * stats.t.sf(abs(effect / error), df)
        estimates[name] = ClassicalEstimate(
            test=f"Wald t test of {name} in the mixed model {formula} against 0",
            estimate=effect,
            lower=effect - half,
            upper=effect + half,
            interval=f"Wald t confidence interval, {df:g} between-within degrees of freedom",
            p_value=float(p_value),
            n=group.size,
        )
    return MixedFit(
        terms=estimates,
        group_sd=math.sqrt(best.ratio) * best.residual_sd,
        residual_sd=best.residual_sd,
        converged=not best.beyond,
        note=BEYOND if best.beyond else AT_ZERO if best.ratio == 0 else "",
        log_likelihood=best.log_likelihood,
        n_groups=n_groups,
    )


def _fit_with_fallbacks(model: Any, reml: bool) -> tuple[Any, list[str]]:
    """Try OPTIMISERS in turn; return the fit, and warnings about those that failed."""
    warned: list[str] = []
    fit: Any = None
    for optimiser in OPTIMISERS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                fit = model.fit(reml=reml, method=optimiser)
            except np.linalg.LinAlgError as error:
                warned.append(f"{optimiser} failed: {error}")
                continue
        if fit.converged:
            return fit, warned
        messages = dict.fromkeys(str(w.message).splitlines()[0] for w in caught)
        said = f" ({', '.join(messages)})" if messages else ""
        warned.append(f"{optimiser} did not converge{said}")
    if fit is None:
        raise ThermostatsError(
            "the mixed model could not be fitted",
            where=model.formula,
            got="; ".join(warned),
            next_step="simplify the random effects",
        )
    return fit, warned


def _count_degrees(design: pd.DataFrame, group: Any) -> dict[str, float]:
    values = design.groupby(group).nunique()
    between = (values <= 1).all()
    n_groups = len(set(group))
    df_between = n_groups - int(between.sum())
    df_within = len(design) - n_groups - int((~between).sum())
    degrees = {}
    for name in design:
        degrees[str(name)] = float(df_between if between[name] else df_within)
    if min(degrees.values()) < 1:
        raise UsageError(
            "too few groups for the fixed effects",
            got=f"{n_groups} groups, degrees of freedom {degrees}",
            allowed="at least 1 degree of freedom each",
        )
    return degrees


def estimate_variance_components(
    frame: pd.DataFrame,
    value: str,
    rows: str,
    columns: str,
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> VarianceComponents:
    """Variances of y_ij = μ + a_i + b_j + e_ij, one value per cell, such as model × prompt (on a
    log scale for gains).

    Complete table: σ²_e = MS_e, σ²_a = (MS_a − MS_e)/J, σ²_b = (MS_b − MS_e)/I, equal to REML where
    positive, those below zero given as zero; intervals are generalised (Weerahandi 1993,
    doi:10.1080/01621459.1993.10476355), from SS/χ² draws. Incomplete table: REML, without
    intervals. e, under the name `residual`, holds the interaction too. Raises UsageError for
    missing values, cells with several values, or fewer than 3 rows or 2 columns.
    """
    long = read_crossed_table(frame, value, rows, columns)
    I = long["row"].nunique()  # noqa: E741
    J = long["column"].nunique()
    if len(long) < I * J:
        variance, converged = _estimate_by_reml(long)
        low = high = np.full(3, math.nan)
        interval = f"{NO_INTERVAL}: the table is incomplete"
        if not converged:
            interval += ", and REML did not converge"
    else:
        variance, low, high = _estimate_by_moments(long, seed, resamples)
        interval = "generalised confidence interval of the share"
    clipped = np.clip(variance, 0, None)

    def named(values: Array) -> dict[str, float]:
        return dict(zip((rows, columns, "residual"), map(float, values), strict=True))

    return VarianceComponents(
        sd=named(np.sqrt(clipped)),
        shares=named(clipped / clipped.sum()),
        shares_lower=named(low),
        shares_upper=named(high),
        interval=interval,
        n_rows=I,
    )


def read_crossed_table(frame: pd.DataFrame, value: str, rows: str, columns: str) -> pd.DataFrame:
    """Columns `row`, `column` and `value` of a table with at most one value a cell.

    Raises UsageError for missing values, cells with several values, or fewer than 3 rows or 2
    columns.
    """
    check_columns(frame, value, rows, columns)
    y = read_numbers(frame[value], value, least=6, varied=True)
    row = read_labels(frame[rows], rows)
    column = read_labels(frame[columns], columns)
    long = pd.DataFrame({"value": y, "row": row, "column": column})
    if again := int(long.duplicated(["row", "column"]).sum()):
        raise UsageError(
            "several values in one cell",
            where=f"{rows} × {columns}",
            got=again,
            allowed="one value per cell",
            next_step="select one run, or average first",
        )
    I = long["row"].nunique()  # noqa: E741
    J = long["column"].nunique()
    if I < 3 or J < 2:
        raise UsageError(
            "too small a table",
            where=f"{rows} × {columns}",
            got=f"{I} × {J}",
            allowed="at least 3 × 2",
        )
    return long


def estimate_row_shares(tables: Array, *, seed: int) -> Many:
    """The rows' share of the variance of many complete tables, study × row × column, as of one.

    The law is that of t of so many rows on the log odds, whose tail is longer than that of χ².
    """
    ss, df = _find_squares(tables)
    drawn = np.random.default_rng(seed).chisquare(df, (RESAMPLES, 3))

    def share(mean_squares: Array) -> Array:
        variances = _estimate_variances(mean_squares, tables.shape)
        parts = np.clip(variances, 0, None)
        return np.asarray(parts[0] / parts.sum(axis=0))

    ends = [np.quantile(share(each / drawn), TAILS) for each in ss]
    lower, upper = np.stack(ends, axis=1)
    law = StudentLaw(tables.shape[1] - 1, scale="logit")
    none = np.full(len(tables), math.nan)
    return Many(share(ss / df), lower, upper, none, law)


def _find_squares(tables: Array) -> tuple[Array, Array]:
    """Sums of squares of rows, columns and what is left of every table (study × row × column), and
    their freedom."""
    _, I, J = tables.shape  # noqa: E741
    centred = tables - tables.mean(axis=(1, 2), keepdims=True)
    a = centred.mean(axis=2, keepdims=True)
    b = centred.mean(axis=1, keepdims=True)
    ss = []
    for part, k in ((a, J), (b, I), (centred - a - b, 1)):
        ss.append(np.square(part).sum(axis=(1, 2)) * k)
    freedom = np.array([I - 1, J - 1, (I - 1) * (J - 1)])
    return np.stack(ss, axis=1), freedom


def _estimate_variances(mean_squares: Array, shape: tuple[int, ...]) -> Array:
    """Variances of rows, columns and what is left, along the first axis; mean squares: along the
    last."""
    of_rows, of_columns, rest = np.moveaxis(mean_squares, -1, 0)
    n_rows, n_columns = shape[-2:]
    variance_of_rows = (of_rows - rest) / n_columns
    variance_of_columns = (of_columns - rest) / n_rows
    return np.stack([variance_of_rows, variance_of_columns, rest])


def _estimate_by_moments(
    long: pd.DataFrame, seed: int, resamples: int
) -> tuple[Array, Array, Array]:
    """Variances of a complete table, and the bounds of their shares."""
    table = long.pivot(index="row", columns="column", values="value").to_numpy(np.float64)
    [ss], df = _find_squares(table[None])
    if ss[2] <= np.square(ROUNDING * table).sum():
        raise UsageError(
            "no residual variance", got=ss[2], allowed="a table that is not exactly additive"
        )
    drawn = np.random.default_rng(seed).chisquare(df, (resamples, 3))
    share = np.clip(_estimate_variances(ss / drawn, table.shape), 0, None)
    shares = share / share.sum(axis=0)
    low, high = np.quantile(shares, TAILS, axis=1)
    return _estimate_variances(ss / df, table.shape), low, high


def _estimate_by_reml(long: pd.DataFrame) -> tuple[Array, bool]:
    """Variances of an incomplete table, and whether the fit converged."""
    one_group = np.zeros(len(long), dtype=int)
    model = smf.mixedlm(
        "value ~ 1",
        long,
        groups=one_group,
        re_formula="0",
        vc_formula={"row": "0 + C(row)", "column": "0 + C(column)"},
    )
    fit, _ = _fit_with_fallbacks(model, reml=True)
    by_name = dict(zip(model.exog_vc.names, map(float, fit.vcomp), strict=True))
    variances = [by_name["row"], by_name["column"], float(fit.scale)]
    return np.array(variances), bool(fit.converged)

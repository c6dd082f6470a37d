"""Mixed models, variance components of a crossed table, and concordance of rankings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from scipy import stats

from thermostats.errors import ThermostatsError, UsageError
from thermostats.modelling.classical.association import ols, only_term
from thermostats.modelling.classical.estimates import Estimate, columns_of, labels, probability

OPTIMISERS = ("bfgs", "lbfgs", "cg", "powell")
"""Tried in this order until one converges."""
BOUNDARY = 1e-4
"""On the boundary: a random effect's SD below this share of the residual SD, or |correlation| above 1 less this."""


@dataclass(frozen=True, kw_only=True)
class MixedFit:
    """A linear mixed model. Judge nothing by it where `converged` is false; read `note` in every case."""

    formula: str
    terms: Mapping[str, Estimate]
    """Fixed effects by name."""
    sd: Mapping[str, float]
    """Standard deviations of the random effects by name."""
    correlation: float
    """Of intercept and slope effects; NaN where there are not two."""
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


def mixed_model(
    frame: pd.DataFrame,
    formula: str,
    groups: str,
    *,
    random_slope: str | None = None,
    reml: bool = True,
    level: float = 0.95,
) -> MixedFit:
    """Linear mixed model y = Xβ + Z b_g + ε: random intercept per group, optionally one correlated random slope.

    Fixed effects have Wald t intervals with between-within degrees of freedom: columns constant within groups take
    groups less their number, the random slope's own column groups − 1, others n − groups − their number. A fit that did
    not converge under any of OPTIMISERS is returned with `converged` false; a variance at zero or a correlation at ±1
    sets `boundary`. Raises UsageError for missing values, fewer than 3 groups, or a design that is not determined.
    """
    columns_of(frame, groups, *([random_slope] if random_slope else []))
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
    model = smf.mixedlm(formula, frame, groups=group, re_formula=f"~{random_slope}" if random_slope else "1")
    fit, optimiser, note = fit_with_fallbacks(model, reml)
    residual = math.sqrt(fit.scale)
    covariance = np.asarray(fit.cov_re, dtype=np.float64)
    effects = dict(
        zip(
            ["Intercept", *([random_slope] if random_slope else [])],
            np.sqrt(np.clip(np.diag(covariance), 0, None)),
            strict=True,
        )
    )
    sd = {name: float(value) for name, value in effects.items()}
    corr = math.nan
    if random_slope and min(sd.values()) > 0:
        corr = float(covariance[0, 1] / math.prod(sd.values()))
    boundary = min(sd.values()) < BOUNDARY * residual or abs(corr) > 1 - BOUNDARY
    if boundary:
        note = "; ".join(
            filter(None, [note, "on the boundary: a random effect's variance is zero or a correlation is ±1"])
        )
    if not np.isfinite(np.asarray(fit.bse_fe, dtype=np.float64)).all():
        note = "; ".join(filter(None, [note, "standard errors of fixed effects could not be computed"]))
    degrees = _between_within(pd.DataFrame(model.exog, columns=model.exog_names), group, random_slope)
    terms = {
        name: _wald(
            name, formula, float(fit.fe_params[name]), float(fit.bse_fe[name]), degrees[name], level, group.size
        )
        for name in model.exog_names
    }
    return MixedFit(
        formula=formula,
        terms=terms,
        sd=sd,
        correlation=corr,
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
    frame: pd.DataFrame,
    formula: str,
    groups: str,
    *,
    term: str | None = None,
    random_slope: str | None = None,
    level: float = 0.95,
) -> MixedSlope:
    """One coefficient of `mixed_model`; `term` is needed where the formula has several."""
    fit = mixed_model(frame, formula, groups, random_slope=random_slope, level=level)
    name = only_term(list(fit.terms), term, formula)
    return MixedSlope(
        **vars(fit.terms[name]),
        term=name,
        converged=fit.converged,
        boundary=fit.boundary,
        note=fit.note,
        n_groups=fit.n_groups,
        group_sd=fit.sd["Intercept"],
        residual_sd=fit.residual_sd,
    )


def fit_with_fallbacks(model: Any, reml: bool) -> tuple[Any, str, str]:
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


def _between_within(design: pd.DataFrame, group: Any, random_slope: str | None) -> dict[str, float]:
    between = (design.groupby(group).nunique() <= 1).all()
    n_groups = len(set(group))
    df_between = n_groups - int(between.sum())
    df_within = len(design) - n_groups - int((~between).sum())
    degrees = {str(name): float(df_between if between[name] else df_within) for name in design}
    if random_slope in degrees and not between[random_slope]:
        degrees[random_slope] = float(n_groups - 1)
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

"""Does x move with y inside the models? The mean over models of a correlation over prompts that the models share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import RESAMPLES, Array, Estimate, numbers, probability


@dataclass(frozen=True, kw_only=True)
class WithinCorrelation(Estimate):
    """Mean correlation over models; `p_value` permutes the prompts of all models at once."""

    by_model: Mapping[str, float]
    by_model_lower: Mapping[str, float]
    """Fisher-z bounds of each model's correlation, as `classical.correlation` gives them."""
    by_model_upper: Mapping[str, float]
    permutation: str
    n_models: int


def within_correlation(
    x: pd.DataFrame,
    y: pd.DataFrame,
    *,
    method: Literal["pearson", "spearman"] = "spearman",
    level: float = 0.95,
    seed: int,
    resamples: int = RESAMPLES,
) -> WithinCorrelation:
    """Mean over models m of r_m = corr over prompts of (x_pm, y_pm); tables of prompts (rows) by models (columns).

    The models answered the same prompts, so their correlations are not independent. The permutation shuffles the rows
    of y for all models together (two-sided, Monte Carlo), which keeps that dependence. The interval resamples prompts
    and models both (percentile; Owen 2007, doi:10.1214/07-AOAS122), which errs on the wide side.

    Raises:
        UsageError: tables of different rows or columns, missing or constant columns, fewer than 4 prompts.
    """
    if list(x.index) != list(y.index) or list(x.columns) != list(y.columns) or x.empty:
        raise UsageError(
            "tables of different prompts or models", got=f"{x.shape} and {y.shape}", allowed="the same rows and columns"
        )
    if method not in ("pearson", "spearman"):
        raise UsageError("no such correlation", got=method, allowed="pearson, spearman")
    names = [str(name) for name in x.columns]
    a = np.column_stack([numbers(x[c], f"x of {c}", least=4, varied=True) for c in x.columns])
    b = np.column_stack([numbers(y[c], f"y of {c}", least=4, varied=True) for c in y.columns])
    ranked = method == "spearman"
    each = _correlations(a[None], b[None], ranked)[0]
    n, m = a.shape
    spread = np.sqrt((1 + np.square(each) / 2 if ranked else 1) / (n - 3)) * stats.norm.ppf((1 + level) / 2)
    with np.errstate(divide="ignore"):
        bounds = [dict(zip(names, np.tanh(np.arctanh(each) + side * spread).tolist(), strict=True)) for side in (-1, 1)]
    rng, tail = np.random.default_rng(seed), (1 - probability(level)) / 2
    shuffled = rng.permuted(np.tile(np.arange(n), (resamples, 1)), axis=1)
    null = _correlations(a[None], b[shuffled], ranked).mean(axis=1)
    prompts, models = rng.integers(0, n, (resamples, n, 1)), rng.integers(0, m, (resamples, 1, m))
    drawn = np.nanmean(_correlations(a[prompts, models], b[prompts, models], ranked), axis=1)
    low, high = np.nanquantile(drawn, [tail, 1 - tail])
    return WithinCorrelation(
        test=f"permutation of prompts, all models together, of the mean {method.capitalize()} correlation against 0",
        estimate=float(each.mean()),
        lower=float(low),
        upper=float(high),
        level=level,
        interval="percentile bootstrap over prompts and models",
        p_value=float((np.sum(np.abs(null) >= abs(each.mean()) - 1e-12) + 1) / (resamples + 1)),
        n=n,
        by_model=dict(zip(names, map(float, each), strict=True)),
        by_model_lower=bounds[0],
        by_model_upper=bounds[1],
        permutation=f"Monte Carlo, (b + 1)/({resamples} + 1)",
        n_models=m,
    )


def _correlations(a: Array, b: Array, ranked: bool) -> Array:
    """Correlation over axis 1 of stacks (samples × prompts × models)."""
    if ranked:
        a, b = stats.rankdata(a, axis=1), stats.rankdata(b, axis=1)
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        r = (a * b).sum(axis=1) / np.sqrt(np.square(a).sum(axis=1) * np.square(b).sum(axis=1))
    return np.asarray(np.clip(r, -1.0, 1.0))

"""Out-of-sample error of a prediction of a layer: leave one row out, or leave one group out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from patsy import PatsyError  # type: ignore[import-untyped]

from thermostats.errors import UsageError
from thermostats.modelling.classical.association import ols
from thermostats.modelling.classical.estimates import RESAMPLES, Array, Estimate, columns_of, labels, numbers
from thermostats.modelling.classical.resampling import bca

Predictor = Callable[[pd.DataFrame, pd.DataFrame], Array]
"""(rows to learn from, rows to predict) → predictions; a rule without parameters ignores the first."""


@dataclass(frozen=True, kw_only=True)
class PredictionError(Estimate):
    """Held-out error; `estimate`, `lower`, `upper` are `error_of_depth`, mean |predicted − observed| / L."""

    mape: float
    """mean |predicted − observed| / observed."""
    mape_lower: float
    mape_upper: float
    rmse: float
    worst: float
    """Largest error of depth."""
    inside: float
    """Share of predictions that lie inside the network, 0 to L."""
    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    errors_of_depth: tuple[float, ...]
    """One per row in the order given, for paired comparison of two predictors."""
    n_groups: int


def leave_one_out_error(
    frame: pd.DataFrame,
    predictor: str | Predictor,
    *,
    observed: str,
    depth: str,
    groups: str | None = None,
    level: float = 0.95,
    seed: int,
    resamples: int = RESAMPLES,
) -> PredictionError:
    """Error of rows predicted from the other rows, or with `groups` from the other groups only.

    `predictor` is a formula fitted by least squares whose left side is the column `observed`, or a function. Error of
    depth = mean |predicted − observed|/L, L the column `depth`; MAPE is relative to the observed. Intervals are BCa
    over rows; with `groups` estimates are means over groups of group means, and intervals are over groups. There
    is no test: p is NaN; compare two predictors by a paired test of their `errors_of_depth`. Raises UsageError
    for fewer than 4 rows, fewer than 3 groups, values not above 0, or a formula that the rows left cannot determine.
    """
    columns_of(frame, observed, depth)
    truth = numbers(frame[observed], observed, least=4, positive=True)
    layers = numbers(frame[depth], depth, least=4, positive=True)
    held = labels(frame[groups], groups) if groups else np.array([str(i) for i in range(len(frame))])
    names = list(dict.fromkeys(held.tolist()))
    if len(names) < 3:
        raise UsageError(
            "too few groups to leave one out", where=groups or "rows", got=len(names), allowed="at least 3"
        )
    predicted = np.full(truth.size, math.nan)
    for name in names:
        out = held == name
        predicted[out] = _predict(predictor, frame[~out], frame[out], name)
    by_depth, relative = np.abs(predicted - truth) / layers, np.abs(predicted - truth) / truth
    by_group = [np.array([error[held == name].mean() for name in names]) for error in (by_depth, relative)]
    (low, high, kind), (mape_low, mape_high, _) = (
        bca([error], np.mean, level=level, seed=seed, resamples=resamples)
        if np.ptp(error) > 0
        else (math.nan, math.nan, "none: constant errors")
        for error in by_group
    )
    name = predictor if isinstance(predictor, str) else getattr(predictor, "__name__", "a rule")
    return PredictionError(
        test=f"leave one {groups or 'row'} out, {name}; no test",
        estimate=float(by_group[0].mean()),
        lower=low,
        upper=high,
        level=level,
        interval=f"{kind}, over {groups or 'rows'}",
        p_value=math.nan,
        n=truth.size,
        mape=float(by_group[1].mean()),
        mape_lower=mape_low,
        mape_upper=mape_high,
        rmse=float(np.sqrt(np.mean(np.square(predicted - truth)))),
        worst=float(by_depth.max()),
        inside=float(np.mean((predicted >= 0) & (predicted <= layers))),
        predicted=tuple(map(float, predicted)),
        observed=tuple(map(float, truth)),
        errors_of_depth=tuple(map(float, by_depth)),
        n_groups=len(names),
    )


def _predict(predictor: str | Predictor, learn: pd.DataFrame, ask: pd.DataFrame, name: str) -> Array:
    try:
        values = ols(learn, predictor).predict(ask) if isinstance(predictor, str) else predictor(learn, ask)
    except PatsyError as error:
        raise UsageError(
            "the formula cannot predict the rows left out", where=name, got=error, allowed="levels seen in other rows"
        ) from error
    return numbers(np.broadcast_to(np.asarray(values, dtype=np.float64), len(ask)), f"prediction of {name}", least=1)

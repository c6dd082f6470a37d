"""N02's mediator: how much of the recipe's effect on the gain goes through ‖W_V‖₂/‖W_O‖₂."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.studies.nursery.factor_effects import estimate, factor_columns
from thermostats.studies.nursery.recipe_fit import distinct


def split(rows: pd.DataFrame) -> tuple[float, float]:
    """Share of the recipe's effect that goes through the ratio, and the slope of the log gain on the log ratio.

    Total effect t = Xτ, of the ratio Xα, slope b given the recipe: t = X(τ − bα) + b Xα; share = cov(t, bXα)/var(t).
    """
    total, ratio = (estimate(rows, outcome) for outcome in ("log_gain", "log_ratio"))
    direct = estimate(rows, "log_gain", further=["log_ratio"])
    slope = float(direct.beta[-1])
    recipe = [total.columns.index(name) for own in factor_columns(rows).values() for name in own]
    x = rows[[total.columns[i] for i in recipe]].to_numpy(np.float64)
    x = x - x.mean(axis=0)
    places = np.array(recipe) + 1
    t, through = x @ total.beta[places], slope * (x @ ratio.beta[places])
    return float((t @ through) / (t @ t)), slope


def half_width(rows: pd.DataFrame, level: float) -> float:
    """Half width of the t interval of the share, distinct models left out."""
    unit = distinct(rows)
    units = sorted(set(unit))
    left = np.array([split(rows[unit != one])[0] for one in units])
    error = float(np.sqrt((len(units) - 1) / len(units) * np.square(left - left.mean()).sum()))
    return float(stats.t.ppf((1 + level) / 2, len(units) - 1) * error)

"""Seeds of one model: models whose `seed_of` names it differ from it only by their seed, which is noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.tables.vocabulary import GAINS

LEVEL = 0.95


@dataclass(frozen=True)
class SeedNoise:
    """Seed variance s² = Σ_i (y_i − ȳ_recipe)² / df of log gains y, and the share of Var(y) that is left to causes."""

    sd: float
    """s."""
    df: int
    """Models less recipes, of recipes with two seeds or more."""
    ceiling: float
    """1 − s²/Var(y), at least 0: the largest share that lab, shape and size can have together."""
    lower: float
    upper: float
    """95% F interval of the ceiling, with df and recipes less one."""


def seed_noise(rows: pd.DataFrame, gain: str) -> SeedNoise | None:
    """The noise of seeds in a named gain; rows: of `features`, one a model. None where no recipe has two seeds."""
    with_gain = rows.dropna(subset=gain)
    y, recipe = np.log(with_gain[gain].astype("float64")), _recipe(with_gain)
    within = (y - y.groupby(recipe).transform("mean"))[recipe.duplicated(keep=False)]
    df = len(within) - recipe[within.index].nunique()
    if not df:
        return None
    variance, total = float(np.square(within).sum()) / df, float(y.var(ddof=1))
    limits = stats.f.ppf([(1 - LEVEL) / 2, (1 + LEVEL) / 2], df, recipe.nunique() - 1)
    ceiling, lower, upper = (max(0.0, 1 - float(variance / total / by)) for by in (1.0, *limits))
    return SeedNoise(float(np.sqrt(variance)), df, ceiling, lower, upper)


def one_a_recipe(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per recipe: its first seed, with gains that are geometric means over its seeds."""
    if not (rows["seed_of"] != "").any():
        return rows
    recipe, gains = _recipe(rows), list(GAINS)
    means = np.exp(np.log(rows[gains].astype("float64")).groupby(recipe).transform("mean"))
    return rows.assign(**means.where(rows[gains].notna()))[~recipe.duplicated()]


def _recipe(rows: pd.DataFrame) -> pd.Series[str]:
    """The model that each repeats, or is; a model of one seed stands by itself."""
    return rows["seed_of"].mask(rows["seed_of"] == "", rows["model_id"])

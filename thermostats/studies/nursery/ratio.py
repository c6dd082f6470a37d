"""N02's mediator: how much of the recipe's effect on the gain goes through ‖W_V‖₂/‖W_O‖₂."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.finding import Finding
from thermostats.claims.verdict import SENTENCES, if_above
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery.factor_effects import estimate, factor_columns, factor_tests
from thermostats.studies.nursery.recipe_fit import NAMED_GAINS, distinct
from thermostats.words import listed, number

ALPHA = 0.05
MOST = 0.5
PRIMARY = next(iter(NAMED_GAINS))


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


def mediator(rows: pd.DataFrame, *, seed: int) -> Finding:
    """The finding on W_V/W_O as a mediator of the recipe's effect."""
    rows = rows[rows["wv_wo_ratio"].notna()].reset_index(drop=True)
    rows = rows.assign(log_ratio=np.log(rows["wv_wo_ratio"].astype("float64")))
    share, slope = split(rows)
    unit = distinct(rows)
    units = sorted(set(unit))
    left = np.array([split(rows[unit != one])[0] for one in units])
    error = float(np.sqrt((len(units) - 1) / len(units) * np.square(left - left.mean()).sum()))
    half = stats.t.ppf((1 + LEVEL) / 2, len(units) - 1) * error
    decided = if_above(share - half, share + half, MOST)
    ratio = factor_tests(rows.assign(log_gain=rows["log_ratio"]), seed=seed)
    moves = listed([str(row.factor) for row in ratio[ratio["p_holm"] <= ALPHA].itertuples()]) or "no factor"
    return Finding(
        claim="N02",
        estimand=f"share of the recipe's effect that goes through ‖W_V‖₂/‖W_O‖₂, {NAMED_GAINS[PRIMARY]}",
        verdict=decided,
        plain=f"{SENTENCES[decided]} (most of the recipe's effect goes through the ratio of W_V and W_O): the share is "
        f"{number(share)} ({number(share - half)} to {number(share + half)}). The ratio itself is moved by {moves}, "
        f"and given the recipe a doubled ratio goes with {number(2**slope)} times the gain.",
        estimate=share,
        lower=share - half,
        upper=share + half,
        interval="95 % jackknife t interval over distinct models",
        n_models=len(rows),
        n_heritages=rows["recipe"].nunique(),
        notes=(
            "The split is exact arithmetic of three least-squares fits with the same columns. It is the share that the "
            "ratio causes only if nothing else that training leaves behind moves both ratio and gain given the recipe, "
            "if effects are linear in logs, and if the ratio works alike under every recipe. Recipes were assigned; "
            "ratios were not. The share can lie outside 0 to 1 where the two parts oppose each other.",
        ),
    )

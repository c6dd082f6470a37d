"""C04: heritage counts for more than geometry, and geometry for more than scale."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import Claim, Estimate, Evidence, Result
from thermostats.claims.rule import Above, Decide, Posterior, V
from thermostats.modelling.heritage.blocks import ORDER
from thermostats.modelling.heritage.fit import HeritageFit, fit_heritage
from thermostats.modelling.heritage.model import AUTO, CLOSED
from thermostats.modelling.heritage.power import power
from thermostats.modelling.heritage.shares import (
    Dominance,
    block_f,
    dominance,
    freedman_lane,
    jackknifed_shares,
    with_differences,
)
from thermostats.plots.general import drawing, forest
from thermostats.studies.delia2026.gains import HUNT, LEVEL, NAMED_GAINS, PYTHIA, Gain, gains, heritage_rows

SEED = 4
ALPHA, SMALL = 0.05, 0.05
"""P-value against "almost nothing to do with it", and the share that is almost nothing."""
BLOCKS = {"heritage": ["heritage"], "geometry": ["log_L", "log_H", "log_d_h"], "scale": ["log_n"]}
DIFFERENCES = (("heritage", "geometry"), ("geometry", "scale"))
FIRST, SECOND = (f"{a} − {b}" for a, b in DIFFERENCES)
LOGS = {
    "log_L": "n_layers",
    "log_H": "n_heads",
    "log_d_h": "d_head",
    "log_n": "n_params_nonembedding",
    "log_n_all": "n_params",
}
SIZES = ("log_n", "log_n_all")
AT_BEST = {"heritage": 0.60, "geometry": 0.15, "scale": 0.05}
"""Shares under which the claim would be plainly true, for what so many models could show at best."""
POWER, SIMULATIONS = 0.8, 200
GAINS = tuple(gain for gain in NAMED_GAINS if gain.column != "normed_gain")
PRIMARY = GAINS[0]
SHOWN = ("orders", "labs", "models", "classical", "dominance", "commonality", "left out")
SHARE = "share of scale"
NEGLIGIBLE = Posterior(f"share of scale < {SMALL:g}", draws=V("share_scale") < SMALL)

CLAIM = Claim.read(__file__)


@CLAIM.shared
def every_model(evidence: Evidence) -> pd.DataFrame:
    """Published models with logs of shape and size, those that norm after the residual sum too."""
    rows = gains(evidence)
    return rows.assign(**{name: np.log(rows[column].astype(float)) for name, column in LOGS.items()})


def models(evidence: Evidence, gain: Gain) -> pd.DataFrame:
    """Comparable models with the log of a gain."""
    rows = every_model(evidence)
    rows = rows[rows["comparable"]].reset_index(drop=True)
    return rows.assign(outcome=np.log(rows[gain.column]))


@CLAIM.shared
def shares(evidence: Evidence, gain: Gain) -> tuple[Dominance, pd.DataFrame]:
    """Shares of the blocks, and a table of the corrected ones and their differences with jackknife intervals."""
    rows = models(evidence, gain)
    whole = dominance(rows, "outcome", BLOCKS, seed=SEED)
    return whole, jackknifed_shares(rows, "outcome", BLOCKS, DIFFERENCES, seed=SEED, whole=whole, level=LEVEL)


@CLAIM.shared
def heritage_fit(evidence: Evidence, gain: Gain) -> HeritageFit:
    """The heritage model: sampled prompt by prompt for the primary gain, in closed form for the others."""
    method = AUTO if gain is PRIMARY else CLOSED
    rows = heritage_rows(evidence, gain.column, PYTHIA, HUNT)
    return fit_heritage(rows, estimand=gain.column, method=method, seed=SEED)


def estimates(table: pd.DataFrame, interval: str) -> dict[str, Estimate]:
    """Every share and difference of the table by name."""
    return {
        row["what"]: Estimate(row["estimate"], row["lower"], row["upper"], interval) for row in table.to_dict("records")
    }


@CLAIM.finding("order", primary=Above(FIRST, 0) & Above(SECOND, 0), robustness=Posterior(ORDER), over=GAINS)
def order(evidence: Evidence, gain: Gain) -> Result:
    """Do the three come in the claimed order?"""
    rows, fit = models(evidence, gain), heritage_fit(evidence, gain)
    whole, table = shares(evidence, gain)
    xlabel = "share of the variance of the log gain, corrected for columns"
    words: dict[str, Any] = {"whole": whole, "tests": block_f(rows, "outcome", BLOCKS)}
    posterior: dict[str, Any] = {"fit": fit, "fit_tables": ("orders",)}
    if fit is not None:
        posterior["statements"] = {ORDER: fit.holds(ORDER)}
    if gain is PRIMARY:
        words |= limits(rows, table)
        if fit is not None:
            posterior |= {"fit_tables": SHOWN, "sensitivity": fit.sensitivity(), "panels": tuple(fit.panels.values())}
    return Result.of(
        rows,
        estimates(table, "95 % jackknife t interval over models of heritage − geometry"),
        estimate=FIRST,
        table=table,
        draw=drawing(forest, table, label="what", null=0.0, xlabel=xlabel),
        words=words,
        **posterior,
    )


def limits(rows: pd.DataFrame, table: pd.DataFrame) -> dict[str, Any]:
    """What these models can show of the order at all."""
    shape = np.column_stack([np.ones(len(rows)), *(rows[name] for name in BLOCKS["geometry"])])
    fitted = shape @ np.linalg.lstsq(shape, rows["log_n"], rcond=None)[0]
    labs = rows.groupby("heritage").size()
    first = table.set_index("what").loc[FIRST]
    quantile = stats.t.ppf((1 + LEVEL) / 2, len(rows) - 1)
    error = (first["upper"] - first["estimate"]) / quantile
    without = {lab: dominance(rows[rows["heritage"] != lab], "outcome", BLOCKS, seed=SEED) for lab in labs.index}
    return {
        "without_lab": {lab: with_differences(found, DIFFERENCES)[-2:] for lab, found in without.items()},
        "detectable": float(error * (quantile + stats.t.ppf(POWER, len(rows) - 1))),
        "at_best": AT_BEST,
        "power": power(len(rows), len(labs), AT_BEST, simulations=SIMULATIONS, seed=SEED),
        "size_by_shape": float(np.corrcoef(fitted, rows["log_n"])[0, 1] ** 2),
        "alone": int((labs == 1).sum()),
    }


def size_p(rows: pd.DataFrame) -> list[float]:
    """Permutation p of size given lab and shape, for each way to count weights."""
    blocks = [BLOCKS | {"scale": [column]} for column in SIZES]
    return [freedman_lane(rows, "outcome", own, "scale", seed=SEED).p_value for own in blocks]


@CLAIM.finding(
    "size",
    primary=Decide((V(SHARE).p > ALPHA) & (V(SHARE).upper < SMALL), V(SHARE).p <= ALPHA),
    robustness=NEGLIGIBLE,
    over=GAINS,
)
def size(evidence: Evidence, gain: Gain) -> Result:
    """Has size almost nothing to do with it, however it is counted?"""
    rows, every, fit = models(evidence, gain), every_model(evidence), heritage_fit(evidence, gain)
    share = shares(evidence, gain)[1].set_index("what").loc["scale"]
    p = size_p(rows)
    known = Estimate(share["estimate"], share["lower"], share["upper"], "95 % jackknife t interval over models", max(p))
    return Result.of(
        rows,
        {SHARE: known},
        table=None,
        fit=fit,
        words={
            "p": p,
            "p_every": size_p(every.assign(outcome=np.log(every[gain.column]))),
            "excluded": len(every) - len(rows),
            "r": float(np.corrcoef(rows["log_n"], rows["outcome"])[0, 1]),
        },
    )


if __name__ == "__main__":
    CLAIM.main()

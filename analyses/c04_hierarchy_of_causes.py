"""C04: heritage counts for more than geometry, and geometry for more than scale."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.api import OLS, add_constant

from thermostats.claims.claim import (
    EXTERNAL,
    MEASURED,
    POOLED,
    REPLICATED,
    Case,
    Claim,
    Estimate,
    Evidence,
    Result,
    Trial,
    Views,
)
from thermostats.claims.heritage import panels_of, tables_of
from thermostats.claims.rule import NEVER, Above, Decide, Posterior, V
from thermostats.claims.worlds import worlds_of_causes, worlds_without_size
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.blocks import ORDER
from thermostats.modelling.heritage.fit import fit_heritage
from thermostats.modelling.heritage.shares import Blocks, block_f, dominance, freedman_lane, share_table
from thermostats.modelling.specification.estimators import difference_of_shares
from thermostats.modelling.specification.null import across_labs
from thermostats.plots.general import drawing, forest
from thermostats.studies.delia2026 import curves
from thermostats.studies.delia2026.gains import HUNT, LEVEL, NAMED_GAINS, PYTHIA, gains, heritage_rows

SEED = 4
ALPHA, SMALL, MATTERS = 0.05, 0.05, 0.2
"""P-value against "almost nothing to do with it", the share that is almost nothing, and one that is not."""
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
SURE = 0.98
"""Level of the order's intervals, chosen among 0.95, 0.975, 0.98 and 0.99 by 2,000 simulated studies a world: the most
powerful that says "supported" falsely in at most 5% of each (at 0.95 in 6.2% where small labs are noisy)."""
GAINS = tuple(gain for gain in NAMED_GAINS if gain.column != "normed_gain")
PRIMARY = GAINS[0]
SHOWN = ("orders", "labs", "models", "classical", "dominance", "commonality", "left out")
SHARE, OWN = "share of scale", "geometry, given lab and size"
ORDERED = Above(FIRST, 0) & Above(SECOND, 0) & Decide(V(OWN).p <= ALPHA, NEVER)
"""Geometry's own effect must be there: its share, averaged over orders, holds part of what it shares with labs."""
NEGLIGIBLE = Posterior(f"share of scale < {SMALL:g}", draws=V("share_scale") < SMALL)

CLAIM = Claim.read(__file__)


@CLAIM.shared
def every_model(evidence: Evidence) -> pd.DataFrame:
    """Published models with logs of shape and size, those that norm after the residual sum too."""
    rows = gains(evidence)
    return rows.assign(**{name: np.log(rows[column].astype(float)) for name, column in LOGS.items()})


def models(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """Comparable models with the log of a gain."""
    rows = every_model(evidence)
    rows = rows[rows["comparable"]].reset_index(drop=True)
    return rows.assign(outcome=np.log(rows[gain.column])).dropna(subset="outcome")


def by_shares(rows: pd.DataFrame, level: float = SURE, blocks: Blocks = BLOCKS) -> Result:
    """Corrected shares of the blocks and their differences."""
    table = share_table(rows, "outcome", blocks, DIFFERENCES, seed=SEED, level=level)
    interval = f"{level:.0%} t interval, parametric bootstrap with the design fixed"
    known = table.set_index("what").to_dict("index")
    found = {what: Estimate(row["estimate"], row["lower"], row["upper"], interval) for what, row in known.items()}
    own = Estimate(known["geometry"]["unique"], p=known["geometry"]["p"])
    return Result.of(rows, found | {OWN: own}, estimate=FIRST, table=table)


VIEWS = Views(models=12, groups=4, sets=(EXTERNAL, REPLICATED, MEASURED, POOLED))
"""In the controlled study width is H·d_h and scale follows from shape: N01 asks this of it by its own columns."""


@CLAIM.shared
def heritage_fit(evidence: Evidence, gain: Case, scale: str = "log_n") -> Fit:
    """The heritage model of the models' means."""
    rows = heritage_rows(evidence, gain.column, PYTHIA, HUNT)
    rows = rows.merge(every_model(evidence)[["model_id", *LOGS]], on="model_id")
    return fit_heritage(rows, estimand=gain.column, blocks=BLOCKS | {"scale": [scale]}, seed=SEED)


@CLAIM.finding(
    "order",
    primary=ORDERED,
    robustness=Posterior(ORDER),
    over=GAINS,
    trial=Trial(models, by_shares, worlds=worlds_of_causes("outcome")),
    views=VIEWS,
)
def order(evidence: Evidence, gain: Case) -> Result:
    """Do the three come in the claimed order?"""
    rows, fit = models(evidence, gain), heritage_fit(evidence, gain)
    found, labs = by_shares(rows), rows.groupby("heritage").size()
    every = by_shares(rows.assign(log_n=rows["log_n_all"]))
    words = {
        "whole": dominance(rows, "outcome", BLOCKS, seed=SEED),
        "tests": block_f(rows, "outcome", BLOCKS),
        "every": every.quantities,
        "every_posterior": heritage_fit(evidence, gain, "log_n_all").probabilities[ORDER],
        "size_by_shape": OLS(rows["log_n"], add_constant(rows[BLOCKS["geometry"]])).fit().rsquared,
        "alone": int((labs == 1).sum()),
    }
    posterior: dict[str, Any] = {"fit_tables": tables_of(fit, ("orders",))}
    if gain is PRIMARY:
        posterior = {"fit_tables": tables_of(fit, SHOWN), "panels": panels_of(fit)}
    xlabel = "corrected share of the variance of the log gain"
    draw = drawing(forest, found.table, label="what", null=0.0, xlabel=xlabel)
    return replace(found, draw=draw, words=words, fit=fit, **posterior)


CLAIM.curve(
    f"order.{PRIMARY.id}",
    rows=curves.of_the_study,
    choices=curves.CAUSES,
    estimate=difference_of_shares("heritage", "geometry", curves.BLOCKS),
    null=across_labs(*curves.CODED),
    test=partial(by_shares, blocks=curves.BLOCKS),
)


def size_p(rows: pd.DataFrame) -> list[float]:
    """Permutation p of size given lab and shape, for each way to count weights."""
    blocks = [BLOCKS | {"scale": [column]} for column in SIZES]
    return [freedman_lane(rows, "outcome", own, "scale", seed=SEED).p_value for own in blocks]


def by_size(rows: pd.DataFrame) -> Result:
    """Corrected share of size, with the larger of the two p."""
    known = by_shares(rows, LEVEL).quantities["scale"]
    return Result.of(rows, {SHARE: replace(known, p=max(size_p(rows)))}, table=None)


@CLAIM.finding(
    "size",
    primary=Decide((V(SHARE).p > ALPHA) & (V(SHARE).upper < SMALL), V(SHARE).p <= ALPHA),
    robustness=NEGLIGIBLE,
    over=GAINS,
    trial=Trial(models, by_size, worlds=worlds_without_size("outcome", MATTERS)),
    views=VIEWS,
)
def size(evidence: Evidence, gain: Case) -> Result:
    """Has size almost nothing to do with it, however it is counted?"""
    rows, every, fit = models(evidence, gain), every_model(evidence), heritage_fit(evidence, gain)
    return replace(
        by_size(rows),
        fit=fit,
        words={
            "p": size_p(rows),
            "p_every": size_p(every.assign(outcome=np.log(every[gain.column]))),
            "excluded": len(every) - len(rows),
            "r": float(np.corrcoef(rows["log_n"], rows["outcome"])[0, 1]),
        },
    )


if __name__ == "__main__":
    CLAIM.main()

"""R01: what the study published is what a measurement of the same models finds."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import POOLED, Claim, Evidence, Result, Test, Trial
from thermostats.claims.rule import AtLeast, Decide, V
from thermostats.claims.worlds import build_mean_worlds
from thermostats.modelling.classical.many import Many, estimate_means, transform_logs
from thermostats.plots.posterior import draw_bland_altman
from thermostats.tables.schemas import GAINS

SEED = 101
MARGIN = 1.05
"""Half precision on either side changes a figure by up to 3% (`tables/identities.py`); nothing else
may."""
SPREAD = 0.05
"""Declared standard deviation of the log ratio between models."""
LIMITS = 1.96
"""Standard deviations that Bland and Altman's limits of agreement lie from the mean (1986, Lancet
327:307)."""
FEWEST = 3
"""Models without which a mean has no interval."""
SPECTRA = ("wv_norm", "wo_norm")
RATIO = V("measured / published")
SAME = Decide(
    (RATIO.lower > 1 / MARGIN) & (RATIO.upper < MARGIN),
    (RATIO.lower > MARGIN) | (RATIO.upper < 1 / MARGIN),
)
CLAIM = Claim.read(__file__)


@dataclass(frozen=True)
class Figure:
    """A published quantity: a column of the table `features`."""

    id: str
    words: str


FIGURES = (
    Figure("last_gain", "gain of the last block"),
    Figure("penultimate_gain", "gain of the block before the last"),
    Figure("normed_gain", "gain of the last block with the final norm"),
    Figure("wv_norm", "spectral norm of W_V, mean over layers"),
    Figure("wo_norm", "spectral norm of W_O, mean over layers"),
)


@CLAIM.shared
def match_figures(evidence: Evidence, figure: Figure) -> pd.DataFrame:
    """One row per model with both: the published figure (`value`), the measured one, the log of
    their ratio; of several files or runs their geometric means, and `why`: a named quantity of the
    measurement that the published one is.
    """
    features = evidence.table("features")
    files = evidence.table("sources")["file"]
    names = [*GAINS, *SPECTRA]
    model = ["model_id", "heritage"]
    logs = features.assign(**{name: np.log(features[name].astype(float)) for name in names})
    theirs = features["source"].isin(files)
    published, measured = (
        logs[side].groupby(model, as_index=False)[names].mean() for side in (theirs, ~theirs)
    )
    both = (
        published[[*model, figure.id]].set_axis([*model, "log"], axis=1).merge(measured, on=model)
    )
    both = both.dropna(subset=["log", figure.id])
    apart = both[names].sub(both["log"], axis=0)
    others = apart.drop(columns=figure.id).abs().fillna(np.inf)
    explained = (apart[figure.id].abs() > np.log(MARGIN)) & (others.min(axis=1) <= np.log(MARGIN))
    why = others.idxmin(axis=1).where(explained, "")
    sides = {"value": np.exp(both["log"]), "measured": np.exp(both[figure.id])}
    return both[model].assign(**sides, log_ratio=apart[figure.id], why=why)


def average_ratios(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Geometric mean over models of measured / published, its t interval and p."""
    return {RATIO.name: transform_logs(estimate_means(outcomes["log_ratio"], least=FEWEST))}


def describe_ratio(rows: pd.DataFrame, result: Result) -> Result:
    """With the limits of agreement."""
    reach = LIMITS * float(rows["log_ratio"].std())
    mean = float(rows["log_ratio"].mean())
    words = {"below": np.exp(mean - reach), "above": np.exp(mean + reach)}
    return result.adding(table=rows, words=words)


ENOUGH = AtLeast(models=5)
LOG = float(np.log(MARGIN))
WORLDS = build_mean_worlds("log_ratio", 0.0, LOG, SPREAD, others={"smaller": -LOG})
T_OF_LOGS = "95% t confidence interval of the log"
MEAN = Test(average_ratios, ("log_ratio",), T_OF_LOGS, "p-value", describe_ratio)
TRIAL = Trial(
    lambda evidence, figure: ENOUGH.check_rows(match_figures(evidence, figure)), MEAN, worlds=WORLDS
)


@CLAIM.finding("ratio", primary=SAME, trial=TRIAL, evidence=POOLED, needs=ENOUGH, over=FIGURES)
def judge_published(evidence: Evidence, figure: Figure) -> Result:
    """By which factor does a measurement of the same models differ from the published figure?"""
    rows = match_figures(evidence, figure)
    found = MEAN(ENOUGH.check_rows(rows, apart=rows.iloc[:0]))
    apart = rows[rows["log_ratio"].abs() > np.log(MARGIN)]
    draw = partial(_draw_ratios, rows, found.words)
    return found.adding(draw=draw, words={"apart": apart, "within": len(rows) - len(apart)})


def _draw_ratios(rows: pd.DataFrame, limits: Mapping[str, float], axes: Axes) -> Axes:
    lines = {"limits of agreement": limits["below"], "": limits["above"]}
    return draw_bland_altman(rows, axes, lines)


if __name__ == "__main__":
    CLAIM.main()

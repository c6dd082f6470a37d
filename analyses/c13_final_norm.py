"""C13: the final norm makes an artifact, and leaving it out raises accuracy from 43.75% to 100%."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import PUBLISHED, Audit, Claim, Evidence, Result, Test, Trial, Views
from thermostats.claims.common_tests import EXACT_95, count_rows
from thermostats.claims.rule import Above, AtLeast, Decide, V
from thermostats.claims.worlds import build_share_worlds
from thermostats.errors import UsageError
from thermostats.modelling.classical.counts import measure_accuracy
from thermostats.modelling.classical.many import Many, estimate_shares, wrap_counts
from thermostats.plots.general import MUTED, draw_reference, draw_scatter, log_axis
from thermostats.studies.delia2026 import stated_audits as audit
from thermostats.studies.delia2026.prompt_gains import LAST_GAIN_FILES, select_single_runs
from thermostats.studies.delia2026.published_gains import CLEAN, HUNT, PYTHIA, build_source_features
from thermostats.tables.labels import drop_unlabelled
from thermostats.tables.model_rows import model_rows, read_prompt_gains

CHANGING = "share that changes sides"
THRESHOLD = 0.2
ALPHA = 0.05
MISJUDGED = 0.2
LEAST = 5
WITH, WITHOUT = 0.4375, 1.0
"""Accuracies that the claim states; the null is that leaving the norm out changes nothing."""
SIGNS = 0.8
"""Share of models whose side the norm changes under "artifact", against `MISJUDGED`."""
ACCURACY = "accuracy without the norm"
INTERVAL = "Clopper–Pearson exact interval of the accuracy without the norm, 95%"
GAINED = V("models put right")
LOST = V("models put wrong")
RAISES = Decide((GAINED > LOST) & (V(ACCURACY).p < ALPHA), GAINED <= LOST)

CLAIM = Claim.read(__file__)


@CLAIM.shared
def score_rule(evidence: Evidence) -> pd.DataFrame:
    """Whether the rule on ρ is right for each model and file, with and without the final norm."""
    rows = build_source_features(evidence, HUNT, PYTHIA, CLEAN)
    table = (
        rows[["model_id", "heritage", "source", "rho", "penultimate_gain", "normed_gain"]]
        .dropna()
        .copy()
    )
    predicted = table["rho"] >= THRESHOLD
    table["right_without"] = predicted == (table["penultimate_gain"] < 1)
    table["right_with"] = predicted == (table["normed_gain"] < 1)
    table["changes_sides"] = (table["penultimate_gain"] < 1) != (table["normed_gain"] < 1)
    return table.reset_index(drop=True)


def select_both_ways(evidence: Evidence) -> pd.DataFrame:
    """Every model measured both ways, once."""
    rows = score_rule(evidence)
    return pd.concat([rows[rows["source"] == source] for source in (PYTHIA, HUNT)]).drop_duplicates(
        "model_id"
    )


def select_hunt(evidence: Evidence) -> pd.DataFrame:
    """The models on which 43.75% was counted."""
    rows = score_rule(evidence)
    return rows[rows["source"] == HUNT].reset_index(drop=True)


def run_mcnemar(table: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Accuracy of the rule without the norm, McNemar's exact test against with it."""
    if table.empty:
        raise UsageError("no rows")
    right = outcomes["right_without"].astype(bool)
    before = table["right_with"].to_numpy(bool)
    gained = (right & ~before).sum(axis=1)
    lost = (~right & before).sum(axis=1)
    p = stats.binom.sf(gained - 1, gained + lost, 0.5)
    return {
        ACCURACY: replace(estimate_shares(right), p=p),
        GAINED.name: wrap_counts(gained),
        LOST.name: wrap_counts(lost),
    }


def show_models(table: pd.DataFrame, result: Result) -> Result:
    """With its models."""
    return result.adding(table=table)


MCNEMAR = Test(run_mcnemar, ("right_without",), INTERVAL, "one-sided p-value", show_models)


def judge_accuracy(table: pd.DataFrame, figures: Audit | None = None) -> Result:
    """McNemar's test with its figure."""
    without = measure_accuracy(table["rho"] >= THRESHOLD, table["penultimate_gain"] < 1)
    differ = table[table["right_without"] != table["right_with"]]

    def draw(axes: Axes) -> None:
        axes.set_xscale("log")
        draw_reference(axes, 1.0)
        axes.axvline(THRESHOLD, color=MUTED, linewidth=0.9, linestyle=":")
        draw_scatter(table, axes, x="rho", y="penultimate_gain")
        log_axis(axes, "x")
        axes.set(
            xlabel="head density ρ = H / d_h (dotted: threshold)",
            ylabel="gain without the final norm",
        )

    return MCNEMAR(table).adding(
        draw=draw,
        audit=figures or Audit(),
        words={
            "right": int(table["right_without"].sum()),
            "right_with": int(table["right_with"].sum()),
            "majority": without.majority,
            "differ": len(differ),
            "reproduced": figures.reproduced if figures else {},
        },
    )


WORLDS = build_share_worlds("right_without", WITHOUT, WITH)
RIGHT = partial(Trial, test=MCNEMAR, worlds=WORLDS)


@CLAIM.finding("accuracy.hunt", primary=RAISES, trial=RIGHT(select_hunt))
def judge_hunt(evidence: Evidence) -> Result:
    """The models on which 43.75% was counted."""
    return judge_accuracy(
        select_hunt(evidence), audit.check_final_norm(evidence, score_rule(evidence), THRESHOLD)
    )


@CLAIM.finding("accuracy.all", primary=RAISES, trial=RIGHT(select_both_ways))
def judge_every_model(evidence: Evidence) -> Result:
    """Every model measured both ways."""
    return judge_accuracy(select_both_ways(evidence))


def select_known_blocks(evidence: Evidence) -> pd.DataFrame:
    """Models whose last block, in files with other prompts, was measured with the norm and
    without."""
    if evidence.name == PUBLISHED:
        last = select_single_runs(read_prompt_gains(evidence, "last_gain", *LAST_GAIN_FILES))
        known = select_both_ways(evidence)
        known = known.assign(
            last_gain=known["model_id"].map(last.groupby("model_id")["value"].mean())
        )
    else:
        known = drop_unlabelled(model_rows(evidence, "last_gain", incomparable=True), "heritage")
    known = known.dropna(subset=["last_gain", "normed_gain"])[
        ["model_id", "heritage", "last_gain", "normed_gain"]
    ]
    return known.assign(
        changes_sides=(known["last_gain"] < 1) != (known["normed_gain"] < 1)
    ).reset_index(drop=True)


def count_changed(known: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Share of models that change sides."""
    return count_rows(outcomes["changes_sides"], CHANGING)


def describe_changed(known: pd.DataFrame, result: Result) -> Result:
    """With how many they are; where there is no model the whole range is no interval."""
    if known.empty:
        result = result.name_intervals({CHANGING: ""})
    return result.adding(table=known, words={"changed": int(known["changes_sides"].sum())})


CHANGED = Test(count_changed, ("changes_sides",), EXACT_95, describe=describe_changed)
SIGN = Trial(
    select_known_blocks, CHANGED, worlds=build_share_worlds("changes_sides", SIGNS, MISJUDGED)
)


@CLAIM.finding(
    "sign",
    primary=Above(CHANGING, MISJUDGED),
    needs=AtLeast(models=LEAST),
    trial=SIGN,
    views=Views(models=LEAST, reads=("layers.gain_block", "summaries.normed_gain")),
)
def judge_sign(evidence: Evidence) -> Result:
    """Models whose last block lies on the other side of 1 with the norm."""
    table = select_both_ways(evidence)

    def draw(axes: Axes) -> None:
        axes.set_yscale("log")
        draw_reference(axes, 1.0)
        draw_reference(axes, 1.0, vertical=True)
        draw_scatter(table, axes, x="penultimate_gain", y="normed_gain")
        log_axis(axes, "y")
        axes.set(
            xlabel="penultimate gain, without the norm", ylabel="gain of the last block with it"
        )

    apart = np.abs(np.log(table["normed_gain"] / table["penultimate_gain"]))
    factor = float(np.exp(np.median(apart)))
    words = {"mixed": int(table["changes_sides"].sum()), "shown": len(table), "factor": factor}
    return CHANGED(select_known_blocks(evidence)).adding(draw=draw, words=words)


if __name__ == "__main__":
    CLAIM.main()

"""C10: head density ρ = H/d_h drives the sign, with a threshold between 0.15 and 0.20."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.bounds import read_bounds
from thermostats.claims.claim import (
    Claim,
    Estimate,
    Evidence,
    Inference,
    Result,
    Test,
    Trial,
    Views,
)
from thermostats.claims.common_tests import correlate_columns
from thermostats.claims.noise import ALIKE, IN_ONE_LAB
from thermostats.claims.rule import Above, Below, Decide, Each, Posterior, Some, V
from thermostats.claims.worlds import build_level_worlds, build_line_worlds
from thermostats.modelling.classical.association import estimate_slope
from thermostats.modelling.classical.boxed import Grid
from thermostats.modelling.classical.counts import find_roc_threshold
from thermostats.modelling.classical.many import Many, estimate_means, estimate_shares, wrap_counts
from thermostats.modelling.crowding import fit_threshold
from thermostats.modelling.lines import fit_line
from thermostats.modelling.specification import build_correlation, permute_between_and_within_labs
from thermostats.plots.general import draw_reference, draw_scatter, log_axis
from thermostats.studies.delia2026 import curves
from thermostats.studies.delia2026 import stated_audits as audit
from thermostats.studies.delia2026.published_gains import (
    HUNT,
    NAMED_GAINS,
    PYTHIA,
    build_penultimate_features,
    expand_prompts,
    load_gains,
)

ALPHA = 0.05
DRIVES, WEAK = -0.7, -0.3
"""Correlation at which ρ carries half of the differences, the least that drives them, and one too
weak to do so."""
STEP_SIZE = -0.8
"""Correlation of the log gain with lying above the threshold at which the rule is right in about 17
of 20 models."""
SEED, FEWEST = 10, 3
"""Of permutations; and prompts that have an interval."""
SCALE = 0.25
"""Gains that differ by a factor e^0.25 = 1.3 over one SD of log ρ would be no surprise."""
LEVELS = {audit.DENSE: 0.95, audit.SPARSE: 1.05}
PROMPTS = 0.02
"""A twentieth on either side of 1 for the pair, and the standard deviation of a model's gains over
prompts."""
FAMILY = "pythia"
GAIN = "penultimate_gain"
DENSE = "Pythia-6.9B"
SPARSE = "GPT-J"
RANK = V("rank correlation")
FALLS = Decide(
    (RANK < 0) & (RANK.p <= ALPHA),
    ((RANK > 0) & (RANK.p <= ALPHA)) | ((RANK.p > ALPHA) & (RANK.lower > WEAK)),
)
ENDS = "ends of the published range"
COMMONER = "share of the commoner sign"
ACCURACY = V("accuracy")
BETTER = Decide(
    Some(ENDS, (V(COMMONER) < ACCURACY) & (ACCURACY.p <= ALPHA)),
    Each(ENDS, ACCURACY.upper < V(COMMONER)),
)
"""Against it is a rule that is clearly worse than always guessing the commoner side, not one that
merely looks so."""
STEP = Posterior("threshold within the published range, expanding below and dampening above")
SLOPE = Posterior("slope over log ρ < 0", draws=V("slope on log_rho") < 0)

CLAIM = Claim.read(__file__)


models = CLAIM.shared(load_gains)


def select_family(evidence: Evidence, inside: bool) -> pd.DataFrame:
    """Comparable models of the family on which the rule was made, or of all others, whose density
    is known."""
    rows = models(evidence).dropna(subset="rho")
    return rows[rows["comparable"] & ((rows["family"] == FAMILY) == inside)].reset_index(drop=True)


def select_outside(evidence: Evidence) -> pd.DataFrame:
    """Models of other families, with the published range and on which side of its middle they
    lie."""
    low, high = audit.load_published_thresholds(evidence)
    rows = select_family(evidence, False)
    return rows.assign(low=low, high=high, dense=(rows["rho"] >= (low + high) / 2).astype(float))


def judge_rule(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """How often the rule names the side of 1, at both ends of the published range."""
    below = outcomes["log_gain"] < 0
    n = len(rows)
    majority = np.maximum(below.sum(axis=1), (~below).sum(axis=1)) / n
    ends = []
    for cut in rows[["low", "high"]].iloc[0]:
        right = (rows["rho"] >= cut).to_numpy() == below
        p = np.where(majority < 1, stats.binom.sf(right.sum(axis=1) - 1, n, majority), np.nan)
        ends.append(
            {ACCURACY.name: replace(estimate_shares(right), p=p), COMMONER: wrap_counts(majority)}
        )
    return {ENDS: ends}


def describe_rule(rows: pd.DataFrame, result: Result) -> Result:
    """The better end heads the finding; both are named with their balanced accuracy."""
    sides = rows.assign(gain=np.exp(rows["log_gain"]))
    tried = {
        float(cut): audit.score_density_rule(sides, cut) for cut in rows[["low", "high"]].iloc[0]
    }
    found = max(tried.values(), key=lambda one: one.estimate)
    accuracy = {ACCURACY.name: Estimate.build(found, p=found.p_value, p_kind="one-sided p-value")}
    ends = result.rows[ENDS].assign(threshold=list(tried))
    return result.adding(
        quantities=accuracy, rows={ENDS: ends}, words={"found": found, "tried": tried}
    )


BY_RULE = Test(judge_rule, ("log_gain",), describe=describe_rule)
VIEWS = Views(models=5)
STEPS = build_line_worlds("log_gain", "dense", STEP_SIZE, mean=True)
"""With declared bounds: errors go along the side of the threshold, of which residuals along ρ say
nothing; with theirs “not supported” would be true in every world on all evidence."""
RULED = Trial(select_outside, BY_RULE, worlds=STEPS, version=2)


@CLAIM.finding("threshold", primary=BETTER, robustness=STEP, trial=RULED, views=VIEWS)
def judge_threshold(evidence: Evidence) -> Result:
    """The rule on models that it was not made on, at the better end of the published range."""
    every = models(evidence)
    inside = select_family(evidence, True)
    low, high = audit.load_published_thresholds(evidence)
    features, known = build_penultimate_features(evidence)
    within = (
        (V("threshold") >= low) & (V("threshold") <= high) & (V("below") > 0) & (V("above") < 0)
    )
    fair = every[every["comparable"]]
    best = find_roc_threshold(fair["rho"], fair["gain"] < 1, seed=SEED)

    def draw(axes: Axes) -> None:
        axes.axvspan(low, high, color="#d5d2cb", alpha=0.5, linewidth=0)
        draw_reference(axes, 1.0)
        axes.set_xscale("log")
        draw_scatter(every, axes, x="rho", y="gain", lower="lower", upper="upper")
        axes.set_ylabel(NAMED_GAINS[0].words)
        log_axis(axes, "x")

    columns = ["model_id", "heritage", "rho", "n_layers", "gain", "lower", "upper", "comparable"]
    both = "log_gain ~ n_layers + rho"
    return BY_RULE(select_outside(evidence)).adding(
        table=every[columns].sort_values("rho"),
        draw=draw,
        inference=Inference(
            fit_threshold(features[features["family"] != FAMILY], **known, seed=SEED),
            tables=("threshold", "rivals", "models"),
            statements={STEP.statement: within.truth},
        ),
        audit=audit.check_density(evidence, every, best.estimate),
        words={
            "best": best,
            "learned": audit.score_density_rule(inside, high),
            "high": high,
            "shown": len(every),
            "p": {
                term: estimate_slope(inside, both, term=term, errors="classical").p_value
                for term in ("rho", "n_layers")
            },
        },
    )


BOX = Grid.span_bounds(read_bounds(GAIN, "rho", "heritage").plausible)
"""Nuisances of the gain along ρ, which the test of all families but one profiles."""
correlate_ranks = partial(correlate_columns, RANK.name, "rho", method="spearman")
RANKS = correlate_ranks("log_gain")
BOXED = correlate_ranks("log_gain", box=BOX)
"""Rank correlation of ρ with the gain, the latter with p of a slope with the nuisances in the test:
power 0.51 at 14 models, where p of the rank correlation has 0.27."""


def judge_association(rows: pd.DataFrame, test: Test) -> Result:
    """ρ against the gain over some models, by ranks and by a line over log ρ."""
    error = (
        (rows["upper"] - rows["lower"])
        / 2
        / stats.t.ppf(0.975, rows["n_prompts"] - 1)
        / rows["gain"]
    )
    shown = rows.assign(log_rho=np.log(rows["rho"].astype(float)), error=error)
    fit = fit_line(
        shown, "log_gain", ["log_rho"], scale=SCALE, se="error", sources=[PYTHIA, HUNT], seed=SEED
    )
    return test(rows).adding(inference=Inference(fit, tables=("rows",)))


DRIVEN = partial(build_line_worlds, "log_gain", "rho", DRIVES, measured=GAIN)
INSIDE = Trial(
    partial(select_family, inside=True), RANKS, "model_id", DRIVEN(kinds=IN_ONE_LAB, group="")
)


OUTSIDE = Trial(
    partial(select_family, inside=False), BOXED, worlds=DRIVEN(), version=3, estimand=RANKS
)
"""Errors that are larger in some labs weaken the correlation, so its truth is that of the rows that
are simulated."""


@CLAIM.finding(
    "density.pythia", primary=FALLS, robustness=SLOPE, trial=INSIDE, views=Views(models=5)
)
def judge_pythia(evidence: Evidence) -> Result:
    """Does the gain fall with ρ inside the family on which the rule was made?"""
    rows = select_family(evidence, True)
    return judge_association(rows, RANKS).adding(
        audit=audit.check_family_density(evidence, rows, seed=SEED)
    )


@CLAIM.finding("density.others", primary=FALLS, robustness=SLOPE, trial=OUTSIDE, views=VIEWS)
def judge_others(evidence: Evidence) -> Result:
    """Does the gain fall with ρ outside the Pythia family?"""
    return judge_association(select_family(evidence, False), BOXED)


WITHIN_OR_NOT = correlate_ranks("outcome", groups="within", box=BOX)
"""Rank correlation of ρ and the gain in a universe, with levels of labs removed or not."""
CLAIM.curve(
    "density.others",
    rows=curves.select_mean_rows,
    choices=curves.DENSITY,
    estimate=build_correlation("rho", method="spearman", groups="within"),
    null=permute_between_and_within_labs(lab="lab"),
    above=False,
    test=WITHIN_OR_NOT,
)


def select_pair(evidence: Evidence) -> pd.DataFrame:
    """Gains of the two models by prompt, from the file with most prompts."""
    rows = models(evidence)
    return expand_prompts(rows[rows["model_id"].isin(LEVELS)])


def average_prompts(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Mean gains of the two models with t intervals, and how far apart they are."""
    names = rows["model_id"].to_numpy()
    dense, sparse = (
        estimate_means(outcomes["gain"][:, names == model], least=FEWEST) for model in LEVELS
    )
    return {
        "difference": wrap_counts(dense.estimate - sparse.estimate),
        DENSE: dense,
        SPARSE: sparse,
    }


def describe_pair(_: pd.DataFrame, result: Result) -> Result:
    """Two models of one lab."""
    return replace(result, n_models=2, n_groups=1)


BY_PROMPTS = Test(average_prompts, ("gain",), describe=describe_pair)
AT_1 = dict.fromkeys(LEVELS, 1.0)


def name_pair(levels: Mapping[str, float]) -> Result:
    """Mean gains of the two models over endless prompts."""
    dense, sparse = levels.values()
    return Result(quantities={DENSE: Estimate(dense), SPARSE: Estimate(sparse)})


BY_LEVELS = build_level_worlds(
    "gain", LEVELS, AT_1, PROMPTS, ALIKE, large=name_pair, measured=f"{GAIN}_prompts"
)
PAIR = Trial(select_pair, BY_PROMPTS, "", BY_LEVELS, "prompt")


@CLAIM.finding(
    "pair", primary=Below(DENSE, 1) & Above(SPARSE, 1), trial=PAIR, views=Views(models=2)
)
def judge_pair(evidence: Evidence) -> Result:
    """The two models that the study names."""
    rows = models(evidence).set_index("model_id")
    words = {"dense": rows.loc[audit.DENSE], "sparse": rows.loc[audit.SPARSE]}
    return BY_PROMPTS(select_pair(evidence)).adding(
        audit=audit.check_pair_density(evidence), words=words
    )


if __name__ == "__main__":
    CLAIM.main()

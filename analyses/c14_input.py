"""C14: the signature is robust to the input, over 25 prompts per model."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import Audit, Claim, Estimate, Evidence, Result, Test, Trial, Views
from thermostats.claims.common_tests import count_share
from thermostats.claims.evidence import EXTERNAL, MEASURED, POOLED, PUBLISHED
from thermostats.claims.rule import ACCIDENTS, NEVER, Above, Always, AtLeast, Decide, V
from thermostats.claims.worlds import build_part_worlds, build_share_worlds, name_size
from thermostats.errors import UsageError
from thermostats.modelling.classical.association import bootstrap_bca
from thermostats.modelling.classical.many import (
    Many,
    bootstrap_means,
    take_group_means,
    wrap_counts,
)
from thermostats.modelling.classical.mixed import (
    VarianceComponents,
    estimate_row_shares,
    estimate_variance_components,
    read_crossed_table,
)
from thermostats.plots.general import prepare_drawing, strip_by_group
from thermostats.studies.delia2026 import prompt_gains as by_prompt
from thermostats.studies.delia2026 import stated_audits as audit
from thermostats.studies.delia2026.prompt_gains import BENCHMARK, LAST_GAIN_FILES
from thermostats.studies.delia2026.published_gains import PYTHIA
from thermostats.tables.model_rows import read_prompt_gains
from thermostats.tables.schemas import NURSERY

SEED = 14
ROBUST = 0.90
HALF = 0.5
NEARLY_ALL, MOSTLY = 0.97, 0.8
"""Declared sizes: mean share of prompts on the model's own side, and models' share of the
variance."""
LEVEL = 0.95
"""Of the interval of that share."""
FIGURE_7 = {"gain": "penultimate gain", "whose": "penultimate gain, Pythia family"}
BY_MODEL = {"gain": "last gain", "whose": "last gain, all models measured by prompt"}
OF_MEASURED = dict.fromkeys(("gain", "whose"), "last gain, models measured here")
"""The gain, which is that of every set of evidence, and with it the models of the published
rows."""
BY_PROMPT = "gain by prompt; tick: mean of the model"
FEWEST = AtLeast(models=4)
"""Models measured here from which they have verdicts of their own."""
NONE = 0.25
"""Share of models with prompts on both sides at which "every" is none, as for the bound of C02."""
CROSSES = "models with prompts on both sides"
CROSSING = "share of models with prompts on both sides"
ANY = Always(CROSSES, V(CROSSING).upper < NONE)
"""A model is against it with two prompts or more on the other side than most: one alone may be an
accident."""
SHARE = "mean share of prompts on the model's own side"
BETWEEN = "models' share of the variance"
CLAIM = Claim.read(__file__)


def add_log_gain(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by prompt with the log of the gain."""
    return rows.assign(log_gain=np.log(rows["value"]))


@CLAIM.shared
def load_published(evidence: Evidence) -> pd.DataFrame:
    """Last gains by prompt of the published files, one run a model, with categories."""
    return add_log_gain(
        by_prompt.select_single_runs(
            by_prompt.load_prompt_gains(evidence, "last_gain", *LAST_GAIN_FILES)
        )
    )


def select_family(evidence: Evidence) -> pd.DataFrame:
    """Penultimate gains by prompt of the Pythia family; of other sets of evidence those of every
    model."""
    if evidence.name == PUBLISHED:
        return add_log_gain(read_prompt_gains(evidence, "penultimate_gain", PYTHIA))
    return add_log_gain(by_prompt.load_prompt_gains(evidence, "penultimate_gain"))


def load_measured(evidence: Evidence) -> pd.DataFrame:
    """Last gain by prompt of models measured here."""
    return add_log_gain(FEWEST.check_rows(by_prompt.load_measured_gains(evidence, "last_gain")))


def find_model_share(side: float) -> float:
    """Models' share of the variance at which so many prompts lie on their model's side, levels
    being normal about 1."""
    return float(np.sin(np.pi * (side - HALF)) ** 2)


def estimate_sides(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Mean over models of the share of prompts whose gain is on the side of 1 where the model's
    mean is."""
    gains = np.exp(outcomes["log_gain"])
    models = pd.factorize(rows["model_id"])[0]
    agrees = (gains < 1) == (take_group_means(gains, rows["model_id"]) < 1)[:, models]
    return {SHARE: bootstrap_means(take_group_means(agrees, rows["model_id"]), SEED)}


def describe_sides(rows: pd.DataFrame, result: Result) -> Result:
    """With the shares model by model, which prompts agree, and an interval by more resamples than
    many studies can have."""
    rows = rows.assign(value=np.exp(rows["log_gain"]))
    mean = rows.groupby("model_id")["value"].transform("mean")
    agree = rows.assign(agrees=(rows["value"] < 1) == (mean < 1))
    table = agree.groupby(["model_id", "heritage"], as_index=False).agg(
        prompts=("value", "size"),
        mean_gain=("value", "mean"),
        smallest=("value", "min"),
        largest=("value", "max"),
        share_on_own_side=("agrees", "mean"),
    )
    table = table.sort_values("share_on_own_side", ignore_index=True)
    shares = table["share_on_own_side"].to_numpy(np.float64)
    estimate = result.headline
    kind = "no interval: every model alike"
    if np.ptp(shares) > 0:
        lower, upper, kind = bootstrap_bca(shares, np.mean, level=LEVEL, seed=SEED)
        estimate = replace(estimate, lower=lower, upper=upper)
    named = replace(estimate, interval=f"{kind}, over models, {100 * LEVEL:.0f}%")
    return replace(
        result,
        quantities={SHARE: named},
        n_models=len(table),
        rows={"prompts": agree},
        table=table,
        words={"least": table.iloc[0], "shares": shares},
    )


OWN_SIDES = Test(estimate_sides, ("log_gain",), describe=describe_sides)


def count_sides(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per model: `above` and `below`, its prompts on either side of 1, and whether both are
    two or more."""
    by = rows.assign(above=rows["log_gain"] > 0, below=rows["log_gain"] <= 0).groupby(
        ["model_id", "heritage"]
    )
    table = by[["above", "below"]].sum().reset_index()
    return table.assign(crosses=table[["above", "below"]].min(axis=1) > ACCIDENTS)


CROSSED = count_share(CROSSING, "crosses", true=CROSSES)
"""How many models have prompts on both sides of 1."""


def judge_own_side(
    rows: pd.DataFrame, which: Mapping[str, str], audit: Audit | None = None
) -> Result:
    """`OWN_SIDES` with its figure."""
    found = OWN_SIDES(rows)
    always = int((found.words["shares"] == 1).sum())
    return found.adding(
        draw=prepare_drawing(
            strip_by_group, rows, value="value", group="model_id", xlabel=BY_PROMPT
        ),
        audit=audit or Audit(),
        words={**which, "always": always, "robust": ROBUST},
    )


def decompose_variance(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """How much of the variance of log gain lies between models.

    Raises UsageError where a model of several studies lacks a prompt; of one study the share is
    then by REML, without interval.
    """
    cells = read_crossed_table(rows, "log_gain", "model_id", "prompt_id")
    places = cells.assign(place=np.arange(len(cells))).pivot(
        index="row", columns="column", values="place"
    )
    gains = outcomes["log_gain"]
    if not places.isna().any(axis=None):
        return {BETWEEN: estimate_row_shares(gains[:, places.to_numpy(np.int64)], seed=SEED)}
    if len(gains) > 1:
        raise UsageError("models of different prompts")
    return {BETWEEN: wrap_counts(np.array([estimate_parts(rows).shares["model_id"]]))}


def estimate_parts(rows: pd.DataFrame) -> VarianceComponents:
    """Variances between models, between prompts, and in their interplay."""
    return estimate_variance_components(rows, "log_gain", "model_id", "prompt_id", seed=SEED)


def describe_parts(rows: pd.DataFrame, result: Result) -> Result:
    """With all parts and their intervals."""
    found = estimate_parts(rows)
    named = {
        "share_of_variance": found.shares,
        "lower": found.shares_lower,
        "upper": found.shares_upper,
        "sd_of_log_gain": found.sd,
    }
    columns = {name: list(values.values()) for name, values in named.items()}
    return replace(
        result.name_intervals({BETWEEN: f"{found.interval}, 95%"}),
        n_models=found.n_rows,
        table=pd.DataFrame({"component": ["model", "prompt", "residual"], **columns}),
        words={"shares": found.shares},
    )


PARTED = Test(decompose_variance, ("log_gain",), describe=describe_parts)


def judge_variance_parts(rows: pd.DataFrame, which: Mapping[str, str]) -> Result:
    """`PARTED` with what the sentences name."""
    return PARTED(rows).adding(words=which)


SIDES = partial(
    build_part_worlds, "log_gain", find_model_share(NEARLY_ALL), find_model_share(ROBUST)
)
LAST, PENULTIMATE = "last_gain", "penultimate_gain"
PARTS = build_part_worlds("log_gain", MOSTLY, HALF, partial(name_size, BETWEEN), measured=LAST)
EVERY = build_share_worlds("crosses", 0.0, NONE)
AVERAGED = ("model", "prompt")
OF_SIDES = partial(Trial, test=OWN_SIDES, worlds=SIDES(measured=LAST), averaged=AVERAGED)
OF_PARTS = partial(Trial, test=PARTED, worlds=PARTS)
FAMILY = OF_SIDES(select_family, unit="model_id", worlds=SIDES(measured=PENULTIMATE))
SIDED = OF_SIDES(load_published)
SIDED_HERE = OF_SIDES(load_measured)
SHARED = OF_PARTS(load_published)
SHARED_HERE = OF_PARTS(load_measured)
VIEWS, OTHERS = Views(models=4), Views(models=4, sets=(EXTERNAL, POOLED, NURSERY))
"""What was measured here has findings of its own on last gains."""
HERE: dict[str, Any] = {"evidence": MEASURED, "needs": FEWEST}


def judge_crossing(rows: pd.DataFrame, which: Mapping[str, str]) -> Result:
    """Models with prompts on both sides of 1, with a figure."""
    models = count_sides(rows)
    crossing = list(models.loc[models["crosses"], "model_id"])
    return CROSSED(models).adding(
        table=models,
        draw=prepare_drawing(
            strip_by_group, rows, value="value", group="model_id", xlabel=BY_PROMPT
        ),
        words={**which, "crossing": crossing},
    )


OF_EVERY = partial(Trial, test=CROSSED, unit="", worlds=EVERY)
OF_FAMILY = OF_EVERY(lambda evidence: count_sides(select_family(evidence)))
OF_LAST = OF_EVERY(lambda evidence: count_sides(load_published(evidence)))


@CLAIM.finding("every_prompt.penultimate_gain", primary=ANY, trial=OF_FAMILY, views=VIEWS)
def judge_pythia_prompts(evidence: Evidence) -> Result:
    """Is the side the same over all prompts, for the Pythia family of figure 7?"""
    return judge_crossing(select_family(evidence), FIGURE_7)


@CLAIM.finding("every_prompt.last_gain", primary=ANY, trial=OF_LAST, views=OTHERS)
def judge_last_gain_prompts(evidence: Evidence) -> Result:
    """Is the side the same over all prompts, for every model whose last gain was published by
    prompt?"""
    return judge_crossing(load_published(evidence), BY_MODEL)


@CLAIM.finding("own_side.penultimate_gain", primary=Above(SHARE, ROBUST), trial=FAMILY, views=VIEWS)
def judge_pythia(evidence: Evidence) -> Result:
    """Is it in the Pythia family of figure 7?"""
    rows = select_family(evidence)
    return judge_own_side(rows, FIGURE_7, audit.check_figure_7(evidence, rows))


@CLAIM.finding("own_side.last_gain", primary=Above(SHARE, ROBUST), trial=SIDED, views=OTHERS)
def judge_last_gains(evidence: Evidence) -> Result:
    """Is the gain of most prompts on the model's own side, in every model whose last gain was
    published by prompt?"""
    figures = audit.check_benchmark(evidence, read_prompt_gains(evidence, "last_gain", BENCHMARK))
    return judge_own_side(load_published(evidence), BY_MODEL, figures)


@CLAIM.finding("variance", primary=Above(BETWEEN, HALF), trial=SHARED, views=OTHERS)
def judge_variance(evidence: Evidence) -> Result:
    """Parts of the variance of the same gains."""
    return judge_variance_parts(load_published(evidence), BY_MODEL)


@CLAIM.finding(
    "entropy", primary=Decide(NEVER, NEVER)
)  # no Trial: the rule has no side to be wrong on
def judge_entropy(evidence: Evidence) -> Result:
    """The study's own test of one model's input: gain with the final norm against entropy over few
    prompts."""
    table = audit.load_single_model(evidence)
    r = stats.pearsonr(table["value"], table["entropy"])
    ends = r.confidence_interval()
    kind = "Fisher-z confidence interval, 95%, unit: the prompt"
    return Result(
        quantities={
            "correlation": Estimate(float(r.statistic), float(ends.low), float(ends.high), kind)
        },
        n_models=1,
        n_groups=1,
        table=table,
        audit=audit.check_entropy(evidence, table),
        words={"rows": table},
    )


@CLAIM.finding("own_side.measured", primary=Above(SHARE, ROBUST), trial=SIDED_HERE, **HERE)
def judge_measured(evidence: Evidence) -> Result:
    """Models measured here."""
    return judge_own_side(load_measured(evidence), OF_MEASURED)


@CLAIM.finding("variance.measured", primary=Above(BETWEEN, HALF), trial=SHARED_HERE, **HERE)
def judge_variance_measured(evidence: Evidence) -> Result:
    """Parts of the variance over models measured here."""
    return judge_variance_parts(load_measured(evidence), OF_MEASURED)


if __name__ == "__main__":
    CLAIM.main()

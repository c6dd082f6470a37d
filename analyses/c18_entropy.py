"""C18: entropy moves with gain; clichés have lower entropy than novel prompts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim, Estimate, Evidence, Finding, Result, Test, Trial, Views
from thermostats.claims.evidence import EXTERNAL, MEASURED, POOLED
from thermostats.claims.noise import ALIKE
from thermostats.claims.rule import AtLeast, Below, Decide, V
from thermostats.claims.worlds import build_slope_worlds
from thermostats.modelling.classical.association import (
    correlate_each_model,
    estimate_welch_difference,
    estimate_within_correlation,
)
from thermostats.modelling.classical.many import (
    estimate_welch_differences,
    estimate_within_correlations,
)
from thermostats.plots.general import draw_forest, prepare_drawing, strip_by_group
from thermostats.studies.delia2026 import entropies
from thermostats.studies.delia2026 import prompt_gains as by_prompt
from thermostats.studies.delia2026.anomalies import check_derived
from thermostats.studies.delia2026.prompt_gains import BENCHMARK, GPT2, LAST_GAIN_FILES
from thermostats.tables.schemas import NURSERY

SEED, RESAMPLES, FEWER, FEWEST = 18, 4999, 999, 299
"""Resamples of the finding, of its companion, and in simulated worlds."""
ALPHA = 0.05
NEGLIGIBLE = 0.1
MOVES, APART = 0.3, -0.5
"""Declared sizes (null: 0): a correlation inside models, and that of being a cliché with entropy,
as the file's d."""
RHO = V("mean correlation")
APART_BY = V("difference of mean entropies")
POSITIVE = Decide((RHO.lower > 0) & (RHO.p < ALPHA), RHO.upper < NEGLIGIBLE)
ENOUGH = AtLeast(models=4)
OTHERS = Views(models=4, sets=(EXTERNAL, POOLED, NURSERY))
"""What was measured here has a finding of its own."""
CLAIM = Claim.read(__file__)


@CLAIM.shared
def load_rows(evidence: Evidence) -> pd.DataFrame:
    """Last gain and entropy by model and prompt of the published files, every run."""
    gains = by_prompt.load_prompt_gains(evidence, "last_gain", *LAST_GAIN_FILES)
    return entropies.add_entropy(evidence, gains)


def find_highest_category(every: pd.DataFrame) -> str:
    """The category of prompts of the highest mean entropy."""
    return str(every.groupby("category")["entropy"].mean().idxmax())


def select_single_runs(evidence: Evidence) -> pd.DataFrame:
    """One run a model of the published files."""
    every = by_prompt.select_single_runs(load_rows(evidence))
    return every.assign(log_gain=np.log(every["value"]))


def select_bases(evidence: Evidence) -> pd.DataFrame:
    """Base models, one run each."""
    return by_prompt.drop_tuned(evidence, select_single_runs(evidence))


def select_benchmark(evidence: Evidence) -> pd.DataFrame:
    """The four models of the benchmark."""
    every = load_rows(evidence)
    own = every[every["source"] == BENCHMARK]
    return own.assign(log_gain=np.log(own["value"]))


def select_sensible(evidence: Evidence) -> pd.DataFrame:
    """Base models without the category of the highest entropy."""
    own = select_bases(evidence)
    return (
        own[own["category"] != find_highest_category(select_single_runs(evidence))]
        if len(own)
        else own
    )


def select_measured(evidence: Evidence) -> pd.DataFrame:
    """Base models measured here, on the prompts that most of them have."""
    gains = by_prompt.load_measured_gains(evidence, "last_gain")
    every = entropies.add_entropy(evidence, gains, by_prompt.MEASURED)
    own = ENOUGH.check_rows(by_prompt.drop_tuned(evidence, every))
    return own.assign(log_gain=np.log(own["value"]))


def estimate_correlation(
    rows: pd.DataFrame, outcomes: Mapping[str, Any], resamples: int = FEWEST
) -> dict[str, Any]:
    """Mean Spearman correlation over prompts inside models, of prompts that all models have."""
    place = (
        by_prompt.build_prompt_matrix(rows.assign(place=np.arange(len(rows))), "place")
        .dropna()
        .to_numpy(np.int64)
    )
    x = rows["entropy"].to_numpy(np.float64)[place]
    gains = outcomes["log_gain"][:, place]
    return {RHO.name: estimate_within_correlations(x, gains, seed=SEED, resamples=resamples)}


def describe_correlation(rows: pd.DataFrame, result: Result) -> Result:
    """With the correlation of every model."""
    x = by_prompt.build_prompt_matrix(rows, "entropy").dropna()
    y = by_prompt.build_prompt_matrix(rows, "log_gain").dropna()
    words = {"n": len(x), "by_model": correlate_each_model(x, y)}
    return result.adding(n_models=x.shape[1], words=words)


OVER_BOTH = "percentile bootstrap over prompts and models, 95%"
INSIDE = Test(estimate_correlation, ("log_gain",), OVER_BOTH, "p-value", describe_correlation)
"""As worlds ask it."""
CORRELATED = replace(INSIDE, finely={"resamples": RESAMPLES})


def judge_correlation(rows: pd.DataFrame, whose: str) -> Result:
    """`CORRELATED` by model, and by Pearson."""
    result = CORRELATED(rows)
    x = by_prompt.build_prompt_matrix(rows, "entropy").dropna()
    y = by_prompt.build_prompt_matrix(rows).dropna()
    linear = estimate_within_correlation(x, y, method="pearson", seed=SEED, resamples=FEWER)
    table = result.words["by_model"].rename_axis("model_id").reset_index()
    labs = rows.drop_duplicates("model_id").set_index("model_id")["heritage"]
    table.insert(1, "heritage", table["model_id"].map(labs))
    table = table.sort_values("estimate", ascending=False, ignore_index=True)
    xlabel = "Spearman correlation over prompts"
    draw = prepare_drawing(draw_forest, table, label="model_id", heritage="heritage", xlabel=xlabel)
    positive = int((table["estimate"] > 0).sum())
    words = {"whose": whose, "positive": positive, "table": table, "linear": Estimate.build(linear)}
    return result.adding(table=table, draw=draw, words=words)


SLOPES = build_slope_worlds("log_gain", "entropy", MOVES, measured="last_gain_prompts")
BASES, FOUR, SENSIBLE, HERE = (
    Trial(own, INSIDE, worlds=SLOPES, version=2, averaged=("model", "prompt"))
    for own in (select_bases, select_benchmark, select_sensible, select_measured)
)


@CLAIM.overall(all_of=("entropy.base", "cliches"))
def judge_whole(evidence: Evidence, found: Mapping[str, Finding]) -> Result:
    """Entropy and clichés, the two parts of the claim, together."""
    parts = {name: found[name] for name in ("entropy.base", "cliches", "entropy.without_nonsense")}
    own = select_bases(evidence)
    counts = {"n_models": own["model_id"].nunique(), "n_groups": own["heritage"].nunique()}
    words = {"parts": parts, "category": find_highest_category(load_rows(evidence))}
    return Result(table=parts["cliches"].table, words=words, **counts)


@CLAIM.finding("entropy.base", primary=POSITIVE, trial=BASES, views=OTHERS)
def judge_bases(evidence: Evidence) -> Result:
    """Base models, one run each."""
    own = select_bases(evidence)
    return judge_correlation(own, "base models").adding(
        audit=entropies.check_correlation(evidence, load_rows(evidence)),
        words={"files": {name: check_derived(evidence, name) for name in (BENCHMARK, GPT2)}},
    )


@CLAIM.finding("entropy.benchmark", primary=POSITIVE, trial=FOUR)
def judge_benchmark(evidence: Evidence) -> Result:
    """The four models of the benchmark."""
    return judge_correlation(select_benchmark(evidence), "the benchmark's models")


@CLAIM.finding("entropy.without_nonsense", primary=POSITIVE, trial=SENSIBLE, views=OTHERS)
def judge_sensible(evidence: Evidence) -> Result:
    """Base models without the category of the highest entropy."""
    return judge_correlation(
        select_sensible(evidence),
        f"base models, without the category {find_highest_category(select_single_runs(evidence))}",
    )


def select_kinds(evidence: Evidence) -> pd.DataFrame:
    """Entropy of clichés and novel prompts, each averaged over models."""
    prompts = (
        select_single_runs(evidence)
        .groupby(["prompt_id", "category"], as_index=False)["entropy"]
        .mean()
    )
    two = prompts[prompts["category"].isin(["Cliche", "Novel"])].reset_index(drop=True)
    return two.assign(
        cliche=(two["category"] == "Cliche").astype(float),
        model_id="every model",
        heritage="prompts",
    )


def estimate_difference(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Difference of the mean entropies."""
    cliche = rows["cliche"].to_numpy() == 1
    return {APART_BY.name: estimate_welch_differences(outcomes["entropy"], cliche)}


def describe_difference(two: pd.DataFrame, result: Result) -> Result:
    """With a p by permutation, and how many prompts there are of either kind."""
    cliche, novel = (two.loc[two["cliche"] == kind, "entropy"] for kind in (1.0, 0.0))
    found = estimate_welch_difference(cliche, novel, log=False, seed=SEED)
    interval = f"{found.interval} over prompts, 95%"
    difference = replace(result.headline, interval=interval, p=found.p_permutation)
    return replace(
        result,
        quantities={APART_BY.name: difference},
        words={"cliche": len(cliche), "novel": len(novel), "prompts": len(two)},
    )


DIFFERENCE = Test(estimate_difference, ("entropy",), describe=describe_difference)
BY_KIND = build_slope_worlds("entropy", "cliche", APART, ALIKE)
KINDS = Trial(select_kinds, DIFFERENCE, "prompt_id", BY_KIND, "prompt")


@CLAIM.finding("cliches", primary=Below(APART_BY.name, 0), trial=KINDS)
def judge_cliches(evidence: Evidence) -> Result:
    """Mean entropy of clichés against novel prompts, each prompt averaged over models."""
    every = select_single_runs(evidence)
    two = select_kinds(evidence)
    prompts = every.groupby(["prompt_id", "category"], as_index=False)["entropy"].mean()
    every_prompt = prompts.assign(heritage="prompts")
    xlabel = "entropy in nats, one point per prompt, mean over models; tick: mean"
    return DIFFERENCE(two).adding(
        n_models=every["model_id"].nunique(),
        n_groups=every["heritage"].nunique(),
        table=prompts.sort_values(["category", "prompt_id"], ignore_index=True),
        draw=prepare_drawing(
            strip_by_group,
            every_prompt,
            value="entropy",
            group="category",
            null=None,
            xlabel=xlabel,
        ),
        audit=entropies.check_cliches(evidence, load_rows(evidence)),
    )


@CLAIM.finding("entropy.measured", primary=POSITIVE, evidence=MEASURED, needs=ENOUGH, trial=HERE)
def judge_measured(evidence: Evidence) -> Result:
    """Base models measured here, on the prompts that most of them have."""
    own = select_measured(evidence)
    return judge_correlation(own, "models measured here")


if __name__ == "__main__":
    CLAIM.main()

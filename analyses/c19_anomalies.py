"""C19: the anomalies are explained."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import (
    PUBLISHED,
    Claim,
    Estimate,
    Evidence,
    Finding,
    Result,
    Test,
    Trial,
    Views,
)
from thermostats.claims.finding import FittedModel
from thermostats.claims.result import AGAINST, OF_LAW, SUPPORTED
from thermostats.claims.rule import AtLeast, Below, Decide, Each, EveryRow, V, Within
from thermostats.claims.worlds import build_level_worlds, build_line_worlds
from thermostats.modelling.classical.interval_laws import StudentLaw
from thermostats.modelling.classical.many import (
    Many,
    estimate_means,
    list_orders,
    take_group_means,
    transform_logs,
    wrap_counts,
)
from thermostats.modelling.columns import Array
from thermostats.plots.general import (
    draw_forest,
    draw_reference,
    draw_scatter,
    log_axis,
    prepare_drawing,
    strip_by_group,
)
from thermostats.studies.delia2026 import anomalies
from thermostats.studies.delia2026.anomalies import LLAMA, LLAMA_FILE, MISTRAL, OPT
from thermostats.studies.delia2026.curves import trace_by_norm
from thermostats.studies.delia2026.prompt_gains import BENCHMARK, GPT2, GPTJ, load_prompt_gains
from thermostats.studies.nursery.study_rows import load_trained_unembeddings
from thermostats.tables.schemas import NURSERY

SEED = 19
ALPHA = 0.05
TWOFOLD = 2.0
MARGIN = 1.1
"""Changes of the norm by less than this factor count as none."""
SMALL, CLEAR = 0.8, -0.7
"""Declared sizes: a last gain where one dampens (null: 1), and a correlation that halves the
variance (null: 0)."""
FAMILIES = {GPT2: "gpt2", GPTJ: "gpt-j"}
VIEW = Views(models=1)
LEAST_CATEGORIES = 3
"""Categories of prompts of which a mean has an interval."""
BY_MODEL = ["model_id", "heritage"]
PARTS_OF = ("estimate", "lower", "upper", "p")
LEAST, MOST_EXACT = 4, 8
"""Models that a correlation takes, and up to which p is exact over all permutations."""
ENOUGH = AtLeast(models=24)
PARTS = ("opt", "unembedding", "llama")
APART = ("layer_norm", "parallel_block", "silent_exit", "unembedding_trained")
SHOWN = ("estimand", "verdict", "estimate", "lower", "upper")
NEGATIVE = Decide(
    (V("models") >= LEAST) & (V("r") < 0) & (V("r").p < ALPHA),
    (V("models") >= LEAST) & (V("r").lower > 0),
)

CLAIM = Claim.read(__file__)


@CLAIM.shared
def load_model_gains(evidence: Evidence) -> pd.DataFrame:
    """Last gains by prompt of the models that the explanations are about."""
    return load_prompt_gains(evidence, "last_gain", BENCHMARK, GPT2, GPTJ)


def select_gains(evidence: Evidence, column: str, value: str) -> pd.DataFrame:
    """Gains by prompt of one model, or of one file; of other sets of evidence of the family that
    the file is about."""
    rows = load_model_gains(evidence)
    if column == "source" and evidence.name != PUBLISHED:
        column = "family"
        value = FAMILIES[value]
    return (
        rows[rows[column] == value]
        .assign(log_gain=lambda own: np.log(own["value"]))
        .reset_index(drop=True)
    )


@CLAIM.overall(all_of=PARTS)
def judge_whole(evidence: Evidence, found: Mapping[str, Finding]) -> Result:
    """The three explanations that the study keeps and its files allow to test."""
    asked = load_model_gains(evidence.named(PUBLISHED))
    asked = asked[~asked["model_id"].isin(anomalies.NOT_ASKED)]
    verdicts = {name: found[name].verdict for name in PARTS}
    table = pd.DataFrame(
        [{name: found[part].columns()[name] for name in SHOWN} for part in (*PARTS, *APART)]
    )
    fits = [found[part].posterior for part in (*PARTS, *APART)]
    table["statement"] = [
        fit.conclusion.statement if isinstance(fit, FittedModel) else "" for fit in fits
    ]
    table["probability"] = [
        fit.conclusion.probability if isinstance(fit, FittedModel) else None for fit in fits
    ]
    stand, fall = (list(verdicts.values()).count(verdict) for verdict in (SUPPORTED, AGAINST))
    xlabel = "last gain, one point per prompt; tick: mean"
    draw = prepare_drawing(strip_by_group, asked, value="value", group="model_id", xlabel=xlabel)
    words = {
        "parts": len(PARTS),
        "stand": stand,
        "fall": fall,
        "named": verdicts,
        "llama": found["llama"],
    }
    return Result(table=table, words=words, draw=draw)


# no Trial: ratios of single numbers, one for each model, in which there is no chance
WEAK = Each("others", V("raw_factor") > TWOFOLD) & Each("others", V("divided_factor") <= TWOFOLD)


@CLAIM.finding("opt", primary=Decide(WEAK, Each("others", V("divided_factor") > TWOFOLD)))
def judge_opt(evidence: Evidence) -> Result:
    """Does the norm of W_V account for OPT's small trace?"""
    table = anomalies.collect_traces_and_norms(evidence)
    sound = ~table["sliced"]
    others = table[sound].drop(index=OPT)
    most = others.loc[others["raw_ratio"].idxmax()]

    return Result.build(
        table[sound],
        {"ratio": Estimate(float(most["divided_ratio"]))},
        rows={"others": others},
        table=table.reset_index(),
        draw=partial(trace_by_norm, table=table, at=OPT),
        audit=anomalies.check_opt(evidence),
        words={
            "most": most,
            "others": len(others),
            "models": len(table),
            "sliced": list(table.index[~sound]),
        },
    )


def estimate_correlation(table: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Correlation of the log gain with the log norm, its Fisher-z interval, and the one-sided p
    that it falls: exact over all orders of few models, else of Student's t."""
    n = len(table)
    x = scale_rows(table["log_norm"].to_numpy(np.float64)[None])[0]
    y = scale_rows(outcomes["log_gain"])
    r = np.clip(y @ x, -1.0, 1.0)
    if n <= MOST_EXACT:
        p = np.array(
            [
                (x[list_orders(n)] @ study <= at + 1e-12).mean()
                for study, at in zip(y, r, strict=True)
            ]
        )
    else:
        p = stats.t.cdf(r * np.sqrt((n - 2) / (1 - r**2)), n - 2)
    lower, upper = np.full_like(r, -1.0), np.ones_like(r)
    if n >= LEAST:
        half = stats.norm.ppf(0.975) / np.sqrt(n - 3)
        lower, upper = (np.tanh(np.arctanh(r) + side * half) for side in (-1, 1))
    law = StudentLaw(scale="atanh")
    return {"r": Many(r, lower, upper, p, law), "models": wrap_counts(np.full(len(r), n))}


def scale_rows(values: Array) -> Array:
    """Rows off their mean, of length 1."""
    centred = values - values.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.linalg.norm(centred, axis=1, keepdims=True))


def describe_correlation(table: pd.DataFrame, result: Result) -> Result:
    """With its models, and why there is no interval where they are too few."""
    few = {"r": "whole range: too few models"} if len(table) < LEAST else {}
    return result.name_intervals(few).adding(table=table)


CORRELATED = Test(
    estimate_correlation,
    ("log_gain",),
    "Fisher-z confidence interval, 95%",
    "one-sided p-value",
    describe_correlation,
)


def add_logs(table: pd.DataFrame) -> pd.DataFrame:
    """Published unembeddings with logs of their norm and of the gain that the file multiplies."""
    shown = table.reset_index()
    norm, gain = (np.log(shown[name].astype(float)) for name in ("spectral_norm", "gain_stated"))
    return shown.assign(log_norm=norm, log_gain=gain)


def load_published(evidence: Evidence) -> pd.DataFrame:
    """Models with a published unembedding."""
    return add_logs(anomalies.collect_unembeddings(evidence, load_model_gains(evidence)))


def load_trained(evidence: Evidence) -> pd.DataFrame:
    """Comparable models trained here."""
    return ENOUGH.check_rows(load_trained_unembeddings(evidence))


def build_trial(rows: Callable[[Evidence], pd.DataFrame], measured: str = "") -> Trial:
    """How a gain goes with the norm in some rows; of three models bounds are declared."""
    worlds = build_line_worlds("log_gain", "log_norm", CLEAR, measured=measured)
    return Trial(rows, CORRELATED, worlds=worlds)


@CLAIM.finding("unembedding", primary=NEGATIVE, trial=build_trial(load_published))
def judge_unembedding(evidence: Evidence) -> Result:
    """Do models with a small last gain have a large unembedding?"""
    table = anomalies.collect_unembeddings(evidence, load_model_gains(evidence))
    shown = add_logs(table)
    words = {
        "enough": len(table) >= LEAST,
        "follows": anomalies.check_derived(evidence, LLAMA_FILE),
        "lacking": list(table.index[table["last_gain_measured"].isna()]),
    }
    audit = anomalies.check_projector(evidence, table)
    return CORRELATED(shown).adding(table=table.reset_index(), audit=audit, words=words)


def estimate_mean_gains(own: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Geometric mean last gain of every model over its categories of prompts; the largest heads the
    finding, p is one-sided for one of 1 or more.

    Over prompts a level would be found falsely in more than 5% of studies in which a category's
    prompts are alike. Raises UsageError for fewer than three categories.
    """
    models = []
    for _, r in own.assign(place=np.arange(len(own))).groupby(BY_MODEL):
        logs = take_group_means(outcomes["log_gain"][:, r["place"]], r["category"])
        mean = estimate_means(logs, least=LEAST_CATEGORIES)
        p = np.where(mean.estimate < 0, mean.p / 2, 1 - mean.p / 2)
        models.append(replace(transform_logs(mean), p=p))
    worst = np.argmax([each.estimate for each in models], axis=0)
    at = {part: np.choose(worst, [getattr(each, part) for each in models]) for part in PARTS_OF}
    free = np.array([each.law.df for each in models if isinstance(each.law, StudentLaw)])
    largest = Many(**at, law=StudentLaw(free[worst], scale="log"))
    return {"last gain": largest, "models": [{"last gain": each} for each in models]}


def describe_mean_gains(own: pd.DataFrame, result: Result) -> Result:
    """With the models by their gain, the largest last."""
    known = own.groupby(BY_MODEL).size().rename("n").reset_index()
    ends = {f"last gain_{end}": end for end in ("lower", "upper")}
    shown = known.join(result.rows["models"].rename(columns=ends))
    shown = shown[[*BY_MODEL, "last gain", "lower", "upper", "p", "n", f"last gain{OF_LAW}"]]
    shown = shown.sort_values("last gain", ignore_index=True)
    table = shown.rename(columns={"last gain": "estimate"}).drop(columns="n")
    return replace(result, rows={"models": shown}, table=table, n_models=len(shown))


MEAN_GAINS = Test(
    estimate_mean_gains,
    ("log_gain",),
    "t interval of the mean log over categories of prompts, 95%",
    "one-sided p-value",
    describe_mean_gains,
)


def judge_mean_gains(own: pd.DataFrame) -> Result:
    """`MEAN_GAINS` with what the sentences name."""
    found = MEAN_GAINS(own)
    table = found.rows["models"]
    worst = table.iloc[-1]
    above = int((table["lower"] > 1).sum())
    words = {"n": worst["n"], "worst": worst["model_id"], "above": above}
    return found.adding(words=words)


of_llama, of_mistral = (
    partial(select_gains, column="model_id", value=model) for model in (LLAMA, MISTRAL)
)
LOG = float(np.log(MARGIN))


def name_level(level: float) -> Result:
    """The mean gain over endless prompts, the same of every model."""
    gain = float(np.exp(level))
    quantities = {"last gain": Estimate(gain)}
    return Result(quantities=quantities, rows={"models": pd.DataFrame({"last gain": [gain]})})


BY_PROMPT = "last_gain_prompts"
SMALLER = build_level_worlds(
    "log_gain", float(np.log(SMALL)), 0.0, large=name_level, measured=BY_PROMPT
)
UNCHANGED = build_level_worlds("log_gain", 0.0, LOG, others={"smaller": -LOG}, measured=BY_PROMPT)
SMALL_OF, UNCHANGED_OF = (
    partial(Trial, test=MEAN_GAINS, unit="category", worlds=worlds, larger="prompt")
    for worlds in (SMALLER, UNCHANGED)
)
ALL_DAMPEN = EveryRow(Below("last gain", 1), "models")


@CLAIM.finding("llama", primary=Below("last gain", 1), trial=SMALL_OF(of_llama), views=VIEW)
def judge_llama(evidence: Evidence) -> Result:
    """Does LLaMA's last block dampen at all?"""
    own = of_llama(evidence)
    audit, normed = anomalies.check_llama(evidence, float(np.exp(np.log(own["value"]).mean())))
    return judge_mean_gains(own).adding(table=None, audit=audit, words={"normed": normed})


def judge_dampening(evidence: Evidence, source: str) -> Result:
    """Do the models of one file dampen, as the explanation predicts?"""
    own = select_gains(evidence, "source", source)
    found = judge_mean_gains(own)
    xlabel = "last gain, geometric mean over prompts"
    draw = prepare_drawing(
        draw_forest, found.table, label="model_id", heritage="heritage", null=1.0, xlabel=xlabel
    )
    audit = anomalies.test_audit(evidence, own, source)
    follows = anomalies.check_derived(evidence, source)
    return found.adding(draw=draw, audit=audit, words={"follows": follows})


for explanation, file in (
    ("layer_norm", GPT2),
    ("parallel_block", GPTJ),
):  # both are rejected by the study itself
    trial = SMALL_OF(partial(select_gains, column="source", value=file))
    declare = CLAIM.finding(explanation, primary=ALL_DAMPEN, trial=trial, views=VIEW)
    declare(partial(judge_dampening, source=file))


@CLAIM.finding(
    "silent_exit",
    primary=Within("last gain", 1 / MARGIN, MARGIN),
    trial=UNCHANGED_OF(of_mistral),
    views=VIEW,
)
def judge_silent_exit(evidence: Evidence) -> Result:
    """Does Mistral's last block leave the norm of the stream as it is?"""
    found = judge_mean_gains(of_mistral(evidence))
    without_p = {"last gain": replace(found.headline, p=None)}
    return found.adding(quantities=without_p, table=None, words={"margin": MARGIN})


@CLAIM.finding(
    "unembedding_trained",
    primary=NEGATIVE,
    evidence=NURSERY,
    needs=ENOUGH,
    trial=build_trial(load_trained, "trained_last_gain"),
)
def judge_trained_unembedding(evidence: Evidence) -> Result:
    """Does the last gain fall with the norm of the unembedding in the models trained here, all of
    them measured?"""
    table = load_trained(evidence)
    tied = table["tied"].astype(str).eq("True")
    groups = {"tied to the embedding": table[tied], "of its own": table[~tied]}
    known = {
        name: own[["log_norm", "log_gain"]].corr().iloc[0, 1]
        for name, own in groups.items()
        if len(own) >= LEAST
    }

    def draw(axes: Axes) -> None:
        draw_reference(axes, 1.0)
        draw_scatter(table, axes, x="spectral_norm", y="last_gain", labels=False)
        axes.set(xlabel="spectral norm of the unembedding", ylabel="last gain")
        log_axis(axes, "x")
        log_axis(axes, "y")

    shown = table[["model_id", "heritage", "tied", "spectral_norm", "last_gain", "learned"]]
    words = {"by_tie": list(known.items())}
    return CORRELATED(table).adding(table=shown, draw=draw, words=words)


if __name__ == "__main__":
    CLAIM.main()

"""C14: the signature is robust to the input, over 25 prompts per model.

Claim: whether a model dampens or expands does not depend on the prompt.
Estimand: per model, the share of prompts whose gain lies on the model's own side of 1 (the side of its mean gain);
over models, the mean of these shares. Apart: the share of the variance of log gain that lies between models.
Rule: unit is the model. Supported where the 95 % interval of the mean share (BCa bootstrap over models) lies above
ROBUST, against where it lies below; otherwise inconclusive. Variance: supported where the interval of the models'
share lies above one half, against where below.
Beside the tests a posterior: of the share of prompts, prompts of one model alike, P(share > ROBUST); of the parts of
the variance, in a model of gains by models, prompts and categories, P(models' share > 1/2). Supported where it is at
least 0.95, not supported where it is at most 0.05. The verdict is what test and posterior both come to, and is
inconclusive where they differ or where a check of the fit fails. A coin that knows no model would agree with its own
majority in 58 % of 25 prompts on average, so a high share is the least to ask.
Source: figure 7; pythia_family, thermodynamic_benchmark, twin_test_results, gpt2_layernorm, gptj_parallel,
input_dependency.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import OPEN, SENTENCES, if_above
from thermostats.modelling.classical.mixed import variance_components
from thermostats.modelling.classical.resampling import bca
from thermostats.modelling.laws.ranking import fit_benchmark
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.plots.general import strip_by_group
from thermostats.studies.delia2026.by_prompt import (
    BENCHMARK,
    LAST_GAIN_FILES,
    gain_by_prompt,
    measured_here,
    one_run_each,
    with_category,
)
from thermostats.studies.delia2026.gains import PYTHIA
from thermostats.studies.delia2026.stated import stated, stated_by_model
from thermostats.words import number, range_text, short_name

INPUT = "input_dependency_thermodynamics.json"
SEED = 14
PROMPTS = {"prompts per model": "fig. 7"}
FIGURE_7 = {"mean of {}": r"/models/\d+/residual_gain_mean", "SD of {}": r"/models/\d+/residual_gain_std"}
RANGES = {
    "smallest of {}": r"/modulation_ranges/[^/]+/min",
    "largest of {}": r"/modulation_ranges/[^/]+/max",
    "range of {}": r"/modulation_ranges/[^/]+/range",
}
COMPLEXITY = {
    "complexity and gain of {}, Spearman": r"/complexity_correlations/\d+/Complexity_Spearman_r",
    "complexity and gain of {}, p": r"/complexity_correlations/\d+/Complexity_Spearman_p",
}
CORRELATION = {
    "Pearson r": "pearson_r",
    "Pearson p": "pearson_p",
    "Spearman ρ": "spearman_r",
    "Spearman p": "spearman_p",
}
NESTED = (
    "A tuned model is nested in the base that it was tuned from, and models of one family in the family, so models are "
    "not independent: intervals over models are too narrow."
)
ROBUST = 0.90
FEWEST = 4
"""Models measured here from which they have findings of their own."""

CLAIM = Claim(
    id="C14",
    title="The signature is robust to the input",
    said="Whether a model dampens or expands shows over 25 prompts per model alike.",
    estimand="mean over models of the share of prompts on the model's own side of gain 1",
    rule=f"Supported where the 95 % interval over models of the mean share lies above {ROBUST:g}, against where "
    "below. Variance of log gain: supported where the models' share lies above one half, against where below. Unit: "
    "the model. Beside both the posterior probability of the same; the verdict is what both come to.",
    source="Figure 7; pythia_family and the files of last gains by prompt; input_dependency",
    rows="study and measured",
)


def analyse(tables: Evidence) -> list[Finding]:
    """Agreement in the Pythia family (figure 7) and for last gains, variance, and the file on one model's input."""
    pythia = gain_by_prompt(tables, "penultimate_gain", PYTHIA)
    last = one_run_each(gain_by_prompt(tables, "last_gain", *LAST_GAIN_FILES), LAST_GAIN_FILES)
    last = with_category(tables, last)
    by_file = gain_by_prompt(tables, "last_gain", BENCHMARK)
    mine, here = measured_here(tables, "last_gain"), "last gain, models measured here"
    enough = mine["model_id"].nunique() >= FEWEST
    of_family, of_all = "penultimate gain, Pythia family", "last gain, all models measured by prompt"
    family = with_share(agreement(pythia, of_family), pythia, of_family)
    every = with_share(agreement(last, of_all), last, of_all)
    return [
        replace(
            family,
            published=stated(tables, PROMPTS) | stated_by_model(tables, PYTHIA, FIGURE_7),
            reproduced=figure_7(pythia),
            notes=(*family.notes, "The eight sizes are one family of one lab, and not independent models."),
        ),
        replace(
            every,
            published=stated_by_model(tables, BENCHMARK, RANGES | COMPLEXITY),
            reproduced=ranges(by_file) | complexity(by_file, tables),
            notes=(*every.notes, NESTED),
        ),
        with_parts(variance(last, of_all), last),
        one_model(tables),
        *((with_share(agreement(mine, here), mine, here), with_parts(variance(mine, here), mine)) if enough else ()),
    ]


def sides(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with `agrees`: whether a prompt's gain lies on the side of 1 where its model's mean lies."""
    mean = rows.groupby("model_id")["value"].transform("mean")
    return rows.assign(agrees=(rows["value"] < 1) == (mean < 1))


def by_model(rows: pd.DataFrame) -> pd.DataFrame:
    """Per model: mean gain, and the share of prompts on its side of 1."""
    grouped = sides(rows).groupby(["model_id", "heritage"], as_index=False)
    return grouped.agg(
        prompts=("value", "size"),
        mean_gain=("value", "mean"),
        smallest=("value", "min"),
        largest=("value", "max"),
        share_on_own_side=("agrees", "mean"),
    )


def figure_7(rows: pd.DataFrame) -> dict[str, float]:
    """Prompts per model, means and standard deviations (divisor n, as in the file), by the names of `FIGURE_7`."""
    figures = {"prompts per model": float(rows.groupby("model_id").size().max())}
    for model, gain in rows.groupby("model_id")["value"]:
        name = short_name(str(model))
        figures |= {f"mean of {name}": float(gain.mean()), f"SD of {name}": float(gain.std(ddof=0))}
    return figures


def ranges(rows: pd.DataFrame) -> dict[str, float]:
    """Smallest and largest gain over prompts of every model and their difference, by the names of `RANGES`."""
    figures: dict[str, float] = {}
    for model, gain in rows.groupby("model_id")["value"]:
        values = (gain.min(), gain.max(), gain.max() - gain.min())
        names = (name.format(short_name(str(model))) for name in RANGES)
        figures |= {name: float(value) for name, value in zip(names, values, strict=True)}
    return figures


def complexity(rows: pd.DataFrame, tables: Evidence) -> dict[str, float]:
    """Spearman correlation over prompts of complexity and gain, by the names of `COMPLEXITY`."""
    prompts = tables.table("prompts", prompt_set=sorted(set(rows["prompt_set"])))
    both = rows.merge(prompts[["prompt_set", "prompt_id", "complexity"]], on=["prompt_set", "prompt_id"])
    figures: dict[str, float] = {}
    for model, part in both.groupby("model_id"):
        found = stats.spearmanr(part["complexity"].astype(float), part["value"])
        names = (name.format(short_name(str(model))) for name in COMPLEXITY)
        figures |= dict(zip(names, (float(found.statistic), float(found.pvalue)), strict=True))
    return figures


def agreement(rows: pd.DataFrame, name: str) -> Finding:
    """Mean over models of the share of prompts on the model's own side of 1."""
    table = by_model(rows).sort_values("share_on_own_side", ignore_index=True)
    shares = table["share_on_own_side"].to_numpy(np.float64)
    mean = float(shares.mean())
    lower, upper, kind = (
        (mean, mean, "no interval: every model alike")
        if np.ptp(shares) == 0
        else bca([shares], np.mean, level=0.95, seed=SEED)
    )
    verdict = if_above(lower, upper, ROBUST)
    least = table.iloc[0]

    def draw(axes: Axes) -> None:
        strip_by_group(rows, axes, value="value", group="model_id")
        axes.set_xlabel("gain by prompt; tick: mean of the model")

    return Finding(
        claim="C14",
        estimand=f"share of prompts on the model's own side of gain 1, {name}",
        verdict=verdict,
        plain=f"On average {mean:.0%} of prompts put a model on the side of 1 where its mean lies ({name}; "
        f"{len(table)} models). {SENTENCES[verdict]}: the interval over models is {range_text(lower, upper)} against "
        f"the {ROBUST:.0%} asked for, {int((shares == 1).sum())} models keep their side on every prompt, and "
        f"{short_name(least['model_id'])}, with a mean gain of {number(least['mean_gain'], 4)}, keeps it on "
        f"{least['share_on_own_side']:.0%}.",
        estimate=mean,
        lower=lower,
        upper=upper,
        interval=f"{kind}, over models, 95 %",
        n_models=len(table),
        n_heritages=table["heritage"].nunique(),
        table=table,
        draw=draw,
        caption=f"Gain of every prompt by model ({name}), models in order of their mean; dashed line: gain 1. On "
        f"average {mean:.0%} of prompts lie on their model's own side.",
        notes=(
            "A model whose mean gain is within a few per cent of 1 has no side to keep: for it the sign is a "
            "matter of the prompt.",
        ),
    )


def with_share(found: Finding, rows: pd.DataFrame, name: str) -> Finding:
    """The finding on agreement with the posterior of the share of prompts."""
    fit = fit_share(
        sides(rows), "agrees", against=ROBUST, group="model_id", sources=sorted(set(rows["source"])), seed=SEED
    )
    told = posterior_of(
        fit,
        model=f"Share of prompts on their model's side of 1, {name}; prompts of one model alike.",
        statement=f"share > {ROBUST:g}",
        truth=fit.quantities["share"] > ROBUST,
        classical=found.verdict,
        tables=["groups"],
    )
    return beside(found, fit, told)


def variance(rows: pd.DataFrame, name: str) -> Finding:
    """How much of the variance of log gain lies between models, between prompts, and in their interplay."""
    parts = variance_components(
        rows.assign(log_gain=np.log(rows["value"])), "log_gain", "model_id", "prompt_id", seed=SEED
    )
    share, lower, upper = parts.shares["model_id"], parts.shares_lower["model_id"], parts.shares_upper["model_id"]
    verdict = if_above(lower, upper, 0.5)
    table = pd.DataFrame(
        {
            "component": ["model", "prompt", "residual"],
            "share_of_variance": list(parts.shares.values()),
            "lower": list(parts.shares_lower.values()),
            "upper": list(parts.shares_upper.values()),
            "sd_of_log_gain": list(parts.sd.values()),
        }
    )
    return Finding(
        claim="C14",
        estimand=f"share of the variance of log gain between models, {name}",
        verdict=verdict,
        plain=f"Of all variation of the gain {share:.0%} lies between models, {parts.shares['prompt_id']:.0%} "
        f"between prompts and {parts.shares['residual']:.0%} in how a model answers a prompt in particular ({name}). "
        f"{SENTENCES[verdict]} as a statement about magnitude: the models' share is between {number(lower)} and "
        f"{number(upper)}.",
        estimate=share,
        lower=lower,
        upper=upper,
        interval=f"{parts.interval}, 95 %",
        n_models=parts.n_rows,
        n_heritages=rows["heritage"].nunique(),
        table=table,
        notes=(NESTED,),
    )


def with_parts(found: Finding, rows: pd.DataFrame) -> Finding:
    """The finding on variance with the posterior of its parts."""
    fit = fit_benchmark(rows, "last_gain", seed=SEED)
    of_models = fit.quantities["share"][..., fit.labels["share"].index("model")]
    told = posterior_of(
        fit,
        model=f"Log last gain of {fit.n_models} models by prompt: level of the model, category, prompt, model by "
        "category.",
        statement="models' share of the variance > 0.5",
        truth=of_models > 0.5,
        classical=found.verdict,
        tables=["shares", "ranks"],
    )
    return beside(found, fit, told)


def one_model(tables: Evidence) -> Finding:
    """The study's own test of the input on one model: gain with the final norm against entropy over its prompts."""
    gains = tables.table("summaries", source=INPUT, estimand="normed_gain_all_tokens")
    entropy = tables.table("outputs", source=INPUT)[["prompt_id", "entropy"]]
    table = gains.merge(entropy, on="prompt_id")[["model_id", "heritage", "prompt_id", "value", "entropy"]]
    r, rho = stats.pearsonr(table["value"], table["entropy"]), stats.spearmanr(table["value"], table["entropy"])
    low, high = (float(bound) for bound in r.confidence_interval())
    values = (r.statistic, r.pvalue, rho.statistic, rho.pvalue)
    factor = table["value"].max() / table["value"].min()
    sides = int((table["value"] < 1).sum())
    return Finding(
        claim="C14",
        estimand="gain with the final norm against entropy over prompts of one model",
        verdict=OPEN,
        plain=f"Over {len(table)} prompts of one model the gain with the final norm varies by a factor of "
        f"{factor:.2f} and lies below 1 on {sides} of them. {SENTENCES[OPEN]}: with so few prompts its correlation "
        f"with the entropy, {number(r.statistic)}, may be anything in {range_text(low, high)}.",
        published=stated(tables, {name: f"/correlation/{key}" for name, key in CORRELATION.items()}, INPUT),
        reproduced=dict(zip(CORRELATION, map(float, values), strict=True)),
        estimate=float(r.statistic),
        lower=low,
        upper=high,
        interval="Fisher-z confidence interval, 95 %, unit: the prompt",
        n_models=1,
        n_heritages=1,
        table=table,
    )


if __name__ == "__main__":
    run(CLAIM, analyse)

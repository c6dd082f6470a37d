"""What the files derive over prompts: means and spreads of figure 7, ranges, complexity, one model's entropy."""

from __future__ import annotations

import pandas as pd
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.studies.delia2026.by_prompt import BENCHMARK
from thermostats.studies.delia2026.gains import PYTHIA
from thermostats.studies.delia2026.stated import stated, stated_by_model
from thermostats.words import short_name

INPUT = "input_dependency_thermodynamics.json"
PROMPTS = "prompts per model"
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
    "Pearson r": "/correlation/pearson_r",
    "Pearson p": "/correlation/pearson_p",
    "Spearman ρ": "/correlation/spearman_r",
    "Spearman p": "/correlation/spearman_p",
}


def figure_7_audit(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Prompts per model, means and standard deviations (divisor n, as in the file); `rows`: gains by prompt."""
    found = {PROMPTS: float(rows.groupby("model_id").size().max())}
    for model, gain in rows.groupby("model_id")["value"]:
        found |= _named(FIGURE_7, model, gain.mean(), gain.std(ddof=0))
    return Audit(stated(tables, {PROMPTS: "fig. 7"}) | stated_by_model(tables, PYTHIA, FIGURE_7), found)


def benchmark_audit(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Range of the gain over prompts and its Spearman correlation with complexity; `rows`: gains by prompt."""
    prompts = tables.table("prompts", prompt_set=sorted(set(rows["prompt_set"])))
    both = rows.merge(prompts[["prompt_set", "prompt_id", "complexity"]], on=["prompt_set", "prompt_id"])
    found: dict[str, float] = {}
    for model, gain in rows.groupby("model_id")["value"]:
        found |= _named(RANGES, model, gain.min(), gain.max(), gain.max() - gain.min())
    for model, part in both.groupby("model_id"):
        rho = stats.spearmanr(part["complexity"].astype(float), part["value"])
        found |= _named(COMPLEXITY, model, rho.statistic, rho.pvalue)
    return Audit(stated_by_model(tables, BENCHMARK, RANGES | COMPLEXITY), found)


def of_one_model(tables: Evidence) -> pd.DataFrame:
    """Gain with the final norm (`value`) and entropy over the prompts of the file on one model's input."""
    gains = tables.table("summaries", source=INPUT, estimand="normed_gain_all_tokens")
    entropy = tables.table("outputs", source=INPUT)[["prompt_id", "entropy"]]
    return gains.merge(entropy, on="prompt_id")[["model_id", "heritage", "prompt_id", "value", "entropy"]]


def entropy_audit(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Correlations of gain and entropy over prompts; `rows` from `of_one_model`."""
    r, rho = stats.pearsonr(rows["value"], rows["entropy"]), stats.spearmanr(rows["value"], rows["entropy"])
    found = (r.statistic, r.pvalue, rho.statistic, rho.pvalue)
    return Audit(stated(tables, CORRELATION, INPUT), dict(zip(CORRELATION, map(float, found), strict=True)))


def _named(names: dict[str, str], model: object, *values: float) -> dict[str, float]:
    """Values by the names of a model's figures."""
    return {name.format(short_name(str(model))): float(value) for name, value in zip(names, values, strict=True)}

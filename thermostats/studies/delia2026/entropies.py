"""Entropy of the next token and last gain by prompt, and the audit of the study's correlations and t tests."""

from __future__ import annotations

import pandas as pd
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.studies.delia2026.by_prompt import BENCHMARK, GPT2, LAST_GAIN_FILES, gain_by_prompt, with_category
from thermostats.studies.delia2026.stated import stated_by_model
from thermostats.words import short_name

BENTOV = "{} Pearson of entropy and |gain − 1|"
BENTOV_P = "p of " + BENTOV
IN_THE_FILE = {
    "{} Spearman": r"/entropy_correlations/\d+/Spearman_r",
    "{} Spearman p": r"/entropy_correlations/\d+/Spearman_p",
    "{} Pearson": r"/entropy_correlations/\d+/Pearson_r",
    "{} Pearson p": r"/entropy_correlations/\d+/Pearson_p",
}
IN_GPT2_FILE = {BENTOV: r"/bentov_law_results/\d+/Bentov_Correlation", BENTOV_P: r"/bentov_law_results/\d+/p_value"}
CLICHES = {
    "{} mean entropy, clichés": r"/p3_platitude_tunnel/\d+/Cliche_Entropy_Mean",
    "{} mean entropy, novel": r"/p3_platitude_tunnel/\d+/Novel_Entropy_Mean",
    "{} t": r"/p3_platitude_tunnel/\d+/t_stat",
    "{} p": r"/p3_platitude_tunnel/\d+/p_val",
    "{} Cohen's d": r"/p3_platitude_tunnel/\d+/cohens_d",
}


def with_entropy(tables: Evidence, gains: pd.DataFrame, *sources: str) -> pd.DataFrame:
    """Gains by run and prompt with the entropy of the next token, of the files of last gains or the named sources."""
    outputs = tables.table("outputs", source=list(sources or LAST_GAIN_FILES))[["run_id", "prompt_id", "entropy"]]
    rows = gains.merge(outputs[outputs["entropy"].notna()], on=["run_id", "prompt_id"])
    return rows.astype({"value": float, "entropy": float})


def published(tables: Evidence) -> pd.DataFrame:
    """Last gain and entropy by model and prompt of the files of last gains, with the prompt's category."""
    return with_entropy(tables, with_category(tables, gain_by_prompt(tables, "last_gain", *LAST_GAIN_FILES)))


def correlation_audit(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Correlations model by model; the GPT-2 file's are of entropy and the distance of the gain from 1."""
    found: dict[str, float] = {}
    for model, r in rows[rows["source"] == BENCHMARK].groupby("model_id"):
        spearman, pearson = stats.spearmanr(r["entropy"], r["value"]), stats.pearsonr(r["entropy"], r["value"])
        values = (spearman.statistic, spearman.pvalue, pearson.statistic, pearson.pvalue)
        names = (name.format(short_name(str(model))) for name in IN_THE_FILE)
        found |= {name: float(value) for name, value in zip(names, values, strict=True)}
    for model, r in rows[rows["source"] == GPT2].groupby("model_id"):
        pearson, name = stats.pearsonr(r["entropy"], (r["value"] - 1).abs()), short_name(str(model))
        found |= {BENTOV.format(name): float(pearson.statistic), BENTOV_P.format(name): float(pearson.pvalue)}
    stated = stated_by_model(tables, BENCHMARK, IN_THE_FILE) | stated_by_model(tables, GPT2, IN_GPT2_FILE)
    return Audit(stated, found)


def cliche_audit(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Mean entropies of clichés and novel prompts model by model, with the study's t test."""
    found: dict[str, float] = {}
    for model, r in rows[rows["source"] == BENCHMARK].groupby("model_id"):
        first, second = (r.loc[r["category"] == c, "entropy"] for c in ("Cliche", "Novel"))
        test, difference = stats.ttest_ind(first, second), first.mean() - second.mean()
        size = difference / ((first.var() + second.var()) / 2) ** 0.5
        values = (first.mean(), second.mean(), test.statistic, test.pvalue, size)
        names = (name.format(short_name(str(model))) for name in CLICHES)
        found |= {name: float(value) for name, value in zip(names, values, strict=True)}
    return Audit(stated_by_model(tables, BENCHMARK, CLICHES), found)

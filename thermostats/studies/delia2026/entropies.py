"""Entropy of the next token and last gain by prompt, and the audit of the study's correlations and
t tests."""

from __future__ import annotations

import pandas as pd
from scipy import stats

from thermostats.claims.evidence import VIEWS, Evidence
from thermostats.claims.result import Audit
from thermostats.studies.delia2026.prompt_gains import BENCHMARK, GPT2, LAST_GAIN_FILES
from thermostats.studies.delia2026.stated_facts import (
    check_model_figures,
    iterate_model_figures,
    join_audits,
)

BENTOV = "{} Pearson of entropy and |gain − 1|"
BENTOV_P = "p of " + BENTOV
IN_THE_FILE = {
    "{} Spearman": r"/entropy_correlations/\d+/Spearman_r",
    "{} Spearman p": r"/entropy_correlations/\d+/Spearman_p",
    "{} Pearson": r"/entropy_correlations/\d+/Pearson_r",
    "{} Pearson p": r"/entropy_correlations/\d+/Pearson_p",
}
IN_GPT2_FILE = {
    BENTOV: r"/bentov_law_results/\d+/Bentov_Correlation",
    BENTOV_P: r"/bentov_law_results/\d+/p_value",
}
CLICHES = {
    "{} mean entropy, clichés": r"/p3_platitude_tunnel/\d+/Cliche_Entropy_Mean",
    "{} mean entropy, novel": r"/p3_platitude_tunnel/\d+/Novel_Entropy_Mean",
    "{} t": r"/p3_platitude_tunnel/\d+/t_stat",
    "{} p": r"/p3_platitude_tunnel/\d+/p_val",
    "{} Cohen's d": r"/p3_platitude_tunnel/\d+/cohens_d",
}


def add_entropy(tables: Evidence, gains: pd.DataFrame, *sources: str) -> pd.DataFrame:
    """Gains by run and prompt with the entropy of the next token, of the files of last gains or the
    named sources.

    Of another set of evidence without sources: of the whole set.
    """
    chosen = {}
    if sources or tables.name not in VIEWS:
        chosen["source"] = list(sources or LAST_GAIN_FILES)
    key = ["run_id", "prompt_id"]
    outputs = tables.table("outputs", **chosen)[[*key, "entropy"]]
    known = outputs["entropy"].notna()
    rows = gains.merge(outputs[known], on=key)
    return rows.astype({"value": float, "entropy": float})


def check_correlation(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Correlations model by model; the GPT-2 file's are of entropy and the distance of the gain
    from 1."""

    def of_gain(of_model: pd.DataFrame) -> tuple[float, ...]:
        pair = (of_model["entropy"], of_model["value"])
        rho = stats.spearmanr(*pair)
        return (*rho, *stats.pearsonr(*pair))

    def of_distance(of_model: pd.DataFrame) -> tuple[float, ...]:
        distance = (of_model["value"] - 1).abs()
        return tuple(stats.pearsonr(of_model["entropy"], distance))

    four = iterate_model_figures(rows[rows["source"] == BENCHMARK], of_gain)
    gpt2 = iterate_model_figures(rows[rows["source"] == GPT2], of_distance)
    return join_audits(
        check_model_figures(tables, BENCHMARK, IN_THE_FILE, four),
        check_model_figures(tables, GPT2, IN_GPT2_FILE, gpt2),
    )


def check_cliches(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Mean entropies of clichés and novel prompts model by model, with the study's t test."""

    def differences(of_model: pd.DataFrame) -> tuple[float, ...]:
        category = of_model["category"]
        entropy = of_model["entropy"]
        first = entropy[category == "Cliche"]
        second = entropy[category == "Novel"]
        variance = (first.var() + second.var()) / 2
        spread = variance**0.5
        apart = first.mean() - second.mean()
        test = stats.ttest_ind(first, second)
        return (first.mean(), second.mean(), *test, apart / spread)

    figures = iterate_model_figures(rows[rows["source"] == BENCHMARK], differences)
    return check_model_figures(tables, BENCHMARK, CLICHES, figures)

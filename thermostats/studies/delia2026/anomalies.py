"""Figures that the study states of single models, and tests that one of them stands apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.studies.delia2026.prompt_gains import GPT2, GPTJ
from thermostats.studies.delia2026.published_gains import FOUR
from thermostats.studies.delia2026.stated_facts import (
    H4_V2,
    check_model_figures,
    index_models,
    iterate_model_figures,
    join_audits,
    load_stated,
)

OPT_FILE = "OPT_anomaly_20260106_013155.json"
OPT = "facebook/opt-125m"
LLAMA = "meta-llama/Llama-3.1-8B"
NOT_ASKED = ("google/gemma-7b", "EleutherAI/pythia-6.9b")
"""Models of the benchmark that no explanation is about."""
LLAMA_FILE = "llama_anomaly_hypothesis_tests.json"
LLAMA_GAIN = "/hypothesis_1_titanium_projector/results/llama3.1-8b/last_gain"
MISTRAL_FILE = "mistral_paradox_investigation_results.json"
MISTRAL = "mistralai/Mistral-7B-v0.1"
BY_FILE = {
    OPT_FILE: {
        "attention entropy of {}": r"/attention_analysis/[^/]+/mean_entropy",
        "attention sparsity of {}": r"/attention_analysis/[^/]+/mean_sparsity",
    },
    LLAMA_FILE: {
        "{} effective "
        "amplification": r"/hypothesis_1_titanium_projector/results/[^/]+/effective_amplification",
        "{} spectral norm over root of "
        "V": r"/hypothesis_1_titanium_projector/results/[^/]+/spectral_per_sqrt_vocab",
    },
    MISTRAL_FILE: {
        "{} unembedding over embedding, Frobenius": r"/unembedding_analysis/[^/]+/wu_we_ratio",
        "{} unembedding, spectral norm over root of "
        "d": r"/unembedding_analysis/[^/]+/unembedding/spectral_normalized",
        "{} embedding, spectral norm over root of "
        "d": r"/unembedding_analysis/[^/]+/embedding/spectral_normalized",
        "{} unembedding, root mean "
        "square": r"/unembedding_analysis/[^/]+/unembedding/frobenius_normalized",
        "{} embedding, root mean "
        "square": r"/unembedding_analysis/[^/]+/embedding/frobenius_normalized",
        "{} exp of the entropy": r"/entropy_analysis/[^/]+/effective_vocab",
        "{}, % of gains below 1": r"/residual_stream_analysis/[^/]+/contracting_pct",
    },
}
"""Names of the figures, with {} for the model, and patterns of their pointers."""
IN_TEST = ("{} mean", "{} SD", "{} smallest", "{} largest", "{} t", "{} one-sided p")
_KEYS = ("Mean_Gain", "Std", "Min", "Max", "t_stat", "p_value")
BY_TEST = {
    GPT2: [rf"/validation_results/\d+/{key}" for key in _KEYS],
    GPTJ: [
        "/results/mean_gain",
        "/results/std_gain",
        "/results/min_gain",
        "/results/max_gain",
        "/results/t_statistic",
        "/results/p_value_one_sided",
    ],
}
"""Patterns of pointers to the figures of IN_TEST in the files that test whether a model's last gain
lies below 1."""
CATEGORY = "mean over the category {}"


def test_audit(tables: Evidence, rows: pd.DataFrame, source: str) -> Audit:
    """Figures of a file of `BY_TEST` from its rows by prompt and category."""

    def figures(of_model: pd.DataFrame) -> tuple[float, ...]:
        gain = of_model["value"]
        t = stats.ttest_1samp(gain, 1.0, alternative="less")
        moments = gain.agg(["mean", "std", "min", "max"])
        return (*moments, t.statistic, t.pvalue)

    names = dict(zip(IN_TEST, BY_TEST[source], strict=True))
    recomputed = iterate_model_figures(rows, figures)
    audit = check_model_figures(tables, source, names, recomputed)
    if source != GPTJ:
        return audit
    means = {}
    places = {}
    for name, values in rows.groupby("category")["value"]:
        words = CATEGORY.format(name)
        means[words] = float(values.mean())
        places[words] = f"/category_means/{name}"
    by_category = Audit(load_stated(tables, places, source), means)
    return join_audits(audit, by_category)


def collect_traces_and_norms(tables: Evidence) -> pd.DataFrame:
    """By model the mean trace, the mean norm of W_V as the OPT file has it, and the trace over its
    square."""
    attention = tables.table("attention", source=H4_V2, variant="multi_head")
    traces = attention.groupby("model_id")["trace"].mean()
    norms = tables.table("summaries", source=OPT_FILE)
    of_mean = norms["estimand"].str.startswith("W_V_frobenius_norm_mean")
    norms = norms[of_mean].set_index("model_id")
    norms = norms[["heritage", "estimand", "value"]].rename(columns={"value": "W_V_frobenius"})
    table = norms.join(traces.rename("trace"), how="inner")
    squared = np.square(table["W_V_frobenius"])
    over_squared = table["trace"] / squared
    table["trace_over_W_V_squared"] = over_squared
    of_opt = table.loc[OPT, "trace"]
    table["raw_ratio"] = table["trace"] / of_opt
    table["divided_ratio"] = over_squared / over_squared[OPT]
    for name in ("raw", "divided"):
        log_ratio = np.log(table[f"{name}_ratio"])
        table[f"{name}_factor"] = np.exp(log_ratio.abs())
    return table.assign(sliced=table["estimand"].str.endswith("published_thirds"))


def check_opt(tables: Evidence) -> Audit:
    """Means over layers of attention entropy (where it is a number) and sparsity, of the OPT
    file."""
    attention = tables.table("attention", source=OPT_FILE)
    entropy = attention.groupby("model_id")["entropy"].mean()
    rows = tables.table("summaries", source=OPT_FILE)
    of_sparsity = rows["estimand"].str.startswith("attention_sparsity_layer_")
    rows = rows[of_sparsity]
    sparsity = rows.groupby("model_id")["value"].mean()
    both = pd.concat([entropy, sparsity], axis=1)
    figures = ((model, list(values)) for model, values in both.iterrows())
    return check_model_figures(tables, OPT_FILE, BY_FILE[OPT_FILE], figures)


def collect_unembeddings(tables: Evidence, gains: pd.DataFrame) -> pd.DataFrame:
    """By model with a published unembedding: its spectral norm, the gain that the file multiplies,
    the measured one."""
    spectra = tables.table("weights", source=LLAMA_FILE, matrix="unembedding").set_index("model_id")
    copied = tables.table("statements", source=LLAMA_FILE, statistic="last gain, copied by hand")
    table = spectra[["heritage", "spectral_norm"]].copy()
    table["gain_stated"] = copied.set_index("model_id")["value"]
    measured = gains.groupby("model_id")["value"].mean()
    table["last_gain_measured"] = measured.reindex(spectra.index)
    amplification = table["spectral_norm"] * table["gain_stated"]
    return table.assign(effective_amplification=amplification)


def check_llama(tables: Evidence, gain: float) -> tuple[Audit, float]:
    """The last ratio that called for an explanation, which runs over the final norm and pools all
    tokens."""
    rows = tables.table("summaries", estimand="normed_gain_all_tokens", model_id=LLAMA)
    of_four = rows["source"] == FOUR
    of_model = rows.loc[of_four, "value"]
    pooled = float(of_model.iloc[0])
    published = load_stated(tables, {"last ratio, final norm in it": LLAMA_GAIN}, LLAMA_FILE)
    return Audit(
        published, {"last ratio, final norm in it": pooled, "last gain, block": gain}
    ), pooled


def check_derived(tables: Evidence, source: str) -> dict[str, float]:
    """Derived figures of a file that follow from its rows, their largest relative difference; how
    many do not."""
    rows = tables.table("reconciliation", file=source, fate="derivable")
    wrong = tables.table("inconsistencies", file=source, kind="does not follow")
    largest = float(rows["largest_difference"].max()) if len(rows) else 0.0
    return {"figures": int(rows["numbers"].sum()), "largest": largest, "wrong": len(wrong)}


def check_projector(tables: Evidence, table: pd.DataFrame) -> Audit:
    """What the LLaMA and Mistral files derive from (un)embeddings, output, stream; `table` from
    `collect_unembeddings`."""
    models = index_models(tables)
    sizes = models["vocab_size"].reindex(table.index)
    sizes = sizes.astype(float)
    scaled = table["spectral_norm"] / np.sqrt(sizes)
    figures = zip(table["effective_amplification"], scaled, strict=True)
    of_llama = zip(table.index, figures, strict=True)
    V, d = (float(models.loc[MISTRAL, label]) for label in ("vocab_size", "d_model"))
    weights = tables.table("weights", source=MISTRAL_FILE).set_index("matrix")
    W = weights.loc[["unembedding", "embedding"]]
    layers = tables.table("layers", source=MISTRAL_FILE)
    ratios = layers["gain_block"].dropna().astype(float)
    ends = tables.table(
        "summaries", source=MISTRAL_FILE, estimand="last_ratio_all_tokens_norm_unstated"
    )["value"]
    frobenius = W["frobenius_norm"]
    outputs = tables.table("outputs", source=MISTRAL_FILE)
    entropy = outputs["entropy"].iloc[0]
    below = np.array([*ratios, *ends]) < 1
    of_mistral = (
        frobenius.iloc[0] / frobenius.iloc[1],
        *(W["spectral_norm"] / np.sqrt(d)),
        *(frobenius / np.sqrt(V * d)),
        np.exp(entropy),
        100 * np.mean(below),
    )
    by_model = [(MISTRAL, of_mistral)]
    return join_audits(
        check_model_figures(tables, LLAMA_FILE, BY_FILE[LLAMA_FILE], of_llama),
        check_model_figures(tables, MISTRAL_FILE, BY_FILE[MISTRAL_FILE], by_model),
    )

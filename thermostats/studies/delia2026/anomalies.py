"""What the files about anomalies derive from attention, (un)embeddings, output, stream and gains, recomputed."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.studies.delia2026.by_prompt import GPT2, GPTJ
from thermostats.studies.delia2026.gains import FOUR
from thermostats.studies.delia2026.stated import H4_V2, stated, stated_by_model
from thermostats.words import short_name

OPT_FILE = "OPT_anomaly_20260106_013155.json"
OPT, LLAMA = "facebook/opt-125m", "meta-llama/Llama-3.1-8B"
NOT_ASKED = ("google/gemma-7b", "EleutherAI/pythia-6.9b")
"""Models of the benchmark that no explanation is about."""
LLAMA_FILE = "llama_anomaly_hypothesis_tests.json"
LLAMA_GAIN = "/hypothesis_1_titanium_projector/results/llama3.1-8b/last_gain"
MISTRAL_FILE, MISTRAL = "mistral_paradox_investigation_results.json", "mistralai/Mistral-7B-v0.1"
BY_FILE = {
    OPT_FILE: {
        "attention entropy of {}": r"/attention_analysis/[^/]+/mean_entropy",
        "attention sparsity of {}": r"/attention_analysis/[^/]+/mean_sparsity",
    },
    LLAMA_FILE: {
        "{} effective amplification": r"/hypothesis_1_titanium_projector/results/[^/]+/effective_amplification",
        "{} spectral norm over root of V": r"/hypothesis_1_titanium_projector/results/[^/]+/spectral_per_sqrt_vocab",
    },
    MISTRAL_FILE: {
        "{} unembedding over embedding, Frobenius": r"/unembedding_analysis/[^/]+/wu_we_ratio",
        "{} unembedding, spectral norm over root of d": r"/unembedding_analysis/[^/]+/unembedding/spectral_normalized",
        "{} embedding, spectral norm over root of d": r"/unembedding_analysis/[^/]+/embedding/spectral_normalized",
        "{} unembedding, root mean square": r"/unembedding_analysis/[^/]+/unembedding/frobenius_normalized",
        "{} embedding, root mean square": r"/unembedding_analysis/[^/]+/embedding/frobenius_normalized",
        "{} exp of the entropy": r"/entropy_analysis/[^/]+/effective_vocab",
        "{}, % of gains below 1": r"/residual_stream_analysis/[^/]+/contracting_pct",
    },
}
"""Names of the figures, with {} for the model, and patterns of their pointers."""
BY_TEST = {
    GPT2: {
        "{} mean": r"/validation_results/\d+/Mean_Gain",
        "{} SD": r"/validation_results/\d+/Std",
        "{} smallest": r"/validation_results/\d+/Min",
        "{} largest": r"/validation_results/\d+/Max",
        "{} t": r"/validation_results/\d+/t_stat",
        "{} one-sided p": r"/validation_results/\d+/p_value",
    },
    GPTJ: {
        "{} mean": "/results/mean_gain",
        "{} SD": "/results/std_gain",
        "{} smallest": "/results/min_gain",
        "{} largest": "/results/max_gain",
        "{} t": "/results/t_statistic",
        "{} one-sided p": "/results/p_value_one_sided",
    },
}
"""The same for the files that test whether a model's last gain lies below 1."""
CATEGORY = "mean over the category {}"


def test_audit(tables: Evidence, rows: pd.DataFrame, source: str) -> Audit:
    """Figures of a file of `BY_TEST` from its rows by prompt and category."""
    published = stated_by_model(tables, source, BY_TEST[source])
    reproduced: dict[str, float] = {}
    for model, gain in rows.groupby("model_id")["value"]:
        t = stats.ttest_1samp(gain, 1.0, alternative="less")
        values = (gain.mean(), gain.std(), gain.min(), gain.max(), t.statistic, t.pvalue)
        names = (name.format(short_name(str(model))) for name in BY_TEST[source])
        reproduced |= {name: float(value) for name, value in zip(names, values, strict=True)}
    if source == GPTJ:
        means = rows.groupby("category")["value"].mean()
        published |= stated(tables, {CATEGORY.format(name): f"/category_means/{name}" for name in means.index}, source)
        reproduced |= {CATEGORY.format(name): float(mean) for name, mean in means.items()}
    return Audit(published, reproduced)


def attention_means(tables: Evidence) -> dict[str, float]:
    """Means over layers of attention entropy (where it is a number) and sparsity, by the names of `BY_FILE`."""
    entropy = tables.table("attention", source=OPT_FILE).groupby("model_id")["entropy"].mean()
    rows = tables.table("summaries", source=OPT_FILE)
    rows = rows[rows["estimand"].str.startswith("attention_sparsity_layer_")]
    figures: dict[str, float] = {}
    for name, means in zip(BY_FILE[OPT_FILE], (entropy, rows.groupby("model_id")["value"].mean()), strict=True):
        figures |= {name.format(short_name(str(model))): float(mean) for model, mean in means.items()}
    return figures


def traces_and_norms(tables: Evidence) -> pd.DataFrame:
    """By model the mean trace, the mean norm of W_V as the OPT file has it, and the trace over its square."""
    traces = tables.table("attention", source=H4_V2, variant="multi_head").groupby("model_id")["trace"].mean()
    norms = tables.table("summaries", source=OPT_FILE)
    norms = norms[norms["estimand"].str.startswith("W_V_frobenius_norm_mean")].set_index("model_id")
    norms = norms[["heritage", "estimand", "value"]].rename(columns={"value": "W_V_frobenius"})
    table = norms.join(traces.rename("trace"), how="inner")
    table["trace_over_W_V_squared"] = table["trace"] / np.square(table["W_V_frobenius"])
    table["raw_ratio"] = table["trace"] / table.loc[OPT, "trace"]
    table["divided_ratio"] = table["trace_over_W_V_squared"] / table.loc[OPT, "trace_over_W_V_squared"]
    for name in ("raw", "divided"):
        table[f"{name}_factor"] = np.exp(np.log(table[f"{name}_ratio"]).abs())
    return table.assign(sliced=table["estimand"].str.endswith("published_thirds"))


def opt_audit(tables: Evidence) -> Audit:
    """Attention entropy and sparsity of the OPT file."""
    return Audit(stated_by_model(tables, OPT_FILE, BY_FILE[OPT_FILE]), attention_means(tables))


def unembeddings(tables: Evidence, gains: pd.DataFrame) -> pd.DataFrame:
    """By model with a published unembedding: its spectral norm, the gain that the file multiplies, the measured one."""
    spectra = tables.table("weights", source=LLAMA_FILE, matrix="unembedding").set_index("model_id")
    copied = tables.table("statements", source=LLAMA_FILE, statistic="last gain, copied by hand")
    table = spectra[["heritage", "spectral_norm"]].assign(
        gain_stated=copied.set_index("model_id")["value"],
        last_gain_measured=gains.groupby("model_id")["value"].mean().reindex(spectra.index),
    )
    return table.assign(effective_amplification=table["spectral_norm"] * table["gain_stated"])


def projector_audit(tables: Evidence, table: pd.DataFrame) -> Audit:
    """Figures of the LLaMA and Mistral files; `table` from `unembeddings`."""
    stated_in = [stated_by_model(tables, file, BY_FILE[file]) for file in (LLAMA_FILE, MISTRAL_FILE)]
    return Audit(stated_in[0] | stated_in[1], projectors(tables, table))


def llama_audit(tables: Evidence, gain: float) -> tuple[Audit, float]:
    """The last ratio that called for an explanation, which runs over the final norm and pools all tokens."""
    rows = tables.table("summaries", estimand="normed_gain_all_tokens", model_id=LLAMA)
    pooled = float(rows.loc[rows["source"] == FOUR, "value"].iloc[0])
    published = stated(tables, {"last ratio, final norm in it": LLAMA_GAIN}, LLAMA_FILE)
    return Audit(published, {"last ratio, final norm in it": pooled, "last gain, block": gain}), pooled


def follows(tables: Evidence, source: str) -> dict[str, float]:
    """Derived figures of a file that follow from its rows, their largest relative difference; how many do not."""
    rows = tables.table("reconciliation", file=source, fate="derivable")
    wrong = tables.table("inconsistencies", file=source, kind="does not follow")
    largest = float(rows["largest_difference"].max()) if len(rows) else 0.0
    return {"figures": int(rows["numbers"].sum()), "largest": largest, "wrong": len(wrong)}


def projectors(tables: Evidence, table: pd.DataFrame) -> dict[str, float]:
    """What the LLaMA and Mistral files derive from (un)embeddings, output and stream, by the names of `BY_FILE`."""
    models = tables.table("models").drop_duplicates("model_id").set_index("model_id")
    amplification, scaled = BY_FILE[LLAMA_FILE]
    figures: dict[str, float] = {}
    for model, row in table.iterrows():
        name, V = short_name(str(model)), float(models.loc[model, "vocab_size"])
        figures[amplification.format(name)] = float(row["effective_amplification"])
        figures[scaled.format(name)] = float(row["spectral_norm"] / np.sqrt(V))
    V, d = (float(models.loc[MISTRAL, label]) for label in ("vocab_size", "d_model"))
    W = tables.table("weights", source=MISTRAL_FILE).set_index("matrix")
    spectral, frobenius = W["spectral_norm"], W["frobenius_norm"]
    sizes = ("unembedding", "embedding")
    ratios = tables.table("layers", source=MISTRAL_FILE)["gain_block"].dropna().astype(float).tolist()
    ends = tables.table("summaries", source=MISTRAL_FILE, estimand="last_ratio_all_tokens_norm_unstated")["value"]
    values = (
        frobenius["unembedding"] / frobenius["embedding"],
        *(spectral[size] / np.sqrt(d) for size in sizes),
        *(frobenius[size] / np.sqrt(V * d) for size in sizes),
        np.exp(tables.table("outputs", source=MISTRAL_FILE)["entropy"].iloc[0]),
        100 * np.mean(np.array([*ratios, *ends]) < 1),
    )
    names = (name.format(short_name(MISTRAL)) for name in BY_FILE[MISTRAL_FILE])
    return figures | {name: float(value) for name, value in zip(names, values, strict=True)}

"""What the files about anomalies derive from attention, (un)embeddings, output and stream, recomputed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.reporting.findings import Tables
from thermostats.reporting.labels import short_name

OPT_FILE = "OPT_anomaly_20260106_013155.json"
LLAMA_FILE = "llama_anomaly_hypothesis_tests.json"
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


def attention_means(tables: Tables) -> dict[str, float]:
    """Means over layers of attention entropy (where it is a number) and sparsity, by the names of `BY_FILE`."""
    entropy = tables.read("attention", source=OPT_FILE).groupby("model_id")["entropy"].mean()
    rows = tables.read("summaries", source=OPT_FILE)
    rows = rows[rows["estimand"].str.startswith("attention_sparsity_layer_")]
    figures: dict[str, float] = {}
    for name, means in zip(BY_FILE[OPT_FILE], (entropy, rows.groupby("model_id")["value"].mean()), strict=True):
        figures |= {name.format(short_name(str(model))): float(mean) for model, mean in means.items()}
    return figures


def projectors(tables: Tables, table: pd.DataFrame) -> dict[str, float]:
    """What the LLaMA and Mistral files derive from (un)embeddings, output and stream, by the names of `BY_FILE`."""
    models = tables.read("models").drop_duplicates("model_id").set_index("model_id")
    amplification, scaled = BY_FILE[LLAMA_FILE]
    figures: dict[str, float] = {}
    for model, row in table.iterrows():
        name, V = short_name(str(model)), float(models.loc[model, "vocab_size"])
        figures[amplification.format(name)] = float(row["effective_amplification"])
        figures[scaled.format(name)] = float(row["spectral_norm"] / np.sqrt(V))
    V, d = (float(models.loc[MISTRAL, label]) for label in ("vocab_size", "d_model"))
    W = tables.read("weights", source=MISTRAL_FILE).set_index("matrix")
    spectral, frobenius = W["spectral_norm"], W["frobenius_norm"]
    sizes = ("unembedding", "embedding")
    ratios = tables.read("layers", source=MISTRAL_FILE)["gain_block"].dropna().astype(float).tolist()
    ends = tables.read("summaries", source=MISTRAL_FILE, estimand="last_ratio_all_tokens_norm_unstated")["value"]
    values = (
        frobenius["unembedding"] / frobenius["embedding"],
        *(spectral[size] / np.sqrt(d) for size in sizes),
        *(frobenius[size] / np.sqrt(V * d) for size in sizes),
        np.exp(tables.read("outputs", source=MISTRAL_FILE)["entropy"].iloc[0]),
        100 * np.mean(np.array([*ratios, *ends]) < 1),
    )
    names = (name.format(short_name(MISTRAL)) for name in BY_FILE[MISTRAL_FILE])
    return figures | {name: float(value) for name, value in zip(names, values, strict=True)}

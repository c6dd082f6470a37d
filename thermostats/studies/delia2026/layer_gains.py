"""Gains of attention and of feed-forward layers block by block, and the study's exponent."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import linregress

from thermostats.claims.evidence import VIEWS, Evidence
from thermostats.claims.result import Audit
from thermostats.studies.delia2026.prompt_gains import drop_tuned
from thermostats.studies.delia2026.stated_facts import (
    check_figures,
    check_model_figures,
    index_models,
    join_audits,
)
from thermostats.tables.reading import keep_last_revision

SCALING = "scaling_law_multi_pythia_results.json"
FFN = "ffn_expansion_results.json"
FIT = {
    "exponent": "/scaling_law/exponent_alpha",
    "standard error of the exponent": "/scaling_law/exponent_std_err",
    "intercept": "/scaling_law/intercept",
    "R²": "/scaling_law/r_squared",
    "p of the exponent against 0": "/scaling_law/p_value",
}
CONTRACTING = {
    "attention of {} contracts, % of blocks": r"/models/\d+/attn_contracting_pct",
    "MLPs of {} contract, % of blocks": r"/models/\d+/mlp_contracting_pct",
}


def collect_layer_gains(tables: Evidence) -> pd.DataFrame:
    """Columns model_id, heritage, layer, gain_attention, gain_mlp of the scaling file.

    Of another set of evidence of every base model at its last revision, geometric means over
    prompts at the last token; a recipe stands in the place of the lab.
    """
    gains = ["gain_attention", "gain_mlp"]
    columns = ["model_id", "heritage", "layer"]
    if tables.name in VIEWS:
        every = tables.table("layers", position="last").dropna(subset=gains)
        positive = every[every["gain_mlp"] > 0]
        newest = keep_last_revision(positive, "model_id")
        every = drop_tuned(tables, newest)
        logs = np.log(every[gains].astype(float))
        groups = [every[name] for name in columns]
        means = logs.groupby(groups).mean()
        return np.exp(means).reset_index()
    layers = tables.table("layers", source=SCALING)
    rows = layers[[*columns, *gains]]
    return rows.astype({"layer": float})


def collect_last_blocks(tables: Evidence) -> pd.DataFrame:
    """One row per model by size: its last block, `n_params`, `largest_attention_gain` over all
    blocks."""
    layers = collect_layer_gains(tables)
    sizes = index_models(tables, last=True)["n_params"]
    last = layers.sort_values("layer").groupby("model_id", as_index=False).last()
    n_params = last["model_id"].map(sizes)
    last["n_params"] = n_params.astype("float64")
    largest = layers.groupby("model_id")["gain_attention"].max()
    last["largest_attention_gain"] = last["model_id"].map(largest)
    return last.sort_values("n_params", ignore_index=True)


def check_exponent(tables: Evidence, line: linregress) -> Audit:
    """The least-squares line of the file, and the exponent as the text claims it."""
    values = (line.slope, line.stderr, line.intercept, line.rvalue**2, line.pvalue)
    claimed = check_figures(tables, {"exponent as claimed": "MLP exponent"}, [line.slope])
    return join_audits(claimed, check_figures(tables, FIT, values, SCALING))


def check_contracting(tables: Evidence, layers: pd.DataFrame) -> Audit:
    """Per cent of blocks below 1 in every model."""
    below = layers[["gain_attention", "gain_mlp"]] < 1
    shares = 100 * below.groupby(layers["model_id"]).mean()
    figures = ((model, list(row)) for model, row in shares.iterrows())
    return check_model_figures(tables, SCALING, CONTRACTING, figures)

"""Gains of attention and of feed-forward layers block by block, and the study's exponent."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import linregress

from thermostats.claims.evidence import VIEWS, Evidence
from thermostats.claims.result import Audit
from thermostats.studies.delia2026.prompt_gains import drop_tuned
from thermostats.studies.delia2026.stated_facts import check_model_figures, load_stated
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
    if tables.name in VIEWS:
        every = tables.table("layers", position="last").dropna(
            subset=["gain_attention", "gain_mlp"]
        )
        every = drop_tuned(tables, keep_last_revision(every[every["gain_mlp"] > 0], "model_id"))
        logs = np.log(every[["gain_attention", "gain_mlp"]].astype(float))
        return np.exp(
            logs.groupby([every[name] for name in ("model_id", "heritage", "layer")]).mean()
        ).reset_index()
    layers = tables.table("layers", source=SCALING)
    return layers[["model_id", "heritage", "layer", "gain_attention", "gain_mlp"]].astype(
        {"layer": float}
    )


def collect_last_blocks(tables: Evidence) -> pd.DataFrame:
    """One row per model by size: its last block, `n_params`, `largest_attention_gain` over all
    blocks."""
    layers = collect_layer_gains(tables)
    models = tables.table("models").drop_duplicates("model_id", keep="last")
    last = layers.sort_values("layer").groupby("model_id", as_index=False).last()
    last["n_params"] = (
        last["model_id"].map(models.set_index("model_id")["n_params"]).astype("float64")
    )
    last["largest_attention_gain"] = last["model_id"].map(
        layers.groupby("model_id")["gain_attention"].max()
    )
    return last.sort_values("n_params", ignore_index=True)


def check_exponent(tables: Evidence, line: linregress) -> Audit:
    """The least-squares line of the file, and the exponent as the text claims it."""
    claimed = "exponent as claimed"
    values = (line.slope, line.stderr, line.intercept, line.rvalue**2, line.pvalue)
    figures = {claimed: float(line.slope)} | dict(zip(FIT, map(float, values), strict=True))
    return Audit(
        load_stated(tables, {claimed: "MLP exponent"}) | load_stated(tables, FIT, SCALING), figures
    )


def check_contracting(tables: Evidence, layers: pd.DataFrame) -> Audit:
    """Per cent of blocks below 1 in every model."""
    shares = 100 * (layers[["gain_attention", "gain_mlp"]] < 1).groupby(layers["model_id"]).mean()
    return check_model_figures(
        tables, SCALING, CONTRACTING, ((model, list(row)) for model, row in shares.iterrows())
    )

"""Traces of measured models against the formula, and the study's own traces against the exact one."""

from __future__ import annotations

import pandas as pd


def against_formula(attention: pd.DataFrame, weights: pd.DataFrame, layers: pd.DataFrame) -> pd.DataFrame:
    """One row a model, layer, head and prompt: measured trace, (n − tr A)·‖W_V^h‖_F², their residual over n‖W_V^h‖_F².

    n, tr A and ‖W_V^h‖_F come from tables that were measured without one another.
    """
    key = ["model_id", "revision"]
    heads = attention[(attention["variant"] == "exact") & (attention["head"] != "")].dropna(subset="trace")
    norms = weights[(weights["matrix"] == "W_V") & (weights["head"] != "")]
    norms = norms[[*key, "layer", "head", "frobenius_norm"]].drop_duplicates([*key, "layer", "head"])
    lengths = layers.dropna(subset="n_tokens").drop_duplicates([*key, "prompt_set", "prompt_id"])
    lengths = lengths[[*key, "prompt_set", "prompt_id", "n_tokens"]]
    rows = heads.merge(norms, on=[*key, "layer", "head"]).merge(lengths, on=[*key, "prompt_set", "prompt_id"])
    n, squared = rows["n_tokens"].astype(float), rows["frobenius_norm"].astype(float) ** 2
    trace, by_formula = rows["trace"].astype(float), (n - n * rows["self_attention"].astype(float)) * squared
    return rows[["model_id", "heritage", "layer", "head", "prompt_id"]].assign(
        trace=trace, by_formula=by_formula, residual=(trace - by_formula).abs() / (n * squared)
    )


def over_exact(attention: pd.DataFrame) -> pd.DataFrame:
    """One row a model: each trace of the study over the exact one, layer by layer and prompt by prompt, median."""
    whole = attention[(attention["head"] == "") & attention["trace"].notna()]
    wide = whole.pivot_table(index=["model_id", "layer", "prompt_id"], columns="variant", values="trace", dropna=False)
    wide = wide.reindex(columns=["exact", "first_head", "multi_head", "printed_factor"]).astype(float).dropna()
    return wide.drop(columns="exact").div(wide["exact"], axis=0).groupby("model_id").median().reset_index()

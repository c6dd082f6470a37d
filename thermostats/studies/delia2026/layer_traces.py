"""Traces of the sheaf Laplacian by layer: by formula, exactly, and as in the study's files."""

from __future__ import annotations

import pandas as pd

from thermostats.claims.evidence import VIEWS, Evidence
from thermostats.claims.result import Audit
from thermostats.formatting import strip_owner
from thermostats.studies.delia2026.stated_facts import (
    H4_EXTENDED,
    H4_V2,
    load_known_gains,
    load_stated,
    load_stated_models,
)
from thermostats.tables.labels import drop_unlabelled
from thermostats.tables.model_rows import model_rows


def compare_formula(
    attention: pd.DataFrame, weights: pd.DataFrame, layers: pd.DataFrame
) -> pd.DataFrame:
    """Per model, layer, head and prompt: measured trace, (n − tr A)·‖W_V^h‖_F², their residual over
    n‖W_V^h‖_F².

    n, tr A and ‖W_V^h‖_F come from tables that were measured without one another.
    """
    key = ["model_id", "revision"]
    heads = attention[(attention["variant"] == "exact") & (attention["head"] != "")].dropna(
        subset="trace"
    )
    norms = weights[(weights["matrix"] == "W_V") & (weights["head"] != "")]
    norms = norms[[*key, "layer", "head", "frobenius_norm"]].drop_duplicates(
        [*key, "layer", "head"]
    )
    lengths = layers.dropna(subset="n_tokens").drop_duplicates([*key, "prompt_set", "prompt_id"])
    lengths = lengths[[*key, "prompt_set", "prompt_id", "n_tokens"]]
    rows = heads.merge(norms, on=[*key, "layer", "head"]).merge(
        lengths, on=[*key, "prompt_set", "prompt_id"]
    )
    n = rows["n_tokens"].astype(float)
    squared = rows["frobenius_norm"].astype(float) ** 2
    trace = rows["trace"].astype(float)
    by_formula = (n - n * rows["self_attention"].astype(float)) * squared
    return rows[["model_id", "heritage", "layer", "head", "prompt_id"]].assign(
        trace=trace, by_formula=by_formula, residual=(trace - by_formula).abs() / (n * squared)
    )


def compare_exact(attention: pd.DataFrame) -> pd.DataFrame:
    """One row per model: each trace of the study over the exact one, layer by layer and prompt by
    prompt, median."""
    all_heads = attention[(attention["head"] == "") & attention["trace"].notna()]
    wide = all_heads.pivot_table(
        index=["model_id", "layer", "prompt_id"], columns="variant", values="trace", dropna=False
    )
    wide = (
        wide.reindex(columns=["exact", "first_head", "multi_head", "printed_factor"])
        .astype(float)
        .dropna()
    )
    return (
        wide.drop(columns="exact")
        .div(wide["exact"], axis=0)
        .groupby("model_id")
        .median()
        .reset_index()
    )


FILES = {H4_V2: "small models", H4_EXTENDED: "larger models"}
SUBSAMPLED = "H4_validation_20260106_014132.json"
SMALLEST_GPT2 = "openai-community/gpt2"
SMALL_OPT = "facebook/opt-125m"
STATED = {
    "mean trace of GPT-2": "section 5.2.3 GPT-2",
    "mean trace of OPT-125m": "section 5.2.3 OPT-125m",
    "ratio of the two": "section 5.2.3 ratio",
}
VARIANTS = {"multi_head": "trace of {}, all heads", "first_head": "trace of {}, first head"}
BY_MODEL = {
    H4_V2: {
        VARIANTS["multi_head"]: r"/results/\d+/mean_trace_multihead",
        VARIANTS["first_head"]: r"/results/\d+/mean_trace_full",
    },
    H4_EXTENDED: {VARIANTS["multi_head"]: r"/extended_results/\d+/mean_trace_mh"},
}
"""Mean traces in the files, whose larger models have none where a layer is no number."""


def load_layer_traces(tables: Evidence) -> pd.DataFrame:
    """Traces of every layer, of the first head and summed over heads."""
    return tables.table("attention", source=list(FILES), variant=list(VARIANTS), head="")


def summarise_traces(tables: Evidence) -> pd.DataFrame:
    """One row per model and file of stated behaviour: mean trace over the layers that are numbers,
    by variant.

    Columns besides: layers_missing, known_gain, behaviour; by_label and by_gain, whether the model
    expands. Of another set of evidence `source`, `multi_head` (exact traces added over heads) and
    `by_gain`, by the penultimate gain.
    """
    if tables.name in VIEWS:
        models = drop_unlabelled(model_rows(tables, incomparable=True), "heritage")
        heads = tables.table("attention", variant="exact").dropna(subset="trace")
        heads = heads[(heads["head"] != "") & heads["run_id"].notna()].merge(
            models[["model_id", "revision"]]
        )
        totals = heads.groupby(["model_id", "run_id", "layer", "prompt_id"])["trace"].sum()
        means = totals.groupby("model_id").mean()
        return models.assign(
            multi_head=models["model_id"].map(means), by_gain=models["gain"] > 1
        ).dropna(subset="multi_head")
    groups = load_layer_traces(tables).groupby(["source", "model_id", "heritage", "variant"])[
        "trace"
    ]
    wide = groups.mean().unstack("variant").reset_index()
    layers = groups.agg(lambda values: int(values.isna().sum())).unstack("variant").reset_index()
    wide["layers_missing"] = layers["multi_head"]
    wide = wide.merge(load_known_gains(tables, *FILES), on="model_id")
    wide = wide.assign(by_label=wide["behaviour"] == "EXPAND", by_gain=wide["known_gain"] > 1)
    return wide.sort_values(["source", "multi_head"], ignore_index=True)


def load_subsampled_traces(tables: Evidence) -> pd.Series[float]:
    """Mean trace by model of the file whose operator was subsampled."""
    rows = tables.table("attention", source=SUBSAMPLED, variant="subsampled", head="")
    return rows.groupby("model_id")["trace"].mean()


def trace_audit(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Stated mean traces and their recomputation; `rows` from `summarise_traces`."""
    published = load_stated(tables, STATED)
    for source, names in BY_MODEL.items():
        published |= load_stated_models(tables, source, names)
    small = rows[rows["source"] == H4_V2].set_index("model_id")["multi_head"]
    first = float(small[SMALLEST_GPT2])
    second = float(small[SMALL_OPT])
    reproduced = dict(zip(STATED, (first, second, first / second), strict=True))
    for (model, variant), value in (
        load_layer_traces(tables).groupby(["model_id", "variant"])["trace"].mean().items()
    ):
        name = VARIANTS[variant].format(strip_owner(model))
        if name in published:
            reproduced[name] = float(value)
    return Audit(published, reproduced)

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
    of_head = attention["head"] != ""
    heads = attention[(attention["variant"] == "exact") & of_head]
    of_head = weights["head"] != ""
    norms = weights[(weights["matrix"] == "W_V") & of_head]
    norms = norms[[*key, "layer", "head", "frobenius_norm"]]
    norms = norms.drop_duplicates([*key, "layer", "head"])
    prompt = [*key, "prompt_set", "prompt_id"]
    lengths = layers.dropna(subset="n_tokens").drop_duplicates(prompt)
    lengths = lengths[[*prompt, "n_tokens"]]
    heads = heads.dropna(subset="trace")
    rows = heads.merge(norms, on=[*key, "layer", "head"])
    rows = rows.merge(lengths, on=prompt)
    n = rows["n_tokens"].astype(float)
    squared = rows["frobenius_norm"].astype(float) ** 2
    trace = rows["trace"].astype(float)
    self_attention = rows["self_attention"].astype(float)
    by_formula = (n - n * self_attention) * squared
    off = (trace - by_formula).abs()
    residual = off / (n * squared)
    named = rows[["model_id", "heritage", "layer", "head", "prompt_id"]]
    return named.assign(trace=trace, by_formula=by_formula, residual=residual)


def compare_exact(attention: pd.DataFrame) -> pd.DataFrame:
    """One row per model: each trace of the study over the exact one, layer by layer and prompt by
    prompt, median."""
    with_trace = attention["trace"].notna()
    all_heads = attention[(attention["head"] == "") & with_trace]
    wide = all_heads.pivot_table(
        index=["model_id", "layer", "prompt_id"], columns="variant", values="trace", dropna=False
    )
    variants = ["exact", "first_head", "multi_head", "printed_factor"]
    wide = wide.reindex(columns=variants).astype(float).dropna()
    ratios = wide.drop(columns="exact").div(wide["exact"], axis=0)
    return ratios.groupby("model_id").median().reset_index()


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
        of_run = heads["run_id"].notna()
        heads = heads[(heads["head"] != "") & of_run]
        heads = heads.merge(models[["model_id", "revision"]])
        totals = heads.groupby(["model_id", "run_id", "layer", "prompt_id"])["trace"].sum()
        means = totals.groupby("model_id").mean()
        traces = models["model_id"].map(means)
        expands = models["gain"] > 1
        rows = models.assign(multi_head=traces, by_gain=expands)
        return rows.dropna(subset="multi_head")
    key = ["source", "model_id", "heritage", "variant"]
    groups = load_layer_traces(tables).groupby(key)["trace"]
    wide = groups.mean().unstack("variant").reset_index()
    missing = groups.agg(lambda values: int(values.isna().sum()))
    wide["layers_missing"] = missing.unstack("variant").reset_index()["multi_head"]
    gains = load_known_gains(tables, *FILES)
    wide = wide.merge(gains, on="model_id")
    expands = wide["behaviour"] == "EXPAND"
    wide = wide.assign(by_label=expands, by_gain=wide["known_gain"] > 1)
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
    small = rows[rows["source"] == H4_V2]
    small = small.set_index("model_id")["multi_head"]
    first = float(small[SMALLEST_GPT2])
    second = float(small[SMALL_OPT])
    values = (first, second, first / second)
    reproduced = dict(zip(STATED, values, strict=True))
    traces = load_layer_traces(tables).groupby(["model_id", "variant"])["trace"]
    for (model, variant), value in traces.mean().items():
        name = VARIANTS[variant].format(strip_owner(model))
        if name in published:
            reproduced[name] = float(value)
    return Audit(published, reproduced)

"""Numbers of W_V and W_O that no change of weights moves which leaves the outputs: `ov_read` and the balanced ratio.

    ov_read_h = m ‖P W_O,h W_V,h diag(γ) P‖₂ / ‖P x_(l−1)‖,   balanced ratio = ‖W_V‖₂ / ‖W_O‖₂ of the balanced pair

Both are of layers; of runs without the columns that they are made of, which older versions measured, there are none.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.tables import store
from thermostats.tables.features import as_read
from thermostats.tables.vocabulary import MODEL

BY_LAYER = [*MODEL, "layer"]
READ, BALANCED = "the read gain and the centred writes", "ov_read and the balanced ratio"
"""What rows of older versions may lack."""


def ov_read(data: str | Path | None = None, *, position: str = "last") -> pd.DataFrame:
    """`ov_read` by model, revision, source, layer and head, at one token, as a geometric mean over prompts.

    None of post-norm models, and none where a norm follows what attention writes.
    """
    runs, models, layers = (store.load(name, data) for name in ("runs", "models", "layers"))
    return ov_read_of(runs, store.load("weights", data), as_read(layers, runs, models), position)


def ov_read_of(runs: pd.DataFrame, weights: pd.DataFrame, layers: pd.DataFrame, position: str = "last") -> pd.DataFrame:
    """The same from tables at hand."""
    of_heads = weights[weights["matrix"].eq("OV") & weights["ov_read_norm"].notna()]
    norms = layers[layers["position"].eq(position) & layers["read_norm"].notna()]
    by_run = runs[["run_id", *MODEL]]
    read = norms.assign(log=np.log(norms["read_norm"])).merge(by_run, on="run_id").groupby(BY_LAYER)["log"].mean()
    heads = of_heads.merge(by_run, on="run_id").drop_duplicates([*BY_LAYER, "head"])
    both = heads.merge(read.reset_index(), on=BY_LAYER)
    return both.assign(ov_read=both["ov_read_norm"] / np.exp(both["log"]))[[*BY_LAYER, "head", "ov_read"]]


def balanced_ratio(data: str | Path | None = None) -> pd.DataFrame:
    """The balanced ratio by model, revision, source and layer; none of post-norm models."""
    return balanced_ratio_of(store.load("runs", data), store.load("weights", data))


def balanced_ratio_of(runs: pd.DataFrame, weights: pd.DataFrame) -> pd.DataFrame:
    """The same from tables at hand."""
    whole = weights[weights["head"].eq("") & weights["balanced_norm"].notna() & weights["matrix"].isin(["W_V", "W_O"])]
    named = whole.merge(runs[["run_id", *MODEL]], on="run_id").drop_duplicates([*BY_LAYER, "matrix"])
    wide = named.pivot_table(index=BY_LAYER, columns="matrix", values="balanced_norm").reset_index()
    wide = wide.reindex(columns=[*BY_LAYER, "W_V", "W_O"])
    return wide.assign(balanced_ratio=wide["W_V"] / wide["W_O"])[[*BY_LAYER, "balanced_ratio"]].rename_axis(
        columns=None
    )


def unread(runs: pd.DataFrame, models: pd.DataFrame, layers: pd.DataFrame, weights: pd.DataFrame) -> pd.DataFrame:
    """Runs whose rows lack what older versions did not measure: model_id, revision, run_id, lacks.

    Where norms do not subtract the mean the gains are read gains, and nothing lacks; post-norm models have none.
    """
    facts = models.loc[models["norm_place"] != "post", ["model_id", "revision", "norm_kind"]]
    concerned = runs[["run_id", "model_id", "revision"]].merge(facts, on=["model_id", "revision"])
    lacking = []
    for rows, column, what in ((layers, "read_norm", READ), (weights, "balanced_norm", BALANCED)):
        measured = set(rows.loc[rows[column].notna(), "run_id"])
        there = concerned[concerned["run_id"].isin(set(rows["run_id"]) - measured)]
        there = there[there["norm_kind"] == "LayerNorm"] if what == READ else there
        lacking.append(there.assign(lacks=what))
    return pd.concat(lacking, ignore_index=True)[["model_id", "revision", "run_id", "lacks"]]

"""Numbers of W_V and W_O that no change of weights moves which leaves the outputs: `ov_read`
and the balanced ratio.

    ov_read_h      = m ‖P W_O,h W_V,h diag(γ) P‖₂ / ‖P x_(l−1)‖
    balanced ratio = ‖W_V‖₂ / ‖W_O‖₂  of the balanced pair

Both are of layers; of runs without the columns that they are made of, which older versions
measured, there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import build_unknown_error
from thermostats.tables import store
from thermostats.tables.features import fill_read_gains
from thermostats.tables.folders import MOVES, find_shipped
from thermostats.tables.frames import select_rows
from thermostats.tables.schemas import MODEL

BY_LAYER = [*MODEL, "layer"]
READ, BALANCED = "the read gain and the centred writes", "ov_read and the balanced ratio"
"""What rows of older versions may lack."""


def load_ov_read(data: str | Path | None = None, *, position: str = "last") -> pd.DataFrame:
    """`ov_read` by model, revision, source, layer and head, at one token, as a geometric mean
    over prompts.

    None of post-norm models, and none where a norm follows what attention writes.
    """
    runs = store.load("runs", data)
    models = store.load("models", data)
    layers = fill_read_gains(store.load("layers", data), runs, models)
    return compute_ov_read(runs, store.load("weights", data), layers, position)


def compute_ov_read(
    runs: pd.DataFrame, weights: pd.DataFrame, layers: pd.DataFrame, position: str = "last"
) -> pd.DataFrame:
    """The same from tables at hand."""
    of_heads = select_rows(weights, matrix="OV").dropna(subset="ov_read_norm")
    norms = select_rows(layers, position=position).dropna(subset="read_norm")
    by_run = runs[["run_id", *MODEL]]
    logs = norms.assign(log=np.log(norms["read_norm"])).merge(by_run, on="run_id")
    read = logs.groupby(BY_LAYER)["log"].mean()
    heads = of_heads.merge(by_run, on="run_id").drop_duplicates([*BY_LAYER, "head"])
    both = heads.merge(read.reset_index(), on=BY_LAYER)
    both["ov_read"] = both["ov_read_norm"] / np.exp(both["log"])
    return both[[*BY_LAYER, "head", "ov_read"]]


def load_balanced_ratio(data: str | Path | None = None) -> pd.DataFrame:
    """The balanced ratio by model, revision, source and layer; none of post-norm models."""
    return compute_balanced_ratio(store.load("runs", data), store.load("weights", data))


def compute_balanced_ratio(runs: pd.DataFrame, weights: pd.DataFrame) -> pd.DataFrame:
    """The same from tables at hand."""
    matrices = select_rows(weights, head="", matrix=["W_V", "W_O"]).dropna(subset="balanced_norm")
    named = matrices.merge(runs[["run_id", *MODEL]], on="run_id")
    named = named.drop_duplicates([*BY_LAYER, "matrix"])
    wide = named.pivot_table(index=BY_LAYER, columns="matrix", values="balanced_norm").reset_index()
    wide = wide.reindex(columns=[*BY_LAYER, "W_V", "W_O"])
    wide["balanced_ratio"] = wide["W_V"] / wide["W_O"]
    return wide[[*BY_LAYER, "balanced_ratio"]].rename_axis(columns=None)


def find_unread(
    runs: pd.DataFrame, models: pd.DataFrame, layers: pd.DataFrame, weights: pd.DataFrame
) -> pd.DataFrame:
    """Runs whose rows lack what older versions did not measure: model_id, revision, run_id, lacks.

    Where norms do not subtract the mean the gains are read gains, and nothing lacks; post-norm
    models have none.
    """
    facts = models.loc[models["norm_place"] != "post", ["model_id", "revision", "norm_kind"]]
    concerned = runs[["run_id", "model_id", "revision"]].merge(facts, on=["model_id", "revision"])
    lacking = []
    for rows, column, what in ((layers, "read_norm", READ), (weights, "balanced_norm", BALANCED)):
        measured = set(rows.loc[rows[column].notna(), "run_id"])
        unmeasured = set(rows["run_id"]) - measured
        there = select_rows(concerned, run_id=unmeasured)
        if what == READ:
            there = select_rows(there, norm_kind="LayerNorm")
        lacking.append(there.assign(lacks=what))
    return pd.concat(lacking, ignore_index=True)[["model_id", "revision", "run_id", "lacks"]]


ALLOWED = {
    "heads": "This can be done to every model whose values go from W_V to W_O unclipped and with "
    "no norm between them; "
    "heads that share values share the factor."
}
"""Which models allow a change, in words for pages; `measurement/gauge.py` asks it of a model's
weights."""
CLASSES = "classes"
"""Model of the rows that are over tiny models of several classes with random weights."""


@cache
def read_table() -> pd.DataFrame:
    """Every row: model, change, how, table, quantity, before, after, moved.

    A change leaves every output of the model as it is; `how` says it in words. `before` and `after`
    are means over the rows of that quantity. `moved` is the largest |x' − x| over its rows, over
    the largest |x|: 0 where it is rounding, infinite where numbers came or went. Of `CLASSES` it is
    the largest over them, and there are no means.
    """
    return pd.read_csv(find_shipped("data") / MOVES, keep_default_na=False, na_values=[""])


def find_moves(quantity: str, *, shipped_only: bool = True) -> pd.DataFrame:
    """Rows of `read_table` in which a quantity was moved, the farthest first; empty: no change that
    was tried moves it.

    quantity: a column of `features` or of a table of runs, of some with "of" and the matrix or
    variant, such as `wv_wo_ratio`, `penultimate_gain`, `trace of exact`. shipped_only: on trained
    models alone, else of `CLASSES` too.

    Raises UsageError for a quantity that is not in the table.
    """
    rows = read_table()
    if quantity not in set(rows["quantity"]):
        raise build_unknown_error("no such quantity", quantity, sorted(set(rows["quantity"])))
    chosen = select_rows(rows, quantity=quantity)
    chosen = chosen[chosen["moved"] > 0]
    chosen = chosen[chosen["model"] != CLASSES] if shipped_only else chosen
    return chosen.sort_values("moved", ascending=False, kind="stable", ignore_index=True)


def read_effects(model: str, how: str) -> dict[str, Mapping[str, Any]]:
    """What one change does to one model: rows of `read_table` by quantity, each with before, after
    and moved.

    how: the change in the words of the table. Raises UsageError for a model or a change that is not
    in the table.
    """
    rows = read_table()
    for column, name, what in (("model", model, "model"), ("how", how, "change")):
        if name not in set(rows[column]):
            raise build_unknown_error(
                f"the table of moves has no such {what}", name, sorted(set(rows[column]))
            )
        rows = rows[rows[column] == name]
    return {str(row["quantity"]): row for row in rows.to_dict("records")}


def list_raw_and_read() -> pd.DataFrame:
    """Trained models of `read_table` with both penultimate gains on the same prompts: columns raw
    and read, by model."""
    names = {"penultimate_gain": "raw", "penultimate_read_gain": "read"}
    rows = select_rows(read_table(), quantity=names)
    trained = rows[rows["model"] != CLASSES].drop_duplicates(["model", "quantity"])
    both = trained.pivot(index="model", columns="quantity", values="before")
    return both.rename(columns=names).dropna()

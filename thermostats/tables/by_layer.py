"""Rows of the table `layers` of chosen models, prompt by prompt: for figures over depth and differences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import UsageError, nearest, unknown
from thermostats.next_steps import command
from thermostats.tables import store
from thermostats.tables.features import LAST

QUANTITIES = {
    "gain": "gain_block",
    "norm": "norm_in",
    "read gain": "gain_read",
    "attention gain": "gain_attention",
    "mlp gain": "gain_mlp",
}
"""What is drawn over depth → its column of the table `layers`."""
OWN = "thermostats"
"""Source of runs that this package measured, which are taken before others'."""
COLUMNS = ["model", "run_id", "prompt_set", "prompt", "layer", "value"]


def column_of(quantity: str) -> str:
    """The column of a quantity; raises UsageError for one that there is not."""
    if quantity not in QUANTITIES:
        raise unknown("no such quantity of a block", quantity, QUANTITIES, where="quantity")
    return QUANTITIES[quantity]


def name_of(model: str | Path) -> str:
    """What a model is called in the tables: a folder by its own name."""
    path = Path(model)
    return path.resolve().name if path.is_dir() else str(model)


def values_of(
    model: str | Path, quantity: str = "gain", position: str = LAST, data: str | Path | None = None
) -> pd.DataFrame:
    """A quantity of a model in every run that has it: `COLUMNS`, the runs of this package first, of these the newest.

    model: its name in the tables, with or without its owner, or its folder; behind an @ a revision. A prompt is its
    text, or its name where the text is not known; an empty one stands for a mean over prompts.

    Raises UsageError for a quantity or position that there is not, and for a model without such rows.
    """
    column = column_of(quantity)
    name, _, revision = name_of(model).partition("@")
    runs = store.load("runs", data)
    owned = runs["model_id"].eq(name) | runs["model_id"].str.casefold().str.endswith(f"/{name.casefold()}")
    runs = runs[owned & (runs["revision"].eq(revision) if revision else True)]
    step = command("measure", str(model), what="gains", data=data or "mine")
    if runs.empty:
        raise UsageError("nothing is measured of this model", where="models", got=str(model), next_step=step)
    layers = store.load("layers", data, runs=set(runs["run_id"]))
    layers = layers[layers["run_id"].isin(runs["run_id"])]
    at_token = layers[layers["position"].eq(position)].dropna(subset=column)
    if at_token.empty:
        there = sorted(set(layers.dropna(subset=column)["position"]))
        allowed = f"{quantity} at {', '.join(there)}" if there else "a model with rows of its blocks"
        what = "the model has no such rows of its blocks"
        got = f"{quantity} at {position} of {model}"
        step = f"position={nearest(position, there) or there[-1]!r}" if there else step
        raise UsageError(what, where="models", got=got, allowed=allowed, next_step=step)
    order = runs.assign(others=~runs["source"].str.startswith(OWN)).sort_values(
        ["others", "measured_at", "run_id"], ascending=[True, False, True]
    )
    rows = order[["run_id", "prompt_set"]].merge(at_token, on="run_id", how="inner")
    return pd.DataFrame(
        {
            "model": str(model),
            "run_id": rows["run_id"],
            "prompt_set": rows["prompt_set"],
            "prompt": _texts(rows, data),
            "layer": rows["layer"].astype("int64"),
            "value": rows[column].astype("float64"),
        },
        columns=COLUMNS,
    )


def _texts(rows: pd.DataFrame, data: str | Path | None) -> pd.Series:
    key = ["prompt_set", "prompt_id"]
    prompts = store.load("prompts", data)[[*key, "text"]]
    texts = rows[key].merge(prompts, on=key, how="left")["text"]
    texts.index = rows.index
    named = rows["prompt_set"] + ":" + rows["prompt_id"]
    known = texts.fillna("").ne("")
    return texts.where(known, named.where(rows["prompt_id"].ne(""), ""))


def shared_runs(sides: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Of each model the rows of one run: the first of a prompt set that all have, else the first of each."""
    sets = [list(dict.fromkeys(side["prompt_set"])) for side in sides]
    common = [name for name in sets[0] if all(name in other for other in sets)]
    chosen = []
    for side in sides:
        rows = side[side["prompt_set"].eq(common[0])] if common else side
        chosen.append(rows[rows["run_id"].eq(rows["run_id"].iloc[0])])
    return chosen


def overview(runs: Mapping[str, Collection[str]], data: str | Path | None = None) -> list[dict[str, Any]]:
    """Of each model by its runs one row: L, gains of the last two blocks, read gain of the last, and the lowest block.

    All are means over prompts at the last token. Models without such rows have none.
    """
    wanted = {run for names in runs.values() for run in names}
    layers = store.load("layers", data, runs=wanted)
    layers = layers[layers["run_id"].isin(wanted) & layers["position"].eq(LAST)]
    table = []
    for model, names in runs.items():
        rows = layers[layers["run_id"].isin(list(names))]
        means = rows.groupby("layer")[["gain_block", "gain_read"]].mean()
        if means["gain_block"].isna().all():
            continue
        depth = int(means.index.max())
        table.append(
            {
                "model": model,
                "L": depth,
                "last_gain": float(means["gain_block"].iloc[-1]),
                "penultimate_gain": float(means["gain_block"].iloc[-2]) if depth > 1 else None,
                "last_read_gain": None if pd.isna(means["gain_read"].iloc[-1]) else float(means["gain_read"].iloc[-1]),
                "lowest_block": int(means["gain_block"].idxmin()),
            }
        )
    return table

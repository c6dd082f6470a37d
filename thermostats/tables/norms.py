"""Gains from norms of the stream as other tools list them, one row per state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import DataError, UsageError, unknown
from thermostats.tables.cells import NUMBER, numbers_of

ENTRIES = {"state": "column of states, 0 to L or hook names", "norm": "column of norms", "last": "stream or normed"}
"""What `[norms]` of a mapping file says."""
LAST = ("stream", "normed")
HOOK = re.compile(r"blocks\.(\d+)\.hook_resid_(pre|post)")
AGREE = 1e-4
"""Relative difference of two norms for one state."""


def gains_from_norms(frame: pd.DataFrame, norms: Mapping[str, Any], where: object) -> pd.DataFrame:
    """G_l = n_l / n_(l−1): `layer` l, `norm_in` n_(l−1) and `gain_block` G_l in the place of states and norms.

    States are numbers from 0 (what enters block 1) to L, or TransformerLens hooks: `blocks.3.hook_resid_post` is state
    4, `blocks.3.hook_resid_pre` state 3. All other columns say whose norms they are. last: whether the last state is
    the stream, or `normed` as the hidden states of transformers are; then the gain of block L is not known, and no row
    is made. first: our number of their state 0, where that is not what enters block 1.

    Raises UsageError where an entry or a column is missing, DataError for states that are no states, norms that are not
    above 0, and two norms for one state.
    """
    for name, what in ENTRIES.items():
        if name not in norms:
            raise UsageError(f"[norms] lacks {name}", where=where, allowed=what)
    if norms["last"] not in LAST:
        raise unknown("no such kind of last state", norms["last"], LAST, where=where)
    for name in ("state", "norm"):
        if norms[name] not in frame:
            raise unknown(f"the column of {name}s is missing", norms[name], map(str, frame), where=where)
    others = [name for name in frame if name not in (norms["state"], norms["norm"])]
    first = int(norms.get("first", 0))
    rows = frame[others].assign(state=[first + _state(value, where) for value in frame[norms["state"]]])
    rows["norm"] = numbers_of(frame[norms["norm"]])[0]
    if wrong := frame.loc[~(rows["norm"] > 0), norms["norm"]].tolist():
        raise DataError("a norm is a number above 0", where=where, got=repr(wrong[0]))
    by = [*others, "state"]
    spread = rows.groupby(by, dropna=False)["norm"].agg(["min", "max"])
    if (spread["max"] > spread["min"] * (1 + AGREE)).any():
        raise DataError("two norms for one state", where=where, got=str(spread.idxmax()["max"]))
    rows = rows.drop_duplicates(by).sort_values(by)
    whose = rows.groupby(others, dropna=False) if others else rows.groupby(np.zeros(len(rows)))
    before, last = whose[["state", "norm"]].shift(), whose["state"].transform("max")
    follows = rows["state"] == before["state"] + 1
    if norms["last"] == "normed":
        follows &= rows["state"] < last
    made = rows.assign(layer=rows["state"], norm_in=before["norm"], gain_block=rows["norm"] / before["norm"])
    return made[follows].drop(columns=["state", "norm"]).reset_index(drop=True)


def _state(value: object, where: object) -> int:
    if hook := HOOK.fullmatch(str(value)):
        return int(hook[1]) + (hook[2] == "post")
    number = float(str(value)) if NUMBER.fullmatch(str(value)) else -1.0
    if number < 0 or number != int(number):
        allowed = "0 to L, or blocks.0.hook_resid_pre to blocks.(L-1).hook_resid_post"
        raise DataError("not a state of the stream", where=where, got=repr(value), allowed=allowed)
    return int(number)

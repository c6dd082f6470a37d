"""What moves a quantity though no output of the model moves: `data/gauge.csv`, made by `scripts/gauge_table.py`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pandas as pd

from thermostats.errors import unknown
from thermostats.tables.folders import shipped

CLASSES = "classes"
"""Model of the rows that are over tiny models of several classes with random weights."""


@cache
def table() -> pd.DataFrame:
    """Every row: model, change, how, table, quantity, before, after, moved.

    A change leaves every output of the model as it is; `how` says it in words. `before` and `after` are means over the
    rows of that quantity. `moved` is the largest |x' − x| over its rows, over the largest |x|: 0 where it is rounding,
    infinite where numbers came or went. Of `CLASSES` it is the largest over them, and there are no means.
    """
    return pd.read_csv(shipped("data") / "gauge.csv", keep_default_na=False, na_values=[""])


def what_moves(quantity: str, *, shipped_only: bool = True) -> pd.DataFrame:
    """Rows of `table` in which a quantity was moved, the farthest first; empty: no change that was tried moves it.

    quantity: a column of `features` or of a table of runs, of some with "of" and the matrix or variant, such as
    `wv_wo_ratio`, `penultimate_gain`, `trace of exact`. shipped_only: on trained models alone, else of `CLASSES` too.

    Raises UsageError for a quantity that is not in the table.
    """
    rows = table()
    if quantity not in set(rows["quantity"]):
        raise unknown("no such quantity", quantity, sorted(set(rows["quantity"])))
    chosen = rows[(rows["quantity"] == quantity) & (rows["moved"] > 0)]
    chosen = chosen[chosen["model"] != CLASSES] if shipped_only else chosen
    return chosen.sort_values("moved", ascending=False, kind="stable", ignore_index=True)


def effects(model: str, how: str) -> dict[str, Mapping[str, Any]]:
    """What one change does to one model: rows of `table` by quantity, each with before, after and moved.

    how: the change in the words of the table. Raises UsageError for a model or a change that is not in the table.
    """
    rows = table()
    for column, name, what in (("model", model, "model"), ("how", how, "change")):
        if name not in set(rows[column]):
            raise unknown(f"the table of moves has no such {what}", name, sorted(set(rows[column])))
        rows = rows[rows[column] == name]
    return {str(row["quantity"]): row for row in rows.to_dict("records")}

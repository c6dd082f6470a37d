"""What leaving one block out does to the gains of the others, from rows of `interventions`.

moved   log of a gain without the block less the log with it;  the product is that of the gains
of blocks 2 to L − 1, of which a block that is left out has 1
share   Σ own_i moved_i / Σ own_i²,  own_i the block's own log gain before:  −1 where the others
grow as before, 0 where they make up for it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from thermostats.tables.frames import list_records

LEFT_OUT = r"without block (\d+)"
COLUMNS = ["model_id", "revision", "block", "n_blocks", "own", "product", "penultimate", "kl"]
LEAST_DEPTH = 4
"""Blocks of a model that has an inner one besides the penultimate."""


def list_left_out(rows: pd.DataFrame) -> pd.DataFrame:
    """Inner blocks, 2 to L − 1, that were left out by themselves, a row a model and block.

    Columns: model_id, revision, block, n_blocks; own: the block's log gain before; product and
    penultimate: how far the logs of the product and of the penultimate gain moved, the latter NaN
    of the penultimate block itself; kl, nats a token. Of several runs of a model the first counts.
    """
    done = rows[rows["operation"] == "do"]
    blocks = done["what"].str.extract(f"^{LEFT_OUT}$")[0]
    done = done.assign(block=blocks)[blocks.notna()]
    made = []
    for row in list_records(done.drop_duplicates(COLUMNS[:3])):
        made.append(_measure_moves(row, int(row["block"])))
    every = pd.DataFrame(made, columns=COLUMNS)
    inner = (every["block"] > 1) & (every["block"] < every["n_blocks"])
    return every[inner & (every["n_blocks"] >= LEAST_DEPTH)].reset_index(drop=True)


def _measure_moves(row: Mapping[str, Any], block: int) -> dict[str, Any]:
    """What one row says, as a row of `list_left_out`."""
    before, after = (_read_logs(row[name]) for name in ("gains_before", "gains_after"))
    inner = slice(1, len(before) - 1)
    is_penultimate = block == len(before) - 1
    product = after[inner].sum() - before[inner].sum()
    penultimate = np.nan if is_penultimate else (after - before)[inner][-1]
    return {
        "model_id": row["model_id"],
        "revision": row["revision"],
        "block": block,
        "n_blocks": len(before),
        "own": before[block - 1],
        "product": product,
        "penultimate": penultimate,
        "kl": row["kl"],
    }


def _read_logs(text: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Log gains of a model's blocks, the first one first."""
    gains = json.loads(text)
    depth = sum(name.startswith("block ") for name in gains)
    numbers = range(1, depth + 1)
    return np.log([gains[f"block {number}"] for number in numbers])


def describe_left_out(rows: pd.DataFrame) -> dict[str, Any] | None:
    """Numbers for sentences about `rows` of `interventions`; None where no inner block was left
    out.

    models, blocks; share: by how much of the block's own log gain the log of the product moves;
    penultimate: the median factor of the penultimate gain; larger of others: how many of how many
    blocks it grew without.
    """
    found = list_left_out(rows)
    if found.empty:
        return None
    own = found["own"]
    moved = found["product"]
    others = found["penultimate"].dropna()
    share = (own * moved).sum() / (own**2).sum()
    median_factor = np.exp(others.median())
    return {
        "models": int(found["model_id"].nunique()),
        "blocks": len(found),
        "share": float(share),
        "fell": int((moved < 0).sum()),
        "penultimate": float(median_factor),
        "larger": int((others > 0).sum()),
        "others": len(others),
    }

"""Pairs of a trained model and one tuned from it: whether a gain crosses 1 and by how much it changes, and worlds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import AtLeast, Decide, V
from thermostats.claims.worlds import worlds_of_share
from thermostats.modelling.classical.counts import clustered_share

SOME, MANY, SHOULD = 0.01, 0.10, 0.20
"""Crossings in more than 1% are some; in fewer than 10% tuning as good as never crosses; 20% should be found."""
TUNED, CROSSED = AtLeast(models=40), V("share of pairs that cross 1")
CAN_CROSS = Decide(CROSSED.lower > SOME, CROSSED.upper < MANY)
ACROSS = worlds_of_share("flips", SHOULD, 0.0, "pair")


def by_bases(rows: pd.DataFrame) -> Result:
    """Share of pairs that cross 1 clearly."""
    return Result.of(rows, {CROSSED.name: Estimate.of(clustered_share(rows["flips"], rows["pair"]))})


def crossings(rows: pd.DataFrame) -> dict[str, Any]:
    """Pairs that cross 1 by kind, of how many bases, and from how far."""
    crossing = rows[rows["flips"]]
    far = crossing["base"].abs()
    within = rows["base"].abs() <= (far.max() if len(far) else 0)
    return {
        "flips": len(crossing),
        "pairs": len(rows),
        "kinds": rows.groupby("kind")["flips"].agg(["sum", "size"]).to_dict("index"),
        "bases": rows["pair"].nunique(),
        "crossed": crossing["pair"].nunique(),
        "dampened": int(rows.drop_duplicates("pair")["dampens"].sum()),
        "downwards": int((crossing["base"] > 0).sum()),
        "farthest": float(np.exp(crossing["base"].loc[far.idxmax()])) if len(far) else None,
        "as_near": int(within.sum()),
    }

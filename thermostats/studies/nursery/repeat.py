"""Hold models trained again against the tables that ship: the same recipe, seed and code must give the same gains."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import DataError
from thermostats.measurement.execute import execute
from thermostats.studies.nursery.measuring import rows_of_models, specs, trained_models
from thermostats.tables import store
from thermostats.tables.folders import shipped

TOLERANCE = 0.05
"""Largest difference of a model's mean log gain that counts as the same, in nat: on another processor sums are rounded
otherwise, and training carries the difference on. With initial weights changed by one part in ten million, three models
ended 0.000, 0.001 and 0.011 apart; on one machine and torch build gains agree to 1e-6."""


def compare(rows: Sequence[Mapping[str, Any]], folder: Path) -> pd.DataFrame:
    """Gains of trained models, measured anew, beside the shipped ones; one row a model and checkpoint.

    Columns: model, checkpoint, rows (layers × prompts at the last token), largest (|difference| of log G_l of one row),
    shipped and again (mean log G_l over layers and prompts, nat), difference, same (|difference| <= TOLERANCE).

    Raises DataError where none of the models is trained or shipped.
    """
    known = store.load("runs", shipped("data"))
    layers = store.load("layers", shipped("data")).merge(known[["run_id", "model_id", "revision"]], on="run_id")
    found = []
    for row, trained in trained_models(rows, folder):
        again = _measured(row, folder, trained)
        for (model, checkpoint), part in again.groupby(["model_id", "revision"], sort=True):
            old = layers[(layers["model_id"] == model) & (layers["revision"] == checkpoint)]
            both = _logs(part).to_frame("again").join(_logs(old).rename("shipped"), how="inner").dropna()
            if len(both):
                found.append(_line(model, checkpoint, both))
    if not found:
        raise DataError(
            "nothing to compare: no model is both trained here and in the shipped tables",
            where=folder,
            next_step=f"thermostats nursery train --recipe r05 --folder {folder}",
        )
    return pd.DataFrame(found)


def _measured(row: Mapping[str, Any], folder: Path, trained: Any) -> pd.DataFrame:
    """Rows of `layers` measured afresh, in a folder of its own that knows nothing but the prompts."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        shutil.copy(shipped("data") / "prompts.csv", place)
        store.save(rows_of_models(row, folder, trained), "models", place / "models.csv")
        for outcome in execute(specs(row, folder, trained), place):
            if outcome.status == "failed":
                raise DataError("a model trained here cannot be measured", where=outcome.model, got=outcome.reason)
        runs = store.load("runs", place)[["run_id", "model_id", "revision"]]
        return store.load("layers", place).merge(runs, on="run_id")


def _logs(layers: pd.DataFrame) -> pd.Series:
    last = layers[layers["position"] == "last"]
    return np.log(last.set_index(["layer", "prompt_id"])["gain_block"].astype("float64"))


def _line(model: str, checkpoint: str, both: pd.DataFrame) -> dict[str, Any]:
    means = both.mean()
    difference = float(means["again"] - means["shipped"])
    return {
        "model": model,
        "checkpoint": checkpoint,
        "rows": len(both),
        "largest": float((both["again"] - both["shipped"]).abs().max()),
        "shipped": float(means["shipped"]),
        "again": float(means["again"]),
        "difference": difference,
        "same": abs(difference) <= TOLERANCE,
    }

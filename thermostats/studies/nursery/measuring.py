"""Trained models to rows of the tables, as any other; the shipped records of training; comparing a repeated training.

Runs have the source `nursery`, model_id nursery/MODEL and the checkpoint as revision. Gains and outputs are
measured at every checkpoint, spectra of weights and attention at the last.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import DataError
from thermostats.measurement.execute import execute
from thermostats.measurement.model_row import model_row
from thermostats.measurement.session import Outcome
from thermostats.measurement.spec import RunSpec
from thermostats.studies.nursery.plan import (
    GAINS,
    Trained,
    model_folder,
    read_record,
    shipped_table,
    step_folder,
    tuned_name,
)
from thermostats.tables import store
from thermostats.tables.folders import shipped, writable_folder
from thermostats.tables.join import join
from thermostats.tables.vocabulary import NURSERY

PROMPTS = "nursery"
EARLY = ("gains", "outputs")
LAST = (*EARLY, "weights", "attention")


def model_id(model: str) -> str:
    """Name of a nursery model in the tables."""
    return f"{NURSERY}/{model}"


def checkpoints(folder: Path, trained: Trained) -> list[int]:
    """Steps whose checkpoints are there."""
    return sorted(int(path.name.removeprefix("step")) for path in model_folder(folder, trained.model).glob("step*"))


def specs(row: Mapping[str, Any], folder: Path, trained: Trained) -> list[RunSpec]:
    """What to measure of a trained model of a row of the design; its rows of `models` come from `rows_of_models`."""
    return [
        RunSpec(
            str(step_folder(folder, trained.model, step)),
            revision=f"step{step:05d}",
            prompts=PROMPTS,
            what=LAST if step == trained.steps else EARLY,
            device="cpu",
            name=model_id(trained.model),
            source=NURSERY,
            download=False,
        )
        for step in checkpoints(folder, trained)
    ]


def rows_of_models(row: Mapping[str, Any], folder: Path, trained: Trained) -> pd.DataFrame:
    """Rows of the table `models`, one a checkpoint: recipe as family, position scheme as trained.

    Variant: base at the end of training, instruct at the end of fine-tuning, empty before.
    """
    kind = "instruct" if trained.parent else "base"
    rows = []
    for step in checkpoints(folder, trained):
        facts = model_row(
            step_folder(folder, trained.model, step),
            model_id=model_id(trained.model),
            revision=f"step{step:05d}",
            known=pd.DataFrame({"model_id": [], "heritage": []}),
            heritage=NURSERY,
        )
        facts |= {
            "family": row["recipe"],
            "variant": kind if step == trained.steps else "",
            "source": NURSERY,
            "seed_of": "" if trained.parent or not row["replicate_of"] else model_id(row["replicate_of"]),
            "parent": model_id(trained.parent.partition("/")[0]) if trained.parent else "",
            "position_scheme": row["position"],
        }
        rows.append(facts)
    return store.validate(pd.DataFrame(rows), "models")


def measure_all(
    rows: Sequence[Mapping[str, Any]], folder: Path, data: str | Path | None = None
) -> Iterator[tuple[str, Outcome]]:
    """Measure every checkpoint of the trained models of these rows and of those tuned from them; yields
    model and outcome.

    Finished measurements are skipped.
    """
    place = writable_folder(data)
    known = set(store.load("models", place)[["model_id", "revision"]].itertuples(index=False, name=None))
    for row, trained in trained_models(rows, folder):
        names = {(model_id(trained.model), f"step{step:05d}") for step in checkpoints(folder, trained)}
        if not names <= known:
            join([rows_of_models(row, folder, trained)], data=place)
        for outcome in execute(specs(row, folder, trained), place):
            yield trained.model, outcome


def trained_models(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[tuple[Mapping[str, Any], Trained]]:
    """Rows of the design with the records of their finished trainings, then with those of fine-tuning."""
    both = [(row, name) for name in (str, tuned_name) for row in rows]
    records = ((row, read_record(folder, name(row["model"]))) for row, name in both)
    return [(row, record) for row, record in records if record is not None]


TOLERANCE = 0.05
"""Largest difference of a model's mean log gain that counts as the same, in nat: on another processor sums are rounded
otherwise, and training carries the difference on. With initial weights changed by one part in ten million, three models
ended 0.000, 0.001 and 0.011 apart; on one machine and torch build gains agree to 1e-6."""


def compare(rows: Sequence[Mapping[str, Any]], folder: Path, *, second: bool = False) -> pd.DataFrame:
    """Gains of trained models, measured again, next to the shipped ones; one row per model and checkpoint.

    second: the models are the second study's, whose gains are kept along the training as means over prompts.

    Columns: model, checkpoint, rows (layers × prompts at the last token), largest (|difference| of log G_l of one row),
    shipped and again (mean log G_l over layers and prompts, nat), difference, same (|difference| <= TOLERANCE).

    Raises DataError where none of the models is trained or shipped.
    """
    before = (_kept(shipped_table("gains")) if second else _logs(shipped("data"))).rename("shipped")
    both = []
    for row, trained in trained_models(rows, folder):
        if second:
            own = pd.read_csv(model_folder(folder, trained.model) / GAINS).assign(model=trained.model)
        again = _kept(own) if second else _measured(row, folder, trained)
        both.append(again.to_frame("again").join(before, how="inner").dropna())
    if not any(map(len, both)):
        raise DataError(
            "nothing to compare: no model is both trained here and in the shipped tables",
            where=folder,
            next_step=f"thermostats nursery train --recipe r05 --folder {folder}",
        )
    logs = pd.concat(both)
    logs["gap"] = (logs["again"] - logs["shipped"]).abs()
    groups = logs.groupby(level=["model", "checkpoint"], sort=False)
    table = groups.agg(
        rows=("gap", "size"), largest=("gap", "max"), shipped=("shipped", "mean"), again=("again", "mean")
    )
    table["difference"] = table["again"] - table["shipped"]
    return table.assign(same=table["difference"].abs() <= TOLERANCE).reset_index()


def _kept(gains: pd.DataFrame) -> pd.Series:
    """Log gains of the second study's table, by model, checkpoint and layer."""
    steps = "step" + gains["step"].map("{:05d}".format)
    return gains.assign(checkpoint=steps).set_index(["model", "checkpoint", "layer"])["log_gain"].astype("float64")


def _measured(row: Mapping[str, Any], folder: Path, trained: Trained) -> pd.Series:
    """Log gains measured afresh, in a folder of its own that knows nothing but the prompts."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        shutil.copy(shipped("data") / "prompts.csv", place)
        store.save(rows_of_models(row, folder, trained), "models", place / "models.csv")
        for outcome in execute(specs(row, folder, trained), place):
            if outcome.status == "failed":
                raise DataError("a model trained here cannot be measured", where=outcome.model, got=outcome.reason)
        return _logs(place)


def _logs(data: Path) -> pd.Series:
    """Log gains at the last token of a data folder, by model, checkpoint, layer and prompt."""
    runs = store.load("runs", data)[["run_id", "model_id", "revision"]]
    layers = store.load("layers", data).merge(runs, on="run_id").query("position == 'last'")
    layers = layers.rename(columns={"model_id": "model", "revision": "checkpoint"})
    key = ["model", "checkpoint", "layer", "prompt_id"]
    return np.log(layers.set_index(key)["gain_block"].astype("float64")).sort_index(kind="stable")

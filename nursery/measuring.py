"""Trained models to rows of the tables, as any other; comparing a repeated training with the
shipped one.

Runs have the source `nursery`, model_id nursery/MODEL and the last checkpoint as revision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from nursery.designs import Member
from nursery.records import Trained, read_gains, read_record, step_folder
from thermostats.errors import DataError
from thermostats.measurement.execute import run_specs
from thermostats.measurement.model_row import build_model_row
from thermostats.measurement.spec import Outcome, RunSpec
from thermostats.studies.nursery import load_shipped_table
from thermostats.tables import store
from thermostats.tables.folders import prepare_folder
from thermostats.tables.join import join
from thermostats.tables.schemas import NURSERY

PROMPTS = "nursery"
WHAT = ("gains", "outputs", "weights", "attention")


def model_id(model: str) -> str:
    """Name of a nursery model in the tables."""
    return f"{NURSERY}/{model}"


def spec(folder: Path, trained: Trained) -> RunSpec:
    """What to measure of a trained model; its row of `models` comes from `row_of_model`."""
    return RunSpec(
        str(step_folder(folder, trained.model, trained.steps)),
        revision=f"step{trained.steps:05d}",
        prompts=PROMPTS,
        what=WHAT,
        device="cpu",
        name=model_id(trained.model),
        source=NURSERY,
        download=False,
    )


def row_of_model(member: Member, folder: Path, trained: Trained) -> pd.DataFrame:
    """Row of the table `models`: recipe as family; variant base, or instruct where it was tuned."""
    facts = build_model_row(
        step_folder(folder, trained.model, trained.steps),
        model_id=model_id(trained.model),
        revision=f"step{trained.steps:05d}",
        models=pd.DataFrame({"model_id": [], "heritage": []}),
        heritage=NURSERY,
    )
    facts |= {
        "family": member.recipe.name,
        "variant": "instruct" if trained.parent else "base",
        "source": NURSERY,
        "seed_of": model_id(member.replicate_of) if member.replicate_of else "",
        "parent": model_id(trained.parent.partition("/")[0]) if trained.parent else "",
    }
    return store.validate(pd.DataFrame([facts]), "models")


def measure_all(
    members: Sequence[Member], folder: Path, data: str | Path | None = None
) -> Iterator[tuple[str, Outcome]]:
    """Measure trained models of a design; yields model and outcome. Finished measurements are
    skipped."""
    place = prepare_folder(data)
    recorded = set(
        store.load("models", place)[["model_id", "revision"]].itertuples(index=False, name=None)
    )
    for member, trained in trained_models(members, folder):
        if (model_id(trained.model), f"step{trained.steps:05d}") not in recorded:
            join([row_of_model(member, folder, trained)], data=place)
        for outcome in run_specs([spec(folder, trained)], place):
            yield trained.model, outcome


def trained_models(members: Sequence[Member], folder: Path) -> list[tuple[Member, Trained]]:
    """Those of the models that are trained, with their records."""
    records = ((member, read_record(folder, member.model)) for member in members)
    return [(member, record) for member, record in records if record is not None]


TOLERANCE = 0.05
"""Largest difference of a layer's mean log gain that counts as the same, in nat. On one machine and
torch build gains agree to 1e-6. On another processor sums are rounded otherwise, and training can
amplify that beyond the tolerance: with other instructions (ATEN_CPU_CAPABILITY=avx2,
MKL_CBWR=COMPATIBLE) the seven models in the pack of c005-L04d32h8 agreed to 0.001 up to step 24,
and four of them were the same at the end; the others' layers differed by up to 0.33, their means
over layers by up to 0.10."""


def compare(members: Sequence[Member], folder: Path) -> pd.DataFrame:
    """Gains of trained models next to the shipped ones of the second study; one row per model and
    checkpoint.

    Columns: model, checkpoint, rows (layers), largest (|difference| of the mean log G_l over
    prompts of one layer), shipped and again (mean log G_l over layers and prompts, nat),
    difference, same (largest <= TOLERANCE). Where a shipped layer has no finite gain here, it is
    not the same.

    Raises DataError where none of the models is trained or shipped.
    """
    models = [trained.model for _, trained in trained_models(members, folder)]
    shipped = _kept(load_shipped_table("second/gains")).rename("shipped")
    shipped = shipped[shipped.index.isin(models, level="model")]
    if shipped.empty:
        raise DataError(
            "nothing to compare: no model is both trained here and in the shipped tables",
            where=folder,
            next_step=f"python -m nursery train c005-L04d32h8 --folder {folder}",
        )
    again = pd.concat([_kept(read_gains(folder, model)) for model in models])
    logs = shipped.to_frame().join(again.rename("again"))
    logs["gap"] = (logs["again"] - logs["shipped"]).abs()
    groups = logs.groupby(level=["model", "checkpoint"], sort=False)
    means = groups[["shipped", "again"]].mean(skipna=False)
    table = pd.DataFrame({"rows": groups.size(), "largest": groups["gap"].max(skipna=False)}).join(
        means
    )
    table["difference"] = table["again"] - table["shipped"]
    return table.assign(same=table["largest"] <= TOLERANCE).reset_index()


def _kept(gains: pd.DataFrame) -> pd.Series:
    """Log gains by model, checkpoint and layer."""
    steps = "step" + gains["step"].map("{:05d}".format)
    return (
        gains.assign(checkpoint=steps)
        .set_index(["model", "checkpoint", "layer"])["log_gain"]
        .astype("float64")
    )

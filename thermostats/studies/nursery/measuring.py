"""Trained models to rows of the tables, through the same measurement as any other; the shipped records of training.

Runs have the source `nursery`, model_id nursery/MODEL and the checkpoint as revision. Gains and outputs are
measured at every checkpoint, spectra of weights and attention at the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.measurement.execute import execute
from thermostats.measurement.model_row import model_row
from thermostats.measurement.session import Outcome
from thermostats.measurement.spec import RunSpec
from thermostats.studies.nursery.records import Trained, model_folder, read_losses, read_record, step_folder
from thermostats.tables import store
from thermostats.tables.atomic import write_atomically
from thermostats.tables.folders import writable_folder
from thermostats.tables.join import join
from thermostats.tables.vocabulary import NURSERY

PROMPTS = "nursery"
EARLY = ("gains", "outputs")
LAST = (*EARLY, "weights", "attention")
EVERY = 10
"""Training losses are shipped as means over so many steps."""


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
    found = []
    for name in (lambda model: model, lambda model: f"{model}-tuned"):
        records = [(row, read_record(folder, name(row["model"]))) for row in rows]
        found += [(row, record) for row, record in records if record is not None]
    return found


def write_tables(rows: Sequence[Mapping[str, Any]], folder: Path, out: Path) -> list[Path]:
    """Write `training.csv` (one row a training) and `losses.csv` (held-out, means over ten steps) of trained models."""
    done = [trained for _, trained in trained_models(rows, folder)]
    training = pd.DataFrame([vars(trained) for trained in done])
    losses = pd.concat([_thinned(read_losses(folder, trained.model)) for trained in done], ignore_index=True)
    written = []
    for name, frame in (("training", training), ("losses", losses)):
        path = out / f"{name}.csv"
        write_atomically(path, frame.to_csv(index=False, lineterminator="\n").encode())
        written.append(path)
    return written


def _thinned(losses: pd.DataFrame) -> pd.DataFrame:
    train = losses[losses["part"] == "train"]
    means = train.groupby((train["step"] - 1) // EVERY).agg(
        model=("model", "first"), step=("step", "last"), part=("part", "first"), loss=("loss", "mean")
    )
    both = pd.concat([losses[losses["part"] == "heldout"], means])
    return both.sort_values(["part", "step"], ignore_index=True).round({"loss": 5})

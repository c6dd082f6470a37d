"""The tables of a study that ship, from a folder of its trainings."""

from __future__ import annotations

import io
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from nursery import designs, tuning
from nursery.records import read_gains, read_record
from thermostats.errors import DataError
from thermostats.studies.nursery.shipped import SECOND
from thermostats.tables.atomic import write_atomically


def write(design: Path, folder: Path, out: Path) -> None:
    """Write `models.csv` and `gains.parquet` of a design's models, and those tuned from them, trained in a folder.

    Raises DataError where some are not trained: a study is judged when it is whole.
    """
    study = designs.read(design)
    packs = study.packs() + tuning.tuned_packs(study, folder)
    missing = [member.model for pack in packs for member in pack.members if read_record(folder, member.model) is None]
    if missing:
        raise DataError(
            f"{len(missing)} models are not trained, such as {missing[0]}",
            where=folder,
            next_step=f"python -m nursery train {design} --folder {folder}",
        )
    models, gains = [], []
    for pack in packs:
        for member in pack.members:
            kind = member.model.rpartition("-")[2] if member.parent else ""
            facts = asdict(member.recipe) | asdict(pack.shape) | vars(read_record(folder, member.model)) | vars(member)
            models.append(facts | {"recipe": member.recipe.name, "rho": pack.shape.rho, "kind": kind})
            gains.append(read_gains(folder, member.model))
    table = pd.DataFrame(models)[list(SECOND["models"])]
    write_atomically(out / "models.csv", table.to_csv(index=False, lineterminator="\n").encode())
    stream = io.BytesIO()
    pd.concat(gains, ignore_index=True)[list(SECOND["gains"])].to_parquet(stream, index=False)
    write_atomically(out / "gains.parquet", stream.getvalue())

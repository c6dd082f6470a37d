"""The tables of a study that ship, from a folder of its trainings."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from nursery import designs, tuning
from nursery.records import read_by_prompt, read_gains, read_record
from thermostats.errors import DataError
from thermostats.studies.nursery import SECOND
from thermostats.tables.folders import write_atomically


def write(design: Path, folder: Path, out: Path) -> None:
    """Write `models.csv` and `gains.parquet` of a design's models, and those tuned from them,
    trained in a folder.

    Of models measured on prompts of every corpus, gains are by set of prompts, and
    `prompts.parquet` has those at the end of training by prompt and position.

    Raises DataError where some are not trained: a study is judged when it is whole.
    """
    study = designs.read(design)
    packs = study.packs() + tuning.tuned_packs(study, folder)
    missing = [
        member.model
        for pack in packs
        for member in pack.members
        if read_record(folder, member.model) is None
    ]
    if missing:
        raise DataError(
            f"{len(missing)} models are not trained, such as {missing[0]}",
            where=folder,
            next_step=f"python -m nursery train {design} --folder {folder}",
        )
    models = []
    gains = []
    for pack in packs:
        for member in pack.members:
            kind = member.model.rpartition("-")[2] if member.parent else ""
            facts = (
                asdict(member.recipe)
                | asdict(pack.shape)
                | vars(read_record(folder, member.model))
                | vars(member)
            )
            models.append(
                facts | {"recipe": member.recipe.name, "rho": pack.shape.rho, "kind": kind}
            )
            gains.append(read_gains(folder, member.model))
    table = pd.DataFrame(models)[list(SECOND["models"])]
    write_atomically(out / "models.csv", table.to_csv(index=False, lineterminator="\n").encode())
    write_rows(pd.concat(gains, ignore_index=True), out / "gains.parquet", SECOND["gains"])
    if study.prompts == designs.OF_CORPORA:
        names = [member.model for pack in packs for member in pack.members]
        by_prompt = [read_by_prompt(folder, name).assign(model=name) for name in names]
        write_rows(
            pd.concat(by_prompt, ignore_index=True), out / "prompts.parquet", ("model", "prompts")
        )


def write_rows(rows: pd.DataFrame, path: Path, first: Sequence[str]) -> None:
    """Write a table with some columns first; numbers are split by bytes, which makes the file a
    third smaller."""
    stream = io.BytesIO()
    ordered = rows[[*first, *rows.columns.difference(first, sort=False)]]
    numbers = list(ordered.select_dtypes("float64"))
    others = [name for name in ordered if name not in numbers]
    ordered.to_parquet(
        stream,
        index=False,
        compression="zstd",
        use_dictionary=others,
        use_byte_stream_split=numbers,
    )
    write_atomically(path, stream.getvalue())

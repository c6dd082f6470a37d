"""Read and write the tidy tables of a data folder.

A data folder holds `<table>.csv`, `published/<table>.csv`, `measured/<table>/<run_id>.csv` and archives
(`table_files.py`); a table is all of them together, a row of an archive giving way to one with the same key, in a
user's store with the tables of the package beneath (`folders.py`). CSV files are sorted by key, floats in their
shortest exact form, LF: saving what was loaded gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thermostats.errors import DataError, nearest
from thermostats.tables import table_files
from thermostats.tables.arguments import check_table
from thermostats.tables.atomic import write_atomically
from thermostats.tables.csv_lines import csv_lines
from thermostats.tables.folders import data_folder as data_folder  # noqa: PLC0414 (said here too)
from thermostats.tables.folders import layers, own_files
from thermostats.tables.folders import shipped as shipped  # noqa: PLC0414 (said here too)
from thermostats.tables.identities import check_identities
from thermostats.tables.licences import check_licences
from thermostats.tables.lineage import check_lineage
from thermostats.tables.parameters import check_models
from thermostats.tables.ranks import in_turn
from thermostats.tables.remedies import Remedy, renamed
from thermostats.tables.runs import check_run_ids
from thermostats.tables.schemas import TABLES, key, references, written
from thermostats.tables.schemas import dtypes as dtypes  # noqa: PLC0414 (said here too)
from thermostats.tables.table_files import is_archive, runs_in, schema
from thermostats.tables.validation import converted, ranks_of
from thermostats.tables.validation import validate as validate  # noqa: PLC0414 (said here too)

RUN_FILE = re.compile(r"[0-9a-f]{16}\.csv")
"""What a file is called that holds the rows of one run."""
FEW = 16
"""Rows of a run on average, below which runs are put in order row by row."""
PANDAS = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
"""Types of pandas by those of Arrow, where they are not its own."""


def load(
    name: str, data: str | Path | None = None, *, private: bool = True, runs: Collection[str] | None = None
) -> pd.DataFrame:
    """Whole table `name`, validated and sorted by key; empty with the right columns where there are no rows.

    A row of a user's store stands in the place of one with the same key among the package's. Prompt texts that may not
    be shipped are filled in from `private/prompts.csv` where it exists, unless `private` is False. With `runs`, rows of
    other runs in archives and in files named after them are left out.

    Raises DataError if a file is damaged, a value is not allowed or a key occurs twice.
    """
    check_table(name)
    folder = data_folder(data)
    files = [own_files(name, layer) for layer in layers(folder)]
    rows = schema(name, ()).empty_table()
    for in_layer in files:
        archives = [table_files.read(path, name, runs) for path in in_layer if is_archive(path)]
        others = table_files.read_all(
            (path for path in in_layer if not is_archive(path) and _may_hold(path, runs)), name
        )
        for parts in (archives, others):
            if parts:
                rows = _over(pa.concat_tables(parts, promote_options="default"), rows, name)
    paths = [path for in_layer in files for path in in_layer]
    frame = validate(_framed(_by_run(rows), name), name, paths[0] if len(paths) == 1 else folder)
    return _with_private_texts(frame, folder) if name == "prompts" and private else frame


def read(path: Path, name: str) -> pd.DataFrame:
    """One file of table `name`, as typed columns, not yet validated.

    Raises DataError where it is damaged, naming the first cell that is not of its column's type.
    """
    return _framed(table_files.read(path, name), name)


def has_run(name: str, run_id: str, folder: Path) -> bool:
    """Whether rows of table `name` that a run measured are in a data folder, or beneath it."""
    return any(
        (layer / "measured" / name / f"{run_id}.csv").is_file()
        or any(run_id in runs_in(path) for path in own_files(name, layer) if is_archive(path))
        for layer in layers(folder)
    )


def _by_run(rows: pa.Table) -> pa.Table:
    """Rows with the runs in order, as far as those of each are together: only what refers to them is moved."""
    if "run_id" not in rows.column_names:
        return rows
    pieces: list[tuple[str, pa.RecordBatch]] = []
    for batch in rows.to_batches():
        run = batch["run_id"]
        bounds = [0, *(np.flatnonzero(pc.not_equal(run[1:], run[:-1])) + 1).tolist(), len(run)]
        if len(bounds) > FEW + len(run) // FEW:
            return rows
        pieces += [(run[a].as_py(), batch.slice(a, b - a)) for a, b in pairwise(bounds) if a < b]
    return pa.Table.from_batches([batch for _, batch in sorted(pieces, key=itemgetter(0))], rows.schema)


def _framed(rows: pa.Table, name: str) -> pd.DataFrame:
    """Rows of files as a frame of the declared types."""
    return converted(rows.to_pandas(types_mapper=PANDAS.get), name)[0]


def _may_hold(path: Path, runs: Collection[str] | None) -> bool:
    """Whether a file may hold rows of some runs: it is named after one of them, or after none."""
    return runs is None or not RUN_FILE.fullmatch(path.name) or path.stem in runs


def _over(above: pa.Table, beneath: pa.Table, name: str) -> pa.Table:
    """Rows of `above`, and those beneath whose keys it does not have."""
    keys = key(name)
    near = above.filter(pc.is_in(above[keys[0]], beneath[keys[0]].unique())).select(keys)
    if len(near):  # seldom: of a run beneath there are seldom rows
        hidden = pd.MultiIndex.from_frame(beneath.select(keys).to_pandas()).isin(
            pd.MultiIndex.from_frame(near.to_pandas())
        )
        beneath = beneath.filter(pa.array(~hidden))
    return pa.concat_tables([beneath, above], promote_options="default")


def _with_private_texts(prompts: pd.DataFrame, folder: Path) -> pd.DataFrame:
    path = folder / "private" / "prompts.csv"
    if not path.is_file():
        return prompts
    texts = read(path, "prompts").drop_duplicates("text_sha256").set_index("text_sha256")["text"]
    held = prompts["text_sha256"].map(texts).fillna("")
    return prompts.assign(text=prompts["text"].where(prompts["text"] != "", held))


def to_csv(frame: pd.DataFrame, name: str) -> bytes:
    """Canonical bytes of a table: declared column order, sorted by key, shortest exact floats, LF."""
    checked = validate(frame, name)
    return csv_lines(checked[written(checked, name)], name).of(0, len(checked))


class FilesOfRows(NamedTuple):
    """Files of a table: the rows of all of them, the number of the file of each row, and the files by number."""

    rows: pd.DataFrame
    number: NDArray[np.int64]
    paths: tuple[Path, ...] = ()

    @classmethod
    def of(cls, files: Mapping[Path, pd.DataFrame], name: str) -> FilesOfRows:
        """Files whose rows are frames of their own."""
        if not files:
            return cls(pd.DataFrame(columns=list(dtypes(name))), np.zeros(0, dtype=np.int64))
        rows = pd.concat(list(files.values()), ignore_index=True)
        return cls(rows, np.repeat(np.arange(len(files)), [len(part) for part in files.values()]), tuple(files))


def to_csv_files(files: FilesOfRows, name: str) -> dict[Path, bytes]:
    """Bytes of each file of a table, its rows all checked at once; an optional column is in all files or in none."""
    if not files.paths:
        return {}
    by_key = in_turn(ranks_of(files.rows, name))
    number = files.number if by_key is None else files.number[by_key]
    checked = validate(files.rows, name)
    by_file = in_turn(number)
    if by_file is not None:
        checked, number = checked.take(by_file), number[by_file]
    lines = csv_lines(checked[written(checked, name)], name)
    bounds = np.searchsorted(number, np.arange(len(files.paths) + 1))
    return {path: lines.of(first, beyond) for path, first, beyond in zip(files.paths, bounds, bounds[1:], strict=False)}


def save(frame: pd.DataFrame, name: str, path: Path) -> None:
    """Write table `name` to `path` in its canonical bytes, whole or not at all."""
    write_atomically(path, to_csv(frame, name))


def check(data: str | Path | None = None) -> dict[str, int]:
    """Rows per table, after every table was checked against its schema, keys and cross-references.

    Raises DataError at the first thing that is wrong.
    """
    tables = {name: load(name, data) for name in TABLES}
    for name, frame in tables.items():
        for label, target in references(name).items():
            check_reference(frame, name, label, tables[target], target)
    check_prompts(tables["runs"], tables["prompts"])
    check_models(tables["models"])
    check_lineage(tables["models"], tables["lineage"])
    check_run_ids(tables["runs"])
    check_licences(tables["runs"])
    check_identities(tables)
    return {name: len(frame) for name, frame in tables.items()}


def check_reference(frame: pd.DataFrame, name: str, label: str, other: pd.DataFrame, target: str) -> None:
    """Raise DataError where a value of column `label` is not a key of table `target`."""
    labels = [label, "revision"] if target == "models" else [label]
    keys = set(other[labels].itertuples(index=False, name=None))
    distinct = frame[labels].drop_duplicates() if len(labels) > 1 else pd.DataFrame({label: frame[label].unique()})
    for row in distinct.itertuples(index=False, name=None):
        if row not in keys:
            near = nearest(row[0], other["model_id"]) if target == "models" else ""
            remedy = _remedy(label, row[0], near) if target == "models" else None
            raise DataError(
                f"table {name} refers to a row that table {target} does not have",
                got=f"{label} {' @ '.join(map(repr, row))}",
                next_step=f"did you mean {near}? Otherwise " * bool(near) + _added(target, row),
                remedy=remedy,
            )


def _remedy(label: str, model: str, near: str) -> Remedy:
    """The rows under the name that is near, or the model to join first, with what only the user knows in capitals."""
    if near:
        return Remedy(when=f"if {near} is meant", rows=renamed(label, model, near))
    facts = f'model_id="{model}", heritage="LAB", n_layers=LAYERS, n_heads=HEADS, d_model=WIDTH, n_params=PARAMETERS'
    return Remedy(when="join the model first, with its facts for the words in capitals", before=facts)


def _added(target: str, row: tuple[str, ...]) -> str:
    """How what is referred to gets into its table."""
    if target != "models":
        return f"add it to {target}, for instance with thermostats join"
    facts = f"model_id={row[0]!r}, heritage='…', n_layers=…, n_heads=…, d_model=…, n_params=…"
    return f"add it to models first, thermostats.join([dict({facts})]) or a CSV of these columns"


def check_prompts(runs: pd.DataFrame, prompts: pd.DataFrame) -> None:
    """Raise DataError where a run names a prompt set that the table prompts does not have."""
    unheard = sorted(set(runs["prompt_set"]) - set(prompts["prompt_set"]) - {""})
    if unheard:
        raise DataError(
            "table runs refers to a prompt set that table prompts does not have",
            got=", ".join(unheard),
            next_step="join its rows of prompts first, or leave prompt_set empty",
        )

"""Read, write and check the tidy tables of a data folder.

A data folder holds `<table>.csv`, `published/<table>.csv`, `measured/<table>/<run_id>.csv` and archives
(`archive.py`); a table is all of them together, a row of an archive giving way to one with the same key, in a user's
store with the tables of the package beneath (`folders.py`). CSV files are sorted by key, floats in their shortest exact
form, LF: saving what was loaded gives the same bytes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from thermostats.errors import DataError, did_you_mean, reason, unknown
from thermostats.tables import archive
from thermostats.tables.archive import is_archive
from thermostats.tables.atomic import write_atomically
from thermostats.tables.folders import data_folder as data_folder  # noqa: PLC0414 (said here too)
from thermostats.tables.folders import layers, own_files
from thermostats.tables.folders import shipped as shipped  # noqa: PLC0414 (said here too)
from thermostats.tables.identities import check_identities
from thermostats.tables.limits import TABLE, read_bytes
from thermostats.tables.parameters import check_models
from thermostats.tables.runs import check_run_ids
from thermostats.tables.schemas import FLAG, FLOAT, INTEGER, TABLES, TEXT, absent, key, references, written
from thermostats.tables.schemas import dtypes as dtypes  # noqa: PLC0414 (said here too)
from thermostats.tables.validation import difference
from thermostats.tables.validation import validate as validate  # noqa: PLC0414 (said here too)

LINE_END = "\x1e\r\n"
"""Stands for LF while lines are made: a cell with any of its characters is quoted, CR too, which is else lost."""
PARSE: dict[str, Callable[[str], Any]] = {FLOAT: float, INTEGER: int, FLAG: ("True", "False").index, TEXT: str}
RUN_FILE = re.compile(r"[0-9a-f]{16}\.csv")
"""What a file is called that holds the rows of one run."""


def files(name: str, data: str | Path | None = None) -> list[Path]:
    """Files that make up a table, in the order they are read; those beneath a user's store first."""
    if name not in TABLES:
        raise unknown("no such table", name, TABLES, otherwise="thermostats ls tables")
    return [path for layer in layers(data_folder(data)) for path in own_files(name, layer)]


def load(
    name: str,
    data: str | Path | None = None,
    *,
    private: bool = True,
    runs: Collection[str] | None = None,
    without: Collection[str] = (),
) -> pd.DataFrame:
    """Whole table `name`, validated and sorted by key; empty with the right columns where there are no rows.

    A row of a user's store stands in the place of one with the same key among the package's. Prompt texts that may not
    be shipped are filled in from `private/prompts.csv` where it exists, unless `private` is False. With `runs`, rows of
    other runs in archives and in files named after them are left out; so are those of the runs `without`.

    Raises DataError where a file is damaged, a value is not allowed or a key stands twice.
    """
    paths, folder = files(name, data), data_folder(data)
    frame = archive.to_frame(archive.schema(name).empty_table())
    for layer in layers(folder):
        found = own_files(name, layer)
        archives = [archive.read(path, name, runs, without) for path in found if is_archive(path)]
        held = [path for path in found if not is_archive(path) and _may_hold(path, runs, without)]
        for rows in (archives, [_read_csv(path, name) for path in held]):
            frame = _over(archive.to_frame(pa.concat_tables(rows)), frame, name) if rows else frame
    frame = validate(frame, name, paths[0] if len(paths) == 1 else folder)
    return _with_private_texts(frame, folder) if name == "prompts" and private else frame


def has_run(name: str, run_id: str, folder: Path) -> bool:
    """Whether rows of table `name` that a run measured are in a data folder, or beneath it."""
    return any(
        (layer / "measured" / name / f"{run_id}.csv").is_file()
        or any(run_id in archive.runs_in(path) for path in own_files(name, layer) if is_archive(path))
        for layer in layers(folder)
    )


def _may_hold(path: Path, runs: Collection[str] | None, without: Collection[str]) -> bool:
    """Whether a file may hold rows of some runs: it is named after one of them, or after none."""
    return not RUN_FILE.fullmatch(path.name) or (path.stem not in without and (runs is None or path.stem in runs))


def _over(own: pd.DataFrame, beneath: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of `own`, and those beneath whose keys it does not have."""
    if not len(beneath):
        return own
    first = key(name)[0]
    near = own[own[first].isin(beneath[first].unique())]
    if not len(near):  # as mostly: of a run beneath there are seldom rows
        return pd.concat([beneath, own], ignore_index=True)
    hidden = pd.MultiIndex.from_frame(beneath[key(name)]).isin(pd.MultiIndex.from_frame(near[key(name)]))
    return pd.concat([beneath[~hidden], own], ignore_index=True)


def _with_private_texts(prompts: pd.DataFrame, folder: Path) -> pd.DataFrame:
    path = folder / "private" / "prompts.csv"
    if not path.is_file():
        return prompts
    texts = read(path, "prompts").set_index("text_sha256")["text"]
    filled = prompts["text_sha256"].map(texts[~texts.index.duplicated()]).fillna("")
    return prompts.assign(text=prompts["text"].where(prompts["text"] != "", filled).astype(TEXT))


def read(path: Path, name: str) -> pd.DataFrame:
    """One file of table `name`, as typed columns, not yet validated.

    Raises DataError where it is damaged, naming the first cell that is not of its column's type.
    """
    return archive.to_frame(archive.read(path, name) if is_archive(path) else _read_csv(path, name))


def _read_csv(path: Path, name: str) -> pa.Table:
    try:
        content = read_bytes(path, TABLE)
    except OSError as error:
        raise DataError("table cannot be read", where=path, got=reason(error)) from error
    may = (archive.as_found(name, ()), archive.schema(name))
    declared = next((each for each in may if content.startswith(f"{','.join(each.names)}\n".encode())), None)
    if declared is None:
        declared = archive.as_found(name, _header(content, path, name))
    try:
        rows = read_csv(
            pa.py_buffer(content),
            ReadOptions(use_threads=False, block_size=len(content) + 1),  # a cell may be longer than a block
            ParseOptions(newlines_in_values=True),
            ConvertOptions(
                column_types=declared,
                null_values=[""],
                strings_can_be_null=False,
                true_values=["True"],
                false_values=["False"],
            ),
        )
        return archive.with_added(rows, name)
    except (ValueError, pa.ArrowException) as error:
        text = _text(content, path)
        raise DataError(_bad_cell(text, name) or f"table {name} is damaged: {error}", where=path) from error


def _text(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        got = f"byte {error.object[error.start]:#04x} at {error.start}"
        raise DataError("table is not UTF-8 text", where=path, got=got) from error


def _header(content: bytes, path: Path, name: str) -> list[str]:
    """Columns of the first line. Raises DataError where they are not those of a table in their order."""
    try:
        found = next(csv.reader(io.StringIO(_text(content, path))), [])
    except csv.Error as error:
        raise DataError(f"table is damaged: {error}", where=path) from error
    declared = [label for label in dtypes(name) if label in found or label not in absent(name)]
    if found == declared:
        return found
    lacking, extra = difference(found, declared)
    parts = [f"lacking {', '.join(lacking)}"] * bool(lacking) + [f"unknown {', '.join(map(repr, extra))}"] * bool(extra)
    raise DataError(
        f"columns of table {name} are not as declared",
        where=path,
        got="; ".join(parts) or "another order",
        allowed=", ".join(declared),
        next_step=f"thermostats ls columns {name} shows what each means",
    )


def _bad_cell(text: str, name: str) -> str:
    """The first cell that is not of its declared type, in words; empty where none is to blame."""
    lines = csv.reader(io.StringIO(text, newline=""))
    with suppress(csv.Error):  # a cell of over 131,072 characters: there is none to point at
        labels = next(lines, [])
        for row in lines:
            for label, cell in zip(labels, row, strict=False):
                dtype = dtypes(name)[label]
                try:
                    if cell:
                        PARSE[dtype](cell)
                except ValueError:
                    return f"table {name}, line {lines.line_num}, column {label}: {cell!r} is not a {dtype}"
    return ""


def to_csv(frame: pd.DataFrame, name: str) -> bytes:
    """Canonical bytes of a table: declared column order, sorted by key, shortest exact floats, LF."""
    checked = validate(frame, name)
    text: str = checked[written(checked, name)].to_csv(index=False, lineterminator=LINE_END)
    if text.count(LINE_END) != len(checked) + 1:
        raise DataError(f"a text of table {name} holds what no CSV file can", got=ascii(LINE_END))
    return text.replace(LINE_END, "\n").encode()


def save(frame: pd.DataFrame, name: str, path: Path) -> None:
    """Write table `name` to `path` in its canonical bytes, whole or not at all."""
    write_atomically(path, to_csv(frame, name))


def check(data: str | Path | None = None) -> dict[str, int]:
    """Rows per table, after every table was held against its schema, keys and cross-references.

    Raises DataError at the first thing that is wrong.
    """
    tables = {name: load(name, data) for name in TABLES}
    for name, frame in tables.items():
        for label, target in references(name).items():
            check_reference(frame, name, label, tables[target], target)
    check_prompts(tables["runs"], tables["prompts"])
    check_models(tables["models"])
    check_run_ids(tables["runs"])
    check_identities(tables)
    return {name: len(frame) for name, frame in tables.items()}


def check_reference(frame: pd.DataFrame, name: str, label: str, other: pd.DataFrame, target: str) -> None:
    """Raise DataError where a value of column `label` is not a key of table `target`."""
    labels = [label, "revision"] if target == "models" else [label]
    known = set(other[labels].itertuples(index=False, name=None))
    for row in frame[labels].drop_duplicates().itertuples(index=False, name=None):
        if row not in known:
            near = did_you_mean(row[0], other["model_id"]) if target == "models" else ""
            raise DataError(
                f"table {name} refers to a row that table {target} does not have",
                got=f"{label} {' @ '.join(map(repr, row))}",
                next_step=f"{near} Otherwise " * bool(near) + f"add it to {target}, for instance with thermostats join",
            )


def check_prompts(runs: pd.DataFrame, prompts: pd.DataFrame) -> None:
    """Raise DataError where a run names a prompt set that the table prompts does not have."""
    unheard = sorted(set(runs["prompt_set"]) - set(prompts["prompt_set"]) - {""})
    if unheard:
        raise DataError(
            "table runs refers to a prompt set that table prompts does not have",
            got=", ".join(unheard),
            next_step="join its rows of prompts first, or leave prompt_set empty",
        )

"""Read, validate, check and join the tidy tables of a data folder.

A data folder holds `<table>.csv`, `published/<table>.csv`, `measured/<table>/<run_id>.csv` and archives
(`archive.py`); a table is all of them together, a row of an archive giving way to one with the same key, in a user's
store with the tables of the package beneath (`folders.py`). CSV files are sorted by key, floats in their shortest exact
form, LF: saving what was loaded gives the same bytes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pandera.errors

from thermostats.errors import DataError, UsageError, did_you_mean
from thermostats.tables import archive
from thermostats.tables.archive import is_archive
from thermostats.tables.atomic import write_atomically
from thermostats.tables.declare import FLAG, FLOAT, INTEGER, TEXT
from thermostats.tables.folders import data_folder as data_folder  # noqa: PLC0414 (said here too)
from thermostats.tables.folders import layers, own_files
from thermostats.tables.folders import shipped as shipped  # noqa: PLC0414 (said here too)
from thermostats.tables.identities import check_identities
from thermostats.tables.limits import TABLE, read_bytes
from thermostats.tables.names import check_names
from thermostats.tables.parameters import check_models
from thermostats.tables.reading import options, read_all
from thermostats.tables.runs import check_run_ids
from thermostats.tables.schemas import TABLES, key, references
from thermostats.tables.schemas import dtypes as dtypes  # noqa: PLC0414 (said here too)

LINE_END = "\x1e\r\n"
"""Stands for LF while lines are made: a cell with any of its characters is quoted, CR too, which is else lost."""
FLAGS = {"True": True, "False": False}
RUN_FILE = re.compile(r"[0-9a-f]{16}\.csv")
"""What a file is called that holds the rows of one run."""


def files(name: str, data: str | Path | None = None) -> list[Path]:
    """Files that make up a table, in the order they are read; those beneath a user's store first."""
    if name not in TABLES:
        next_step = did_you_mean(name, TABLES, "thermostats ls tables")
        raise UsageError("no such table", got=repr(name), allowed=", ".join(TABLES), next_step=next_step)
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
    frame = pd.DataFrame(columns=list(dtypes(name)))
    for layer in layers(folder):
        found = own_files(name, layer)
        archives = [archive.read(path, name, runs, without) for path in found if is_archive(path)]
        held = [path for path in found if not is_archive(path) and _may_hold(path, runs, without)]
        for rows in (archives, read_all(held, dtypes(name), lambda path: read(path, name))):
            frame = _over(pd.concat(rows, ignore_index=True), frame, name) if rows else frame
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


def read(path: Path, name: str) -> pd.DataFrame:
    """One file of table `name`, as typed columns, not yet validated."""
    if is_archive(path):
        return archive.read(path, name)
    declared = dtypes(name)
    if (found := header(path)) != list(declared):
        raise DataError(
            f"columns of table {name} are not as declared",
            where=path,
            got=_difference(found, list(declared)),
            allowed=", ".join(declared),
            next_step=f"thermostats ls columns {name} shows what each means",
        )
    try:
        raw = _text(path)
        return pd.read_csv(io.StringIO(raw), **options(declared))
    except (ValueError, TypeError, OverflowError, csv.Error) as error:
        raise DataError(_bad_cell(path, name) or f"table {name} is damaged: {error}", where=path) from error


def header(path: Path) -> list[str]:
    """Column names in the first line of a CSV file; empty for an empty file."""
    try:
        return next(csv.reader(io.StringIO(_text(path))), [])
    except csv.Error as error:
        raise DataError(f"table is damaged: {error}", where=path) from error


def validate(frame: pd.DataFrame, name: str, where: object = "") -> pd.DataFrame:
    """Frame as table `name`: declared columns, order and types, sorted by key.

    Raises DataError naming the first offending row, column and value.
    """
    declared = dtypes(name)
    if missing := [label for label in declared if label not in frame.columns]:
        raise DataError(f"table {name} lacks columns", where=where, got=", ".join(missing), allowed=", ".join(declared))
    if unknown := [label for label in frame.columns if label not in declared]:
        raise DataError(
            f"table {name} has unknown columns",
            where=where,
            got=", ".join(map(str, unknown)),
            allowed=", ".join(declared),
        )
    typed = frame.loc[:, list(declared)].reset_index(drop=True)
    for label, dtype in declared.items():
        try:
            typed[label] = typed[label].fillna("").astype(dtype) if dtype == TEXT else typed[label].astype(dtype)
        except (ValueError, TypeError) as error:
            raise DataError(
                f"table {name}, column {label} is not of type {dtype}", where=where, got=str(error)
            ) from error
        if dtype == FLOAT and np.isinf(typed[label]).any():
            row = int(np.isinf(typed[label]).to_numpy().argmax())
            raise DataError(
                f"table {name}, column {label} is infinite",
                where=_row(where, typed, row, name),
                allowed="a finite number, or empty with the reason in `missing`",
            )
    try:
        TABLES[name].validate(typed, lazy=True)
    except pandera.errors.SchemaErrors as error:
        case = error.failure_cases.iloc[0]
        row = int(case["index"]) if isinstance(case["index"], int | np.integer) else 0
        if "multiple_fields_uniqueness" in str(case["check"]) or "uniqu" in str(case["check"]):
            raise DataError(
                f"table {name} holds a key twice",
                where=_row(where, typed, row, name),
                allowed=f"one row per {', '.join(key(name))}",
            ) from error
        raise DataError(
            f"table {name}, column {case['column']} has a value that is not allowed",
            where=_row(where, typed, row, name),
            got=shown(case["failure_case"]),
            allowed=_allowed(name, str(case["column"]), str(case["check"])),
        ) from error
    check_names(typed, name, where)
    return typed.sort_values(key(name), kind="stable", ignore_index=True)


def to_csv(frame: pd.DataFrame, name: str) -> bytes:
    """Canonical bytes of a table: declared column order, sorted by key, shortest exact floats, LF."""
    checked = validate(frame, name)
    text: str = checked.to_csv(index=False, lineterminator=LINE_END)
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
                next_step=(f"{near} Otherwise " if near else "")
                + f"add it to {target}, for instance with thermostats join",
            )


def check_prompts(runs: pd.DataFrame, prompts: pd.DataFrame) -> None:
    """Raise DataError where a run names a prompt set that the table prompts does not have."""
    unknown = sorted(set(runs["prompt_set"]) - set(prompts["prompt_set"]) - {""})
    if unknown:
        raise DataError(
            "table runs refers to a prompt set that table prompts does not have",
            got=", ".join(unknown),
            next_step="join its rows of prompts first, or leave prompt_set empty",
        )


def shown(value: object) -> str:
    """A value as a message shows it: a number as it is written in a file, whatever library it is of."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def _text(path: Path) -> str:
    try:
        return read_bytes(path, TABLE).decode("utf-8")
    except OSError as error:
        raise DataError("table cannot be read", where=path, got=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise DataError(
            "table is not UTF-8 text", where=path, got=f"byte {error.object[error.start]:#04x} at {error.start}"
        ) from error


def _difference(header: list[str], declared: list[str]) -> str:
    lacking = [label for label in declared if label not in header]
    extra = [label for label in header if label not in declared]
    parts = [f"lacking {', '.join(lacking)}"] * bool(lacking) + [f"unknown {', '.join(map(repr, extra))}"] * bool(extra)
    return "; ".join(parts) or "another order"


def _bad_cell(path: Path, name: str) -> str:
    """The first cell that is not of its declared type, in words; empty where none is to blame."""
    for line, label, cell in _cells(path, name):
        dtype = dtypes(name)[label]
        try:
            if cell and dtype == FLOAT:
                float(cell)
            elif cell and dtype == INTEGER:
                int(cell)
            elif cell and dtype == FLAG:
                FLAGS[cell]
        except (ValueError, KeyError):
            return f"table {name}, line {line}, column {label}: {cell!r} is not a {dtype}"
    return ""


def _cells(path: Path, name: str) -> Iterator[tuple[int, str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.reader(stream)
        try:
            next(reader, None)
            for row in reader:
                for label, cell in zip(dtypes(name), row, strict=False):
                    yield reader.line_num, label, cell
        except csv.Error:  # what pandas could read and this cannot, a cell of over 131,072 characters: none to point at
            return


def _row(where: object, frame: pd.DataFrame, row: int, name: str) -> str:
    named: Mapping[str, object] = frame.iloc[row][key(name)].to_dict()
    return f"{where}, " * bool(str(where)) + ", ".join(f"{label} {value}" for label, value in named.items())


def _allowed(name: str, label: str, check: str) -> str:
    declared = TABLES[name].columns.get(label)
    texts = [str(c.error) for c in declared.checks] if declared is not None else []
    return "; ".join(texts) or check


def _with_private_texts(prompts: pd.DataFrame, folder: Path) -> pd.DataFrame:
    path = folder / "private" / "prompts.csv"
    if not path.is_file():
        return prompts
    texts = read(path, "prompts").set_index("text_sha256")["text"]
    filled = prompts["text_sha256"].map(texts[~texts.index.duplicated()]).fillna("")
    return prompts.assign(text=prompts["text"].where(prompts["text"] != "", filled).astype(TEXT))

"""Read, write and check the tidy tables of a data folder as frames of pandas; `rows.py` says what lies where.

CSV files are sorted by key, floats in their shortest exact form, LF: saving what was loaded gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.errors import DataError, did_you_mean
from thermostats.tables import rows
from thermostats.tables.atomic import write_atomically
from thermostats.tables.folders import data_folder as data_folder  # noqa: PLC0414 (said here too)
from thermostats.tables.folders import shipped as shipped  # noqa: PLC0414 (said here too)
from thermostats.tables.identities import check_identities
from thermostats.tables.licences import check_licences
from thermostats.tables.parameters import check_models
from thermostats.tables.rows import has_run as has_run  # noqa: PLC0414 (said here too)
from thermostats.tables.runs import check_run_ids
from thermostats.tables.schemas import TABLES, key, references, written
from thermostats.tables.schemas import dtypes as dtypes  # noqa: PLC0414 (said here too)
from thermostats.tables.validation import to_frame
from thermostats.tables.validation import validate as validate  # noqa: PLC0414 (said here too)

LINE_END = "\x1e\r\n"
"""Stands for LF while lines are made: a cell with any of its characters is quoted, CR too, which is else lost."""


def load(
    name: str, data: str | Path | None = None, *, private: bool = True, runs: Collection[str] | None = None
) -> pd.DataFrame:
    """Whole table `name` as `rows.load` reads it; raises as it does."""
    return to_frame(rows.load(name, data, private=private, runs=runs))


def read(path: Path, name: str) -> pd.DataFrame:
    """One file of table `name` as `rows.read` reads it; raises as it does."""
    return to_frame(rows.read(path, name))


def to_csv(frame: pd.DataFrame, name: str) -> bytes:
    """Canonical bytes of a table: declared column order, sorted by key, shortest exact floats, LF."""
    header, *rows = _lines(validate(frame, name), name)
    return "".join([header, *rows]).encode()


def to_csv_files(files: Mapping[Path, pd.DataFrame], name: str) -> dict[Path, bytes]:
    """Bytes of each file of a table, its rows all checked at once; an optional column is in all files or in none."""
    if not files:
        return {}
    rows = pd.concat(list(files.values()), ignore_index=True)
    of = np.repeat(np.arange(len(files)), [len(own) for own in files.values()])
    file = pd.Series(of, index=pd.MultiIndex.from_frame(rows[key(name)]))
    checked = validate(rows, name)
    header, *lines = _lines(checked, name)
    texts = [[header] for _ in files]
    for place, line in zip(file.loc[pd.MultiIndex.from_frame(checked[key(name)])], lines, strict=True):
        texts[place].append(line)
    return {path: "".join(text).encode() for path, text in zip(files, texts, strict=True)}


def _lines(checked: pd.DataFrame, name: str) -> list[str]:
    """Header and a line for each row of a checked table; DataError where a text holds the end of a line."""
    text: str = checked[written(checked, name)].to_csv(index=False, lineterminator=LINE_END)
    lines = text.split(LINE_END)[:-1]
    if len(lines) != len(checked) + 1:
        raise DataError(f"a text of table {name} holds characters that a CSV file cannot", got=ascii(LINE_END))
    return [line + "\n" for line in lines]


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
    check_run_ids(tables["runs"])
    check_licences(tables["runs"])
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

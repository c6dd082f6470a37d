"""Rows as other people have them: CSV, TSV, JSON, JSON Lines or Parquet files and DataFrames, not yet of any table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pandas.errors
import pandera.errors
from pyarrow.parquet import ParquetFile

from thermostats.errors import DataError, UsageError, did_you_mean
from thermostats.tables import store
from thermostats.tables.declare import FLAG, FLOAT, INTEGER, TEXT
from thermostats.tables.limits import CELLS, ROWS, TooManyError, check_cells, read_bytes
from thermostats.tables.schemas import TABLES, key

Source: TypeAlias = str | Path | pd.DataFrame


def read(source: Source) -> pd.DataFrame:
    """Rows of a source in its order, columns under its own names; cells of a CSV file are text, empty where missing.

    Raises UsageError where there is no such file or its ending is not known, DataError where it is damaged.
    """
    if isinstance(source, pd.DataFrame):
        return source.reset_index(drop=True).rename(columns=str)
    path = Path(source)
    if not path.is_file():
        raise UsageError("no such file", where=path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise UsageError(
            "rows are read from files of these kinds",
            where=path,
            got=path.suffix or "no ending",
            allowed=", ".join(READERS),
            next_step=did_you_mean(path.suffix, READERS),
        )
    try:
        frame = reader(read_bytes(path, ROWS))
    except OSError as error:
        raise DataError("file cannot be read", where=path, got=error.strerror or str(error)) from error
    except TooManyError as error:
        raise DataError(
            "the file unpacks to more than files of rows hold",
            where=path,
            got=str(error),
            allowed=f"at most {CELLS} cells",
            next_step="split it",
        ) from error
    except (ValueError, RecursionError, csv.Error, pandas.errors.ParserError) as error:
        raise DataError(f"file is damaged: {error}", where=path, next_step="save it again as UTF-8") from error
    if not len(frame.columns):
        raise UsageError("the file is empty", where=path, allowed="rows under the names of their columns")
    return frame


def called(source: Source) -> str:
    """How a message names a source."""
    return "DataFrame" if isinstance(source, pd.DataFrame) else str(source)


def _delimited(separator: str) -> Callable[[bytes], pd.DataFrame]:
    def read_text(content: bytes) -> pd.DataFrame:
        text = content.decode("utf-8-sig")
        if not text.strip():
            return pd.DataFrame()
        rows = (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True) if row)
        width = len(next(rows))
        check_cells(width * text.count("\n"))
        for number, row in enumerate(rows, 1):
            if len(row) != width:
                raise ValueError(f"row {number} has {len(row)} cells under the names of {width} columns")
        return pd.read_csv(io.StringIO(text), sep=separator, dtype=str, keep_default_na=False, index_col=False)

    return read_text


def _json(content: bytes) -> pd.DataFrame:
    check_cells(content.count(b","))
    return _objects(json.loads(content.decode("utf-8-sig")))


def _json_lines(content: bytes) -> pd.DataFrame:
    check_cells(content.count(b",") + content.count(b"\n"))
    lines = enumerate(content.decode("utf-8-sig").splitlines(), 1)
    found = []
    for number, line in lines:
        if line.strip():
            try:
                found.append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
    return _objects(found)


def _objects(rows: Any) -> pd.DataFrame:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is no list of objects, one a row")
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pd.DataFrame([[row.get(name) for name in names] for row in rows], columns=names, dtype=object)


def _parquet(content: bytes) -> pd.DataFrame:
    told = ParquetFile(io.BytesIO(content)).metadata
    check_cells(told.num_rows * max(told.num_columns, 1))
    if sum(told.row_group(i).total_byte_size for i in range(told.num_row_groups)) > 5 * ROWS:
        raise TooManyError(f"{told.num_rows} rows of long texts")
    return pd.read_parquet(io.BytesIO(content)).reset_index(drop=True)


READERS: dict[str, Callable[[bytes], pd.DataFrame]] = {
    ".csv": _delimited(","),
    ".tsv": _delimited("\t"),
    ".json": _json,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
"""Readers by the ending of a file's name."""


WORDS = {FLOAT: "a number", INTEGER: "a whole number", FLAG: "true or false"}
LARGEST = 2**62
"""Whole numbers beyond are none of a table."""
FLAGS = {"true": True, "false": False}
FIRST = 5
"""Rows that are named where many have the same fault."""


def typed(frame: pd.DataFrame, name: str, where: object) -> pd.DataFrame:
    """Frame as table `name`, cells of text converted, sorted by key; a row that stands twice counts once.

    Rows are counted from 1 in messages, the names of the columns not counted.

    Raises DataError that lists every cell that is not as it must be, row by row; the same value in many rows once.
    """
    columns, wrong = {}, []
    for label, dtype in store.dtypes(name).items():
        columns[label], bad = _column(frame[label], dtype)
        wrong += [(row, f"column {label}: {value!r} is not {WORDS[dtype]}") for row, value in bad]
    table = pd.DataFrame(columns, index=frame.index).drop_duplicates()
    unreadable = {row for row, _ in wrong}
    wrong += _disallowed(table.drop(index=[row for row in unreadable if row in table.index]), name)
    if wrong:
        count = len({row for row, _ in wrong})
        raise DataError(
            f"{count} {'row is' if count == 1 else 'rows are'} not as table {name} wants them",
            where=where,
            rows=_listed(wrong),
            next_step="mend them and join again; nothing was written",
        )
    return store.validate(table, name, where)


def _listed(wrong: list[tuple[int, str]]) -> list[str]:
    """A line for each fault, in the order of the rows that have it first; one for all rows with the same value."""
    about: dict[tuple[str, int | None], list[int]] = {}
    for row, what in sorted(wrong):
        about.setdefault((what, None if what.startswith("column ") else row), []).append(row + 1)
    return [f"{_named(rows)}, {what}" for (what, _), rows in about.items()]


def _named(rows: list[int]) -> str:
    first = ", ".join(map(str, rows[:FIRST])) + ", …" * (len(rows) > FIRST)
    return f"{len(rows)} rows ({first})" if len(rows) > 1 else f"row {first}"


def wanted_instead(value: object, name: str, label: str) -> str:
    """What column `label` of table `name` wants where it may not have a value; empty where it may."""
    cells, bad = _column(pd.Series([value], dtype=object), store.dtypes(name)[label])
    column = TABLES[name].columns[label]
    if not bad:
        try:
            column.validate(pd.DataFrame({label: cells}), lazy=True)
        except pandera.errors.SchemaErrors:
            return _wanted(name, label)
    return "; ".join([WORDS[column.metadata["dtype"]], *(str(check.error) for check in column.checks)]) if bad else ""


def _column(values: pd.Series, dtype: str) -> tuple[pd.Series, list[tuple[int, Any]]]:
    """A column of its declared type, and the rows and values that are not; those are left empty."""
    if dtype == TEXT:
        return as_text(values), []
    missing = values.isna() | (values.astype(object) == "")
    try:
        if dtype == FLOAT:
            found = values.astype(object).where(~missing, None).astype("float64")
            if not np.isinf(found).any() and (found.isna() == missing).all():
                return found, []
    except (ValueError, TypeError, OverflowError):
        pass  # cell by cell, which finds those to blame
    convert = CONVERT[dtype]
    cells: list[Any] = []
    bad: list[tuple[int, Any]] = []
    for row, value, empty in zip(values.index, values.astype(object), missing, strict=True):
        try:
            cells.append(None if empty else convert(value))
        except (ValueError, TypeError, OverflowError):
            cells.append(None)
            bad.append((int(row), value))
    if dtype == INTEGER:
        large = [cell is not None and abs(cell) > LARGEST for cell in cells]
        bad += [(int(row), values.loc[row]) for row, too in zip(values.index, large, strict=True) if too]
        cells = [None if too else cell for cell, too in zip(cells, large, strict=True)]
    return pd.Series(cells, index=values.index, dtype=object).astype(dtype), bad


def _disallowed(table: pd.DataFrame, name: str) -> list[tuple[int, str]]:
    """Rows of a typed table whose values are not allowed, and rows whose key stands twice."""
    try:
        TABLES[name].validate(table, lazy=True)
    except pandera.errors.SchemaErrors as error:
        wrong = []
        for case in error.failure_cases.itertuples():
            if "uniqu" not in str(case.check):
                value = "empty" if pd.isna(case.failure_case) else store.shown(case.failure_case)
                what = f"column {case.column}: {value} is not allowed; {_wanted(name, case.column)}"
                wrong.append((int(case.index), what))
        twice = table.index[table.duplicated(key(name))]
        named = ", ".join(key(name))
        return wrong + [(int(row), f"{named}: the same as in a row before, with other values") for row in twice]
    return []


def _wanted(name: str, label: str) -> str:
    column = TABLES[name].columns[label]
    return "; ".join(str(check.error) for check in column.checks) or f"{column.metadata['dtype']}, and never empty"


def as_text(values: pd.Series) -> pd.Series:
    """A column of text, empty where missing; a whole number that came as 3.0 is 3.

    Raises DataError where one cannot be written in UTF-8.
    """
    cells = [
        "" if empty else str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        for value, empty in zip(values.tolist(), values.isna(), strict=True)
    ]
    try:
        return pd.Series(cells, index=values.index, dtype=TEXT)
    except UnicodeEncodeError as error:
        raise DataError(
            "a text holds half of a character, which UTF-8 cannot write",
            where=f"column {values.name}",
            got=ascii(error.object)[:60],
        ) from error


def _number(value: Any) -> float:
    found = float(value)
    if isinstance(value, bool) or not np.isfinite(found):
        raise ValueError(value)
    return found


def _whole(value: Any) -> int:
    digits = isinstance(value, int | np.integer) or (isinstance(value, str) and value.strip().lstrip("+-").isdigit())
    found = int(value) if digits else float(value)
    if isinstance(value, bool) or found != int(found):
        raise ValueError(value)
    return int(found)


def _flag(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if str(value).casefold() not in FLAGS:
        raise ValueError(value)
    return FLAGS[str(value).casefold()]


CONVERT: dict[str, Callable[[Any], Any]] = {FLOAT: _number, INTEGER: _whole, FLAG: _flag}

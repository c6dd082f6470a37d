"""Rows as other people have them: CSV, TSV, JSON, JSON Lines or Parquet files and DataFrames, not yet of any table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
from pyarrow.parquet import ParquetFile

from thermostats.errors import DataError, UsageError, did_you_mean, reason
from thermostats.tables.limits import CELLS, ROWS, TooManyError, check_cells, read_bytes

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
            "rows can be read only from files of these kinds",
            where=path,
            got=path.suffix or "no ending",
            allowed=", ".join(READERS),
            next_step=did_you_mean(path.suffix, READERS),
        )
    try:
        frame = reader(read_bytes(path, ROWS))
    except OSError as error:
        raise DataError("file cannot be read", where=path, got=reason(error)) from error
    except TooManyError as error:
        what, allowed = "the file unpacks to more than a file of rows may hold", f"at most {CELLS} cells"
        raise DataError(what, where=path, got=str(error), allowed=allowed, next_step="split it") from error
    except (ValueError, RecursionError, csv.Error) as error:
        raise DataError(f"file is damaged: {error}", where=path, next_step="save it again as UTF-8") from error
    if not len(frame.columns):
        raise UsageError("the file is empty", where=path, allowed="rows under a header of column names")
    return frame


def _delimited(content: bytes, separator: str) -> pd.DataFrame:
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


def _json(content: bytes) -> pd.DataFrame:
    check_cells(content.count(b","))
    return _objects(json.loads(content.decode("utf-8-sig")))


def _json_lines(content: bytes) -> pd.DataFrame:
    check_cells(content.count(b",") + content.count(b"\n"))
    found = []
    for number, line in enumerate(content.decode("utf-8-sig").splitlines(), 1):
        try:
            found += [json.loads(line)] if line.strip() else []
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return _objects(found)


def _objects(rows: Any) -> pd.DataFrame:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is not a list of objects, one per row")
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pd.DataFrame([[row.get(name) for name in names] for row in rows], columns=names, dtype=object)


def _parquet(content: bytes) -> pd.DataFrame:
    stated = ParquetFile(io.BytesIO(content)).metadata
    check_cells(stated.num_rows * max(stated.num_columns, 1))
    if sum(stated.row_group(i).total_byte_size for i in range(stated.num_row_groups)) > 5 * ROWS:
        raise TooManyError(f"{stated.num_rows} rows of long texts")
    return pd.read_parquet(io.BytesIO(content)).reset_index(drop=True)


READERS: dict[str, Callable[[bytes], pd.DataFrame]] = {
    ".csv": partial(_delimited, separator=","),
    ".tsv": partial(_delimited, separator="\t"),
    ".json": _json,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
"""Readers by the ending of a file's name."""

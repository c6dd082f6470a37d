"""Records of a text file that a user wrote, CSV or JSONL, each with its place; what is damaged is named."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from thermostats.errors import DataError
from thermostats.tables.limits import PROMPTS, read_bytes

Records = list[tuple[str, dict[Any, Any]]]
"""File and line of a record, and its fields."""


def read_text(path: Path, what: str) -> str:
    """A file's text; `what` it holds is named in the DataError where it cannot be read or is not UTF-8."""
    try:
        return read_bytes(path, PROMPTS).decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{what} cannot be read", where=path, got=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        got = f"byte {error.object[error.start]:#04x} at {error.start}"
        raise DataError(f"{what} are not UTF-8 text", where=path, got=got, next_step="save as UTF-8") from error


def csv_records(text: str, path: Path) -> Records:
    """The rows by name of the column; cells beyond the columns stand under None."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        return [(f"{path}, line {reader.line_num}", dict(row)) for row in reader]
    except csv.Error as error:
        raise DataError(f"CSV is damaged: {error}", where=f"{path}, line {reader.line_num}") from error


def jsonl_records(text: str, path: Path) -> Records:
    """The objects, one a line; empty lines are left out."""
    records: Records = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"line is not JSON: {error}", where=where) from error
        if not isinstance(fields, dict):
            raise DataError("line is not a JSON object", where=where, got=line[:60])
        records.append((where, fields))
    return records

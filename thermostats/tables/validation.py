"""One table against its schema: rows of other people converted and every wrong cell named, stored rows held to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from thermostats.errors import DataError
from thermostats.tables import archive
from thermostats.tables.arrow_check import check_texts, difference, disallowed, faults, held, shown, wanted
from thermostats.tables.schemas import FLAG, FLOAT, INTEGER, TABLES, TEXT, dtypes, key, with_added

WORDS = {FLOAT: "a number", INTEGER: "a whole number", FLAG: "true or false"}
LARGEST = 2**62
"""Whole numbers beyond are none of a table."""
PANDAS = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
"""Types of pandas by those of Arrow, where they are not its own."""
FIRST = 5
"""Rows that are named where many have the same fault."""


def validate(frame: pd.DataFrame, name: str, where: object = "") -> pd.DataFrame:
    """Frame as table `name`: declared columns, order and types, sorted by key.

    Raises DataError naming the first offending row, column and value.
    """
    declared, frame = dtypes(name), with_added(frame, name)
    lacking, unknown = difference(frame.columns, declared)
    for columns, what in ((lacking, "lacks columns"), (unknown, "has unknown columns")):
        if columns:
            got, allowed = ", ".join(columns), ", ".join(declared)
            raise DataError(f"table {name} {what}", where=where, got=got, allowed=allowed)
    typed = frame.loc[:, list(declared)].reset_index(drop=True)
    for label, dtype in declared.items():
        try:
            typed[label] = typed[label].fillna("").astype(dtype) if dtype == TEXT else typed[label].astype(dtype)
        except (ValueError, TypeError) as error:
            what = f"table {name}, column {label} is not of type {dtype}"
            raise DataError(what, where=where, got=str(error)) from error
    return to_frame(held(to_arrow(typed, name), name, where))


def to_arrow(frame: pd.DataFrame, name: str) -> pa.Table:
    """A frame of the declared columns and types as Arrow holds it; a number that is none is missing."""
    return pa.Table.from_pandas(frame, archive.schema(name), preserve_index=False)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Rows as a frame of the declared types."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=PANDAS.get)
    return frame


def typed(frame: pd.DataFrame, name: str, where: object) -> pd.DataFrame:
    """Frame as table `name`, cells of text converted, sorted by key; a row that occurs twice counts once.

    Rows are counted from 1 in messages, the names of the columns not counted.

    Raises DataError that lists every cell that is not as it must be, row by row; the same value in many rows once.
    """
    columns, wrong = {}, []
    for label, dtype in dtypes(name).items():
        columns[label], bad = _converted(frame[label], dtype)
        wrong += [(row, f"column {label}: {value!r} is not {WORDS[dtype]}") for row, value in bad]
    table = pd.DataFrame(columns, index=frame.index).drop_duplicates()
    rest = table.drop(index=[row for row, _ in wrong], errors="ignore")
    for place, column, value in disallowed(to_arrow(rest, name), name):
        row = int(rest.index[place])
        if column:
            wrong.append((row, f"column {column}: {shown(value)} is not allowed; {wanted(name, column)}"))
        else:
            wrong.append((row, f"{', '.join(key(name))}: the same as in a row before, with other values"))
    if wrong:
        count = len({row for row, _ in wrong})
        raise DataError(
            f"{count} {'row is' if count == 1 else 'rows are'} not as table {name} wants them",
            where=where,
            rows=_listed(wrong),
            next_step="correct them and join again; nothing was written",
        )
    for label in (label for label, dtype in dtypes(name).items() if dtype == TEXT):
        check_texts(table[label].unique(), name, label, where)
    return table.sort_values(key(name), kind="stable", ignore_index=True)


def wanted_instead(value: object, name: str, label: str) -> str:
    """What column `label` of table `name` wants where it may not have a value; empty where it may."""
    cells, bad = _converted(pd.Series([value], dtype=object), dtypes(name)[label])
    column = TABLES[name].columns[label]
    if bad:
        return "; ".join([WORDS[column.dtype], *(check.error for check in column.checks)])
    values = pa.chunked_array([pa.array(cells, archive.ARROW[column.dtype], from_pandas=True)])
    return wanted(name, label) if any(faults(values, column)) else ""


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
        what, where = "a text holds half of a character, which UTF-8 cannot encode", f"column {values.name}"
        raise DataError(what, where=where, got=ascii(error.object)[:60]) from error


def _converted(values: pd.Series, dtype: str) -> tuple[pd.Series, list[tuple[int, Any]]]:
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
    cells: list[Any] = []
    bad: list[tuple[int, Any]] = []
    for row, value, empty in zip(values.index, values.astype(object), missing, strict=True):
        try:
            cells.append(None if empty else CONVERT[dtype](value))
        except (ValueError, TypeError, OverflowError):
            cells.append(None)
            bad.append((int(row), value))
    return pd.Series(cells, index=values.index, dtype=object).astype(dtype), bad


def _number(value: Any) -> float:
    found = float(value)
    if isinstance(value, bool) or not np.isfinite(found):
        raise ValueError(value)
    return found


def _whole(value: Any) -> int:
    digits = isinstance(value, int | np.integer) or (isinstance(value, str) and value.strip().lstrip("+-").isdigit())
    found = int(value) if digits else float(value)
    if isinstance(value, bool) or found != int(found) or abs(found) > LARGEST:
        raise ValueError(value)
    return int(found)


def _flag(value: Any) -> bool:
    said = str(value).casefold()
    if said not in ("true", "false") or not isinstance(value, bool | np.bool_ | str):
        raise ValueError(value)
    return said == "true"


CONVERT: dict[str, Callable[[Any], Any]] = {FLOAT: _number, INTEGER: _whole, FLAG: _flag}


def _listed(wrong: list[tuple[int, str]]) -> list[str]:
    """A line for each fault, in the order of the rows that have it first; one for all rows with the same value."""
    about: dict[tuple[str, int | None], list[int]] = {}
    for row, what in sorted(wrong):
        about.setdefault((what, None if what.startswith("column ") else row), []).append(row + 1)
    return [f"{_named(rows)}, {what}" for (what, _), rows in about.items()]


def _named(rows: list[int]) -> str:
    first = ", ".join(map(str, rows[:FIRST])) + ", …" * (len(rows) > FIRST)
    return f"{len(rows)} rows ({first})" if len(rows) > 1 else f"row {first}"

"""One table against its schema: rows of other people converted and every wrong cell named, stored rows held to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import pandera.errors

from thermostats.errors import DataError
from thermostats.tables.schemas import FLAG, FLOAT, INTEGER, TABLES, TEXT, absent, dtypes, key, with_added

WORDS = {FLOAT: "a number", INTEGER: "a whole number", FLAG: "true or false"}
LARGEST = 2**62
"""Whole numbers beyond are none of a table."""
FIRST = 5
"""Rows that are named where many have the same fault."""
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Control characters, characters without width, and those that turn the direction of text around."""
FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes for the beginning of a formula."""
SURROGATE = re.compile("[\ud800-\udfff]")
RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*")


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
            if dtype == TEXT and absent(name).get(label):
                typed[label] = typed[label].replace("", absent(name)[label])
        except (ValueError, TypeError) as error:
            what = f"table {name}, column {label} is not of type {dtype}"
            raise DataError(what, where=where, got=str(error)) from error
        if dtype == FLOAT and np.isinf(typed[label]).any():
            raise DataError(
                f"table {name}, column {label} is infinite",
                where=_place(where, typed, int(np.isinf(typed[label]).to_numpy().argmax()), name),
                allowed="a finite number, or empty with the reason in `missing`",
            )
    for row, column, value in _disallowed(typed, name)[:1]:
        raise DataError(
            f"table {name}, column {column} has a value that is not allowed"
            if column
            else f"table {name} holds a key twice",
            where=_place(where, typed, row, name),
            got=value,
            allowed=_wanted(name, column) if column else f"one row per {', '.join(key(name))}",
        )
    check_names(typed, name, where)
    return typed.sort_values(key(name), kind="stable", ignore_index=True)


def difference(columns: Iterable[object], declared: Iterable[str]) -> tuple[list[str], list[str]]:
    """Columns that are lacking, and those that are unknown."""
    given, wanted = list(map(str, columns)), list(declared)
    return [label for label in wanted if label not in given], [label for label in given if label not in wanted]


def typed(frame: pd.DataFrame, name: str, where: object) -> pd.DataFrame:
    """Frame as table `name`, cells of text converted, sorted by key; a row that stands twice counts once.

    Rows are counted from 1 in messages, the names of the columns not counted.

    Raises DataError that lists every cell that is not as it must be, row by row; the same value in many rows once.
    """
    columns, wrong = {}, []
    for label, dtype in dtypes(name).items():
        columns[label], bad = _converted(frame[label], dtype)
        wrong += [(row, f"column {label}: {value!r} is not {WORDS[dtype]}") for row, value in bad]
    table = pd.DataFrame(columns, index=frame.index).drop_duplicates()
    for row, column, value in _disallowed(table.drop(index=[row for row, _ in wrong], errors="ignore"), name):
        if column:
            wrong.append((row, f"column {column}: {value} is not allowed; {_wanted(name, column)}"))
        else:
            wrong.append((row, f"{', '.join(key(name))}: the same as in a row before, with other values"))
    if wrong:
        count = len({row for row, _ in wrong})
        raise DataError(
            f"{count} {'row is' if count == 1 else 'rows are'} not as table {name} wants them",
            where=where,
            rows=_listed(wrong),
            next_step="mend them and join again; nothing was written",
        )
    check_names(table, name, where)
    return table.sort_values(key(name), kind="stable", ignore_index=True)


def wanted_instead(value: object, name: str, label: str) -> str:
    """What column `label` of table `name` wants where it may not have a value; empty where it may."""
    cells, bad = _converted(pd.Series([value], dtype=object), dtypes(name)[label])
    column = TABLES[name].columns[label]
    if bad:
        return "; ".join([WORDS[column.metadata["dtype"]], *(str(check.error) for check in column.checks)])
    try:
        column.validate(pd.DataFrame({label: cells}), lazy=True)
    except pandera.errors.SchemaErrors:
        return _wanted(name, label)
    return ""


def check_names(frame: pd.DataFrame, name: str, where: object = "") -> None:
    """Raise DataError where a text of table `name` holds what it may not.

    Free text (prompts, tokens) is kept as it is, as long as it can be written in UTF-8. All other text is a name or a
    sentence: no hidden characters, no beginning that a spreadsheet takes for a formula. A run_id names a file.
    """
    for label, column in TABLES[name].columns.items():
        if column.metadata["dtype"] != TEXT:
            continue
        for value in frame[label].unique():
            if fault := _fault(str(value), label, free=column.metadata["free"]):
                what = f"table {name}, column {label} {fault}"
                raise DataError(what, where=where, got=ascii(value)[:100], next_step="write the name without it")


def _fault(value: str, label: str, *, free: bool) -> str:
    if SURROGATE.search(value):
        return "holds half of a character, which UTF-8 cannot write"
    if free or not value:
        return ""
    if label == "run_id" and not RUN.fullmatch(value):
        return "names a run by more than letters, digits, - and _"
    if HIDDEN.search(value):
        return "holds a hidden character"
    return "begins as a formula of a spreadsheet does" if value.startswith(FORMULA) else ""


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
        what, where = "a text holds half of a character, which UTF-8 cannot write", f"column {values.name}"
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


def _disallowed(table: pd.DataFrame, name: str) -> list[tuple[int, str, str]]:
    """Row, column and value of each cell of a typed table that is not allowed.

    Of rows with the same key all but the first, without column and value.
    """
    try:
        TABLES[name].validate(table, lazy=True)
    except pandera.errors.SchemaErrors as error:
        cases = [case for case in error.failure_cases.itertuples() if "uniqu" not in str(case.check)]
        cells = [
            (int(case.index), str(case.column), "empty" if pd.isna(case.failure_case) else shown(case.failure_case))
            for case in cases
        ]
        return cells + [(int(row), "", "") for row in table.index[table.duplicated(key(name))]]
    return []


def _wanted(name: str, label: str) -> str:
    column = TABLES[name].columns[label]
    return "; ".join(str(check.error) for check in column.checks) or f"{column.metadata['dtype']}, and never empty"


def _place(where: object, frame: pd.DataFrame, row: int, name: str) -> str:
    named = ", ".join(f"{label} {value}" for label, value in frame.iloc[row][key(name)].items())
    return f"{where}, " * bool(str(where)) + named


def shown(value: object) -> str:
    """A value as a message shows it: a number as it is written in a file, whatever library it is of."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def _listed(wrong: list[tuple[int, str]]) -> list[str]:
    """A line for each fault, in the order of the rows that have it first; one for all rows with the same value."""
    about: dict[tuple[str, int | None], list[int]] = {}
    for row, what in sorted(wrong):
        about.setdefault((what, None if what.startswith("column ") else row), []).append(row + 1)
    return [f"{_named(rows)}, {what}" for (what, _), rows in about.items()]


def _named(rows: list[int]) -> str:
    first = ", ".join(map(str, rows[:FIRST])) + ", …" * (len(rows) > FIRST)
    return f"{len(rows)} rows ({first})" if len(rows) > 1 else f"row {first}"

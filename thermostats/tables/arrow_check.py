"""Rows as Arrow holds them against the schema of their table: what is not allowed is named, the rest sorted by key.

Arrow loads pandas to make an array or a scalar of Python's values; so columns are asked for what tells of all values,
and looked at one by one only where something is wrong.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thermostats.errors import DataError
from thermostats.tables.schemas import ABOVE, FLOAT, LOWER, ONE_OF, TABLES, TEXT, UPPER, Check, Column, absent, key

HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Control characters, characters without width, and those that turn the direction of text around."""
FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes for the beginning of a formula."""
SURROGATE = re.compile("[\ud800-\udfff]")
RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*")
BOUND: dict[str, Callable[[Any, Any], bool]] = {LOWER: operator.ge, ABOVE: operator.gt, UPPER: operator.le}


def held(rows: pa.Table, name: str, where: object = "") -> pa.Table:
    """Rows of the declared columns and types as table `name`, sorted by key; an empty text is never missing.

    Raises DataError naming the first offending row, column and value.
    """
    for place, (label, column) in enumerate(TABLES[name].columns.items()):
        values = rows[label]
        if column.dtype == TEXT:
            filled = _filled(values, absent(name).get(label) or "")
            rows = rows if filled is values else rows.set_column(place, label, filled)
        elif values.null_count and isinstance(number := absent(name).get(label), int):
            rows = rows.set_column(place, label, pc.fill_null(values, number))
        elif column.dtype == FLOAT and any(map(_is_infinite, _extremes(values))):
            row = next(row for row, value in enumerate(values.to_pylist()) if _is_infinite(value))
            what = f"table {name}, column {label} is infinite"
            allowed = "a finite number, or empty with the reason in `missing`"
            raise DataError(what, where=_place(where, rows, row, name), allowed=allowed)
    ordered = in_order(rows, name)
    for row, wrong, value in disallowed(rows, name, ordered):
        there = _place(where, rows, row, name)
        if not wrong:
            allowed = f"one row per {', '.join(key(name))}"
            raise DataError(f"table {name} holds a key twice", where=there, allowed=allowed)
        what = f"table {name}, column {wrong} has a value that is not allowed"
        raise DataError(what, where=there, got=shown(value), allowed=wanted(name, wrong))
    for label, column in TABLES[name].columns.items():
        if column.dtype == TEXT:
            check_texts(pc.unique(rows[label]).to_pylist(), name, label, where)
    return ordered


def _filled(values: pa.ChunkedArray, empty: str) -> pa.ChunkedArray:
    """A column of text, `empty` where it is missing or empty; the same column where nothing is to be filled."""
    if values.null_count or (empty and len(values) and not pc.min(pc.binary_length(values)).as_py()):
        return pa.chunked_array([[value or empty for value in values.to_pylist()]], values.type)
    return values


def disallowed(rows: pa.Table, name: str, ordered: pa.Table | None = None) -> Iterator[tuple[int, str, Any]]:
    """Row, column and value of each cell that is not allowed; None for one that may not be missing.

    Of rows with the same key all but the first, without column and value. ordered: the rows sorted by key.
    """
    for label, column in TABLES[name].columns.items():
        yield from ((row, label, value) for row, value in faults(rows[label], column))
    if _repeats(in_order(rows, name) if ordered is None else ordered, name):
        known = set()
        for row, each in enumerate(keys(rows, name)):
            if each in known:
                yield row, "", None
            known.add(each)


def in_order(rows: pa.Table, name: str) -> pa.Table:
    """Rows sorted by key."""
    return rows.take(pc.sort_indices(rows, [(label, "ascending") for label in key(name)]))


def keys(rows: pa.Table, name: str) -> list[tuple[Any, ...]]:
    """The key of every row."""
    return list(zip(*(rows[label].to_pylist() for label in key(name)), strict=True))


def _repeats(ordered: pa.Table, name: str) -> bool:
    """Whether a key occurs twice in rows that are sorted by it."""
    last = max(0, len(ordered) - 1)
    same = [pc.equal(ordered[label].slice(1), ordered[label].slice(0, last)) for label in key(name)]
    return bool(pc.any(reduce(pc.and_, same)).as_py())


def faults(values: pa.ChunkedArray, column: Column) -> Iterator[tuple[int, Any]]:
    """Place and value of each entry that a column may not have; None where one is missing that may not be."""
    empty = not column.nullable and pc.any(pc.is_null(values, nan_is_null=True)).as_py()
    telling = (  # values that pass a check if all do
        (check, each)
        for check in column.checks
        for each in (pc.unique(values).to_pylist() if check.kind == ONE_OF else _extremes(values))
    )
    if not empty and all(_allows(check, each) for check, each in telling):
        return
    for row, value in enumerate(values.to_pylist()):
        if is_missing(value):
            yield from [(row, None)] * (not column.nullable)
        elif not all(_allows(check, value) for check in column.checks):
            yield row, value


def _extremes(values: pa.ChunkedArray) -> Iterable[Any]:
    found: dict[str, Any] = pc.min_max(values).as_py()
    return found.values()


def _allows(check: Check, value: Any) -> bool:
    if is_missing(value):
        return True
    return value in check.value if check.kind == ONE_OF else BOUND[check.kind](value, check.value)


def is_missing(value: Any) -> bool:
    """Whether there is no value, or a number that is none."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and math.isinf(value)


def check_texts(values: Iterable[Any], name: str, label: str, where: object = "") -> None:
    """Raise DataError where a text of a column of table `name` holds what it may not.

    Free text (prompts, tokens) is kept as it is, as long as it can be written in UTF-8. All other text is a name or a
    sentence: no hidden characters, no beginning that a spreadsheet takes for a formula. A run_id names a file.
    """
    free = TABLES[name].columns[label].free
    for value in values:
        if fault := _fault(str(value), label, free=free):
            what = f"table {name}, column {label} {fault}"
            raise DataError(what, where=where, got=ascii(value)[:100], next_step="write the name without it")


def _fault(value: str, label: str, *, free: bool) -> str:
    if SURROGATE.search(value):
        return "holds half of a character, which UTF-8 cannot encode"
    if free or not value:
        return ""
    if label == "run_id" and not RUN.fullmatch(value):
        return "names a run with characters other than letters, digits, - and _"
    if HIDDEN.search(value):
        return "holds a hidden character"
    return "begins like a spreadsheet formula" if value.startswith(FORMULA) else ""


def difference(columns: Iterable[object], declared: Iterable[str]) -> tuple[list[str], list[str]]:
    """Columns that are lacking, and those that are unknown."""
    given, wanted = list(map(str, columns)), list(declared)
    return [label for label in wanted if label not in given], [label for label in given if label not in wanted]


def wanted(name: str, label: str) -> str:
    """What a column takes, in words."""
    column = TABLES[name].columns[label]
    return "; ".join(check.error for check in column.checks) or f"{column.dtype}, and never empty"


def shown(value: object) -> str:
    """A value as a message shows it: as it is written in a file."""
    return "empty" if value is None else repr(value)


def _place(where: object, rows: pa.Table, row: int, name: str) -> str:
    named = ", ".join(f"{label} {rows[label][row].as_py()}" for label in key(name))
    return f"{where}, " * bool(str(where)) + named

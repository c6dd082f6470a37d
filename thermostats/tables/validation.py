"""One table against its schema: cells converted to their declared types, every wrong one named,
rows sorted by key."""

from __future__ import annotations

import datetime
import math
import numbers
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thermostats.errors import SHOWN_OF, DataError
from thermostats.tables.entries import drop_names
from thermostats.tables.remedies import Remedy, write_change
from thermostats.tables.schemas import (
    ABOVE,
    FLAG,
    FLOAT,
    INTEGER,
    LOWER,
    ONE_OF,
    TABLES,
    TEXT,
    UPPER,
    Column,
    add_later_columns,
    list_dtypes,
    list_key_columns,
    list_optional,
)

Ranks = NDArray[np.int64]
LARGEST = 2**62
"""Numbers are made dense before they would pass it."""


def rank_rows(columns: Iterable[pd.Series]) -> Ranks:
    """A number for each row's combination of values, in the order of the first column, then of the
    second, and so on.

    A missing value comes after all others and equals itself.
    """
    total: Ranks | None = None
    size = 1
    for values in columns:
        of_column, n = _rank_values(values)
        if total is None:
            total = of_column.astype(np.int64)
            size = n
            continue
        if size * n > LARGEST:
            dense, total = np.unique(total, return_inverse=True)
            size = len(dense)
        total = np.add(total * n, of_column)
        size = size * n
    if total is None:
        raise ValueError("no columns")
    return total


def order_ranks(rank: Ranks) -> NDArray[np.int64] | None:
    """Positions of rows in the order of their ranks, equal ones as they came; None where they are
    in it already."""
    is_ordered = (rank[1:] >= rank[:-1]).all()
    return None if is_ordered else np.argsort(rank, kind="stable")


def mark_repeats(
    rank: Ranks, *, keep: Literal["first", "last", False] = "first"
) -> NDArray[np.bool_]:
    """Which rows have the rank of an earlier row; keep="last": of a later one; False: of any
    other."""
    if (rank[1:] > rank[:-1]).all():
        return np.zeros(len(rank), dtype=np.bool_)
    return np.asarray(pd.Series(rank).duplicated(keep=keep))


def locate_ranks(rank: Ranks, among: Ranks) -> NDArray[np.int64]:
    """Position of each rank among others, of which each occurs once; -1 where it does not."""
    if not len(among):
        return np.full(len(rank), -1)
    order = order_ranks(among)
    ordered = among if order is None else among[order]
    at = np.searchsorted(ordered, rank).clip(max=len(among) - 1)
    place = at if order is None else order[at]
    return np.where(ordered[at] == rank, place, -1)


def locate_values(values: pd.Series, among: pd.Series) -> NDArray[np.int64]:
    """Position of each value among others, of which each occurs once; -1 where it does not. Both
    are without gaps."""
    number, distinct = values.factorize()
    place = pd.Index(among).get_indexer(pd.Index(distinct))
    return np.asarray(place[number], dtype=np.int64)


def _rank_values(values: pd.Series) -> tuple[NDArray[np.integer], int]:
    """Rank of each value of a column, and how many ranks there may be."""
    cells = pa.array(values)
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    coded = cells.dictionary_encode()
    n = len(coded.dictionary)
    rank = np.empty(n + 1, dtype=np.int32)
    order = pc.sort_indices(coded.dictionary).to_numpy()
    rank[order] = np.arange(n, dtype=np.int32)
    rank[n] = n  # missing
    return rank[coded.indices.fill_null(n).to_numpy()], n + 1


WORDS = {FLOAT: "a number", INTEGER: "a whole number", FLAG: "true or false", TEXT: "a text"}
NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
"""A number as text: no separators of thousands, no decimal comma, nothing that Python alone takes
for one (`1_31`)."""
COMMA = re.compile(r"\s*[+-]?[0-9]+(,[0-9]+)+(\.[0-9]*)?\s*")
LARGEST_WHOLE = 2**62
"""Whole numbers beyond are none of a table."""
SURROGATE = re.compile("[\ud800-\udfff]")
HALF = "holds half of a character, which UTF-8 cannot encode"


class CellError(ValueError):
    """A cell is not what its column holds, for a reason that is worth saying."""


def convert_cells(values: pd.Series, dtype: str) -> tuple[pd.Series, list[tuple[int, object, str]]]:
    """A column of a declared type; place and value of each cell that is not of it, which is left
    empty, and why."""
    if str(values.dtype) == dtype:
        has_gaps = dtype == TEXT and values.hasnans
        return (values.fillna("") if has_gaps else values), []
    if dtype == FLOAT and values.dtype.kind in "iuf":
        return values.astype(dtype), []
    if str(values.dtype) == TEXT:
        if dtype == FLOAT and (numbers_there := _convert_plain_numbers(values)) is not None:
            return numbers_there, []
        return _convert_distinct(values, dtype)
    if values.dtype == object and all(value is None for value in values.to_numpy()):
        empty = "" if dtype == TEXT else None
        return pd.Series(empty, index=values.index, name=values.name, dtype=dtype), []
    return _convert_each(values, dtype)


def _convert_plain_numbers(values: pd.Series) -> pd.Series | None:
    """Texts as the floats nearest to them, where Arrow takes every one that is not empty for a
    finite number."""
    texts = pa.array(values)
    try:
        filled = pc.if_else(pc.equal(texts, ""), None, texts)
        floats = pc.cast(filled, pa.float64())
    except pa.ArrowInvalid:
        return None
    if isinstance(floats, pa.ChunkedArray):
        made = floats.to_numpy()
    else:
        made = floats.to_numpy(zero_copy_only=False)
    if np.isfinite(made).sum() + floats.null_count < len(made):
        return None
    return pd.Series(made, index=values.index, name=values.name)


def _convert_distinct(
    values: pd.Series, dtype: str
) -> tuple[pd.Series, list[tuple[int, object, str]]]:
    """As `convert_cells`, every text converted once."""
    codes, texts = values.factorize(use_na_sentinel=False)
    cells, bad = _convert_each(pd.Series(texts), dtype)
    of_code = {code: (value, what) for code, value, what in bad}
    typed_cells = cells.take(codes).set_axis(values.index)
    if not bad:
        return typed_cells, []
    rows = np.flatnonzero(np.isin(codes, list(of_code)))
    return typed_cells, [(int(row), *of_code[codes[row]]) for row in rows]


def _convert_each(values: pd.Series, dtype: str) -> tuple[pd.Series, list[tuple[int, object, str]]]:
    """As `convert_cells`, of cells of any kind."""
    cells: list[Any] = []
    bad: list[tuple[int, object, str]] = []
    for row, value in enumerate(values.astype(object)):
        try:
            cells.append(None if is_missing(value) else CONVERT[dtype](value))
        except (ValueError, TypeError, ArithmeticError) as error:
            cells.append(None)
            reason = str(error) if isinstance(error, CellError) else ""
            bad.append((row, value, reason or f"is not {WORDS[dtype]}"))
    typed_cells = pd.Series(cells, index=values.index, dtype=object)
    if dtype == TEXT:
        typed_cells = typed_cells.fillna("")
    return typed_cells.astype(dtype), bad


def is_missing(value: object) -> bool:
    """Whether a cell holds nothing, or a number that is none."""
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, str) and not value):
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)


def _read_real(value: Any) -> Any:
    """A cell as a number of its own kind; text only as `NUMBER` has it, and true is none."""
    value = value.decode() if isinstance(value, bytes) else value
    if isinstance(value, str):
        if COMMA.fullmatch(value):
            raise CellError(
                "is not a number: the decimal sign is a point, and nothing sets thousands apart"
            )
        if not NUMBER.fullmatch(value):
            raise ValueError(value)
        return Decimal(value.strip())  # exact; its float is the nearest
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real | Decimal):
        raise TypeError(value)
    return value


def _convert_number(value: Any) -> float:
    number = float(_read_real(value))
    if math.isinf(number):
        raise ValueError(value)
    return number


def _convert_integer(value: Any) -> int:
    number = _read_real(value)
    if abs(number) > LARGEST_WHOLE or number != int(number):
        raise ValueError(value)
    return int(number)


def _convert_flag(value: Any) -> bool:
    word = str(value).casefold()
    if word not in ("true", "false") or not isinstance(value, bool | np.bool_ | str):
        raise ValueError(value)
    return word == "true"


def _convert_text(value: Any) -> str:
    """A name or sentence; a whole number that came as 3.0 is 3, bytes are UTF-8."""
    if isinstance(value, datetime.date):
        raise CellError(
            "is a date where a text is wanted: spreadsheets make dates of 1-2 and the like"
        )
    if not isinstance(value, str | bytes | bool | np.bool_ | numbers.Real | Decimal):
        raise TypeError(value)
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    text = value.decode() if isinstance(value, bytes) else str(value)
    if SURROGATE.search(text):
        raise CellError(HALF)
    return text


CONVERT: dict[str, Callable[[Any], Any]] = {
    FLOAT: _convert_number,
    INTEGER: _convert_integer,
    FLAG: _convert_flag,
    TEXT: _convert_text,
}


def convert_text(values: pd.Series) -> pd.Series:
    """A column of text, empty where missing; raises DataError for the first cell that is none."""
    texts, bad = convert_cells(values, TEXT)
    for _, value, what in bad:
        raise DataError(f"a text {what}", where=f"column {values.name}", got=ascii(value)[:60])
    return texts


def convert_numbers(values: pd.Series) -> tuple[pd.Series, list[object]]:
    """A column as numbers, empty where it is missing or none, and the cells that are none."""
    numbers_there, bad = convert_cells(values, FLOAT)
    return numbers_there, [value for _, value, _ in bad]


BOUND: dict[str, Callable[[Any, Any], Any]] = {
    LOWER: operator.ge,
    ABOVE: operator.gt,
    UPPER: operator.le,
}
HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""Control characters, characters without width, and those that turn the direction of text
around."""
FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes for the beginning of a formula."""
RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*")
TIMES = ("measured_at",)
"""Columns of text that hold a time."""
NOT_ALLOWED = "is not allowed"
FINITE = "a finite number, or empty with the reason in `missing`"
AGAIN = "the same as in a row before, with other values"
NUMBERED = re.compile(r"\D+(\d+)\D*")
"""A text that holds one number, as in layer_3."""
IDENTITY = ("model_id", "revision", "source")
"""Columns from which the run of rows follows."""
NAMED_ROWS = 20
"""Rows that a line leaves out."""
FIRST = 5
"""Rows that are named where many have the same fault."""


class Fault(NamedTuple):
    """A cell that is not as it must be: its row by position, its value, and what is wrong with it.

    `wanted` is what is allowed, empty where the value is of another type. Without a column
    the row's key occurs before.
    """

    row: int
    column: str
    value: object
    what: str
    wanted: str = ""


def validate(frame: pd.DataFrame, name: str, where: object = "") -> pd.DataFrame:
    """Frame as table `name`: declared columns, order and types, sorted by key.

    Raises DataError naming the first offending row, column and value.
    """
    declared = list_dtypes(name)
    frame = add_later_columns(frame, name)
    lacking, unknown = compare_columns(frame.columns, declared)
    for columns, what in ((lacking, "lacks columns"), (unknown, "has unknown columns")):
        if columns:
            got = ", ".join(columns)
            allowed = ", ".join(declared)
            raise DataError(f"table {name} {what}", where=where, got=got, allowed=allowed)
    table, wrong = convert_columns(frame, name)
    rank = rank_keys(table, name)
    if fault := next(iter([*wrong, *find_disallowed(table, name, rank)]), None):
        keys = list_key_columns(name)
        named = [f"{label} {frame[label].iloc[fault.row]}" for label in keys]
        there = ", ".join(filter(None, [str(where), ", ".join(named)]))
        column = f"table {name}, column {fault.column}"
        if not fault.column:
            allowed = f"one row per {', '.join(keys)}"
            raise DataError(f"table {name} holds a key twice", where=there, allowed=allowed)
        if not fault.wanted:
            dtype = declared[fault.column]
            what = f"{column} is not of type {dtype}"
            got = ascii(fault.value)[:60]
            raise DataError(what, where=there, got=got, allowed=WORDS[dtype])
        what = "has a value that is not allowed" if fault.what == NOT_ALLOWED else fault.what
        got = format_value(fault.value)
        raise DataError(f"{column} {what}", where=there, got=got, allowed=fault.wanted)
    for label in list_text_columns(name):
        check_texts(table[label].unique(), name, label, where)
    return sort_rows(table, rank)


def convert_rows(frame: pd.DataFrame, name: str, where: object) -> pd.DataFrame:
    """Rows of other people as table `name`, converted and sorted by key; a row that occurs twice
    counts once.

    Rows are counted from 1 in messages, the names of the columns not counted.

    Raises DataError that lists every cell that is not as it must be, row by row; the same value in
    many rows once.
    """
    table, wrong = convert_columns(frame, name)
    typed_rows = table.drop(index=[fault.row for fault in wrong]) if wrong else table
    rest, rank = _drop_repeats(typed_rows, name)
    for fault in find_disallowed(rest, name, rank):
        place = int(rest.index[fault.row])
        wrong.append(fault._replace(row=place))
    if not wrong:
        for label in list_text_columns(name):
            check_texts(rest[label].unique(), name, label, where)
        return sort_rows(rest, rank)
    keys = ", ".join(list_key_columns(name))
    places = []
    lines = []
    for row, column, value, what, wanted_there in wrong:
        sentence = f"column {column}: {format_value(value)} {what}" if column else f"{keys}: {what}"
        if column and wanted_there:
            sentence += f"; {wanted_there}"
        place = int(frame.index[row])
        places.append(place)
        lines.append((place, sentence))
    count = len(set(places))
    are = "row is" if count == 1 else "rows are"
    raise DataError(
        f"{count} {are} not as table {name} wants them",
        where=where,
        rows=_format_faults(lines),
        next_step="correct them and join again; nothing was written",
        remedy=suggest_remedy(wrong, name, places),
    )


def _drop_repeats(table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, Ranks]:
    """Rows of a table, those that occur twice once, and the ranks of their keys."""
    rank = rank_keys(table, name)
    repeated = mark_repeats(rank, keep=False)
    if not repeated.any():
        return table, rank
    first = ~repeated | ~table.duplicated().to_numpy()
    return table[first], rank[first]


def suggest_remedy(wrong: Sequence[Fault], name: str, places: Sequence[int]) -> Remedy | None:
    """What lets wrong rows pass: layers counted from 1, numbers out of texts, the last row of a
    key, or to lack them.

    places: of each fault the row in its source. None where so many are wrong that a line cannot
    name them.
    """
    rows = sorted(set(places))
    _, columns, values, kinds, _ = zip(*wrong, strict=True)
    column = columns[0] if len(set(columns)) == 1 else ""
    if column == "layer" and set(values) == {0}:
        return Remedy(when="if layers count from 0", rows=write_change("layer", "{n} + 1"))
    is_whole = column and list_dtypes(name)[column] == INTEGER
    if is_whole and all(map(NUMBERED.fullmatch, map(str, values))):
        extracted = '{}.astype(str).str.extract(r"(\\d+)", expand=False).astype(int)'
        number = write_change(column, extracted)
        return Remedy(when="with the number alone", rows=number)
    if set(kinds) == {AGAIN}:
        last = 'df.drop_duplicates({THESE}, keep="last")'
        these = (*list_key_columns(name), *IDENTITY)
        return Remedy(when="the last of each counts", rows=last, these=these)
    if len(rows) > NAMED_ROWS:
        return None
    left = f"df[[row not in {rows} for row in range(len(df))]]"
    return Remedy(when="without the rows that are wrong", rows=left)


def sort_rows(table: pd.DataFrame, rank: Ranks) -> pd.DataFrame:
    """Rows in the order of the ranks of their keys."""
    order = order_ranks(rank)
    if order is None:
        return table.reset_index(drop=True)
    columns: dict[str, pd.Series] = {}
    without: dict[str, pd.Series] = {}
    for label, values in table.items():
        if values.isna().all():  # one for all, which saves memory
            dtype = str(values.dtype)
            cells = without.setdefault(dtype, values.reset_index(drop=True))
        else:
            cells = values.take(order).reset_index(drop=True)
        columns[str(label)] = cells
    return pd.DataFrame(columns, copy=False)


def rank_keys(table: pd.DataFrame, name: str) -> Ranks:
    """The rank of each row's key in a table, see `rank_rows`."""
    return rank_rows(table[label] for label in list_key_columns(name))


def list_text_columns(name: str) -> list[str]:
    """Columns of text of a table."""
    text_columns: list[str] = []
    for label, dtype in list_dtypes(name).items():
        if dtype == TEXT:
            text_columns.append(label)
    return text_columns


def convert_columns(frame: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[Fault]]:
    """The declared columns of a frame with their types, and the cells that are of another; those
    are left empty.

    A column that was added to the table later need not be there.
    """
    columns = {}
    wrong = []
    dtypes = list_dtypes(name)
    absent = set(drop_names(dtypes, frame).values())
    rows = range(len(frame))
    unstated = {dtype: pd.Series(None, index=rows, dtype=dtype) for dtype in absent}
    for label, dtype in dtypes.items():
        values = frame[label].reset_index(drop=True) if label in frame else unstated[dtype]
        if label in TIMES:
            values = values.map(_format_date)
        values, bad = convert_cells(values, dtype)
        default = list_optional(name).get(label)
        if default and dtype == TEXT:
            values = values.where(values != "", default)
        elif default is not None and values.hasnans:
            values = values.fillna(default)
        columns[label] = values
        for row, value, what in bad:
            wrong.append(Fault(row, label, value, what))
        if dtype == FLOAT:
            for row in np.flatnonzero(np.isinf(values)).tolist():
                wrong.append(Fault(row, label, values[row], "is infinite", FINITE))
    return pd.DataFrame(columns, copy=False), wrong


def _format_date(value: Any) -> Any:
    """A date as text, anything else as it is."""
    is_date = isinstance(value, datetime.date) and value is not pd.NaT
    return value.isoformat() if is_date else value


def find_disallowed(table: pd.DataFrame, name: str, rank: Ranks) -> list[Fault]:
    """Typed cells that their columns may not have, and of rows with the same rank of their key all
    but the first."""
    wrong = []
    for label, column in TABLES[name].columns.items():
        values = table[label]
        for row in np.flatnonzero(mark_faults(values, column)).tolist():
            value = values.iloc[row]
            stated = None if pd.isna(value) else value
            wanted = describe_column(name, label)
            wrong.append(Fault(row, label, stated, NOT_ALLOWED, wanted))
    for row in np.flatnonzero(mark_repeats(rank)).tolist():
        wrong.append(Fault(row, "", None, AGAIN))
    return wrong


def mark_faults(values: pd.Series, column: Column) -> np.ndarray:
    """Which values a column may not have: missing where one may not be, or against a check."""
    missing = values.isna().to_numpy()
    wrong = missing & (not column.nullable)
    for check in column.checks:
        if check.kind == ONE_OF:
            fits = values.isin(check.value)
        else:
            fits = BOUND[check.kind](values, check.value)
        wrong |= ~missing & ~fits.to_numpy(dtype=bool, na_value=False)
    return np.asarray(wrong)


def describe_wanted_value(value: object, name: str, label: str) -> str:
    """What column `label` of table `name` wants where it may not have a value; empty where it
    may."""
    column = TABLES[name].columns[label]
    cells, bad = convert_cells(pd.Series([value], dtype=object), column.dtype)
    if bad:
        return "; ".join([WORDS[column.dtype], *_list_checks(column)])
    return describe_column(name, label) if mark_faults(cells, column).any() else ""


def check_texts(values: Iterable[Any], name: str, label: str, where: object = "") -> None:
    """Raise DataError where a text of a column of table `name` holds what it may not.

    Free text (prompts, tokens) is kept as it is, as long as it can be written in UTF-8. All other
    text is a name or a sentence: no hidden characters, no beginning that a spreadsheet takes for a
    formula. A run_id names a file.
    """
    free = TABLES[name].columns[label].free
    for value in values:
        if fault := _describe_fault(str(value), label, free=free):
            what = f"table {name}, column {label} {fault}"
            raise DataError(
                what, where=where, got=ascii(value)[:100], next_step="write the name without it"
            )


def _describe_fault(value: str, label: str, *, free: bool) -> str:
    if SURROGATE.search(value):
        return HALF
    if free or not value:
        return ""
    if label == "run_id" and not RUN.fullmatch(value):
        return "names a run with characters other than letters, digits, - and _"
    if HIDDEN.search(value):
        return "holds a hidden character"
    if not unicodedata.is_normalized("NFC", value):
        return "holds a letter and its accent as two characters, which look like one"
    return "begins like a spreadsheet formula" if value.startswith(FORMULA) else ""


def compare_columns(
    columns: Iterable[object], declared: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Columns that are lacking, and those that are unknown."""
    there = list(map(str, columns))
    declared = list(declared)
    lacking = [label for label in declared if label not in there]
    return lacking, [label for label in there if label not in declared]


def describe_column(name: str, label: str) -> str:
    """What a column takes, in words."""
    column = TABLES[name].columns[label]
    return "; ".join(_list_checks(column)) or f"{column.dtype}, and never empty"


def _list_checks(column: Column) -> list[str]:
    return [check.error for check in column.checks]


def format_value(value: object) -> str:
    """A value as a message shows it: as it is written in a file."""
    if value is None:
        return "empty"
    plain = value.item() if isinstance(value, np.generic) else value
    return repr(plain)[:SHOWN_OF]


def _format_faults(wrong: list[tuple[int, str]]) -> list[str]:
    """A line for each fault, in the order of the rows that have it first; one for all rows with the
    same value."""
    about: dict[tuple[str, int | None], list[int]] = {}
    for row, what in sorted(wrong):
        place = None if what.startswith("column ") else row
        about.setdefault((what, place), []).append(row + 1)
    faults: list[str] = []
    for (what, _), rows in about.items():
        faults.append(f"{_list_rows(rows)}, {what}")
    return faults


def _list_rows(rows: list[int]) -> str:
    if len(rows) == 1:
        return f"row {rows[0]}"
    first = ", ".join(map(str, rows[:FIRST]))
    more = ", …" if len(rows) > FIRST else ""
    return f"{len(rows)} rows ({first}{more})"

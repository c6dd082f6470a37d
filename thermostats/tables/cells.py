"""Cells of other people as values of a declared type: a number, a whole number, true or false, a text; or none."""

from __future__ import annotations

import datetime
import math
import numbers
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from thermostats.errors import DataError
from thermostats.tables.schemas import FLAG, FLOAT, INTEGER, TEXT

WORDS = {FLOAT: "a number", INTEGER: "a whole number", FLAG: "true or false", TEXT: "a text"}
NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
"""A number as text: no separators of thousands, no decimal comma, nothing that Python alone takes for one (`1_31`)."""
COMMA = re.compile(r"\s*[+-]?[0-9]+(,[0-9]+)+(\.[0-9]*)?\s*")
LARGEST = 2**62
"""Whole numbers beyond are none of a table."""
SURROGATE = re.compile("[\ud800-\udfff]")
HALF = "holds half of a character, which UTF-8 cannot encode"


class CellError(ValueError):
    """A cell is not what its column holds, for a reason that is worth saying."""


def cells_of(values: pd.Series, dtype: str) -> tuple[pd.Series, list[tuple[int, object, str]]]:
    """A column of a declared type; place and value of each cell that is not of it, which is left empty, and why."""
    if str(values.dtype) == dtype:
        return (values.fillna("") if dtype == TEXT and values.hasnans else values), []
    if dtype == FLOAT and values.dtype.kind in "iuf":
        return values.astype(dtype), []
    if str(values.dtype) == TEXT:
        if dtype == FLOAT and (numbers_there := _plain_numbers(values)) is not None:
            return numbers_there, []
        return _by_distinct_text(values, dtype)
    if values.dtype == object and all(value is None for value in values.to_numpy()):
        return pd.Series("" if dtype == TEXT else None, index=values.index, name=values.name, dtype=dtype), []
    return _one_by_one(values, dtype)


def _plain_numbers(values: pd.Series) -> pd.Series | None:
    """Texts as the floats nearest to them, where Arrow takes every one that is not empty for a finite number."""
    texts = pa.array(values)
    try:
        floats = pc.cast(pc.if_else(pc.equal(texts, ""), None, texts), pa.float64())
    except pa.ArrowInvalid:
        return None
    made = floats.to_numpy() if isinstance(floats, pa.ChunkedArray) else floats.to_numpy(zero_copy_only=False)
    if np.isfinite(made).sum() + floats.null_count < len(made):
        return None
    return pd.Series(made, index=values.index, name=values.name)


def _by_distinct_text(values: pd.Series, dtype: str) -> tuple[pd.Series, list[tuple[int, object, str]]]:
    """As `cells_of`, every text converted once."""
    codes, texts = values.factorize(use_na_sentinel=False)
    cells, bad = _one_by_one(pd.Series(texts), dtype)
    of_code = {code: (value, what) for code, value, what in bad}
    rows = np.flatnonzero(np.isin(codes, list(of_code))) if bad else ()
    return cells.take(codes).set_axis(values.index), [(int(row), *of_code[codes[row]]) for row in rows]


def _one_by_one(values: pd.Series, dtype: str) -> tuple[pd.Series, list[tuple[int, object, str]]]:
    """As `cells_of`, of cells of any kind."""
    cells: list[Any] = []
    bad: list[tuple[int, object, str]] = []
    for row, value in enumerate(values.astype(object)):
        try:
            cells.append(None if is_missing(value) else CONVERT[dtype](value))
        except (ValueError, TypeError, ArithmeticError) as error:
            cells.append(None)
            bad.append((row, value, (isinstance(error, CellError) and str(error)) or f"is not {WORDS[dtype]}"))
    typed_cells = pd.Series(cells, index=values.index, dtype=object)
    return (typed_cells.fillna("") if dtype == TEXT else typed_cells).astype(dtype), bad


def is_missing(value: object) -> bool:
    """Whether a cell holds nothing, or a number that is none."""
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, str) and not value):
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)


def _real(value: Any) -> Any:
    """A cell as a number of its own kind; text only as `NUMBER` has it, and true is none."""
    value = value.decode() if isinstance(value, bytes) else value
    if isinstance(value, str):
        if COMMA.fullmatch(value):
            raise CellError("is not a number: the decimal sign is a point, and nothing sets thousands apart")
        if not NUMBER.fullmatch(value):
            raise ValueError(value)
        return Decimal(value.strip())  # exact; its float is the nearest
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real | Decimal):
        raise TypeError(value)
    return value


def _number(value: Any) -> float:
    number = float(_real(value))
    if math.isinf(number):
        raise ValueError(value)
    return number


def _integer(value: Any) -> int:
    number = _real(value)
    if abs(number) > LARGEST or number != int(number):
        raise ValueError(value)
    return int(number)


def _flag(value: Any) -> bool:
    word = str(value).casefold()
    if word not in ("true", "false") or not isinstance(value, bool | np.bool_ | str):
        raise ValueError(value)
    return word == "true"


def _text(value: Any) -> str:
    """A name or sentence; a whole number that came as 3.0 is 3, bytes are UTF-8."""
    if isinstance(value, datetime.date):
        raise CellError("is a date where a text is wanted: spreadsheets make dates of 1-2 and the like")
    if not isinstance(value, str | bytes | bool | np.bool_ | numbers.Real | Decimal):
        raise TypeError(value)
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    text = value.decode() if isinstance(value, bytes) else str(value)
    if SURROGATE.search(text):
        raise CellError(HALF)
    return text


CONVERT: dict[str, Callable[[Any], Any]] = {FLOAT: _number, INTEGER: _integer, FLAG: _flag, TEXT: _text}


def as_text(values: pd.Series) -> pd.Series:
    """A column of text, empty where missing; raises DataError for the first cell that is none."""
    texts, bad = cells_of(values, TEXT)
    for _, value, what in bad:
        raise DataError(f"a text {what}", where=f"column {values.name}", got=ascii(value)[:60])
    return texts


def numbers_of(values: pd.Series) -> tuple[pd.Series, list[object]]:
    """A column as numbers, empty where it is missing or none, and the cells that are none."""
    numbers_there, bad = cells_of(values, FLOAT)
    return numbers_there, [value for _, value, _ in bad]

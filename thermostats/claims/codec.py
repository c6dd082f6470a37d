"""Records of the package, tables and numbers as JSON, and back; a file so written runs no code."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

PACKAGE = "thermostats."
KIND, VALUE = "kind", "value"
"""Of what JSON has no form of: its kind, and what it is made from."""
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, ImportError, RecursionError)
"""What decoding raises of text that this version did not write."""


@dataclass(frozen=True)
class Encoding:
    """What values of a type are made from, which is encoded in turn."""

    kind: str
    types: tuple[type, ...]
    take_apart: Callable[[Any], Any]
    build: Callable[[Any], Any]


def dump_value(value: Any) -> str:
    """A record, a table, a number, text, or lists and mappings of these, as JSON.

    Raises TypeError for anything else.
    """
    return json.dumps(encode(value))


def load_value(text: str) -> Any:
    """What `dump_value` was given; raises one of `UNREADABLE` for what it cannot have written."""
    return decode(json.loads(text))


def encode(value: Any) -> Any:
    """What `json` can write of a value; raises TypeError for what has no form."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is list:
        return [encode(each) for each in value]
    name = f"{type(value).__module__}:{type(value).__qualname__}"
    if isinstance(value, Enum):
        return {KIND: name, VALUE: value.value}
    if is_dataclass(value) and name.startswith(PACKAGE):
        parts = {}
        for each in fields(value):
            parts[each.name] = encode(getattr(value, each.name))
        return {KIND: name, VALUE: parts}
    encoding = next((each for each in ENCODINGS if isinstance(value, each.types)), None)
    if encoding is None:
        raise TypeError(f"a {type(value).__name__} has no form in JSON")
    return {KIND: encoding.kind, VALUE: encode(encoding.take_apart(value))}


def decode(value: Any) -> Any:
    """What `encode` was given; raises ValueError for what it cannot have written."""
    if isinstance(value, list):
        return [decode(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {KIND, VALUE}:
        raise ValueError("not a record")
    encoding = next((each for each in ENCODINGS if each.kind == value[KIND]), None)
    if encoding is not None:
        return encoding.build(decode(value[VALUE]))
    return _build_record(str(value[KIND]), value[VALUE])


def _build_record(kind: str, parts: Any) -> Any:
    """A record or a member of an enumeration of the package."""
    module, _, name = kind.partition(":")
    if not module.startswith(PACKAGE):
        raise ValueError(f"{kind} is no record of the package")
    home = getattr(import_module(module), name, None)
    if isinstance(home, type) and issubclass(home, Enum):
        return home(parts)
    if not (isinstance(home, type) and is_dataclass(home)):
        raise ValueError(f"{kind} is no record of the package")
    record = object.__new__(home)
    for field, part in parts.items():
        object.__setattr__(record, field, decode(part))
    return record


def _write_bytes(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _write_table(table: pd.DataFrame) -> bytes:
    stream = io.BytesIO()
    try:
        table.to_parquet(stream)
    except (ValueError, TypeError) as error:  # Arrow's own errors are ValueErrors
        raise TypeError(f"a table has no form in Parquet: {error}") from error
    return stream.getvalue()


def _read_table(content: bytes) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(content))


def _write_column(column: pd.Series) -> list[Any]:
    return [column.name, column.to_frame("0")]


def _read_column(parts: list[Any]) -> pd.Series:
    name, table = parts
    return table["0"].rename(name)


def _write_array(array: Any) -> list[Any]:
    if array.dtype.kind not in "biuf":
        raise TypeError(f"an array of {array.dtype} has no form in JSON")
    return [array.dtype.str, list(array.shape), np.ascontiguousarray(array).tobytes()]


def _read_array(parts: list[Any]) -> Any:
    dtype, shape, content = parts
    array = np.frombuffer(content, dtype=dtype).reshape(shape).copy()
    return array if shape else array[()]


def _write_pairs(mapping: dict[Any, Any]) -> list[list[Any]]:
    return [list(pair) for pair in mapping.items()]


ENCODINGS = (
    Encoding("array", (np.ndarray, np.generic), _write_array, _read_array),
    Encoding("float", (float,), str, float),
    Encoding("tuple", (tuple,), list, tuple),
    Encoding("dict", (dict,), _write_pairs, dict),
    Encoding("bytes", (bytes,), _write_bytes, base64.b64decode),
    Encoding("table", (pd.DataFrame,), _write_table, _read_table),
    Encoding("column", (pd.Series,), _write_column, _read_column),
)
"""The first that fits is taken: a number of numpy is a float of Python, too."""

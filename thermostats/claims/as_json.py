"""Records of the package as JSON, tables in them as Parquet: what is read runs no code but that of records."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

PACKAGE = "thermostats."
KIND, VALUE = "kind", "value"
"""Of what JSON has no form of: its kind, and what it is made from."""


def encode(value: Any) -> Any:
    """What `json` can write of a record, a table, a number, text, or lists and mappings of these.

    Raises TypeError for anything else.
    """
    plain = type(value) in (bool, int, str) or value is None or (type(value) is float and math.isfinite(value))
    if plain:
        return value
    if type(value) is list:
        return [encode(each) for each in value]
    kind, held = _form(value)
    return {KIND: kind, VALUE: held}


def _form(value: Any) -> tuple[str, Any]:
    """Kind of a value that JSON has no form of, and what it is made from."""
    held: Any = None
    name = f"{type(value).__module__}:{type(value).__qualname__}"
    if isinstance(value, Enum):
        held = encode(value.value)
    elif is_dataclass(value) and name.startswith(PACKAGE):
        held = {each.name: encode(getattr(value, each.name)) for each in fields(value)}
    elif type(value) is float:
        name, held = "float", str(value)
    elif isinstance(value, tuple):
        name, held = "tuple", [encode(each) for each in value]
    elif isinstance(value, dict):
        name, held = "dict", [[encode(each), encode(of)] for each, of in value.items()]
    elif isinstance(value, bytes):
        name, held = "bytes", base64.b64encode(value).decode()
    elif isinstance(value, pd.DataFrame):
        name, held = "table", _parquet(value)
    elif isinstance(value, pd.Series):
        name, held = "column", [encode(value.name), _parquet(value.to_frame("0"))]
    elif isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf":
        content = np.ascontiguousarray(value).tobytes()
        name, held = "array", [value.dtype.str, list(np.shape(value)), base64.b64encode(content).decode()]
    elif value is as_it_is:
        name = "drawn"
    else:
        raise TypeError(f"a {type(value).__name__} has no form in JSON")
    return name, held


def as_it_is(axes: object) -> object:
    """In the place of the function that drew a figure which is drawn."""
    return axes


def decode(value: Any) -> Any:
    """What `encode` was given; raises ValueError for what it cannot have written."""
    if isinstance(value, list):
        return [decode(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {KIND, VALUE}:
        raise ValueError("not a record")
    kind, held = value[KIND], value[VALUE]
    return KINDS[kind](held) if kind in KINDS else _record(kind, held)


def _parquet(frame: pd.DataFrame) -> str:
    stream = io.BytesIO()
    try:
        frame.to_parquet(stream)
    except (ValueError, TypeError) as error:  # Arrow's own errors are ValueErrors
        raise TypeError(f"a table has no form in Parquet: {error}") from error
    return base64.b64encode(stream.getvalue()).decode()


def _table(held: str) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(base64.b64decode(held)))


def _column(held: list[Any]) -> pd.Series:
    return _table(held[1])["0"].rename(decode(held[0]))


def _array(held: list[Any]) -> Any:
    dtype, shape, content = held
    array = np.frombuffer(base64.b64decode(content), dtype=dtype).reshape(shape).copy()
    return array if shape else array[()]


def _record(kind: str, held: Any) -> Any:
    """A record or a member of an enumeration of the package."""
    module, _, name = str(kind).partition(":")
    if not module.startswith(PACKAGE):
        raise ValueError(f"{kind} is no record of the package")
    cls = getattr(import_module(module), name, None)
    if isinstance(cls, type) and issubclass(cls, Enum):
        return cls(decode(held))
    if not (isinstance(cls, type) and is_dataclass(cls)):
        raise ValueError(f"{kind} is no record of the package")
    record = object.__new__(cls)
    for each, of in held.items():
        object.__setattr__(record, each, decode(of))
    return record


KINDS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "tuple": lambda held: tuple(decode(each) for each in held),
    "dict": lambda held: {decode(name): decode(each) for name, each in held},
    "bytes": base64.b64decode,
    "table": _table,
    "column": _column,
    "array": _array,
    "drawn": lambda _: as_it_is,
}

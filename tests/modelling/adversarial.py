"""Tables that are wrong in ways that happen, and every public function of a table with a good
one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

Table = pd.DataFrame


def numbers(table: Table) -> list[str]:
    return [name for name in table if pd.api.types.is_numeric_dtype(table[name])]


def fill_numbers(value: Any) -> Callable[[Table], Table]:
    """Every number of a table is this one."""
    return lambda table: table.assign(**dict.fromkeys(numbers(table), value))


def spoil_first(value: Any) -> Callable[[Table], Table]:
    """The first row's numbers are this one."""

    def spoil(table: Table) -> Table:
        spoiled = table.astype(dict.fromkeys(numbers(table), float))
        spoiled.iloc[:1, [spoiled.columns.get_loc(name) for name in numbers(table)]] = value
        return spoiled

    return spoil


def mix_types(table: Table) -> Table:
    """Every column holds a number, a text, None and a list."""
    values = [1.5, "much", None, [1, 2]]
    mixed = [values[i % 4] for i in range(len(table))]
    return pd.DataFrame({name: pd.Series(mixed, dtype=object) for name in table})


def date_columns(table: Table) -> Table:
    """Numbers are dates of a time zone."""
    days = pd.date_range("2024-01-01", periods=len(table), tz="Europe/Berlin")
    return table.assign(**dict.fromkeys(numbers(table), days))


def nest_columns(table: Table) -> Table:
    """Names of columns on two levels."""
    return table.set_axis(pd.MultiIndex.from_product([["a"], list(table)]), axis=1)


SPOILED: dict[str, Callable[[Table], Table]] = {
    "no row": lambda t: t.head(0),
    "no column": lambda t: t[[]],
    "nothing": lambda t: pd.DataFrame(),
    "one row": lambda t: t.head(1),
    "two rows": lambda t: t.head(2),
    "constant": fill_numbers(1.0),
    "zero": fill_numbers(0.0),
    "below zero": fill_numbers(-1.0),
    "missing": fill_numbers(np.nan),
    "none at all": lambda t: t.assign(**dict.fromkeys(t, None)),
    "infinite": fill_numbers(np.inf),
    "one infinite": spoil_first(np.inf),
    "one missing": spoil_first(np.nan),
    "huge": lambda t: t.assign(**{name: t[name].astype(float) * 1e300 for name in numbers(t)}),
    "tiny": lambda t: t.assign(**{name: t[name].astype(float) * 1e-310 for name in numbers(t)}),
    "one huge": spoil_first(1e308),
    "whole beyond 64 bits": lambda t: t.assign(
        **{
            name: pd.Series([10**30 + i for i in range(len(t))], dtype=object).array
            for name in numbers(t)
        }
    ),
    "rows twice": lambda t: pd.concat([t, t]),
    "one index": lambda t: t.set_axis([0] * len(t)),
    "index of two levels": lambda t: t.set_index([pd.Index(["a"] * len(t)), pd.RangeIndex(len(t))]),
    "index of dates": lambda t: t.set_index(pd.date_range("2024", periods=len(t), tz="UTC")),
    "objects": lambda t: t.astype(object),
    "mixed types": mix_types,
    "texts": lambda t: t.astype(str),
    "categories": lambda t: t.astype("category"),
    "nullable": lambda t: t.convert_dtypes(),
    "nullable and missing": lambda t: t.convert_dtypes().assign(
        **{name: pd.array([pd.NA] * len(t), dtype="Float64") for name in numbers(t)}
    ),
    "dates": date_columns,
    "complex": lambda t: t.assign(**{name: t[name].astype(complex) for name in numbers(t)}),
    "flags": lambda t: t.assign(**dict.fromkeys(numbers(t), True)),
    "columns of two levels": nest_columns,
    "columns twice": lambda t: pd.concat([t, t], axis=1),
    "columns by number": lambda t: t.set_axis(range(t.shape[1]), axis=1),
    "one value each": lambda t: t.assign(
        **{name: [f"x{i}" for i in range(len(t))] for name in t if name not in numbers(t)}
    ),
    "one text": lambda t: t.assign(**{name: "same" for name in t if name not in numbers(t)}),
    "empty texts": lambda t: t.assign(**{name: "" for name in t if name not in numbers(t)}),
}
"""Ways that a table may be wrong, or only odd."""

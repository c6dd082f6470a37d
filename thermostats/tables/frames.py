"""What a user's frame must be before anything of it is read: columns that names tell apart, cells
that hold one value."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.types import is_list_like

from thermostats.errors import SHOWN_OF, UsageError, join_some
from thermostats.formatting import format_count
from thermostats.next_steps import ARROW, is_table, swap_rows, write_value


def select_rows(frame: pd.DataFrame, /, **values: Any) -> pd.DataFrame:
    """Rows whose columns have these values: one, or one of several."""
    for label, wanted in values.items():
        frame = frame[mark_rows(frame, label, wanted)]
    return frame


def mark_rows(frame: pd.DataFrame, label: str, wanted: Any) -> pd.Series[bool]:
    """Which rows have a value, or one of several, in a column."""
    cells = frame[label]
    return cells.isin(wanted) if is_list_like(wanted) else cells == wanted


def list_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as records, by the names of their columns."""
    records: list[dict[str, Any]] = frame.rename(columns=str).to_dict("records")
    return records


def read_arrow(source: Any) -> Any:
    """A frame of another library as an Arrow table, or as one of pandas where nothing else can be
    made of it; all else as it is, columns among it."""
    if isinstance(source, (pd.DataFrame, pa.Table)) or not is_table(source):
        return source
    if any(hasattr(source, name) for name in ARROW):
        with suppress(pa.ArrowInvalid):  # a column alone, which does not say so itself
            return pa.table(source)
        return source
    return source.to_pandas() if hasattr(source, "to_pandas") else source


def read_frame(table: Any) -> pd.DataFrame:
    """A table as pandas has it, from a frame, Arrow, records, or one row as a dict; categories that
    are numbers are numbers. UsageError for what is no table, and for columns that a name does not
    tell apart."""
    if isinstance(table, pd.DataFrame):
        return _convert_categories(check_frame(table.copy()))
    made = read_arrow(table)
    if isinstance(made, pa.Table):
        made = made.to_pandas()
    if isinstance(made, pd.DataFrame):
        return _convert_categories(check_frame(made))
    if _is_column(made):
        raise UsageError(
            "one column is no table",
            got=f"a {type(made).__name__} with {format_count(len(made), 'row')}",
            allowed="a DataFrame, or records",
            next_step="give the whole frame, and the column by its name",
        )
    if isinstance(table, (str, bytes)) or not hasattr(table, "__len__"):
        step = ""
        if isinstance(table, str):
            step = swap_rows() or f"pd.read_csv({write_value(table)})"
        step = "df.collect()" if hasattr(table, "collect") else step
        raise UsageError(
            "not a table", got=repr(table)[:60], allowed="a DataFrame, or records", next_step=step
        )
    is_row = isinstance(table, Mapping) and not any(map(pd.api.types.is_list_like, table.values()))
    return pd.DataFrame([table] if is_row else table)


def _is_column(value: object) -> bool:
    """Whether something that is no frame is one column, of any library."""
    has_type = hasattr(value, "dtype") or hasattr(value, "type")
    return has_type and hasattr(value, "__len__") and getattr(value, "ndim", 1) == 1


def _convert_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with numbers where categories of a column are numbers."""
    for name, column in frame.items():
        if not isinstance(column.dtype, pd.CategoricalDtype):
            continue
        kind = column.cat.categories.dtype
        if pd.api.types.is_numeric_dtype(kind):
            frame[name] = column.astype("float64" if column.isna().any() else kind)
    return frame


def check_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame; UsageError where two columns have one name, one has none, names have levels, or
    numbers are complex."""
    check_levels(frame)
    if "" in frame:
        raise UsageError(
            "a column has no name",
            got=join_some(frame.columns),
            allowed="a name for every column",
            next_step='df.rename(columns={"": "NAME"}); df.drop(columns="") where it is not needed',
        )
    twice = frame.columns[frame.columns.duplicated()].unique()
    if len(twice):
        raise UsageError(
            "two columns have one name",
            got=join_some(twice),
            allowed="one name a column",
            next_step="df.loc[:, ~df.columns.duplicated()] keeps the first of each",
        )
    if wrong := [name for name in frame if frame[name].dtype.kind == "c"]:
        raise UsageError(
            "a column is not numeric",
            where=wrong[0],
            got="complex numbers",
            allowed="finite numbers",
            next_step=f"df.drop(columns={write_value(wrong)}) where nothing needs them",
        )
    return frame


def check_levels(frame: pd.DataFrame) -> None:
    """UsageError where names of columns have levels."""
    if frame.columns.nlevels > 1:
        raise UsageError(
            "names of columns have levels",
            got=join_some(frame.columns),
            allowed="one name a column",
            next_step='df.set_axis(["_".join(map(str, name)) for name in df.columns], axis=1)',
        )


def check_single_values(frame: pd.DataFrame, *names: str) -> None:
    """UsageError where one of these columns holds lists or other things that are no single
    value."""
    for name in names:
        if name not in frame or frame[name].dtype != object:
            continue
        for value in frame[name]:
            if not isinstance(value, Hashable):
                raise UsageError(
                    "a cell holds several values",
                    where=name,
                    got=repr(value)[:SHOWN_OF],
                    allowed="one text, number or truth a cell",
                    next_step=f"df.explode({write_value(name)}) makes a row of each",
                )


def take_logs(numbers: pd.Series) -> pd.Series:
    """Logarithms of numbers above 0; missing elsewhere, as of the heads of a model without
    attention."""
    numbers = numbers.astype("float64")
    return pd.Series(np.log(numbers.where(numbers > 0)))


def read_known_numbers(frame: pd.DataFrame, name: str) -> pd.Series:
    """A column as numbers, missing where they are not known; UsageError for what is no finite
    number."""
    column = frame[name]
    numbers = pd.to_numeric(column, errors="coerce").astype("float64")
    known = column.notna()
    is_date = pd.api.types.is_datetime64_any_dtype(column.dtype)
    wrong = known & (~np.isfinite(numbers) | is_date)
    if wrong.any():
        first = column[wrong].iloc[0]
        raise UsageError(
            "a column is not numeric",
            where=name,
            got=repr(first)[:SHOWN_OF],
            allowed="finite numbers, of which some may be missing",
            next_step=f"df.drop(columns={write_value(name)}) where it is not known",
        )
    return numbers

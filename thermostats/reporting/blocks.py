"""What pages are built of: sections of text, equations, code, tables and figures, for HTML and Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from markupsafe import Markup

from thermostats import words

ROWS_SHOWN = 40
"""Rows of a table on a page; the file beside it has all."""


@dataclass(frozen=True)
class Link:
    """A cell that leads to a file of the report; an empty `href` leads nowhere."""

    text: str
    href: str

    def __str__(self) -> str:
        """The text alone."""
        return self.text


@dataclass(frozen=True)
class TableView:
    """A table with its cells as text, as many rows as a page shows."""

    label: str
    """What the table holds; unique on its page, and what a screen reader calls it."""
    columns: tuple[tuple[str, bool], ...]
    """Names, and whether numbers are set to the right."""
    rows: tuple[tuple[str | Link, ...], ...]
    count: int
    name: str = ""
    """File with all rows in full precision, relative to the page."""


@dataclass(frozen=True)
class FigureView:
    """A figure with its caption, which is its alternative text."""

    name: str
    """File, relative to the page."""
    svg: Markup
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in this order."""

    title: str
    text: tuple[str, ...] = ()
    equations: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    code: str = ""
    tables: tuple[TableView, ...] = ()
    figures: tuple[FigureView, ...] = ()
    details: str = ""
    """Where given, the tables are folded under this line."""
    id: str = ""


@dataclass
class Files:
    """Files of a page by name relative to the report, collected while its sections are made."""

    folder: str = ""
    found: dict[str, bytes] = field(default_factory=dict)

    def table(self, frame: pd.DataFrame, label: str, name: str, *, shown: pd.DataFrame | None = None) -> TableView:
        """View of a table whose rows in full precision go to the file `name`."""
        self.found[self.path(name)] = frame.to_csv(index=False, lineterminator="\n").encode()
        return view(frame if shown is None else shown, label, name)

    def path(self, name: str) -> str:
        """Name relative to the report."""
        return f"{self.folder}/{name}" if self.folder else name


def view(table: pd.DataFrame, label: str, name: str = "", most: int = ROWS_SHOWN) -> TableView:
    """A table with its cells as text; columns of numbers are set to the right."""
    columns = [column for _, column in table.items()]
    right = [pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column) for column in columns]
    cells = [_cells(column)[:most] for column in columns]
    return TableView(
        label,
        tuple(zip((str(name).replace("_", " ") for name in table.columns), right, strict=True)),
        tuple(zip(*cells, strict=True)),
        len(table),
        name,
    )


def records(rows: Mapping[str, object]) -> pd.DataFrame:
    """Two columns, what and value, of a mapping."""
    return pd.DataFrame({"what": list(rows), "value": [str(value) for value in rows.values()]})


def _cells(column: pd.Series) -> list[str | Link]:
    """Cells of a column as text; numbers that are all whole have no decimals."""
    whole = pd.api.types.is_float_dtype(column) and bool((column.dropna() % 1 == 0).all())
    return [_cell(value) for value in (column.astype("Int64") if whole else column)]


def _cell(value: Any) -> str | Link:
    if isinstance(value, Link):
        return value
    if pd.api.types.is_bool(value):
        return "yes" if value else "no"
    if pd.api.types.is_integer(value):
        return f"{int(value):,}".replace("-", words.MINUS)
    if pd.api.types.is_float(value):
        return words.number(float(value), 4)
    return "" if value is None or value is pd.NA or value is pd.NaT else str(value)

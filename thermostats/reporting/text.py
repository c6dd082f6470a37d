"""Markdown of pages: templates in which every value is escaped, tables and figures as text, and accompanying files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jinja2
import pandas as pd

from thermostats import formatting
from thermostats.claims.template import FILTERS
from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, UNMEASURED

ROWS_SHOWN = 40
"""Rows of a table on a page; the accompanying file has all."""
FAILED, MISSING = "analysis failed", "not built"
SIGNS = {SUPPORTED: "✔", AGAINST: "✘", OPEN: "◐", UNMEASURED: "○", FAILED: "!", MISSING: "…"}
"""Verdicts by shape, where there is no colour."""


class Text(str):
    """Markdown that is not escaped again."""

    __slots__ = ()


@dataclass
class Files:
    """Files of a page by name relative to the report, collected while its text is made."""

    folder: str = ""
    contents: dict[str, bytes] = field(default_factory=dict)

    def table(self, frame: pd.DataFrame, label: str, name: str, *, excerpt: pd.DataFrame | None = None) -> Text:
        """A table as text; its rows in full precision go to the file `name`."""
        self.add(name, frame.to_csv(index=False, lineterminator="\n").encode())
        return table(frame if excerpt is None else excerpt, label, name)

    def figure(self, svg: bytes, name: str, caption: str) -> Text:
        """A figure with its caption, which is its alternative text."""
        self.add(name, svg)
        alt = formatting.markdown(caption)
        return Text(f"![{alt}]({name})\n\n{alt}")

    def add(self, name: str, content: bytes) -> None:
        """Keep a file; `name` is relative to the page."""
        self.contents[f"{self.folder}/{name}" if self.folder else name] = content


def text(template: str, **values: Any) -> str:
    """A page's Markdown; every value that the template prints is escaped, but for `Text`."""
    return environment().get_template(template).render(values)


def table(frame: pd.DataFrame, label: str, name: str = "", most: int | None = ROWS_SHOWN) -> Text:
    """A table under its label: as many rows as a page shows, numbers set to the right; `name`: file with all rows."""
    columns = [column for _, column in frame.items()]
    right = [pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column) for column in columns]
    rows = list(zip(*(_cells(column.iloc[:most]) for column in columns), strict=True))
    heads = [_escaped(str(head).replace("_", " ")) for head in frame.columns]
    lines = [f"**{_escaped(label)}**", "", _line(heads), _line(["---:" if r else "---" for r in right])]
    lines += [_line([_escaped(cell) for cell in row]) for row in rows]
    cut = f"The first {len(rows)} of {len(frame)} rows. " if len(frame) > len(rows) else ""
    precise = f"Full precision: [{name}]({name})" if name else ""
    return Text("\n".join([*lines, *["", f"{cut}{precise}".strip()] * bool(cut or precise)]))


def link(label: str, href: str) -> Text:
    """A link; an empty `href` leads nowhere."""
    return Text(f"[{formatting.markdown(label)}]({href})" if href else formatting.markdown(label))


@cache
def environment() -> jinja2.Environment:
    """Templates of Markdown."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("thermostats.reporting"),
        autoescape=False,  # noqa: S701 - Markdown, escaped by its own finalizer
        undefined=jinja2.StrictUndefined,
        finalize=_escaped,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals.update(signs=SIGNS, newline=Text("  "))
    made.filters |= {name: getattr(formatting, name) for name in FILTERS}
    made.filters.update(
        chance_of=formatting.chance_of,
        estimate=formatting.estimate_text,
        probability=formatting.probability_text,
        first_sentences=formatting.first_sentences,
        slug=slug,
        versions=lambda machine: ", ".join(f"{name} {version}" for name, version in machine.items()),
    )
    return made


def slug(text: object) -> str:
    """Text as part of a file name, an id or a class: lower-case letters and digits joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", str(text).lower()).strip("-")


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(value: object) -> str:
    return value if isinstance(value, Text) else formatting.markdown(value)


def _cells(column: pd.Series) -> list[str]:
    """Cells of a column as text; numbers that are all whole have no decimals."""
    integers = pd.api.types.is_float_dtype(column) and bool((column.dropna() % 1 == 0).all())
    return [_cell(value) for value in (column.astype("Int64") if integers else column)]


def _cell(value: Any) -> str:
    if isinstance(value, Text):
        return value
    if pd.api.types.is_bool(value):
        return "yes" if value else "no"
    if pd.api.types.is_integer(value):
        return f"{int(value):,}".replace("-", formatting.MINUS)
    if pd.api.types.is_float(value):
        return formatting.number(float(value), 4)
    return "" if value is None or value is pd.NA or value is pd.NaT else str(value)

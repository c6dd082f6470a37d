"""What a figure of the report is: a table, how it is drawn, and a caption that states what the table says."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from thermostats.claims.evidence import Evidence
from thermostats.plots.column import COLUMN, column_style

EMPTY = "The tables in use hold no rows for this figure."


@dataclass(frozen=True)
class Figure:
    """One figure: `draw(table(tables), axes)` returns the axes, `caption` says in words what the same table says."""

    id: str
    title: str
    claims: tuple[str, ...]
    table: Callable[[Evidence], pd.DataFrame]
    """Tables to the rows that are drawn; empty where the tables in use hold none."""
    draw: Callable[[pd.DataFrame, Axes], Axes]
    caption: Callable[[pd.DataFrame], str]
    """What was estimated and what came out, with every number taken from the table; the alt text too."""
    width: float = COLUMN
    height: float = 2.9
    """Size in inches."""

    def words(self, table: pd.DataFrame) -> str:
        """The caption, or that there is nothing to show."""
        return EMPTY if table.empty else self.caption(table)


def svg(figure: Figure, table: pd.DataFrame) -> bytes:
    """The figure as SVG: the same bytes whenever it is drawn from the same table.

    Raises ValueError for an empty table.
    """
    stream = io.StringIO()
    with column_style():
        _drawn(figure, table).savefig(
            stream, format="svg", metadata={"Date": None, "Creator": None, "Title": figure.title}
        )
    lines = stream.getvalue().splitlines()
    return ("\n".join(line.rstrip() for line in lines) + "\n").encode()


def png(figure: Figure, table: pd.DataFrame, dpi: int = 300) -> bytes:
    """The figure as PNG. Raises ValueError for an empty table."""
    stream = io.BytesIO()
    with column_style():
        _drawn(figure, table).savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()


def _drawn(figure: Figure, table: pd.DataFrame) -> Canvas:
    if table.empty:
        raise ValueError(f"figure {figure.id}: {EMPTY}")
    canvas = Canvas(figsize=(figure.width, figure.height))
    axes = canvas.add_subplot()
    figure.draw(table, axes)
    canvas.set_size_inches(figure.width, figure.height)
    return canvas

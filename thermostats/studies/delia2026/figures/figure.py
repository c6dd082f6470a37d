"""What a figure of the report is: a table, how it is drawn, and a caption that states what the table says."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from thermostats.claims.evidence import Evidence
from thermostats.plots.general import house_style, legend_points

COLUMN = 3.54
"""Width of one column of print in inches (90 mm)."""
SMALL = {
    "font.size": 7.0,
    "axes.labelsize": 7.0,
    "axes.titlesize": 7.5,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "legend.handlelength": 1.6,
    "lines.linewidth": 1.1,
    "lines.markersize": 4.0,
    "figure.constrained_layout.w_pad": 0.03,
    "figure.constrained_layout.h_pad": 0.03,
}
"""What one column changes in the house style."""
NAME_SIZE = 6.0
"""Size of a point's name in points."""
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


@contextmanager
def column_style() -> Iterator[None]:
    """House style at the width of one column."""
    with house_style(), mpl.rc_context(SMALL):  # type: ignore[arg-type]
        yield


def legend_over_rows(axes: Axes) -> None:
    """Legend over the whole width of a figure whose rows have long names; none where there are other axes beside."""
    canvas = axes.get_figure(root=True)
    handles, names = axes.get_legend_handles_labels()
    if canvas is None or len(canvas.axes) > 1 or not names:
        return
    unique = dict(zip(names, handles, strict=True))
    room = 22 * canvas.get_figwidth() * 6.5 / legend_points()
    columns = max(1, min(len(unique), int(room / (max(map(len, unique)) + 6))))
    legend = canvas.legend(
        unique.values(),
        unique.keys(),
        loc="outside upper left",
        ncols=columns,
        handletextpad=0.4,
        columnspacing=1.0,
        borderpad=0.1,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _drawn(figure: Figure, table: pd.DataFrame) -> Canvas:
    if table.empty:
        raise ValueError(f"figure {figure.id}: {EMPTY}")
    canvas = Canvas(figsize=(figure.width, figure.height))
    axes = canvas.add_subplot()
    figure.draw(table, axes)
    canvas.set_size_inches(figure.width, figure.height)
    return canvas

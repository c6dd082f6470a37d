"""What a figure of the report is: a table, how it is drawn, and a caption; several figures as panels of one."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from thermostats.claims.evidence import Evidence
from thermostats.claims.template import Template
from thermostats.formatting import first_sentences
from thermostats.plots.column import COLUMN, column_style, lab_entry
from thermostats.plots.general import plain_text

PANEL, COLUMNS = "panel", 2
"""Column that names the figure of a row of the combined one, and columns of its panels."""
EMPTY = "The tables in use hold no rows for this figure."


CAPTIONS = Template.read(Path(__file__).with_name("captions.md"))


@dataclass(frozen=True)
class Figure:
    """One figure: `draw(table(tables), axes)` draws it, `caption` says what the same table says."""

    id: str
    title: str
    claims: tuple[str, ...]
    table: Callable[[Evidence], pd.DataFrame]
    """Tables to the rows that are drawn; empty where the tables in use hold none."""
    draw: Callable[[pd.DataFrame, Axes], None]
    numbers: Callable[[pd.DataFrame], Mapping[str, Any]]
    """Values for the figure's words in `captions.md`; every number is taken from the table."""
    width: float = COLUMN
    height: float = 2.9
    """Size in inches."""

    def caption(self, table: pd.DataFrame) -> str:
        """What was estimated and what came out; the alt text too. For an empty table, that there is nothing to show."""
        return EMPTY if table.empty else CAPTIONS.line(self.id, "caption", self.numbers(table))


def svg(figure: Figure, table: pd.DataFrame) -> bytes:
    """The figure as SVG: the same bytes whenever it is drawn from the same table, which has rows."""
    stream = io.StringIO()
    with column_style():
        canvas = Canvas(figsize=(figure.width, figure.height))
        figure.draw(table, canvas.add_subplot())
        canvas.set_size_inches(figure.width, figure.height)
        canvas.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Title": figure.title})
    lines = stream.getvalue().splitlines()
    return ("\n".join(line.rstrip() for line in lines) + "\n").encode()


def combine(figures: Sequence[Figure]) -> Figure:
    """One figure with every given figure as a lettered panel, and one legend of the labs."""

    def table(tables: Evidence) -> pd.DataFrame:
        parts = [part.table(tables).assign(**{PANEL: part.id}) for part in figures]
        filled = [part for part in parts if not part.empty]
        return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=[PANEL])

    def draw(rows: pd.DataFrame, axes: Axes) -> None:
        place, canvas = axes.get_subplotspec(), axes.get_figure(root=True)
        assert place is not None and isinstance(canvas, Canvas)  # noqa: S101 - `svg` makes them by add_subplot
        axes.set_axis_off()
        panels = [part for part in figures if (rows[PANEL] == part.id).any()]
        grid = place.subgridspec(-(-len(panels) // COLUMNS), COLUMNS)
        for position, part in enumerate(panels):
            panel = canvas.add_subplot(grid[divmod(position, COLUMNS)])
            part.draw(_rows_of(rows, part), panel)
            if (inner := panel.get_legend()) is not None:
                inner.remove()
            panel.set_title(f"{chr(ord('A') + position)}  {part.title}")
        for lab in sorted(rows["heritage"].dropna().unique()):
            lab_entry(axes, lab)
        labs = axes.get_legend_handles_labels()
        legend = canvas.legend(*labs, loc="outside upper center", ncols=min(len(labs[1]), 8), borderpad=0.1)
        plain_text(legend.get_texts())

    def numbers(rows: pd.DataFrame) -> dict[str, Any]:
        panels = [(part, _rows_of(rows, part)) for part in figures if (rows[PANEL] == part.id).any()]
        return {"panels": [(part.title, first_sentences(part.caption(table))) for part, table in panels]}

    claims = tuple(dict.fromkeys(claim for part in figures for claim in part.claims))
    return Figure("combined", "All figures", claims, table, draw, numbers, width=2.05 * COLUMN, height=11.0)


def _rows_of(rows: pd.DataFrame, part: Figure) -> pd.DataFrame:
    of_panel = rows[rows[PANEL] == part.id].drop(columns=PANEL).reset_index(drop=True)
    return of_panel.loc[:, of_panel.notna().any() | of_panel.columns.str.endswith(("_lower", "_upper"))].infer_objects()

"""All figures of the study as panels of one."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from thermostats.claims.evidence import Evidence
from thermostats.plots.column import COLUMN, lab_entry
from thermostats.plots.general import plain_text
from thermostats.studies.delia2026.figures.figure import Figure
from thermostats.words import first_sentences

PANEL, COLUMNS = "panel", 2


def combine(figures: Sequence[Figure]) -> Figure:
    """One figure with every given figure as a lettered panel, and one legend of the labs."""

    def table(tables: Evidence) -> pd.DataFrame:
        parts = [part.table(tables).assign(**{PANEL: part.id}) for part in figures]
        filled = [part for part in parts if not part.empty]
        return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=[PANEL])

    def draw(rows: pd.DataFrame, axes: Axes) -> Axes:
        place, canvas = axes.get_subplotspec(), axes.get_figure(root=True)
        if place is None or not isinstance(canvas, Canvas):
            raise ValueError("the combined figure needs axes that stand in a grid, as add_subplot makes them")
        axes.set_axis_off()
        shown = [part for part in figures if (rows[PANEL] == part.id).any()]
        grid = place.subgridspec(-(-len(shown) // COLUMNS), COLUMNS)
        for number, part in enumerate(shown):
            panel = canvas.add_subplot(grid[divmod(number, COLUMNS)])
            part.draw(_rows_of(rows, part), panel)
            if (own := panel.get_legend()) is not None:
                own.remove()
            panel.set_title(f"{chr(ord('A') + number)}  {part.title}")
        for lab in sorted(rows["heritage"].dropna().unique()):
            lab_entry(axes, lab)
        labs = axes.get_legend_handles_labels()
        legend = canvas.legend(*labs, loc="outside upper center", ncols=min(len(labs[1]), 8), borderpad=0.1)
        plain_text(legend.get_texts())
        return axes

    def caption(rows: pd.DataFrame) -> str:
        shown = [part for part in figures if (rows[PANEL] == part.id).any()]
        said = (
            f"{chr(ord('A') + number)}, {part.title}: {first_sentences(part.caption(_rows_of(rows, part)))}"
            for number, part in enumerate(shown)
        )
        return " ".join(said)

    claims = tuple(dict.fromkeys(claim for part in figures for claim in part.claims))
    return Figure("combined", "All figures", claims, table, draw, caption, width=2.05 * COLUMN, height=11.0)


def _rows_of(rows: pd.DataFrame, part: Figure) -> pd.DataFrame:
    own = rows[rows[PANEL] == part.id].drop(columns=PANEL).reset_index(drop=True)
    return own.loc[:, own.notna().any() | own.columns.str.endswith(("_lower", "_upper"))].infer_objects()

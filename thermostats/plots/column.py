"""The house style at the width of one column of print, and what figures of that width need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from thermostats.formatting import short_name
from thermostats.plots.general import entries_of, house_style, legend_columns, plain_text
from thermostats.plots.labels import place_labels
from thermostats.plots.marks import mark

COLUMN = 3.54
"""Width of one column of print in inches (90 mm)."""


@contextmanager
def column_style() -> Iterator[None]:
    """House style at the width of one column."""
    with house_style(), house_style("column"):
        yield


def legend_over_rows(axes: Axes) -> None:
    """Legend over the whole width of a figure whose rows have long names; none if there are other axes next to it."""
    canvas, entries = axes.get_figure(root=True), entries_of(axes)
    if canvas is None or len(canvas.axes) > 1 or not entries:
        return
    legend = canvas.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper left",
        ncols=legend_columns(entries, 22 * 6.5 * canvas.get_figwidth()),
        handletextpad=0.4,
        columnspacing=1.0,
        borderpad=0.1,
    )
    plain_text(legend.get_texts())


def lab_entry(axes: Axes, lab: str, **style: object) -> None:
    """An entry of the legend for a lab, with nothing drawn."""
    color, marker = mark(lab)
    axes.plot([], [], **{"color": color, "marker": marker, "linestyle": "", "label": lab, **style})  # type: ignore[arg-type]


def name_points(axes: Axes, x: ArrayLike, y: ArrayLike, names: Iterable[str]) -> None:
    """Short names of models at their points."""
    place_labels(axes, x, y, [short_name(str(name)) for name in names], 6.0)

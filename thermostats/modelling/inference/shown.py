"""How a fit and its gate are shown: a few lines at a prompt, tables in a notebook, figures by kind; how it is kept.

`fit` is a `Fitted`, which shows itself by this module.
"""

from __future__ import annotations

import functools
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thermostats.errors import unknown
from thermostats.modelling.inference.draws import equal_tailed
from thermostats.modelling.inference.parts import Update
from thermostats.plots.general import forest
from thermostats.plots.posterior import posterior_predictive_panels, prior_to_posterior
from thermostats.words import number, plural

LINES = 10
"""Most lines of a fit at a prompt."""
SHOWN = 4
"""Quantities, and probabilities, that are among them."""
WIDTH = 100
"""Most characters of a line."""
MOST_ROWS = 20
"""Most quantities in a notebook's table or in a figure."""


def lines(fit: Any) -> list[str]:
    """A fit in at most `LINES` lines of at most `WIDTH` characters."""
    table = fit.summary().head(SHOWN)
    rows = [
        f"  {row['quantity']}: {number(row['median'])} [{number(row['lower'])}, {number(row['upper'])}]"
        for row in table.to_dict("records")
    ]
    chances = [f"P({name}) = {number(value)}" for name, value in list(fit.probabilities.items())[:2]]
    more = f"summary() has all quantities, median and {fit.level:.0%} interval; then check(), plot(), to_dict()"
    said = [plural(len(fit.warnings), "warning") + f", first: {fit.warnings[0]}"] if fit.warnings else []
    return [shortened(line) for line in [headline(fit), *rows, *chances, *said, more][:LINES]]


def headline(fit: Any) -> str:
    """Family, outcome, size and status of a fit."""
    size = f"{plural(fit.n_models, 'model')} of {plural(fit.n_heritages, 'lab')}"
    return f"{fit.family} fit of {fit.estimand}: {size}, {fit.status}"


def shortened(line: str) -> str:
    """A line of at most `WIDTH` characters."""
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def html(title: str, table: pd.DataFrame, said: Sequence[str] = ()) -> str:
    """A title, the first rows of a table and remarks, for a notebook."""
    left = len(table) - MOST_ROWS
    remarks = [*said, *([f"{left} rows more"] if left > 0 else [])]
    listed = "".join(f"<li>{escape(line)}</li>" for line in remarks)
    body = table.head(MOST_ROWS).to_html(index=False, border=0, float_format=lambda x: f"{x:.4g}")
    return f"<p><b>{escape(title)}</b></p>{body}" + f"<ul>{listed}</ul>" * bool(listed)


def update_table(updates: Mapping[str, Update], level: float) -> pd.DataFrame:
    """Median and interval of every quantity before and after the data: quantity, stage, median, lower, upper."""
    rows = []
    for name, update in updates.items():
        for stage, values in (("prior", update.prior), ("posterior", update.posterior)):
            lower, upper = equal_tailed(values, level)
            rows.append((name, stage, float(np.median(values)), float(lower), float(upper)))
    return pd.DataFrame(rows, columns=["quantity", "stage", "median", "lower", "upper"])


def _intervals(fit: Any, axes: Axes) -> object:
    axes.set_title(f"{fit.family}: {fit.estimand}, {fit.level:.0%} intervals", parse_math=False)
    return forest(fit.summary().head(MOST_ROWS), axes, label="quantity", estimate="median")


def _prior(fit: Any, axes: Axes) -> object:
    return prior_to_posterior(update_table(dict(list(fit.updates().items())[:MOST_ROWS]), fit.level), axes)


def _replicated(fit: Any, axes: Axes) -> object:
    tables = [check.table for check in fit.check().checks if check.name.endswith("posterior predictive")]
    return posterior_predictive_panels(pd.concat(tables, ignore_index=True), axes)


KINDS: dict[str, Callable[[Any, Axes], object]] = {
    "fit": lambda fit, axes: fit.figure(fit, axes),
    "intervals": _intervals,
    "prior": _prior,
    "replicated": _replicated,
}
"""Figures of every fit; a family may have `panels` of its own."""


def draw(fit: Any, axes: Axes | None, kind: str) -> Axes:
    """Draw one kind of figure onto axes, or onto those of a new figure, which is made as large as its labels need.

    Raises UsageError for a kind that does not exist.
    """
    panels: Mapping[str, Any] = getattr(fit, "panels", {})
    if kind not in (known := [*KINDS, *panels]):
        raise unknown("no such figure of the fit", kind, known)
    drawn = axes if axes is not None else Figure(layout="constrained").subplots()
    if kind in KINDS:
        KINDS[kind](fit, drawn)
    else:
        panels[kind].draw(drawn)
    if axes is None:
        make_room(drawn)
    return drawn


def make_room(axes: Axes) -> None:
    """Enlarge a figure until all that is drawn lies in it, and the names of rows do not overlap."""
    figure = axes.get_figure(root=True)
    if not isinstance(figure, Figure):
        return
    rows = sum(bool(label.get_text()) for label in axes.get_yticklabels())
    figure.set_figheight(max(figure.get_figheight(), 0.9 + 0.22 * rows))
    for _ in range(3):
        with warnings.catch_warnings():  # no room at first is what this mends
            warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)
            figure.draw_without_rendering()
        drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        across = max(0.0, -drawn.x0) + max(0.0, drawn.x1 - width)
        down = max(0.0, -drawn.y0) + max(0.0, drawn.y1 - height)
        if across < 0.01 and down < 0.01:
            return
        figure.set_size_inches(width + 1.1 * across, height + 1.1 * down)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles functions that are defined in others, those that keep their results too."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, functools._lru_cache_wrapper):
            return functools.cache, (obj.__wrapped__,)
        return super().reducer_override(obj)


def pickled(value: object) -> bytes:
    """A value with the functions in it as bytes."""
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


def restored(kind: type, content: bytes) -> Any:
    """The record of a kind whose fields were pickled."""
    found: Any = object.__new__(kind)
    found.__dict__.update(cloudpickle.loads(content))
    return found

"""A quantity of each block over depth: one line a model, with a band over its prompts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from thermostats.errors import UsageError
from thermostats.formatting import short_name
from thermostats.plots.general import COLUMN, DASHES, column_style, log_axis, reference
from thermostats.tables.by_layer import shared_runs, values_of
from thermostats.tables.features import LAST

HEIGHT, RESOLUTION = 2.5, 300
"""Inches, and points to the inch of a PNG."""
BAND = (0.1, 0.9)
"""Quantiles over prompts between which the band lies."""
FORMATS = (".svg", ".png", ".pdf")
WIDE = 10.0
"""Ratio of the largest to the smallest value from which on an axis is logarithmic."""
MOST = 8
"""Lines that a reader can distinguish."""
TOKENS = {"last": "at the last token", "first": "at the first token", "all": "over all tokens"}


def profile(
    models: str | Path | Sequence[str | Path] | pd.DataFrame,
    quantity: str = "gain",
    position: str = LAST,
    *,
    data: str | Path | None = None,
    figure: str | Path | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Median over prompts of a quantity of block l against l, one line a model, and the band of 80% of the prompts.

    models: one or several names in the tables, with or without the owner, or folders; behind an @ a revision. Or the
    table that `paired` returns, whose differences are drawn with their intervals. Models of other depths are drawn over
    the relative depth l / L. Runs on a prompt set that all models share are taken, else the newest of each.

    quantity: gain ‖x_l‖ / ‖x_(l−1)‖, norm ‖x_(l−1)‖ (what block l reads), read gain, attention gain or mlp gain.
    figure: a file to write, SVG, PNG or PDF, as wide as a column of print.

    Raises UsageError for a model without such rows, a quantity, position or file that there is not.
    """
    path = figure_file(figure)
    with column_style():
        drawn = axes if axes is not None else Figure(figsize=(COLUMN, HEIGHT), layout="constrained").subplots()
        if isinstance(models, pd.DataFrame):
            _differences(models, drawn)
        else:
            asked = [models] if isinstance(models, (str, Path)) else list(models)
            if not 0 < len(asked) <= MOST:
                what = "no model to draw" if not asked else "more models than lines that a reader can distinguish"
                raise UsageError(what, where="models", got=len(asked), allowed=f"1 to {MOST}")
            _lines(shared_runs([values_of(model, quantity, position, data) for model in asked]), drawn, quantity)
            drawn.set_title(f"{quantity.capitalize()} of each block {TOKENS.get(position, f'({position})')}")
        if path is not None:
            write_figure(drawn, path)
    return drawn


def write_figure(axes: Axes, path: Path) -> None:
    """Write the figure of axes to a file, the same bytes of the same figure."""
    if (canvas := axes.get_figure(root=True)) is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, dpi=RESOLUTION, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def figure_file(figure: str | Path | None) -> Path | None:
    """The file that a figure is to be written to; UsageError for a kind of file that there is not."""
    path = None if figure is None else Path(figure)
    if path is not None and path.suffix.lower() not in FORMATS:
        what, step = "no such kind of figure", f"figure={str(path.with_suffix('.svg'))!r}"
        raise UsageError(what, where="figure", got=str(path), allowed=", ".join(FORMATS), next_step=step)
    return path


def _lines(sides: Sequence[pd.DataFrame], axes: Axes, quantity: str) -> None:
    depths = [int(side["layer"].max()) for side in sides]
    alike = len(set(depths)) == 1
    apart = len({side["prompt_set"].iloc[0] for side in sides}) > 1
    lowest, highest = np.inf, 0.0
    for k, (side, depth) in enumerate(zip(sides, depths, strict=True)):
        values = side.groupby("layer")["value"]
        middle, low, high = values.median(), values.quantile(BAND[0]), values.quantile(BAND[1])
        x = middle.index.to_numpy() / (1 if alike else depth)
        n = side.loc[side["prompt"].ne(""), "prompt"].nunique()
        rests = (f"{n} prompts" if n else "mean over prompts") + f" of {side['prompt_set'].iloc[0]}" * apart
        label = f"{short_name(str(side['model'].iloc[0]))}, {rests}"
        (line,) = axes.plot(x, middle, linestyle=DASHES[k % len(DASHES)], label=label, zorder=3)
        if n > 1:
            axes.fill_between(x, low, high, color=line.get_color(), alpha=0.18, linewidth=0, zorder=1)
        lowest, highest = min(lowest, float(low.min())), max(highest, float(high.max()))
    if "gain" in quantity:
        reference(axes, 1.0)
    if lowest > 0 and highest / lowest > WIDE:
        log_axis(axes, "y")
    names = "ratio of norms" if "gain" in quantity else "norm of what the block reads"
    below = "block l" if alike else "relative depth l / L"
    axes.set(xlabel=f"{below} (band: {BAND[1] - BAND[0]:.0%} of the prompts)", ylabel=names)
    if alike:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="best")


def _differences(table: pd.DataFrame, axes: Axes) -> None:
    """Paired differences with their intervals, as `paired` gives them."""
    if "difference" not in table or "second" not in table.attrs:
        what, step = "not a table of paired differences", "thermostats.profile(thermostats.paired(FIRST, SECOND))"
        raise UsageError(what, where="models", got=f"columns {', '.join(map(str, table))[:60]}", next_step=step)
    about = table.attrs
    first, second = (short_name(str(about[side])) for side in ("first", "second"))
    axes.fill_between(table["layer"], table["lower"], table["upper"], alpha=0.2, linewidth=0, zorder=1)
    n = int(table["n_prompts"].min())
    axes.plot(table["layer"], table["difference"], label=f"mean over {n} prompts, {about['level']:.0%} interval")
    reference(axes, 0.0)
    axes.set(xlabel="block l", ylabel=f"difference of {about['quantity']}s")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"{second} − {first}")
    axes.legend(loc="best")

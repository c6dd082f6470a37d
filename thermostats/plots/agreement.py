"""Two measurements of the same things against each other: on the line of identity, and by Bland and Altman's plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.plots.general import INK, MUTED, PAPER, RULE, legend_above, reference
from thermostats.plots.scales import log_axis

SHADES = ("#0072B2", "#D55E00", MUTED)
"""Colours of figures that agree, that do not, and that cannot be judged; fill and shape differ too."""
SHAPES = ("o", "s", "D")


def identity(table: pd.DataFrame, axes: Axes, kinds: Sequence[str]) -> Axes:
    """`measured` over `value`, both logarithmic, with their intervals; kinds: values of `agrees`, one colour each."""
    ends = [table["value"].min(), table["measured"].min(), table["value"].max(), table["measured"].max()]
    low, high = min(ends) / 1.3, max(ends) * 1.3
    axes.plot([low, high], [low, high], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
    for kind, color, shape in zip(kinds, SHADES, SHAPES, strict=True):
        rows = table[table["agrees"] == kind]
        if len(rows):
            x, y = rows["value"], rows["measured"]
            across, up = _reach(rows, x, "lower", "upper"), _reach(rows, y, "measured_lower", "measured_upper")
            axes.errorbar(x, y, up, across, fmt="none", ecolor=color, elinewidth=0.7, alpha=0.5)
            _points(axes, x, y, kind, color, shape)
    axes.set(xlabel="published", ylabel="measured", xlim=(low, high), ylim=(low, high))
    for which in "xy":
        log_axis(axes, which)
    legend_above(axes)
    return axes


def bland_altman(
    table: pd.DataFrame, axes: Axes, kinds: Sequence[str], lines: Mapping[str, float] | None = None
) -> Axes:
    """Ratio of measured to published over their geometric mean, both logarithmic, and the line of no difference.

    lines: further lines by what they are, such as the mean ratio and the limits of agreement.
    """
    axes.axhline(1.0, color=RULE, linewidth=1.2, zorder=0)
    for name, at in (lines or {}).items():
        reference(axes, at, text=name)
    mean = np.sqrt(table["value"] * table["measured"])
    ratio = table["measured"] / table["value"]
    for kind, color, shape in zip(kinds, SHADES, SHAPES, strict=True):
        chosen = table["agrees"] == kind
        if chosen.any():
            _points(axes, mean[chosen], ratio[chosen], kind, color, shape)
    axes.set(xlabel="geometric mean of both", ylabel="measured / published")
    for which in "xy":
        log_axis(axes, which)
    legend_above(axes)
    return axes


def _points(axes: Axes, x: pd.Series, y: pd.Series, kind: str, color: str, shape: str) -> None:
    face = color if shape == SHAPES[1] else PAPER
    axes.scatter(x, y, facecolor=face, edgecolor=color if color != MUTED else INK, marker=shape, s=22, label=kind)


def _reach(rows: pd.DataFrame, centre: pd.Series, lower: str, upper: str) -> np.ndarray:
    """How far intervals reach below and above; nothing where there is none."""
    reach: np.ndarray = np.nan_to_num(np.array([centre - rows[lower], rows[upper] - centre]))
    return reach

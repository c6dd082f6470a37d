"""Logarithmic axes with plain numbers at 1, 2 and 5."""

from __future__ import annotations

import math
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

WIDE = 2.5
"""Powers of ten above which only the powers are marked."""


def log_axis(axes: Axes, which: Literal["x", "y"]) -> None:
    """Make one axis logarithmic, its limits as they are; call it when everything is drawn."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    wide = math.log10(high / low) > WIDE
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1000 else f"{value:g}"))

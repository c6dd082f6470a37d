"""Logarithmic axes with plain numbers: at 1, 2 and 5, and at round steps where the range is narrow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from thermostats.formatting import SUPERSCRIPT, WHOLE, number

WIDE = 2.5
"""Powers of ten above which only the powers are marked."""
BARE = 1.001
"""Ratio of the limits below which six digits tell no tick from the next."""
NARROW = 5.0
"""Ratio of the limits below which a logarithm's 1, 2 and 5 would leave an axis nearly bare."""


def log_axis(axes: Axes, which: str) -> None:
    """Make one axis logarithmic, its limits as they are; call it when everything is drawn."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    axis = axes.xaxis if which == "x" else axes.yaxis
    if high / low < NARROW:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0,) if math.log10(high / low) > WIDE else (1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    if high / low < BARE:
        axis.set_major_formatter(FuncFormatter(lambda value, _: _around_one(value, list(axis.get_majorticklocs()))))
        return
    as_text = _power if high >= WHOLE and math.log10(high / low) > WIDE else _plain
    axis.set_major_formatter(FuncFormatter(lambda value, _: as_text(value)))


def _around_one(value: float, ticks: Sequence[float]) -> str:
    """A tick with the decimals that tell it from its neighbour."""
    step = min(abs(after - before) for before, after in pairwise(ticks)) if len(ticks) > 1 else 1.0
    return f"{value:.{max(0, math.ceil(-math.log10(step)))}f}"


def _power(value: float) -> str:
    return f"10{str(round(math.log10(value))).translate(SUPERSCRIPT)}"


def _plain(value: float) -> str:
    if value >= WHOLE:
        return number(value, 1)
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"

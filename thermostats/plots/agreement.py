"""Two measurements of the same things against each other, by Bland and Altman's plot (1986, Lancet 327:307)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.plots.general import INK, PAPER, RULE, reference
from thermostats.plots.scales import log_axis


def bland_altman(table: pd.DataFrame, axes: Axes, lines: Mapping[str, float]) -> Axes:
    """Ratio of `measured` to `value` over their geometric mean, both logarithmic, and the line of no difference.

    lines: further lines by what they are, such as the limits of agreement.
    """
    axes.axhline(1.0, color=RULE, linewidth=1.2, zorder=0)
    for name, at in lines.items():
        reference(axes, at, text=name)
    mean = np.sqrt(table["value"] * table["measured"])
    axes.scatter(mean, table["measured"] / table["value"], facecolor=PAPER, edgecolor=INK, s=22)
    axes.set(xlabel="geometric mean of both", ylabel="measured / published")
    for which in "xy":
        log_axis(axes, which)
    return axes

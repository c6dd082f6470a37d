"""The depth law of the controlled study: exponent and level of the largest gain over depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.modelling.inference.draws import Array
from thermostats.plots.general import DASHES, MUTED, legend_above, reference
from thermostats.plots.scales import log_axis
from thermostats.studies.nursery.slopes import EDGES, curve_of

LARGEST = "max_gain_to_penultimate"
TOTAL = 10.0
"""The bound 10^(1/L) of every block lets the product of gains reach this much."""
LEVEL = 0.95


class Curve(NamedTuple):
    """Exponent β and level at the middle depth L0 over 1/L0 of log10 G_max = m (L/L0)^(−β), with their intervals."""

    beta: tuple[float, float, float]
    level: tuple[float, float, float]
    middle: float
    at_edge: bool
    """Some exponent is where the search ends: such a curve has no form."""


def jackknifed_curve(rows: pd.DataFrame) -> Curve:
    """The curve through the largest gains, recipes left out one by one for its intervals."""
    L, y = rows["n_layers"].to_numpy(np.float64), np.log10(rows[LARGEST].to_numpy(np.float64))
    middle = float(np.exp(np.log(L).mean()))

    def figures(kept: Array) -> Array:
        m, beta = curve_of(L[kept], y[kept], middle)
        return np.array([beta, m * middle])

    recipes = sorted(set(rows["recipe"]))
    whole, n = figures(np.ones(L.size, dtype=bool)), len(recipes)
    without = np.array([figures((rows["recipe"] != recipe).to_numpy()) for recipe in recipes])
    error = np.sqrt((n - 1) / n * np.square(without - without.mean(axis=0)).sum(axis=0))
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * error
    beta, level = ((float(v), float(v - h), float(v + h)) for v, h in zip(whole, half, strict=True))
    return Curve(beta, level, middle, bool({*without[:, 0], whole[0]} & set(EDGES)))


def draw_depth(rows: pd.DataFrame, *, seed: int) -> Callable[[Axes], None]:
    """Largest gain over depth, marked by head density, with the published curve."""

    def draw(axes: Axes) -> None:
        reference(axes, 1.0)
        spread = np.random.default_rng(seed)
        for rho, own in rows.groupby("rho", sort=True):
            shift = np.exp(spread.uniform(-0.06, 0.06, len(own)))
            axes.scatter(own["n_layers"] * shift, own[LARGEST], s=26, alpha=0.85, label=f"ρ = {rho:g}")
        L = np.linspace(float(rows["n_layers"].min()), float(rows["n_layers"].max()), 100)
        axes.plot(L, TOTAL ** (1 / L), color=MUTED, linestyle=DASHES[1], label="10^(1/L)")
        log_axis(axes, "x")
        log_axis(axes, "y")
        axes.set_xticks(sorted(set(rows["n_layers"])), [str(L) for L in sorted(set(rows["n_layers"]))])
        axes.set_xlabel("layers, L")
        axes.set_ylabel("largest gain, blocks 2 to L − 1")
        legend_above(axes)

    return draw

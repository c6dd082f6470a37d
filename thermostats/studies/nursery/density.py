"""Head density in the controlled study: the threshold of ρ, and mediators of its effect."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.modelling.classical.mediation import mediation
from thermostats.plots.general import legend_above, reference
from thermostats.plots.scales import log_axis
from thermostats.studies.nursery.recipe_fit import too_few
from thermostats.studies.nursery.slopes import held

PENULTIMATE = "penultimate_gain"
MEDIATORS = {"trace": "trace of the sheaf Laplacian", "wv_norm": "‖W_V‖", "wo_norm": "‖W_O‖"}


def mediated(rows: pd.DataFrame) -> pd.DataFrame:
    """By mediator the part of the slope on log ρ that goes through it, with its interval, and the rest.

    Columns: mediator, indirect, lower, upper, total, direct, interval, n_models, groups; mediators that too few models
    have are left out.
    """
    others = [name for name in held(rows) if name != "log_rho"]
    found = []
    for column, words in MEDIATORS.items():
        known = rows[rows[column].notna() & (rows[column] > 0)]
        if too_few(known):
            continue
        logs = known.assign(mediator=np.log(known[column].astype("float64")))
        m = mediation(logs, "log_gain", "log_rho", "mediator", others, group="recipe")
        found.append((words, m.estimate, m.lower, m.upper, m.total, m.direct, m.interval, m.n, m.n_groups))
    columns = ["mediator", "indirect", "lower", "upper", "total", "direct", "interval", "n_models", "groups"]
    return pd.DataFrame(found, columns=columns)


def draw_density(rows: pd.DataFrame, *, seed: int) -> Callable[[Axes], None]:
    """Penultimate gain over head density, marked by depth."""

    def draw(axes: Axes) -> None:
        reference(axes, 1.0)
        spread = np.random.default_rng(seed)
        for depth, own in rows.groupby("n_layers", sort=True):
            shift = np.exp(spread.uniform(-0.1, 0.1, len(own)))
            axes.scatter(own["rho"] * shift, own[PENULTIMATE], s=26, alpha=0.85, label=f"L = {depth}")
        log_axis(axes, "x")
        log_axis(axes, "y")
        axes.set_xlabel("head density ρ = H / d_h")
        axes.set_ylabel("penultimate gain")
        legend_above(axes)

    return draw

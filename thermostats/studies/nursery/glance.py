"""All models of the second study in one figure: recipes × shapes."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.studies.nursery.second import LOGS


def at_a_glance(rows: pd.DataFrame, axes: Axes) -> Axes:
    """Log gain of every model of `second.ends`, recipes from the lowest mean to the highest; × did not learn."""
    shape = list(LOGS.values())
    wide = rows.pivot(index="recipe", columns=shape, values="log_gain").sort_index(axis="columns")
    wide = wide.loc[wide.mean(axis=1).sort_values().index]
    learned = rows.pivot(index="recipe", columns=shape, values="learned").reindex_like(wide).fillna(value=True)
    far = float(np.nanmax(np.abs(wide.to_numpy(np.float64))))
    mesh = axes.pcolormesh(wide.to_numpy(np.float64), cmap="PuOr", vmin=-far, vmax=far, rasterized=True)
    y, x = np.nonzero(~learned.to_numpy(bool))
    axes.scatter(x + 0.5, y + 0.5, marker="x", s=14, color="black", linewidth=0.8)
    axes.set_yticks(np.arange(len(wide)) + 0.5, [str(name) for name in wide.index], fontsize=6)
    axes.set_xticks(
        np.arange(wide.shape[1]) + 0.5, [f"L {L}, ρ {rho:g}, d {d}" for L, rho, d in wide.columns], rotation=90
    )
    axes.set_ylabel("recipe, by its mean")
    figure = axes.get_figure()
    if figure is not None:
        figure.colorbar(mesh, ax=axes, label="log penultimate gain", fraction=0.05)
    return axes

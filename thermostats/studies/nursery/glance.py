"""Figures of the second study: all models at a glance, spectra against rate and decay, training against its end."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.plots.general import INK, MUTED, legend_above, reference
from thermostats.studies.nursery.rows import slope_within
from thermostats.studies.nursery.second import LOGS

SHAPES = {"adamw": ("AdamW", "o", "#0072B2"), "lion": ("Lion", "s", "#9C4A4A"), "muon": ("Muon", "^", "#3B7A78")}
"""Optimisers whose steps have a set size."""


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
    figure = axes.get_figure(root=True)
    if figure is not None:
        figure.set_figheight(1.6 + 0.11 * len(wide))
        figure.colorbar(mesh, ax=axes, label="log penultimate gain", fraction=0.05)
    return axes


def spectra(rows: pd.DataFrame, axes: Axes, what: str) -> None:
    """Log spectral norm (column `spectrum`, in words `what`) against log √(rate/decay): fitted line, and slope 1."""
    for name, own in rows.groupby("optimiser"):
        words, marker, color = SHAPES[str(name)]
        axes.scatter(own["log_ratio"], own["spectrum"], s=28, marker=marker, color=color, label=words)
    ends = np.array([rows["log_ratio"].min(), rows["log_ratio"].max()], dtype=np.float64)
    slope, _, _ = slope_within(rows, "spectrum", "log_ratio", "optimiser")
    axes.plot(ends, slope * ends, color=INK, linewidth=1.2, label="fitted")
    axes.plot(ends, ends, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), label="slope 1")
    legend_above(axes)
    axes.set_xlabel("log √(rate/decay), off the optimiser's mean")
    axes.set_ylabel(f"log {what}, off the optimiser's mean")


def settling(table: pd.DataFrame, axes: Axes) -> None:
    """Correlation with the end (`r`) and agreement of the sides (`kappa`) by `share` of training, with intervals."""
    measures = {"r": "gain: rank correlation within shape", "kappa": "side of 1: κ"}
    for place, (name, words) in enumerate(measures.items()):
        at = np.arange(len(table)) + 0.12 * place
        value = table[name].astype(float)
        off = np.abs(table[[f"{name}_lower", f"{name}_upper"]].astype(float).to_numpy().T - value.to_numpy())
        color = (INK, SHAPES["lion"][2])[place]
        axes.errorbar(at, value, off, label=words, marker="os"[place], markersize=5, color=color, linewidth=1.2)
    reference(axes, 0.0)
    axes.set_xticks(np.arange(len(table)), [f"{share:.0%}" for share in table["share"]])
    axes.set(xlabel="share of training", ylabel="agreement with the end")
    legend_above(axes)


def early_and_late(rows: pd.DataFrame, axes: Axes) -> None:
    """Log gain at the end (`end`) against that at a tenth of training (`early`), off the mean of their `cell`."""
    own = rows[["early", "end"]] - rows.groupby("cell")[["early", "end"]].transform("mean")
    axes.scatter(own["early"], own["end"], s=10, color=INK, alpha=0.4, linewidth=0)
    axes.set_xlabel("log penultimate gain at a tenth of training, off the mean of its shape")
    axes.set_ylabel("at the end, off the mean of its shape")

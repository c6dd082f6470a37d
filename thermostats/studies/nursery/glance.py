"""Figures of the second study: all models at a glance, spectra against rate and decay, training against its end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.plots.general import INK, MUTED, legend_above, reference
from thermostats.studies.nursery.components import Components
from thermostats.studies.nursery.rows import slope_within
from thermostats.studies.nursery.second import LOGS

SHAPES = {"adamw": ("AdamW", "o", "#0072B2"), "lion": ("Lion", "s", "#9C4A4A"), "muon": ("Muon", "^", "#3B7A78")}
"""Optimisers whose steps have a set size."""


BLOCKS = {
    "corpus": "corpus",
    "recipe": "recipe, of one corpus\n(claimed: most)",
    "geometry": "shape: L, ρ\n(claimed: second)",
    "scale": "size: d\n(claimed: least)",
}
"""Components that the figure shows, from the top, with their place in the claim."""


def spreads(every: Mapping[str, Components], axes: Axes) -> Axes:
    """Standard deviations that each of BLOCKS makes in the log gain, with 95% intervals; every: components by corpora.

    Of one corpus alone there is no difference between corpora.
    """
    for place, (name, found) in enumerate(every.items()):
        drawn = [getattr(found, block) for block in BLOCKS]
        rows = np.array([np.quantile(own, [0.025, 0.5, 0.975]) if np.ptp(own) else [np.nan] * 3 for own in drawn])
        at, color = np.arange(len(BLOCKS)) + 0.2 * (place - (len(every) - 1) / 2), (INK, "#0072B2", "#D55E00")[place]
        axes.hlines(at, rows[:, 0], rows[:, 2], color=color, linewidth=2.2 if place == 0 else 1.2)
        axes.scatter(rows[:, 1], at, color=color, marker="osD"[place], s=44 if place == 0 else 24, zorder=3, label=name)
    axes.set_yticks(np.arange(len(BLOCKS)), list(BLOCKS.values()))
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("standard deviation of the log penultimate gain")
    legend_above(axes)
    return axes


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
    facts = rows.drop_duplicates("recipe").set_index("recipe").loc[wide.index]
    names = [f"{row.corpus}, {row.optimiser}, rate {row.rate:.2g}" for row in facts.itertuples()]
    axes.set_yticks(np.arange(len(wide)) + 0.5, names, fontsize=6)
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
    """Log spectral norm (column `spectrum`, in words `what`) against log √(rate/decay): fitted line, and slope 1.

    Open marks are recipes of the synthetic corpus.
    """
    for (name, synthetic), own in rows.groupby(["optimiser", "synthetic"]):
        words, marker, color = SHAPES[str(name)]
        face, label = ("white", None) if synthetic else (color, words)
        axes.scatter(
            own["log_ratio"], own["spectrum"], s=28, marker=marker, facecolor=face, edgecolor=color, label=label
        )
    ends = np.array([rows["log_ratio"].min(), rows["log_ratio"].max()], dtype=np.float64)
    slope, _, _ = slope_within(rows, "spectrum", "log_ratio", "optimiser", ["synthetic"])
    axes.plot(ends, slope * ends, color=INK, linewidth=1.2, label="fitted, given the corpus")
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

"""Figures of the third study: spreads, recipes, spectra against rate and decay, training against its end."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.plots.general import INK, MUTED, legend_above, reference
from thermostats.studies.nursery.rows import slope_within

SHAPES = {"adamw": ("AdamW", "o", "#0072B2"), "lion": ("Lion", "s", "#9C4A4A"), "muon": ("Muon", "^", "#3B7A78")}
"""Optimisers whose steps have a set size."""


BLOCKS = {
    "corpus": "corpus",
    "recipe": "recipe, of one corpus\n(claimed: most)",
    "shape": "shape at one size: L/d, ρ\n(claimed: second)",
    "size": "size: N\n(claimed: least)",
}
"""Blocks of the figure of spreads, from the top, with their place in the claim."""


def spreads(table: pd.DataFrame, axes: Axes) -> Axes:
    """Standard deviations that BLOCKS make in the log gain with 95% intervals; the first `of` is drawn thickest."""
    colors, every = (INK, "#0072B2", "#D55E00", "#3B7A78", "#9C4A4A"), table["of"].unique()
    for place, of in enumerate(every):
        rows = table[table["of"] == of].set_index("block").loc[list(BLOCKS)]
        at = np.arange(len(BLOCKS)) + 0.64 / len(every) * (place - (len(every) - 1) / 2)
        axes.hlines(at, rows["lower"], rows["upper"], color=colors[place], linewidth=2.2 if place == 0 else 1.2)
        size = 44 if place == 0 else 24
        axes.scatter(rows["estimate"], at, color=colors[place], marker="osD^v"[place], s=size, zorder=3, label=of)
    axes.set_yticks(np.arange(len(BLOCKS)), list(BLOCKS.values()))
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("standard deviation of the log penultimate gain")
    legend_above(axes)
    return axes


def by_recipe(rows: pd.DataFrame, axes: Axes) -> Axes:
    """Mean log gain of every recipe in every corpus, off the corpus's mean, recipes by their mean over corpora."""
    means = rows.pivot_table(index="recipe", columns="trained_on", values="log_gain", observed=True)
    means = (means - means.mean()).loc[lambda frame: frame.mean(axis=1).sort_values().index]
    colors = ("#0072B2", "#D55E00", "#3B7A78", "#9C4A4A")
    for (corpus, frame), marker, color in zip(means.items(), "osD^", colors, strict=False):
        axes.scatter(np.arange(len(frame)), frame, marker=marker, s=26, color=color, label=str(corpus))
    axes.plot(np.arange(len(means)), means.mean(axis=1), color=INK, linewidth=1.0)
    reference(axes, 0.0)
    axes.set_xticks(np.arange(len(means)), means.index, rotation=90, fontsize=7)
    axes.set(xlabel="recipe, by its mean over corpora", ylabel="mean log gain, off its corpus's")
    legend_above(axes)
    return axes


def spectra(rows: pd.DataFrame, axes: Axes, what: str) -> None:
    """Log spectral norm (column `spectrum`, in words `what`) against log √(rate/decay): fitted line, and slope 1.

    Open marks are recipes of the synthetic corpus.
    """
    for (name, synthetic), group in rows.groupby(["optimiser", "synthetic"]):
        words, marker, color = SHAPES[str(name)]
        face, label = ("white", None) if synthetic == 1 else (color, words)
        axes.scatter(
            group["log_ratio"], group["spectrum"], s=28, marker=marker, facecolor=face, edgecolor=color, label=label
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


def tuned(rows: pd.DataFrame, axes: Axes) -> None:
    """Log gain after tuning (`tuned`) against that of its base (`base`) by `kind`; filled where the pair crosses 1."""
    reference(axes, 0.0)
    reference(axes, 0.0, vertical=True)
    for place, (kind, group) in enumerate(rows.groupby("kind")):
        color = ("#0072B2", "#9C4A4A", "#3B7A78")[place]
        face = np.where(group["flips"], color, "white")
        axes.scatter(
            group["base"], group["tuned"], s=30, marker="os^"[place], facecolor=face, edgecolor=color, label=kind
        )
    ends = [float(rows["base"].min()), float(rows["base"].max())]
    axes.plot(ends, ends, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set(xlabel="log penultimate gain of the base", ylabel="after tuning")
    legend_above(axes)

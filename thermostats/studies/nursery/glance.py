"""Figures of the later studies: all models, spreads, spectra against rate and decay, training against its end."""

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
"""Components that the second study's figure shows, from the top, with their place in the claim."""
CROSSED = {
    "corpus": "corpus",
    "recipe": "recipe, of one corpus\n(claimed: most)",
    "shape": "shape at one size: L/d, ρ\n(claimed: second)",
    "size": "size: N\n(claimed: least)",
}
"""Those of the third study's."""


def drawn_spreads(every: Mapping[str, Components]) -> pd.DataFrame:
    """Standard deviations of BLOCKS with 95% intervals of draws: of, block, estimate, lower, upper; every: by corpora.

    Of one corpus alone there is no difference between corpora.
    """
    rows = []
    for of, spread in every.items():
        for block in BLOCKS:
            drawn = getattr(spread, block)
            lower, middle, upper = np.quantile(drawn, [0.025, 0.5, 0.975]) if np.ptp(drawn) else [np.nan] * 3
            rows.append((of, block, middle, lower, upper))
    return pd.DataFrame(rows, columns=["of", "block", "estimate", "lower", "upper"])


def spreads(table: pd.DataFrame, axes: Axes, blocks: Mapping[str, str] = BLOCKS) -> Axes:
    """Standard deviations that blocks make in the log gain with 95% intervals; the first `of` is drawn thickest."""
    colors, every = (INK, "#0072B2", "#D55E00", "#3B7A78", "#9C4A4A"), table["of"].unique()
    for place, of in enumerate(every):
        rows = table[table["of"] == of].set_index("block").loc[list(blocks)]
        at = np.arange(len(blocks)) + 0.64 / len(every) * (place - (len(every) - 1) / 2)
        axes.hlines(at, rows["lower"], rows["upper"], color=colors[place], linewidth=2.2 if place == 0 else 1.2)
        size = 44 if place == 0 else 24
        axes.scatter(rows["estimate"], at, color=colors[place], marker="osD^v"[place], s=size, zorder=3, label=of)
    axes.set_yticks(np.arange(len(blocks)), list(blocks.values()))
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


def early_and_late(rows: pd.DataFrame, axes: Axes) -> None:
    """Log gain at the end (`end`) against that at a tenth of training (`early`), off the mean of their `cell`."""
    centred = rows[["early", "end"]] - rows.groupby("cell")[["early", "end"]].transform("mean")
    axes.scatter(centred["early"], centred["end"], s=10, color=INK, alpha=0.4, linewidth=0)
    axes.set_xlabel("log penultimate gain at a tenth of training, off the mean of its shape")
    axes.set_ylabel("at the end, off the mean of its shape")


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

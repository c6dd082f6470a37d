"""Figures of what a fit says: each takes a table that a fit, its checks or its refits give, and returns the axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.formatting import number, short_name
from thermostats.plots.column import legend_over_rows
from thermostats.plots.general import INK, MUTED, POINT, name_rows, reference
from thermostats.plots.marks import mark

BLOCKS: Mapping[str, str] = {
    "heritage": "heritage",
    "geometry": "geometry",
    "scale": "scale",
    "model": "residual between models",
}
"""Blocks of the heritage model in the order of the claim, in words."""
POSTERIOR, PRIOR = "#3B4252", "#B8BDC4"
OUTSIDE = "#D55E00"
"""What an interval misses; always drawn with another shape as well."""
BEYOND = 0.45
"""How far outside the central interval an observation is shown where it lies, in lengths of the interval."""
SIDE = 7.5
"""Font size of the figures next to the rows, in points."""


def variance_shares(table: pd.DataFrame, axes: Axes, called: Mapping[str, str] = MappingProxyType({})) -> Axes:
    """Posterior share of every block in the variance over models: median, interval, and the prior mean as a tick.

    table: `summary()` of a heritage fit, whose rows `share_<block>` are drawn (columns quantity, median, lower, upper).
    With a symmetric Dirichlet prior the prior mean is 1 over the number of blocks. called: other names of blocks.
    """
    rows = table[table["quantity"].str.startswith("share_")]
    rows = rows.assign(block=rows["quantity"].str.removeprefix("share_"))
    order = [block for block in BLOCKS if block in set(rows["block"])]
    order += [str(block) for block in rows["block"] if block not in BLOCKS]
    rows = rows.set_index("block").loc[order].reset_index()
    _intervals(axes, rows, "posterior median, interval")
    at = np.full(len(order), 1 / len(order))
    axes.scatter(at, rows.index, marker="|", s=130, color=MUTED, linewidth=1.4, label="prior mean", zorder=2)
    name_rows(axes, [called.get(block, BLOCKS.get(block, block)) for block in order])
    axes.set(xlabel="share of the variance over models", xlim=(0, 1))
    legend_over_rows(axes)
    return axes


def order_probability_bar(table: pd.DataFrame, axes: Axes) -> Axes:
    """Posterior over prior probability of every order of blocks, with the Bayes factor at its right.

    table: `table("orders")` of a heritage fit (columns statement, probability, prior, bayes_factor).
    """
    at = np.arange(len(table))
    axes.barh(at - 0.17, table["probability"], height=0.34, color=POSTERIOR, label="posterior")
    axes.barh(
        at + 0.17, table["prior"], height=0.34, color=PRIOR, edgecolor=MUTED, linewidth=0.5, hatch="////", label="prior"
    )
    reference(axes, 0.95, vertical=True)
    reference(axes, 0.05, vertical=True)
    texts = [f"BF {number(row.bayes_factor, 2)}" for row in table.itertuples()]
    _beside(axes, texts)
    name_rows(axes, [str(statement) for statement in table["statement"]])
    axes.set(xlabel="probability (dashed: 0.05 and 0.95)", xlim=(0, 1))
    legend_over_rows(axes)
    return axes


def lab_forest(table: pd.DataFrame, axes: Axes) -> Axes:
    """Partially pooled effect of every lab on the log gain, in order, with P(its models' mean dampens) at the right.

    table: `table("labs")` of a heritage fit (columns heritage, n_models, median, lower, upper, probability_dampens).
    """
    rows = table.sort_values("median", ignore_index=True)
    reference(axes, 0.0, vertical=True)
    for at, row in enumerate(rows.to_dict("records")):
        color, marker = mark(str(row["heritage"]))
        axes.hlines(at, row["lower"], row["upper"], color=color, linewidth=1.4)
        axes.scatter(row["median"], at, color=color, marker=marker, s=30, **POINT)
    _beside(axes, [f"{value:.2f}" for value in rows["probability_dampens"]], "P(G < 1)")
    name_rows(axes, [f"{row.heritage} ({int(row.n_models)})" for row in rows.itertuples()])
    axes.set_xlabel("effect on log gain (number of models in brackets)")
    return axes


def posterior_predictive_panels(table: pd.DataFrame, axes: Axes) -> Axes:
    """One strip per test quantity, each on its own scale: the central interval of replicated data, and the observed.

    table: the table of `checks.posterior_predictive` or `checks.prior_predictive` (columns statistic, observed, lower,
    upper, p). Every interval is stretched to the same length; its ends are written below them, and p at the
    right. An observation too far outside is an arrow at the edge.
    """
    rows = table.reset_index(drop=True)
    width = (rows["upper"] - rows["lower"]).where(lambda w: w > 0, 1.0)
    place = (rows["observed"] - rows["lower"]) / width
    inside = place.between(0, 1)
    axes.hlines(rows.index, 0, 1, color=POSTERIOR, linewidth=4.5, alpha=0.35, label="replicated, central interval")
    looks = {
        "observed, inside": (inside, INK, "o"),
        "observed, outside": (~inside & place.between(-BEYOND, 1 + BEYOND), OUTSIDE, "X"),
        "observed, further to the left than shown": (place < -BEYOND, OUTSIDE, "<"),
        "observed, further to the right than shown": (place > 1 + BEYOND, OUTSIDE, ">"),
    }
    for words, (rows_of, color, marker) in looks.items():
        part = place[rows_of].clip(-BEYOND, 1 + BEYOND)
        if len(part):
            axes.scatter(part, part.index, color=color, marker=marker, s=30, label=words, **POINT)
    for at, row in enumerate(rows.itertuples()):
        for x, value, align in ((0.0, row.lower, "left"), (1.0, row.upper, "right")):
            axes.annotate(
                number(value),
                (x, at),
                xytext=(0, -4.5),
                textcoords="offset points",
                ha=align,
                va="top",
                fontsize=SIDE - 0.8,
                color=MUTED,
            )
    _beside(axes, [f"{number(row.observed)}, p {number(row.p)}" for row in rows.itertuples()], "observed")
    name_rows(axes, [str(statistic) for statistic in rows["statistic"]])
    axes.set(xlim=(-0.5, 1.5), xticks=[])
    axes.spines["bottom"].set_visible(False)
    legend_over_rows(axes)
    return axes


def prior_to_posterior(table: pd.DataFrame, axes: Axes) -> Axes:
    """What the data added: prior interval (hatched band) and posterior interval of every quantity, on one scale.

    table: one row per quantity and stage, `stage` being `prior` or `posterior` (columns quantity, stage, median, lower,
    upper).
    """
    order = list(dict.fromkeys(table["quantity"]))
    at = table["quantity"].map({quantity: place for place, quantity in enumerate(order)})
    prior = table[table["stage"] == "prior"]
    width = prior["upper"] - prior["lower"]
    axes.barh(
        at[prior.index],
        width,
        left=prior["lower"],
        height=0.5,
        color=PRIOR,
        alpha=0.55,
        edgecolor=MUTED,
        linewidth=0.4,
        hatch="////",
        label="prior",
    )
    axes.scatter(prior["median"], at[prior.index], marker="|", s=90, color=MUTED, linewidth=1.2)
    posterior = table[table["stage"] == "posterior"]
    _intervals(axes, posterior.set_index(at[posterior.index]), "posterior")
    name_rows(axes, [quantity.replace("_", " ") for quantity in order])
    axes.use_sticky_edges = False  # else the bars' ends lie on the frame
    axes.autoscale_view(scaley=False)
    axes.set_xlabel("value of the quantity: median and interval")
    legend_over_rows(axes)
    return axes


def left_out_errors(table: pd.DataFrame, axes: Axes) -> Axes:
    """Every model's log gain against the prediction of a fit that has not seen it, or its lab.

    table: `HeldOut.predictions` (columns model_id, heritage, observed, predicted, lower, upper, baseline). Bars: the
    prediction interval; mark: observed, hollow where the interval misses it; tick: the mean of the models left.
    """
    rows = table.sort_values(["heritage", "observed"], ignore_index=True)
    reference(axes, 0.0, vertical=True)
    missed = (rows["observed"] < rows["lower"]) | (rows["observed"] > rows["upper"])
    for lab, part in rows.groupby("heritage", sort=True):
        color, marker = mark(str(lab))
        axes.hlines(part.index, part["lower"], part["upper"], color=color, linewidth=3.0, alpha=0.3)
        for out in (False, True):
            models = part[missed[part.index] == out]
            axes.scatter(
                models["observed"],
                models.index,
                facecolor="white" if out else color,
                edgecolor=color,
                s=24,
                marker=marker,
                linewidth=1.1 if out else 0.5,
                zorder=4,
            )
        axes.plot([], [], color=color, marker=marker, linestyle="", label=str(lab))
    axes.scatter(rows["predicted"], rows.index, marker="|", s=60, color=INK, linewidth=1.2, label="predicted", zorder=3)
    axes.scatter(rows["baseline"], rows.index, marker=".", s=14, color=MUTED, label="mean of the others", zorder=2)
    name_rows(axes, [short_name(str(name)) for name in rows["model_id"]])
    axes.set_xlabel("log gain (bars: prediction interval; hollow: missed)")
    legend_over_rows(axes)
    return axes


def _intervals(axes: Axes, rows: pd.DataFrame, label: str) -> None:
    axes.hlines(rows.index, rows["lower"], rows["upper"], color=POSTERIOR, linewidth=1.8, zorder=3)
    look: dict[str, Any] = {"color": POSTERIOR, "s": 28, "zorder": 4, "edgecolor": "white", "linewidth": 0.5}
    axes.scatter(rows["median"], rows.index, label=label, **look)


def _beside(axes: Axes, texts: Sequence[str], title: str = "") -> None:
    """Figures in a column at the right of the rows."""
    for at, text in enumerate(texts):
        axes.annotate(text, (1.02, at), xycoords=("axes fraction", "data"), va="center", fontsize=SIDE, color=INK)
    if title:
        axes.annotate(title, (1.02, -0.75), xycoords=("axes fraction", "data"), va="bottom", fontsize=SIDE, color=MUTED)

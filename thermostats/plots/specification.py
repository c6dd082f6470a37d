"""A specification curve as a figure: estimates in order, and below them how common each option is at that place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from thermostats.plots.general import RULE, entries_of, plain_text, reference

Array = npt.NDArray[np.float64]
BINS = 60
"""Places of the curve at which options are counted; of fewer universes each is a place of its own."""
PITCH, CURVE = 0.155, 2.3
"""Inches of a row of options, and of the curve."""
COLOURS = {"supported": "#009E73", "not supported": "#D55E00", "inconclusive": "#56B4E9", "": "#0072B2"}
BAND = "#d5d2cb"


def specification(
    table: pd.DataFrame,
    axes: Axes,
    *,
    labels: Mapping[str, Sequence[str]],
    moves: Mapping[str, float] | None = None,
    null: float = 0.0,
    xlabel: str = "universes, in order of their estimate",
    ylabel: str = "estimate",
) -> Axes:
    """Estimates of universes in order; rows below are as dark as the option is common among universes at that place.

    table: columns estimate, one for each choice, and where there are some verdict, null_lower and null_upper. labels:
    options by choice. moves: share of the variance of the estimates that each choice explains.
    """
    ordered = table.sort_values("estimate", kind="stable", ignore_index=True)
    rows = [(choice, option) for choice, options in labels.items() for option in ("", *options)]
    figure = axes.get_figure(root=True)
    assert figure is not None  # noqa: S101 (axes that are drawn on have one)
    heights = (CURVE, PITCH * len(rows))
    figure.set_figheight(sum(heights) + 0.7)
    grid = figure.add_gridspec(2, 1, height_ratios=heights)
    axes.set_subplotspec(grid[0])
    _curve(ordered, axes, null)
    axes.set_ylabel(ylabel)
    below = figure.add_subplot(grid[1], sharex=axes)
    _options(ordered, below, rows, moves or {})
    below.set_xlabel(xlabel)
    return axes


def _curve(ordered: pd.DataFrame, axes: Axes, null: float) -> None:
    places = np.arange(1, len(ordered) + 1)
    if "null_lower" in ordered:
        ends = ordered["null_lower"], ordered["null_upper"]
        axes.fill_between(places, *ends, color=BAND, linewidth=0, label="95% of rearrangements", zorder=0)
    reference(axes, null)
    verdicts = ordered["verdict"] if "verdict" in ordered else pd.Series("", index=ordered.index)
    for verdict, colour in COLOURS.items():
        if (at := (verdicts == verdict).to_numpy()).any():
            x, y = _dashes(places[at], ordered["estimate"].to_numpy()[at])
            axes.plot(x, y, color=colour, linewidth=2.4, solid_capstyle="butt", label=verdict or "_")
    axes.tick_params(axis="x", labelbottom=False, length=0)
    if entries := entries_of(axes):
        figure = axes.get_figure(root=True)
        figure.legend(entries.values(), entries.keys(), loc="outside upper left", ncols=2, handletextpad=0.5)  # type: ignore[union-attr]


def _dashes(x: Array, y: Array) -> tuple[Array, Array]:
    """A level dash for every point, as one line with gaps."""
    gap = np.full(len(x), np.nan)
    return np.column_stack([x - 0.5, x + 0.5, gap]).ravel(), np.column_stack([y, y, gap]).ravel()


def _options(ordered: pd.DataFrame, axes: Axes, rows: Sequence[tuple[str, str]], moves: Mapping[str, float]) -> None:
    n = len(ordered)
    edges = np.linspace(0, n, min(n, BINS) + 1).round().astype(int)
    names = []
    for row, (choice, option) in enumerate(rows):
        if not option:
            share = f" ({moves[choice]:.0%})" if choice in moves else ""
            names.append(f"{choice}{share}")
            continue
        names.append(option)
        at = np.concatenate([[0], np.cumsum(ordered[choice].to_numpy() == option)])
        share_here = np.diff(at[edges]) / np.diff(edges)
        high = row + 0.42 - 0.84 * np.append(share_here, share_here[-1])
        axes.fill_between(edges + 0.5, high, row + 0.42, step="post", color="#0072B2", linewidth=0)
        axes.axhline(row + 0.42, color=RULE, linewidth=0.5)
    axes.set_yticks(range(len(rows)), names)
    for text, (_, option) in zip(axes.get_yticklabels(), rows, strict=True):
        text.set(fontsize=7.5, fontweight="normal" if option else "bold")
    plain_text(axes.get_yticklabels())
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0.5, n + 0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)

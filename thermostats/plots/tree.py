"""A tree of descent with a quantity of its nodes as colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

from thermostats.formatting import short_name

if TYPE_CHECKING:
    from thermostats.tables.tree import Tree

MAP = LinearSegmentedColormap.from_list("sides of 1", ["#b35806", "#c4c4c4", "#542788"])
"""Below 1, near it, above it; none as light as the page."""
LEAST = 1e-3
INCHES = 0.18
"""Height of a tip."""
RIGHT = 1.45
"""Where the axes end, in heights of the tree: names of tips stand to the right of it."""
ROOM = 0.8
"""Inches of a branch of length 1 on which there is room for the name of a model amid the tree."""


def draw_tree(tree: Tree, log_gain: Mapping[str, float], axes: Axes, *, xlabel: str = "height in the tree") -> Axes:
    """Root left, tips right, branches in the colour of what they lead to, gains on a log scale about 1.

    log_gain: natural, by node; a node without one is grey. Of a model with several parents the others are drawn dotted.
    """
    x, y = tree.heights, _rows(tree)
    most = max([abs(v) for v in log_gain.values() if np.isfinite(v)] + [LEAST])
    colours = ScalarMappable(TwoSlopeNorm(0.0, -most, most), MAP)
    for i, parents in enumerate(tree.parents):
        value = log_gain.get(tree.names[i], np.nan)
        colour = colours.to_rgba(np.array([value]))[0] if np.isfinite(value) else "0.75"
        for k, parent in enumerate(parents):
            axes.plot(
                [x[parent], x[parent], x[i]],
                [y[parent], y[i], y[i]],
                color=colour,
                linewidth=1.0 if k else 2.2,
                linestyle=":" if k else "-",
                solid_joinstyle="round",
            )
        axes.plot(x[i], y[i], "o", color=colour, markersize=4, markeredgecolor="0.3", markeredgewidth=0.4)
    _label(tree, x, y, axes)
    figure = axes.get_figure(root=True)
    if figure is not None:
        figure.set_figheight(max(figure.get_figheight(), INCHES * (y.max() + 1) + 1))
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlim(-0.06 * x.max(), x.max() * RIGHT)
    axes.set_xticks(axes.get_xticks()[(axes.get_xticks() >= 0) & (axes.get_xticks() <= x.max())])
    axes.set_ylim(y.max() + 0.7, y.min() - 0.7)
    axes.set_xlabel(xlabel)
    bar = axes.figure.colorbar(colours, ax=axes, location="bottom", shrink=0.6, aspect=30, pad=0.02)
    ticks = np.linspace(-most, most, 5)
    bar.set_ticks(ticks.tolist(), labels=[f"{np.exp(t):.2f}" for t in ticks])
    bar.set_label("gain")
    if bar.solids is not None:
        bar.solids.set_rasterized(False)  # a page has no pictures within its drawings
    return axes


def _label(tree: Tree, x: np.ndarray, y: np.ndarray, axes: Axes) -> None:
    """Tips by name at their right, others at their branches; of models on short branches only parents of several."""
    look: dict[str, Any]
    inches = axes.get_window_extent().width / axes.figure.dpi / (RIGHT * x.max())
    descendants = Counter(parent for parents in tree.parents for parent in parents)
    for i, name in enumerate(tree.names):
        if not descendants[i]:
            text, place, look = short_name(name), (4, 0), {"fontsize": 8, "va": "center", "color": "0.1"}
        elif tree.parents[i] and (inches > ROOM or "/" not in name or descendants[i] > 1):
            text = short_name(name) if "/" in name else name.split(": ")[-1]
            below = tree.heights[i] > 1  # a family under its branch, so that a lab of one family keeps off it
            place = (-3, -2) if below else (-3, 2)
            look = {"fontsize": 6.5, "va": "top" if below else "bottom", "ha": "right", "color": "0.4"}
        else:
            continue
        axes.annotate(text, (x[i], y[i]), place, textcoords="offset points", **look)


def _rows(tree: Tree) -> np.ndarray:
    """Vertical place of every node: tips one below the other in the order of the tree, others amid their children."""
    children: list[list[int]] = [[] for _ in tree.names]
    for i, parents in enumerate(tree.parents):
        if parents:
            children[parents[0]].append(i)
    y, row, waiting = np.full(len(tree), np.nan), 0, [0]
    while waiting:
        at = waiting[-1]
        if not children[at]:
            y[at], row = row, row + 1
            waiting.pop()
            continue
        open_ones = [child for child in children[at] if np.isnan(y[child])]
        if open_ones:
            waiting.append(open_ones[0])
        else:
            y[at] = np.mean([y[child] for child in children[at]])
            waiting.pop()
    return y

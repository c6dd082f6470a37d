"""Figures of what a fit says: each takes a table that a fit, its checks or its refits give, and
returns the axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from scipy.stats import gaussian_kde

from thermostats.formatting import format_number, strip_owner
from thermostats.plots.general import (
    INK,
    MUTED,
    POINT,
    RULE,
    collect_entries,
    draw_reference,
    escape_texts,
    mark,
    name_rows,
    place_wide_legend,
)
from thermostats.plots.point_names import Look

if TYPE_CHECKING:
    from thermostats.tables.tree import Tree
from pathlib import Path

from thermostats.errors import UsageError
from thermostats.plots.general import (
    PAPER,
    add_lab_entry,
    draw_lines_by_layer,
    log_axis,
    name_models,
    set_house_style,
    start_axes,
)
from thermostats.tables.choices import check_gain
from thermostats.tables.reading import features

BLOCKS: Mapping[str, str] = {
    "heritage": "heritage",
    "geometry": "geometry",
    "scale": "scale",
    "model": "residual between models",
}
"""Blocks of the heritage model in the order of the claim, in words."""
POSTERIOR = "#3B4252"
PRIOR = "#B8BDC4"
OUTSIDE = "#D55E00"
"""What an interval misses; always drawn with another shape as well."""
BEYOND = 0.45
"""How far outside the central interval an observation is shown where it lies, in lengths of the
interval."""
REACH, GRID = 0.995, 160
"""Share of the draws that a figure of densities holds, and its points."""
TALL, LOW = 0.85, 0.12
"""Of a density in its row: the height of the tallest, and how far below it the median lies."""
SIDE = 7.5
"""Font size of the figures next to the rows, in points."""
PRIOR_BAR: Look = {"color": PRIOR, "edgecolor": MUTED, "hatch": "////", "label": "prior"}
END: Look = {"textcoords": "offset points", "va": "top", "color": MUTED, "fontsize": SIDE - 0.8}
"""How the ends of an interval are written below it."""


def draw_variance_shares(
    table: pd.DataFrame, axes: Axes, called: Mapping[str, str] = MappingProxyType({})
) -> Axes:
    """Posterior share of every block in the variance over models: median, interval, and the prior
    mean as a tick.

    table: `summary()` of a heritage fit, whose rows `share_<block>` are drawn (columns quantity,
    median, lower, upper). With a symmetric Dirichlet prior the prior mean is 1 over the number of
    blocks. called: other names of blocks.
    """
    rows = table[table["quantity"].str.startswith("share_")]
    names = rows["quantity"].str.removeprefix("share_")
    rows = rows.assign(block=names)
    blocks = list(rows["block"].astype(str))
    order = [block for block in BLOCKS if block in blocks]
    order += [block for block in blocks if block not in BLOCKS]
    rows = rows.set_index("block").loc[order].reset_index()
    _draw_intervals(axes, rows, "posterior median, interval")
    at = np.full(len(order), 1 / len(order))
    tick: Look = {"marker": "|", "s": 130, "color": MUTED, "linewidth": 1.4}
    axes.scatter(at, rows.index, label="prior mean", zorder=2, **tick)
    words = {**BLOCKS, **called}
    labels = [words.get(block, block) for block in order]
    name_rows(axes, labels)
    axes.set(xlabel="share of the variance over models", xlim=(0, 1))
    place_wide_legend(axes)
    return axes


def order_probability_bar(table: pd.DataFrame, axes: Axes) -> Axes:
    """Posterior over prior probability of every order of blocks, with the Bayes factor at its
    right.

    table: `table("orders")` of a heritage fit (columns statement, probability, prior,
    bayes_factor).
    """
    at = np.arange(len(table))
    axes.barh(at - 0.17, table["probability"], height=0.34, color=POSTERIOR, label="posterior")
    axes.barh(at + 0.17, table["prior"], height=0.34, linewidth=0.5, **PRIOR_BAR)
    draw_reference(axes, 0.95, vertical=True)
    draw_reference(axes, 0.05, vertical=True)
    texts = [f"BF {format_number(factor, 2)}" for factor in table["bayes_factor"]]
    _write_side_column(axes, texts)
    names = [str(statement) for statement in table["statement"]]
    name_rows(axes, names)
    axes.set(xlabel="probability (dashed: 0.05 and 0.95)", xlim=(0, 1))
    place_wide_legend(axes)
    return axes


def draw_lab_forest(table: pd.DataFrame, axes: Axes) -> Axes:
    """Partially pooled effect of every lab on the log gain, in order, with P(its models' mean
    dampens) at the right.

    table: `table("labs")` of a heritage fit (columns heritage, n_models, median, lower, upper,
    probability_dampens).
    """
    rows = table.sort_values("median", ignore_index=True)
    draw_reference(axes, 0.0, vertical=True)
    for at, row in enumerate(rows.to_dict("records")):
        color, marker = mark(str(row["heritage"]))
        axes.hlines(at, row["lower"], row["upper"], color=color, linewidth=1.4)
        axes.scatter(row["median"], at, color=color, marker=marker, s=30, **POINT)
    chances = [f"{value:.2f}" for value in rows["probability_dampens"]]
    _write_side_column(axes, chances, "P(G < 1)")
    names = [f"{row.heritage} ({int(row.n_models)})" for row in rows.itertuples()]
    name_rows(axes, names)
    axes.set_xlabel("effect on log gain (number of models in brackets)")
    return axes


def draw_predictive_panels(table: pd.DataFrame, axes: Axes) -> Axes:
    """One strip per test quantity, each on its own scale: the central interval of replicated data,
    and the observed.

    table: the table of `checks.posterior_predictive` or `checks.prior_predictive` (columns
    statistic, observed, lower, upper, p). Every interval is stretched to the same length; its ends
    are written below them, and p at the right. An observation too far outside is an arrow at the
    edge.
    """
    rows = table.reset_index(drop=True)
    length = rows["upper"] - rows["lower"]
    width = length.where(length > 0, 1.0)
    place = (rows["observed"] - rows["lower"]) / width
    inside = place.between(0, 1)
    bar: Look = {"color": POSTERIOR, "linewidth": 4.5, "alpha": 0.35}
    axes.hlines(rows.index, 0, 1, label="replicated, central interval", **bar)
    left = place < -BEYOND
    right = place > 1 + BEYOND
    shown = place.between(-BEYOND, 1 + BEYOND)
    looks = {
        "observed, inside": (inside, INK, "o"),
        "observed, outside": (~inside & shown, OUTSIDE, "X"),
        "observed, further to the left than shown": (left, OUTSIDE, "<"),
        "observed, further to the right than shown": (right, OUTSIDE, ">"),
    }
    for words, (rows_of, color, marker) in looks.items():
        part = place[rows_of].clip(-BEYOND, 1 + BEYOND)
        if len(part):
            axes.scatter(part, part.index, color=color, marker=marker, s=30, label=words, **POINT)
    for at, row in enumerate(rows.itertuples()):
        for x, value, align in ((0.0, row.lower, "left"), (1.0, row.upper, "right")):
            text = format_number(value)
            axes.annotate(text, (x, at), xytext=(0, -4.5), ha=align, **END)
    texts = []
    for row in rows.itertuples():
        texts.append(f"{format_number(row.observed)}, p {format_number(row.p)}")
    _write_side_column(axes, texts, "observed")
    names = [str(statistic) for statistic in rows["statistic"]]
    name_rows(axes, names)
    axes.set(xlim=(-0.5, 1.5), xticks=[])
    axes.spines["bottom"].set_visible(False)
    place_wide_legend(axes)
    return axes


def draw_prior_to_posterior(table: pd.DataFrame, axes: Axes) -> Axes:
    """What the data added: prior interval (hatched band) and posterior interval of every quantity,
    on one scale.

    table: one row per quantity and stage, `stage` being `prior` or `posterior` (columns quantity,
    stage, median, lower, upper).
    """
    order = list(dict.fromkeys(table["quantity"]))
    places = {quantity: place for place, quantity in enumerate(order)}
    at = table["quantity"].map(places)
    prior = table[table["stage"] == "prior"]
    width = prior["upper"] - prior["lower"]
    band: Look = {"height": 0.5, "alpha": 0.55, "linewidth": 0.4}
    rows = at[prior.index]
    axes.barh(rows, width, left=prior["lower"], **band, **PRIOR_BAR)
    axes.scatter(prior["median"], rows, marker="|", s=90, color=MUTED, linewidth=1.2)
    posterior = table[table["stage"] == "posterior"]
    at_rows = posterior.set_index(at[posterior.index])
    _draw_intervals(axes, at_rows, "posterior")
    names = [quantity.replace("_", " ") for quantity in order]
    name_rows(axes, names)
    axes.use_sticky_edges = False  # else the bars' ends lie on the frame
    axes.autoscale_view(scaley=False)
    axes.set_xlabel("value of the quantity: median and interval")
    place_wide_legend(axes)
    return axes


def draw_left_out_errors(table: pd.DataFrame, axes: Axes) -> Axes:
    """Every model's log gain against the prediction of a fit that has not seen it, or its lab.

    table: `HeldOut.predictions` (columns model_id, heritage, observed, predicted, lower, upper,
    baseline). Bars: the prediction interval; mark: observed, hollow where the interval misses it;
    tick: the mean of the models left.
    """
    rows = table.sort_values(["heritage", "observed"], ignore_index=True)
    draw_reference(axes, 0.0, vertical=True)
    below = rows["observed"] < rows["lower"]
    missed = below | (rows["observed"] > rows["upper"])
    for lab, part in rows.groupby("heritage", sort=True):
        color, marker = mark(str(lab))
        bar: Look = {"color": color, "linewidth": 3.0, "alpha": 0.3}
        axes.hlines(part.index, part["lower"], part["upper"], **bar)
        for out in (False, True):
            of_kind = missed[part.index] == out
            models = part[of_kind]
            look: Look = {"facecolor": color, "linewidth": 0.5}
            if out:
                look = {"facecolor": "white", "linewidth": 1.1}
            look |= {"edgecolor": color, "marker": marker}
            axes.scatter(models["observed"], models.index, s=24, zorder=4, **look)
        add_lab_entry(axes, str(lab))
    tick: Look = {"marker": "|", "s": 60, "color": INK, "linewidth": 1.2}
    axes.scatter(rows["predicted"], rows.index, label="predicted", zorder=3, **tick)
    dot: Look = {"marker": ".", "s": 14, "color": MUTED}
    axes.scatter(rows["baseline"], rows.index, label="mean of the others", zorder=2, **dot)
    name_models(axes, rows["model_id"])
    axes.set_xlabel("log gain (bars: prediction interval; hollow: missed)")
    place_wide_legend(axes)
    return axes


def draw_half_eyes(draws: Mapping[str, npt.NDArray[np.float64]], axes: Axes) -> Axes:
    """Density of the draws of every quantity on its row, and below it the median with the
    intervals of half and of 94% of the draws; quantities lie above 0.

    draws: by name, one dimension. Every density has the same area, up to its cut at 0.
    """
    reaches = [float(np.quantile(values, REACH)) for values in draws.values()]
    highest = max(reaches)
    at = np.linspace(0.0, highest, GRID)
    heights = {}
    for name, values in draws.items():
        heights[name] = _estimate_density(values, at)
    tallest = max(float(height.max()) for height in heights.values())
    for place, (name, values) in enumerate(draws.items()):
        stretched = TALL * heights[name]
        top = place - stretched / tallest
        axes.fill_between(at, place, top, color=PRIOR, linewidth=0)
        axes.plot(at, top, color=POSTERIOR, linewidth=0.9)
        for inside, width in ((0.94, 1.4), (0.5, 3.6)):
            tail = (1 - inside) / 2
            ends = np.quantile(values, [tail, (1 + inside) / 2])
            axes.hlines(place + LOW, *ends, color=POSTERIOR, linewidth=width)
        middle = np.median(values)
        axes.scatter(middle, place + LOW, color=POSTERIOR, s=30, **POINT)
    name_rows(axes, list(draws))
    lowest = len(draws) - 0.6
    axes.set(xlim=(0, highest), ylim=(lowest, -1.0))
    return axes


def _estimate_density(
    values: npt.NDArray[np.float64], at: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """A normal kernel's density of draws above 0, mirrored there so that none leaks below."""
    kernel = gaussian_kde(values)
    return np.asarray(kernel(at) + kernel(-at))


def _draw_intervals(axes: Axes, rows: pd.DataFrame, label: str) -> None:
    bar: Look = {"color": POSTERIOR, "linewidth": 1.8}
    axes.hlines(rows.index, rows["lower"], rows["upper"], zorder=3, **bar)
    dot: Look = {"color": POSTERIOR, "edgecolor": "white", "linewidth": 0.5}
    axes.scatter(rows["median"], rows.index, label=label, s=28, zorder=4, **dot)


def _write_side_column(axes: Axes, texts: Sequence[str], title: str = "") -> None:
    """Figures in a column at the right of the rows."""
    look: Look = {"xycoords": ("axes fraction", "data"), "fontsize": SIDE}
    for at, text in enumerate(texts):
        axes.annotate(text, (1.02, at), va="center", color=INK, **look)
    if title:
        axes.annotate(title, (1.02, -0.75), va="bottom", color=MUTED, **look)


INCHES = (8.5, 6.0)


def draw_causes(
    words: Mapping[str, str],
    places: Mapping[str, tuple[float, float]],
    arrows: Collection[tuple[str, str]],
    unmeasured: Collection[str],
    effect: str,
    axes: Axes,
) -> Axes:
    """Arrows into `effect` in colour, nodes that nobody measured in a dashed frame."""
    frame = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": "0.3"}
    centred: Look = {"ha": "center", "va": "center", "fontsize": 8}
    boxes = {}
    for name, label in words.items():
        line = "--" if name in unmeasured else "-"
        box = {**frame, "linestyle": line, "linewidth": 0.8}
        # drawn first: arrows end where the frames are
        boxes[name] = axes.text(*places[name], label, zorder=1, bbox=box, **centred)
    for cause, to in arrows:
        last = to == effect
        arrow: Look = {
            "arrowstyle": "-|>",
            "linewidth": 0.9,
            "mutation_scale": 9,
            "color": "#542788" if last else "0.55",
            "connectionstyle": "arc3,rad=0.06",
            "patchA": boxes[cause].get_bbox_patch(),
            "patchB": boxes[to].get_bbox_patch(),
        }
        order = 3 if last else 2
        axes.annotate("", xy=places[to], xytext=places[cause], zorder=order, arrowprops=arrow)
    figure = axes.get_figure(root=True)
    if figure is not None:
        figure.set_size_inches(*INCHES)
    x, y = zip(*places.values(), strict=True)
    axes.set_xlim(min(x) - 0.4, max(x) + 0.4)
    axes.set_ylim(min(y) - 0.6, max(y) + 0.6)
    axes.set_axis_off()
    return axes


Array = npt.NDArray[np.float64]
BINS = 60
"""Places of the curve at which options are counted; of fewer universes each is a place of its
own."""
PITCH, CURVE = 0.155, 2.3
"""Inches of a row of options, and of the curve."""
COLOURS = {
    "supported": "#009E73",
    "not supported": "#D55E00",
    "inconclusive": "#56B4E9",
    "": "#0072B2",
}
BAND = "#d5d2cb"


def draw_specification(
    table: pd.DataFrame,
    axes: Axes,
    *,
    labels: Mapping[str, Sequence[str]],
    moves: Mapping[str, float] | None = None,
    null: float = 0.0,
    xlabel: str = "universes, in order of their estimate",
    ylabel: str = "estimate",
) -> Axes:
    """Estimates of universes in order; rows below are as dark as the option is common among
    universes at that place.

    table: columns estimate, one for each choice, and where there are some verdict, null_lower and
    null_upper. labels: options by choice. moves: share of the variance of the estimates that each
    choice explains.
    """
    ordered = table.sort_values("estimate", kind="stable", ignore_index=True)
    rows = []
    for choice, options in labels.items():
        for option in ("", *options):
            rows.append((choice, option))
    figure = axes.get_figure(root=True)
    assert figure is not None  # noqa: S101
    heights = (CURVE, PITCH * len(rows))
    figure.set_figheight(sum(heights) + 0.7)
    grid = figure.add_gridspec(2, 1, height_ratios=heights)
    axes.set_subplotspec(grid[0])
    _draw_curve(ordered, axes, null)
    axes.set_ylabel(ylabel)
    below = figure.add_subplot(grid[1], sharex=axes)
    _draw_options(ordered, below, rows, moves or {})
    below.set_xlabel(xlabel)
    return axes


def _draw_curve(ordered: pd.DataFrame, axes: Axes, null: float) -> None:
    places = np.arange(1, len(ordered) + 1)
    if "null_lower" in ordered:
        ends = ordered["null_lower"], ordered["null_upper"]
        band: Look = {"color": BAND, "linewidth": 0, "zorder": 0}
        axes.fill_between(places, *ends, label="95% of rearrangements", **band)
    draw_reference(axes, null)
    verdicts = ordered["verdict"] if "verdict" in ordered else pd.Series("", index=ordered.index)
    estimates = ordered["estimate"].to_numpy()
    for verdict, colour in COLOURS.items():
        if (at := (verdicts == verdict).to_numpy()).any():
            x, y = _make_dashes(places[at], estimates[at])
            look: Look = {"color": colour, "linewidth": 2.4, "solid_capstyle": "butt"}
            axes.plot(x, y, label=verdict or "_", **look)
    axes.tick_params(axis="x", labelbottom=False, length=0)
    if entries := collect_entries(axes):
        figure = axes.get_figure(root=True)
        assert figure is not None  # noqa: S101
        figure.legend(
            entries.values(), entries.keys(), loc="outside upper left", ncols=2, handletextpad=0.5
        )


def _make_dashes(x: Array, y: Array) -> tuple[Array, Array]:
    """A level dash for every point, as one line with gaps."""
    gap = np.full(len(x), np.nan)
    left = x - 0.5
    across = np.column_stack([left, x + 0.5, gap])
    level = np.column_stack([y, y, gap])
    return across.ravel(), level.ravel()


def _draw_options(
    ordered: pd.DataFrame, axes: Axes, rows: Sequence[tuple[str, str]], moves: Mapping[str, float]
) -> None:
    n = len(ordered)
    ends = np.linspace(0, n, min(n, BINS) + 1)
    edges = ends.round().astype(int)
    names = []
    for row, (choice, option) in enumerate(rows):
        if not option:
            share = f" ({moves[choice]:.0%})" if choice in moves else ""
            names.append(f"{choice}{share}")
            continue
        names.append(option)
        has_option = ordered[choice].to_numpy() == option
        counted = np.cumsum(has_option)
        at = np.concatenate([[0], counted])
        width = np.diff(edges)
        share_here = np.diff(at[edges]) / width
        shares = np.append(share_here, share_here[-1])
        low = row + 0.42
        high = low - 0.84 * shares
        axes.fill_between(edges + 0.5, high, low, step="post", color="#0072B2", linewidth=0)
        axes.axhline(low, color=RULE, linewidth=0.5)
    axes.set_yticks(range(len(rows)), names)
    for text, (_, option) in zip(axes.get_yticklabels(), rows, strict=True):
        text.set(fontsize=7.5, fontweight="normal" if option else "bold")
    escape_texts(axes.get_yticklabels())
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0.5, n + 0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


MAP = LinearSegmentedColormap.from_list("sides of 1", ["#b35806", "#c4c4c4", "#542788"])
"""Below 1, near it, above it; none as light as the page."""
LEAST = 1e-3
INCHES_A_TIP = 0.18
"""Height of a tip."""
RIGHT = 1.45
"""Where the axes end, in heights of the tree: names of tips stand to the right of it."""
FIRST, AMID, LETTER = 7.5, 6.5, 0.55
"""Sizes of names next to the root and on branches, in points, and the width of a letter in
sizes."""
ROOM = 0.8
"""Inches of a branch of length 1 on which there is room for the name of a model amid the tree."""


def draw_tree(
    tree: Tree, log_gain: Mapping[str, float], axes: Axes, *, xlabel: str = "height in the tree"
) -> Axes:
    """Root left, tips right, branches in the colour of what they lead to, gains on a log scale
    about 1.

    log_gain: natural, by node; a node without one is grey. Of a model with several parents the
    others are drawn dotted.
    """
    x = tree.heights
    y = _place_nodes(tree)
    sizes = [abs(v) for v in log_gain.values() if np.isfinite(v)]
    most = max([*sizes, LEAST])
    colours = ScalarMappable(TwoSlopeNorm(0.0, -most, most), MAP)
    for i, parents in enumerate(tree.parents):
        value = log_gain.get(tree.names[i], np.nan)
        colour = "0.75"
        if np.isfinite(value):
            colour = colours.to_rgba(np.array([value]))[0]
        for k, parent in enumerate(parents):
            across = [x[parent], x[parent], x[i]]
            down = [y[parent], y[i], y[i]]
            line: Look = {"linewidth": 2.2, "linestyle": "-"}
            if k:
                line = {"linewidth": 1.0, "linestyle": ":"}
            axes.plot(across, down, color=colour, solid_joinstyle="round", **line)
        edge: Look = {"markeredgecolor": "0.3", "markeredgewidth": 0.4}
        axes.plot(x[i], y[i], "o", color=colour, markersize=4, **edge)
    _draw_labels(tree, x, y, axes)
    figure = axes.get_figure(root=True)
    if figure is not None:
        needed = INCHES_A_TIP * (y.max() + 1) + 1
        figure.set_figheight(max(figure.get_figheight(), needed))
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    ticks = axes.get_xticks()
    within = (ticks >= 0) & (ticks <= x.max())
    axes.set_xticks(ticks[within])
    axes.set_ylim(y.max() + 0.7, y.min() - 0.7)
    axes.set_xlabel(xlabel)
    bar = axes.figure.colorbar(colours, ax=axes, location="bottom", shrink=0.6, aspect=30, pad=0.02)
    bar_ticks = np.linspace(-most, most, 5)
    bar.set_ticks(bar_ticks.tolist(), labels=[f"{gain:.2f}" for gain in np.exp(bar_ticks)])
    bar.set_label("gain")
    if bar.solids is not None:
        bar.solids.set_rasterized(False)  # a page has no pictures within its drawings
    return axes


def _draw_labels(tree: Tree, x: np.ndarray, y: np.ndarray, axes: Axes) -> None:
    """Tips by name at their right, what hangs on the root at the left of it, others on their
    branches where they fit.

    Of models on short branches only parents of several have their names.
    """
    figure = axes.get_figure(root=True)
    dpi = figure.dpi if figure else 1
    width = axes.get_window_extent().width / dpi
    descendants = Counter(parent for parents in tree.parents for parent in parents)
    first = []
    for i, parents in enumerate(tree.parents):
        if parents and not tree.parents[parents[0]] and descendants[i]:
            first.append(i)
    left = max((_measure_name(tree.names[i], FIRST) / 72 for i in first), default=0.0)
    height = x.max()
    inches = max(width - left, 1.0) / (RIGHT * height)
    root = -0.06 * height - left / inches
    axes.set_xlim(root, height * RIGHT)
    for i, name in enumerate(tree.names):
        look: Look = {"fontsize": AMID, "va": "bottom", "ha": "right", "color": "0.4"}
        if not descendants[i]:
            at = x[i]
            place = (4, 0)
            look = {"fontsize": 8, "va": "center", "color": "0.1"}
        elif i in first:
            at = 0.0
            place = (-5, 0)
            look = {"fontsize": FIRST, "va": "center", "ha": "right", "color": "0.2"}
        elif tree.parents[i] and ("/" not in name or inches > ROOM or descendants[i] > 1):
            at = x[i]
            place = (-3, 1)
            parent = tree.parents[i][0]
            branch = inches * (x[i] - x[parent])
            if (_measure_name(name, AMID) + 9) / 72 > branch:
                continue
        else:
            continue
        at_node = (at, y[i])
        axes.annotate(_strip_owner(name), at_node, place, textcoords="offset points", **look)


def _measure_name(name: str, size: float) -> float:
    """Points that the name of a node takes in letters of this size."""
    return LETTER * size * len(_strip_owner(name))


def _strip_owner(name: str) -> str:
    """A model without its owner, a family without its lab."""
    if "/" in name:
        return strip_owner(name)
    return name.rpartition(": ")[2]


def _place_nodes(tree: Tree) -> np.ndarray:
    """Vertical place of every node: tips one below the other in the order of the tree, others amid
    their children."""
    children: list[list[int]] = [[] for _ in tree.names]
    for i, parents in enumerate(tree.parents):
        if parents:
            children[parents[0]].append(i)
    y = np.full(len(tree), np.nan)
    row = 0
    waiting = [0]
    while waiting:
        at = waiting[-1]
        if not children[at]:
            y[at] = row
            row += 1
            waiting.pop()
            continue
        open_ones = []
        for child in children[at]:
            if np.isnan(y[child]):
                open_ones.append(child)
        if open_ones:
            waiting.append(open_ones[0])
        else:
            y[at] = y[children[at]].mean()
            waiting.pop()
    return y


def draw_bland_altman(table: pd.DataFrame, axes: Axes, lines: Mapping[str, float]) -> Axes:
    """Ratio of `measured` to `value` over their geometric mean, both logarithmic, and the line of
    no difference.

    lines: further lines by what they are, such as the limits of agreement.
    """
    axes.axhline(1.0, color=RULE, linewidth=1.2, zorder=0)
    for name, at in lines.items():
        draw_reference(axes, at, text=name)
    product = table["value"] * table["measured"]
    mean = np.sqrt(product)
    ratio = table["measured"] / table["value"]
    axes.scatter(mean, ratio, facecolor=PAPER, edgecolor=INK, s=22)
    axes.set(xlabel="geometric mean of both", ylabel="measured / published")
    for which in "xy":
        log_axis(axes, which)
    return axes


LEAST_POINTS = 2
"""Checkpoints that make a line."""


def trajectories(
    gain: str = "penultimate_gain",
    *,
    model: str | Sequence[str] | None = None,
    family: str | Sequence[str] | None = None,
    data: str | Path | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a named gain against training steps, a line for each model with two checkpoints or more.

    The step is the number in a revision such as `step4000`; a revision without one, such as `main`,
    is left out. A model that two sources measured has two lines.

    Parameters
    ----------
    gain : str
        A named gain.
    model, family : str or sequence of str
        As in `features`; the controlled study is included if it is named.
    data : str or Path
        A user's folder, read together with the package's own tables.
    axes : Axes
        Where to draw; without it a new figure is made.

    Returns
    -------
    Axes
        What was drawn onto.

    Raises
    ------
    UsageError
        For a gain that is none, and where no model has two checkpoints.

    Examples
    --------
    >>> import thermostats
    >>> models = ["nursery/r01-5", "nursery/r01-6"]
    >>> axes = thermostats.trajectories("penultimate_gain", model=models)
    >>> axes.get_xlabel()
    'training step'
    """
    check_gain(gain, "trajectories")
    rows = features(data, model=model, family=family, every=True)
    rows = rows.dropna(subset=gain)
    steps = rows["revision"].str.extract(r"(\d+)\D*$")[0]
    rows = rows.assign(step=steps.astype("float64"))
    rows = rows.dropna(subset="step")
    if model is None and family is None:
        rows = rows[rows["source"] != "nursery"]
    lines = rows.drop_duplicates(["model_id", "source", "step"])
    runs = lines.groupby(["model_id", "source"])
    n_points = runs["step"].transform("size")
    lines = lines[n_points >= LEAST_POINTS]
    if lines.empty:
        step = "thermostats measure MODEL --revision step1000,step2000"
        raise UsageError("no model has two checkpoints with this gain", got=gain, next_step=step)
    with set_house_style():
        drawn = axes if axes is not None else start_axes()
        draw_lines_by_layer(lines, drawn, y=gain, x="step", null=1.0)
        first = lines["step"].min()
        if first > 0 and lines["step"].max() > 10 * first:
            log_axis(drawn, "x")
        words = gain.replace("_", " ")
        drawn.set(xlabel="training step", ylabel=f"{words} (ratio of norms)")
    return drawn

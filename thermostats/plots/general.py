"""House style of figures and the few kinds the analyses draw; each takes a table and axes and
returns the axes."""

from __future__ import annotations

import csv
import io
import math
import re
import textwrap
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from thermostats.errors import SHOWN_OF, UsageError, join_some
from thermostats.formatting import SUPERSCRIPT, WHOLE, format_number, join_words, strip_owner
from thermostats.next_steps import call, is_table
from thermostats.plots.point_names import Look, name_ends, place_labels
from thermostats.tables.choices import MOST_LINES
from thermostats.tables.features import LAST
from thermostats.tables.frames import check_frame, read_frame, read_known_numbers
from thermostats.tables.join import suggest_block_join
from thermostats.tables.reading import find_shared_runs, read_values
from thermostats.tables.suggested_join import suggest_line


class Mark(NamedTuple):
    """How one heritage looks in every figure."""

    color: str
    marker: str


def _load_marks() -> dict[str, Mark]:
    path = files("thermostats.plots").joinpath("labs.csv")
    lines = path.read_text(encoding="utf-8").splitlines()
    marks = {}
    for row in csv.DictReader(lines):
        marks[row["lab"]] = Mark(row["color"], row["marker"])
    return marks


HERITAGES: Mapping[str, Mark] = _load_marks()
"""Labs that figures keep apart, never by colour alone; Okabe and Ito's colours
(jfly.uni-koeln.de/color) come first."""

ABOVE: Mapping[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 4}
"""Where a legend of heritages stands that would hide what is drawn."""
OTHER_COLORS = ("#44546A", "#9C4A4A", "#3B7A78", "#A0682C", "#6B6B6B")
OTHER_MARKERS = ("h", "d", "*", "H", "8")


def mark(heritage: str) -> Mark:
    """Colour and marker of a heritage: the same in every figure, whatever other heritages are
    shown.

    Heritages that end in a number, such as recipes r01 to r16, differ from one another up to 25 of
    them.
    """
    for name, declared in HERITAGES.items():
        if name.replace(" ", "") == heritage.replace(" ", ""):
            return declared
    counted = re.search(r"\d+$", heritage)
    number = int(counted[0]) if counted else zlib.crc32(heritage.encode())
    colors = len(OTHER_COLORS)
    markers = len(OTHER_MARKERS)
    color = OTHER_COLORS[number % colors]
    return Mark(color, OTHER_MARKERS[number // colors % markers])


WIDE = 2.5
"""Powers of ten above which only the powers are marked."""
BARE = 1.001
"""Ratio of the limits below which six digits tell no tick from the next."""
NARROW = 5.0
"""Ratio of the limits below which a logarithm's 1, 2 and 5 would leave an axis nearly bare."""


def log_axis(axes: Axes, which: str) -> None:
    """Make one axis logarithmic, its limits as they are; ticks are those of its limits whenever it
    is drawn."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(_Ticks())
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _format_tick(value, axis)))


class _Ticks(Locator):
    """Ticks of a logarithmic axis: its powers, their 1, 2 and 5, or round steps where it is
    short."""

    def __call__(self) -> Any:
        assert self.axis is not None  # noqa: S101
        return self.tick_values(*sorted(self.axis.get_view_interval()))

    def tick_values(self, vmin: float, vmax: float) -> Any:
        if vmax / vmin < NARROW:
            locator = MaxNLocator(6, steps=[1, 2, 5, 10])
            return locator.tick_values(vmin, vmax)
        only_powers = math.log10(vmax / vmin) > WIDE
        powers = LogLocator(subs=(1.0,) if only_powers else (1.0, 2.0, 5.0))
        powers.set_axis(self.axis)
        return powers.tick_values(vmin, vmax)


def _format_tick(value: float, axis: Axis) -> str:
    low, high = sorted(axis.get_view_interval())
    if high / low < BARE:
        return _format_close_tick(value, list(axis.get_majorticklocs()))
    if high >= WHOLE and math.log10(high / low) > WIDE:
        return _format_power(value)
    return _format_plain(value)


def _format_close_tick(value: float, ticks: Sequence[float]) -> str:
    """A tick with the decimals that tell it from its neighbour."""
    step = 1.0
    if len(ticks) > 1:
        steps = [abs(after - before) for before, after in pairwise(ticks)]
        step = min(steps)
    decimals = max(0, math.ceil(-math.log10(step)))
    return f"{value:.{decimals}f}"


def _format_power(value: float) -> str:
    power = str(round(math.log10(value)))
    return f"10{power.translate(SUPERSCRIPT)}"


def _format_plain(value: float) -> str:
    if value >= WHOLE:
        return format_number(value, 1)
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


INK = "#1d1f21"
MUTED = "#5f6368"
RULE = "#d5d2cb"
PAPER = "#fffefb"
LEGEND_CHARACTERS = 17.25 * 8.5
"""Characters of one point that a row of a legend holds for every inch of the axes."""
ROOM, TIGHT, SMALLER, SMALLEST = 3.4, 0.14, 0.2, 7.5
"""Inches of rows that a screen holds, their smallest pitch, and below which pitch their names are
how large."""
MOST_NAMED, MOST_COLOURED = 14, 8
"""Lines that names at their ends can still tell apart, and labs that colours can."""
PLAIN = Mark("#0072B2", "o")
"""Where no heritage is meant."""
POINT: Look = {"edgecolor": "white", "linewidth": 0.45, "zorder": 3}
INTERVAL: Look = {"color": INK, "linewidth": 1.0, "zorder": 4}
"""In front of the mark, which would hide a short one."""
DASHED: Look = {"color": MUTED, "linestyle": "--"}
"""A line for comparison, of no data."""
KINDS = ("#0072B2", "#D55E00", INK)
"""Colours of kinds of lines."""
PAIR, MOST_LEVEL = 2.2, 5
"""Distance from pair to pair where its two ends are 1 apart, and pairs whose names can stand level
below them."""
DASHES = ("-", "--", ":", "-.")
JOINED = 3
"""Depths from which a family is drawn as a line."""
POWER = re.compile(r"\^\(([^()$]+)\)")
WORDS = {
    "n_layers": "layers, L",
    "n_params": "parameters",
    "rho": "head density ρ = H / d_h",
    "layer": "layer l",
}
"""Axis labels of columns whose names are not words; any other column is shown with spaces for
underscores."""


def set_house_style(name: str = "house") -> AbstractContextManager[None]:
    """Context in which figures take the house style, `house.mplstyle`, or what another file of
    styles changes in it."""
    return mpl.rc_context(_load_style(name))


def draw_scatter(
    table: pd.DataFrame,
    axes: Axes,
    *,
    x: str,
    y: str,
    label: str = "model_id",
    lower: str = "",
    upper: str = "",
    labels: bool = True,
) -> Axes:
    """Named points, coloured and shaped by heritage; columns `lower` and `upper` become vertical
    intervals."""
    points = table.dropna(subset=[x, y])
    for lab, rows in _group_labs(points):
        look = mark(lab)._asdict()
        if lower and upper:
            axes.vlines(rows[x], rows[lower], rows[upper], **INTERVAL)
        axes.scatter(rows[x], rows[y], label=lab, s=44, **look, **POINT)
    axes.set(xlabel=_format_label(x), ylabel=_format_label(y))
    axes.margins(0.08)
    place_legend(axes)
    if labels:
        names = _strip_owners(points[label])
        place_labels(axes, points[x], points[y], names)
    return axes


def prepare_drawing(
    kind: Callable[..., Axes], table: pd.DataFrame, *, log: str = "", **options: Any
) -> Callable[[Axes], None]:
    """A figure of one of these kinds, drawn when a page asks for it.

    options: those of the kind, `xlabel` and `ylabel`. log: axes that are made logarithmic, such as
    `x` or `xy`.
    """
    labels = {}
    for name in ("xlabel", "ylabel"):
        if name in options:
            labels[name] = options.pop(name)

    def draw(axes: Axes) -> None:
        kind(table, axes, **options)
        axes.set(**labels)
        for which in log:
            log_axis(axes, which)

    return draw


def draw_gain_by_depth(
    table: pd.DataFrame,
    axes: Axes,
    *,
    y: str,
    lower: str = "",
    upper: str = "",
    curves: Mapping[str, Callable[[np.ndarray], np.ndarray]],
    families: str = "",
) -> Axes:
    """Gain of every model over its number of layers, named curves such as the bound 10^(1/L), and
    the line at 1.

    families: column of groups whose models of several depths are joined by lines, at each depth
    through their geometric mean.
    """
    draw_reference(axes, 1.0)
    if families:
        _join_families(table, axes, y, families)
    layers = table["n_layers"]
    depths = np.linspace(float(layers.min()), float(layers.max()), 200)
    for (name, curve), dash in zip(curves.items(), DASHES, strict=False):
        look: Look = {"color": MUTED, "linestyle": dash, "linewidth": 1.2}
        axes.plot(depths, curve(depths), label=name, zorder=1, **look)
    return draw_scatter(table, axes, x="n_layers", y=y, lower=lower, upper=upper)


def _join_families(table: pd.DataFrame, axes: Axes, y: str, families: str) -> None:
    """A thin line through each family's models of `JOINED` depths or more."""
    gains = table[y].astype(float)
    logs = table.assign(log=np.log(gains))
    for _, own in logs.groupby(families):
        log_means = own.groupby("n_layers")["log"].mean()
        means = np.exp(log_means)
        if len(means) >= JOINED:
            lab = str(own["heritage"].iloc[0])
            color = mark(lab).color
            depths = means.index.to_numpy(float)
            axes.plot(depths, means, color=color, linewidth=0.9, alpha=0.55, zorder=2)


def draw_forest(
    table: pd.DataFrame,
    axes: Axes,
    *,
    label: str,
    estimate: str = "estimate",
    heritage: str = "",
    null: float | None = 0.0,
) -> Axes:
    """Estimates with their intervals `lower` to `upper`, one row a label from the top, and the
    value of no effect."""
    if null is not None:
        draw_reference(axes, null, vertical=True)
    heritages = [""] * len(table)
    if heritage:
        heritages = table[heritage].astype(str).tolist()
    positions, names = pd.factorize(table[label])
    for position, lab, row in zip(positions, heritages, table.to_dict("records"), strict=True):
        look = (mark(lab) if lab else PLAIN)._asdict()
        axes.hlines(position, row["lower"], row["upper"], **INTERVAL)
        axes.scatter(row[estimate], position, s=44, **look, **POINT)
    for lab in sorted(set(heritages) - {""}):
        add_lab_entry(axes, lab)
    place_legend(axes)
    name_rows(axes, _strip_owners(names))
    axes.set_xlabel(_format_label(estimate))
    return axes


def draw_curve(axes: Axes, x: pd.Series, y: pd.Series, inside: pd.Series) -> Axes:
    """A curve whose part `inside` is drawn strong, with a mark at its highest point."""
    axes.plot(x, y, color=MUTED, linewidth=1.0)
    strong: Look = {"color": PLAIN.color, "linewidth": 2.4}
    axes.plot(x[inside], y[inside], solid_capstyle="round", **strong)
    highest = x[y.idxmax()]
    axes.scatter(highest, y.max(), s=44, **PLAIN._asdict(), **POINT)
    return axes


def draw_slopes(
    table: pd.DataFrame,
    axes: Axes,
    *,
    before: Sequence[str],
    after: Sequence[str],
    label: str = "model_id",
    names: tuple[str, str] = ("base", "instruct"),
) -> Axes:
    """Two gains of the same thing joined by a line, pairs in a row: open where it starts, filled
    where it ends.

    before, after: columns of the estimate and of both ends of its interval.
    """
    draw_reference(axes, 1.0)
    starts = PAIR * np.arange(len(table))
    for start, row in zip(starts, table.to_dict("records"), strict=True):
        color, marker = PLAIN
        if "heritage" in table:
            color, marker = mark(str(row["heritage"]))
        across = [start, start + 1]
        middles = [row[before[0]], row[after[0]]]
        axes.plot(across, middles, color=color, linewidth=1.3, zorder=2)
        for at, columns, face in ((start, before, PAPER), (start + 1, after, color)):
            middle, lower, upper = (row[column] for column in columns)
            look: Look = {"facecolor": face, "edgecolor": color, "marker": marker}
            axes.scatter(at, middle, s=44, zorder=3, **look)
            axes.vlines(at, lower, upper, **INTERVAL)
    for name, fill in zip(names, (PAPER, MUTED), strict=True):
        axes.plot([], [], color=MUTED, marker="o", markerfacecolor=fill, linestyle="", label=name)
    place_legend(axes)
    own_names = _strip_owners(table[label])
    below = [name.replace(" (", "\n(") for name in own_names]
    level = len(below) <= MOST_LEVEL
    turned = 0 if level else 90
    axes.set_xticks(starts + 0.5, below, rotation=turned, fontsize=SMALLEST)
    width = PAIR * len(table) - PAIR
    axes.set_xlim(-0.8, width + 1.8)
    axes.tick_params(axis="x", length=0)
    escape_texts(axes.get_xticklabels())
    return axes


def draw_lines_by_layer(
    table: pd.DataFrame,
    axes: Axes,
    *,
    y: str,
    x: str = "layer",
    null: float | None = None,
    by: str = "",
) -> Axes:
    """One line per model over layers or another column: colour shows the lab, dash the model;
    MOST_NAMED have names.

    With more labs than MOST_COLOURED no line has a colour of its own, but for that of its value of
    column `by`.
    """
    if null is not None:
        draw_reference(axes, null)
    ends = []
    names = []
    apart = table["heritage"].nunique() <= MOST_COLOURED
    kinds = []
    if by and not apart:
        kinds = sorted(table[by].unique())
    for lab, rows in _group_labs(table):
        for dash, (model, line) in enumerate(rows.groupby("model_id", sort=True)):
            drawn = line.sort_values(x).dropna(subset=[y])
            if drawn.empty:
                continue
            style: Look = {"color": PLAIN.color}
            if apart:
                style = {"color": mark(lab).color, "linestyle": DASHES[dash % 4]}
            if kinds:
                place = kinds.index(drawn[by].iloc[0])
                color = KINDS[place % len(KINDS)]
                style = {"color": color, "linestyle": DASHES[place % 4], "label": kinds[place]}
            alpha = 1.0 if apart else 0.6
            axes.plot(drawn[x], drawn[y], alpha=alpha, **style)
            last = drawn.iloc[-1]
            ends.append((float(last[x]), float(last[y]), style["color"]))
            names.append(model)
        if apart:
            color = mark(lab).color
            axes.plot([], [], color=color, label=lab)
    axes.set(xlabel=_format_label(x), ylabel=_format_label(y))
    alone = len(axes.get_figure(root=True).axes) == 1  # type: ignore[union-attr]
    axes.margins(x=0.02 if alone else 0.12)
    place_legend(axes)
    if len(ends) <= MOST_NAMED and alone:
        labels = []
        for (_, at, color), name in zip(ends, _strip_owners(names), strict=True):
            labels.append((at, name, color))
        name_ends(axes, labels)
    elif len(ends) <= MOST_NAMED:
        across = [end[0] for end in ends]
        heights = [end[1] for end in ends]
        place_labels(axes, across, heights, _strip_owners(names))
    return axes


def strip_by_group(
    table: pd.DataFrame,
    axes: Axes,
    *,
    value: str,
    group: str = "heritage",
    null: float | None = 1.0,
) -> Axes:
    """Every value as a point, one row per group in order of its mean; the tick is the mean of the
    group."""
    drawn = table.dropna(subset=[value])
    means = drawn.groupby(group)[value].mean()
    order = list(means.sort_values().index)
    if null is not None:
        draw_reference(axes, null, vertical=True)
    for position, name in enumerate(order):
        rows = drawn[drawn[group] == name]
        rows = rows.sort_values(value)
        steps = [(-1) ** i * ((i + 1) // 2 % 3) for i in range(len(rows))]
        shift = 0.14 * np.array(steps)
        for lab, points in _group_labs(rows.assign(_at=position + shift)):
            look = mark(lab)._asdict()
            axes.scatter(points[value], points["_at"], s=38, alpha=0.85, **look, **POINT)
        mean = rows[value].mean()
        bar = [position - 0.33, position + 0.33]
        axes.plot([mean] * 2, bar, color=INK, linewidth=1.6, zorder=4)
    sizes = drawn.groupby(group).size()
    names = [f"{strip_owner(str(name))} ({sizes[name]})" for name in order]
    name_rows(axes, names)
    axes.set_xlabel(_format_label(value))
    return axes


def draw_reference(axes: Axes, at: float, *, vertical: bool = False, text: str = "") -> None:
    """A thin line at a value that means something, such as gain 1; `text` stands at the right end
    of a level one."""
    line = axes.axvline if vertical else axes.axhline
    line(at, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
    if text:
        place: Look = {"xycoords": ("axes fraction", "data"), "ha": "right"}
        offset: Look = {"xytext": (-2, 2), "textcoords": "offset points"}
        axes.annotate(text, (1, at), va="bottom", fontsize=7.5, color=MUTED, **place, **offset)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the rows of a figure that has one item a row, from the top; a figure of nothing else is
    as high as they.

    Many rows are set closer, so that the figure stays within a screen. A legend there is reaches
    over their names.
    """
    figure = axes.get_figure(root=True)
    n = len(names)
    roomy = ROOM / max(1, n)
    pitch = max(TIGHT, min(0.3, roomy))
    if figure is not None and len(figure.axes) == 1:
        height = 0.9 + pitch * n
        figure.set_figheight(max(2.0, height))
        if pitch < SMALLER:
            axes.tick_params(axis="y", labelsize=min(SMALLEST, _read_text_size("ytick.labelsize")))
    axes.set_yticks(range(n), names)
    axes.set_ylim(n - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.spines["left"].set_visible(False)
    escape_texts(axes.get_yticklabels())
    if legend := axes.get_legend():
        legend.set_loc("lower right")
        legend.set_bbox_to_anchor((1.0, 1.0))


def name_models(axes: Axes, models: Iterable[object]) -> None:
    """Name the rows of a figure that has one model a row, without the models' owners."""
    name_rows(axes, shorten_names(models))


def shorten_names(models: Iterable[object]) -> list[str]:
    """Names of models without their owners."""
    return [strip_owner(str(model)) for model in models]


def place_legend(axes: Axes) -> None:
    """Legend above the axes, one entry per name; a single name tells nothing apart and has none."""
    entries = collect_entries(axes)
    if len(entries) > 1:
        inches = axes.get_window_extent().width / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
        columns = count_legend_columns(entries, LEGEND_CHARACTERS * inches)
        legend = axes.legend(
            entries.values(),
            entries.keys(),
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=columns,
            borderaxespad=0.2,
            handletextpad=0.4,
            columnspacing=1.2,
        )
        escape_texts(legend.get_texts())


def collect_entries(axes: Axes) -> dict[str, Artist]:
    """What a legend of the axes holds, one entry per name."""
    handles, names = axes.get_legend_handles_labels()
    return dict(zip(names, handles, strict=True))


def count_legend_columns(names: Iterable[str], room: float) -> int:
    """Columns of a legend whose rows hold `room` characters at a size of one point, eight of them
    for each mark."""
    lengths = [len(name) for name in names]
    characters = room / _read_text_size("legend.fontsize")
    columns = int(characters / (max(lengths) + 8))
    return max(1, min(len(lengths), columns))


def escape_texts(texts: Iterable[Text]) -> None:
    """Names are no formulas, but a power such as 10^(1/L) is set as one."""
    for text in texts:
        written = text.get_text()
        is_power = "$" not in written and POWER.search(written) is not None
        text.set_parse_math(is_power)
        if is_power:
            text.set_text(POWER.sub(r"$^{\\mathregular{\1}}$", written))


@cache
def _load_style(name: str) -> mpl.RcParams:
    path = Path(__file__).with_name(f"{name}.mplstyle")
    return mpl.rc_params_from_file(path, use_default_template=False)


def _read_text_size(parameter: str) -> float:
    """A size of text of the style in use, in points."""
    return FontProperties(size=mpl.rcParams[parameter]).get_size_in_points()  # type: ignore[index]


def _group_labs(table: pd.DataFrame) -> Iterable[tuple[str, pd.DataFrame]]:
    return ((str(lab), rows) for lab, rows in table.groupby("heritage", sort=True))


def _strip_owners(names: Iterable[object]) -> list[str]:
    """Models without their owners; what has blanks is no model's name."""
    short_names = []
    for name in map(str, names):
        short_names.append(name if " " in name else strip_owner(name))
    return short_names


def _format_label(label: str) -> str:
    return WORDS.get(label, label.replace("_", " "))


COLUMN = 3.54
"""Width of one column of print in inches (90 mm)."""


@contextmanager
def set_column_style() -> Iterator[None]:
    """House style at the width of one column."""
    with set_house_style(), set_house_style("column"):
        yield


def place_wide_legend(axes: Axes) -> None:
    """Legend over the whole width of a figure whose rows have long names; none if there are other
    axes next to it."""
    canvas = axes.get_figure(root=True)
    entries = collect_entries(axes)
    if canvas is None or len(canvas.axes) > 1 or not entries:
        return
    inches = canvas.get_figwidth()
    columns = count_legend_columns(entries, 22 * 6.5 * inches)
    legend = canvas.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper left",
        ncols=columns,
        handletextpad=0.4,
        columnspacing=1.0,
        borderpad=0.1,
    )
    escape_texts(legend.get_texts())


def add_lab_entry(axes: Axes, lab: str, **style: object) -> None:
    """An entry of the legend for a lab, with nothing drawn."""
    look: Look = {**mark(lab)._asdict(), "linestyle": "", "label": lab, **style}
    axes.plot([], [], **look)


def name_points(axes: Axes, x: ArrayLike, y: ArrayLike, names: Iterable[str]) -> None:
    """Short names of models at their points."""
    place_labels(axes, x, y, shorten_names(names), 6.0)


HEIGHT, RESOLUTION, SHOWN = 2.5, 300, 120
"""Inches, and points to the inch of a PNG: in a file, and in a notebook."""
TITLED, BOLD = 0.84, 0.62
"""Share of a figure's width that is above axes, and width of a bold letter over its size."""
BAND = (0.1, 0.9)
"""Quantiles over prompts between which the band lies."""
FORMATS = (".svg", ".png", ".pdf")
WIDE_OVER_DEPTH = 10.0
"""Ratio of the largest to the smallest value from which on an axis is logarithmic; where the first
block's gain alone makes it so, that lies beyond the axis, and the legend has it."""
MARGIN = 1.05
"""Room above and below what an axis shows, as a factor."""
TOKENS = {"last": "at the last token", "first": "at the first token", "all": "over all tokens"}


def profile(
    models: str | Path | Sequence[str | Path] | pd.DataFrame,
    quantity: str = "gain",
    position: str = LAST,
    *,
    data: str | Path | None = None,
    figure: str | Path | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a quantity over depth: its median over prompts, and the band of 80% of the prompts.

    Block l is drawn against l, one line a model; models of other depths are drawn over the relative
    depth l / L. Runs on a prompt set that all models share are taken, else the newest of each.

    Parameters
    ----------
    models : str, Path, sequence of them or DataFrame
        One or several names in the tables, with or without the owner, or folders; behind an @ a
        revision. Or the table that `paired` returns, whose differences are drawn with their
        intervals.
    quantity : str
        `gain` ‖x_l‖ / ‖x_(l−1)‖, `norm` ‖x_(l−1)‖ (what block l reads), `read gain`, `attention
        gain` or `mlp gain`.
    position : str
        Token position.
    data : str or Path
        A user's folder, read together with the package's own tables.
    figure : str or Path
        A file to write, SVG, PNG or PDF, as wide as a column of print.
    axes : Axes
        Where to draw; without it a new figure is made.

    Returns
    -------
    Axes
        What was drawn onto.

    Raises
    ------
    UsageError
        For a model without such rows, a quantity, position or file that there is not.

    Examples
    --------
    >>> import thermostats
    >>> axes = thermostats.profile("SmolLM2-135M-Instruct", figure="profile.svg")
    >>> axes.get_xlabel()
    'block l (band: 80% of the prompts)'
    """
    path = check_figure_file(figure)
    with set_column_style():
        drawn = axes if axes is not None else start_axes(figsize=(COLUMN, HEIGHT))
        if is_table(models):
            table = models if isinstance(models, pd.DataFrame) else read_frame(models)
            _check_differences(table, quantity, data)
            _draw_differences(table, drawn)
        else:
            names = [models] if isinstance(models, (str, Path)) else _list_models(models)
            check_lines(len(names))
            tables = [read_values(model, quantity, position, data) for model in names]
            _draw_lines(find_shared_runs(tables), drawn, quantity)
            place = TOKENS.get(position, f"({position})")
            of_block = "of the block" if "gain" in quantity else "of what the block reads"
            drawn.set_ylabel(f"{quantity} {of_block} {place}")
        if path is not None:
            write_figure(drawn, path)
    return drawn


def _list_models(models: object) -> list[str | Path]:
    """Names of models; UsageError for what names none."""
    if isinstance(models, Iterable):
        names = models.to_pylist() if hasattr(models, "to_pylist") else list(models)  # of Arrow
        if all(isinstance(name, (str, Path)) for name in names):
            return names
    raise UsageError(
        "no models are named",
        where="models",
        got=repr(models)[:SHOWN_OF],
        allowed="a model, several, or what thermostats.paired gives",
        next_step='thermostats.profile("MODEL")',
    )


def set_title(axes: Axes, sentence: str) -> None:
    """A sentence above axes, in lines as long as these are wide, of a letter at least."""
    size = float(axes.title.get_fontsize())
    letter = BOLD * size / 72
    letters = int(TITLED * _measure_room(axes) / letter)
    width = max(1, letters)
    axes.set_title(textwrap.fill(sentence, width), parse_math=False)


def _measure_room(axes: Axes) -> float:
    """Inches of a figure's width that are for axes and their labels, of all its columns alike."""
    canvas = axes.get_figure(root=True)
    if canvas is None:
        return COLUMN
    margins = canvas.subplotpars
    share = margins.right - margins.left
    width = float(axes.bbox.width)
    inches = width / canvas.dpi / share
    return min(inches, canvas.get_figwidth())


class ShownFigure(Figure):
    """A figure that a notebook shows where a cell ends in it."""

    def _repr_png_(self) -> bytes:
        return draw_png(self)


class ShownAxes(Axes):
    """Axes whose figure a notebook shows where a cell ends in them."""

    def _repr_png_(self) -> bytes:
        canvas = self.get_figure(root=True)
        return b"" if canvas is None else draw_png(canvas)


def draw_png(figure: Figure) -> bytes:
    """A figure as a notebook shows it."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=SHOWN)
    return stream.getvalue()


def start_axes(**figure: Any) -> Axes:
    """Axes of a new figure, both shown by a notebook."""
    made = ShownFigure(layout="constrained", **figure)
    return made.add_subplot(axes_class=ShownAxes)


def write_figure(axes: Axes, path: Path) -> None:
    """Write the figure of axes to a file, the same bytes of the same figure."""
    if (canvas := axes.get_figure(root=True)) is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        canvas.savefig(path, dpi=RESOLUTION, metadata=metadata)


def check_lines(models: int, next_step: str = "") -> None:
    """Raise UsageError where there is no model to draw a line of, or more than can be
    distinguished."""
    if not 0 < models <= MOST_LINES:
        what = "more models than lines that a reader can distinguish" if models else ""
        raise UsageError(
            what or "no model to draw",
            where="models",
            got=models,
            allowed=f"1 to {MOST_LINES}",
            next_step=next_step,
        )


def check_figure_file(figure: str | Path | None) -> Path | None:
    """The file that a figure is to be written to; UsageError for a kind of file that there is
    not."""
    path = None if figure is None else Path(figure)
    if path is not None and path.suffix.lower() not in FORMATS:
        what = "no such kind of figure"
        step = f"figure={str(path.with_suffix('.svg'))!r}"
        got = str(path)
        raise UsageError(what, where="figure", got=got, allowed=", ".join(FORMATS), next_step=step)
    return path


def _draw_lines(sides: Sequence[pd.DataFrame], axes: Axes, quantity: str) -> None:
    depths = [int(side["layer"].max()) for side in sides]
    alike = len(set(depths)) == 1
    prompt_sets = [side["prompt_set"].iloc[0] for side in sides]
    apart = len(set(prompt_sets)) > 1
    bands = []
    for side in sides:
        values = side.groupby("layer")["value"]
        quantiles = values.quantile([*BAND, 0.5])
        bands.append(quantiles.unstack())
    from_first = [band.loc[1:] for band in bands]
    from_second = [band.loc[2:] for band in bands]
    every = _find_extent(from_first)
    later = _find_extent(from_second)
    beyond = "gain" in quantity and _is_wide(every) and not _is_wide(later)
    for k, (side, band, depth) in enumerate(zip(sides, bands, depths, strict=True)):
        x = band.index.to_numpy() / (1 if alike else depth)
        prompts = side["prompt"]
        n = prompts[prompts.ne("")].nunique()
        rests = f"{n} prompts" if n else "mean over prompts"
        if apart:
            rests += f" of {prompt_sets[k]}"
        if beyond and 1 in band.index:
            rests += f", block 1: {format_number(band[0.5].get(1))}"
        name = str(side["model"].iloc[0])
        model = strip_owner(name)
        dash = DASHES[k % len(DASHES)]
        (line,) = axes.plot(x, band[0.5], linestyle=dash, label=f"{model}, {rests}", zorder=3)
        if n > 1:
            low, high = (band[share] for share in BAND)
            color = line.get_color()
            axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0, zorder=1)
    if "gain" in quantity:
        draw_reference(axes, 1.0)
    low, high = later if beyond else every
    if beyond:
        axes.set_ylim(low / MARGIN, high * MARGIN)
    if _is_wide((low, high)):
        log_axis(axes, "y")
    below = "block l" if alike else "relative depth l / L"
    share = f"{BAND[1] - BAND[0]:.0%}"
    axes.set_xlabel(f"{below} (band: {share} of the prompts)")
    medians = [band[0.5] for band in bands]
    set_title(axes, _describe_profile(medians, quantity))
    if alike:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="best")


def _describe_profile(medians: Sequence[pd.Series[float]], quantity: str) -> str:
    """What a figure over depth shows, in a sentence: of gains in how many of the blocks that were
    measured they are above 1, of a norm how it changes from the first of these to the last."""
    if "gain" not in quantity:
        ratios = [float(of.iloc[-1] / of.iloc[0]) for of in medians]
        ends = dict.fromkeys(map(format_number, (min(ratios), max(ratios))))
        starts = [int(of.index[0]) for of in medians]
        stops = [int(of.index[-1]) for of in medians]
        first = _name_block(starts, 0)
        last = _name_block(stops, -1)
        return f"The norm before {last} is {' to '.join(ends)} times that before {first}"
    above = []
    for of in medians:
        n_above = int((of > 1).sum())
        above.append(f"{n_above} of {len(of)}")
    does = "let the stream grow" if quantity == "gain" else f"have a {quantity} above 1"
    if len(medians) > 1:
        return f"Blocks that {does}: {join_words(above)}"
    (median,) = medians
    largest = f"block {median.idxmax()} most: {format_number(median.max())}"
    return f"{above[0]} blocks {does}, {largest}"


def _name_block(numbers: Sequence[int], end: int) -> str:
    """The block at one end of what was measured of each model: by its number where it is one."""
    if len({*numbers}) == 1:
        return f"block {numbers[0]}"
    return "the last block measured" if end else "the first block measured"


def _find_extent(bands: Sequence[pd.DataFrame]) -> tuple[float, float]:
    """The lowest and the highest value of some bands."""
    lowest = min(float(band.min(axis=None)) for band in bands)
    highest = max(float(band.max(axis=None)) for band in bands)
    return lowest, highest


def _is_wide(extent: tuple[float, float]) -> bool:
    low, high = extent
    return low > 0 and high / low > WIDE_OVER_DEPTH


def _check_differences(table: pd.DataFrame, quantity: str, data: str | Path | None) -> None:
    """Raise UsageError for rows that are no paired differences: of blocks they are drawn once they
    are joined, of models as a line over their depth."""
    if "difference" in table and "second" in table.attrs:
        return
    table = check_frame(table).rename(columns=str)
    what = "a figure over depth is of models by name"
    allowed = "names of models"
    joining, models = suggest_block_join(table, data)
    if joining:
        asked = {} if quantity == "gain" else {"quantity": quantity}
        folder = str(data or "mine")
        named = models[:MOST_LINES]
        drawn = call("profile", named, **asked, data=folder)
        some = ""
        if len(models) > MOST_LINES:
            some = f"{MOST_LINES} of {len(models)} models: "
        step = f"{joining}\n# then {some}{drawn}"
    elif step := suggest_line(table):
        what = "rows of a model each have no blocks to draw"
        allowed = "rows of blocks, once joined"
    else:
        what = "not a table of paired differences"
        allowed = "what thermostats.paired returns"
        step = "thermostats.profile(thermostats.paired(FIRST, SECOND))"
    got = f"a table with columns {join_some(table)}"
    raise UsageError(what, where="models", got=got, allowed=allowed, next_step=step)


def _draw_differences(table: pd.DataFrame, axes: Axes) -> None:
    """Paired differences with their intervals, as `paired` gives them."""
    about = table.attrs
    numbers = ("layer", "difference", "lower", "upper", "n_prompts")
    check_frame(table)
    known = {name: read_known_numbers(table, name) for name in numbers}
    table = table.assign(**known)
    whole = table.dropna(subset=list(numbers))
    if whole.empty:
        raise UsageError(
            "no difference to draw",
            where="models",
            got="0 rows with a difference, its interval and a number of prompts",
            next_step="thermostats.profile(thermostats.paired(FIRST, SECOND))",
        )
    first = strip_owner(str(about["first"]))
    second = strip_owner(str(about["second"]))
    x = table["layer"]
    axes.fill_between(x, table["lower"], table["upper"], alpha=0.2, linewidth=0, zorder=1)
    n = int(whole["n_prompts"].min())
    label = f"mean over {n} prompts, {about['level']:.0%} interval"
    axes.plot(x, table["difference"], label=label)
    draw_reference(axes, 0.0)
    axes.set(xlabel="block l", ylabel=f"difference of {about['quantity']}s")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    above = whole["lower"] > 0
    apart = whole[above | (whole["upper"] < 0)]
    said = f"{second} − {first}: {len(apart)} of {len(whole)} blocks differ"
    if len(apart):
        largest = apart["difference"].abs().to_numpy().argmax()
        most = apart.iloc[int(largest)]
        said += f", block {int(most['layer'])} most: {format_number(most['difference'])}"
    set_title(axes, said)
    axes.legend(loc="best")

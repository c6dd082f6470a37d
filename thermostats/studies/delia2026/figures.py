"""The figures of the report: the study's eight redrawn from the tables, all of them as one, and
their page."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from thermostats import formatting
from thermostats.claims.evidence import Evidence
from thermostats.claims.template import Template
from thermostats.formatting import format_number, strip_owner, take_sentences
from thermostats.modelling.classical.association import estimate_correlation
from thermostats.modelling.classical.many import measure_margin
from thermostats.plots.general import (
    COLUMN,
    DASHED,
    INK,
    MUTED,
    PAPER,
    POINT,
    RULE,
    add_lab_entry,
    draw_reference,
    escape_texts,
    log_axis,
    mark,
    name_models,
    name_points,
    place_legend,
    place_wide_legend,
    set_column_style,
    shorten_names,
)
from thermostats.plots.point_names import Look
from thermostats.plots.svg import reduce_svg
from thermostats.reporting.render import Files, make_slug
from thermostats.studies.delia2026.prompt_gains import LAST_GAIN_FILES, select_single_runs
from thermostats.studies.delia2026.published_gains import HUNT, PYTHIA, load_gains
from thermostats.studies.delia2026.stated_audits import FOCAL
from thermostats.studies.delia2026.transition_layers import (
    add_predictions,
    load_published_transitions,
)
from thermostats.studies.delia2026.weight_norms import (
    LATE,
    MEANS,
    SUMMARY,
    W_O,
    load_value_norms,
    load_weight_norms,
)
from thermostats.tables.model_rows import read_prompt_gains

PANEL, COLUMNS = "panel", 2
"""Column that names the figure of a row of the combined one, and columns of its panels."""
EMPTY = "The tables in use hold no rows for this figure."


CAPTIONS = Template.read(Path(__file__).with_name("captions.md"))


@dataclass(frozen=True)
class Figure:
    """One figure: `draw(table(tables), axes)` draws it, `caption` says what the same table says."""

    id: str
    title: str
    claims: tuple[str, ...]
    table: Callable[[Evidence], pd.DataFrame]
    """Tables to the rows that are drawn; empty where the tables in use hold none."""
    draw: Callable[[pd.DataFrame, Axes], None]
    numbers: Callable[[pd.DataFrame], Mapping[str, Any]]
    """Values for the figure's words in `captions.md`; every number is taken from the table."""
    width: float = COLUMN
    height: float = 2.9
    """Size in inches."""

    def write_caption(self, table: pd.DataFrame) -> str:
        """What was estimated and what came out; the alt text too. For an empty table, that there is
        nothing to show."""
        if table.empty:
            return EMPTY
        return CAPTIONS.line(self.id, "caption", self.numbers(table))


def render_figure(figure: Figure, table: pd.DataFrame) -> bytes:
    """The figure as SVG: the same bytes whenever it is drawn from the same table, which has
    rows."""
    stream = io.StringIO()
    with set_column_style():
        canvas = Canvas(figsize=(figure.width, figure.height))
        figure.draw(table, canvas.add_subplot())
        canvas.set_size_inches(figure.width, figure.height)
        metadata = {"Date": None, "Creator": None, "Title": figure.title}
        canvas.savefig(stream, format="svg", metadata=metadata)
    drawn = stream.getvalue().splitlines()
    lines = [line.rstrip() for line in drawn]
    return ("\n".join(lines) + "\n").encode()


def combine(figures: Sequence[Figure]) -> Figure:
    """One figure with every given figure as a lettered panel, and one legend of the labs."""

    def table(tables: Evidence) -> pd.DataFrame:
        filled = []
        for part in figures:
            rows = part.table(tables)
            if not rows.empty:
                filled.append(rows.assign(**{PANEL: part.id}))
        if not filled:
            return pd.DataFrame(columns=[PANEL])
        return pd.concat(filled, ignore_index=True)

    def draw(rows: pd.DataFrame, axes: Axes) -> None:
        place = axes.get_subplotspec()
        canvas = axes.get_figure(root=True)
        assert place is not None and isinstance(canvas, Canvas)  # noqa: S101
        axes.set_axis_off()
        shown = set(rows[PANEL])
        panels = [part for part in figures if part.id in shown]
        n_rows = -(-len(panels) // COLUMNS)
        grid = place.subgridspec(n_rows, COLUMNS)
        for position, part in enumerate(panels):
            cell = grid[divmod(position, COLUMNS)]
            panel = canvas.add_subplot(cell)
            part.draw(_select_part(rows, part), panel)
            if (inner := panel.get_legend()) is not None:
                inner.remove()
            letter = chr(ord("A") + position)
            panel.set_title(f"{letter}  {part.title}")
        for lab in sorted(rows["heritage"].dropna().unique()):
            add_lab_entry(axes, lab)
        handles, labs = axes.get_legend_handles_labels()
        columns = min(len(labs), 8)
        legend = canvas.legend(
            handles, labs, loc="outside upper center", ncols=columns, borderpad=0.1
        )
        escape_texts(legend.get_texts())

    def numbers(rows: pd.DataFrame) -> dict[str, Any]:
        panels = []
        for part in figures:
            if (rows[PANEL] == part.id).any():
                caption = part.write_caption(_select_part(rows, part))
                panels.append((part.title, take_sentences(caption)))
        return {"panels": panels}

    claims = tuple(dict.fromkeys(claim for part in figures for claim in part.claims))
    return Figure(
        "combined", "All figures", claims, table, draw, numbers, width=2.05 * COLUMN, height=11.0
    )


def _select_part(rows: pd.DataFrame, part: Figure) -> pd.DataFrame:
    of_panel = rows[rows[PANEL] == part.id]
    of_panel = of_panel.drop(columns=PANEL)
    filled = of_panel.notna().any()
    ends = of_panel.columns.str.endswith(("_lower", "_upper"))
    of_panel = of_panel.reset_index(drop=True)
    return of_panel.loc[:, filled | ends].infer_objects()


SEED = 1
GAIN = "penultimate gain, $G_{L-1}$"
GAIN_COLUMNS = [
    "model_id",
    "heritage",
    "n_layers",
    "n_params",
    "gain",
    "sd",
    "lower",
    "upper",
    "n_prompts",
    "source",
]
PENULTIMATE = "penultimate block"
LAST = "last block"


def summarise_penultimate_gains(tables: Evidence, *files: str) -> pd.DataFrame:
    """One row per model of the named files: mean penultimate gain over prompts with its t interval.

    Columns `COLUMNS`; `sd` is over prompts with the divisor n - 1, lower and upper are the ends of
    the 95% interval.
    """
    if tables.table("runs", source=[PYTHIA, HUNT]).empty:
        return pd.DataFrame(columns=GAIN_COLUMNS)
    rows = load_gains(tables)
    n = rows["n_prompts"]
    half = (rows["upper"] - rows["lower"]) / 2
    error = half / measure_margin(1.0, n - 1)
    rows["sd"] = error * np.sqrt(n)
    of_files = rows["source"].isin(files)
    return rows.loc[of_files, GAIN_COLUMNS].reset_index(drop=True)


def _draw_bound(table: pd.DataFrame, axes: Axes, label: str | None = None) -> str:
    """1 and the bound 10^(1/L); returns the colour of the one lab."""
    draw_reference(axes, 1.0)
    layers = table["n_layers"]
    depth = np.linspace(layers.min(), layers.max(), 200)
    bound = 10 ** (1 / depth)
    axes.plot(depth, bound, zorder=1, label=label, **DASHED)
    lab = str(table["heritage"].iloc[0])
    return mark(lab).color


def draw_depth(table: pd.DataFrame, axes: Axes) -> None:
    """Gain of every Pythia model over its number of layers, with the bound 10^(1/L)."""
    color = _draw_bound(table, axes, label="bound, 10^(1/L)")
    bar: Look = {"color": color, "linewidth": 1.2}
    axes.vlines(table["n_layers"], table["lower"], table["upper"], **bar)
    below = table["gain"] < 1
    for falls, marker, words in ((True, "v", "below 1: dampens"), (False, "^", "above 1: expands")):
        rows = table[below == falls]
        look: Look = {"color": color, "marker": marker, "s": 26, **POINT}
        axes.scatter(rows["n_layers"], rows["gain"], label=words, **look)
    axes.set(xlabel="layers, L", ylabel=GAIN)
    axes.margins(0.1)
    place_legend(axes)
    gains = table["gain"]
    name_points(axes, table["n_layers"], gains, table["model_id"])


def draw_published_depth(table: pd.DataFrame, axes: Axes) -> None:
    """What the study prints: means and standard deviations over prompts, with the bound
    10^(1/L)."""
    color = _draw_bound(table, axes)
    printed = (table["stated_mean"], table["stated_sd"])
    axes.errorbar(table["n_layers"], *printed, fmt="o", markersize=4, color=color)
    axes.set(xlabel="layers, L", ylabel="as printed: mean ± SD over prompts")
    axes.margins(0.1)


def draw_beside(table: pd.DataFrame, axes: Axes) -> None:
    """Figure 1 from the figures that the study prints, with ours next to it on the same scale."""
    place = axes.get_subplotspec()
    canvas = axes.get_figure(root=True)
    assert place is not None and canvas is not None  # noqa: S101
    axes.set_axis_off()
    grid = place.subgridspec(1, 2)
    left = canvas.add_subplot(grid[0])
    right = canvas.add_subplot(grid[1], sharey=left)
    draw_published_depth(table, left)
    draw_depth(table, right)


def describe_depth(table: pd.DataFrame) -> dict[str, Any]:
    """Correlation of gain and depth, and how the gains lie to the bound."""
    layers = table["n_layers"]
    bound = 10 ** (1 / layers.astype(float))
    above = table["gain"] > bound
    below = table["upper"] < 1
    return {
        "n": len(table),
        "printed": "stated_mean" in table,
        "prompts": _describe_prompt_counts(table),
        "r": estimate_correlation(layers, table["gain"], seed=SEED),
        "above": int(above.sum()) or "None",
        "below": int(below.sum()),
    }


def collect_lab_gains(tables: Evidence) -> pd.DataFrame:
    """Every model's gain, with the mean of its lab."""
    return add_lab_means(summarise_penultimate_gains(tables, PYTHIA, HUNT))


def add_lab_means(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the mean of their lab and its t interval over models, in the order of the means.

    Adds lab_mean, lab_lower, lab_upper (missing for a lab of one model) and n_lab.
    """
    groups = rows.groupby("heritage")["gain"]
    labs = groups.agg(lab_mean="mean", sd="std", n_lab="size").astype(float)
    freedom = labs["n_lab"].clip(lower=2) - 1
    spread = measure_margin(labs["sd"], freedom)
    half = spread / np.sqrt(labs["n_lab"])
    labs["lab_lower"] = labs["lab_mean"] - half
    labs["lab_upper"] = labs["lab_mean"] + half
    joined = rows.join(labs.drop(columns="sd"), on="heritage")
    return joined.sort_values(["lab_mean", "gain"], ignore_index=True)


def draw_labs(table: pd.DataFrame, axes: Axes) -> None:
    """One row per model, labs in the order of their means; the bar and band behind a lab's rows are
    its mean."""
    draw_reference(axes, 1.0, vertical=True)
    for lab, rows in table.groupby("heritage", sort=False):
        at = rows.index.to_numpy()
        color, marker = mark(str(lab))
        height = [at.min() - 0.42, at.max() + 0.42]
        first = rows.iloc[0]
        if first["n_lab"] > 1:
            band = (first["lab_lower"], first["lab_upper"])
            axes.fill_betweenx(height, *band, color=color, alpha=0.13, lw=0)
        line: Look = {"color": color, "linewidth": 1.4, "alpha": 0.75}
        axes.plot([first["lab_mean"]] * 2, height, zorder=1, **line)
        axes.hlines(at, rows["lower"], rows["upper"], color=color, linewidth=1.0)
        look: Look = {"color": color, "marker": marker, "s": 20, **POINT}
        axes.scatter(rows["gain"], at, label=str(lab), **look)
    name_models(axes, table["model_id"])
    axes.set_xlabel(GAIN)
    place_wide_legend(axes)


def describe_labs(table: pd.DataFrame) -> dict[str, Any]:
    """Means of the labs with their intervals, and how many models of each dampen."""
    below = table[table["gain"] < 1]
    below = below.groupby("heritage", sort=False).size()
    sizes = table["heritage"].value_counts()
    dampen = [f"{count} of {sizes[lab]} of {lab}" for lab, count in below.items()]
    labs = list(table.drop_duplicates("heritage").itertuples())
    return {
        "n": len(table),
        "prompts": _describe_prompt_counts(table),
        "labs": labs,
        "dampen": ", ".join(dampen),
    }


def draw_size(table: pd.DataFrame, axes: Axes) -> None:
    """Gain over the number of parameters; thin bars: one standard deviation over prompts, thick:
    the 95% interval."""
    draw_reference(axes, 1.0)
    lab = str(table["heritage"].iloc[0])
    color, marker = mark(lab)
    x = table["n_params"].astype(float)
    low = table["gain"] - table["sd"]
    high = table["gain"] + table["sd"]
    thin: Look = {"color": color, "linewidth": 0.8, "alpha": 0.8}
    axes.vlines(x, low, high, label="± 1 SD over prompts", **thin)
    thick: Look = {"color": color, "linewidth": 2.6, "alpha": 0.55}
    axes.vlines(x, table["lower"], table["upper"], label="95% interval", **thick)
    axes.scatter(x, table["gain"], color=color, marker=marker, s=22, **POINT)
    axes.set(xlabel="parameters", ylabel=GAIN)
    axes.margins(0.12)
    log_axis(axes, "x")
    axes.xaxis.set_major_formatter(_format_parameters)
    place_legend(axes)
    name_points(axes, x, table["gain"], table["model_id"])


def _format_parameters(value: float, _: object) -> str:
    if value >= 1e9:
        return f"{value / 1e9:g} B"
    return f"{value / 1e6:g} M"


def describe_size(table: pd.DataFrame) -> dict[str, Any]:
    """Correlation of gain and log size, and the models at the ends."""
    ordered = table.sort_values("gain")
    sizes = np.log10(table["n_params"].astype(float))
    r = estimate_correlation(sizes, table["gain"], seed=SEED)
    prompts = _describe_prompt_counts(table)
    ends = {"low": ordered.iloc[0], "high": ordered.iloc[-1]}
    return {"n": len(table), "prompts": prompts, "r": r, **ends}


def collect_prompt_gains(tables: Evidence) -> pd.DataFrame:
    """Gain of every model and prompt that a file gives: columns model_id, heritage, prompt_id,
    gain, block."""
    columns = ["model_id", "heritage", "prompt_id", "gain", "block"]
    before = read_prompt_gains(tables, "penultimate_gain", PYTHIA).assign(block=PENULTIMATE)
    last = select_single_runs(read_prompt_gains(tables, "last_gain", *LAST_GAIN_FILES))
    parts = [before, last.assign(block=LAST)]
    filled = [part for part in parts if not part.empty]
    both = pd.concat(filled or [before]).rename(columns={"value": "gain"})
    return both[columns].reset_index(drop=True)


def draw_prompts(table: pd.DataFrame, axes: Axes) -> None:
    """One row per model and definition: every prompt a dot, the large mark the mean, the bar one
    standard deviation."""
    draw_reference(axes, 1.0, vertical=True)
    spread = summarise_prompts(table)
    rng = np.random.default_rng(0)
    for position, row in enumerate(spread.itertuples()):
        of_block = table["block"] == row.block
        of_row = (table["model_id"] == row.model_id) & of_block
        values = table.loc[of_row, "gain"]
        color, marker = mark(str(row.heritage))
        jitter = rng.uniform(-0.3, 0.3, len(values))
        height = position + jitter
        dot: Look = {"color": color, "s": 5, "alpha": 0.4, "linewidth": 0}
        axes.scatter(values, height, zorder=2, **dot)
        bar: Look = {"color": INK, "linewidth": 0.9, "zorder": 3}
        axes.hlines(position, row.mean - row.sd, row.mean + row.sd, **bar)
        large: Look = {"color": color, "marker": marker, "s": 22}
        axes.scatter(row.mean, position, edgecolor=INK, linewidth=0.6, zorder=4, **large)
    for lab in dict.fromkeys(spread["heritage"]):
        add_lab_entry(axes, str(lab))
    name_models(axes, spread["model_id"])
    words: Look = {"fontsize": 6.5, "color": MUTED, "ha": "right", "va": "top"}
    box = {"facecolor": PAPER, "linewidth": 0, "pad": 0.8}
    for block, rows in spread.groupby("block", sort=False):
        first = rows.index.min()
        at = (0.985, first - 0.45)
        axes.annotate(block, at, xycoords=("axes fraction", "data"), bbox=box, **words)
        if first:
            axes.axhline(first - 0.5, color=MUTED, linewidth=0.8)
    axes.set_xlabel("residual gain, one dot per prompt")
    log_axis(axes, "x")
    low, high = axes.get_xlim()
    ticks = (0.4, 0.6, 0.8, 1, 1.5, 2, 3, 5, 10)
    within = [tick for tick in ticks if low <= tick <= high]
    axes.set_xticks(within)
    place_wide_legend(axes)


def summarise_prompts(table: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard deviation, number of prompts and of those below 1, by definition and model."""
    marked = table.assign(below=table["gain"] < 1)
    groups = marked.groupby(["block", "heritage", "model_id"])
    gains = groups["gain"].agg(mean="mean", sd="std", n="size")
    out = gains.assign(below=groups["below"].sum()).reset_index()
    return out.sort_values(["block", "mean"], ascending=[False, True], ignore_index=True)


def describe_prompts(table: pd.DataFrame) -> dict[str, Any]:
    """In how many models every prompt falls on one side of 1."""
    spread = summarise_prompts(table)
    n = sorted(set(spread["n"]))
    prompts = f"{n[0]} to {n[-1]}"
    if len(n) == 1:
        prompts = f"{n[0]}"
    none_below = spread["below"] == 0
    one_side = none_below | (spread["below"] == spread["n"])
    relative = spread["sd"] / spread["mean"]
    widest = spread.loc[relative.idxmax()]
    return {"n": len(spread), "prompts": prompts, "one_side": int(one_side.sum()), "widest": widest}


def _describe_prompt_counts(table: pd.DataFrame) -> str:
    counts = {int(n) for n in table["n_prompts"]}
    return " or ".join(map(str, sorted(counts)))


def select_pythia(tables: Evidence) -> pd.DataFrame:
    """`summarise_penultimate_gains` of the Pythia family."""
    return summarise_penultimate_gains(tables, PYTHIA)


def add_stated(tables: Evidence) -> pd.DataFrame:
    """`select_pythia` with the mean and the standard deviation that the study prints: columns
    stated_mean, stated_sd."""
    rows = select_pythia(tables)
    statements = tables.table("statements", source=PYTHIA)
    for column, pointer in (
        ("stated_mean", "residual_gain_mean"),
        ("stated_sd", "residual_gain_std"),
    ):
        of_statistic = statements["pointer"].str.endswith(f"/{pointer}")
        stated = statements[of_statistic]
        values = stated.drop_duplicates("model_id").set_index("model_id")["value"]
        rows[column] = rows["model_id"].map(values).astype(float)
    return rows


DEPTH = Figure(
    "figure-1",
    "Gain over depth, Pythia family",
    ("C01", "C02"),
    select_pythia,
    draw_depth,
    describe_depth,
)
BESIDE = Figure(
    "figure-1",
    DEPTH.title + ": the study’s and ours",
    DEPTH.claims,
    add_stated,
    draw_beside,
    describe_depth,
    width=2.05 * COLUMN,
    height=3.2,
)
LABS = Figure(
    "figure-2",
    "Gain by lab",
    ("C03", "C04"),
    collect_lab_gains,
    draw_labs,
    describe_labs,
    height=4.0,
)
SIZE = Figure(
    "figure-6",
    "Gain over size, Pythia family",
    ("C04", "C10"),
    select_pythia,
    draw_size,
    describe_size,
)
PROMPTS = Figure(
    "figure-7",
    "Gain by prompt",
    ("C14", "C12"),
    collect_prompt_gains,
    draw_prompts,
    describe_prompts,
    height=4.2,
)


SPECTRA_SEED = 3
W_V = "W_V"
THIRD = "published third"
CUTS = dict(zip(MEANS, (W_V, THIRD), strict=True))
CUT = (
    "Open marks: norms of the third of the fused weights that the study took for W_V, which is not "
    "W_V in these models"
)


def summarise_norms(tables: Evidence) -> pd.DataFrame:
    """Mean spectral norm of W_V and W_O over layers, one row per model and source.

    Columns model_id, heritage, cut, source, and wv, wv_lower, wv_upper, wo, wo_lower, wo_upper; the
    ends are the smallest and largest layer and missing where only the mean was published.
    """
    summaries = tables.table("summaries", source=SUMMARY, estimand=[*MEANS, W_O])
    of_output = summaries["estimand"] == W_O
    matrices = np.where(of_output, "wo", "wv")
    published = summaries.assign(of=matrices)
    wide = published.pivot(index=["model_id", "heritage"], columns="of", values="value")
    wide = wide.reset_index()
    of_values = published[published["of"] == "wv"]
    of_values = of_values.set_index("model_id")
    cuts = of_values["estimand"].map(CUTS)
    parts = []
    if len(wide):
        cut = wide["model_id"].map(cuts)
        parts.append(wide.assign(cut=cut, source="published"))
    measured = load_weight_norms(tables)
    if not measured.empty:
        values = measured.groupby(["model_id", "heritage", "matrix"])["value"]
        each = values.agg(["mean", "min", "max"]).unstack()
        suffixes = {"mean": "", "min": "_lower", "max": "_upper"}
        names = []
        for end, matrix in each.columns:
            letters = matrix.replace("_", "").lower()
            names.append(letters + suffixes[end])
        each.columns = names
        parts.append(each.reset_index().assign(cut=W_V, source="measured"))
    numeric = ["wv", "wv_lower", "wv_upper", "wo", "wo_lower", "wo_upper"]
    columns = ["model_id", "heritage", "cut", "source", *numeric]
    both = pd.concat(parts) if parts else pd.DataFrame(columns=columns)
    both = both.reindex(columns=columns).dropna(subset=["wv", "wo"])
    both = both.astype(dict.fromkeys(numeric, float))
    return both.sort_values(["source", "model_id"], ignore_index=True)


def draw_means(table: pd.DataFrame, axes: Axes) -> None:
    """‖W_V‖₂ against ‖W_O‖₂ of every model, with the line of equal norms."""
    norms = table[["wv", "wo"]]
    least = norms.min().min() * 0.7
    ends = np.array([least, norms.max().max() * 1.5])
    axes.plot(ends, ends, linewidth=0.9, zorder=0, **DASHED)
    for lab, rows in table.groupby("heritage", sort=True):
        color, marker = mark(str(lab))
        thin: Look = {"color": color, "linewidth": 0.8}
        axes.hlines(rows["wo"], rows["wv_lower"], rows["wv_upper"], **thin)
        axes.vlines(rows["wv"], rows["wo_lower"], rows["wo_upper"], **thin)
        for cut, part in rows.groupby("cut"):
            face = color if cut == W_V else "none"
            look: Look = {"facecolor": face, "edgecolor": color, "marker": marker}
            axes.scatter(part["wv"], part["wo"], s=26, zorder=3, **look)
        add_lab_entry(axes, str(lab))
    axes.set(xlabel=r"mean $\|W_V\|_2$ over layers", ylabel=r"mean $\|W_O\|_2$ over layers")
    axes.margins(0.12)
    log_axis(axes, "x")
    log_axis(axes, "y")
    place_legend(axes)
    name_points(axes, table["wv"], table["wo"], table["model_id"])


def describe_norms(table: pd.DataFrame) -> dict[str, Any]:
    """How far apart the labs' W_V norms lie, and on how many models of the right matrix that
    rests."""
    right = table[table["cut"] == W_V]
    ratio = right["wv"] / right["wo"]
    r = None
    if len(table) > 3:
        logs = np.log(table[["wv", "wo"]])
        r = estimate_correlation(logs["wv"], logs["wo"], seed=SPECTRA_SEED)
    return {
        "n": len(table),
        "n_labs": table["heritage"].nunique(),
        "by_layer": table["wv_lower"].notna().any(),
        "right": _join_models(right) or "none",
        "ratio": ratio,
        "r": r,
        "cut": _cut(table),
    }


def collect_layer_norms(tables: Evidence) -> pd.DataFrame:
    """‖W_V‖₂ by model and layer; for a model of which only the mean was published one row without a
    layer.

    Columns model_id, heritage, cut, layer, value, depth = l/L.
    """
    layers = load_value_norms(tables)
    means = tables.table("summaries", source=SUMMARY, estimand=list(MEANS))
    by_layer = means["model_id"].isin(layers["model_id"])
    known = means["value"].notna() & ~by_layer
    means = means[known].drop_duplicates("model_id")
    of_right = means["estimand"] == MEANS[0]
    means = means.assign(layer=np.nan, depth=np.nan, right=of_right)
    filled = [part[layers.columns] for part in (layers, means) if not part.empty]
    both = pd.concat(filled or [layers])
    right = both["right"].astype(bool)
    both["cut"] = np.where(right, W_V, THIRD)
    both = both[["model_id", "heritage", "cut", "layer", "value", "depth"]].astype({"value": float})
    return both.sort_values(["model_id", "layer"], ignore_index=True)


def draw_over_depth(table: pd.DataFrame, axes: Axes, power: int = 1) -> None:
    """‖W_V‖₂ to a power over relative depth; models of which only the mean is known are dashed
    lines across."""
    ends = []
    for lab, rows in table.groupby("heritage", sort=True):
        color, marker = mark(str(lab))
        for model, line in rows.groupby("model_id", sort=True):
            value = line["value"] ** power
            if line["layer"].isna().all():
                axes.hlines(value, 0, 1, color=color, linestyle="--", linewidth=0.9)
                height = float(value.iloc[0])
                ends.append((1.0, height, str(model)))
                continue
            right = (line["cut"] == W_V).all()
            face = color if right else "white"
            look: Look = {"marker": marker, "markersize": 3, "markerfacecolor": face}
            axes.plot(line["depth"], value, color=color, **look)
            last = float(line["depth"].iloc[-1])
            height = float(value.iloc[-1])
            ends.append((last, height, str(model)))
        add_lab_entry(axes, str(lab), markersize=4, linestyle="-")
    label = r"$\|W_V\|_2^2$" if power == 2 else r"$\|W_V\|_2$"
    axes.set(
        xlabel="relative depth, l / L (dashed: mean over layers)", ylabel=label, xlim=(-0.02, 1.4)
    )
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    log_axis(axes, "y")
    place_legend(axes)
    name_points(axes, *zip(*ends, strict=True))


def describe_layer_norms(table: pd.DataFrame) -> dict[str, Any]:
    """Which models have norms by layer, and how these run."""
    by_layer = table[table["layer"].notna()]
    by_model = by_layer.groupby("model_id")["value"]
    by_name = []
    for model, values in by_model:
        by_name.append((strip_owner(str(model)), values))
    rest = table[table["layer"].isna()]
    return {"known": by_name, "rest": _join_models(rest) or "none", "cut": _cut(table)}


def draw_squared(table: pd.DataFrame, axes: Axes) -> None:
    """The trace proxy ‖W_V‖₂² over relative depth, the last quarter shaded."""
    axes.axvspan(LATE, 1.0, color=RULE, alpha=0.5, linewidth=0)
    draw_over_depth(table, axes, power=2)


def describe_squared_norms(table: pd.DataFrame) -> dict[str, Any]:
    """Late squared norm of the focal lab's models over those of the others."""
    squared = table.assign(value=table["value"] ** 2)
    labs = table.drop_duplicates("model_id").set_index("model_id")["heritage"]
    late = squared[squared["depth"] > LATE]
    late = late.groupby("model_id")["value"].mean()
    of_mean = squared[squared["layer"].isna()]
    of_mean = of_mean.set_index("model_id")["value"]
    focal = late[late.index.map(labs) == FOCAL]
    parts = {"late layers of others": late, "squared mean norm of others over all layers": of_mean}
    ratios = []
    for words, values in parts.items():
        others = values[values.index.map(labs) != FOCAL]
        if len(focal) and len(others):
            ratios.append(f"to the {words} {_format_range(focal, others)}")
    models = shorten_names(focal.index)
    return {"focal": FOCAL, "models": ", ".join(models), "ratios": ratios, "cut": _cut(table)}


def _format_range(focal: pd.Series, others: pd.Series) -> str:
    ratio = np.divide.outer(focal.to_numpy(), others.to_numpy())
    return f"{format_number(ratio.min())} to {format_number(ratio.max())}"


def _join_models(table: pd.DataFrame) -> str:
    models = dict.fromkeys(table["model_id"])
    return ", ".join(strip_owner(str(name)) for name in models)


def _cut(table: pd.DataFrame) -> str:
    """What open marks are, and of which models."""
    third = table[table["cut"] == THIRD]
    models = _join_models(third)
    return f"{CUT} ({models or 'none'})."


OVER_DEPTH = "Spectral norm of W_V over depth"
SPECTRA = Figure(
    "figure-3",
    "Spectral norms of W_V and W_O",
    ("C05", "C19"),
    summarise_norms,
    draw_means,
    describe_norms,
    height=3.1,
)
LAYERS = Figure(
    "figure-4",
    OVER_DEPTH,
    ("C05", "C06"),
    collect_layer_norms,
    draw_over_depth,
    describe_layer_norms,
    height=3.1,
)
SQUARED = Figure(
    "figure-8",
    "Trace proxy over depth",
    ("C06",),
    collect_layer_norms,
    draw_squared,
    describe_squared_norms,
    height=3.1,
)


JUDGED = ("figure", "max_abs_gradient", "first_sign_change")
TRANSITION_COLUMNS = [
    "model_id",
    "heritage",
    "n_layers",
    "found",
    "lower",
    "upper",
    "formula",
    "half",
    "n_definitions",
]


def list_transitions(tables: Evidence) -> pd.DataFrame:
    """One row per model of the preprint's figure 5, layers as the study counts them.

    Columns `COLUMNS`: found (read off the figure), the smallest and largest L* over the published
    definitions and prompts (lower, upper), L(a + bL + c/H) (formula) and L/2 (half).
    """
    rows = load_published_transitions(tables)
    figure = rows[rows["kind"] == "figure"]
    if figure.empty:
        return pd.DataFrame(columns=TRANSITION_COLUMNS)
    judged = rows[rows["kind"].isin(JUDGED)]
    judged = judged.groupby("model_id")
    layers = judged["layer"].agg(lower="min", upper="max")
    spread = layers.assign(n_definitions=judged["kind"].nunique())
    predicted = add_predictions(figure[["model_id", "layer"]], tables)
    found = predicted.rename(columns={"layer": "found"}).join(spread, on="model_id")
    out = found[TRANSITION_COLUMNS].astype({"found": float})
    return out.sort_values(["n_layers", "found"], ignore_index=True)


def draw(table: pd.DataFrame, axes: Axes) -> None:
    """One row per model: L*/L found, its spread over definitions, the formula (upright bar) and L/2
    (dashed)."""
    draw_reference(axes, 0.5, vertical=True)
    L = table["n_layers"]
    lower = table["lower"] / L
    axes.hlines(table.index, lower, table["upper"] / L, color=MUTED, linewidth=0.9)
    for lab, rows in table.groupby("heritage", sort=True):
        look = mark(str(lab))._asdict()
        found = rows["found"] / L[rows.index]
        axes.scatter(found, rows.index, s=28, label=str(lab), **look, **POINT)
    bar: Look = {"marker": "|", "s": 130, "color": INK, "linewidth": 1.6}
    axes.scatter(table["formula"] / L, table.index, label="formula", zorder=4, **bar)
    name_models(axes, table["model_id"])
    axes.set(xlabel="L* / L (dashed: L/2)", xlim=(0, 1))
    place_wide_legend(axes)


def describe_transitions(table: pd.DataFrame) -> dict[str, Any]:
    """Errors of depth of the formula and of L/2, and how far the definitions of L* lie apart."""
    layers = table["n_layers"]
    formula = 100 * (table["formula"] - table["found"]).abs() / layers
    half = 100 * (table["half"] - table["found"]).abs() / layers
    spread = 100 * (table["upper"] - table["lower"]) / layers
    inside = table["formula"].between(table["lower"], table["upper"])
    nearer = formula < half
    return {
        "n": len(table),
        "n_labs": table["heritage"].nunique(),
        "formula": formula.mean(),
        "half": half.mean(),
        "nearer": int(nearer.sum()),
        "spread": spread.median(),
        "inside": int(inside.sum()),
    }


TRANSITION = Figure(
    "figure-5",
    "Transition layer, predicted and found",
    ("C09",),
    list_transitions,
    draw,
    describe_transitions,
    height=2.3,
)


SINGLE = (DEPTH, LABS, SPECTRA, LAYERS, TRANSITION, SIZE, PROMPTS, SQUARED)
"""In the order of the preprint."""
COMBINED = combine(SINGLE)
FIGURES: tuple[Figure, ...] = (BESIDE, *SINGLE[1:], COMBINED)

INTRODUCTION = (
    "These are the preprint’s figures, redrawn from the tables. They show uncertainty where the "
    "tables hold it, name "
    "the models, and give each lab one colour and shape throughout. Captions say what was "
    "estimated; their numbers are "
    "computed from the rows drawn."
)


def build_files(tables: Evidence) -> dict[str, bytes]:
    """`figures.md`, and of each figure an SVG and its rows under `figures/`."""
    page = Files()
    parts = ["# Figures", "[All claims](index.md)", INTRODUCTION]
    for figure in FIGURES:
        parts += _build_section(figure, tables, page)
    text = "\n\n".join(parts) + "\n"
    page.add("figures.md", text.encode())
    return page.contents


def _build_section(figure: Figure, tables: Evidence, page: Files) -> list[str]:
    head = [f"## {formatting.escape_markdown(figure.title)}"]
    if figure.claims:
        head.append(f"Claims: {', '.join(figure.claims)}.")
    table = figure.table(tables)
    if table.empty:
        return [*head, EMPTY]
    name = f"figures/{make_slug(figure.id)}"
    svg = reduce_svg(render_figure(figure, table))
    drawn = page.add_figure(svg, f"{name}.svg", figure.write_caption(table))
    rows = page.add_table(table, f"Rows: {figure.title}", f"{name}.csv")
    return [*head, drawn, "#### Rows drawn", rows]

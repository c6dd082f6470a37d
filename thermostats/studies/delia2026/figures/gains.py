"""Figures of residual gains: over depth, by lab, over size, by prompt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.formatting import short_name
from thermostats.modelling.classical.association import correlation
from thermostats.plots.column import COLUMN, lab_entry, legend_over_rows, name_points
from thermostats.plots.general import INK, MUTED, PAPER, POINT, legend_above, name_rows, reference
from thermostats.plots.marks import mark
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.by_prompt import LAST_GAIN_FILES, one_run_each
from thermostats.studies.delia2026.figures.figure import Figure
from thermostats.studies.delia2026.gains import HUNT, PYTHIA, gains
from thermostats.tables.prompt_rows import gain_by_prompt

SEED = 1
LEVEL = 0.95
GAIN = "penultimate gain, $G_{L-1}$"
COLUMNS = ["model_id", "heritage", "n_layers", "n_params", "gain", "sd", "lower", "upper", "n_prompts", "source"]
PENULTIMATE, LAST = "penultimate block", "last block"


def penultimate_gains(tables: Evidence, *files: str) -> pd.DataFrame:
    """One row per model of the named files: mean penultimate gain over prompts with its t interval.

    Columns `COLUMNS`; `sd` is over prompts with the divisor n - 1, lower and upper are the ends of the 95% interval.
    """
    if tables.table("runs", source=[PYTHIA, HUNT]).empty:
        return pd.DataFrame(columns=COLUMNS)
    rows = gains(tables)
    n = rows["n_prompts"]
    rows["sd"] = (rows["upper"] - rows["lower"]) / 2 / stats.t.ppf((1 + LEVEL) / 2, n - 1) * np.sqrt(n)
    return rows.loc[rows["source"].isin(files), COLUMNS].reset_index(drop=True)


def _with_bound(table: pd.DataFrame, axes: Axes, label: str | None = None) -> str:
    """1 and the bound 10^(1/L); returns the colour of the one lab."""
    reference(axes, 1.0)
    depth = np.linspace(table["n_layers"].min(), table["n_layers"].max(), 200)
    axes.plot(depth, 10 ** (1 / depth), color=MUTED, linestyle="--", zorder=1, label=label)
    return mark(str(table["heritage"].iloc[0])).color


def draw_depth(table: pd.DataFrame, axes: Axes) -> None:
    """Gain of every Pythia model over its number of layers, with the bound 10^(1/L)."""
    color = _with_bound(table, axes, label="bound, 10^(1/L)")
    axes.vlines(table["n_layers"], table["lower"], table["upper"], color=color, linewidth=1.2)
    for falls, marker, words in ((True, "v", "below 1: dampens"), (False, "^", "above 1: expands")):
        rows = table[(table["gain"] < 1) == falls]
        axes.scatter(rows["n_layers"], rows["gain"], color=color, marker=marker, s=26, label=words, **POINT)
    axes.set(xlabel="layers, L", ylabel=GAIN)
    axes.margins(0.1)
    legend_above(axes)
    name_points(axes, table["n_layers"], table["gain"], table["model_id"])


def draw_published_depth(table: pd.DataFrame, axes: Axes) -> None:
    """What the study prints: means and standard deviations over prompts, with the bound 10^(1/L)."""
    color = _with_bound(table, axes)
    axes.errorbar(table["n_layers"], table["stated_mean"], table["stated_sd"], fmt="o", markersize=4, color=color)
    axes.set(xlabel="layers, L", ylabel="as printed: mean ± SD over prompts")
    axes.margins(0.1)


def draw_beside(table: pd.DataFrame, axes: Axes) -> None:
    """Figure 1 from the figures that the study prints, with ours next to it on the same scale."""
    place, canvas = axes.get_subplotspec(), axes.get_figure(root=True)
    assert place is not None and canvas is not None  # noqa: S101 - `svg` makes them by add_subplot
    axes.set_axis_off()
    grid = place.subgridspec(1, 2)
    left = canvas.add_subplot(grid[0])
    right = canvas.add_subplot(grid[1], sharey=left)
    draw_published_depth(table, left)
    draw_depth(table, right)


def numbers_depth(table: pd.DataFrame) -> dict[str, Any]:
    """Correlation of gain and depth, and how the gains lie to the bound."""
    return {
        "n": len(table),
        "printed": "stated_mean" in table,
        "prompts": _prompts(table),
        "r": correlation(table["n_layers"], table["gain"], seed=SEED),
        "above": int((table["gain"] > 10 ** (1 / table["n_layers"].astype(float))).sum()) or "None",
        "below": int((table["upper"] < 1).sum()),
    }


def by_lab(tables: Evidence) -> pd.DataFrame:
    """Every model's gain, with the mean of its lab."""
    return with_lab_means(penultimate_gains(tables, PYTHIA, HUNT))


def with_lab_means(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the mean of their lab and its t interval over models, in the order of the means.

    Adds lab_mean, lab_lower, lab_upper (missing for a lab of one model) and n_lab.
    """
    groups = rows.groupby("heritage")["gain"]
    labs = groups.agg(lab_mean="mean", sd="std", n_lab="size").astype(float)
    half = stats.t.ppf((1 + LEVEL) / 2, labs["n_lab"].clip(lower=2) - 1) * labs["sd"] / np.sqrt(labs["n_lab"])
    labs = labs.assign(lab_lower=labs["lab_mean"] - half, lab_upper=labs["lab_mean"] + half).drop(columns="sd")
    return rows.join(labs, on="heritage").sort_values(["lab_mean", "gain"], ignore_index=True)


def draw_labs(table: pd.DataFrame, axes: Axes) -> None:
    """One row per model, labs in the order of their means; the bar and band behind a lab's rows are its mean."""
    reference(axes, 1.0, vertical=True)
    for lab, rows in table.groupby("heritage", sort=False):
        at, (color, marker) = rows.index.to_numpy(), mark(str(lab))
        top, bottom = at.min() - 0.42, at.max() + 0.42
        first = rows.iloc[0]
        if first["n_lab"] > 1:
            axes.fill_betweenx([top, bottom], first["lab_lower"], first["lab_upper"], color=color, alpha=0.13, lw=0)
        axes.plot([first["lab_mean"]] * 2, [top, bottom], color=color, linewidth=1.4, alpha=0.75, zorder=1)
        axes.hlines(at, rows["lower"], rows["upper"], color=color, linewidth=1.0)
        axes.scatter(rows["gain"], at, color=color, marker=marker, s=20, label=str(lab), **POINT)
    name_rows(axes, [short_name(name) for name in table["model_id"]])
    axes.set_xlabel(GAIN)
    legend_over_rows(axes)


def numbers_labs(table: pd.DataFrame) -> dict[str, Any]:
    """Means of the labs with their intervals, and how many models of each dampen."""
    below = table[table["gain"] < 1].groupby("heritage", sort=False).size()
    dampen = ", ".join(f"{count} of {int((table['heritage'] == lab).sum())} of {lab}" for lab, count in below.items())
    labs = list(table.drop_duplicates("heritage").itertuples())
    return {"n": len(table), "prompts": _prompts(table), "labs": labs, "dampen": dampen}


def draw_size(table: pd.DataFrame, axes: Axes) -> None:
    """Gain over the number of parameters; thin bars: one standard deviation over prompts, thick: the 95% interval."""
    reference(axes, 1.0)
    color, marker = mark(str(table["heritage"].iloc[0]))
    x = table["n_params"].astype(float)
    low, high = table["gain"] - table["sd"], table["gain"] + table["sd"]
    axes.vlines(x, low, high, color=color, linewidth=0.8, alpha=0.8, label="± 1 SD over prompts")
    axes.vlines(x, table["lower"], table["upper"], color=color, linewidth=2.6, alpha=0.55, label="95% interval")
    axes.scatter(x, table["gain"], color=color, marker=marker, s=22, **POINT)
    axes.set(xlabel="parameters", ylabel=GAIN)
    axes.margins(0.12)
    log_axis(axes, "x")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e9:g} B" if value >= 1e9 else f"{value / 1e6:g} M")
    legend_above(axes)
    name_points(axes, x, table["gain"], table["model_id"])


def numbers_size(table: pd.DataFrame) -> dict[str, Any]:
    """Correlation of gain and log size, and the models at the ends."""
    ordered = table.sort_values("gain")
    r = correlation(np.log10(table["n_params"].astype(float)), table["gain"], seed=SEED)
    return {"n": len(table), "prompts": _prompts(table), "r": r, "low": ordered.iloc[0], "high": ordered.iloc[-1]}


def by_prompt(tables: Evidence) -> pd.DataFrame:
    """Gain of every model and prompt that a file gives: columns model_id, heritage, prompt_id, gain, block."""
    columns = ["model_id", "heritage", "prompt_id", "gain", "block"]
    before = gain_by_prompt(tables, "penultimate_gain", PYTHIA).assign(block=PENULTIMATE)
    last = one_run_each(gain_by_prompt(tables, "last_gain", *LAST_GAIN_FILES)).assign(block=LAST)
    both = pd.concat([part for part in (before, last) if not part.empty] or [before])
    return both.rename(columns={"value": "gain"})[columns].reset_index(drop=True)


def draw_prompts(table: pd.DataFrame, axes: Axes) -> None:
    """One row per model and definition: every prompt a dot, the large mark the mean, the bar one standard deviation."""
    reference(axes, 1.0, vertical=True)
    spread = spreads(table)
    rng = np.random.default_rng(0)
    for position, row in enumerate(spread.itertuples()):
        values = table.loc[(table["model_id"] == row.model_id) & (table["block"] == row.block), "gain"]
        color, marker = mark(str(row.heritage))
        jitter = rng.uniform(-0.3, 0.3, len(values))
        axes.scatter(values, position + jitter, color=color, s=5, alpha=0.4, linewidth=0, zorder=2)
        axes.hlines(position, row.mean - row.sd, row.mean + row.sd, color=INK, linewidth=0.9, zorder=3)
        axes.scatter(row.mean, position, color=color, marker=marker, s=22, edgecolor=INK, linewidth=0.6, zorder=4)
    for lab in dict.fromkeys(spread["heritage"]):
        lab_entry(axes, str(lab))
    name_rows(axes, [short_name(name) for name in spread["model_id"]])
    for block, rows in spread.groupby("block", sort=False):
        at, coordinates = (0.985, rows.index.min() - 0.45), ("axes fraction", "data")
        box = {"facecolor": PAPER, "linewidth": 0, "pad": 0.8}
        axes.annotate(block, at, xycoords=coordinates, ha="right", va="top", fontsize=6.5, color=MUTED, bbox=box)
        if rows.index.min():
            axes.axhline(rows.index.min() - 0.5, color=MUTED, linewidth=0.8)
    axes.set_xlabel("residual gain, one dot per prompt")
    log_axis(axes, "x")
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in (0.4, 0.6, 0.8, 1, 1.5, 2, 3, 5, 10) if low <= tick <= high])
    legend_over_rows(axes)


def spreads(table: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard deviation, number of prompts and of those below 1, by definition and model."""
    groups = table.assign(below=table["gain"] < 1).groupby(["block", "heritage", "model_id"])
    out = groups.agg(mean=("gain", "mean"), sd=("gain", "std"), n=("gain", "size"), below=("below", "sum"))
    return out.reset_index().sort_values(["block", "mean"], ascending=[False, True], ignore_index=True)


def numbers_prompts(table: pd.DataFrame) -> dict[str, Any]:
    """In how many models every prompt falls on one side of 1."""
    spread = spreads(table)
    n = sorted(set(spread["n"]))
    return {
        "n": len(spread),
        "prompts": f"{n[0]}" if len(n) == 1 else f"{n[0]} to {n[-1]}",
        "one_side": int(((spread["below"] == 0) | (spread["below"] == spread["n"])).sum()),
        "widest": spread.loc[(spread["sd"] / spread["mean"]).idxmax()],
    }


def _prompts(table: pd.DataFrame) -> str:
    return " or ".join(map(str, sorted({int(n) for n in table["n_prompts"]})))


def pythia(tables: Evidence) -> pd.DataFrame:
    """`penultimate_gains` of the Pythia family."""
    return penultimate_gains(tables, PYTHIA)


def with_stated(tables: Evidence) -> pd.DataFrame:
    """`pythia` with the mean and the standard deviation that the study prints: columns stated_mean, stated_sd."""
    rows, statements = pythia(tables), tables.table("statements", source=PYTHIA)
    for column, pointer in (("stated_mean", "residual_gain_mean"), ("stated_sd", "residual_gain_std")):
        values = statements[statements["pointer"].str.endswith(f"/{pointer}")].drop_duplicates("model_id")
        rows[column] = rows["model_id"].map(values.set_index("model_id")["value"]).astype(float)
    return rows


DEPTH = Figure("figure-1", "Gain over depth, Pythia family", ("C01", "C02"), pythia, draw_depth, numbers_depth)
BESIDE = Figure(
    "figure-1",
    DEPTH.title + ": the study’s and ours",
    DEPTH.claims,
    with_stated,
    draw_beside,
    numbers_depth,
    width=2.05 * COLUMN,
    height=3.2,
)
LABS = Figure("figure-2", "Gain by lab", ("C03", "C04"), by_lab, draw_labs, numbers_labs, height=4.0)
SIZE = Figure("figure-6", "Gain over size, Pythia family", ("C04", "C10"), pythia, draw_size, numbers_size)
PROMPTS = Figure("figure-7", "Gain by prompt", ("C14", "C12"), by_prompt, draw_prompts, numbers_prompts, height=4.2)

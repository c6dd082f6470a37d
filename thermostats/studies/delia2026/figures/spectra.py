"""Figures of the spectral norms of W_V and W_O: their means by model, and W_V over depth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.evidence import Evidence
from thermostats.formatting import number, short_name
from thermostats.modelling.classical.association import correlation
from thermostats.plots.column import lab_entry, name_points
from thermostats.plots.general import MUTED, RULE, legend_above
from thermostats.plots.marks import mark
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.audit import FOCAL
from thermostats.studies.delia2026.figures.figure import Figure
from thermostats.studies.delia2026.value_norms import LATE, MEANS, SUMMARY, W_O, by_layer, weights_by_layer

SEED = 3
W_V, THIRD = "W_V", "published third"
CUTS = dict(zip(MEANS, (W_V, THIRD), strict=True))
CUT = (
    "Open marks: norms of the third of the fused weights that the study took for W_V, which is not W_V in these models"
)


def means(tables: Evidence) -> pd.DataFrame:
    """Mean spectral norm of W_V and W_O over layers, one row per model and source.

    Columns model_id, heritage, cut, source, and wv, wv_lower, wv_upper, wo, wo_lower, wo_upper; the ends are the
    smallest and largest layer and missing where only the mean was published.
    """
    summaries = tables.table("summaries", source=SUMMARY, estimand=[*MEANS, W_O])
    published = summaries.assign(of=np.where(summaries["estimand"] == W_O, "wo", "wv"))
    wide = published.pivot(index=["model_id", "heritage"], columns="of", values="value").reset_index()
    cuts = published[published["of"] == "wv"].set_index("model_id")["estimand"].map(CUTS)
    parts = [wide.assign(cut=wide["model_id"].map(cuts), source="published")] if len(wide) else []
    measured = weights_by_layer(tables)
    if not measured.empty:
        each = measured.groupby(["model_id", "heritage", "matrix"])["value"].agg(["mean", "min", "max"]).unstack()
        each.columns = [
            f"{matrix.replace('_', '').lower()}{ {'mean': '', 'min': '_lower', 'max': '_upper'}[end] }"
            for end, matrix in each.columns
        ]
        parts.append(each.reset_index().assign(cut=W_V, source="measured"))
    columns = ["model_id", "heritage", "cut", "source"]
    columns += [f"{name}{end}" for name in ("wv", "wo") for end in ("", "_lower", "_upper")]
    both = pd.concat(parts) if parts else pd.DataFrame(columns=columns)
    both = both.reindex(columns=columns).dropna(subset=["wv", "wo"])
    numeric = columns[4:]
    return both.astype(dict.fromkeys(numeric, float)).sort_values(["source", "model_id"], ignore_index=True)


def draw_means(table: pd.DataFrame, axes: Axes) -> None:
    """‖W_V‖₂ against ‖W_O‖₂ of every model, with the line of equal norms."""
    ends = np.array([table[["wv", "wo"]].min().min() * 0.7, table[["wv", "wo"]].max().max() * 1.5])
    axes.plot(ends, ends, color=MUTED, linestyle="--", linewidth=0.9, zorder=0)
    for lab, rows in table.groupby("heritage", sort=True):
        color, marker = mark(str(lab))
        axes.hlines(rows["wo"], rows["wv_lower"], rows["wv_upper"], color=color, linewidth=0.8)
        axes.vlines(rows["wv"], rows["wo_lower"], rows["wo_upper"], color=color, linewidth=0.8)
        for cut, part in rows.groupby("cut"):
            face = color if cut == W_V else "none"
            axes.scatter(part["wv"], part["wo"], facecolor=face, edgecolor=color, marker=marker, s=26, zorder=3)
        lab_entry(axes, str(lab))
    axes.set(xlabel=r"mean $\|W_V\|_2$ over layers", ylabel=r"mean $\|W_O\|_2$ over layers")
    axes.margins(0.12)
    log_axis(axes, "x")
    log_axis(axes, "y")
    legend_above(axes)
    name_points(axes, table["wv"], table["wo"], table["model_id"])


def numbers_means(table: pd.DataFrame) -> dict[str, Any]:
    """How far apart the labs' W_V norms lie, and on how many models of the right matrix that rests."""
    right = table[table["cut"] == W_V]
    return {
        "n": len(table),
        "n_labs": table["heritage"].nunique(),
        "by_layer": table["wv_lower"].notna().any(),
        "right": _listed(right) or "none",
        "ratio": right["wv"] / right["wo"],
        "r": correlation(np.log(table["wv"]), np.log(table["wo"]), seed=SEED) if len(table) > 3 else None,
        "cut": _cut(table),
    }


def over_depth(tables: Evidence) -> pd.DataFrame:
    """‖W_V‖₂ by model and layer; for a model of which only the mean was published one row without a layer.

    Columns model_id, heritage, cut, layer, value, depth = l/L.
    """
    layers = by_layer(tables)
    means = tables.table("summaries", source=SUMMARY, estimand=list(MEANS)).dropna(subset="value")
    means = means[~means["model_id"].isin(layers["model_id"])].drop_duplicates("model_id")
    means = means.assign(layer=np.nan, depth=np.nan, right=means["estimand"] == MEANS[0])
    both = pd.concat([part[layers.columns] for part in (layers, means) if not part.empty] or [layers])
    both["cut"] = np.where(both["right"].astype(bool), W_V, THIRD)
    both = both[["model_id", "heritage", "cut", "layer", "value", "depth"]].astype({"value": float})
    return both.sort_values(["model_id", "layer"], ignore_index=True)


def draw_over_depth(table: pd.DataFrame, axes: Axes, power: int = 1) -> None:
    """‖W_V‖₂ to a power over relative depth; models of which only the mean is known are dashed lines across."""
    ends: list[tuple[float, float, str]] = []
    for lab, rows in table.groupby("heritage", sort=True):
        color, marker = mark(str(lab))
        for model, line in rows.groupby("model_id", sort=True):
            value = line["value"] ** power
            if line["layer"].isna().all():
                axes.hlines(value, 0, 1, color=color, linestyle="--", linewidth=0.9)
                ends.append((1.0, float(value.iloc[0]), str(model)))
                continue
            face = color if (line["cut"] == W_V).all() else "white"
            axes.plot(line["depth"], value, color=color, marker=marker, markersize=3, markerfacecolor=face)
            ends.append((float(line["depth"].iloc[-1]), float(value.iloc[-1]), str(model)))
        lab_entry(axes, str(lab), markersize=4, linestyle="-")
    label = r"$\|W_V\|_2^2$" if power == 2 else r"$\|W_V\|_2$"
    axes.set(xlabel="relative depth, l / L (dashed: mean over layers)", ylabel=label, xlim=(-0.02, 1.4))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    log_axis(axes, "y")
    legend_above(axes)
    name_points(axes, *zip(*ends, strict=True))


def numbers_over_depth(table: pd.DataFrame) -> dict[str, Any]:
    """Which models have norms by layer, and how these run."""
    by_model = table[table["layer"].notna()].groupby("model_id")["value"]
    by_name = [(short_name(str(model)), values) for model, values in by_model]
    return {"known": by_name, "rest": _listed(table[table["layer"].isna()]) or "none", "cut": _cut(table)}


def draw_squared(table: pd.DataFrame, axes: Axes) -> None:
    """The trace proxy ‖W_V‖₂² over relative depth, the last quarter shaded."""
    axes.axvspan(LATE, 1.0, color=RULE, alpha=0.5, linewidth=0)
    draw_over_depth(table, axes, power=2)


def numbers_squared(table: pd.DataFrame) -> dict[str, Any]:
    """Late squared norm of the focal lab's models over those of the others."""
    squared = table.assign(value=table["value"] ** 2)
    labs = table.drop_duplicates("model_id").set_index("model_id")["heritage"]
    late = squared[squared["depth"] > LATE].groupby("model_id")["value"].mean()
    of_mean = squared[squared["layer"].isna()].set_index("model_id")["value"]
    focal = late[late.index.map(labs) == FOCAL]
    parts = {"late layers of others": late, "squared mean norm of others over all layers": of_mean}
    others = {words: values[values.index.map(labs) != FOCAL] for words, values in parts.items()}
    return {
        "focal": FOCAL,
        "models": ", ".join(short_name(str(name)) for name in focal.index),
        "ratios": [f"to the {words} {_range(focal, v)}" for words, v in others.items() if len(focal) and len(v)],
        "cut": _cut(table),
    }


def _range(focal: pd.Series, others: pd.Series) -> str:
    ratio = np.divide.outer(focal.to_numpy(), others.to_numpy())
    return f"{number(ratio.min())} to {number(ratio.max())}"


def _listed(table: pd.DataFrame) -> str:
    return ", ".join(short_name(str(name)) for name in dict.fromkeys(table["model_id"]))


def _cut(table: pd.DataFrame) -> str:
    """What open marks are, and of which models."""
    return f"{CUT} ({_listed(table[table['cut'] == THIRD]) or 'none'})."


OVER_DEPTH = "Spectral norm of W_V over depth"
SPECTRA = Figure(
    "figure-3", "Spectral norms of W_V and W_O", ("C05", "C19"), means, draw_means, numbers_means, height=3.1
)
LAYERS = Figure("figure-4", OVER_DEPTH, ("C05", "C06"), over_depth, draw_over_depth, numbers_over_depth, height=3.1)
SQUARED = Figure("figure-8", "Trace proxy over depth", ("C06",), over_depth, draw_squared, numbers_squared, height=3.1)

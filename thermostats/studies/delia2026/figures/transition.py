"""Figure of the transition layer: what the formula predicts against what was found."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.evidence import Evidence
from thermostats.formatting import short_name
from thermostats.plots.column import legend_over_rows
from thermostats.plots.general import INK, MUTED, POINT, name_rows, reference
from thermostats.plots.marks import mark
from thermostats.studies.delia2026.figures.figure import Figure
from thermostats.studies.delia2026.transition_layers import published, with_predictions

JUDGED = ("figure", "max_abs_gradient", "first_sign_change")
COLUMNS = ["model_id", "heritage", "n_layers", "found", "lower", "upper", "formula", "half", "n_definitions"]


def transitions(tables: Evidence) -> pd.DataFrame:
    """One row per model of the preprint's figure 5, layers as the study counts them.

    Columns `COLUMNS`: found (read off the figure), the smallest and largest L* over the published definitions and
    prompts (lower, upper), L(a + bL + c/H) (formula) and L/2 (half).
    """
    rows = published(tables)
    figure = rows[rows["kind"] == "figure"]
    if figure.empty:
        return pd.DataFrame(columns=COLUMNS)
    judged = rows[rows["kind"].isin(JUDGED)].groupby("model_id")
    spread = judged.agg(lower=("layer", "min"), upper=("layer", "max"), n_definitions=("kind", "nunique"))
    predicted = with_predictions(figure[["model_id", "layer"]], tables)
    out = predicted.rename(columns={"layer": "found"}).join(spread, on="model_id")[COLUMNS].astype({"found": float})
    return out.sort_values(["n_layers", "found"], ignore_index=True)


def draw(table: pd.DataFrame, axes: Axes) -> None:
    """One row per model: L*/L found, its spread over definitions, the formula (upright bar) and L/2 (dashed)."""
    reference(axes, 0.5, vertical=True)
    L = table["n_layers"]
    axes.hlines(table.index, table["lower"] / L, table["upper"] / L, color=MUTED, linewidth=0.9)
    for lab, rows in table.groupby("heritage", sort=True):
        color, marker = mark(str(lab))
        axes.scatter(
            rows["found"] / L[rows.index], rows.index, color=color, marker=marker, s=28, label=str(lab), **POINT
        )
    axes.scatter(
        table["formula"] / L, table.index, marker="|", s=130, color=INK, linewidth=1.6, label="formula", zorder=4
    )
    name_rows(axes, [short_name(name) for name in table["model_id"]])
    axes.set(xlabel="L* / L (dashed: L/2)", xlim=(0, 1))
    legend_over_rows(axes)


def numbers(table: pd.DataFrame) -> dict[str, Any]:
    """Errors of depth of the formula and of L/2, and how far the definitions of L* lie apart."""
    formula, half = (100 * (table[name] - table["found"]).abs() / table["n_layers"] for name in ("formula", "half"))
    return {
        "n": len(table),
        "n_labs": table["heritage"].nunique(),
        "formula": formula.mean(),
        "half": half.mean(),
        "nearer": int((formula < half).sum()),
        "spread": (100 * (table["upper"] - table["lower"]) / table["n_layers"]).median(),
        "inside": int(((table["formula"] >= table["lower"]) & (table["formula"] <= table["upper"])).sum()),
    }


TRANSITION = Figure(
    "figure-5", "Transition layer, predicted and found", ("C09",), transitions, draw, numbers, height=2.3
)

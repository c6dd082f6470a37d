"""Figure of the transition layer: what the formula predicts against what was found."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.evidence import Evidence
from thermostats.plots.column import legend_over_rows
from thermostats.plots.general import INK, MUTED, POINT, name_rows, reference
from thermostats.plots.marks import mark
from thermostats.studies.delia2026.figures.figure import Figure
from thermostats.studies.delia2026.stated import H4_EXTENDED, H4_V2, stated
from thermostats.studies.delia2026.transition_layers import CONSTANTS, SIGN_CHANGE
from thermostats.words import number, short_name

JUDGED = ("max_abs_gradient", "first_sign_change")
COLUMNS = ["model_id", "heritage", "n_layers", "found", "lower", "upper", "formula", "half", "n_definitions"]


def transitions(tables: Evidence) -> pd.DataFrame:
    """One row a model of the preprint's figure 5, layers as the study counts them.

    Columns `COLUMNS`: found (read off the figure), the smallest and largest L* over the published definitions and
    prompts (lower, upper), L(a + bL + c/H) (formula) and L/2 (half).
    """
    stated_rows = tables.table("statements", source="preprint")
    figure = stated_rows[stated_rows["statistic"].str.startswith("L* read off")]
    if figure.empty:
        return pd.DataFrame(columns=COLUMNS)
    rows = tables.table("transitions", source=[SIGN_CHANGE, H4_V2, H4_EXTENDED], definition=list(JUDGED))
    rows = rows[rows["layer"].notna()].assign(value=rows["layer"] - 1)
    by_definition = pd.concat(
        [rows[["model_id", "definition", "value"]], figure[["model_id", "value"]].assign(definition="figure")]
    )
    spread = by_definition.groupby("model_id").agg(
        lower=("value", "min"), upper=("value", "max"), n_definitions=("definition", "nunique")
    )
    shape = tables.table("models").drop_duplicates("model_id").set_index("model_id")
    out = figure.set_index("model_id")[["value"]].rename(columns={"value": "found"}).join(spread)
    out = out.join(shape[["heritage", "n_layers", "n_heads"]].astype({"n_layers": float, "n_heads": float}))
    at, L = stated(tables, CONSTANTS), out["n_layers"]
    out = out.assign(formula=L * (at["a"] + at["b"] * L + at["c"] / out["n_heads"]), half=L / 2)
    out = out.reset_index()[COLUMNS].astype({"found": float})
    return out.sort_values(["n_layers", "found"], ignore_index=True)


def draw(table: pd.DataFrame, axes: Axes) -> Axes:
    """One row a model: L*/L found, its spread over definitions, the formula (upright bar) and L/2 (dashed)."""
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
    return axes


def caption(table: pd.DataFrame) -> str:
    """Errors of depth of the formula and of L/2, and how far the definitions of L* lie apart."""
    errors = [100 * (table[name] - table["found"]).abs() / table["n_layers"] for name in ("formula", "half")]
    nearer = int((errors[0] < errors[1]).sum())
    spread = 100 * (table["upper"] - table["lower"]) / table["n_layers"]
    inside = int(((table["formula"] >= table["lower"]) & (table["formula"] <= table["upper"])).sum())
    return (
        f"Transition layer L* of {len(table)} models of {table['heritage'].nunique()} labs as a fraction of depth: "
        "values read off the preprint's figure (marks), prediction of the formula (upright bars) and L/2 (dashed). The "
        f"formula misses by {np.mean(errors[0]):.1f} % of depth, L/2 by {np.mean(errors[1]):.1f} %; the formula is "
        f"nearer in {nearer} of {len(table)} models. Thin lines: smallest to largest L* over the published definitions "
        f"and prompts, {number(spread.median(), 2)} % of depth in the median model; the formula's prediction lies "
        f"within in {inside}."
    )


TRANSITION = Figure(
    "figure-5", "Transition layer, predicted and found", ("C09",), transitions, draw, caption, height=2.3
)

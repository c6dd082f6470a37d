"""Transition layers that the study gives, by model and definition, beside what its formulas say."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.studies.delia2026.stated import H4_EXTENDED, H4_V2, known_gains, stated
from thermostats.words import short_name

SIGN_CHANGE = "l_star_sign_change_20260106_111315.json"
CONSTANTS = {"a": "section 5.3, eq. 6 a", "b": "section 5.3, eq. 6 b", "c": "section 5.3, eq. 6 c"}
BY_MODEL = {
    "L* of {}, mean over prompts": r"/results/\d+/L_star_empirical",
    "L* of {}, SD over prompts": r"/results/\d+/L_star_std",
    "L* of {} by the formula": r"/results/\d+/L_star_predicted",
    "error for {}, % of depth": r"/results/\d+/error_pct",
}
A_PRIORI = "L* of {} from its gain"
ALL_HEADS = "max_abs_gradient_all_heads"


def empirical(tables: Evidence) -> pd.DataFrame:
    """One row per model and definition: L* as the study counts it (index from 0 where its files hold indices)."""
    figure = tables.table("statements", source="preprint")
    figure = figure[figure["statistic"].str.startswith("L* read off")].rename(columns={"value": "layer"})
    found = tables.table("transitions", source=[SIGN_CHANGE, H4_V2, H4_EXTENDED])
    found = found[found["layer"].notna()].rename(columns={"definition": "kind"})
    found = found.assign(layer=found["layer"] - 1)
    both = pd.concat(
        [part[["model_id", "kind", "layer"]] for part in (figure.assign(kind="figure"), found, all_heads(tables))]
    )
    return both.groupby(["kind", "model_id"], as_index=False)["layer"].mean()


def all_heads(tables: Evidence) -> pd.DataFrame:
    """L* (index from 0) as argmax |∂ trace/∂ layer| of the trace of all heads; models with every layer a number."""
    rows = tables.table("attention", source=[H4_V2, H4_EXTENDED], variant="multi_head", head="").sort_values("layer")
    found = [
        {"model_id": model, "kind": ALL_HEADS, "layer": float(np.abs(np.gradient(part["trace"])).argmax())}
        for model, part in rows.groupby("model_id")
        if part["trace"].notna().all()
    ]
    return pd.DataFrame(found, columns=["model_id", "kind", "layer"])


def with_predictions(rows: pd.DataFrame, tables: Evidence) -> pd.DataFrame:
    """Predictions of the formula and of L/2 with their errors of depth in per cent."""
    at = stated(tables, CONSTANTS)
    shape = tables.table("models")[["model_id", "heritage", "n_layers", "n_heads"]].drop_duplicates("model_id")
    rows = rows.merge(shape, on="model_id").astype({"n_layers": float, "n_heads": float})
    L = rows["n_layers"]
    rows["formula"] = L * (at["a"] + at["b"] * L + at["c"] / rows["n_heads"])
    rows["half"] = L / 2
    for name in ("formula", "half"):
        rows[f"error_{name}"] = 100 * (rows[name] - rows["layer"]).abs() / L
    return rows


def from_gains(tables: Evidence) -> dict[str, float]:
    """L* by the formula of the small models' file, (L/2)(1 + tanh(5(G − 1))), from the gains that it copies."""
    depth = tables.table("models").drop_duplicates("model_id").set_index("model_id")["n_layers"]
    return {
        A_PRIORI.format(short_name(row.model_id)): float(
            depth[row.model_id] / 2 * (1 + np.tanh(5 * (row.known_gain - 1)))
        )
        for row in known_gains(tables, H4_V2).itertuples()
    }


def sign_changes(tables: Evidence, rows: pd.DataFrame) -> dict[str, float]:
    """Model by model: mean and standard deviation (divisor n) of L* over prompts, the formula's L* and its error."""
    found = tables.table("transitions", source=SIGN_CHANGE, definition="first_sign_change")
    sd = found.groupby("model_id")["layer"].std(ddof=0)
    figures: dict[str, float] = {}
    for row in rows.itertuples():
        values = (row.layer, sd[row.model_id], row.formula, row.error_formula)
        names = [name.format(short_name(row.model_id)) for name in BY_MODEL]
        figures |= {name: float(value) for name, value in zip(names, values, strict=True)}
    return figures

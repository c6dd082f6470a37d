"""Transition layers L* by the study's definitions, and their errors under its formula."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import Case
from thermostats.claims.evidence import VIEWS, Evidence
from thermostats.claims.result import Audit
from thermostats.formatting import strip_owner
from thermostats.studies.delia2026.prompt_gains import drop_tuned
from thermostats.studies.delia2026.stated_facts import (
    H4_EXTENDED,
    H4_V2,
    check_figures,
    check_model_figures,
    index_models,
    join_audits,
    load_known_gains,
    load_stated,
)
from thermostats.tables.reading import keep_last_revision

SIGN_CHANGE = "l_star_sign_change_20260106_111315.json"
FORMULA = (0.11, 0.012, 4.9)
"""a, b, c of the study's L* = L (a + b L + c/H)."""
CONSTANTS = {"a": "section 5.3, eq. 6 a", "b": "section 5.3, eq. 6 b", "c": "section 5.3, eq. 6 c"}
TRANSITIONS_BY_MODEL = {
    "L* of {}, mean over prompts": r"/results/\d+/L_star_empirical",
    "L* of {}, SD over prompts": r"/results/\d+/L_star_std",
    "L* of {} by the formula": r"/results/\d+/L_star_predicted",
    "error for {}, % of depth": r"/results/\d+/error_pct",
}
A_PRIORI = "L* of {} from its gain"
ALL_HEADS = "max_abs_gradient_all_heads"
STATED_TRANSITIONS = {
    "error within heritage, % of depth": "section 5.3 within",
    "error across heritages, % of depth": "fig. 5",
    "error of L/2, % of depth": "section 5.3 naive",
}
COMPARED_WITH = {"error the file compares with, %": "/comparison_v2_argmax"}
TRANSITIONS_IN_THE_FILE = {
    "error by the first change of sign, % of depth": "/overall_mape",
    "improvement, points": "/improvement_pp",
}
FIGURE_5 = "L* of {} in figure 5"

TRANSITION_DEFINITIONS = (
    Case("figure_5", "values of figure 5", "figure"),
    Case("steepest", "steepest change of the trace", "max_abs_gradient"),
    Case("steepest_all_heads", "steepest change of the trace of all heads", ALL_HEADS),
    Case("first_sign_change", "first change of sign of the trace's slope", "first_sign_change"),
)
"""Definitions of the empirical L*, each with the `kind` that tables call it by."""


def collect_transitions(tables: Evidence) -> pd.DataFrame:
    """One row per model and definition: L* as the study counts it (index from 0 where its files
    hold indices).

    Of another set of evidence the mean over prompts on the exact trace, counted in the same way.
    """
    if tables.name in VIEWS:
        rows = tables.table("transitions", trace_variant="exact").dropna(subset="layer")
        rows = keep_last_revision(rows, "model_id").rename(columns={"definition": "kind"})
        rows = rows.assign(layer=rows["layer"] - 1)
        bases = drop_tuned(tables, rows)
        return bases.groupby(["kind", "model_id"], as_index=False)["layer"].mean()
    published = load_published_transitions(tables)
    both = pd.concat([published, find_all_head_transitions(tables)])
    return both.groupby(["kind", "model_id"], as_index=False)["layer"].mean()


def load_published_transitions(tables: Evidence) -> pd.DataFrame:
    """L* as the study counts it, of figure 5 and by model, prompt and definition: columns model_id,
    kind, layer."""
    figure = tables.table("statements", source="preprint")
    read_off = figure["statistic"].str.startswith("L* read off")
    figure = figure[read_off].rename(columns={"value": "layer"}).assign(kind="figure")
    layers = tables.table("transitions", source=[SIGN_CHANGE, H4_V2, H4_EXTENDED])
    layers = layers[layers["layer"].notna()]
    layers = layers.rename(columns={"definition": "kind"})
    layers = layers.assign(layer=layers["layer"] - 1)
    columns = ["model_id", "kind", "layer"]
    return pd.concat([figure[columns], layers[columns]])


def find_all_head_transitions(tables: Evidence) -> pd.DataFrame:
    """L* (index from 0) as argmax |∂ trace/∂ layer| of the trace of all heads; models with every
    layer a number."""
    files = [H4_V2, H4_EXTENDED]
    rows = tables.table("attention", source=files, variant="multi_head", head="")
    steepest = []
    for model, part in rows.sort_values("layer").groupby("model_id"):
        if part["trace"].notna().all():
            slopes = np.abs(np.gradient(part["trace"]))
            layer = float(slopes.argmax())
            steepest.append((model, ALL_HEADS, layer))
    return pd.DataFrame(steepest, columns=["model_id", "kind", "layer"])


def add_predictions(rows: pd.DataFrame, tables: Evidence) -> pd.DataFrame:
    """Predictions of the formula and of L/2 with their errors of depth in per cent."""
    at = load_stated(tables, CONSTANTS)
    facts = ["model_id", "heritage", "n_layers", "n_heads", "position_scheme"]
    shape = tables.table("models")[facts].drop_duplicates("model_id")
    rows = rows.merge(shape, on="model_id")
    rows = rows.astype({"n_layers": float, "n_heads": float})
    L = rows["n_layers"]
    by_depth = at["a"] + at["b"] * L
    fraction = by_depth + at["c"] / rows["n_heads"]
    rows["formula"] = L * fraction
    rows["half"] = L / 2
    return rows.assign(**measure_errors(rows))


def measure_errors(rows: pd.DataFrame) -> pd.DataFrame:
    """Errors of depth of the formula and of L/2 in per cent: columns error_formula and
    error_half."""
    errors = {}
    for name in ("formula", "half"):
        off = (rows[name] - rows["layer"]).abs()
        errors[f"error_{name}"] = 100 * off / rows["n_layers"]
    return pd.DataFrame(errors)


def measure_fraction_error(rows: pd.DataFrame) -> float:
    """Error of depth in per cent of L* put at the mean fraction of the other models."""
    fraction = rows["layer"] / rows["n_layers"]
    others = fraction.sum() - fraction
    of_others = others / (len(rows) - 1)
    off = (of_others - fraction).abs()
    return float(100 * off.mean())


def measure_relative_error(rows: pd.DataFrame, name: str) -> float:
    """Mean absolute percentage error relative to L*; infinite where an L* is 0."""
    off = (rows[name] - rows["layer"]).abs()
    relative = 100 * off / rows["layer"]
    return float(relative.mean())


def list_gain_transitions(tables: Evidence) -> Iterator[tuple[str, list[float]]]:
    """L* by the formula of the small models' file, (L/2)(1 + tanh(5(G − 1))), from the gains that
    it copies."""
    depth = index_models(tables)["n_layers"]
    for row in load_known_gains(tables, H4_V2).itertuples():
        turned = 1 + np.tanh(5 * (row.known_gain - 1))
        half = depth[row.model_id] / 2
        yield row.model_id, [half * turned]


def list_sign_changes(
    tables: Evidence, rows: pd.DataFrame
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Model by model: mean and standard deviation (divisor n) of L* over prompts, the formula's L*
    and its error."""
    layers = tables.table("transitions", source=SIGN_CHANGE, definition="first_sign_change")
    sd = layers.groupby("model_id")["layer"].std(ddof=0)
    for row in rows.itertuples():
        yield row.model_id, (row.layer, sd[row.model_id], row.formula, row.error_formula)


def check_errors(tables: Evidence, rows: pd.DataFrame, kind: str) -> Audit:
    """Figures that the study states for one definition of L*; `rows` from `add_predictions`."""
    if kind == ALL_HEADS:
        return Audit()
    if kind == "max_abs_gradient":
        names = {A_PRIORI: r"/results/\d+/L_star_apriori"}
        return check_model_figures(tables, H4_V2, names, list_gain_transitions(tables))
    part = rows[rows["kind"] == kind]
    error = float(part["error_formula"].mean())
    compared_with = load_stated(tables, COMPARED_WITH, SIGN_CHANGE)
    if kind == "first_sign_change":
        (other,) = compared_with.values()
        values = (error, other - error)
        overall = check_figures(tables, TRANSITIONS_IN_THE_FILE, values, SIGN_CHANGE)
        changes = list_sign_changes(tables, part)
        by_model = check_model_figures(tables, SIGN_CHANGE, TRANSITIONS_BY_MODEL, changes)
        return join_audits(overall, by_model)
    read = {}
    for row in part.itertuples():
        name = FIGURE_5.format(strip_owner(row.model_id))
        read[name] = float(row.layer)
    calibrated = rows["kind"] == "calibration"
    within = rows.loc[calibrated, "error_formula"].mean()
    errors = (within, error, part["error_half"].mean())
    stated = check_figures(tables, STATED_TRANSITIONS, errors)
    compared = Audit(compared_with | read, dict.fromkeys(COMPARED_WITH, error))
    return join_audits(stated, compared)


def describe_figure(evidence: Evidence, rows: pd.DataFrame) -> dict[str, Any]:
    """What the published errors of figure 5 rest on; `rows` with predictions of every definition
    and calibration."""
    figure = rows[rows["kind"] == "figure"]
    figure = figure.reset_index(drop=True)
    calibrated = rows[rows["kind"] == "calibration"]
    calibrated = calibrated.reset_index(drop=True)
    at = load_stated(evidence, CONSTANTS)
    by_choice = {}
    for words, part in (("calibration values", calibrated), ("values of figure 5", figure)):
        error = part["error_half"].mean()
        by_choice[f"error of depth on the {words}"] = float(error)
        by_choice[f"error relative to L* on the {words}"] = measure_relative_error(part, "half")
    published = check_errors(evidence, rows, "figure").published["error of L/2, % of depth"]
    nearest = min(by_choice.items(), key=lambda item: abs(item[1] - published))
    shapes = figure[["n_layers", "n_heads"]].drop_duplicates()
    seen = set(figure["model_id"]) & set(calibrated["model_id"])
    steepest = evidence.table("transitions", source=H4_EXTENDED, definition="max_abs_gradient")
    missing = steepest.loc[steepest["layer"].isna(), "model_id"]
    counted_from_one = figure.assign(layer=figure["layer"] - 1)
    left = 1 - at["a"] - at["c"] / 64
    leaves = left / at["b"]
    errors = ["error_formula", "error_half"]
    return {
        "shapes": len(shapes),
        "seen": len(seen),
        "calibrated": calibrated[errors].mean(),
        "calibrated_relative": measure_relative_error(calibrated, "half"),
        "published": published,
        "nearest": nearest,
        "leaves": leaves,
        "missing": list(missing),
        "from_one": measure_errors(counted_from_one).mean(),
    }

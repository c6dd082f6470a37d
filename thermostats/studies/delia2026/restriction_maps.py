"""Restriction maps by layer: their norms, and the layers that the study's definitions name."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.studies.delia2026.stated_facts import check_figures

SOURCE = "restriction_maps_results.json"
DEFINITIONS = {
    "minimum": "minimum of the contraction ratio",
    "steepest": "steepest change of the trace",
    "formula": "formula L(0.11 + 0.012 L + 4.9/H)",
}
MEASURES = ["contraction_ratio", "operator_norm"]
"""Norms of the maps: over ‖W_V‖₂, the mean of √A_ij, and as they are."""
LEAST_BLOCKS = 4
BY_INDEX = {
    "L* minimum, from 0": "/restriction_maps/L_star_min_contraction",
    "L* inflection, from 0": "/restriction_maps/L_star_inflection",
}


def find_transition_layers(
    maps: pd.DataFrame, traces: pd.DataFrame, model: pd.Series
) -> dict[str, float]:
    """L* (1-based) by the names of `DEFINITIONS`, among the layers that are numbers."""
    L = float(model["n_layers"])
    H = float(model["n_heads"])
    least = maps["contraction_ratio"].idxmin()
    contracting = maps.loc[least, "layer"]
    slopes = np.gradient(traces["trace"].to_numpy(float))  # missing where a neighbouring layer is
    place = int(np.nanargmax(np.abs(slopes)))
    steepest = traces["layer"].iloc[place]
    fraction = 0.11 + 0.012 * L + 4.9 / H
    by_formula = L * fraction
    layers = (float(contracting), float(steepest), by_formula)
    return dict(zip(DEFINITIONS, layers, strict=True))


def compare_transition_sides(
    maps: pd.DataFrame, layers: dict[str, float], measure: str
) -> pd.DataFrame:
    """One row per definition: geometric means of a measure before and after L*, layers below 1
    before, `shows_it`."""
    log = np.log(maps[measure])
    rows = []
    for name, at in layers.items():
        before = log[maps["layer"] < at]
        after = log[maps["layer"] > at]
        means = (float(np.exp(before.mean())), float(np.exp(after.mean())))
        below = int((before < 0).sum())
        rows.append((DEFINITIONS[name], at, *means, below, len(before)))
    columns = ["definition", "L_star", "before", "after", "layers_below_1_before", "layers_before"]
    table = pd.DataFrame(rows, columns=columns)
    contracts = table["before"] < 1
    expands = table["after"] > 1
    return table.assign(shows_it=contracts & expands)


def load_published_maps(tables: Evidence) -> tuple[pd.DataFrame, dict[str, float], pd.Series]:
    """Both measures by layer of the file's model, its L* by definition, its row of the table of
    models.

    Layers in which attention overflowed have no numbers and are left out.
    """
    rows = tables.table("attention", source=SOURCE)
    model_id = rows["model_id"].iloc[0]
    model = tables.table("models", model_id=model_id).iloc[0]
    maps = select_layer_maps(rows).dropna()
    maps = maps.astype(float).reset_index(drop=True)
    traces = rows[rows["variant"] == "subsampled"]
    traces = traces.sort_values("layer")
    traces = traces[["layer", "trace"]].astype(float)
    return maps, find_transition_layers(maps, traces, model), model


def select_layer_maps(rows: pd.DataFrame) -> pd.DataFrame:
    """Layers of the file with both measures, missing where attention overflowed."""
    layers = rows[rows["variant"] == "unstated"]
    return layers.sort_values("layer")[["layer", *MEASURES]]


def is_wrong_matrix(tables: Evidence) -> bool:
    """True where the file's operator norms were computed with a third of the fused matrix, which is
    not W_V."""
    sizes = tables.table("summaries", source=SOURCE)["estimand"]
    return bool(sizes.str.startswith("W_V_spectral_norm_published_thirds").any())


def check_maps(tables: Evidence, layers: dict[str, float]) -> tuple[Audit, int, int]:
    """L* as the file gives it, counted from 0; layers without a number, and all layers. `layers`:
    from `load_published_maps`."""
    every = select_layer_maps(tables.table("attention", source=SOURCE))
    slopes = np.gradient(every["contraction_ratio"].to_numpy(float))
    place = int(np.nanargmax(np.abs(slopes)))
    steepest = every["layer"].iloc[place]
    values = (layers["minimum"] - 1, float(steepest) - 1)
    lacking = every.isna().any(axis=1)
    n_lacking = int(lacking.sum())
    return check_figures(tables, BY_INDEX, values, SOURCE), n_lacking, len(every)


def summarise_layers(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per model and layer: geometric mean over prompts of both measures, mean trace; all
    heads together."""
    of_all = rows["head"] == ""
    is_exact = rows["variant"] == "exact"
    whole = rows[of_all & is_exact]
    whole = whole.dropna(subset=[*MEASURES, "trace"])
    log_measures = {name: np.log(whole[name].astype(float)) for name in MEASURES}
    logs = whole.assign(**log_measures)
    by_layer = logs.groupby(["model_id", "heritage", "layer"], as_index=False)
    mean = by_layer[[*MEASURES, "trace"]].mean()
    measures = {name: np.exp(mean[name]) for name in MEASURES}
    return mean.assign(**measures)


def find_patterns(layers: pd.DataFrame, models: pd.DataFrame, measure: str) -> pd.DataFrame:
    """One row per model deep enough: means before and after every L*, whether any definition shows
    the pattern."""
    by_model = models.drop_duplicates("model_id").set_index("model_id")
    rows = []
    for (model, heritage), of_model in layers.groupby(["model_id", "heritage"]):
        if len(of_model) < LEAST_BLOCKS:
            continue
        curve = of_model.sort_values("layer").astype({"layer": float})
        curve = curve.reset_index(drop=True)
        layers_of_change = find_transition_layers(curve, curve, by_model.loc[model])
        sides = compare_transition_sides(curve, layers_of_change, measure)
        means = sides[["before", "after"]].to_numpy(float).ravel()
        largest = float(curve[measure].max())
        shown = bool(sides["shows_it"].any())
        rows.append((model, heritage, *means, largest, shown))
    columns = ["model_id", "heritage"]
    for name in DEFINITIONS:
        columns += [f"before_{name}", f"after_{name}"]
    return pd.DataFrame(rows, columns=[*columns, "largest", "shows_it"])


def summarise_models(table: pd.DataFrame) -> pd.DataFrame:
    """Median and middle 90% of models of every mean of `find_patterns`, one row per definition and
    side of L*."""
    rows = []
    for name in DEFINITIONS:
        for side in ("before", "after"):
            means = table[f"{side}_{name}"].dropna()
            logs = np.log(means)
            middle = [float(np.exp(logs.quantile(q))) for q in (0.5, 0.05, 0.95)]
            words = f"L* by {name}, {side}"
            rows.append((words, name, side, *middle))
    return pd.DataFrame(rows, columns=["row", "definition", "part", "estimate", "lower", "upper"])

"""Spectral norms of W_V and W_O by layer and model, and their ratio."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.studies.delia2026.published_gains import load_gains
from thermostats.studies.delia2026.stated_facts import check_figures, index_models
from thermostats.tables.invariants import compute_balanced_ratio, compute_ov_read
from thermostats.tables.labels import drop_unlabelled
from thermostats.tables.schemas import MODEL

LATE = 0.75
"""Late layers are those beyond this share of the depth."""
MAPS = "restriction_maps_results.json"
SUMMARY = "restriction_map_summary_20260105_202448.csv"
BY_LAYER = "W_V_spectral_norm_published_thirds_layer_"
MEANS = ["W_V_spectral_norm_mean", "W_V_spectral_norm_mean_published_thirds"]


def load_weight_norms(tables: Evidence) -> pd.DataFrame:
    """Spectral norms of whole matrices by model, layer and matrix; one run a model, the one with
    most layers.

    Columns: model_id, heritage, layer, matrix, value.
    """
    matrices = tables.table("weights", head="", matrix=["W_V", "W_O"])
    matrices = matrices.dropna(subset="spectral_norm")
    sizes = matrices.groupby(["model_id", "revision", "run_id"])["layer"].size()
    rows = sizes.rename("rows").reset_index()
    rows = rows.sort_values(["model_id", "rows", "run_id"], ascending=[True, False, True])
    chosen = rows.drop_duplicates("model_id")
    of_chosen = matrices["run_id"].isin(chosen["run_id"])
    matrices = matrices[of_chosen]
    norms = matrices.rename(columns={"spectral_norm": "value"})
    norms = norms[["model_id", "heritage", "layer", "matrix", "value"]].reset_index(drop=True)
    return drop_unlabelled(norms, "heritage")


def load_value_norms(tables: Evidence) -> pd.DataFrame:
    """‖W_V‖₂ by model and layer, from the weights where there are some, else as the study's file
    has it.

    Columns model_id, heritage, layer, depth = l/L, value, and `right`: whether it is of W_V or of a
    published third.
    """
    measured = load_weight_norms(tables)
    thirds = tables.table("summaries", source=MAPS)
    by_layer = thirds["estimand"].str.startswith(BY_LAYER)
    thirds = thirds[by_layer]
    layer = thirds["estimand"].str.removeprefix(BY_LAYER)
    thirds = thirds.assign(layer=layer, right=False)
    right = measured[measured["matrix"] == "W_V"]
    parts = [right.assign(right=True), thirds]
    columns = ["model_id", "heritage", "layer", "value", "right"]
    filled = [part[columns] for part in parts if not part.empty]
    both = pd.concat(filled or [thirds[columns]])
    both = both.astype({"layer": float, "value": float})
    both = both.dropna(subset="value").drop_duplicates(["model_id", "layer"])
    layers = index_models(tables)["n_layers"]
    depth = both["model_id"].map(layers)
    both["depth"] = both["layer"] / depth.astype(float)
    return both.sort_values(["model_id", "layer"], ignore_index=True)


def build_squared_norms(tables: Evidence) -> pd.DataFrame:
    """Norms by layer with their squares, `squared`."""
    rows = load_value_norms(tables)
    return rows.assign(squared=rows["value"] ** 2)


def measure_late_means(value_norms_by_layer: pd.DataFrame) -> pd.DataFrame:
    """Mean squared norm over the last quarter of each model that has layers there."""
    is_late = value_norms_by_layer["depth"] > LATE
    late = value_norms_by_layer[is_late].groupby("model_id")
    return late.agg(
        heritage=("heritage", "first"), late=("squared", "mean"), right=("right", "all")
    ).reset_index()


def build_squared_means(tables: Evidence) -> pd.DataFrame:
    """One row per model of the study's summary: the square of its mean norm over all layers,
    ascending."""
    models = index_models(tables)
    means = tables.table("summaries", source=SUMMARY, estimand=MEANS)[["model_id", "value"]]
    labs = means["model_id"].map(models["heritage"])
    means = means.assign(heritage=labs, squared=means["value"] ** 2)
    return means.sort_values("squared")


def build_pairs(
    models: pd.DataFrame, column: str, inside: pd.Series[bool] | None = None
) -> pd.DataFrame:
    """Ratios of models to models of another lab or recipe; `inside`: rows that stand above, all
    without it."""
    above = models
    others = models
    if inside is not None:
        above = models[inside]
        others = models[~inside]
    both = above.merge(others, how="cross", suffixes=("", "_other"))
    of_others = both["heritage"] != both["heritage_other"]
    both = both[of_others]
    ratio = both[column] / both[f"{column}_other"]
    return both.assign(ratio=ratio)


W_V, CUT = MEANS
W_O = "W_O_spectral_norm_mean"
STATED_RATIOS = {"ratio of W_V norms, EleutherAI to Meta": "section 4.3"}
LABS = ("EleutherAI", "Meta")


def collect_norms_and_gains(tables: Evidence) -> pd.DataFrame:
    """One row per model: mean norms of W_V and W_O over layers, whether the published matrix is
    W_V, and its gain."""
    names = [W_V, CUT, W_O]
    rows = tables.table("summaries", source=SUMMARY, estimand=names)
    wide = rows.pivot(index="model_id", columns="estimand", values="value")
    wide = wide.reindex(columns=names)
    right = wide[W_V]
    value_norms = right.fillna(wide[CUT])
    table = pd.DataFrame({"W_V": value_norms, "W_O": wide[W_O]})
    table["right_matrix"] = right.notna()
    table["ratio"] = table["W_V"] / table["W_O"]
    of_models = load_gains(tables).set_index("model_id")
    labs = index_models(tables)[["heritage", "family"]]
    gains = of_models[["gain", "lower", "upper", "comparable"]]
    return table.join(labs).join(gains).reset_index()


def collect_unmoved(tables: Evidence) -> pd.DataFrame:
    """Balanced ratio and `ov_read` by model and revision, geometric means over layers; of
    heads `ov_read` is summed.

    Columns balanced_ratio and ov_read, a missing one where rows lack it; index model_id and
    revision.
    """
    runs = tables.table("runs")
    layers = tables.table("layers", position="last")
    weights = tables.table("weights", matrix=["W_V", "W_O", "OV"]).drop(columns=MODEL)
    of_model = ["model_id", "revision"]
    balanced = compute_balanced_ratio(runs, weights).set_index(of_model)["balanced_ratio"]
    heads = compute_ov_read(runs, weights, layers.drop(columns=MODEL))
    read = heads.groupby([*of_model, "layer"])["ov_read"].sum().droplevel("layer")
    means = {}
    for column, values in (("balanced_ratio", balanced), ("ov_read", read)):
        logs = np.log(values.astype(float))
        mean_logs = logs.groupby(level=of_model).mean()
        means[column] = np.exp(mean_logs)
    return pd.DataFrame(means)


def check_value_norms(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Mean norm of W_V of one lab over that of the other, right matrix or not; `rows` from
    `collect_norms_and_gains`."""
    means = rows.groupby("heritage")["W_V"].mean()
    first, second = (means[lab] for lab in LABS)
    return check_figures(tables, STATED_RATIOS, [first / second])

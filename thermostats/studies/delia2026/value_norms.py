"""Norms of W_V: by layer and over the last quarter; means of W_V and W_O by model, what was cut for W_V."""

from __future__ import annotations

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.studies.delia2026.gains import gains
from thermostats.studies.delia2026.stated import stated
from thermostats.tables.labels import having

LATE = 0.75
"""Late layers are those beyond this share of the depth."""
MAPS, SUMMARY = "restriction_maps_results.json", "restriction_map_summary_20260105_202448.csv"
BY_LAYER = "W_V_spectral_norm_published_thirds_layer_"
MEANS = ["W_V_spectral_norm_mean", "W_V_spectral_norm_mean_published_thirds"]


def weights_by_layer(tables: Evidence) -> pd.DataFrame:
    """Spectral norms of whole matrices by model, layer and matrix; one run a model, the one with most layers.

    Columns: model_id, heritage, layer, matrix, value.
    """
    matrices = tables.table("weights", head="", matrix=["W_V", "W_O"]).dropna(subset="spectral_norm")
    rows = matrices.groupby(["model_id", "revision", "run_id"])["layer"].size().rename("rows").reset_index()
    chosen = rows.sort_values(["model_id", "rows", "run_id"], ascending=[True, False, True]).drop_duplicates("model_id")
    matrices = matrices[matrices["run_id"].isin(chosen["run_id"])].rename(columns={"spectral_norm": "value"})
    return having(matrices[["model_id", "heritage", "layer", "matrix", "value"]].reset_index(drop=True), "heritage")


def by_layer(tables: Evidence) -> pd.DataFrame:
    """‖W_V‖₂ by model and layer, from the weights where there are some, else as the study's file has it.

    Columns model_id, heritage, layer, depth = l/L, value, and `right`: whether it is of W_V or of a published third.
    """
    measured = weights_by_layer(tables)
    thirds = tables.table("summaries", source=MAPS)
    thirds = thirds[thirds["estimand"].str.startswith(BY_LAYER)]
    thirds = thirds.assign(layer=thirds["estimand"].str.removeprefix(BY_LAYER), right=False)
    parts = [measured[measured["matrix"] == "W_V"].assign(right=True), thirds]
    columns = ["model_id", "heritage", "layer", "value", "right"]
    filled = [part[columns] for part in parts if not part.empty]
    both = pd.concat(filled or [thirds[columns]]).astype({"layer": float, "value": float})
    both = both.dropna(subset="value").drop_duplicates(["model_id", "layer"])
    depth = tables.table("models").drop_duplicates("model_id").set_index("model_id")["n_layers"]
    both["depth"] = both["layer"] / both["model_id"].map(depth).astype(float)
    return both.sort_values(["model_id", "layer"], ignore_index=True)


def squared_by_layer(tables: Evidence) -> pd.DataFrame:
    """Norms by layer with their squares, `squared`."""
    rows = by_layer(tables)
    return rows.assign(squared=rows["value"] ** 2)


def late_means(by_layer: pd.DataFrame) -> pd.DataFrame:
    """Mean squared norm over the last quarter of each model that has layers there."""
    late = by_layer[by_layer["depth"] > LATE].groupby("model_id")
    return late.agg(heritage=("heritage", "first"), late=("squared", "mean"), right=("right", "all")).reset_index()


def squared_means(tables: Evidence) -> pd.DataFrame:
    """One row per model of the study's summary: the square of its mean norm over all layers, ascending."""
    models = tables.table("models").drop_duplicates("model_id").set_index("model_id")
    means = tables.table("summaries", source=SUMMARY, estimand=MEANS)[["model_id", "value"]]
    means = means.assign(heritage=means["model_id"].map(models["heritage"]), squared=means["value"] ** 2)
    return means.sort_values("squared")


def pairs(models: pd.DataFrame, column: str, inside: pd.Series[bool] | None = None) -> pd.DataFrame:
    """Ratios of models to models of another lab or recipe; `inside`: rows that stand above, all without it."""
    above, others = (models, models) if inside is None else (models[inside], models[~inside])
    both = above.merge(others, how="cross", suffixes=("", "_other"))
    both = both[both["heritage"] != both["heritage_other"]]
    return both.assign(ratio=both[column] / both[f"{column}_other"])


W_V, CUT = MEANS
W_O = "W_O_spectral_norm_mean"
STATED = {"ratio of W_V norms, EleutherAI to Meta": "section 4.3"}
LABS = ("EleutherAI", "Meta")


def norms_and_gains(tables: Evidence) -> pd.DataFrame:
    """One row per model: mean norms of W_V and W_O over layers, whether the published matrix is W_V, and its gain."""
    rows = tables.table("summaries", source=SUMMARY, estimand=[W_V, CUT, W_O])
    wide = rows.pivot(index="model_id", columns="estimand", values="value").reindex(columns=[W_V, CUT, W_O])
    table = pd.DataFrame({"W_V": wide[W_V].fillna(wide[CUT]), "W_O": wide[W_O], "right_matrix": wide[W_V].notna()})
    table["ratio"] = table["W_V"] / table["W_O"]
    of_models = gains(tables).set_index("model_id")
    labs = tables.table("models").drop_duplicates("model_id").set_index("model_id")[["heritage", "family"]]
    return table.join(labs).join(of_models[["gain", "lower", "upper", "comparable"]]).reset_index()


def value_norm_audit(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Mean norm of W_V of one lab over that of the other, right matrix or not; `rows` from `norms_and_gains`."""
    means = rows.groupby("heritage")["W_V"].mean()
    return Audit(stated(tables, STATED), dict.fromkeys(STATED, float(means[LABS[0]] / means[LABS[1]])))

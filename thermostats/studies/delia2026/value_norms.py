"""Norms of W_V: by layer and over the last quarter; means of W_V and W_O by model, what was cut for W_V."""

from __future__ import annotations

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.studies.delia2026.gains import gains
from thermostats.studies.delia2026.stated import stated

LATE = 0.75
"""Late layers are those beyond this share of the depth."""
MAPS, SUMMARY = "restriction_maps_results.json", "restriction_map_summary_20260105_202448.csv"
BY_LAYER = "W_V_spectral_norm_published_thirds_layer_"
MEANS = ["W_V_spectral_norm_mean", "W_V_spectral_norm_mean_published_thirds"]


def squared_by_layer(tables: Evidence) -> pd.DataFrame:
    """One row per model and layer: `squared` norm, `depth` l/L, and whether it is of the right rows (`right`).

    From the weights where there are some, else as the study's file has it, which cut the fused matrix in thirds.
    """
    cut = tables.table("summaries", source=MAPS)
    cut = cut[cut["estimand"].str.startswith(BY_LAYER)]
    cut = cut.assign(layer=cut["estimand"].str.removeprefix(BY_LAYER).astype(int), right=False)
    right = tables.table("weights", matrix="W_V", head="").rename(columns={"spectral_norm": "value"}).assign(right=True)
    columns = ["model_id", "heritage", "layer", "value", "right"]
    both = pd.concat([part[columns] for part in (right, cut) if not part.empty]).dropna(subset="value")
    both = both.sort_values("right", ascending=False, kind="stable").drop_duplicates(["model_id", "layer"])
    models = tables.table("models").drop_duplicates("model_id").set_index("model_id")
    depth = both["layer"] / both["model_id"].map(models["n_layers"])
    return both.assign(squared=both["value"].astype(float) ** 2, depth=depth.astype(float)).reset_index(drop=True)


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
    own, others = (models, models) if inside is None else (models[inside], models[~inside])
    both = own.merge(others, how="cross", suffixes=("", "_other"))
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
    known = gains(tables).set_index("model_id")
    labs = tables.table("models").drop_duplicates("model_id").set_index("model_id")[["heritage", "family"]]
    return table.join(labs).join(known[["gain", "lower", "upper", "comparable"]]).reset_index()


def value_norm_audit(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Mean norm of W_V of one lab over that of the other, right matrix or not; `rows` from `norms_and_gains`."""
    means = rows.groupby("heritage")["W_V"].mean()
    return Audit(stated(tables, STATED), dict.fromkeys(STATED, float(means[LABS[0]] / means[LABS[1]])))

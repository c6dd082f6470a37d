"""Norms of W_V and W_O of the trained models at the end of training, by the right matrix and as the study cut it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.studies.nursery.rows import final
from thermostats.tables.vocabulary import NURSERY

LATE = 0.75
"""Late layers are those beyond this share of the depth."""


def at_the_end(tables: Evidence, name: str, **equals: str | list[str]) -> pd.DataFrame:
    """Rows of a run-keyed table of the trained models at the end of training, `heritage` being the recipe.

    The columns `learned`, `comparable` and `n_layers` come from the models.
    """
    models = final(tables)[["model_id", "revision", "recipe", "learned", "comparable", "n_layers"]]
    rows = tables.table(name, source=NURSERY, **equals).drop(columns="heritage")
    return rows.merge(models.rename(columns={"recipe": "heritage"}), on=["model_id", "revision"])


def trained_norms(tables: Evidence) -> pd.DataFrame:
    """One row a trained model: columns of `final`, with its recipe as `heritage`.

    `ratio` and `ratio_cut`: ‖W_V‖₂/‖W_O‖₂, means over layers, with the right W_V and with the rows that the study took
    for it; `late` and `late_cut`: mean ‖W_V‖₂² over the last quarter of the layers, in the same two ways. `fused`:
    whether the two are cut from a fused matrix; where it is not they are the same thing. `gain`, `lower`, `upper`:
    penultimate gain with its 95 % t interval over prompts.
    """
    rows = final(tables).assign(heritage=lambda f: f["recipe"])
    weights = at_the_end(tables, "weights", head="", matrix=["W_V", "W_O", "W_V_published_thirds"])
    means = weights.pivot_table(index="model_id", columns="matrix", values="spectral_norm")
    means = means.reindex(columns=["W_V", "W_O", "W_V_published_thirds"]).dropna(subset=["W_V", "W_O"])
    thirds = means["W_V_published_thirds"]
    layers = weights.pivot_table(index=["model_id", "n_layers", "layer"], columns="matrix", values="spectral_norm")
    layers = layers.reindex(columns=["W_V", "W_V_published_thirds"]).reset_index()
    layers["cut"] = layers["W_V_published_thirds"].fillna(layers["W_V"])
    late = layers[layers["layer"] > LATE * layers["n_layers"]]
    squared = np.square(late[["W_V", "cut"]].astype(float)).groupby(late["model_id"]).mean()
    names = rows["model_id"]
    half = stats.t.ppf(0.975, rows["penultimate_gain_n"].astype(float) - 1)
    half = half * rows["penultimate_gain_sd"] / np.sqrt(rows["penultimate_gain_n"].astype(float))
    return rows.assign(
        ratio=names.map(means["W_V"] / means["W_O"]),
        ratio_cut=names.map(thirds.fillna(means["W_V"]) / means["W_O"]),
        fused=names.map(thirds.notna()).eq(True),
        late=names.map(squared["W_V"]),
        late_cut=names.map(squared["cut"]),
        gain=rows["penultimate_gain"],
        lower=rows["penultimate_gain"] - half,
        upper=rows["penultimate_gain"] + half,
    )

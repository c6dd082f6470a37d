"""The fourth study: models that are steered, and how much their seeds differ in cross-entropy on
real texts."""

from __future__ import annotations

import pandas as pd

from thermostats.tables.schemas import NURSERY

PREFIX = f"{NURSERY}/fourth/"
"""What the names of its models begin with in the tables, where models of the third study have the
same names."""


def pair_seeds(models: pd.DataFrame) -> pd.DataFrame:
    """Models and their second seeds: columns corpus, model, difference (|Δ held-out loss|, nats a
    token)."""
    again = models[models["replicate_of"].notna()]
    first = models.set_index("model")["loss"].reindex(again["replicate_of"]).to_numpy()
    differences = (again["loss"] - first).abs()
    return pd.DataFrame(
        {"corpus": again["corpus"], "model": again["replicate_of"], "difference": differences}
    ).reset_index(drop=True)


def limit_losses(models: pd.DataFrame) -> dict[str, float]:
    """By how much cross-entropy on real texts may rise, by model_id: the median difference between
    two seeds.

    models: of the study, as `fourth_models` has them. The median is that of a model's own corpus,
    over the recipes with two seeds. Models that did not learn have none.
    """
    medians = pair_seeds(models).groupby("corpus")["difference"].median()
    learned = models[models["parent"].isna() & models["learned"]]
    limits = learned["corpus"].map(medians)
    return {
        f"{PREFIX}{model}": float(limit)
        for model, limit in zip(learned["model"], limits, strict=True)
    }

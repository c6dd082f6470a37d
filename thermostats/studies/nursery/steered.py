"""The fourth study: models that are steered, and how much their seeds differ in cross-entropy on
real texts."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from thermostats.claims.claim import Case
from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import NEVER, AtLeast, Decide, Gate, V
from thermostats.modelling.price_curves import judge_models, list_crossings
from thermostats.tables.schemas import NURSERY

PREFIX = f"{NURSERY}/fourth/"
"""What the names of its models begin with in the tables, where models of the third study have the
same names."""


RMS = "RMSNorm"
"""Readers of models that count: what LayerNorms read does not change with a constant in the stream,
which moves the gain."""
GAINS = (
    Case("last_gain", "last gain"),
    Case("penultimate_gain", "penultimate gain"),
    Case("geometric_gain", "mean of the log gains of blocks 2 to L"),
)
"""Gains that were taken across 1."""
DIRECTIONS = {"down": "models taken below 1", "up": "models taken above 1"}
"""Quantities of a finding: models that meet the protocol's rule, by where they were taken."""
_TAKEN_DOWN = Gate(V(DIRECTIONS["down"]) >= 1)
_TAKEN_UP = Gate(V(DIRECTIONS["up"]) >= 1)
CROSSED = Decide(NEVER, _TAKEN_DOWN & _TAKEN_UP)
"""The rule of `data/nursery/fourth/protocol.md`: "cannot" is not supported where a model was taken
across in each direction; no number of models supports it."""
STEERED = AtLeast(models=1)


def judge_steered(evidence: Evidence) -> pd.DataFrame:
    """Models with RMSNorms that were taken across 1, a row a model and gain, and whether they meet
    the protocol's rule."""
    return evidence.computed_rows(("steered models",), partial(_judge_models, evidence))


def _judge_models(evidence: Evidence) -> pd.DataFrame:
    models = evidence.table("models", norm_kind=RMS)
    ids = models["model_id"].unique().tolist()
    rows = evidence.table("interventions", model_id=ids)
    limits = limit_losses(evidence.table("fourth_models"))
    return judge_models(list_crossings(rows), limits)


def count_crossed(judged: pd.DataFrame, gain: Case) -> Result:
    """How many models meet the rule, by direction, and those that do not with why."""
    own = judged[judged["gain"] == gain.id]
    own = own.reset_index(drop=True)
    met = own[own["meets"].astype(bool)]
    asked = _count_directions(own)
    crossed = _count_directions(met)
    prices = met["kl"]
    words: dict[str, Any] = {
        "gain": gain,
        "asked": asked,
        "met": crossed,
        "most": float(prices.max()),
        "middle": float(prices.median()),
        "ratio": float(own["ratio"].median()),
    }
    corpora = own["model_id"].str.extract(r"/(c\d+)-")[0]
    return Result(
        quantities={DIRECTIONS[way]: Estimate(count) for way, count in crossed.items()},
        n_models=len(own),
        n_groups=corpora.nunique(),
        table=own,
        words=words,
    )


def _count_directions(rows: pd.DataFrame) -> dict[str, int]:
    counts = rows["direction"].value_counts()
    return dict(counts.reindex(list(DIRECTIONS), fill_value=0).to_dict())


def pair_seeds(models: pd.DataFrame) -> pd.DataFrame:
    """Models and their second seeds: columns corpus, model, difference (|Δ held-out loss|, nats a
    token)."""
    again = models[models["replicate_of"].notna()]
    losses = models.set_index("model")["loss"]
    first = losses.reindex(again["replicate_of"]).to_numpy()
    pairs = again[["corpus"]].assign(model=again["replicate_of"])
    pairs["difference"] = (again["loss"] - first).abs()
    return pairs.reset_index(drop=True)


def limit_losses(models: pd.DataFrame) -> dict[str, float]:
    """By how much cross-entropy on real texts may rise, by model_id: the median difference between
    two seeds.

    models: of the study, as `fourth_models` has them. The median is that of a model's own corpus,
    over the recipes with two seeds. Models that did not learn have none.
    """
    medians = pair_seeds(models).groupby("corpus")["difference"].median()
    is_trained = models["parent"].isna()
    learned = models[is_trained & models["learned"]]
    limits = learned["corpus"].map(medians)
    limit_by_model = {}
    for model, limit in zip(learned["model"], limits, strict=True):
        limit_by_model[f"{PREFIX}{model}"] = float(limit)
    return limit_by_model

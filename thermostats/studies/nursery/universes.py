"""The universes of N01's order: models of the first study by gain, position, prompts and coding of shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Result
from thermostats.modelling.heritage.variance_shares import share_difference
from thermostats.modelling.specification.estimators import Statistic
from thermostats.modelling.specification.null import Null, across_labs
from thermostats.modelling.specification.universes import OUTCOME, Choices
from thermostats.studies.nursery.design import blocks
from thermostats.studies.nursery.rows import GEOMETRY, SCALE, SHALLOW, final, judged
from thermostats.studies.nursery.shares import design_blocks
from thermostats.tables import features
from thermostats.tables.vocabulary import NURSERY, POSITIONS

GAINS = {
    "penultimate block": "penultimate_gain",
    "last block": "last_gain",
    "mean per block": "geometric_gain",
    "largest block": "max_gain",
    "product": "total_amplification",
}
DEEP = f"n_layers > {SHALLOW}"
"""Of models of two blocks the penultimate one lifts the embedding."""
LANGUAGES = {"all": "", "English": "english", "synthetic": "synthetic"}
ARCHITECTURE = tuple(f"x {name}" for name in blocks()["architecture"])
ORDER: Choices = {
    "gain": {
        name: ({"outcome": gain}, DEEP) if gain == "penultimate_gain" else {"outcome": gain}
        for name, gain in GAINS.items()
    },
    "token": {"last": "at == 'last'", "first": "at == 'first'", "mean of all": "at == 'mean'"},
    "prompts": {name: f"of == '{name}'" for name in LANGUAGES},
    "models": {"comparable": "comparable", "those that learned": "comparable and learned", "pinned by a norm too": ""},
    "shape | size": {
        "L, ρ | d": "",
        "L/d, ρ | weights": {"log_L": "log_L - log_d", "log_d": "log_n"},
        "L/d, ρ | all weights": {"log_L": "log_L - log_d", "log_d": "log(n_params)"},
    },
}
NULL: Null = replace(
    across_labs(*ARCHITECTURE, *GEOMETRY, *SCALE),
    words="residuals given architecture, shape and size among the models of all recipes",
)


def every_universe(tables: Evidence) -> pd.DataFrame:
    """Models at the end of training with logs of gains, once for each token (`at`) and language of prompts (`of`)."""
    models = judged(final(tables), "last_gain", pinned=True).drop(columns=list(GAINS.values()))
    absent = {name: 0.0 for name in ARCHITECTURE if name not in models}
    runs, every = tables.table("runs", source=NURSERY), tables.table("models")
    layers, summaries = (tables.table(name, source=NURSERY) for name in ("layers", "summaries"))
    layers = layers[layers["revision"].isin(models["revision"])]
    categories = tables.table("prompts").set_index(["prompt_set", "prompt_id"])["category"]
    frames = []
    for at in sorted(set(POSITIONS) & set(layers["position"])):
        values = features.by_prompt(runs, every, layers, summaries.iloc[:0], position=at)
        values = values[values["gain"].isin(list(GAINS.values()))].merge(runs, on="run_id")
        language = categories.reindex(pd.MultiIndex.from_frame(values[["prompt_set", "prompt_id"]])).to_numpy()
        values = values.assign(log=np.log(values["value"].astype(float)), language=language)
        for of, name in LANGUAGES.items():
            some = values[values["language"] == name] if name else values
            wide = some.groupby(["model_id", "revision", "gain"])["log"].mean().unstack("gain").reset_index()
            frames.append(models.assign(at=at, of=of, **absent).merge(wide, on=["model_id", "revision"]))
    return pd.concat(frames, ignore_index=True)


def difference(rows: pd.DataFrame) -> Statistic:
    """Difference between the corrected shares of recipe and of geometry, by the design's blocks."""
    return share_difference(rows, OUTCOME, design_blocks(rows), "recipe", "geometry")


def tested(test: Callable[[pd.DataFrame], Result]) -> Callable[[pd.DataFrame], Result]:
    """A test of log gains as one of outcomes."""
    return lambda rows: test(rows.assign(log_gain=rows[OUTCOME]))

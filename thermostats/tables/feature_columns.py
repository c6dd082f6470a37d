"""Columns of `features` in words; they are computed from the tables and so are never joined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from thermostats.tables.schemas import FLAG, FLOAT, INTEGER, MODELS, RUNS, TEXT, Column
from thermostats.tables.vocabulary import GAINS, MODEL, RUN

MEANING = "computed from the tables: one row per model, revision and source, prompt set and precision"
OF_GAINS = {
    "": ("{1}; mean over prompts", FLOAT, "ratio"),
    "_geometric": ("exp of the mean over prompts of log {0}; empty where only averages are known", FLOAT, "ratio"),
    "_sd": ("standard deviation over prompts of {0}", FLOAT, "ratio"),
    "_n": ("prompts that {0} rests on; 0: an average was published", INTEGER, "count"),
}
GEOMETRY = {
    "rho": ("head density, H/d_h", FLOAT, "ratio"),
    "aspect": ("d/L", FLOAT, "ratio"),
    "kv_ratio": ("K/H", FLOAT, "ratio"),
    "ff_ratio": ("d_ff/d", FLOAT, "ratio"),
    "log10_n_params": ("log10 of n_params", FLOAT, "log10"),
    "log10_n_params_nonembedding": ("log10 of n_params_nonembedding", FLOAT, "log10"),
    "comparable": ("false where the norm comes after the residual sum: gains are near 1 by construction", FLAG, ""),
}
TRANSITION = "L_star_{definition}_{trace variant}"
"""Stands for as many columns as the table transitions has definitions and curves."""
NORMS = {
    "wv_norm": ("mean over layers of the spectral norm of W_V", FLOAT, "norm"),
    "wo_norm": ("the same of W_O", FLOAT, "norm"),
    "wv_wo_ratio": ("wv_norm/wo_norm", FLOAT, "ratio"),
}


@dataclass(frozen=True)
class FeatureColumn:
    """A column of `features`: name, pandas type, unit, meaning."""

    column: str
    type: str
    unit: str
    meaning: str


def feature_columns() -> Iterator[FeatureColumn]:
    """Every column in its order; those of transition layers as one pattern each for L* and its spread."""
    for name in RUN:
        yield _declared(RUNS.columns[name], name)
    yield FeatureColumn("token_position", TEXT, "", "that of the gains, as `position` of the table layers")
    yield FeatureColumn("n_prompts", INTEGER, "count", "most prompts that one of its gains rests on")
    for name, column in MODELS.columns.items():
        if name not in MODEL:
            yield _declared(column, name)
    yield from (FeatureColumn(name, kind, unit, meaning) for name, (meaning, kind, unit) in GEOMETRY.items())
    for gain, formula in GAINS.items():
        for ending, (words, kind, unit) in OF_GAINS.items():
            yield FeatureColumn(f"{gain}{ending}", kind, unit, words.format(gain, formula))
    yield FeatureColumn(TRANSITION, FLOAT, "1-based layer", "transition layer L*, mean over prompts; see transitions")
    yield FeatureColumn(f"{TRANSITION}_sd", FLOAT, "layers", "its standard deviation over prompts")
    yield from (FeatureColumn(name, kind, unit, meaning) for name, (meaning, kind, unit) in NORMS.items())


def _declared(column: Column, name: str) -> FeatureColumn:
    return FeatureColumn(name, column.dtype, column.unit, column.description)

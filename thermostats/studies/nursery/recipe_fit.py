"""The heritage model of the controlled study: recipes in the place of labs, the design's own geometry and scale.

Width is d = H·d_h, so that log L, log H and log d_h together hold log d: with C04's columns scale is geometry by
arithmetic. The design crosses L, ρ = H/d_h and d; GEOMETRY and SCALE are these.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from thermostats.modelling.heritage.fit import HeritageFit, fit_heritage
from thermostats.modelling.heritage.model import CLOSED
from thermostats.modelling.inference.draws import Array, Settings
from thermostats.studies.nursery.design import blocks, model_matrix
from thermostats.tables.vocabulary import NURSERY

GEOMETRY, SCALE = ("log_L", "log_rho"), ("log_d",)
LEAST_MODELS, LEAST_RECIPES = 36, 12
"""Below either nothing is concluded."""
SHALLOW = 2
"""Depth at which the last block but one is the first block, which adds to bare embeddings: no penultimate gain."""


@functools.cache
def _columns() -> dict[str, list[str]]:
    """Columns of the design's model matrix by block."""
    return blocks()


def judged(rows: pd.DataFrame, gain: str, *, pinned: bool = False) -> pd.DataFrame:
    """Rows of `rows.final` that a gain is judged by, with `log_gain` and columns of the design's model.

    Models whose norm pins gains near 1 only where `pinned`; two-block models not for the penultimate gain. Columns of
    the model matrix that are the same in all rows are left out (`columns_of_block` names those that are there).
    """
    kept = rows[(rows["comparable"] | pinned) & rows[gain].notna()]
    if gain == "penultimate_gain":
        kept = kept[kept["n_layers"] > SHALLOW]
    kept = kept.reset_index(drop=True)
    matrix = model_matrix(kept)
    chosen = [name for block in ("recipe", "architecture") for name in _columns()[block]]
    varied = [name for name in chosen if len(kept) and np.ptp(matrix[name]) > 0]
    known = kept[f"{gain}_geometric"] if f"{gain}_geometric" in kept else kept[gain]
    columns = matrix[varied].add_prefix("x ")
    return pd.concat([kept.assign(log_gain=np.log(known.astype("float64"))), columns], axis=1)


def columns_of_block(rows: pd.DataFrame, block: str) -> list[str]:
    """Columns of rows of `judged` that belong to a block of the design's model, recipe or architecture."""
    return [f"x {name}" for name in _columns()[block] if f"x {name}" in rows]


def distinct(rows: pd.DataFrame) -> pd.Series:
    """The distinct model of every row: a second seed belongs to the model that it repeats."""
    return rows["replicate_of"].fillna("").where(rows["replicate_of"].fillna("") != "", rows["model"])


def too_few(rows: pd.DataFrame) -> bool:
    """True where nothing can be concluded from so few models."""
    return len(rows) < LEAST_MODELS or rows["recipe"].nunique() < LEAST_RECIPES


def fit_recipes(
    rows: pd.DataFrame,
    gain: str,
    *,
    geometry: Sequence[str] = GEOMETRY,
    scale: Sequence[str] = SCALE,
    seed: int,
    left_out: bool = False,
) -> HeritageFit:
    """C04's model, in closed form, of rows of `judged`: heritage is the recipe, blocks have the named columns.

    `left_out`: its checks leave out the recipes in turn.
    """
    table = rows.assign(
        model_id=rows["model"],
        source=NURSERY,
        prompt_id="",
        gain=rows[gain],
        gain_sd=rows[f"{gain}_sd"],
        n_prompts=rows[f"{gain}_n"],
    )
    return fit_heritage(
        table[["model_id", "recipe", "source", "prompt_id", "gain", "gain_sd", "n_prompts", *geometry, *scale]],
        estimand=gain,
        blocks={"heritage": ["recipe"], "geometry": geometry, "scale": scale},
        method=CLOSED,
        settings=Settings(),
        leave_out=["heritage"] if left_out else [],
        seed=seed,
    )


def slopes(fit: HeritageFit, rows: pd.DataFrame, block: str, columns: Sequence[str]) -> Array:
    """Draws of the slopes of a block's contribution on its columns, draws × columns."""
    x = rows.set_index("model").loc[list(fit.design.models), list(columns)].to_numpy(np.float64)
    part = fit.contributions[block].reshape(-1, fit.n_models)
    return np.asarray(part @ np.linalg.pinv(x - x.mean(axis=0)).T)

"""The heritage model of the controlled study: recipes in the place of labs, the design's own geometry and scale.

Width is d = H·d_h, so that log L, log H and log d_h together hold log d: with C04's columns scale is geometry by
arithmetic. The design crosses L, ρ = H/d_h and d; GEOMETRY and SCALE are these, and C04's columns stand beside them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.claims.finding import Finding
from thermostats.claims.posterior import Posterior
from thermostats.claims.verdict import SENTENCES, SURE, UNMEASURED, if_probable
from thermostats.modelling.heritage.fit import HeritageFit, fit_heritage
from thermostats.modelling.heritage.model import CLOSED
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import Array, Settings
from thermostats.studies.nursery.design import blocks, model_matrix
from thermostats.tables.vocabulary import NURSERY

GEOMETRY, SCALE = ("log_L", "log_rho"), ("log_d",)
C04_GEOMETRY, C04_SCALE = ("log_L", "log_H", "log_d_h"), ("log_n",)
LEAST_MODELS, LEAST_RECIPES = 36, 12
"""Below either nothing is concluded."""
NAMED_GAINS = {
    "penultimate_gain": "gain of the last block but one, models of four blocks or more",
    "last_gain": "gain of the last block",
    "geometric_gain": "mean gain a block, blocks 2 to L",
    "max_gain": "largest gain, blocks 2 to L",
    "total_amplification": "product of gains, blocks 2 to L",
}
"""The gains that are judged, the primary one first, in words."""
LIMITS = (
    "Small models, 600 steps of 512 tokens, two corpora (novels by Jane Austen; a synthetic language whose distant "
    "dependencies such budgets are too short to learn). What carries over to large models is a hypothesis."
)
SHALLOW = 2
"""Depth at which the last block but one is the first block, which adds to bare embeddings: no penultimate gain."""


@functools.cache
def _columns() -> dict[str, list[str]]:
    """Columns of the design's model matrix by block."""
    return blocks()


def judged(rows: pd.DataFrame, gain: str, *, pinned: bool = False) -> pd.DataFrame:
    """Rows of `nursery_rows.final` that a gain is judged by, with `log_gain` and columns of the design's model.

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


def unmeasured(claim: str, estimand: str, rows: pd.DataFrame) -> Finding:
    """The finding where too few models have been measured."""
    return Finding(
        claim=claim,
        estimand=estimand,
        verdict=UNMEASURED,
        plain=f"{SENTENCES[UNMEASURED]}: {len(rows)} comparable models of {rows['recipe'].nunique()} recipes are there "
        f"and {LEAST_MODELS} of {LEAST_RECIPES} are needed.",
        n_models=len(rows),
        n_heritages=rows["recipe"].nunique(),
        notes=(LIMITS,),
    )


def slopes(fit: HeritageFit, rows: pd.DataFrame, block: str, columns: Sequence[str]) -> Array:
    """Draws of the slopes of a block's contribution on its columns, draws × columns."""
    x = rows.set_index("model").loc[list(fit.design.models), list(columns)].to_numpy(np.float64)
    part = fit.contributions[block].reshape(-1, fit.n_models)
    return np.asarray(part @ np.linalg.pinv(x - x.mean(axis=0)).T)


def named(posterior: Posterior, columns: Mapping[str, Sequence[str]]) -> Posterior:
    """The page's record with what stands in the blocks: recipe in the place of heritage, and the named columns."""
    words = "; ".join(f"{block}: {', '.join(names)}" for block, names in columns.items())
    lines = tuple(
        f"heritage: X u = c·(u_recipe(i) − mean over models); {words}" if line.startswith("heritage: X u") else line
        for line in posterior.equations
    )
    return replace(posterior, equations=lines)


def restated(known: Posterior, *, model: str, statement: str, truth: NDArray[np.bool_], classical: str) -> Posterior:
    """The record of a fit with another statement, `truth` chain × draw, put to it; its checks are not rerun."""
    said, probability = f"P({statement})", float(truth.mean())
    return replace(
        known,
        model=model,
        rule=f"Supported where {said} is at least {SURE:g}, not supported where it is at most {1 - SURE:.2g}, else "
        "inconclusive.",
        statement=said,
        probability=probability,
        probability_error=sampling.mcse(truth.astype(np.float64)) if 0 < probability < 1 else 0.0,
        verdict=if_probable(probability),
        classical=classical,
        tables={},
        panels=(),
    )

"""Worlds of levels: an outcome about a mean, shifted, below a bound, by prompt, or a share of rows where it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.noise import BY_PROMPT, Errors, Noise, PromptErrors, Random, groups_of
from thermostats.claims.worlds.world import (
    BETWEEN,
    RATIO,
    SHARED,
    TOTAL,
    Outcomes,
    World,
    Worlds,
    along,
    family,
    standard,
)
from thermostats.formatting import declared

CERTAIN = 1e-9
"""Shares of 0 and 1 are so near."""
LOGISTIC = math.pi / 3**0.5
"""Standard deviation of log odds within groups."""
Levels = Mapping[Any, float] | float
NONE: Mapping[str, Any] = MappingProxyType({})


def worlds_of_mean(
    outcome: str, claimed: float, null: float, sd: float, group: str = "heritage", others: Mapping[str, float] = NONE
) -> Worlds:
    """An outcome about a mean as claimed or as in the null, with standard deviation `sd`."""
    signal = partial(_of_shift, outcome, sd, "")
    return family(signal, "mean {}", outcome, along(group=group), claimed, null, others=others)


def worlds_of_shift(outcome: str, shift: float, sd: float, by: str = "", column: str = "", **errors: Any) -> Worlds:
    """Errors of standard deviation `sd`, and a shift of all rows, or of those where the column `by` is true, or none.

    column: along which errors differ, by default `by`; errors: `ordered` and `group`, as `along` has them.
    """
    at_rest = along(column or by, **{"ordered": bool(column), **errors})
    return family(partial(_of_shift, outcome, sd, by), "a difference of {}", outcome, at_rest, shift)


def worlds_of_bound(
    outcome: str, bound: str, error: str, above: float, column: str = "", quantity: str = "", **errors: Any
) -> Worlds:
    """Outcomes below the column `bound`, or above it in a share of models.

    They lie off it by |e| times 20%, e of every kind, and are measured with the relative error in the column `error`.
    quantity: what the rule calls the share above, which without errors of measurement is the world's.
    """
    signal, words = partial(_of_bound, outcome, bound, error), "a share of {} of the models above the bound"
    others = {"half above": 0.5}
    return family(signal, words, outcome, along(column, **errors), 0.0, above, others=others, quantity=quantity)


def worlds_of_levels(
    outcome: str,
    claimed: Levels,
    null: Levels,
    sd: float = TOTAL,
    kinds: Sequence[str] = tuple(BY_PROMPT),
    unit: str = "model_id",
    column: str = "",
    others: Mapping[str, Levels] = NONE,
) -> Worlds:
    """Values by prompt about the levels of their units, as claimed or not, with prompts in common to all models.

    claimed, null: level by value of the column `unit`, or of all. sd: of the errors. Rows have model_id, prompt_id and
    category.
    """
    at_rest = PromptErrors(along=column), {"shared": SHARED} | ({"ratio": RATIO} if column else {})
    return family(partial(_of_levels, outcome, sd, unit), "levels {}", outcome, at_rest, claimed, null, kinds, others)


def worlds_of_parts(outcome: str, claimed: float, null: float) -> Worlds:
    """Values by prompt of which a share of the variance lies between models, as claimed or as in the null.

    Levels of models have errors of every kind of `ERRORS`, alike within labs to a share; those of prompts are normal.
    The share is that of the models at hand.
    """
    words = "a share of {} of the variance between models"
    return family(partial(_of_parts, outcome), words, outcome, (Errors(), {"between": BETWEEN}), claimed, null)


def worlds_of_share(column: str, claimed: float, null: float, group: str = "heritage") -> Worlds:
    """Truth values that hold at a share as claimed, or at another, alike within groups to a share of their log odds."""
    return worlds_of_contrast(column, "", (claimed, claimed), (null,), group)


def worlds_of_contrast(
    column: str, focal: str, claimed: tuple[float, float], null: Sequence[float], group: str = "heritage"
) -> Worlds:
    """Truth values whose share where the column `focal` is true and elsewhere is as claimed, or the same in both.

    null: shares in both, of which the first is the null.
    """
    first, *more = ((share, share) for share in null)
    others = {f"a share of {declared(share)} in both": (share, share) for share, _ in more}
    return Worlds(partial(_alike, column, focal, group), claimed, first, {"alike": BETWEEN}, ("normal",), others)


def _of_shift(outcome: str, sd: float, by: str, shift: float, rows: pd.DataFrame, noise: Noise, _: Random) -> Outcomes:
    lifted = shift * (rows[by].to_numpy(np.float64) if by else 1.0)
    return {outcome: lifted + sd * noise(rows)}


def _of_bound(
    outcome: str, bound: str, error: str, above: float, rows: pd.DataFrame, noise: Noise, random: Random
) -> Outcomes:
    side = np.where(random.uniform(len(rows)) < above, 1, -1)
    off = side * TOTAL * np.abs(noise(rows)) + rows[error].to_numpy() * random.normal(len(rows))
    return {outcome: rows[bound].to_numpy() * np.exp(off)}


def _of_levels(
    outcome: str, sd: float, unit: str, levels: Levels, rows: pd.DataFrame, noise: Noise, _: Random
) -> Outcomes:
    level = rows[unit].map(levels).to_numpy(np.float64) if isinstance(levels, Mapping) else levels
    return {outcome: level + sd * noise(rows)}


def _of_parts(outcome: str, share: float, rows: pd.DataFrame, noise: Noise, random: Random) -> Outcomes:
    models = rows.drop_duplicates("model_id")
    code = pd.Index(models["model_id"]).get_indexer(rows["model_id"])
    levels = standard(noise(models))[:, code]
    values = share**0.5 * levels + (1 - share) ** 0.5 * PromptErrors().draw(rows, random)
    return {outcome: TOTAL * values}


def _alike(column: str, focal: str, group: str, shares: tuple[float, float], *, kind: str, alike: float) -> World:
    words = f"share {' and elsewhere '.join(declared(share) for share in dict.fromkeys(shares))}"
    words += f", {alike:.0%} of the variance of log odds between {groups_of(group)}" * bool(alike)
    return World(words, partial(_of_share, column, focal, group, shares, alike), Errors(kind))


def _of_share(
    column: str,
    focal: str,
    group: str,
    shares: tuple[float, float],
    alike: float,
    rows: pd.DataFrame,
    _: Noise,
    random: Random,
) -> Outcomes:
    sd = (alike / (1 - alike)) ** 0.5 * LOGISTIC
    inside = rows[focal].to_numpy(bool) if focal else np.ones(len(rows), dtype=bool)
    share = np.clip(np.where(inside, *shares), CERTAIN, 1 - CERTAIN)
    # the probability averaged over groups is the share: that of a normal log odds, scaled as a probit
    centre = np.log(share / (1 - share)) * np.sqrt(1 + sd**2 * 0.346)
    odds = centre + sd * random.levels(rows, group)
    return {column: random.uniform(len(rows)) < 1 / (1 + np.exp(-odds))}

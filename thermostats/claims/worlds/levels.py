"""Worlds of levels: an outcome about a mean, shifted, below a bound, by prompt, or between models and prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.noise import BY_PROMPT, ERRORS, LEVELS, Errors, Noise, PromptErrors, Rng
from thermostats.claims.worlds.world import TOTAL, World, claimed_or_not, kinds_with, standard
from thermostats.formatting import declared


def worlds_of_mean(outcome: str, claimed: float, null: float, sd: float) -> tuple[World, ...]:
    """An outcome about a mean as claimed or as in the null, with errors of every kind and standard deviation `sd`."""

    def change(mean: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        return rows.assign(**{outcome: mean + sd * noise(rows)})

    return claimed_or_not(change, (claimed, f"mean {declared(claimed)}"), (null, f"mean {declared(null)}"))


def worlds_of_shift(outcome: str, shift: float, sd: float, by: str = "", levels: str = "") -> tuple[World, ...]:
    """Errors of standard deviation `sd`, and a shift of all rows, or of those where the column `by` is true.

    The shift is as claimed, or 0; levels: as for a line.
    """
    change = partial(_of_shift, outcome, sd, by)
    true = shift, f"a difference of {declared(shift)}, SD {declared(sd)}"
    return claimed_or_not(change, true, (0.0, "a difference of 0"), kinds_with(levels))


def worlds_of_bound(outcome: str, bound: str, error: str, above: float) -> tuple[World, ...]:
    """Outcomes below the column `bound`, as claimed, or above it in a share of models.

    They lie off it by |e| times 20%, e of every kind, and are measured with the relative error in the column `error`.
    """
    change = partial(_of_bound, outcome, bound, error)
    by_share = {
        0.0: "every model below the bound",
        above: f"a share of {declared(above)} of the models above the bound",
    }
    return tuple(
        World(
            f"{'above' if share else 'as claimed'}, {kind}",
            f"{words}, {errors}",
            not share,
            partial(change, share),
            Errors(kind),
            declared=not share and kind == "normal",
        )
        for share, words in by_share.items()
        for kind, errors in ERRORS.items()
    )


def worlds_of_levels(
    outcome: str,
    claimed: Mapping[Any, float] | float,
    null: Mapping[Any, float] | float,
    sd: float = TOTAL,
    kinds: Sequence[str] = tuple(BY_PROMPT),
    unit: str = "model_id",
) -> tuple[World, ...]:
    """Values by prompt about the levels of their units, as claimed or not, with prompts in common to all models.

    claimed, null: level by value of the column `unit`, or of all. sd: of the errors. Rows have model_id, prompt_id and
    category.
    """

    def change(levels: Mapping[Any, float] | float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        level = rows[unit].map(levels).to_numpy(np.float64) if isinstance(levels, Mapping) else levels
        return rows.assign(**{outcome: level + sd * noise(rows)})

    of_claim, of_null = (
        ", ".join(declared(x) for x in (levels.values() if isinstance(levels, Mapping) else [levels]))
        for levels in (claimed, null)
    )
    of_kinds = {kind: BY_PROMPT[kind] for kind in kinds}
    return claimed_or_not(change, (claimed, f"levels {of_claim}"), (null, f"levels {of_null}"), of_kinds, PromptErrors)


def worlds_of_parts(outcome: str, claimed: float, null: float) -> tuple[World, ...]:
    """Values by prompt of which a share of the variance lies between models, as claimed or as in the null.

    Levels of models have errors of every kind of `ERRORS`, or are alike within labs; those of prompts are normal. The
    share is that of the models at hand.
    """

    def change(share: float, rows: pd.DataFrame, noise: Noise, rng: Rng) -> pd.DataFrame:
        models = rows.drop_duplicates("model_id")
        level = dict(zip(models["model_id"], standard(noise(models)), strict=True))
        levels = rows["model_id"].map(level).to_numpy(np.float64)
        values = share**0.5 * levels + (1 - share) ** 0.5 * PromptErrors().draw(rows, rng)
        return rows.assign(**{outcome: TOTAL * values})

    described = "{:.0%} of the variance between models, {}".format
    kinds = {**ERRORS, "alike in labs": "half of it between labs"}
    true = World("as claimed", described(claimed, "normal"), True, partial(change, claimed), Errors(), True)
    drawn = {"alike in labs": f"{LEVELS}heritage"}
    return true, *(
        World(kind, described(null, words), False, partial(change, null), Errors(drawn.get(kind, kind)))
        for kind, words in kinds.items()
    )


def _of_shift(outcome: str, sd: float, by: str, shift: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
    lifted = shift * (rows[by].to_numpy(np.float64) if by else 1.0)
    return rows.assign(**{outcome: lifted + sd * noise(rows)})


def _of_bound(
    outcome: str, bound: str, error: str, above: float, rows: pd.DataFrame, noise: Noise, rng: Rng
) -> pd.DataFrame:
    side = np.where(rng.random(len(rows)) < above, 1, -1)
    off = side * TOTAL * np.abs(noise(rows)) + rows[error].to_numpy() * rng.normal(size=len(rows))
    return rows.assign(**{outcome: rows[bound] * np.exp(off)})

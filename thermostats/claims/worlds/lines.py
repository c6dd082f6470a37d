"""Worlds of relations: an outcome goes with a column, along a line, within groups, by a mediator or by a curve."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.noise import BY_PROMPT, ERRORS, Errors, Noise, PromptErrors, Rng, levels_of
from thermostats.claims.worlds.searches import QUICK, Effort, Search, searches_among
from thermostats.claims.worlds.world import TOTAL, World, claimed_or_not, kinds_with, standard
from thermostats.formatting import declared

MOVED = 0.8
"""Correlation of a mediator with what moves it."""


def worlds_of_line(outcome: str, predictor: str, r: float, levels: str = "") -> tuple[World, ...]:
    """An outcome that goes with a column at correlation `r` over the rows, as claimed, or not at all; every error.

    levels: a column whose values have levels of their own in one more world without a relation.
    """
    change = partial(_of_line, outcome, predictor)
    return claimed_or_not(change, (r, f"correlation {declared(r)}"), (0.0, "no relation"), kinds_with(levels))


def searches_of_line(
    outcome: str,
    predictor: str,
    r: float,
    *,
    kinds: Sequence[str] = tuple(ERRORS),
    effort: Effort = QUICK,
    **bounds: tuple[float, float],
) -> tuple[Search, ...]:
    """Where a rule of a line is looked at hardest: without a relation, and as claimed; bounds as of `searches_among`.

    Errors differ along the predictor; on request between labs, too (`between`).
    """
    group = "heritage" if "between" in bounds else ""
    return searches_among(
        worlds_of_line(outcome, predictor, r),
        along=predictor,
        ordered=True,
        group=group,
        outcome=outcome,
        names=("no relation", "as claimed"),
        kinds=kinds,
        effort=effort,
        sided=False,
        **bounds,
    )


def worlds_in_groups(outcome: str, predictor: str, r: float, between: float) -> tuple[World, ...]:
    """An outcome that goes with a column at correlation `r`, as claimed, or not at all; every error.

    between: share of the variance that lies between labs (`heritage`), whatever the column does.
    """
    kinds = {kind: f"{words}, {between:.0%} of the variance between groups" for kind, words in ERRORS.items()}
    change = partial(_in_groups, outcome, predictor, between)
    return claimed_or_not(change, (r, f"correlation {declared(r)}"), (0.0, "no relation"), kinds)


def worlds_of_path(outcome: str, cause: str, mediator: str, r: float) -> tuple[World, ...]:
    """A cause that moves the mediator (r = 0.8) and an outcome that goes with the mediator alone, at correlation `r`.

    Where the statement does not hold the outcome goes with the cause itself, past the mediator; every error.
    """
    with_the, change = f"a correlation of {declared(r)} with the ", partial(_of_path, outcome, cause, mediator)
    return claimed_or_not(change, ((r, 0.0), with_the + "mediator"), ((0.0, r), with_the + "cause itself"))


def worlds_of_curve(outcome: str, claimed: str, null: str, r: float) -> tuple[World, ...]:
    """Positive outcomes whose log is a column, with errors at which it goes with it at `r`, or another; every error."""

    def change(column: str, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        sd = rows[claimed].std() * (1 / r**2 - 1) ** 0.5
        return rows.assign(**{outcome: np.exp(rows[column].to_numpy() + sd * noise(rows))})

    return claimed_or_not(change, (claimed, f"the curve as claimed, r = {declared(r)}"), (null, "no curve"))


def worlds_of_slopes(
    outcome: str, predictor: str, r: float, kinds: Sequence[str] = tuple(BY_PROMPT)
) -> tuple[World, ...]:
    """Values by prompt that go with a column at correlation `r` inside every model, or not at all."""

    def change(r: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        x = rows.groupby("model_id")[predictor].transform(standard).to_numpy(np.float64)
        return rows.assign(**{outcome: TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows))})

    of_kinds = {kind: BY_PROMPT[kind] for kind in kinds}
    return claimed_or_not(
        change, (r, f"correlation {declared(r)} inside models"), (0.0, "no relation"), of_kinds, PromptErrors
    )


def worlds_of_exponent(
    outcome: str, predictor: str, claimed: float, margin: float, scatter: float
) -> tuple[World, ...]:
    """A log outcome that rises with a log column at a slope as claimed, or off by a margin; errors of SD `scatter`."""

    def change(slope: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        x = rows[predictor].to_numpy(np.float64)
        return rows.assign(**{outcome: slope * (x - x.mean()) + scatter * noise(rows)})

    words = f"slope {declared(claimed)}, normal errors"
    true = World("as claimed", words, True, partial(change, claimed), Errors(), True)
    off = [(f"{kind}, {slope:g}", kind, slope) for kind in ERRORS for slope in (claimed - margin, claimed + margin)]
    return true, *(
        World(i, f"slope {declared(b)}, {ERRORS[kind]}", False, partial(change, b), Errors(kind)) for i, kind, b in off
    )


def _of_line(outcome: str, predictor: str, r: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
    x = standard(rows[predictor].to_numpy(np.float64))
    return rows.assign(**{outcome: TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows))})


def _in_groups(
    outcome: str, predictor: str, between: float, r: float, rows: pd.DataFrame, noise: Noise, rng: Rng
) -> pd.DataFrame:
    made = r * standard(rows[predictor].to_numpy(np.float64)) + (1 - r**2 - between) ** 0.5 * noise(rows)
    return rows.assign(**{outcome: TOTAL * (made + between**0.5 * standard(levels_of(rows, "heritage", rng)))})


def _of_path(
    outcome: str, cause: str, mediator: str, slopes: tuple[float, float], rows: pd.DataFrame, noise: Noise, rng: Rng
) -> pd.DataFrame:
    x = standard(rows[cause].to_numpy(np.float64))
    between = MOVED * x + (1 - MOVED**2) ** 0.5 * rng.normal(size=len(rows))
    through, past = slopes
    y = through * between + past * x + (1 - through**2 - past**2) ** 0.5 * noise(rows)
    return rows.assign(**{mediator: between, outcome: TOTAL * y})

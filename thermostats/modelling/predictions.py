"""Predicted outcomes on their own scale: scales of laws, tables of draws, and what lies beyond the rows of a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from thermostats.errors import unknown
from thermostats.modelling.draws import Array, equal_tailed

OWN = "outcome"
"""The scale of the table's outcome, for `predict(scale=…)`."""


@dataclass(frozen=True, kw_only=True)
class OutcomeScale:
    """The scale that a law has its outcomes on, and the way back to the outcome's own."""

    word: str = ""
    """Such as log; empty: the outcome's own."""
    back: Callable[[Array], Array] = np.asarray
    bound: float | None = None
    """Of a gain 1: the probability to lie below it is given."""
    outcome: str = ""
    """Name of the outcome on its own scale; that of the estimand by default."""


AS_GIVEN = OutcomeScale()
LOG = OutcomeScale(word="log", back=np.exp, bound=1.0)
LOG10 = OutcomeScale(word="log10", back=lambda drawn: np.power(10.0, drawn), bound=1.0)


def on_scale(scale: OutcomeScale, requested: str, estimand: str) -> tuple[str, Callable[[Array], Array], str]:
    """Name of the columns, what is done to draws, and the column of the probability below the bound ("" for none).

    Raises UsageError for a scale that the law does not have.
    """
    allowed = [OWN, *filter(None, [scale.word])]
    if requested not in allowed:
        raise unknown("no such scale of predictions", requested, allowed, line='fit.predict(new, scale="{}")')
    name = (scale.outcome or estimand or "y").replace(" ", "_")
    below = "" if scale.bound is None else f"P({name} < {scale.bound:g})"
    return (name, scale.back, below) if requested == OWN else (f"{requested}_{name}", np.asarray, below)


def table_of(drawn: Array, scale: OutcomeScale, requested: str, estimand: str, level: float) -> pd.DataFrame:
    """A row an outcome of draws × outcomes: <name>_mean, _sd, _median, _lower, _upper; P(<name> < 1) of a gain."""
    name, back, below = on_scale(scale, requested, estimand)
    values = back(drawn)
    lower, upper = equal_tailed(values, level)
    columns = {"mean": values.mean(axis=0), "sd": values.std(axis=0, ddof=1), "median": np.median(values, axis=0)}
    columns |= {"lower": lower, "upper": upper}
    table = pd.DataFrame({f"{name}_{what}": column for what, column in columns.items()})
    if below and scale.bound is not None:
        table[below] = (scale.back(drawn) < scale.bound).mean(axis=0)
    return table


def beyond(new: pd.DataFrame, rows: pd.DataFrame, groups: Sequence[str], covariates: Sequence[str]) -> pd.DataFrame:
    """Per new row in words: levels that the fit has not seen (`new`), and numbers beyond those of its rows (`outside`).

    Only what the law has: levels of `groups`, numbers of `covariates`.
    """
    strange = {name: _unseen(new[name], rows[name]) for name in groups if name in new and name in rows}
    far = {name: _outside(new[name], rows[name]) for name in covariates if name in new and name in rows}
    columns = {name: every for name, every in (("new", strange), ("outside", far)) if every}
    joined = {name: [_joined(words) for words in zip(*every.values(), strict=True)] for name, every in columns.items()}
    return pd.DataFrame(joined, index=range(len(new)))


def _joined(words: Iterable[str]) -> str:
    return "; ".join(filter(None, words))


def _unseen(values: pd.Series, fitted: pd.Series) -> list[str]:
    """Of every value the words where no row of the fit has it."""
    seen, what = set(fitted.astype(str)), "lab" if values.name == "heritage" else values.name
    return ["" if value in seen else f"{what} {value}" for value in values.astype(str)]


def _outside(values: pd.Series, fitted: pd.Series) -> list[str]:
    """Of every number the words where it is beyond those of the fit."""
    low, high = float(fitted.min()), float(fitted.max())
    far = f"{values.name} {{:.4g}} outside {low:.4g} to {high:.4g}"
    return ["" if low <= value <= high else far.format(value) for value in values.astype(float)]

"""Universes as data: one option of every choice, applied to the same loaded rows.

CHOICES = {
    "gain": {"penultimate": {"outcome": "log(gain)"}, "mean per block": {"outcome": "log(geometric_gain)"}},
    "models": {"comparable": "comparable", "every model": ""},
}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import UsageError

Option = str | Mapping[str, str] | Callable[[pd.DataFrame], pd.DataFrame] | tuple[Any, ...]
"""Text: a condition on the loaded rows that stay, empty for all. A mapping: columns that are set, each an expression
over the loaded rows. A function: of the universe's rows, called last. A tuple: several of these."""
Choices = Mapping[str, Mapping[str, Option]]
"""Options by what they are called, by choice."""
OUTCOME = "outcome"
"""Column that every universe has, set by some option."""


@dataclass(frozen=True)
class _Part:
    """One option, worked out on the loaded rows."""

    stays: np.ndarray
    columns: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[Callable[[pd.DataFrame], pd.DataFrame], ...] = ()

    def __and__(self, other: _Part) -> _Part:
        return _Part(self.stays & other.stays, {**self.columns, **other.columns}, self.changes + other.changes)


def universes(rows: pd.DataFrame, choices: Choices) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """Labels of the options and rows of every universe; rows without a finite `outcome` are left out.

    Raises UsageError for a choice without options, an option that cannot be applied, or universes without `outcome`.
    """
    if empty := [name for name, options in choices.items() if not options]:
        raise UsageError("a choice without options", got=", ".join(empty), allowed="one option or more each")
    parts = [
        {label: _part(rows, option, f"{choice}: {label}") for label, option in options.items()}
        for choice, options in choices.items()
    ]
    every = _Part(np.ones(len(rows), dtype=bool))
    for labels in product(*parts):
        part = every
        for options, label in zip(parts, labels, strict=True):
            part &= options[label]
        yield labels, _applied(rows, part)


def _applied(rows: pd.DataFrame, part: _Part) -> pd.DataFrame:
    outcome = part.columns.get(OUTCOME, rows.get(OUTCOME))
    if outcome is None:
        got = ", ".join({**dict.fromkeys(rows), **part.columns})
        raise UsageError("universes without an outcome", got=got, allowed=f"an option sets {OUTCOME!r}")
    stays = part.stays & np.isfinite(np.asarray(outcome, dtype=np.float64))
    values_of = {name: values[stays] if np.ndim(values) else values for name, values in part.columns.items()}
    universe = rows.take(np.flatnonzero(stays)).assign(**values_of).reset_index(drop=True)
    for change in part.changes:
        universe = change(universe)
    return universe


def _part(rows: pd.DataFrame, option: Option, where: str) -> _Part:
    stays = np.ones(len(rows), dtype=bool)
    if isinstance(option, tuple):
        part = _Part(stays)
        for each in option:
            part &= _part(rows, each, where)
        return part
    if isinstance(option, str):
        return _Part(np.asarray(_value(rows, option, where), dtype=bool) if option else stays)
    if isinstance(option, Mapping):
        return _Part(stays, {name: _value(rows, text, where) for name, text in option.items()})
    return _Part(stays, changes=(option,))


def _value(rows: pd.DataFrame, expression: str, where: str) -> Any:
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            return rows.eval(expression, engine="python")
    except (SyntaxError, TypeError, ValueError, NameError, KeyError, AttributeError) as error:
        raise UsageError(
            "an option cannot be applied to the rows",
            where=where,
            got=f"{expression!r}: {error}",
            allowed=f"an expression over the columns {', '.join(map(str, rows.columns[:12]))}, …",
        ) from error

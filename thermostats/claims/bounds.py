"""How far nuisances of an outcome may go: what `data/nuisances.csv` has of it, else as declared.

`scripts/nuisances.py` makes the table: one outcome of a claim, residuals of all evidence, and the
95% quantile of the posterior of each nuisance (`modelling/nuisances.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.noise import describe_column
from thermostats.errors import DataError, suggest_nearest
from thermostats.formatting import format_count, format_declared
from thermostats.modelling.nuisances import AR, DECLARED, RATIO, SHARE, SKEW, SPREAD, TAILS, Bounds
from thermostats.tables.folders import BOUNDS, find_shipped

KEY = ("outcome", "nuisance", "column", "group")
COLUMNS = {
    **dict.fromkeys(KEY, str),
    **dict.fromkeys(("rows", "groups"), int),
    **dict.fromkeys(("median", "lower", "upper"), float),
    "digest": str,
}


@dataclass(frozen=True)
class NuisanceBounds:
    """Bounds of the nuisances of one outcome, along one column and between some groups."""

    plausible: Bounds = DECLARED
    """Up to where each may go by itself: these worlds decide."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """How many rows say so, by nuisance; of the others the bound is declared."""

    @property
    def hostile(self) -> Bounds:
        """Beyond the plausible ones, all at once: the condition of a verdict."""
        return self.plausible.widen()

    def describe(self, nuisance: str) -> str:
        """A bound in words, with what it rests on."""
        value = getattr(self.plausible, nuisance)
        ends = value if isinstance(value, tuple) else (value,)
        said = " to ".join(format_declared(float(f"{end:.2g}")) for end in ends)
        if nuisance not in self.rows:
            return f"{said}, declared"
        return f"{said}, estimated of {format_count(self.rows[nuisance], 'row')}"


def make_box(bounds: Bounds, names: Mapping[str, str]) -> dict[str, tuple[float, ...]]:
    """The box of a family of worlds: at rest and at the bounds, by the family's own names.

    names: nuisance (`ar`, `ratio` or `share`) by the name that the family gives it, such as
    `between` for the share. Raises DataError for another nuisance.
    """
    ends = {
        AR: (0.0, bounds.ar),
        RATIO: (1.0, bounds.ratio, 1 / bounds.ratio),
        SHARE: (0.0, bounds.share),
    }
    if wrong := [nuisance for nuisance in names.values() if nuisance not in ends]:
        raise DataError("no number of a box", got=wrong[0], allowed=", ".join(ends))
    return {name: ends[nuisance] for name, nuisance in names.items()}


def read_bounds(outcome: str = "", column: str = "", group: str = "") -> NuisanceBounds:
    """Bounds of an outcome by its name in the table; of none all are declared.

    column: that along which errors differ. group: the column of groups whose errors are
    alike, or of unlike SDs. What the table lacks of an outcome is declared; of a share between
    groups it may have what holds without the column.

    Raises DataError for an outcome of which the table has nothing.
    """
    if not outcome:
        return NuisanceBounds()
    table = load_bounds()
    own = table[table["outcome"] == outcome]
    if own.empty:
        step = suggest_nearest(outcome, table["outcome"], "leave the outcome out: all is declared")
        raise DataError("no bounds of such an outcome", where=BOUNDS, got=outcome, next_step=step)
    lines = own.set_index(["nuisance", "column", "group"]).to_dict("index")
    found = dict[str, Any]()
    rows = dict[str, int]()
    for key in find_keys(describe_column(column), group):
        if key in lines:
            lower = lines[key]["lower"]
            upper = lines[key]["upper"]
            found[key[0]] = (lower, upper) if key[0] == SKEW else upper
            rows[key[0]] = lines[key]["rows"]
    return NuisanceBounds(replace(DECLARED, **found), rows)


def find_keys(column: str, group: str) -> list[tuple[str, str, str]]:
    """Nuisance, column in words and groups of each bound; of two of a nuisance the last counts."""
    return [
        (RATIO, column, ""),
        (AR, column, group),
        (RATIO, column, group),
        (SHARE, "", group),
        (SHARE, column, group),
        (SKEW, "", ""),
        (TAILS, "", ""),
        (SPREAD, "", group),
    ]


@cache
def load_bounds() -> pd.DataFrame:
    """The shipped table, one line a bound."""
    texts = [name for name, kind in COLUMNS.items() if kind is str]
    table = pd.read_csv(find_shipped("data") / BOUNDS, dtype=COLUMNS, keep_default_na=True)
    return table.assign(**{name: table[name].fillna("") for name in texts})


def build_empty_table() -> pd.DataFrame:
    """The table without a line."""
    return pd.DataFrame({name: np.array([], dtype=kind) for name, kind in COLUMNS.items()})

"""Outcomes as they would be if the statement were false, the same rearrangement of models in every universe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.specification.universes import OUTCOME

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Null:
    """What makes no difference if the statement is false, and is therefore rearranged.

    y = effect of `columns` + means of `means` + residuals. Residuals move among rows within values of `within` (None:
    they stay where they are; empty: among all rows), and means among values of `means` (empty: there are none).
    Labs moved whole keep their clustering and cannot test whether labs matter, hence `across_labs`.
    """

    words: str
    within: str | None = ""
    means: str = ""
    columns: tuple[str, ...] = ()
    unit: str = "model_id"
    """Column that names rows, where residuals move."""


def across_labs(*columns: str) -> Null:
    """The lab makes no difference: residuals, given some columns, move among all models."""
    return Null(f"residuals{_given(columns)} among the models of all labs", columns=columns)


def within_labs(*columns: str, lab: str = "heritage") -> Null:
    """A model-level column makes no difference inside labs: residuals move among the models of each lab."""
    return Null(f"residuals{_given(columns)} among the models of each {_words(lab)}", within=lab, columns=columns)


def between_labs(*columns: str, lab: str = "heritage") -> Null:
    """A lab-level column makes no difference: labs' means move among labs, with labs' residuals where they are."""
    return Null(f"the means of {_plural(lab)}{_given(columns)} among them", within=None, means=lab, columns=columns)


def between_and_within_labs(*columns: str, lab: str = "heritage") -> Null:
    """A column makes no difference, neither inside labs nor between them: both means and residuals move."""
    words = f"the means of {_plural(lab)}{_given(columns)} among them, and residuals among the models of each"
    return Null(words, within=lab, means=lab, columns=columns)


def _given(columns: tuple[str, ...]) -> str:
    return f" given {', '.join(columns)}" if columns else ""


def _words(column: str) -> str:
    return {"heritage": "lab", "model_id": "model", "clade": "family"}.get(column, column.replace("_", " "))


def _plural(column: str) -> str:
    words = _words(column)
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


class Rearranged:
    """m rearrangements of all units and groups that some rows hold; a universe of fewer follows the same ones.

    A universe that lacks units takes, of each rearrangement, the first unit that it does have: a uniform rearrangement
    of all induces a uniform one of the rest, and units that two universes share move alike.
    """

    def __init__(self, rows: pd.DataFrame, null: Null, m: int, seed: int) -> None:
        """Raises UsageError where a column that the null names is missing, or a unit is in two groups."""
        needed = [name for name in (null.within, null.means, null.unit if null.within is not None else "") if name]
        if absent := [name for name in needed if name not in rows]:
            raise UsageError("no such column", where="null", got=", ".join(absent), allowed=", ".join(rows))
        rng, self.null = np.random.default_rng(seed), null
        if null.within is not None:
            groups = [null.within] if null.within else []
            units = rows[list(dict.fromkeys([null.unit, *groups]))].drop_duplicates()
            if units[null.unit].duplicated().any():
                twice = units.loc[units[null.unit].duplicated(), null.unit].iloc[0]
                raise UsageError("a unit in several groups", where=null.unit, got=twice, allowed="one group each")
            self.units = pd.Index(units[null.unit])
            codes = pd.factorize(units[null.within])[0] if groups else np.zeros(len(units), dtype=np.int64)
            self.unit_places = rearrangements(codes, m, rng)
        if null.means:
            self.groups = pd.Index(rows[null.means].unique())
            self.group_places = rearrangements(np.zeros(len(self.groups), dtype=np.int64), m, rng)

    def outcomes(self, rows: pd.DataFrame) -> Array:
        """Outcomes of a universe's rows, m × rows.

        Raises UsageError where two rows that may move are of one unit.
        """
        null, y = self.null, rows[OUTCOME].to_numpy(np.float64)
        fitted = _fitted(rows, null, y)
        residuals = np.tile(y - fitted, (1, 1))
        if null.means:
            codes, values = pd.factorize(rows[null.means])
            means = np.bincount(codes, residuals[0]) / np.bincount(codes)
            residuals = residuals - means[codes]
            fitted = fitted + means[first_return(self.group_places, self.groups.get_indexer(values))][:, codes]
        if null.within is not None:
            if rows[null.unit].duplicated().any():
                twice = rows.loc[rows[null.unit].duplicated(), null.unit].iloc[0]
                raise UsageError("two rows of one unit", where=null.unit, got=twice, allowed="one row each")
            residuals = residuals[0][first_return(self.unit_places, self.units.get_indexer(rows[null.unit]))]
        return np.asarray(fitted + residuals)


def _fitted(rows: pd.DataFrame, null: Null, y: Array) -> Array:
    """Least squares on what is given, with a level for every group in which residuals move but whose means do not."""
    levels = null.within and not null.means
    design = [np.ones(len(rows)), *(rows[name].to_numpy(np.float64) for name in null.columns)]
    if levels:
        design.append(pd.get_dummies(rows[null.within], dtype=float).to_numpy())
    x = np.column_stack(design)
    return np.asarray(x @ np.linalg.lstsq(x, y, rcond=None)[0])


def rearrangements(codes: Places, m: int, rng: np.random.Generator) -> Places:
    """m uniform rearrangements within groups, m × n: place i receives what was at `[i]`."""
    n = len(codes)
    base = np.argsort(codes, kind="stable")
    places = np.empty((m, n), dtype=np.int64)
    places[:, base] = np.argsort(codes + rng.random((m, n)), axis=1)
    return places


def first_return(places: Places, chosen: Places) -> Places:
    """The rearrangements that those of all units induce on some of them, m × len(chosen), as positions in `chosen`."""
    position = np.full(places.shape[1], -1)
    position[chosen] = np.arange(len(chosen))
    reached = places[:, chosen]
    while (position[reached] < 0).any():
        reached = np.where(position[reached] < 0, np.take_along_axis(places, reached, axis=1), reached)
    return np.asarray(position[reached])

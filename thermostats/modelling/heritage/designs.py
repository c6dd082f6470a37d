"""Blocks of columns as designs: an orthonormal basis and R² of every set of blocks, and Shapley values over sets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import Array, columns_of, is_constant, labels, numbers

Blocks = Mapping[str, Sequence[str]]
"""Name of a block → its columns; text, category and true/false columns become a column for each value."""
Bases = Mapping[frozenset[str], Array]
"""Orthonormal basis, n × (1 + rank), of the intercept and every set of blocks."""
Values = tuple[float | str | bool | None, ...]


def checked_outcome(frame: pd.DataFrame, outcome: str, blocks: Blocks) -> Array:
    """The outcome of rows in which it and every column of the blocks differ.

    Raises UsageError for a block without columns, for missing values, and for a column that is the same in all rows.
    """
    if not blocks or not all(blocks.values()):
        raise UsageError(
            "a block without columns",
            got={name: list(columns) for name, columns in blocks.items()},
            allowed="one column or more a block",
        )
    columns = [column for columns in blocks.values() for column in columns]
    columns_of(frame, outcome, *columns)
    y = numbers(frame[outcome], outcome, least=3, varied=True)
    for column in columns:
        if all(map(is_constant, _design(frame[column]).T)):
            got = frame[column].iloc[0]
            raise UsageError("a constant column decides nothing", where=column, got=got, allowed="two values or more")
    return y


def refuse_saturation(n: int, rank: int) -> None:
    """Raise UsageError where a design of this rank leaves n outcomes no residual degree of freedom."""
    if rank >= n:
        raise UsageError("more predictors than rows", got=f"{n} rows, rank {rank}", allowed="fewer columns than rows")


def designs_of(frame: pd.DataFrame, blocks: Blocks) -> dict[str, Array]:
    """One design matrix per block, intercept left out; columns that are the same in all rows are left out, too."""
    return {name: np.column_stack([_design(frame[column]) for column in columns]) for name, columns in blocks.items()}


def _design(column: pd.Series) -> Array:
    """A column of numbers, or a column for each value of another; none where all rows are the same."""
    name = str(column.name)
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        x = numbers(column, name)[:, None]
    else:
        codes, values = pd.factorize(labels(column, name))
        x = np.asarray(codes[:, None] == np.arange(len(values)), dtype=np.float64)
    return x[:, np.ptp(x, axis=0) > 0]


def basis(designs: Sequence[Array], n: int) -> Array:
    """Orthonormal basis (n × rank) of the intercept and the designs, columns standardised before the rank is taken."""
    x = np.column_stack([*designs, np.empty((n, 0))])
    if x.shape[1]:
        x = x - x.mean(axis=0)
        x = x / np.linalg.norm(x, axis=0)
        u, s, _ = np.linalg.svd(x, full_matrices=False)
        x = u[:, s > s[0] * 1e-9]
    return np.column_stack([np.full(n, n**-0.5), x])


def bases_of(table: pd.DataFrame, blocks: Blocks) -> Bases:
    """Bases of all sets of blocks; of a design to which many outcomes are put they are computed once."""
    names = tuple(dict.fromkeys(column for columns in blocks.values() for column in columns))
    columns_of(table, *names)
    values = tuple((name, tuple(table[name].tolist())) for name in names)
    return _bases(tuple((name, tuple(columns)) for name, columns in blocks.items()), values)


@lru_cache(maxsize=128)
def _bases(blocks: tuple[tuple[str, tuple[str, ...]], ...], values: tuple[tuple[str, Values], ...]) -> Bases:
    table = pd.DataFrame({name: list(column) for name, column in values})
    designs = designs_of(table, dict(blocks))
    sets = (chosen for size in range(len(designs) + 1) for chosen in itertools.combinations(designs, size))
    return {frozenset(chosen): basis([designs[name] for name in chosen], len(table)) for chosen in sets}


def r_squared_by_set(outcomes: Array, bases: Bases) -> dict[frozenset[str], Array]:
    """R² of every set of blocks, one for every outcome (a row each)."""
    y = outcomes - outcomes.mean(axis=1, keepdims=True)
    total = np.square(y).sum(axis=1)
    return {chosen: np.square(y @ q).sum(axis=1) / total for chosen, q in bases.items()}


def shapley(values: Mapping[frozenset[str], Array], names: Sequence[str]) -> Array:
    """Σ_{S ∌ b} |S|!(k − |S| − 1)!/k! · (v(S ∪ b) − v(S)) of every block b, outcomes × blocks."""
    k, shares = len(names), np.zeros((len(values[frozenset(names)]), len(names)))
    for column, block in enumerate(names):
        for subset, value in values.items():
            if block not in subset:
                weight = math.factorial(len(subset)) * math.factorial(k - len(subset) - 1) / math.factorial(k)
                shares[:, column] += weight * (values[subset | {block}] - value)
    return shares

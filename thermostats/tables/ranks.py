"""Keys of rows as whole numbers: equal keys have equal numbers, and numbers are in the order of the keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ranks = NDArray[np.int64]
LARGEST = 2**62
"""Numbers are made dense before they would pass it."""


def ranks(columns: Iterable[pd.Series]) -> Ranks:
    """A number for each row's combination of values, in the order of the first column, then of the second, and so on.

    A missing value comes after all others and equals itself.
    """
    total: Ranks | None = None
    size = 1
    for values in columns:
        of_column, n = _ranks_of(values)
        if total is None:
            total, size = of_column.astype(np.int64), n
            continue
        if size * n > LARGEST:
            dense, total = np.unique(total, return_inverse=True)
            size = len(dense)
        total, size = np.add(total * n, of_column), size * n
    if total is None:
        raise ValueError("no columns")
    return total


def in_turn(rank: Ranks) -> NDArray[np.int64] | None:
    """Positions of rows in the order of their ranks, equal ones as they came; None where they are in it already."""
    return None if (rank[1:] >= rank[:-1]).all() else np.argsort(rank, kind="stable")


def again(rank: Ranks, *, keep: Literal["first", "last", False] = "first") -> NDArray[np.bool_]:
    """Which rows have the rank of an earlier row; keep="last": of a later one; False: of any other."""
    if (rank[1:] > rank[:-1]).all():
        return np.zeros(len(rank), dtype=np.bool_)
    return np.asarray(pd.Series(rank).duplicated(keep=keep))


def places(rank: Ranks, among: Ranks) -> NDArray[np.int64]:
    """Position of each rank among others, of which each occurs once; -1 where it does not."""
    if not len(among):
        return np.full(len(rank), -1)
    order = in_turn(among)
    ordered = among if order is None else among[order]
    at = np.searchsorted(ordered, rank).clip(max=len(among) - 1)
    return np.where(ordered[at] == rank, at if order is None else order[at], -1)


def rows_of(values: pd.Series, among: pd.Series) -> NDArray[np.int64]:
    """Position of each value among others, of which each occurs once; -1 where it does not. Both are without gaps."""
    number, distinct = values.factorize()
    return np.asarray(pd.Index(among).get_indexer(pd.Index(distinct))[number], dtype=np.int64)


def _ranks_of(values: pd.Series) -> tuple[NDArray[np.integer], int]:
    """Rank of each value of a column, and how many ranks there may be."""
    cells = pa.array(values)
    coded = (
        cells.combine_chunks().dictionary_encode() if isinstance(cells, pa.ChunkedArray) else cells.dictionary_encode()
    )
    n = len(coded.dictionary)
    rank = np.empty(n + 1, dtype=np.int32)
    rank[pc.sort_indices(coded.dictionary).to_numpy()] = np.arange(n, dtype=np.int32)
    rank[n] = n  # missing
    return rank[coded.indices.fill_null(n).to_numpy()], n + 1

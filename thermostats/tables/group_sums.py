"""Sums, means and spreads over groups of rows that are the same, to the last digit, whatever other rows there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.tables.ranks import ranks


def numbered(rows: pd.DataFrame, labels: Sequence[str]) -> tuple[NDArray[np.int64], pd.DataFrame]:
    """Number of each row's combination of texts, counted in their order, and the combinations by number."""
    number, distinct = pd.factorize(ranks(rows[label] for label in labels), sort=True)
    row = np.empty(len(distinct), dtype=np.int64)
    row[number] = np.arange(len(rows))
    return number, rows[list(labels)].take(row).reset_index(drop=True)


@dataclass(frozen=True)
class Groups:
    """Rows ordered by group, in their own order within; `numbers`, first row and rows of each group.

    A sum over a group must not depend on what other rows there are, so groups are summed one by one (`reduceat`):
    pandas gives another last digit where the rows of groups alternate.
    """

    order: NDArray[np.int64]
    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, number: NDArray[np.int64]) -> Groups:
        order = np.argsort(number, kind="stable")
        ordered = number[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        return cls(order, ordered[starts], starts, np.diff(starts, append=len(ordered)))

    def sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.add.reduceat(values[self.order], self.starts)

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.sum(values) / self.sizes

    def max(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum.reduceat(values[self.order], self.starts)

    def std(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard deviation, divisor n - 1; NaN for one row."""
        gaps = np.empty_like(values)
        gaps[self.order] = (values[self.order] - np.repeat(self.mean(values), self.sizes)) ** 2
        return np.sqrt(self.sum(gaps) / np.where(self.sizes > 1, self.sizes - 1, np.nan))

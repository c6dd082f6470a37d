"""How many phases has a curve over layers? Straight pieces chosen by a BIC that pays for its borders."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import Array, numbers, same_length

LEAST_POINTS = 4
"""Points in a piece: a line has two parameters, and three points often lie near one."""


@dataclass(frozen=True, kw_only=True)
class Phases:
    """The best partition of a curve into a given number of straight pieces."""

    starts: tuple[float, ...]
    """Where each piece but the first begins."""
    bic: float


def phases(x: ArrayLike, y: ArrayLike, *, most: int = 7) -> dict[int, Phases]:
    """Best least-squares partitions of y over x into 1 … `most` straight pieces, by dynamic programming.

    BIC = n log(RSS/n) + 4k log n for k pieces: two coefficients each, and a border that costs as much as two, since it
    is searched for (Zhang and Siegmund 2007, doi:10.1111/j.1541-0420.2006.00662.x). Pieces need not meet. Only as many
    pieces are tried as have four points each.

    Raises:
        UsageError: fewer than 8 points, missing values, x not increasing.
    """
    x, y = numbers(x, "x", least=2 * LEAST_POINTS), numbers(y, "y", least=2 * LEAST_POINTS, varied=True)
    same_length(x=x, y=y)
    if not (np.diff(x) > 0).all():
        raise UsageError("x does not increase", where="x", got="a step of 0 or less", allowed="increasing layers")
    n = x.size
    cost = _costs(x, y)
    best, cut = [cost[0]], [np.zeros(n + 1, dtype=int)]
    for _ in range(1, min(most, n // LEAST_POINTS)):
        totals = best[-1][:, None] + cost
        best.append(totals.min(axis=0))
        cut.append(totals.argmin(axis=0))
    floor = 1e-12 * float(np.square(y - y.mean()).sum())
    fits = {}
    for k, totals in enumerate(best, 1):
        ends, end = [], n
        for level in range(k - 1, 0, -1):
            end = int(cut[level][end])
            ends.append(end)
        rss = max(float(totals[n]), floor)
        bic = n * math.log(rss / n) + 4 * k * math.log(n)
        fits[k] = Phases(starts=tuple(float(x[e]) for e in reversed(ends)), bic=bic)
    return fits


def _costs(x: Array, y: Array) -> Array:
    """Residual sum of squares of a line through points i … j − 1, at [i, j]; infinite for too few points."""
    n = x.size
    cost = np.full((n + 1, n + 1), math.inf)
    for i in range(n):
        for j in range(i + LEAST_POINTS, n + 1):
            dx, dy = x[i:j] - x[i:j].mean(), y[i:j] - y[i:j].mean()
            cost[i, j] = max(0.0, float(dy @ dy - (dx @ dy) ** 2 / (dx @ dx)))
    return cost

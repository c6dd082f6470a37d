"""The largest gain over depth: the curve through it, against the published 10^(1/L), and that as a bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Decide, V, Within
from thermostats.modelling.classical.counts import one_sample_bound
from thermostats.modelling.draws import Array
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery.rows import jackknife

PENULTIMATE = "penultimate_gain"
NEAR, TOLERATED, MOST = 2.0, 0.05, 0.25
EDGES = (-4.0, 6.0)
"""Exponents between which a curve of depth is searched."""


def curve_of(L: np.ndarray, y: np.ndarray, middle: float) -> tuple[float, float]:
    """Least squares of y = m (L/middle)^(−β): m and β, the best β between EDGES in steps of 0.01."""
    grid = np.linspace(*EDGES, 1001)
    basis = (L[None, :] / middle) ** -grid[:, None]
    m = basis @ y / np.square(basis).sum(axis=1)
    best = int(np.square(y - m[:, None] * basis).sum(axis=1).argmin())
    return float(m[best]), float(grid[best])


LARGEST = "max_gain_to_penultimate"
TOTAL = 10.0
"""The bound 10^(1/L) of every block lets the product of gains reach this much."""


class SizeCurve(NamedTuple):
    """Exponent β and level at the middle depth L0 over 1/L0 of log10 G_max = m (L/L0)^(−β), with their intervals."""

    beta: tuple[float, float, float]
    level: tuple[float, float, float]
    middle: float
    at_edge: bool
    """Some exponent is where the search ends: such a curve has no form."""


def jackknifed_curve(rows: pd.DataFrame) -> SizeCurve:
    """The curve through the largest gains, recipes left out one by one for its intervals."""
    L, y = rows["n_layers"].to_numpy(np.float64), np.log10(rows[LARGEST].to_numpy(np.float64))
    middle = float(np.exp(np.log(L).mean()))

    def figures(remaining: npt.NDArray[np.bool_]) -> Array:
        m, beta = curve_of(L[remaining], y[remaining], middle)
        return np.array([beta, m * middle])

    estimate, without, half = jackknife(rows["recipe"], figures)
    beta, level = ((float(v), float(v - h), float(v + h)) for v, h in zip(estimate, half, strict=True))
    return SizeCurve(beta, level, middle, bool({*without[:, 0], estimate[0]} & set(EDGES)))


LIKE = Within("exponent β", 1 / NEAR, NEAR) & Within("level at the middle depth, times 1/L", 1 / NEAR, NEAR)
ABOVE, CLEAR, SHARE = V("models above the bound"), V("models clearly above"), V("share of models above")
BOUND = Decide((ABOVE <= 0) & (SHARE.upper < MOST), CLEAR > 1)


def by_curve(rows: pd.DataFrame) -> Result:
    """Exponent and level of the curve through the largest gains."""
    curve = jackknifed_curve(rows)
    interval = f"95% jackknife t interval over {rows['recipe'].nunique()} recipes"
    quantities = {
        "exponent β": Estimate(*curve.beta, interval),
        "level at the middle depth, times 1/L": Estimate(*curve.level, interval),
    }
    words = {"level": list(quantities.values())[1], "curve": curve}
    return Result.of(rows, quantities, table=None, words=words)


def as_published(middle: float, drawn: Mapping[str, Any]) -> Any:
    """Whether the exponent, and the level at the middle depth times 1/L, lie within the factor."""
    beta, level = drawn["beta"], drawn["k"] * middle ** (1 - drawn["beta"])
    return (beta > 1 / NEAR) & (beta < NEAR) & (level > 1 / NEAR) & (level < NEAR)


def by_bound(rows: pd.DataFrame) -> Result:
    """How many models lie above the bound, with and without their errors of measurement."""
    bound = one_sample_bound(rows[LARGEST], rows["bound"], tolerated=TOLERATED)
    quantile = stats.t.ppf((1 + LEVEL) / 2, rows[f"{PENULTIMATE}_n"].astype(float) - 1)
    clear = rows[rows[LARGEST] * np.exp(-quantile * rows["error"]) > rows["bound"]]
    quantities = {SHARE.name: Estimate.of(bound), ABOVE.name: Estimate(bound.n_above), CLEAR.name: Estimate(len(clear))}
    words = {"found": bound, "clear": len(clear), "recipes": clear["recipe"].nunique()}
    return Result.of(rows, quantities, table=None, words=words)

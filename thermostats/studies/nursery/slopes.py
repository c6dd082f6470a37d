"""Effects of depth and head density over models of the controlled study: slopes, curvature, interactions, traces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.modelling.classical.mixed import MixedSlope, mixed_slope
from thermostats.modelling.heritage.shares import block_f, freedman_lane
from thermostats.studies.nursery.design import blocks, model_matrix
from thermostats.studies.nursery.factor_effects import CURVED, covariates, with_curves

LINES = ("log_L", "log_rho", "log_d")
"""Depth, head density and width, whose straight lines stand in every model here."""

EDGES = (-4.0, 6.0)
"""Exponents between which a curve of depth is searched."""


def held(rows: pd.DataFrame) -> list[str]:
    """Columns of architecture that rows of `judged` tell apart, then the lines: what is held when one is asked."""
    return [name for name in covariates(with_curves(rows)) if name not in CURVED] + list(LINES)


def slope_on(rows: pd.DataFrame, term: str, others: Sequence[str], group: str) -> MixedSlope:
    """Slope of `log_gain` on `term` given the other columns, every value of `group` with a random level of its own."""
    columns = {name: f"x{number}" for number, name in enumerate(dict.fromkeys([term, *others]))}
    return mixed_slope(rows.rename(columns=columns), f"log_gain ~ {' + '.join(columns.values())}", group, term="x0")


def extra_terms(rows: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """F tests of what straight lines leave out: curvature, and recipe factors × depth or × head density.

    Columns: what, columns, residual_df, f, p (of F), p_shuffled (Freedman and Lane), gained (R²). Every block is tested
    given recipes (a level each), architecture and the lines. Raises UsageError where no degree of freedom is left.
    """
    own = blocks()
    x = model_matrix(rows)
    frame = rows.join(x[[name for name in (*own["geometry"], *own["recipe x geometry"]) if name not in rows]])
    given = {"given": ["recipe", *held(rows)]}
    asked = {
        "curvature over depth": [name for name in own["geometry"] if name.endswith("(log_L)")],
        "curvature over head density": [name for name in own["geometry"] if name.endswith("(log_rho)")],
        "recipe factors × depth": [name for name in own["recipe x geometry"] if name.endswith(" x log_L")],
        "recipe factors × head density": [name for name in own["recipe x geometry"] if name.endswith(" x log_rho")],
    }
    found = []
    for what, columns in asked.items():
        chosen = given | {what: [name for name in columns if frame[name].nunique() > 1]}
        f = block_f(frame, "log_gain", chosen)[what]
        shuffled = freedman_lane(frame, "log_gain", chosen, what, seed=seed)
        found.append(
            {
                "what": what,
                "columns": f.df_block,
                "residual_df": f.df_residual,
                "f": f.f,
                "p": f.p_value,
                "p_shuffled": shuffled.p_value,
                "gained": f.estimate,
            }
        )
    return pd.DataFrame(found)


def mean_traces(tables: Evidence, source: str) -> pd.Series:
    """Trace of the sheaf Laplacian, all heads, mean over layers and prompts, by model."""
    rows = tables.table("attention", source=source)
    rows = rows[(rows["variant"] == "exact") & (rows["head"] == "") & rows["trace"].notna()]
    return rows.groupby("model_id")["trace"].mean().astype("float64")


def curve_of(L: np.ndarray, y: np.ndarray, middle: float) -> tuple[float, float]:
    """Least squares of y = m (L/middle)^(−β): m and β, the best β between EDGES in steps of 0.01."""
    grid = np.linspace(*EDGES, 1001)
    basis = (L[None, :] / middle) ** -grid[:, None]
    m = basis @ y / np.square(basis).sum(axis=1)
    best = int(np.square(y - m[:, None] * basis).sum(axis=1).argmin())
    return float(m[best]), float(grid[best])

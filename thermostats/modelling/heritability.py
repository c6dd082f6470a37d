"""Is a log gain heritable beyond shape, size and source? λ along labs and families next to levels of sources.

y = Xβ + s + u + e, Var = σ² (ρ Z + λ K + (1 − λ) I); Z_ij is 1 where one source measured both models; K_ij is the share
of the path root, lab, family, model that they have in common: 0, 1/3, 2/3 or 1. The test of no descent is twice the
logarithm of the ratio of restricted likelihoods with and without λ, ρ free in both, and its p that of ½χ²₀ + ½χ²₁ (Self
and Liang 1987, doi:10.1080/01621459.1987.10478472).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import linalg, stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.many import Many
from thermostats.modelling.draws import Array
from thermostats.settings import coverage

LEAST = 3
"""Contrasts that columns must leave, and models beyond the labs."""
SHARES, SOURCES = np.linspace(0, 1, 21), np.array([0, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])
"""λ, and shares of sources in the whole, ρ/(1 + ρ), between which the likelihood is compared."""
TOLERANCE = 1e-9


def labs_and_families(rows: pd.DataFrame) -> Array:
    """K of models by `heritage` and `family`; a model whose family is not stated is its own."""
    lab = rows["heritage"].astype(str).to_numpy()
    stated = rows["family"].fillna("").astype(str)
    family = lab + " / " + stated.where(stated != "", rows["model_id"].astype(str)).to_numpy()
    alike = (lab[:, None] == lab).astype(np.float64) + (family[:, None] == family) + np.eye(len(lab))
    return np.asarray(alike / 3)


def heritabilities(rows: pd.DataFrame, outcomes: Array, columns: Sequence[str], *, level: float = 0.95) -> Many:
    """λ of every row of outcomes (study × model) beyond columns and sources, with p of none.

    The estimate is that of the largest restricted likelihood, the interval the λ that its ratio does not reject by χ²
    of one degree of freedom, both to 0.05. rows: heritage, family, model_id, source and the columns. Raises UsageError
    where labs or models are too few.
    """
    if not enough(rows, columns):
        raise UsageError(
            "too few models or labs for a share of descent",
            got=f"{len(rows)} models of {rows['heritage'].nunique()} labs, {len(columns)} columns",
            allowed=f"2 labs, {LEAST} models more than labs, {LEAST} more than columns",
        )
    likelihood, shares = _restricted(outcomes, _contrasts(_columns(rows, columns)), rows)
    best = likelihood.max(axis=1)
    by_share = np.stack([likelihood[:, shares == share].max(axis=1) for share in SHARES], axis=1)
    inside = best[:, None] - by_share <= stats.chi2.ppf(coverage(level), 1)
    ratio = best - by_share[:, 0]
    p = np.where(ratio > TOLERANCE, stats.chi2.sf(ratio, 1) / 2, 1.0)
    last = SHARES.size - 1
    return Many(
        SHARES[by_share.argmax(axis=1)], SHARES[inside.argmax(axis=1)], SHARES[last - inside[:, ::-1].argmax(axis=1)], p
    )


def enough(rows: pd.DataFrame, columns: Sequence[str]) -> bool:
    """Whether there are two labs, and 3 models more than labs and more than columns."""
    n, labs = len(rows), rows["heritage"].nunique()
    rank = int(np.linalg.matrix_rank(_columns(rows, columns)))
    return labs >= 2 and n - labs >= LEAST and n - rank >= LEAST


def _columns(rows: pd.DataFrame, columns: Sequence[str]) -> Array:
    return np.column_stack([np.ones(len(rows)), rows[list(columns)].to_numpy(np.float64)])


def _contrasts(x: Array) -> Array:
    """Orthonormal contrasts (n − rank × n) that no column moves."""
    u, s, _ = np.linalg.svd(x)
    return np.asarray(u[:, int((s > 1e-9 * s[0]).sum()) :].T)


def _restricted(outcomes: Array, contrasts: Array, rows: pd.DataFrame) -> tuple[Array, Array]:
    """Twice the restricted log likelihood, study × point, σ² at its maximum, and λ of each point."""
    source = rows["source"].astype(str).to_numpy()
    alike = (source[:, None] == source).astype(np.float64)
    descent, sources = (contrasts @ k @ contrasts.T for k in (labs_and_families(rows), alike))
    of_sources = SOURCES if np.unique(source).size > 1 else SOURCES[:1]
    points = [(share, rest) for share in SHARES for rest in of_sources]
    w, df = (outcomes @ contrasts.T).T, len(contrasts)
    values = []
    for share, rest in points:
        inherited = share * descent + (1 - share) * np.eye(df)
        root = np.linalg.cholesky(rest * sources + (1 - rest) * inherited)
        rss = np.square(linalg.solve_triangular(root, w, lower=True)).sum(axis=0)
        values.append(-df * np.log(rss / df) - 2 * np.log(np.diagonal(root)).sum())
    return np.stack(values, axis=1), np.array([share for share, _ in points])

"""Is a log gain heritable beyond shape and size? λ along labs and families, and a test of none for every rule.

K_ij is the share of the path root, lab, family, model that two models have in common: 0, 1/3, 2/3 or 1. The test is of
T = Σ_{i≠j} K_ij r_i r_j over residuals r of least squares: where models do not share what columns leave, every r may
have the other sign, however much labs differ in spread (Winkler et al. 2014, doi:10.1016/j.neuroimage.2014.01.060).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.draws import SEED, Array
from thermostats.modelling.lineage_likelihood import Restricted

LEAST = 3
"""Contrasts that columns must leave, and models beyond the labs."""
FLIPS = 4_000


@dataclass(frozen=True, kw_only=True)
class Heritability:
    """λ by restricted likelihood, where it is not rejected at 95%, and p of none by flipped signs."""

    estimate: float
    lower: float
    upper: float
    p_value: float
    n_models: int
    n_labs: int


def labs_and_families(rows: pd.DataFrame) -> Array:
    """K of models by `heritage` and `family`; a model whose family is not stated is its own."""
    lab = rows["heritage"].astype(str).to_numpy()
    stated = rows["family"].fillna("").astype(str)
    family = lab + " / " + stated.where(stated != "", rows["model_id"].astype(str)).to_numpy()
    alike = (lab[:, None] == lab).astype(np.float64) + (family[:, None] == family) + np.eye(len(lab))
    return np.asarray(alike / 3)


def heritability(rows: pd.DataFrame, columns: Sequence[str], outcome: str = "log_gain") -> Heritability:
    """λ of an outcome beyond columns. Raises UsageError where labs or models are too few for it."""
    labs, x = rows["heritage"].nunique(), _columns(rows, columns)
    if not enough(rows, columns):
        raise UsageError(
            "too few models or labs for a share of descent",
            got=f"{len(rows)} models of {labs} labs, {len(columns)} columns",
            allowed=f"2 labs, {LEAST} models more than labs, {LEAST} more than columns",
        )
    y, k = rows[outcome].to_numpy(np.float64), labs_and_families(rows)
    test = Restricted.of(y, x, k)
    low, high = test.interval()
    p = by_flipped_signs(y, x, k)
    return Heritability(estimate=test.estimate(), lower=low, upper=high, p_value=p, n_models=len(rows), n_labs=labs)


def enough(rows: pd.DataFrame, columns: Sequence[str]) -> bool:
    """Whether there are two labs, and 3 models more than labs and more than columns."""
    n, labs = len(rows), rows["heritage"].nunique()
    rank = int(np.linalg.matrix_rank(_columns(rows, columns)))
    return labs >= 2 and n - labs >= LEAST and n - rank >= LEAST


def _columns(rows: pd.DataFrame, columns: Sequence[str]) -> Array:
    return np.column_stack([np.ones(len(rows)), rows[list(columns)].to_numpy(np.float64)])


def by_flipped_signs(y: Array, x: Array, k: Array, *, flips: int = FLIPS, seed: int = SEED) -> float:
    """P(T ≥ the one at hand) with the signs of the residuals flipped at random and the columns taken off again."""
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    basis = u[:, s > 1e-9 * s[0]]
    r = y - basis @ (basis.T @ y)
    apart = k - np.diag(np.diagonal(k))
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (flips, y.size))
    flipped = np.concatenate([r[None], signs * r])
    flipped = flipped - (flipped @ basis) @ basis.T
    t = np.einsum("fi,fi->f", flipped @ apart, flipped)
    return float((1 + np.count_nonzero(t[1:] >= t[0] - 1e-12 * abs(t[0]))) / (1 + flips))

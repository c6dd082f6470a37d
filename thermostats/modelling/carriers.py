"""Rival carriers of what is inherited, compared by exact leave-one-out: which kind of kinship predicts a model best?

y = Xβ + u + e, u ~ N(0, λσ² K), K_ij = 1 where two models share the carrier (their lab, their tokenizer, …), e ~ N(0,
(1 − λ)σ²). With flat β and log σ, m(y | λ) = Γ(m/2) π^(−m/2) |V|^(−1/2) |XᵀV⁻¹X|^(−1/2) (yᵀPy)^(−m/2), m = n − p, P the
projection V⁻¹ − V⁻¹X(XᵀV⁻¹X)⁻¹XᵀV⁻¹; λ is uniform, by quadrature. Without fold f, m falls by |f|, |V||XᵀV⁻¹X| becomes
|V||XᵀV⁻¹X||P_ff|, and yᵀPy becomes yᵀPy − (Py)_fᵀ P_ff⁻¹ (Py)_f: nothing is fitted again, and nothing is approximated
but the integral over λ.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy import special

from thermostats.errors import UsageError
from thermostats.modelling.draws import Array

_X, _W = np.polynomial.legendre.leggauss(8)
NODES, WEIGHTS = (_X + 1) / 2, _W / 2
"""λ from 0 to 1 and how much each counts, together 1."""
NONE = "none"
LEVEL = 0.95


def kinship(labels: Sequence[Hashable]) -> Array:
    """K of models by what they carry; a model whose label is empty shares it with none."""
    held = np.array([f"={label}" if label else f"#{i}" for i, label in enumerate(labels)])
    return np.asarray((held[:, None] == held).astype(np.float64))


def density_by_fold(y: Array, x: Array, k: Array, folds: Sequence[Hashable]) -> dict[Hashable, float]:
    """log p(y_fold | y_rest) of every fold, over λ. Raises UsageError where a fold leaves too few models."""
    n, p = x.shape
    distinct = list(dict.fromkeys(folds))
    of_fold = np.array([distinct.index(fold) for fold in folds])
    order = np.argsort(of_fold, kind="stable")
    places = dict(zip(distinct, np.split(order, np.cumsum(np.bincount(of_fold))[:-1]), strict=True))
    least = min(n - at.size for at in places.values())
    if least <= p or np.linalg.matrix_rank(x) < p or len(places) < 2:
        raise UsageError("too few models to leave some out", got=f"{n} models, {p} columns, {len(places)} folds")
    projection, log_det = _projections(x.tobytes(), k.tobytes(), n)
    py = projection @ y
    rss = py @ y
    total = _over_shares(n - p, log_det, rss)
    errors = dict.fromkeys(places, math.nan)
    for size in {at.size for at in places.values()}:
        same = [fold for fold, at in places.items() if at.size == size]
        at = np.array([places[fold] for fold in same])
        held, part = projection[:, at[:, :, None], at[:, None, :]], py[:, at, None]
        less = (part * np.linalg.solve(held, part)).sum(axis=(2, 3))
        without = log_det[:, None] + np.linalg.slogdet(held)[1]
        rest = _over_shares(n - p - size, without, rss[:, None] - less)
        errors.update(zip(same, total - rest, strict=True))
    return {fold: float(value) for fold, value in errors.items()}


@lru_cache(maxsize=128)
def _projections(columns: bytes, kernel: bytes, n: int) -> tuple[Array, Array]:
    """P and log |V||XᵀV⁻¹X| at every node of λ, of columns and a kernel by their bytes."""
    x, k = np.frombuffer(columns).reshape(n, -1), np.frombuffer(kernel).reshape(n, n)
    lam = NODES[:, None, None]
    inverse = np.linalg.inv((1 - lam) * np.eye(n) + lam * k)
    wx = inverse @ x
    inner = x.T @ wx
    projection = inverse - wx @ np.linalg.solve(inner, np.swapaxes(wx, 1, 2))
    return np.asarray(projection, dtype=np.float64), np.asarray(
        np.linalg.slogdet(inner)[1] - np.linalg.slogdet(inverse)[1]
    )


def _over_shares(m: int, log_det: Array, rss: Array) -> Array:
    """log ∫ m(y | λ) dλ, of columns of numbers by node of λ."""
    each = math.lgamma(m / 2) - 0.5 * (m * np.log(math.pi * rss) + log_det)
    return np.asarray(special.logsumexp(each.T, b=WEIGHTS, axis=-1))


def predicted(
    y: Array, x: Array, carriers: Mapping[str, Sequence[Hashable]], folds: Sequence[Hashable]
) -> pd.DataFrame:
    """Log predictive density of every fold (rows) by every carrier and by none (columns)."""
    kernels = {NONE: np.eye(len(y))} | {name: kinship(labels) for name, labels in carriers.items()}
    return pd.DataFrame({name: density_by_fold(y, x, k, folds) for name, k in kernels.items()})


def leads(density: pd.DataFrame, carrier: str, clades: Mapping[Hashable, Hashable]) -> pd.DataFrame:
    """By how much a carrier predicts better than every rival: rival, lead, lower, upper, p.

    lead: difference of the summed log densities; interval and two-sided p by t over clades, whose models are not
    independent: standard error √(c var) of the c sums. clades: of every fold. A rival that predicts the same has p 1.
    """
    codes = pd.factorize(np.array([clades[fold] for fold in density.index]))[0]
    c, values = int(codes.max()) + 1, {name: density[name].to_numpy(np.float64) for name in density}
    reach, rows = float(special.stdtrit(c - 1, (1 + LEVEL) / 2)), []
    for rival in (name for name in values if name != carrier):
        d = np.bincount(codes, values[carrier] - values[rival], c)
        lead, se = float(d.sum()), float(np.sqrt(c * d.var(ddof=1)))
        p = 2 * float(special.stdtr(c - 1, -abs(lead) / se)) if se > 0 else 1.0
        rows.append((rival, lead, lead - reach * se, lead + reach * se, p))
    return pd.DataFrame(rows, columns=["rival", "lead", "lower", "upper", "p"])


def alike(carriers: Mapping[str, Sequence[Hashable]]) -> pd.DataFrame:
    """How nearly two carriers are one: pairs of models that share both, over pairs that share either (Jaccard)."""
    upper = {name: kinship(labels)[np.triu_indices(len(labels), 1)] > 0 for name, labels in carriers.items()}
    names, rows = list(upper), []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            both, either = int((upper[a] & upper[b]).sum()), int((upper[a] | upper[b]).sum())
            rows.append((a, b, int(upper[a].sum()), int(upper[b].sum()), both, both / either if either else math.nan))
    columns = ["carrier", "other", "pairs that share it", "pairs that share the other", "both", "both of either"]
    return pd.DataFrame(rows, columns=columns)

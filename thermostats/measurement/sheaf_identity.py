"""Identities of the sheaf Laplacian of attention, held against the dense operator δᵀδ built edge by edge.

Tr(L_F) = (Σ A − tr A)·‖W_V‖_F² for one head; the Laplacian of H heads is block-diagonal, so that traces add.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.measurement.sheaf import head_measures, printed_factor_trace, value_spectra


def dense_operator(A: NDArray[np.float64], W: NDArray[np.float64]) -> NDArray[np.float64]:
    """δᵀδ, H·n·d squared, on the stalks of all heads, of attention A (H × n × n) and value maps W (H × d_h × d).

    δ maps a token's stalk of head h to √w_ij (W^h x_i − W^h x_j) on edge {i, j}, w_ij = (A_ij + A_ji)/2.
    """
    (H, n, _), (_, d_h, d) = A.shape, W.shape
    rows = []
    for h, i in np.ndindex(H, n):
        for j in range(i):
            delta = np.zeros((d_h, H, n, d))
            weight = np.sqrt((A[h, i, j] + A[h, j, i]) / 2)
            delta[:, h, i], delta[:, h, j] = weight * W[h], -weight * W[h]
            rows.append(delta.reshape(d_h, -1))
    coboundary = np.vstack(rows)
    return np.asarray(coboundary.T @ coboundary)


def residuals(sizes: Sequence[tuple[int, int, int, int]], *, seed: int) -> pd.DataFrame:
    """Relative residual of every identity against the dense operator on one random example a size (n, H, d_h, d)."""
    rng, rows = np.random.default_rng(seed), []
    for n, H, d_h, d in sizes:
        A = np.tril(rng.exponential(size=(H, n, n)))
        A /= A.sum(axis=2, keepdims=True)
        W = rng.normal(size=(H, d_h, d))
        dense, spectra = dense_operator(A, W), value_spectra(W)
        total, by_formula = np.trace(dense), head_measures(A, spectra)["trace"]
        own = np.kron(np.eye(H), np.ones((n * d, n * d))) > 0
        traces = np.diag(dense).reshape(H, -1).sum(axis=1)
        rows.append(
            {
                "n": n,
                "H": H,
                "d_h": d_h,
                "d": d,
                "trace_of_the_dense_operator": total,
                "outside_the_blocks": np.abs(np.where(own, 0.0, dense)).max() / np.abs(dense).max(),
                "trace_by_formula": np.abs(by_formula / traces - 1).max(),
                "trace_as_printed": abs(printed_factor_trace(A, spectra) / total - 1),
                "traces_add": abs(by_formula.sum() / total - 1),
            }
        )
    return pd.DataFrame(rows)

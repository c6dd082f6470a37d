"""Bases of the heritage model's blocks: E[Σ_i f_b,i² / M] = 1 for every block b before it is scaled.

A block b contributes f_b (one value per model, in log gain). Grouping blocks are exchangeable effects, centred over
models, c·(u_lab(i) − mean), c² = 1/(1 − Σ_j (n_j/M)²); blocks of covariates are √(M/r)·Q z with Q an orthonormal basis
of rank r of the centred columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thermostats.modelling.inference.draws import Array

Integers = NDArray[np.int64]


def lab_basis(lab: Integers) -> Array:
    """Centred indicators of groups, M × groups, scaled to unit expected variance of exchangeable effects."""
    indicators = np.eye(int(lab.max()) + 1)[lab]
    shares = indicators.mean(axis=0)
    return np.asarray((indicators - shares) / np.sqrt(1 - np.square(shares).sum()))


def scaled_basis(columns: Array) -> Array:
    """√(M/r)·Q, Q an orthonormal basis of the centred, standardised columns; rank 0 for columns without variation."""
    centred = columns - columns.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    kept = norms > 1e-9 * (1 + np.abs(columns).max())
    if not kept.any():
        return np.empty((columns.shape[0], 0))
    u, s, _ = np.linalg.svd(centred[:, kept] / norms[kept], full_matrices=False)
    q = u[:, s > 1e-8 * s[0]]
    q = q * np.sign(q[np.abs(q).argmax(axis=0), np.arange(q.shape[1])])
    return np.ascontiguousarray(q * np.sqrt(columns.shape[0] / q.shape[1]))

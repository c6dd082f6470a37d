"""Largest singular value of a matrix too large for a full SVD: Golub–Kahan–Lanczos with a verified residual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, eigh_tridiagonal

from thermostats.measurement.checkpoint import decode

Matrix = NDArray[Any]
TOLERANCE = 2.5e-7
BLOCK_BYTES = 1 << 20
RESIDENT_BYTES = 80_000_000
MAX_STEPS = 400
CHECK_EVERY = 5


@dataclass(frozen=True)
class Norms:
    """Spectral and Frobenius norm of a matrix; `steps` Lanczos steps, 0 where the dense fallback was needed."""

    spectral: float
    frobenius: float
    steps: int = 0

    @property
    def stable_rank(self) -> float:
        """‖W‖_F² / σ_max², between 1 and the rank; NaN for a zero matrix."""
        return (self.frobenius / self.spectral) ** 2 if self.spectral > 0 else float("nan")


def norms(stored: Matrix, *, tolerance: float = TOLERANCE, seed: int = 0) -> Norms:
    """σ_max(W) and ‖W‖_F of a matrix (m × n), as stored (bfloat16 as 16-bit words), in row blocks.

    Golub–Kahan bidiagonalisation W V = U B, Wᵀ U = V Bᵀ + β v e_kᵀ from a random start; the right vectors are
    reorthogonalised in full, which suffices (Simon & Zha 2000, doi 10.1137/S1064827597327309), so that one pass over
    the rows gives both products. A Ritz value θ = σ² only bounds λ_max from below; it is accepted when the residual
    r = ‖WᵀW v − θ v‖, recomputed from the weights in float64, makes min(r, 2 r²/gap) / (2θ) ≤ `tolerance`. Where that
    is not reached, the Gram matrix of the shorter side is diagonalised instead.

    Both norms are NaN where a weight is not finite.
    """
    matrix = _resident(stored)
    frobenius = _frobenius(matrix)
    if not np.isfinite(frobenius) or frobenius == 0:
        return Norms(0.0 if frobenius == 0 else float("nan"), frobenius)
    found = _golub_kahan(matrix, tolerance, seed)
    if found is None:
        return Norms(_dense(matrix), frobenius)
    return Norms(found[0], frobenius, found[1])


def row_blocks(matrix: Matrix, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, Matrix]]:
    """Row slices of a stored matrix with their numbers as float32 or float64."""
    rows = max(1, block_bytes // max(1, 4 * matrix.shape[1]))
    for first in range(0, matrix.shape[0], rows):
        part = slice(first, min(first + rows, matrix.shape[0]))
        yield part, decode(matrix[part])


def _resident(stored: Matrix) -> Matrix:
    """The matrix, or its transpose where that lies row by row; decoded at once if that fits."""
    matrix = stored.T if stored.strides[0] < stored.strides[1] else stored
    if matrix.dtype in (np.float32, np.float64) or matrix.size * 4 > RESIDENT_BYTES:
        return matrix
    whole = np.empty(matrix.shape, np.float32)
    for part, block in row_blocks(matrix):
        whole[part] = block
    return whole


def _frobenius(matrix: Matrix) -> float:
    total = 0.0
    for _, block in row_blocks(matrix):
        total += float(np.einsum("ij,ij->i", block, block).sum(dtype=np.float64))
    return float(np.sqrt(total))


def _golub_kahan(matrix: Matrix, tolerance: float, seed: int) -> tuple[float, int] | None:
    """σ_max and the steps taken; None where `tolerance` is not reached."""
    m, n = matrix.shape
    dtype: type[np.floating[Any]] = np.float64 if matrix.dtype == np.float64 else np.float32
    limit = min(m, n, MAX_STEPS)
    start = np.random.default_rng(seed).standard_normal(n)
    right: Matrix = np.empty((limit + 1, n), dtype)
    right[0] = start / np.linalg.norm(start)
    u: Matrix = np.zeros(m, dtype)
    alphas: list[float] = []
    betas = [0.0]
    inner = tolerance
    for k in range(limit):
        z: Matrix = np.zeros(n, dtype)
        u *= -betas[k]
        for part, block in row_blocks(matrix):
            u[part] += block @ right[k]
            z += u[part] @ block
        alpha = float(np.linalg.norm(u))
        if alpha > 0:
            u /= alpha
            z /= alpha
        z -= alpha * right[k]
        for _ in range(2):
            z -= (right[: k + 1] @ z) @ right[: k + 1]
        beta = float(np.linalg.norm(z))
        alphas.append(alpha)
        betas.append(beta)
        exhausted = k + 1 == limit or beta <= 1e-6 * max(alphas)
        if exhausted or (k + 1) % CHECK_EVERY == 0:
            theta, vector, residual, gap = _ritz(alphas, betas)
            if exhausted or _bound(theta, residual, gap) <= inner:
                sigma, error = _verified(matrix, vector @ right[: k + 1], gap)
                if error <= tolerance:
                    return sigma, k + 1
                if exhausted:
                    return None
                inner /= 4
        right[k + 1] = z / beta if beta > 0 else 0.0
    return None


def _ritz(alphas: list[float], betas: list[float]) -> tuple[float, Matrix, float, float]:
    """Largest Ritz value θ of WᵀW, its vector in the Lanczos basis, its residual norm and the gap to the next one.

    BᵀB is tridiagonal with diagonal α_k² + β_k² and off-diagonal α_k β_(k+1), where β_1 = 0.
    """
    a, b = np.asarray(alphas), np.asarray(betas)
    if a.size == 1:
        return float(a[0] ** 2), np.ones(1), float(a[0] * b[1]), 0.0
    values, vectors = eigh_tridiagonal(
        a**2 + b[:-1] ** 2, a[:-1] * b[1:-1], select="i", select_range=(a.size - 2, a.size - 1)
    )
    residual = a[-1] * b[-1] * abs(vectors[-1, 1])
    return float(values[1]), vectors[:, 1], float(residual), float(values[1] - values[0])


def _bound(theta: float, residual: float, gap: float) -> float:
    """Relative error of σ = √θ: |λ − θ| ≤ r, and ≤ r²/gap (Kato–Temple) with half the gap that the Ritz values show."""
    if theta <= 0:
        return float("inf")
    quadratic = 2 * residual**2 / gap if gap > 0 else float("inf")
    return min(residual, quadratic) / (2 * theta)


def _verified(matrix: Matrix, vector: Matrix, gap: float) -> tuple[float, float]:
    """Rayleigh quotient of `vector` and the bound on its error, from the weights in float64."""
    x: Matrix = vector.astype(np.float64)
    x /= np.linalg.norm(x)
    theta = 0.0
    gram: Matrix = np.zeros_like(x)
    for _, block in row_blocks(matrix):
        wide = block.astype(np.float64)
        product = wide @ x
        theta += float(product @ product)
        gram += product @ wide
    return float(np.sqrt(theta)), _bound(theta, float(np.linalg.norm(gram - theta * x)), gap)


def _dense(matrix: Matrix) -> float:
    """σ_max from the Gram matrix of the shorter side, accumulated in float64."""
    rows = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    gram: Matrix = np.zeros((rows.shape[1], rows.shape[1]))
    for _, block in row_blocks(rows):
        wide = block.astype(np.float64)
        gram += wide.T @ wide
    last = gram.shape[0] - 1
    return float(np.sqrt(max(0.0, eigh(gram, eigvals_only=True, subset_by_index=[last, last], overwrite_a=True)[0])))

"""Largest singular value of a matrix too large for a full SVD: block Lanczos with a verified residual."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from thermostats.measurement.checkpoint import decode

Matrix = NDArray[Any]
TOLERANCE = 2.5e-7
BLOCK_BYTES = 1 << 19
RESIDENT_BYTES = 80_000_000
SMALL = 64
"""Shorter side up to which the Gram matrix is diagonalised at once."""
WIDTH = 4
"""Vectors in a block."""
MAX_STEPS = 100


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

    Block Lanczos on WᵀW, the right half of Golub–Kahan bidiagonalisation, with full reorthogonalisation; one pass over
    the rows gives both products. A Ritz value θ = σ² only bounds λ_max from below; it is accepted when the residual
    r = ‖WᵀW v − θ v‖, recomputed from the weights in float64, makes min(r, 2 r²/gap) / (2θ) ≤ `tolerance`. A residual
    cannot tell σ_max from σ_2 where the start has next to nothing of the first singular vector, and a single vector
    does not see that two values lie close together: both happened in trials (an error of 2 %), with a random start of
    four vectors neither did. Where the bound is not reached, and for a short side up to `SMALL`, the Gram matrix of the
    shorter side is diagonalised in float64 instead.

    Both norms are NaN where a weight is not finite.
    """
    matrix = _by_row(resident(stored))
    frobenius = _frobenius(matrix)
    if not np.isfinite(frobenius):
        return Norms(float("nan"), float("nan"))
    if frobenius == 0:
        return Norms(0.0, 0.0)
    found = _block_lanczos(matrix, tolerance, seed) if min(matrix.shape) > SMALL else None
    if found is None:
        return Norms(_dense(matrix), frobenius)
    return Norms(found[0], frobenius, found[1])


def row_blocks(matrix: Matrix) -> Iterator[tuple[slice, Matrix]]:
    """Row slices of a stored matrix with their numbers as float32 or float64; what is too large is let go again."""
    rows = max(1, BLOCK_BYTES // max(1, 4 * matrix.shape[1]))
    for first in range(0, matrix.shape[0], rows):
        part = slice(first, min(first + rows, matrix.shape[0]))
        yield part, decode(matrix[part])
        if matrix.size * 4 > RESIDENT_BYTES and first // rows % 16 == 15:
            release(matrix)


def resident(stored: Matrix) -> Matrix:
    """The matrix decoded at once if it fits in `RESIDENT_BYTES`, else as stored."""
    if stored.dtype in (np.float32, np.float64) or stored.size * 4 > RESIDENT_BYTES:
        return stored
    by_row = _by_row(stored)
    whole = np.empty(by_row.shape, np.float32)
    for part, block in row_blocks(by_row):
        whole[part] = block
    release(stored)
    return whole if by_row is stored else whole.T


def _by_row(matrix: Matrix) -> Matrix:
    """The matrix, or its transpose where that is what lies row by row."""
    return matrix.T if matrix.strides[0] < matrix.strides[1] else matrix


def release(matrix: Matrix) -> None:
    """Give the pages of a mapped file back; they are read again when needed."""
    base: Any = matrix
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def _frobenius(matrix: Matrix) -> float:
    total = 0.0
    for _, block in row_blocks(matrix):
        total += float(np.einsum("ij,ij->i", block, block).sum(dtype=np.float64))
    return float(np.sqrt(total))


def _block_lanczos(matrix: Matrix, tolerance: float, seed: int) -> tuple[float, int] | None:
    """σ_max and the steps taken; None where `tolerance` is not reached."""
    n = matrix.shape[1]
    dtype: type[np.floating[Any]] = np.float64 if matrix.dtype == np.float64 else np.float32
    steps = min(MAX_STEPS, min(matrix.shape) // WIDTH)
    basis: Matrix = np.empty(((steps + 1) * WIDTH, n), dtype)
    basis[:WIDTH] = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, WIDTH)))[0].T
    T = np.zeros(((steps + 1) * WIDTH, (steps + 1) * WIDTH))
    inner, check, before = tolerance, 2, (1, 1.0)
    for k in range(1, steps + 1):
        last, known = slice((k - 1) * WIDTH, k * WIDTH), basis[: k * WIDTH]
        z = _gram_product(matrix, basis[last])
        for _ in range(2):
            part = z @ known.T
            T[last, : k * WIDTH] += part
            z -= part @ known
        following, L = _orthonormal(z, known, float(T[0, 0]))
        if k in (check, steps):
            theta, vector, gap = _ritz(T[: k * WIDTH, : k * WIDTH])
            bound = _bound(theta, float(np.linalg.norm(vector[-WIDTH:] @ L)), gap)
            if bound <= inner or k == steps:
                sigma, error = _verified(matrix, vector @ known, gap)
                if error <= tolerance:
                    return sigma, k
                inner /= 4
            check, before = _next_check(k, bound, before, inner), (k, bound)
        basis[k * WIDTH : (k + 1) * WIDTH] = following
    return None


def _gram_product(matrix: Matrix, vectors: Matrix) -> Matrix:
    """V Wᵀ W for the vectors in rows (b × n), in one pass over the matrix."""
    product: Matrix = np.zeros((vectors.shape[1], vectors.shape[0]), vectors.dtype)
    for _, block in row_blocks(matrix):
        product += block.T @ (block @ vectors.T)
    return np.ascontiguousarray(product.T)


def _orthonormal(z: Matrix, known: Matrix, scale: float) -> tuple[Matrix, Matrix]:
    """Z = L Q, the rows of Q orthonormal and orthogonal to `known`, to which Z is so up to rounding at `scale`.

    By Cholesky; where rows of Z are nearly dependent or little is left of them, as when a space is exhausted, by QR and
    a second round of orthogonalisation.
    """
    try:
        L = np.linalg.cholesky(z @ z.T)
        if L.diagonal().min() > max(0.05 * L.diagonal().max(), 0.01 * scale):
            return np.linalg.inv(L) @ z, L
    except np.linalg.LinAlgError:
        pass  # not positive definite to rounding: the rows are dependent
    z = z - (z @ known.T) @ known
    Q, R = np.linalg.qr(z.T)
    Q -= known.T @ (known @ Q)
    return np.linalg.qr(Q)[0].T, R.T


def _next_check(k: int, bound: float, before: tuple[int, float], wanted: float) -> int:
    """Step at which the bound, falling on as it fell since the last check, reaches what is wanted."""
    fallen = np.log(before[1] / bound) / (k - before[0]) if 0 < bound < before[1] else 0.0
    wait = np.log(max(bound / wanted, 1.0)) / fallen if fallen > 0 else 2.0
    return k + int(np.clip(np.ceil(wait), 1, max(2, k // 2)))


def _ritz(T: Matrix) -> tuple[float, Matrix, float]:
    """Largest Ritz value θ of WᵀW, its vector in the basis, and the gap to the next one, from T = Qᵀ WᵀW Q."""
    size = T.shape[0]
    values, vectors = eigh(T, lower=True, subset_by_index=[size - 2, size - 1], check_finite=False)
    return float(values[1]), vectors[:, 1], float(values[1] - values[0])


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

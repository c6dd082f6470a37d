"""Spectral and Frobenius norm of a stored matrix, in row blocks: ARPACK with a verified residual."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermostats.measurement.checkpoint import decode

Matrix = NDArray[Any]
TOLERANCE = 5e-7
"""Bound on the relative error of a spectral norm that is accepted."""
BLOCK_BYTES = 1 << 19
RESIDENT_BYTES = 80_000_000
SMALL = 64
"""Shorter side up to which the Gram matrix is diagonalised at once."""
RESTARTS = 30


@dataclass(frozen=True)
class Norms:
    """Spectral and Frobenius norm of a matrix.

    `bound` is the relative error that the residual of the singular vector allows, 0 where the matrix was diagonalised.
    """

    spectral: float
    frobenius: float
    bound: float = 0.0

    @property
    def stable_rank(self) -> float:
        """‖W‖_F² / σ_max², between 1 and the rank; NaN for a zero matrix."""
        return (self.frobenius / self.spectral) ** 2 if self.spectral > 0 else float("nan")


def norms(stored: Matrix, *, seed: int = 0) -> Norms:
    """σ_max(W) and ‖W‖_F of a matrix (m × n), as stored (bfloat16 as 16-bit words), in row blocks.

    The two largest eigenvalues θ = σ² of WᵀW by the implicitly restarted Lanczos method (ARPACK), one pass over the
    rows a product, in the weights' own precision (float32 for halves). A Ritz value only bounds λ_max from below, so
    it is accepted when the residual r = ‖WᵀW v − θ v‖, computed from the weights in float64, makes
    min(r, 2 r²/gap) / (2θ) ≤ `TOLERANCE`; the Rayleigh quotient in float64 is what is returned, so that the error
    of the vector enters squared. Two values are asked for, from a random start, lest close values or a start without
    the first singular vector hide σ_max behind σ_2. Where the bound is not reached, and for a short side up to
    `SMALL`, the Gram matrix of the shorter side is diagonalised in float64 instead.

    Both norms are NaN where a weight is not finite.
    """
    matrix = _by_row(resident(stored))
    frobenius = _frobenius(matrix)
    if not np.isfinite(frobenius):
        return Norms(float("nan"), float("nan"))
    if frobenius == 0:
        return Norms(0.0, 0.0)
    iterated = _largest(matrix, seed) if min(matrix.shape) > SMALL else None
    if iterated is None:
        return Norms(_dense(matrix), frobenius)
    return Norms(iterated[0], frobenius, iterated[1])


def row_blocks(matrix: Matrix) -> Iterator[tuple[slice, Matrix]]:
    """Row slices of a stored matrix with their numbers as float32 or float64; what is too large is let go again."""
    rows = _rows_at_once(matrix)
    for first in range(0, matrix.shape[0], rows):
        part = slice(first, min(first + rows, matrix.shape[0]))
        yield part, decode(matrix[part])
        if matrix.size * 4 > RESIDENT_BYTES and first // rows % 16 == 15:
            release(matrix)


def _rows_at_once(matrix: Matrix) -> int:
    return max(1, int(BLOCK_BYTES // max(1, 4 * matrix.shape[1])))


def resident(stored: Matrix) -> Matrix:
    """The matrix decoded at once, its rows one after the other, if it fits in `RESIDENT_BYTES`, else as stored."""
    by_row = _by_row(stored)
    plain = stored.dtype in (np.float32, np.float64)
    if (plain and by_row.flags.c_contiguous) or stored.size * max(4, stored.itemsize) > RESIDENT_BYTES:
        return stored
    decoded = np.empty(by_row.shape, stored.dtype if plain else np.float32)
    for part, block in row_blocks(by_row):
        decoded[part] = block
    release(stored)
    return decoded if by_row is stored else decoded.T


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
        total += float(np.vecdot(block, block).sum(dtype=np.float64))
    return float(np.sqrt(total))


def _largest(matrix: Matrix, seed: int) -> tuple[float, float] | None:
    """σ_max and the bound on its relative error; None where `TOLERANCE` is not reached."""
    n = matrix.shape[1]
    dtype: type[np.floating[Any]] = np.float64 if matrix.dtype == np.float64 else np.float32
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh  # noqa: PLC0415 - slow to load

    gram = LinearOperator((n, n), matvec=lambda x: _gram_product(matrix, x.ravel()), dtype=dtype)
    try:
        values, vectors = eigsh(
            gram, k=2, which="LA", v0=_start(n, seed).astype(dtype), maxiter=RESTARTS, tol=TOLERANCE
        )
    except ArpackNoConvergence:
        return None
    sigma, bound = _verified(matrix, vectors[:, -1], float(values[-1] - values[0]))
    return (sigma, bound) if bound <= TOLERANCE else None


@lru_cache(maxsize=8)
def _start(n: int, seed: int) -> Matrix:
    """A random vector of n normal numbers."""
    return np.random.default_rng(seed).standard_normal(n)


def _gram_product(matrix: Matrix, vector: Matrix) -> Matrix:
    """WᵀW v in one pass over the matrix."""
    product: Matrix = np.zeros_like(vector)
    for _, block in row_blocks(matrix):
        product += (block @ vector) @ block
    return product


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
    rows = (_rows_at_once(matrix) + 1) // 2
    buffer: Matrix = np.empty((rows, x.size))
    for _, block in row_blocks(matrix):
        for half in (block[:rows], block[rows:]):
            wide = buffer[: half.shape[0]]
            np.copyto(wide, half)
            product = wide @ x
            theta += float(product @ product)
            gram += product @ wide
    return float(np.sqrt(theta)), _bound(theta, float(np.linalg.norm(gram - theta * x)), gap)


def _dense(matrix: Matrix) -> float:
    """σ_max from the Gram matrix of the shorter side, accumulated in float64."""
    from scipy.linalg import eigh  # noqa: PLC0415 - as above

    rows = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    gram: Matrix = np.zeros((rows.shape[1], rows.shape[1]))
    for _, block in row_blocks(rows):
        wide = block.astype(np.float64)
        gram += wide.T @ wide
    last = gram.shape[0] - 1
    largest = eigh(gram, eigvals_only=True, subset_by_index=[last, last], driver="evx", overwrite_a=True)[0]
    return float(np.sqrt(max(0.0, largest)))

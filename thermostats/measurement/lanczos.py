"""Largest singular value of a matrix too large for a full SVD: block Lanczos with a verified residual."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dsyevr, dtrtri

from thermostats.measurement.checkpoint import decode

Matrix = NDArray[Any]
TOLERANCE = 5e-7
BLOCK_BYTES = 1 << 19
RESIDENT_BYTES = 80_000_000
SMALL = 64
"""Shorter side up to which the Gram matrix is diagonalised at once."""
WIDTH = 4
"""Vectors in a block: two would be a quarter faster, but missed the largest in 7 of 27,000 trials of close values."""
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


def norms(stored: Matrix, *, seed: int = 0) -> Norms:
    """σ_max(W) and ‖W‖_F of a matrix (m × n), as stored (bfloat16 as 16-bit words), in row blocks.

    Block Lanczos on WᵀW, the right half of Golub–Kahan bidiagonalisation, with full reorthogonalisation; one pass over
    the rows gives both products. A Ritz value θ = σ² only bounds λ_max from below; it is accepted when the residual
    r = ‖WᵀW v − θ v‖, recomputed from the weights in float64, makes min(r, 2 r²/gap) / (2θ) ≤ `TOLERANCE`. A residual
    cannot tell σ_max from σ_2 where the start has next to nothing of the first singular vector, and a single vector
    does not see that two values lie close together: both happened in trials (an error of 2%), with a random start of
    four vectors neither did: all four have to have next to nothing of it at once. Products and basis are in the
    weights' own precision (float32 for halves); the projected problem, the Rayleigh quotient that is returned and its
    residual are in float64, so that the error of the vector enters squared. Where the bound is not reached, and for a
    short side up to `SMALL`, the Gram matrix of the shorter side is diagonalised in float64 instead.

    Both norms are NaN where a weight is not finite.
    """
    matrix = _by_row(resident(stored))
    frobenius = _frobenius(matrix)
    if not np.isfinite(frobenius):
        return Norms(float("nan"), float("nan"))
    if frobenius == 0:
        return Norms(0.0, 0.0)
    found = _block_lanczos(matrix, seed) if min(matrix.shape) > SMALL else None
    if found is None:
        return Norms(_dense(matrix), frobenius)
    return Norms(found[0], frobenius, found[1])


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
    whole = np.empty(by_row.shape, stored.dtype if plain else np.float32)
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
        total += float(np.vecdot(block, block).sum(dtype=np.float64))
    return float(np.sqrt(total))


def _block_lanczos(matrix: Matrix, seed: int) -> tuple[float, int] | None:
    """σ_max and the steps taken; None where `TOLERANCE` is not reached."""
    n = matrix.shape[1]
    dtype: type[np.floating[Any]] = np.float64 if matrix.dtype == np.float64 else np.float32
    steps = min(MAX_STEPS, min(matrix.shape) // WIDTH)
    basis: Matrix = np.empty(((steps + 1) * WIDTH, n), dtype)
    basis[:WIDTH] = _start(n, seed)
    T: Matrix = np.empty(((steps + 1) * WIDTH, (steps + 1) * WIDTH))
    inner, check, before = TOLERANCE, 2, (1, 1.0)
    for k in range(1, steps + 1):
        end = k * WIDTH
        last, known = slice(end - WIDTH, end), basis[:end]
        z = _gram_product(matrix, basis[last])
        # first against the two blocks that z is not orthogonal to, lest what the others lack in orthogonality grows
        recent = slice(max(0, end - 2 * WIDTH), end)
        within = z @ basis[recent].T
        z -= within @ basis[recent]
        rounding = z @ known.T
        z -= rounding @ known
        T[last, :end] = rounding
        T[last, recent] += within
        following, L = _orthonormal(z, known, float(T[0, 0]))
        if k in (check, steps):
            theta, vector, gap = _ritz(T[:end, :end])
            bound = _bound(theta, float(np.linalg.norm(vector[-WIDTH:] @ L)), gap)
            if bound <= inner or k == steps:
                sigma, error = _verified(matrix, vector.astype(dtype) @ known, gap)
                if error <= TOLERANCE:
                    return sigma, k
                inner /= 4
            check, before = _next_check(k, bound, before, inner), (k, bound)
        basis[end : end + WIDTH] = following
    return None


@lru_cache(maxsize=8)
def _start(n: int, seed: int) -> Matrix:
    """Random orthonormal rows (WIDTH × n)."""
    return np.ascontiguousarray(np.linalg.qr(np.random.default_rng(seed).standard_normal((n, WIDTH)))[0].T)


def _gram_product(matrix: Matrix, vectors: Matrix) -> Matrix:
    """V Wᵀ W for the vectors in rows (b × n), in one pass over the matrix."""
    product: Matrix = np.zeros_like(vectors)
    for _, block in row_blocks(matrix):
        product += (vectors @ block.T) @ block
    return product


def _orthonormal(z: Matrix, known: Matrix, scale: float) -> tuple[Matrix, Matrix]:
    """Z = L Q, the rows of Q orthonormal and orthogonal to `known`, to which Z is so up to rounding at `scale`.

    By Cholesky, and a second round of it and of orthogonalisation where rows of Z are close to dependent or little is
    left of them; by QR where they are dependent to rounding, as when a space is exhausted.
    """
    L, least = np.eye(WIDTH), 0.01 * scale
    Q = z
    for _ in range(2):
        factor, dependent = dpotrf((Q @ Q.T).astype(np.float64), lower=1)
        if dependent:
            break
        Q, L = dtrtri(factor, lower=1)[0].astype(z.dtype) @ Q, L @ factor
        diagonal = factor.diagonal()
        if diagonal.min() > max(0.05 * diagonal.max(), least):
            return Q, L
        Q, least = Q - (Q @ known.T) @ known, 0.5
    z = z - (z @ known.T) @ known
    Q, R = np.linalg.qr(z.T)
    Q -= known.T @ (known @ Q)
    return np.linalg.qr(Q)[0].T, R.T


def _next_check(k: int, bound: float, before: tuple[int, float], wanted: float) -> int:
    """Step at which the bound, falling a little faster than it fell since the last check, reaches what is wanted."""
    fallen = math.log(before[1] / bound) / (k - before[0]) if 0 < bound < before[1] else 0.0
    wait = math.log(max(bound / wanted, 1.0)) / fallen if fallen > 0 else 2.0
    return k + min(max(1, math.ceil(0.8 * wait)), k if k < 12 else k // 3)


def _ritz(T: Matrix) -> tuple[float, Matrix, float]:
    """Largest Ritz value θ of WᵀW, its vector in the basis, and the gap to the next one, from T = Qᵀ WᵀW Q."""
    size = T.shape[0]
    found = dsyevr(T.T, range="I", il=size - 1, iu=size, lwork=26 * size, liwork=10 * size)  # T's lower triangle
    values, vectors = found[0], found[1]
    if found[4] != 0:
        raise np.linalg.LinAlgError(f"eigenvalues of the projected matrix: dsyevr gave {found[4]}")
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
    rows = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    gram: Matrix = np.zeros((rows.shape[1], rows.shape[1]))
    for _, block in row_blocks(rows):
        wide = block.astype(np.float64)
        gram += wide.T @ wide
    last = gram.shape[0] - 1
    return float(np.sqrt(max(0.0, eigh(gram, eigvals_only=True, subset_by_index=[last, last], overwrite_a=True)[0])))

"""Restricted and full likelihood of a line with errors that follow a tree, maximised without priors.

y = Xβ + u + e, Var = σ² ((1 − λ) I + λ K) + diag(error²), K of unit diagonal on trees whose models all stand at the
same height; λ is Pagel's (1999, doi:10.1038/44766), the share of descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import optimize, stats

from thermostats.errors import UsageError
from thermostats.modelling.draws import Array
from thermostats.settings import coverage

REML, ML = "REML", "ML"
GRID = np.concatenate([np.linspace(0, 0.9, 19), [0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999]])
"""λ that a maximum is sought between, and of the test."""
TOLD, WANTED, TRIED = 0.6, 0.8, 400
"""Share of descent that a study should tell from none, how often, and simulations a size."""
TIMES = (1, 2, 3, 4, 6, 8, 12, 18, 27, 40)
MOST = 1_000
SIMULATIONS = 10_000
"""Data sets simulated for the null distribution."""


@dataclass(frozen=True, kw_only=True)
class Maximum:
    """A maximum of the likelihood."""

    method: str
    parameter: float
    """λ."""
    beta: Array
    se: Array
    sigma: float
    """As R's `gls` gives it: of REML by n − p, of ML by n."""
    log_likelihood: float


def line(y: Array, x: Array, v: Array, *, method: str = REML, parameter: float = math.nan) -> Maximum:
    """Generalised least squares with Var = σ² v, σ² free.

    Standard errors are those of R's `gls`: σ² by n − p.
    """
    n, p = x.shape
    root = np.linalg.cholesky(v)
    wx, wy = np.linalg.solve(root, x), np.linalg.solve(root, y)
    q, r = np.linalg.qr(wx)
    beta = np.linalg.solve(r, q.T @ wy)
    rss = float(np.square(wy - wx @ beta).sum())
    df = n - p if method == REML else n
    log_det = 2 * np.log(np.diagonal(root)).sum()
    value = -0.5 * (df * (math.log(2 * math.pi * rss / df) + 1) + log_det)
    if method == REML:
        value -= np.log(np.abs(np.diagonal(r))).sum()
    inverse = np.linalg.inv(r)
    return Maximum(
        method=method,
        parameter=parameter,
        beta=beta,
        se=np.sqrt(np.square(inverse).sum(axis=1) * rss / (n - p)),
        sigma=math.sqrt(rss / df),
        log_likelihood=float(value),
    )


def pagel(y: Array, x: Array, k: Array, *, method: str = REML) -> Maximum:
    """The maximum over λ from 0 to 1 of the line with Var = σ² ((1 − λ) I + λ K)."""
    eye = np.eye(len(y))

    def at(lam: float) -> Maximum:
        return line(y, x, (1 - lam) * eye + lam * k, method=method, parameter=lam)

    return _best(at, np.append(GRID, 1.0))


def ancestors(y: Array, x: Array, k: Array, models: Sequence[int]) -> Array:
    """Outcome expected at every node of a tree at the mean columns, and of the models themselves what was measured.

    E(u_node | y) = λ K_node,models V⁻¹ (y − Xβ) with λ and β of the restricted likelihood. k: of all nodes; models: the
    places of the models among them.
    """
    at = np.asarray(models)
    covariance = k[np.ix_(at, at)]
    made = pagel(y, x, covariance)
    v = (1 - made.parameter) * np.eye(len(y)) + made.parameter * covariance
    expected = x.mean(axis=0) @ made.beta + made.parameter * k[:, at] @ np.linalg.solve(v, y - x @ made.beta)
    expected[at] = y
    return np.asarray(expected)


def _best(at: Callable[[float], Maximum], grid: Array) -> Maximum:
    values = []
    for t in grid:
        try:
            values.append(at(float(t)).log_likelihood)
        except np.linalg.LinAlgError:  # models that do not differ by descent, at λ near 1
            values.append(-math.inf)
    k = int(np.argmax(values))
    low, high = grid[max(k - 1, 0)], grid[min(k + 1, grid.size - 1)]
    inner = optimize.minimize_scalar(
        lambda t: -at(float(t)).log_likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-10}
    )
    return max((at(float(inner.x)), at(float(grid[k]))), key=lambda candidate: candidate.log_likelihood)


@dataclass(frozen=True, kw_only=True)
class Restricted:
    """The restricted likelihood of λ in its own axes: w_s ~ N(0, σ² (1 − λ + λ μ_s)), s = 1 … n − p."""

    mu: Array
    """Eigenvalues of K between contrasts that X does not explain."""
    w: Array
    """Outcomes along them, … × (n − p)."""

    @classmethod
    def of(cls, y: Array, x: Array, k: Array) -> Restricted:
        """Of outcomes (… × n), columns and a covariance; UsageError where no contrast is left."""
        u, s, _ = np.linalg.svd(x)
        free = u[:, int((s > 1e-9 * s[0]).sum()) :]
        if free.shape[1] < 2:
            raise UsageError("too few models for a share of descent", got=f"{len(x)} models, {x.shape[1]} columns")
        mu, axes = np.linalg.eigh(free.T @ k @ free)
        return cls(mu=np.maximum(mu, 0.0), w=np.asarray(y @ free @ axes))

    def profile(self, w: Array | None = None) -> Array:
        """Twice the log likelihood at every λ of `GRID` over that at 0, … × grid."""
        square = np.square(self.w if w is None else w)
        variance = 1 - GRID[:, None] + GRID[:, None] * self.mu
        df = self.mu.size
        rss = square @ (1 / variance).T
        return np.asarray(df * np.log(square.sum(axis=-1, keepdims=True) / rss) - np.log(variance).sum(axis=1))

    def statistic(self) -> Array:
        """Twice the log likelihood ratio of the best λ over 0, for every set of outcomes."""
        return np.asarray(self.profile().max(axis=-1))

    def null(self, seed: int, size: int = SIMULATIONS) -> Array:
        """Draws of the statistic where λ is 0: exact for normal outcomes.

        Crainiceanu and Ruppert 2004, doi:10.1111/j.1467-9868.2004.00438.x.
        """
        w = np.random.default_rng(seed).standard_normal((size, self.mu.size))
        return np.asarray(self.profile(w).max(axis=-1))

    def p_value(self, seed: int) -> float:
        """P(statistic ≥ the one at hand | λ = 0), of one set of outcomes."""
        null = self.null(seed)
        return float((1 + (null >= self.statistic() - 1e-12).sum()) / (1 + null.size))

    def power(self, lam: float, seed: int, *, level: float = 0.05, size: int = 1000) -> float:
        """How often a share of descent of `lam` is separated from none."""
        bar = float(np.quantile(self.null(seed), 1 - level))
        rng = np.random.default_rng(seed + 1)
        w = rng.standard_normal((size, self.mu.size)) * np.sqrt(1 - lam + lam * self.mu)
        return float((self.profile(w).max(axis=-1) > bar).mean())

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Shares that the likelihood ratio does not reject, by χ² of one degree of freedom."""
        profile = self.profile()
        inside = GRID[profile.max() - profile <= stats.chi2.ppf(coverage(level), 1)]
        return float(inside[0]), 1.0 if inside[-1] == GRID[-1] else float(inside[-1])

    def estimate(self) -> float:
        """λ of the largest restricted likelihood, on the grid."""
        return float(GRID[int(self.profile().argmax())])


def power_by_size(k: Array, columns: int, clades: int, lam: float = TOLD, level: float = 0.05) -> pd.DataFrame:
    """Power over multiples of a tree until it is enough: models, clades, lambda, power.

    k: covariance of the models of one; every further one has clades and `columns` (the mean among them) of its own.
    """
    rng, rows = np.random.default_rng(0), []
    for times in TIMES:
        n = times * len(k)
        if n > MOST:
            break
        x = np.column_stack([np.ones(n), rng.standard_normal((n, columns - 1))])
        test = Restricted.of(np.zeros(n), x, np.asarray(np.kron(np.eye(times), k)))
        power = test.power(lam, 1, level=level, size=TRIED)
        rows.append((n, times * clades, lam, power))
        if power >= WANTED:
            break
    return pd.DataFrame(rows, columns=["models", "clades", "lambda", "power"])

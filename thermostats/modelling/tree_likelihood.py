"""Restricted and full likelihood of a line with errors that follow a tree, maximised without
priors.

y = Xβ + u + e, Var = σ² ((1 − λ) I + λ K) + diag(error²), K of unit diagonal on trees whose models
all stand at the same height; λ is Pagel's (1999, doi:10.1038/44766), the share of descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import optimize, stats

from thermostats.errors import UsageError
from thermostats.modelling.draws import Array
from thermostats.modelling.planned import WANTED
from thermostats.modelling.populations import Codes
from thermostats.settings import check_coverage
from thermostats.tables.tree import Tree

REML = "REML"
ML = "ML"
GRID = np.concatenate([np.linspace(0, 0.9, 19), [0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999]])
"""λ that a maximum is sought between, and of the test."""
TOLD, TRIED = 0.6, 400
"""Share of descent that a study should tell from none, and simulations a size."""
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


def fit_gls(
    y: Array, x: Array, v: Array, *, method: str = REML, parameter: float = math.nan
) -> Maximum:
    """Generalised least squares with Var = σ² v, σ² free.

    Standard errors are those of R's `gls`: σ² by n − p.
    """
    n, p = x.shape
    root = np.linalg.cholesky(v)
    wx = np.linalg.solve(root, x)
    wy = np.linalg.solve(root, y)
    q, r = np.linalg.qr(wx)
    beta = np.linalg.solve(r, q.T @ wy)
    rss = float(np.square(wy - wx @ beta).sum())
    df = n - p if method == REML else n
    log_det = 2 * np.log(np.diagonal(root)).sum()
    value = _compute_log_likelihood(rss, df, log_det)
    if method == REML:
        value -= np.log(np.abs(np.diagonal(r))).sum()
    inverse = np.linalg.inv(r)
    inverse_squares = np.square(inverse)
    squares = inverse_squares.sum(axis=1)
    se = np.sqrt(squares * rss / (n - p))
    return Maximum(
        method=method,
        parameter=parameter,
        beta=beta,
        se=se,
        sigma=math.sqrt(rss / df),
        log_likelihood=float(value),
    )


def _compute_log_likelihood(rss: float, df: int, log_det: float) -> float:
    """At the likeliest σ."""
    return -0.5 * (df * (math.log(2 * math.pi * rss / df) + 1) + log_det)


def fit_pagel(y: Array, x: Array, k: Array, *, method: str = REML) -> Maximum:
    """The maximum over λ from 0 to 1 of the line with Var = σ² ((1 − λ) I + λ K)."""
    eye = np.eye(len(y))

    def at(lam: float) -> Maximum:
        v = (1 - lam) * eye + lam * k
        return fit_gls(y, x, v, method=method, parameter=lam)

    return _find_best(at, np.append(GRID, 1.0))


def estimate_ancestors(y: Array, x: Array, k: Array, models: Sequence[int]) -> Array:
    """Outcome expected at every node of a tree at the mean columns, and of the models themselves
    what was measured.

    E(u_node | y) = λ K_node,models V⁻¹ (y − Xβ) with λ and β of the restricted likelihood. k: of
    all nodes; models: the places of the models among them.
    """
    at = np.asarray(models)
    covariance = k[np.ix_(at, at)]
    made = fit_pagel(y, x, covariance)
    lam = made.parameter
    v = (1 - lam) * np.eye(len(y)) + lam * covariance
    pulls = np.linalg.solve(v, y - x @ made.beta)
    expected = x.mean(axis=0) @ made.beta + lam * k[:, at] @ pulls
    expected[at] = y
    return np.asarray(expected)


def _find_best(at: Callable[[float], Maximum], grid: Array) -> Maximum:
    values = []
    for t in grid:
        try:
            maximum = at(float(t))
            values.append(maximum.log_likelihood)
        except np.linalg.LinAlgError:  # models that do not differ by descent, at λ near 1
            values.append(-math.inf)
    k = int(np.argmax(values))
    low = grid[max(k - 1, 0)]
    high = grid[min(k + 1, grid.size - 1)]
    between = _search_interval(at, low, high, 1e-10)
    return _choose_likelier(between, at(float(grid[k])))


def _search_interval(
    at: Callable[[float], Maximum], low: float, high: float, tolerance: float
) -> Maximum:
    inner = optimize.minimize_scalar(
        lambda t: -at(float(t)).log_likelihood,
        bounds=(low, high),
        method="bounded",
        options={"xatol": tolerance},
    )
    return at(float(inner.x))


def _choose_likelier(*maxima: Maximum) -> Maximum:
    """The likeliest, of equals the first."""
    return max(maxima, key=lambda maximum: maximum.log_likelihood)


@dataclass(frozen=True, kw_only=True)
class Restricted:
    """The restricted likelihood of λ in its own axes: w_s ~ N(0, σ² (1 − λ + λ μ_s)), s = 1 … n −
    p."""

    mu: Array
    """Eigenvalues of K between contrasts that X does not explain."""
    w: Array
    """Outcomes along them, … × (n − p)."""

    @classmethod
    def build(cls, y: Array, x: Array, k: Array) -> Restricted:
        """Of outcomes (… × n), columns and a covariance; UsageError where no contrast is left."""
        u, s, _ = np.linalg.svd(x)
        rank = int((s > 1e-9 * s[0]).sum())
        free = u[:, rank:]
        if free.shape[1] < 2:
            raise UsageError(
                "too few models for a share of descent",
                got=f"{len(x)} models, {x.shape[1]} columns",
            )
        mu, axes = np.linalg.eigh(free.T @ k @ free)
        w = np.asarray(y @ free @ axes)
        return cls(mu=np.maximum(mu, 0.0), w=w)

    def profile(self, w: Array | None = None) -> Array:
        """Twice the log likelihood at every λ of `GRID` over that at 0, … × grid."""
        square = np.square(self.w if w is None else w)
        variance = 1 - GRID[:, None] + GRID[:, None] * self.mu
        df = self.mu.size
        rss = square @ (1 / variance).T
        ratios = square.sum(axis=-1, keepdims=True) / rss
        return np.asarray(df * np.log(ratios) - np.log(variance).sum(axis=1))

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
        as_large = (null >= self.statistic() - 1e-12).sum()
        return float((1 + as_large) / (1 + null.size))

    def power(self, lam: float, seed: int, *, level: float = 0.05, size: int = 1000) -> float:
        """How often a share of descent of `lam` is separated from none."""
        bar = float(np.quantile(self.null(seed), 1 - level))
        rng = np.random.default_rng(seed + 1)
        spreads = np.sqrt(1 - lam + lam * self.mu)
        w = rng.standard_normal((size, self.mu.size)) * spreads
        profiles = self.profile(w)
        statistics = profiles.max(axis=-1)
        return float((statistics > bar).mean())

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Shares that the likelihood ratio does not reject, by χ² of one degree of freedom."""
        profile = self.profile()
        coverage = check_coverage(level)
        bound = stats.chi2.ppf(coverage, 1)
        inside = GRID[profile.max() - profile <= bound]
        highest = float(inside[-1])
        return float(inside[0]), 1.0 if highest == GRID[-1] else highest

    def estimate(self) -> float:
        """λ of the largest restricted likelihood, on the grid."""
        best = self.profile().argmax()
        return float(GRID[int(best)])


def simulate_power_by_size(
    k: Array, columns: int, clades: int, lam: float = TOLD, level: float = 0.05
) -> pd.DataFrame:
    """Power over multiples of a tree until it is enough: models, clades, lambda, power.

    k: covariance of the models of one; every further one has clades and `columns` (the mean among
    them) of its own.
    """
    rng = np.random.default_rng(0)
    rows = []
    for times in TIMES:
        n = times * len(k)
        if n > MOST:
            break
        covariates = rng.standard_normal((n, columns - 1))
        x = np.column_stack([np.ones(n), covariates])
        covariance = np.asarray(np.kron(np.eye(times), k))
        test = Restricted.build(np.zeros(n), x, covariance)
        power = test.power(lam, 1, level=level, size=TRIED)
        rows.append((n, times * clades, lam, power))
        if power >= WANTED:
            break
    return pd.DataFrame(rows, columns=["models", "clades", "lambda", "power"])


BROWNIAN = "brownian"
FREE = "free"
LEVELS = "levels"
PROCESSES = (BROWNIAN, FREE, LEVELS)
DESCENT = "descent"
LAB = "lab"
FAMILY = "family"
PARENT = "parent"
RATES = tuple(float(x) for x in np.geomspace(0.25, 16.0, 5))
"""α on a tree of height 1, evenly on the log scale: over the tree's height what is inherited falls
to 78% … 0."""
COMMON = (0.0, 0.25, 0.5, 0.75, 0.95)
"""η, where it is free."""


@dataclass(frozen=True)
class Process:
    """A process with its constants."""

    kind: str
    alpha: float = 0.0
    """Pull per height of the tree; of free."""
    common: float = 0.0
    """η; of free."""

    def remains(self, length: float) -> float:
        """What of its parent a node keeps over a branch."""
        if self.kind in {BROWNIAN, LEVELS}:
            return 1.0
        return float(np.exp(-self.alpha * length))


@dataclass(frozen=True, eq=False)
class Sources:
    """Rows of sources of every node of a tree of unit height; the columns are branches, then what
    siblings share."""

    tree: Tree
    process: Process
    rows: Array

    def child(self, parent: str, length: float) -> tuple[Array, float]:
        """Row of a new child's sources among those of the tree, and the scale of the one that is
        its own."""
        place = self.tree.place(parent)
        share = self.process.remains(length)
        n = len(self.tree)
        row = share * self.rows[place]
        if self.process.kind in {BROWNIAN, LEVELS}:
            return row, length**0.5
        rest = 1 - share**2
        row[n + place] += (rest * self.process.common) ** 0.5
        return row, (rest * (1 - self.process.common)) ** 0.5


def list_processes(kind: str) -> list[Process]:
    """The processes of a kind, one for every value of its constants."""
    if kind == FREE:
        return [Process(FREE, alpha, common) for alpha in RATES for common in COMMON]
    return [Process(kind)]


def build_sources(tree: Tree, process: Process) -> Sources:
    """Rows of all nodes; a merge is the mean of its parents by their shares."""
    n = len(tree)
    if process.kind in {BROWNIAN, LEVELS}:
        siblings = np.zeros((n, n))
        return Sources(tree, process, np.column_stack([tree.roots(), siblings]))
    rows = np.zeros((n, 2 * n))
    for i, (parents, shares) in enumerate(zip(tree.parents, tree.shares, strict=True)):
        if not parents:
            rows[i, i] = 1.0
            continue
        length = tree.lengths[i]
        remaining = process.remains(float(length))
        mean = np.zeros(2 * n)
        for p, share in zip(parents, shares, strict=True):
            mean += share * rows[p]
        rows[i] = remaining * mean
        kept = float(np.square(rows[i]).sum())
        rest = max(1 - kept, 0.0)  # of one parent 1 − r²
        rows[i, i] = (rest * (1 - process.common)) ** 0.5
        common = (rest * process.common) ** 0.5
        for p, share in zip(parents, shares, strict=True):
            rows[i, n + p] += share * common
    return Sources(tree, process, rows)


def build_level_columns(tree: Tree, rows: Array) -> dict[str, Array]:
    """Whether a source is a branch of a lab, a family or a parent that two models or more (rows)
    descend from.

    Raises UsageError where no branch is shared.
    """
    n = len(tree)
    kinds = np.array([*tree.kinds, *[""] * n])
    shared = np.zeros(2 * n, dtype=bool)
    shared[:n] = (rows[:, :n] != 0).sum(axis=0) > 1
    is_parent = shared & ~np.isin(kinds, [LAB, FAMILY])
    masks = {}
    for name, mask in {LAB: kinds == LAB, FAMILY: kinds == FAMILY, PARENT: is_parent}.items():
        if (mask & shared).any():
            masks[name] = mask
    if not masks:
        raise UsageError(
            "no branch of the tree leads to two models",
            got=f"{len(rows)} models",
            allowed="labs, families or parents of two models or more",
        )
    return masks


def scale_height(tree: Tree, names: list[str]) -> Tree:
    """The tree with its highest model at 1."""
    heights = tree.heights[[tree.place(name) for name in names]]
    return replace(tree, lengths=tree.lengths / heights.max())


EDGE = 1e-9
"""λ is sought up to 1 less this: at 1 a model at its parent's place cannot differ from it."""
STARTS = (0.0, 0.25, 0.5, 0.75, 0.95)
Upward = tuple[Codes, Codes, Codes]
"""Nodes of a level, their parents, and where each parent's children begin."""


@dataclass(frozen=True, eq=False)
class Pruning:
    """A tree, its nodes level by level, and which of them are models."""

    parent: Codes
    length: Array
    levels: tuple[Codes, ...]
    """Nodes of every depth, those of one parent side by side; the root first."""
    models: Codes

    @classmethod
    def build(cls, tree: Tree, names: Sequence[str]) -> Pruning:
        """Of a tree without merges, for models by name. Raises UsageError for merges and for a
        model twice."""
        if tree.merges:
            raise UsageError(
                "a tree with merged models is not pruned",
                got=tree.merges[0],
                allowed="one parent a model",
            )
        if len(set(names)) < len(names):
            raise UsageError("a model twice", allowed="one row per model")
        parent = np.array([-1, *(parents[0] for parents in tree.parents[1:])])
        depth = np.zeros(len(tree), dtype=np.int64)
        for i, above in enumerate(parent[1:], 1):
            depth[i] = depth[above] + 1
        order = np.lexsort((parent, depth))
        steps = np.flatnonzero(np.diff(depth[order])) + 1
        levels = tuple(np.split(order, steps))
        at = np.array([tree.place(name) for name in names])
        length = tree.lengths / tree.heights[at].max()
        return cls(parent, length, levels, at)

    def compute_products(self, w: Array, drift: float, noise: Array) -> tuple[float, Array]:
        """log|V| and WᵀV⁻¹W of columns W (models × m), V = drift · K + diag(noise), K of unit
        height."""
        log_det, cross = self.compute_many_products(w, np.array([drift]), noise[None])
        return float(log_det[0]), cross[0]

    def compute_many_products(self, w: Array, drift: Array, noise: Array) -> tuple[Array, Array]:
        """The same of many V: drift of size, noise size × models, W the same of all or size ×
        models × m."""
        w = np.broadcast_to(w, (drift.size, *w.shape[-2:]))
        precision = np.zeros((drift.size, self.parent.size))
        weighted = np.zeros((*precision.shape, w.shape[2]))
        precision[:, self.models] = 1 / noise
        weighted[:, self.models] = w / noise[..., None]
        log_det = np.log(noise).sum(axis=1)
        cross = np.swapaxes(w, 1, 2) @ weighted[:, self.models]
        for level, above, first in self._upwards:
            v = drift[:, None] * self.length[level]
            p = precision[:, level]
            h = weighted[:, level]
            grown = 1 + v * p
            log_det += np.log(grown).sum(axis=1)
            lost = h * (v / grown)[..., None]
            turned = np.swapaxes(h, 1, 2)
            cross -= turned @ lost
            kept = h / grown[..., None]
            precision[:, above] += np.add.reduceat(p / grown, first, axis=1)
            weighted[:, above] += np.add.reduceat(kept, first, axis=1)
        return log_det, cross

    def solve(self, y: Array, drift: Array, noise: Array) -> Array:
        """V⁻¹y of many V, each with a y of its own, size × models: (y − E(drift | y))/noise, from
        the tips and back."""
        precision, weighted = np.zeros((2, drift.size, self.parent.size))
        precision[:, self.models] = 1 / noise
        weighted[:, self.models] = y / noise
        for level, above, first in self._upwards:
            v = drift[:, None] * self.length[level]
            p = precision[:, level]
            grown = 1 + v * p
            kept = weighted[:, level] / grown
            precision[:, above] += np.add.reduceat(p / grown, first, axis=1)
            weighted[:, above] += np.add.reduceat(kept, first, axis=1)
        place = np.zeros_like(weighted)
        for level in self.levels[1:]:
            v = drift[:, None] * self.length[level]
            from_above = place[:, self.parent[level]]
            pulled = from_above + v * weighted[:, level]
            place[:, level] = pulled / (1 + v * precision[:, level])
        return (y - place[:, self.models]) / noise

    @cached_property
    def _upwards(self) -> tuple[Upward, ...]:
        """From the tips on."""
        upwards: list[Upward] = []
        for level in reversed(self.levels[1:]):
            parents = self.parent[level]
            first = np.flatnonzero(np.diff(parents, prepend=-2))
            upwards.append((level, parents[first], first))
        return tuple(upwards)


def fit_pagel_by_pruning(
    y: Array, x: Array, tree: Tree, names: Sequence[str], *, method: str = REML
) -> Maximum:
    """The maximum over λ of the line with Var = σ² ((1 − λ) I + λ K), the same as
    `fit_pagel`.

    y: an outcome a model; x: columns, models × p, the intercept among them; K the covariance on a
    tree of unit height.
    """
    pruning = Pruning.build(tree, names)
    w = np.column_stack([x, y])

    def at(lam: float) -> Maximum:
        return _fit_pruned_line(pruning, w, lam, method)

    maxima = []
    for low, high in zip(STARTS, [*STARTS[1:], 1 - EDGE], strict=True):
        between = _search_interval(at, low, high, 1e-9)
        maxima += [at(low), between]
    return _choose_likelier(*maxima)


def _fit_pruned_line(pruning: Pruning, w: Array, lam: float, method: str) -> Maximum:
    n = len(w)
    p = w.shape[1] - 1
    noise = np.full(n, 1 - lam)
    log_det, cross = pruning.compute_products(w, lam, noise)
    xx = cross[:p, :p]
    xy = cross[:p, p]
    beta = np.asarray(np.linalg.solve(xx, xy), dtype=np.float64)
    rss = float(cross[p, p] - xy @ beta)
    df = {REML: n - p, ML: n}[method]
    value = _compute_log_likelihood(rss, df, log_det)
    if method == REML:
        value -= 0.5 * float(np.linalg.slogdet(xx)[1])
    variances = np.diagonal(np.linalg.inv(xx)) * rss / (n - p)
    return Maximum(
        method=method,
        parameter=lam,
        beta=beta,
        se=np.sqrt(variances),
        sigma=math.sqrt(rss / df),
        log_likelihood=value,
    )

"""How much corpus, recipe, geometry, scale and recipe × depth do to a log gain: standard deviations
over a reference.

y_rs = μ_c + a_r + (β_c + b_r)·x_s + e_rs for recipe r of corpus c at shape s, x the centred logs of
L, rho and d; var e_rs = σ_r², its own for every recipe. Least squares give a recipe's coefficients,
ĉ_r ~ N(m_c, W_c + σ_r² (X'X)⁻¹) with m_c = (μ_c, β_c). With K the covariance of x over the
reference, in one corpus:

- recipe √W_aa; recipe × depth √(W_LL K_LL); geometry √(β_g' K_gg β_g) with g = (L, rho); scale
  √(β_d² K_dd).

Over corpora, each as likely as the others: the root mean of the squares of these, so that corpus ×
shape is part of what a shape does; and the standard deviation of μ_c.

Draws: W_c inverse Wishart with n + 2 degrees of freedom for n recipes, m_c normal given it. So
every variance is S/χ²(n − 1) and every mean a t interval with n − 1. The mean of σ_r² over recipes
is s̄² f/χ²(f), with Satterthwaite's f for variances as unlike as the recipes' own; a variance below
0 is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from thermostats.claims.result import Estimate
from thermostats.claims.rule import Above
from thermostats.errors import UsageError
from thermostats.studies.delia2026.published_gains import LEVEL
from thermostats.studies.nursery.crossed import REFERENCE

Array = npt.NDArray[np.float64]
Table = tuple[Array, Array]
"""Log gains (recipes, shapes) of one corpus, and the logs of the shapes, (shapes, 3)."""
GEOMETRY = slice(0, 2)
SCALE = 2
DEPTH = 0
DRAWS = 1000
LEAST = 6
"""Recipes of a corpus below which it has no answer."""


class ComponentVariances(NamedTuple):
    """Draws of one corpus: its level, and variances that an estimate may put below 0."""

    level: Array
    recipe: Array
    geometry: Array
    scale: Array
    depth: Array
    residual: Array


@dataclass(frozen=True)
class Components:
    """Draws of standard deviations of the log gain over the reference."""

    corpus: Array
    recipe: Array
    """Between recipes of one corpus."""
    geometry: Array
    scale: Array
    depth: Array
    """Recipe × depth."""
    residual: Array

    @classmethod
    def of(cls, studies: Sequence[Sequence[ComponentVariances]]) -> Components:
        """Those of studies: of each the corpora, all alike in weight."""
        every = [each for corpora in studies for each in corpora]
        means = {
            name: root(np.mean([getattr(each, name) for each in every], axis=0))
            for name in ComponentVariances._fields[1:]
        }
        between = [np.var([each.level for each in corpora], axis=0) for corpora in studies]
        return cls(corpus=root(np.mean(between, axis=0)), **means)

    @property
    def in_order(self) -> float:
        """Share of the draws in which recipe > geometry > scale."""
        return float(np.mean((self.recipe > self.geometry) & (self.geometry > self.scale)))


def variances(y: Array, x: Array, *, draws: int = DRAWS, seed: int = 1) -> ComponentVariances:
    """Draws for the recipes of one corpus: y (recipes, shapes), x (shapes, 3).

    Raises UsageError for fewer than six recipes, or shapes that do not tell the slopes apart.
    """
    recipes, shapes = y.shape
    X = np.column_stack([np.ones(shapes), x - x.mean(axis=0)])
    used = [i for i in range(4) if np.ptp(X[:, i]) > 0 or i == 0]
    X = X[:, used]
    if recipes < LEAST or np.linalg.matrix_rank(X) < X.shape[1] or shapes <= X.shape[1]:
        raise UsageError(
            "too few rows to separate the components", got=f"{recipes} recipes at {shapes} shapes"
        )
    inverse = np.linalg.inv(X.T @ X)
    c = y @ X @ inverse
    rng = np.random.default_rng(seed)
    each = squares(y - c @ X.T) / freedom(y, X)
    df = freedom(y, X)
    f = df * each.sum() ** 2 / np.square(each).sum() if each.any() else df
    noise = each.mean() * f / rng.chisquare(f, draws)
    spread = np.atleast_2d(np.cov(c.T)) * (recipes - 1)
    half = roots(spread, recipes + len(used) - 2, draws, rng)
    m = c.mean(axis=0) + np.einsum(
        "nij,nj->ni", half, rng.normal(size=(draws, len(used)))
    ) / np.sqrt(recipes)
    effects = np.zeros((draws, 4))
    variance = np.zeros((draws, 4))
    effects[:, used] = m
    variance[:, used] = np.square(half).sum(axis=2) - noise[:, None] * np.diag(inverse)
    depth = variance[:, 1 + DEPTH] * REFERENCE[DEPTH, DEPTH]
    return ComponentVariances(
        m[:, 0], variance[:, 0], *over_reference(effects[:, 1:]), depth, noise
    )


def roots(spread: Array, df: int, draws: int, rng: np.random.Generator) -> Array:
    """Matrices H with H H' inverse Wishart (draws, p, p), by Bartlett's decomposition of the
    Wishart distribution."""
    p = len(spread)
    T = np.tril(rng.normal(size=(draws, p, p)), -1)
    T[:, range(p), range(p)] = np.sqrt(rng.chisquare(df - np.arange(p), (draws, p)))
    return np.asarray(np.linalg.cholesky(spread) @ np.linalg.inv(T).transpose(0, 2, 1))


def squares(left: Array) -> Array:
    """Sums of squares by recipe of what lines leave over (recipes, shapes), off what all recipes
    have at a shape."""
    return np.asarray(np.square(left - left.mean(axis=0)).sum(axis=1))


def freedom(y: Array, X: Array) -> float:
    """Degrees of freedom of a recipe's sum of squares."""
    recipes, shapes = y.shape
    return float((shapes - X.shape[1]) * (recipes - 1) / recipes)


def components(corpora: Sequence[Table], *, draws: int = DRAWS, seed: int = 1) -> Components:
    """Draws of the components of one study, a table a corpus. Raises UsageError as `variances`
    does."""
    return Components.of(
        [
            [
                variances(*corpus, draws=draws, seed=seed + place)
                for place, corpus in enumerate(corpora)
            ]
        ]
    )


def over_reference(slopes: Array) -> tuple[Array, Array]:
    """Variances of geometry and scale over the reference; slopes: draws of those on log L, rho and
    d."""
    shape = np.einsum(
        "ni,ij,nj->n", slopes[:, GEOMETRY], REFERENCE[GEOMETRY, GEOMETRY], slopes[:, GEOMETRY]
    )
    return np.asarray(shape), np.asarray(np.square(slopes[:, SCALE]) * REFERENCE[SCALE, SCALE])


OVER = "SD of recipe within a corpus / SD of geometry"
ABOVE = "SD of geometry / SD of scale"
CORPUS = "SD of corpus / SD of geometry"
ORDERED = Above(OVER, 1) & Above(ABOVE, 1)
"""Within a corpus recipe does more than geometry, and geometry more than scale."""


def ratios(parts: Components) -> dict[str, Estimate]:
    """Median and 95% interval of the ratios."""
    pairs = {
        OVER: ("recipe", "geometry"),
        ABOVE: ("geometry", "scale"),
        CORPUS: ("corpus", "geometry"),
    }
    ends = [0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2]
    quantities = {}
    for name, (above, below) in pairs.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.nan_to_num(
                getattr(parts, above) / getattr(parts, below), nan=1.0, posinf=np.inf
            )
        value, lower, upper = np.quantile(ratio, ends, method="nearest").tolist()
        quantities[name] = Estimate(
            value, lower, upper, "95% interval of draws, recipes as the unit"
        )
    return quantities


def root(variance: Array) -> Array:
    """Standard deviation of a variance that an estimate may put below 0."""
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

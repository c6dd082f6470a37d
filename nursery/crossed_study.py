"""What recipes, shape and size do to a log gain in a study whose recipes are crossed with corpora and shapes.

y_crs = μ_c + a_cr + (β_c + b_cr)·z_s + e_crs for corpus c, recipe r and shape s, with z = (log L/d, log ρ, log N) off
their means; N ∝ L d², the weights of the blocks. Least squares give ĉ_cr = (â, b̂) of every recipe in every corpus.
With K the covariance of z over the published models and K_g·N that of (log L/d, log ρ) at a given N, over corpora:

- recipe √(var_r a); architecture √(β' K β); shape √(β_g' K_g·N β_g); size √(β_N² K_NN);
- alike: cov_r(a_c, a_c') over all pairs of corpora / var_r(a), the share of what recipes do that is the same in all.

Each is what the estimates give less what their errors add. Intervals of logs of ratios, and of `alike`, are by a
jackknife over recipes, t with R − 1 degrees of freedom: a recipe is the unit, whatever the number of its models.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from thermostats.studies.nursery.components import REFERENCE

Array = npt.NDArray[np.float64]
TO_CODING: Array = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 2.0]])
"""From (log L, log ρ, log d) to (log L/d, log ρ, log N)."""
COVARIANCE: Array = TO_CODING @ REFERENCE @ TO_CODING.T
SHAPE, SIZE = slice(0, 2), 2
AT_SIZE: Array = (
    COVARIANCE[SHAPE, SHAPE] - np.outer(COVARIANCE[SHAPE, SIZE], COVARIANCE[SIZE, SHAPE]) / COVARIANCE[2, 2]
)
LEAST = 1e-6
"""Variances below are taken as so large, so that ratios have logs."""
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% interval."""

    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Variances:
    """Variances of the log gain over the published models, and `alike`, the share of recipes' that corpora share."""

    recipe: float
    architecture: float
    shape: float
    size: float
    alike: float


def coded(x: Array) -> Array:
    """(log L, log ρ, log d) of shapes, (S, 3), as (log L/d, log ρ, log N) off their means."""
    z = x @ TO_CODING.T
    return np.asarray(z - z.mean(axis=0))


def ratios(y: Array, x: Array) -> dict[str, Interval]:
    """Recipe over architecture and shape over size as ratios of standard deviations, and `alike`.

    y: log gains (corpora, recipes, shapes); x: logs of L, ρ and d of the shapes, (S, 3).
    """
    effects, noise = lines(y, coded(x))
    recipes = y.shape[1]
    left_out = [statistics(np.delete(effects, r, axis=1), np.delete(noise, r, axis=1)) for r in range(recipes)]
    every, parts = statistics(effects, noise), np.array(left_out)
    sd = np.sqrt((recipes - 1) / recipes * np.square(parts - parts.mean(axis=0)).sum(axis=0))
    half = stats.t.ppf((1 + LEVEL) / 2, recipes - 1) * sd
    ends = np.stack([every, every - half, every + half])
    ends[:, :2] = np.exp(ends[:, :2])
    return {name: Interval(*ends[:, i]) for i, name in enumerate(("recipe / architecture", "shape / size", "alike"))}


def lines(y: Array, z: Array) -> tuple[Array, Array]:
    """Coefficients (corpora, recipes, 4) of every recipe's line, and their error covariances (…, 4, 4)."""
    X = np.column_stack([np.ones(len(z)), z])
    inverse = np.linalg.inv(X.T @ X)
    effects = y @ X @ inverse
    left = y - effects @ X.T
    common = left.mean(axis=1, keepdims=True)
    recipes = y.shape[1]
    df = (len(z) - X.shape[1]) * (recipes - 1) / recipes
    squares = np.square(left - common).sum(axis=-1) / df
    return effects, squares[..., None, None] * inverse


def statistics(effects: Array, noise: Array) -> Array:
    """Half the log of both ratios of variances, and `alike`."""
    estimates = variances(effects, noise)
    recipe, architecture, shape, size = np.log(
        np.maximum([estimates.recipe, estimates.architecture, estimates.shape, estimates.size], LEAST)
    )
    return np.array([(recipe - architecture) / 2, (shape - size) / 2, estimates.alike])


def variances(effects: Array, noise: Array) -> Variances:
    """The variances of coefficients (corpora, recipes, 4) whose errors have the covariances `noise`."""
    corpora, recipes = effects.shape[:2]
    slopes = effects[..., 1:]
    mean = slopes.mean(axis=1)
    centred = slopes - mean[:, None]
    of_mean = np.einsum("cri,crj->cij", centred, centred) / (recipes - 1) / recipes
    squares = np.einsum("ci,cj->cij", mean, mean) - of_mean
    within = np.atleast_2d(np.cov(effects[..., 0]))
    recipe = np.trace(within) / corpora - noise[..., 0, 0].mean()
    between = (within.sum() - np.trace(within)) / (corpora * (corpora - 1)) if corpora > 1 else np.nan
    return Variances(
        recipe=float(recipe),
        architecture=float(np.einsum("cij,ij->c", squares, COVARIANCE).mean()),
        shape=float(np.einsum("cij,ij->c", squares[:, SHAPE, SHAPE], AT_SIZE).mean()),
        size=float(squares[:, SIZE, SIZE].mean() * COVARIANCE[SIZE, SIZE]),
        alike=float(between / max(recipe, LEAST)),
    )

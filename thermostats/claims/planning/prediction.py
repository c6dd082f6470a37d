"""Outcomes of models to come given those at hand, the effect drawn from its posterior.

Hypotheses h about errors (and where it moves the covariance, about the effect) give
y ~ N(W_h c, σ²Σ_h) with p(c, log σ) flat. Weights of h are restricted likelihoods of the rows at
hand; then σ², c and the new outcomes are drawn, these conditional on the measured ones. Truth
values are Bernoulli with the share of their side, Beta(k + ½, n − k + ½).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.claims.noise import Errors, Noise, Random
from thermostats.claims.planning.contrast import (
    Array,
    DesignContrast,
    Moved,
    NotLinearError,
    moments,
    simulated_moments,
)
from thermostats.claims.question import Question
from thermostats.claims.worlds import Outcomes, World

PARTS = np.linspace(0.0, 1.0, 6)
"""Ways from the null to the claimed size at which a covariance is tried."""
JEFFREYS = 0.5
RIDGE = 1e-9


@dataclass(frozen=True)
class Hypothesis:
    """One account of outcomes: columns of the mean, and covariance but for its scale."""

    columns: Array
    covariance: Array


def predictive(
    question: Question, rows: pd.DataFrame, new: NDArray[np.bool_], contrast: DesignContrast
) -> World | None:
    """The world in which rows at hand stay as measured and new ones are drawn; None where the rows
    at hand do not say how large the effect is, or outcomes are of another kind.

    new: which rows are to come. contrast: of these rows.
    """
    worlds = question.require_trial()[1].worlds
    if worlds is None or contrast.kind is Moved.COUNT or new.all():
        return None
    (outcome,) = worlds.build_world().draw(rows, Random(np.random.default_rng(1)))
    measured = rows[outcome].to_numpy(np.float64)
    draw: DrawnShares | Normal | None
    if contrast.kind is Moved.SHARE:
        draw = DrawnShares(outcome, measured, new, contrast.effect)
    else:
        draw = _normal(outcome, measured, new, _hypotheses(question, rows, contrast))
    if draw is None:
        return None
    return World("the rows at hand, and models drawn given them", draw, Errors())


def _hypotheses(
    question: Question, rows: pd.DataFrame, contrast: DesignContrast
) -> list[Hypothesis]:
    if contrast.kind is Moved.MEAN:
        columns = np.column_stack([contrast.fixed, contrast.effect])
        return [Hypothesis(columns, covariance) for covariance in contrast.covariances]
    worlds = question.require_trial()[1].worlds
    assert worlds is not None  # noqa: S101
    sizes = []
    for part in PARTS:
        sizes.append(_covariance(worlds.build_world(f"{part:g}"), rows))
    return [Hypothesis(contrast.fixed, covariance) for covariance in sizes]


def _covariance(world: World, rows: pd.DataFrame) -> Array:
    try:
        return moments(world, rows)[1]
    except NotLinearError:
        return simulated_moments(world, rows)[1]


@dataclass(frozen=True)
class DrawnShares:
    """Truth values of new rows, those of one side of a contrast alike in law."""

    outcome: str
    measured: Array
    new: NDArray[np.bool_]
    side: Array

    def __call__(self, rows: pd.DataFrame, noise: Noise, random: Random) -> Outcomes:
        """Truth values, study × row."""
        drawn = np.tile(self.measured > 0, (random.studies, 1))
        for side in np.unique(self.side):
            here = (self.side == side) & ~self.new
            true = float(self.measured[here].sum())
            false = float(here.sum()) - true
            share = random.rng.beta(JEFFREYS + true, JEFFREYS + false, (random.studies, 1))
            to_come = (self.side == side) & self.new
            drawn[:, to_come] = random.uniform(int(to_come.sum())) < share
        return {self.outcome: drawn}


@dataclass(frozen=True)
class Conditional:
    """One hypothesis after the rows at hand: coefficients, their spread, and what new rows follow
    from."""

    weight: float
    """Log of its restricted likelihood."""
    left: int
    """Degrees of freedom."""
    scale: float
    """Sum of squares left, weighed."""
    coefficients: Array
    root: Array
    """Root of the coefficients' covariance, in σ²."""
    columns: Array
    """Of new rows, less what follows from the measured ones."""
    carried: Array
    """What of the new rows follows from the measured ones."""
    new_root: Array
    """Root of the new rows' covariance given the measured ones, in σ²."""


@dataclass(frozen=True)
class Normal:
    """Outcomes of new rows given the measured ones, over hypotheses."""

    outcome: str
    measured: Array
    new: NDArray[np.bool_]
    hypotheses: Sequence[Conditional]

    def __call__(self, rows: pd.DataFrame, noise: Noise, random: Random) -> Outcomes:
        """Outcomes, study × row."""
        logs = np.array([each.weight for each in self.hypotheses])
        weights = np.exp(logs - logs.max())
        chosen = random.rng.choice(len(logs), random.studies, p=weights / weights.sum())
        drawn = np.tile(self.measured, (random.studies, 1))
        for place, of in enumerate(self.hypotheses):
            studies = np.flatnonzero(chosen == place)
            square = of.scale / random.rng.chisquare(of.left, (studies.size, 1))
            sigma = np.sqrt(square)
            steps = random.rng.standard_normal((studies.size, len(of.root)))
            coefficients = of.coefficients + sigma * (steps @ of.root.T)
            normal = random.rng.standard_normal((studies.size, len(of.new_root)))
            errors = normal @ of.new_root.T
            values = coefficients @ of.columns.T + of.carried + sigma * errors
            drawn[np.ix_(studies, np.flatnonzero(self.new))] = values
        return {self.outcome: drawn}


def _normal(
    outcome: str, measured: Array, new: NDArray[np.bool_], hypotheses: Sequence[Hypothesis]
) -> Normal | None:
    known = [_given(each, measured, new) for each in hypotheses]
    conditionals = [each for each in known if each is not None]
    return Normal(outcome, measured, new, conditionals) if conditionals else None


def _given(hypothesis: Hypothesis, measured: Array, new: NDArray[np.bool_]) -> Conditional | None:
    """A hypothesis after the rows at hand; None where these do not determine its coefficients."""
    old = ~new
    y = measured[old]
    w = hypothesis.columns[old]
    left = len(y) - w.shape[1]
    if left < 1 or np.linalg.matrix_rank(w) < w.shape[1] or not np.isfinite(y).all():
        return None
    covariance = hypothesis.covariance + RIDGE * np.eye(len(new))
    inverse = np.linalg.inv(covariance[np.ix_(old, old)])
    inner = w.T @ inverse @ w
    spread: Array = np.asarray(np.linalg.inv(inner), dtype=np.float64)
    coefficients = spread @ w.T @ inverse @ y
    off = y - w @ coefficients
    square = float(off @ inverse @ off)
    logs: list[Any] = []
    for each in (inverse, inner):
        logs.append(np.linalg.slogdet(each)[1])
    log_square = left * np.log(square / left)
    weight = 0.5 * (logs[0] - logs[1] - log_square)
    passed = covariance[np.ix_(new, old)] @ inverse
    explained = passed @ covariance[np.ix_(old, new)]
    given = covariance[np.ix_(new, new)] - explained
    columns = hypothesis.columns[new] - passed @ w
    return Conditional(
        weight=float(weight),
        left=left,
        scale=square,
        coefficients=coefficients,
        root=root_of(spread),
        columns=columns,
        carried=passed @ y,
        new_root=root_of(given),
    )


def root_of(covariance: Array) -> Array:
    """Lower triangular root of a covariance."""
    ridge = RIDGE * np.eye(len(covariance))
    return np.asarray(np.linalg.cholesky(covariance + ridge))

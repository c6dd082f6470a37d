"""What a claim's worlds say of the outcomes of rows, in closed form.

A world of normal errors is linear in its random numbers: y = m(θ) + L(θ)'z. Put in unit vectors for
z, and m and L come out exactly (`moments`). Two kinds follow: the effect moves the mean,
x = m(claimed) − m(null), or it moves the covariance, Σ(claimed) − Σ(null). A world of truth values
moves shares. Of any other world only the rows count.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.claims.noise import Random
from thermostats.claims.question import Question
from thermostats.claims.worlds import CLAIMED, NULL, World, Worlds, take_half

Array = NDArray[np.float64]
TINY = 1e-9
ALIKE = 0.3
"""Correlation of truth values of one unit: half of what worlds allow at most."""
APART = 0.2
"""Shares that differ by so much are those of two sides."""
PARTS, MANY = 10, 5000
"""Simulated studies by which a covariance is known that is not linear in normal numbers: so many
times so many."""
NOISE = 0.02
"""Means of such a world that differ by less, in standard deviations, are the same."""
STUDIES = 2000
"""Simulated studies by which shares are known."""
FREE = 100.0
"""Variance of what stands for any level of a group that a test takes out, in that of the errors."""
PER_MODEL = (0.0, 0.25, 1.0, 4.0)
"""Variances of levels of models, in that of the errors, where a model has several rows."""


class Moved(StrEnum):
    """What an effect moves."""

    MEAN = "mean"
    SPREAD = "spread"
    SHARE = "share"
    COUNT = "count"


class NotLinearError(Exception):
    """A world that is not linear in normal random numbers."""


@dataclass(frozen=True)
class UnitVectors(Random):
    """In the place of random numbers: a first study of zeros, then each unit vector as a study."""

    length: float = 1.0
    used: list[int] = field(default_factory=list)
    """Sizes of what was asked for so far."""

    def normal(self, *shape: int, scale: float = 1.0) -> NDArray[Any]:
        """The next coordinates."""
        size = int(np.prod(shape))
        begin = sum(self.used)
        self.used.append(size)
        flat = np.zeros((self.studies, size))
        places = np.arange(size)
        inside = places + begin + 1 < self.studies
        own = places[inside]
        flat[own + begin + 1, own] = self.length * scale
        return flat.reshape(self.studies, *shape)

    def t(self, df: float, *shape: int) -> NDArray[Any]:
        """Raises NotLinearError."""
        raise NotLinearError

    def uniform(self, *shape: int) -> NDArray[Any]:
        """Raises NotLinearError."""
        raise NotLinearError

    def signs(self, *shape: int) -> NDArray[Any]:
        """Raises NotLinearError."""
        raise NotLinearError


def moments(world: World, rows: pd.DataFrame) -> tuple[Array, Array]:
    """Mean and covariance of a world's outcomes on rows; raises NotLinearError where they are not
    linear in normal numbers, or of several outcomes."""
    rng = np.random.default_rng(1)
    counting = UnitVectors(rng, 1)
    _outcome(world, rows, counting)
    studies = sum(counting.used) + 1
    drawn = _outcome(world, rows, UnitVectors(rng, studies))
    twice = _outcome(world, rows, UnitVectors(rng, studies, length=2.0))
    mean = drawn[0]
    steps = drawn[1:] - mean
    if not np.allclose(twice[1:] - mean, 2 * steps, atol=TINY):
        raise NotLinearError
    return mean, steps.T @ steps


def simulated_moments(world: World, rows: pd.DataFrame) -> tuple[Array, Array]:
    """The same by simulation, of a world with one outcome that is a number; else raises
    NotLinearError."""
    total = np.zeros(len(rows))
    square = np.zeros((len(rows), len(rows)))
    for part in range(PARTS):
        drawn = list(world.draw(rows, Random(np.random.default_rng(part), MANY)).values())
        if len(drawn) != 1 or drawn[0].dtype == np.bool_:
            raise NotLinearError
        total += drawn[0].sum(axis=0)
        square += drawn[0].T @ drawn[0]
    mean = total / (PARTS * MANY)
    return mean, square / (PARTS * MANY) - np.outer(mean, mean)


def _outcome(world: World, rows: pd.DataFrame, random: Random) -> Array:
    outcomes = list(world.draw(rows, random).values())
    if len(outcomes) != 1:
        raise NotLinearError
    return np.asarray(outcomes[0], dtype=np.float64)


@dataclass(frozen=True)
class DesignContrast:
    """An effect θ in the outcomes of n rows: y ~ N(Fβ + xθ, Σ), or with Σ(θ)."""

    kind: Moved
    effect: Array
    """x of every row."""
    fixed: Array
    """F, n × k; without a column where x itself is the level."""
    covariances: Array
    """Σ by value of what is not known about errors, v × n × n."""
    slope: Array | None = None
    """Σ(claimed) − Σ(null), where the effect moves it."""

    def part(self, places: NDArray[np.int64]) -> DesignContrast:
        """The same of some rows."""
        covariances = self.covariances[:, places[:, None], places[None, :]]
        slope = None if self.slope is None else self.slope[np.ix_(places, places)]
        return replace(
            self,
            effect=self.effect[places],
            fixed=self.fixed[places],
            covariances=covariances,
            slope=slope,
        )

    def precision(self, at: int = -1) -> float:
        """Information about θ: 1/Var(θ̂) by generalised least squares, or of a variance after the
        scale of all is taken out.

        I = x'Px of the mean; of the covariance I = ½ tr(PDPD) − ½ tr(PD)²/(n − k), D the slope,
        P = Σ⁻¹ − Σ⁻¹F(F'Σ⁻¹F)⁻¹F'Σ⁻¹. at: which Σ, by default the middle one.
        """
        middle = len(self.covariances) // 2 if at < 0 else at
        inverse = np.linalg.inv(self.covariances[middle])
        if self.fixed.shape[1]:
            solved = inverse @ self.fixed
            inner = np.linalg.pinv(self.fixed.T @ solved, hermitian=True)
            inverse = inverse - solved @ inner @ solved.T
        if self.slope is None:
            return max(float(self.effect @ inverse @ self.effect), 0.0)
        moved = inverse @ self.slope
        left = max(len(self.effect) - self.fixed.shape[1], 1)
        squares = float(np.sum(moved * moved.T))
        explained = float(np.trace(moved)) ** 2 / left
        return float(max(squares - explained, 0.0) / 2)


def complete_rows(question: Question, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows in which worlds have an outcome for every model: where a model lacks a number that they
    read, such as its error of measurement, it has the median of the others."""
    worlds = question.require_trial()[1].worlds
    if worlds is None or rows.empty:
        return rows
    drawn = worlds.build_world().draw(rows, Random(np.random.default_rng(1)))
    if all(np.isfinite(values).all() for values in drawn.values()):
        return rows
    lacking = []
    for name in rows:
        if pd.api.types.is_float_dtype(rows[name].dtype) and rows[name].isna().any():
            lacking.append(name)
    return rows.fillna({name: rows[name].median() for name in lacking})


def contrast_of(question: Question, rows: pd.DataFrame) -> DesignContrast:
    """The effect that a question asks for, in the worlds that its claim declares, on some rows."""
    trial = question.require_trial()[1]
    n = len(rows)
    effect = np.ones(n)
    constant = DesignContrast(Moved.COUNT, effect, np.ones((n, 0)), np.eye(n)[None])
    worlds = trial.worlds
    if worlds is None or n == 0:
        return constant
    free = _free(rows, trial.within)
    made = _linear(worlds, rows, free) or _of_shares(worlds, rows, free)
    made = made or _simulated(worlds, rows, free) or constant
    return made if made.precision() > TINY else constant


def _linear(worlds: Worlds, rows: pd.DataFrame, free: Array) -> DesignContrast | None:
    """Of worlds that are linear in normal numbers; None of others."""
    try:
        first, null = moments(_middle(worlds, NULL), rows)
        second, claimed = moments(_middle(worlds, CLAIMED), rows)
        known = _covariances(worlds, rows)
    except NotLinearError:
        return None
    effect = second - first
    scale = float(np.trace(null)) / len(rows) or 1.0
    if np.abs(effect).max() > TINY:
        return _of_mean(Moved.MEAN, effect, known / scale + free)
    return _of_spread(null / scale, claimed / scale, free)


def _simulated(worlds: Worlds, rows: pd.DataFrame, free: Array) -> DesignContrast | None:
    """Of other worlds whose effect moves the covariance alone; None where it moves the mean."""
    try:
        first, null = simulated_moments(worlds.build_world(NULL), rows)
        second, claimed = simulated_moments(worlds.build_world(CLAIMED), rows)
    except NotLinearError:
        return None
    scale = float(np.trace(null)) / len(rows) or 1.0
    if np.abs(second - first).max() > NOISE * scale**0.5 * 2:
        return None
    return _of_spread(null / scale, claimed / scale, free)


def _of_spread(null: Array, claimed: Array, free: Array) -> DesignContrast:
    """A contrast of covariances, at the middle of both."""
    n = len(null)
    middle = (null + claimed) / 2 + free
    middle = middle[None]
    return DesignContrast(Moved.SPREAD, np.zeros(n), np.ones((n, 1)), middle, claimed - null)


def _of_mean(kind: Moved, effect: Array, covariances: Array) -> DesignContrast:
    """A contrast of means; a level of all is taken out unless the effect is one itself."""
    level = np.ptp(effect) > TINY
    fixed = np.ones((len(effect), int(level)))
    return DesignContrast(kind, effect, fixed, covariances)


def _of_shares(worlds: Worlds, rows: pd.DataFrame, free: Array) -> DesignContrast | None:
    """A contrast of shares of truth values; None of other outcomes."""
    outcomes = []
    for size in (CLAIMED, NULL):
        random = Random(np.random.default_rng(1), STUDIES)
        drawn = list(worlds.build_world(size).draw(rows, random).values())
        if len(drawn) != 1 or drawn[0].dtype != np.bool_:
            return None
        outcomes.append(drawn[0].mean(axis=0))
    claimed = outcomes[0]
    two = np.ptp(claimed) > APART
    middle = (claimed.max() + claimed.min()) / 2
    side = (claimed > middle).astype(np.float64) if two else np.ones(len(rows))
    lab = rows["heritage"].to_numpy()
    same = lab[:, None] == lab[None, :]
    alike = (1 - ALIKE) * np.eye(len(rows)) + ALIKE * same
    return _of_mean(Moved.SHARE, side, (alike + free)[None])


def _free(rows: pd.DataFrame, within: str) -> Array:
    """Covariance of levels of groups about which nothing is known, as a test takes them out."""
    if not within:
        return np.zeros((len(rows), len(rows)))
    group = rows[within].astype(str).to_numpy()
    return np.asarray(FREE * (group[:, None] == group[None, :]))


def _middle(worlds: Worlds, size: str) -> World:
    """The world of a size, errors alike within groups at half of what is plausible, where a family
    of worlds has it."""
    between = worlds.box.get("between")
    if not between:
        return worlds.build_world(size)
    return worlds.build_world(size, between=take_half("between", between[0], between[1]))


def _covariances(worlds: Worlds, rows: pd.DataFrame) -> Array:
    """Covariances of errors from least to most alike within groups, or within models of several
    rows."""
    if rows["model_id"].duplicated().any():
        model = rows["model_id"].to_numpy()
        same = model[:, None] == model[None, :]
        errors = moments(worlds.build_world(NULL), rows)[1]
        scale = float(np.trace(errors)) / len(rows)
        return np.stack([errors + scale * level * same for level in PER_MODEL])
    between = worlds.box.get("between")
    if not between:
        return moments(worlds.build_world(NULL), rows)[1][None]
    values = np.linspace(between[0], between[1], 5)
    covariances = []
    for value in values:
        world = worlds.build_world(NULL, between=float(value))
        covariances.append(moments(world, rows)[1])
    return np.stack(covariances)

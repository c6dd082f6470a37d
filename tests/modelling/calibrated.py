"""Are intervals of a stated level what they say? Bounds that a calibrated method misses once in a thousand runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from thermostats.modelling.draws import Draws, Settings, mcse
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.sampling import Sampled
from thermostats.settings import LEVEL

Read = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]

FALSE_ALARM = 0.001
"""Probability that a test of coverage fails where the intervals are calibrated, over all its quantities together."""


def assert_covered(inside: ArrayLike, level: float = LEVEL) -> None:
    """Every column of tables × quantities is true as often as `level` says, by exact binomial bounds.

    Tables are independent; the quantities of one table need not be (Bonferroni over columns).
    """
    found = np.atleast_2d(np.asarray(inside, dtype=bool).T).T
    tables, quantities = found.shape
    tail = FALSE_ALARM / quantities / 2
    low, high = stats.binom.ppf(tail, tables, level), stats.binom.isf(tail, tables, level)
    for number, covered in enumerate(found.sum(axis=0)):
        assert low <= covered <= high, f"quantity {number}: {covered} of {tables}, allowed {low:g} to {high:g}"


def assert_calibrated(probability: ArrayLike, happened: ArrayLike) -> None:
    """Stated probabilities p go with what happened: |Σ(h − p)|/√Σp(1 − p) below its normal bound."""
    p, h = np.asarray(probability, dtype=float), np.asarray(happened, dtype=float)
    z = (h - p).sum() / np.sqrt((p * (1 - p)).sum())
    assert abs(z) < stats.norm.isf(FALSE_ALARM / 2), f"{h.sum():g} of {h.size} happened, {p.sum():.1f} expected"


def within(truth: ArrayLike, draws: ArrayLike, level: float = LEVEL) -> np.ndarray:
    """Whether the equal-tailed interval of draws (draws × …) holds the truth (…)."""
    lower, upper = np.quantile(np.asarray(draws), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return (lower <= np.asarray(truth)) & (np.asarray(truth) <= upper)


def assert_same_means(one: Draws, other: Draws) -> None:
    """Every quantity that both drew has the same mean and nearly the same spread; means by z and Bonferroni."""
    names = sorted(set(one.values) & set(other.values))
    pairs = [(columns(one[name]), columns(other[name]), name) for name in names]
    bound = stats.norm.isf(FALSE_ALARM / 2 / sum(a.shape[2] for a, _, _ in pairs))
    for a, b, name in pairs:
        for k in range(a.shape[2]):
            x, y = a[:, :, k], b[:, :, k]
            z = (x.mean() - y.mean()) / np.hypot(mcse(x), mcse(y))
            assert abs(z) < bound, f"{name}[{k}]: z {z:.1f}"
            assert 0.8 < x.std() / y.std() < 1.25, f"{name}[{k}]: spreads {x.std():.3g} and {y.std():.3g}"


def columns(values: np.ndarray) -> np.ndarray:
    """chain × draw × every element."""
    return values.reshape(*values.shape[:2], -1)


def ranks(
    model: Gaussian | Sampled, read: Read, simulations: int, *, seed: int, settings: Settings
) -> dict[str, np.ndarray]:
    """Rank of every true quantity among its posterior draws, as a share: uniform where the engine is right.

    Truths are drawn from the prior, outcomes from the truths, and the model is fitted to each (Talts et al. 2018,
    arXiv:1804.06788). `read`: quantities of draws, by name.
    """
    rng = np.random.default_rng(seed)
    truths = model.from_prior(simulations, rng)
    outcomes, expected = model.replicate(truths, rng), read(truths)
    found: dict[str, list[float]] = {name: [] for name in expected}
    for i, y in enumerate(outcomes):
        drawn = read(with_outcomes(model, y).sample(seed=seed + i, settings=settings).values)
        for name, values in drawn.items():
            found[name].append(float((values < expected[name][i]).mean()))
    return {name: np.array(shares) for name, shares in found.items()}


def with_outcomes(model: Gaussian | Sampled, y: np.ndarray) -> Gaussian | Sampled:
    """The same model of other outcomes."""
    if isinstance(model, Gaussian):
        return replace(model, y=y)
    return replace(model, data={**model.data, f"{model.outcome}_observed": y})

"""Are intervals of a stated level what they say? Bounds that a calibrated method misses once in a thousand runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from thermostats.modelling.draws import Settings
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.sampling import Sampled
from thermostats.settings import LEVEL

Read = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]

FALSE_ALARM = 0.001
"""Probability that a test of coverage fails where the intervals are calibrated, over all its quantities together."""


def within(truth: ArrayLike, draws: ArrayLike, level: float = LEVEL) -> np.ndarray:
    """Whether the equal-tailed interval of draws (draws × …) holds the truth (…)."""
    lower, upper = np.quantile(np.asarray(draws), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return (lower <= np.asarray(truth)) & (np.asarray(truth) <= upper)


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

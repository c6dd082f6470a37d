"""Are posteriors as wide as they say? Ranks of true values, by bounds that right ones miss once in
a thousand runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from scipy import stats

from thermostats.modelling.draws import Settings
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.sampling import Sampled

Read = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]

FALSE_ALARM = 0.001
"""Probability that a test of ranks fails where they are uniform, over all its quantities
together."""


def rank_of(draws: np.ndarray, truth: float) -> float:
    """Share of draws below the truth, kept off 0 and 1: of S draws (how many + ½)/(S + 1)."""
    return float(((draws < truth).sum() + 0.5) / (draws.size + 1))


def uniform(rank: np.ndarray) -> float:
    """Twice the smaller p-value of place (Kolmogorov–Smirnov) and spread (ΣΦ⁻¹(rank)² ~ χ²ₙ,
    two-sided).

    Of posteriors of the right centre and another width the first sees little, the second what 1/w²
    of χ²ₙ shows.
    """
    square = np.square(stats.norm.ppf(rank)).sum()
    spread = 2 * min(stats.chi2.cdf(square, rank.size), stats.chi2.sf(square, rank.size))
    return float(2 * min(stats.kstest(rank, "uniform").pvalue, spread))


def ranks(
    model: Gaussian | Sampled, read: Read, simulations: int, *, seed: int, settings: Settings
) -> dict[str, np.ndarray]:
    """Rank of every true quantity among its posterior draws, as a share: uniform where the engine
    is right.

    Truths are drawn from the prior, outcomes from the truths, and the model is fitted to each
    (Talts et al. 2018, arXiv:1804.06788). `read`: quantities of draws, by name.
    """
    rng = np.random.default_rng(seed)
    truths = model.draw_prior(simulations, rng)
    outcomes, expected = model.replicate(truths, rng), read(truths)
    found: dict[str, list[float]] = {name: [] for name in expected}
    for i, y in enumerate(outcomes):
        drawn = read(with_outcomes(model, y).sample(seed=seed + i, settings=settings).values)
        for name, values in drawn.items():
            found[name].append(rank_of(values, expected[name][i]))
    return {name: np.array(shares) for name, shares in found.items()}


def with_outcomes(model: Gaussian | Sampled, y: np.ndarray) -> Gaussian | Sampled:
    """The same model of other outcomes."""
    if isinstance(model, Gaussian):
        return replace(model, y=y)
    return replace(model, data={**model.data, f"{model.outcome}_observed": y})

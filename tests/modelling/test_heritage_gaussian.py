"""Closed form against brute force; its calibration: coverage, probabilities as frequencies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from thermostats.modelling.heritage import gaussian
from thermostats.modelling.heritage.design import BLOCKS, design
from thermostats.modelling.heritage.fitted import prior_orders
from thermostats.modelling.heritage.simulate import TOTAL_SD, contributions, model_facts

ORDER = "heritage > geometry > scale"
ERROR = 0.01


def blank(n_models: int, n_labs: int, seed: int):
    return design(model_facts(n_models, n_labs, np.random.default_rng(seed)).assign(gain=1.0), "simulated")


def test_posterior_of_the_total_against_quadrature() -> None:
    """With the other blocks switched off, contrasts of y are N(0, τ²φ + se²), and τ and φ can be integrated."""
    rng = np.random.default_rng(0)
    y, error = rng.normal(scale=0.3, size=12), 0.2
    nothing = {name: np.zeros((12, 12)) for name in BLOCKS[:-1]}
    prepared = gaussian.prepare({**nothing, "model": np.eye(12)}, np.full(12, error), total_sd=0.5, seed=1, shares=4096)
    drawn = gaussian.posterior(prepared, y, seed=2, draws=20_000)
    squares, own = np.square(y - y.mean()).sum(), drawn["share"][:, 3]

    tau, share = np.linspace(1e-4, 3, 600)[:, None], np.linspace(1e-4, 1 - 1e-4, 400)[None, :]
    variance = tau**2 * share + error**2
    prior = stats.halfnorm.pdf(tau, scale=0.5) * stats.beta.pdf(share, 1, 3)
    table = np.exp(-squares / 2 / variance) * variance**-5.5 * prior

    def integral(values: np.ndarray) -> float:
        return float(integrate.trapezoid(integrate.trapezoid(values, share[0], axis=1), tau[:, 0]))

    assert drawn["total"].mean() == pytest.approx(integral(table * tau) / integral(table), rel=0.03)
    assert own.mean() == pytest.approx(integral(table * share) / integral(table), rel=0.05)


def test_contributions_explain_the_data_up_to_its_error() -> None:
    laid_out = blank(24, 8, seed=3)
    rng = np.random.default_rng(3)
    y = sum(contributions(laid_out, {"heritage": 0.5, "geometry": 0.2}, 0.2, rng).values())
    prepared = gaussian.prepare(laid_out.covariances(), np.full(24, ERROR), total_sd=TOTAL_SD, seed=1)
    total = gaussian.posterior(prepared, y, seed=2)["contribution"].sum(axis=1)
    missed = (total - total.mean(axis=1, keepdims=True)) - (y - np.mean(y))
    assert missed.std() == pytest.approx(ERROR, rel=0.1)


def test_intervals_cover_and_probabilities_are_frequencies() -> None:
    """On 400 tables drawn from the prior: 89 % intervals cover 86 to 92 %, P(order) is the frequency of the order."""
    rng = np.random.default_rng(4)
    covered, probabilities, true = [], [], []
    for number in range(4):
        laid_out = blank(24, 8, seed=number)
        prepared = gaussian.prepare(laid_out.covariances(), np.full(24, ERROR), total_sd=TOTAL_SD, seed=number)
        for _ in range(100):
            shares = dict(zip(BLOCKS, rng.dirichlet(np.ones(4)), strict=True))
            parts = contributions(laid_out, shares, abs(rng.normal(scale=TOTAL_SD)), rng)
            y = np.sum(list(parts.values()), axis=0) + rng.normal(scale=ERROR, size=24)
            drawn = gaussian.posterior(prepared, y, seed=int(rng.integers(2**31)), draws=500)
            sd = np.array([part.std() for part in parts.values()])
            lower, upper = np.quantile(drawn["sd"], [0.055, 0.945], axis=0)
            covered.append((lower <= sd) & (sd <= upper))
            probabilities.append(gaussian.orders(drawn["sd"])[ORDER])
            true.append(sd[0] > sd[1] > sd[2])
    assert np.all(np.abs(np.mean(covered, axis=0) - 0.89) < 0.04), np.mean(covered, axis=0)
    stated, happened = np.array(probabilities), np.array(true)
    for low, high in ((0.0, 0.15), (0.15, 0.35), (0.35, 0.6), (0.6, 1.0)):
        inside = (stated >= low) & (stated < high)
        error = np.sqrt(happened[inside].mean() * (1 - happened[inside].mean()) / inside.sum()) + 0.01
        assert abs(stated[inside].mean() - happened[inside].mean()) < 3 * error


def test_prior_odds_of_the_order_come_from_simulation() -> None:
    """About 0.25 rather than 1/6, since a block of one column has a small standard deviation more often."""
    prior = prior_orders(blank(24, 8, seed=7), concentration=1.0, seed=7)
    assert prior[ORDER] == pytest.approx(0.24, abs=0.03)
    assert gaussian.bayes_factor(0.25, 0.25) == pytest.approx(1)
    assert gaussian.bayes_factor(1.0, 0.25) == np.inf

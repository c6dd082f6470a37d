"""Gaussian models with kinds of effects summed out, against covariances written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from thermostats.modelling.inference.components import Components, draw, left_out, log_density


def some(seed: int = 1, *, n: int = 12, groups: int = 4) -> Components:
    """One known column, effects of two kinds, crossed."""
    rng = np.random.default_rng(seed)
    one, two = np.eye(groups)[np.arange(n) % groups], np.eye(3)[np.arange(n) % 3]
    x = rng.standard_normal((n, 1))
    kind = np.repeat(np.eye(2), [groups, 3], axis=0)
    z = 0.4 * x[:, 0] + one @ rng.normal(0, 0.5, groups) + two @ rng.normal(0, 0.3, 3) + rng.normal(0, 0.6, n)
    scales = np.array([0.5, 1.0, 1.0])
    return Components(z=z, U=np.concatenate([x, one, two], axis=1), sd=np.array([0.5]), kind=kind, scales=scales)


def covariance(model: Components, scales: np.ndarray) -> np.ndarray:
    """r² I + U diag(v) Uᵀ."""
    v = np.concatenate([model.sd**2, model.kind @ scales[:-1] ** 2])
    return (model.U * v) @ model.U.T + scales[-1] ** 2 * np.eye(model.z.size)


ROWS = np.array([[0.3, 0.5, 0.8], [0.1, 1.0, 0.4], [1e-3, 0.02, 0.5]])


def test_the_density_is_that_of_the_joint_normal() -> None:
    model = some()
    expected = [stats.multivariate_normal.logpdf(model.z, np.zeros(12), covariance(model, row)) for row in ROWS]
    assert log_density(model, ROWS) == pytest.approx(expected, abs=1e-8)


def test_an_outcome_left_out_is_predicted_by_its_conditional_normal() -> None:
    model = some()
    mean, sd = left_out(model, ROWS)
    for k, row in enumerate(ROWS):
        V = covariance(model, row)
        for i in range(12):
            others = np.delete(np.arange(12), i)
            gain = np.linalg.solve(V[np.ix_(others, others)], V[others, i])
            assert mean[k, i] == pytest.approx(gain @ model.z[others])
            assert sd[k, i] == pytest.approx((V[i, i] - gain @ V[others, i]) ** 0.5)


def test_draws_are_those_of_the_prior_weighted_by_the_likelihood() -> None:
    model, n = some(), 40_000
    found = draw(model, seed=1, draws=20_000)
    scales = np.abs(np.random.default_rng(2).normal(0, model.scales, (n, 3)))
    scales = np.maximum(scales, 1e-3)
    density = log_density(model, scales)
    weights = np.exp(density - logsumexp(density))
    assert found.log_evidence == pytest.approx(logsumexp(density) - np.log(n), abs=0.05)
    for k in range(3):
        expected = weights @ scales[:, k]
        spread = np.sqrt(weights @ (scales[:, k] - expected) ** 2)
        assert found.scales[:, k].mean() == pytest.approx(expected, abs=0.05 * spread)
        assert found.scales[:, k].std() == pytest.approx(spread, rel=0.06)
    chosen = scales[np.random.default_rng(3).choice(n, 2000, p=weights)]
    means = np.empty(2000)
    for i, row in enumerate(chosen):
        v = model.sd[0] ** 2
        means[i] = v * model.U[:, 0] @ np.linalg.solve(covariance(model, row), model.z)
    assert found.effects[:, 0].mean() == pytest.approx(means.mean(), abs=0.05 * found.effects[:, 0].std())

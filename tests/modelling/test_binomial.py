"""Counts of groups: draws against sums over a dense grid, coverage, large groups, groups left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from thermostats.modelling.inference import binomial
from thermostats.modelling.inference.binomial import MU_SD, TAU_SCALE


def dense(k: list[int], n: list[int], size: int = 160) -> dict[str, float]:
    """Posterior means by sums over μ and τ, each group's logit by Gauss–Hermite."""
    mu, tau = np.linspace(-8, 8, size), np.linspace(5 / size / 2, 5, size)
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    p = expit(mu[:, None, None] + tau[:, None] * nodes)
    density = stats.norm.pdf(mu, 0, MU_SD)[:, None] * stats.norm.pdf(tau, 0, TAU_SCALE)
    inside = [stats.binom.pmf(own, of, p) * weights for own, of in zip(k, n, strict=True)]
    sums = [part.sum(axis=-1) for part in inside]
    density = density * np.prod(sums, axis=0)
    density /= density.sum()
    first = (inside[0] * p).sum(axis=-1) / sums[0]
    second = (inside[0] * p**2).sum(axis=-1) / sums[0]
    mean = float((density * first).sum())
    return {
        "mu": float((density.sum(axis=1) * mu).sum()),
        "tau": float((density.sum(axis=0) * tau).sum()),
        "p": mean,
        "p_sd": float((density * second).sum() - mean**2) ** 0.5,
    }


@pytest.mark.parametrize(("k", "n"), [([9, 1, 2, 5, 0], [10, 10, 2, 10, 4]), ([3, 0, 1], [3, 2, 9]), ([0, 0], [1, 1])])
def test_draws_are_the_dense_sums(k: list[int], n: list[int]) -> None:
    found = binomial.posterior(np.array(k), np.array(n), grouped=True, seed=1, draws=20_000)
    expected = dense(k, n)
    error = {name: 4 * float(getattr(found, name).std()) / 20_000**0.5 for name in ("mu", "tau")}
    assert found.mu.mean() == pytest.approx(expected["mu"], abs=error["mu"])
    assert found.tau.mean() == pytest.approx(expected["tau"], abs=error["tau"] + 0.01)  # the dense step is 0.03
    assert found.p[:, 0].mean() == pytest.approx(expected["p"], abs=4 * expected["p_sd"] / 20_000**0.5 + 0.001)
    assert found.p[:, 0].std() == pytest.approx(expected["p_sd"], rel=0.04)


def test_a_large_group_speaks_for_itself() -> None:
    found = binomial.posterior(np.array([700, 2]), np.array([1000, 2]), grouped=True, seed=1, draws=4000)
    assert found.p[:, 0].mean() == pytest.approx(0.7, abs=0.003)
    assert found.p[:, 0].std() == pytest.approx((0.7 * 0.3 / 1000) ** 0.5, rel=0.06)
    assert found.p[:, 1].std() > 0.1


@pytest.mark.slow
def test_very_many_units_and_draws_are_taken_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    largest, inner = [], binomial._cumulated

    def measured(log_weights: np.ndarray) -> np.ndarray:
        largest.append(log_weights.size)
        return inner(log_weights)

    monkeypatch.setattr(binomial, "_cumulated", measured)
    found = binomial.posterior(np.array([35_000, 10]), np.array([50_000, 40]), grouped=True, seed=1, draws=1200)
    assert max(largest) < 1.1 * binomial.AT_ONCE
    assert found.p[:, 0].mean() == pytest.approx(0.7, abs=0.001)
    assert found.p[:, 0].std() == pytest.approx((0.7 * 0.3 / 50_000) ** 0.5, rel=0.1)


def test_a_group_foretold_from_the_others_stands_out_where_it_is_another() -> None:
    k, n = np.array([24, 25, 23, 25, 0]), np.full(5, 25)
    pit = binomial.left_out_pit(k, n, list("abcde"), seed=1, draws=2000)
    assert pit[4] < 0.05
    assert pit[:4].min() > 0.2


def test_groups_left_out_together_are_foretold_from_the_others_alone() -> None:
    k, n = np.array([24, 25, 23, 0, 0]), np.full(5, 25)
    apart = binomial.left_out_pit(k, n, list("abcde"), seed=1, draws=2000)
    together = binomial.left_out_pit(k, n, list("abcdd"), seed=1, draws=2000)
    assert together[:3] == pytest.approx(apart[:3])
    assert (together[3:] < apart[3:] / 2).all()  # nothing is known of another such group


def test_without_groups_all_share_one_p() -> None:
    found = binomial.posterior(np.array([3, 4]), np.array([5, 5]), grouped=False, seed=1, draws=20_000)
    assert (found.p[:, 0] == found.p[:, 1]).all()
    assert not found.tau.any()
    mu = np.linspace(-10, 10, 8001)
    weight = stats.norm.pdf(mu, 0, MU_SD) * stats.binom.pmf(7, 10, expit(mu))
    assert found.mu.mean() == pytest.approx(float(weight @ mu / weight.sum()), abs=4 * found.mu.std() / 20_000**0.5)

"""Standard errors that are estimates: moderated over models, and drawn by the exact engine; against
sums over grids."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from thermostats.modelling.gaussian import Gaussian, HalfNormals
from thermostats.modelling.importance import estimate_moderated_errors
from thermostats.modelling.leave_out import leave_folds_out


def test_moderated_spreads_are_nearer_to_the_truth_than_those_of_five_values() -> None:
    """Forty means of five values: s is off by 38%."""
    rng = np.random.default_rng(1)
    sigma = np.exp(-3 + 0.2 * rng.normal(size=40))
    s = sigma * np.sqrt(rng.chisquare(4, 40) / 4)
    error, freedom = estimate_moderated_errors(s, np.full(40, 5.0))
    off = [np.sqrt(np.square(np.log(spread / sigma)).mean()) for spread in (error * 5**0.5, s)]
    assert off[0] < 0.75 * off[1]
    lower, upper = (
        np.sqrt(5 * error**2 * freedom / stats.chi2.isf(q, freedom)) for q in (0.03, 0.97)
    )
    assert ((lower < sigma) & (sigma < upper)).mean() >= 0.85


def test_a_single_value_has_the_spread_of_the_others_and_single_values_alone_have_none() -> None:
    error, freedom = estimate_moderated_errors(
        np.r_[np.full(20, 0.05), 0.0], np.r_[np.full(20, 50.0), 1.0]
    )
    assert error[:20] == pytest.approx(0.05 / 50**0.5, rel=0.05)
    assert error[20] == pytest.approx(0.05, rel=0.1) and freedom[20] == pytest.approx(
        freedom[0] - 49
    )
    exact, infinite = estimate_moderated_errors(np.zeros(3), np.ones(3))
    assert (exact == 0).all() and np.isinf(infinite).all()


@pytest.fixture(scope="module")
def model() -> Gaussian:
    y, error = np.array([0.1, -0.2, 0.9, 0.3, 0.0, 0.25]), np.array([0.1, 0.05, 0.3, 0.1, 0.2, 0.1])
    freedom = np.array([4.0, 6.0, 3.0, 8.0, 5.0, 30.0])
    return Gaussian(
        y=y,
        X=np.ones((6, 1)),
        sd=np.ones(1),
        blocks={},
        prior=HalfNormals((0.5,)),
        error=error,
        freedom=freedom,
    )


def by_grid(
    model: Gaussian, out: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of β and s_0 with their weights, and the density of every outcome there, errors summed
    over 200 nodes."""
    beta, s = (
        g.ravel() for g in np.meshgrid(np.linspace(-1, 1, 61), np.exp(np.linspace(-7, 1, 61)))
    )
    q = (np.arange(200) + 0.5) / 200
    density = np.empty((6, beta.size))
    for i in range(6):
        nu = model.freedom[i]
        square = model.error[i] ** 2 * nu / stats.chi2.isf(q, nu)
        density[i] = stats.norm.pdf(
            model.y[i], beta[:, None], np.sqrt(s[:, None] ** 2 + square)
        ).mean(axis=1)
    seen = np.arange(6) != out
    weight = (
        density[seen].prod(axis=0) * stats.norm.pdf(beta) * stats.halfnorm.pdf(s, scale=0.5) * s
    )
    return beta, s, weight / weight.sum(), density


def test_draws_with_uncertain_errors_are_the_posterior_by_grid(model: Gaussian) -> None:
    draws = model.sample(seed=1)
    beta, s, weight, _ = by_grid(model)
    assert draws.status == "passed", draws.failures()
    for values, nodes in ((draws.flat("beta")[:, 0], beta), (draws.flat("scale")[:, 0], s)):
        mean = weight @ nodes
        sd = np.sqrt(weight @ nodes**2 - mean**2)
        assert values.mean() == pytest.approx(mean, abs=4 * sd / draws.effective**0.5)
        assert values.std() == pytest.approx(sd, rel=0.06)
    # the outlier's error is larger than was thought, the others' are not
    drawn = np.square(draws.flat("error")).mean(axis=0) / (
        model.error**2 * model.freedom / (model.freedom - 2)
    )
    assert drawn[2] > 1.1 and drawn[[0, 1, 3, 4, 5]].max() < 1.1


def test_outcomes_left_out_are_predicted_as_by_grid(model: Gaussian) -> None:
    left_out = leave_folds_out(
        model, model.sample(seed=1), [str(i) for i in range(6)], seed=1, size=4000
    )
    for i in range(6):
        _, _, weight, density = by_grid(model, out=i)
        assert left_out.log_density[str(i)] == pytest.approx(
            np.log(weight @ density[i]), abs=0.06
        ), i

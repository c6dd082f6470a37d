"""The closed form: against quadrature, against truth, models never seen, a thousand models."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from thermostats.modelling.heritage.blocks import ORDER, Design, bayes_factor, design
from thermostats.modelling.heritage.closed_form import FLOOR, Means, closed_form, log_density
from thermostats.modelling.heritage.fit import HeritageFit, fit_heritage
from thermostats.modelling.heritage.held_out import leave_one_out
from thermostats.modelling.heritage.laws import NORMAL, law
from thermostats.modelling.heritage.model import prior_orders
from thermostats.modelling.heritage.simulate import model_facts, simulate_heritage
from thermostats.modelling.inference.draws import PASSED

SHARES = {"heritage": 0.6, "geometry": 0.15, "scale": 0.05}


@pytest.fixture(scope="module")
def fitted() -> HeritageFit:
    table = simulate_heritage(model_facts(18, 6, np.random.default_rng(1)), shares=SHARES, seed=1, n_prompts=8).table
    families = table["model_id"].map({name: "xy"[i // 6 % 2] for i, name in enumerate(sorted(set(table["model_id"])))})
    return fit_heritage(table.assign(family=families), estimand="simulated", seed=1, method="closed form")


def dense(means: Means, bases: Sequence[np.ndarray], theta: np.ndarray) -> float:
    """log N(y; 0, Z S Zᵀ + D) + log prior of θ, by the whole covariance."""
    covariance = 4 * means.total_sd**2 + sum(np.exp(v) * b @ b.T for v, b in zip(theta[:-1], bases, strict=True))
    covariance = covariance + np.diag(np.exp(theta[-1]) + means.error**2)
    total = np.exp(theta).sum()
    prior = -0.5 * total / means.total_sd**2 + 0.5 * np.log(total) + means.concentration * (theta - np.log(total)).sum()
    return float(stats.multivariate_normal.logpdf(means.y, np.zeros(means.y.size), covariance) + prior)


def given(design: Design, bases: Sequence[np.ndarray], concentration: float) -> Means:
    y, error = design.means()
    return Means(
        y=y,
        error=np.maximum(error, FLOOR),
        Z=np.column_stack([np.ones(y.size), *bases]),
        ranks=tuple(basis.shape[1] for basis in bases),
        seen=np.ones(y.size, dtype=bool),
        total_sd=0.5,
        concentration=concentration,
        law=law(NORMAL),
        units=np.arange(y.size),
    )


def test_it_is_the_posterior_by_quadrature(fitted: HeritageFit) -> None:
    """Of labs and models alone the two variances can be summed over a grid, with the whole covariance at every node."""
    bases = (fitted.design.bases()["heritage"],)
    means = given(fitted.design, bases, 1.0)
    nodes = np.array([(h, m) for h in np.linspace(-14, 2, 45) for m in np.linspace(-14, 2, 45)])
    density = np.array([dense(means, bases, node) for node in nodes])
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    total, share = np.exp(nodes).sum(axis=1), np.exp(nodes[:, 0]) / np.exp(nodes).sum(axis=1)
    draws = closed_form(fitted.design, total_sd=0.5, seed=1, blocks=("heritage", "model"))
    assert fitted.status == draws.status == PASSED
    assert draws["tau"].mean() == pytest.approx(weight @ np.sqrt(total), rel=0.02)
    assert draws["share"][..., 0].mean() == pytest.approx(weight @ share, abs=0.02)
    assert draws["share"][..., 0].std() == pytest.approx(np.sqrt(weight @ share**2 - (weight @ share) ** 2), rel=0.1)


def test_checks_pass_and_models_left_out_are_predicted(fitted: HeritageFit) -> None:
    assert fitted.check().passes, fitted.check().reasons
    held = leave_one_out(fitted, by="model", seed=1)
    assert len(held.predictions) == 18 and held.all_passed
    assert held.coverage >= 0.75 and held.rmse < held.rmse_baseline
    assert held.elpd == pytest.approx(held.predictions["log_density"].sum())
    assert held.table()["left_out"].item() == "model"
    by_lab = leave_one_out(fitted, by="heritage", seed=1)
    assert len(by_lab.predictions) == 18 and by_lab.coverage >= 0.75 and by_lab.rmse < 1.5 * by_lab.rmse_baseline


def test_models_never_seen_are_predicted_and_blocks_can_be_left_out(fitted: HeritageFit) -> None:
    mean, error = fitted.design.means()
    draws = closed_form(fitted.design, total_sd=0.5, seed=1, blocks=("heritage", "model"), unseen=[0])
    assert (draws["share"][..., 1:3] == 0).all()
    assert draws["share"].sum(axis=-1) == pytest.approx(np.ones((4, 1000)))
    m = draws.flat("m")
    assert m[:, 1:].mean(axis=0) == pytest.approx(mean[1:], abs=3 * error.max())
    own = (draws["tau"] * np.sqrt(draws["share"][..., -1])).mean()
    assert m[:, 0].std() > own


def test_where_sampling_fails_auto_takes_the_closed_form_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    one = simulate_heritage(model_facts(24, 6, np.random.default_rng(0)), shares=SHARES, seed=1, n_prompts=5)
    failing = SimpleNamespace(failures=lambda: ("17 divergent transitions",))
    monkeypatch.setattr("thermostats.modelling.heritage.fit.sampling.fit", lambda *_, **__: failing)
    fit = fit_heritage(one.table, leave_out=())
    assert fit.method == "closed form"
    assert "sampling failed (17 divergent transitions)" in fit.warnings


def test_hundreds_of_models_take_the_closed_form() -> None:
    one = simulate_heritage(model_facts(400, 40, np.random.default_rng(0)), shares=SHARES, seed=1, n_prompts=5)
    fit = fit_heritage(one.table, estimand="simulated", seed=1)
    assert fit.method == "closed form"
    assert any("closed form of the models' means" in warning for warning in fit.warnings)
    assert fit.status == PASSED, fit.draws.failures()
    rows = fit.summary().set_index("quantity")
    for block in ("heritage", "geometry", "model"):
        assert rows["lower"][f"sd_{block}"] * 0.97 <= one.sds[block] <= rows["upper"][f"sd_{block}"] * 1.03, block


@pytest.mark.slow
def test_a_thousand_models() -> None:
    one = simulate_heritage(model_facts(1000, 100, np.random.default_rng(0)), shares=SHARES, seed=1, n_prompts=25)
    fit = fit_heritage(one.table, estimand="simulated", seed=1)
    assert fit.status == PASSED, fit.draws.failures()
    assert fit.probabilities["heritage > geometry"] > 0.99
    last = fit.check().checks[-1]
    assert (last.name, last.outcome, last.reason) == ("influence", "warned", "no unit was left out")


def test_the_density_is_the_dense_one_and_holds_where_no_posterior_reaches(fitted: HeritageFit) -> None:
    """Up to a constant; and at variances of e^36 and e^−500 still a number."""
    bases = tuple(fitted.design.bases().values())[:3]
    means = given(fitted.design, bases, 2.0)
    theta = np.random.default_rng(1).normal(-4, 2, (5, 4))
    found, expected = log_density(means, theta), np.array([dense(means, bases, row) for row in theta])
    assert found - found[0] == pytest.approx(expected - expected[0], abs=1e-6)
    extremes = np.array([[36.0, -22.0, 7.6, -4.2], [-4.0, 40.0, 40.0, -500.0], [-500.0, -500.0, -500.0, -500.0]])
    far = log_density(means, extremes)
    assert np.isfinite(far).all() and (far < found.min() - 100).all()


def test_draws_are_the_same_in_small_pieces(fitted: HeritageFit, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = closed_form(fitted.design, total_sd=0.5, seed=3)
    monkeypatch.setattr("thermostats.modelling.heritage.gaussian.NUMBERS", 50)
    pieces = closed_form(fitted.design, total_sd=0.5, seed=3)
    for name in ("tau", "share", "u", "m"):
        assert pieces[name] == pytest.approx(whole[name], abs=1e-9), name


def test_prior_odds_of_the_order_come_from_simulation() -> None:
    """About 0.25 rather than 1/6, since a block of one column has a small standard deviation more often."""
    laid_out = design(model_facts(24, 8, np.random.default_rng(7)).assign(gain=1.0), "simulated")
    assert prior_orders(laid_out, concentration=1.0, seed=7)[ORDER] == pytest.approx(0.24, abs=0.03)
    assert bayes_factor(0.25, 0.25) == pytest.approx(1)
    assert bayes_factor(1.0, 0.25) == np.inf

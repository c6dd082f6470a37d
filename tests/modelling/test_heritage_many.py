"""The closed form of many models: against quadrature, against truth, models never seen, a thousand models."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import stats

from thermostats.modelling.heritage import gaussian
from thermostats.modelling.heritage.closed_form import Means, closed_form, log_density
from thermostats.modelling.heritage.design import BLOCKS
from thermostats.modelling.heritage.fit import fit_heritage
from thermostats.modelling.heritage.fitted import HeritageFit
from thermostats.modelling.heritage.held_out import leave_one_out
from thermostats.modelling.heritage.simulate import model_facts, simulate_heritage
from thermostats.modelling.inference.draws import PASSED

SHARES = {"heritage": 0.6, "geometry": 0.15, "scale": 0.05}


@pytest.fixture(scope="module")
def fitted() -> HeritageFit:
    table = simulate_heritage(model_facts(18, 6, np.random.default_rng(1)), shares=SHARES, seed=1, n_prompts=8).table
    families = table["model_id"].map({name: "xy"[i // 6 % 2] for i, name in enumerate(sorted(set(table["model_id"])))})
    return fit_heritage(table.assign(family=families), estimand="simulated", seed=1, method="closed form")


def test_it_is_the_posterior_by_quadrature(fitted: HeritageFit) -> None:
    """The other closed form draws shares from their prior and sums τ over a grid; its mean is flat, here N(0, 1)."""
    mean, error = fitted.design.means()
    prepared = gaussian.prepare(fitted.design.covariances(), error, total_sd=fitted.total_sd, seed=1)
    drawn = gaussian.posterior(prepared, mean, seed=1, draws=8000)
    assert fitted.status == PASSED
    for b, block in enumerate(BLOCKS):
        for kind in ("sd", "share"):
            found = fitted.quantities[f"{kind}_{block}"]
            assert found.mean() == pytest.approx(drawn[kind][:, b].mean(), abs=0.02), (kind, block)
            assert found.std() == pytest.approx(drawn[kind][:, b].std(), rel=0.12), (kind, block)
    for statement, probability in gaussian.orders(drawn["sd"]).items():
        assert fitted.probabilities[statement] == pytest.approx(probability, abs=0.05)


def test_models_never_seen_are_predicted_and_blocks_can_be_left_out(fitted: HeritageFit) -> None:
    mean, error = fitted.design.means()
    draws = closed_form(fitted.design, total_sd=0.5, seed=1, blocks=("heritage", "model"), unseen=[0])
    assert (draws["share"][..., 1:3] == 0).all()
    assert draws["share"].sum(axis=-1) == pytest.approx(np.ones((4, 1000)))
    m = draws.flat("m")
    assert m[:, 1:].mean(axis=0) == pytest.approx(mean[1:], abs=3 * error.max())
    own = (draws["tau"] * np.sqrt(draws["share"][..., -1])).mean()
    assert m[:, 0].std() > own


def test_leave_one_model_out(fitted: HeritageFit) -> None:
    held = leave_one_out(fitted, by="model", seed=1)
    assert len(held.predictions) == 18
    assert held.all_passed
    assert held.coverage >= 0.75
    assert held.elpd == pytest.approx(held.predictions["log_density"].sum())
    assert held.rmse < held.rmse_baseline
    assert held.table()["left_out"].item() == "model"


def test_it_is_checked_and_shown_like_every_other(fitted: HeritageFit) -> None:
    gate = fitted.check()
    assert gate.passes, gate.reasons
    assert {check.name for check in gate.checks} == {
        "sampler",
        "prior predictive",
        "posterior predictive",
        "LOO-PIT",
        "prior sensitivity",
        "influence",
    }
    assert {"sd_lab", "sd_family"} <= set(fitted.quantities) or not fitted.design.families


@pytest.mark.parametrize(("M", "labs", "prompts", "seconds"), [(400, 40, 5, 60)])
def test_hundreds_of_models_take_the_closed_form(M: int, labs: int, prompts: int, seconds: float) -> None:
    one = simulate_heritage(model_facts(M, labs, np.random.default_rng(0)), shares=SHARES, seed=1, n_prompts=prompts)
    start = time.perf_counter()
    fit = fit_heritage(one.table, estimand="simulated", seed=1)
    assert time.perf_counter() - start < seconds
    assert fit.method == "closed form"
    assert any("closed form of the models' means" in warning for warning in fit.warnings)
    assert fit.status == PASSED, fit.draws.diagnostics.failures()
    rows = fit.summary().set_index("quantity")
    for block in ("heritage", "geometry", "model"):
        assert rows["lower"][f"sd_{block}"] * 0.97 <= one.sds[block] <= rows["upper"][f"sd_{block}"] * 1.03, block


@pytest.mark.slow
def test_a_thousand_models() -> None:
    one = simulate_heritage(model_facts(1000, 100, np.random.default_rng(0)), shares=SHARES, seed=1, n_prompts=25)
    fit = fit_heritage(one.table, estimand="simulated", seed=1)
    assert fit.status == PASSED, fit.draws.diagnostics.failures()
    assert fit.probabilities["heritage > geometry"] > 0.99
    last = fit.check().checks[-1]
    assert (last.name, last.outcome) == ("influence", "undecided")
    assert "1000 models are not left out one by one" in last.reason


def test_the_density_is_the_dense_one_and_holds_where_no_posterior_reaches(fitted: HeritageFit) -> None:
    """log N(y; 0, Z S Zᵀ + D) + log prior of θ up to a constant; and at variances of e^36 and e^−500 still a number."""
    y, error = fitted.design.means()
    bases = (fitted.design.heritage(), fitted.design.geometry, fitted.design.scale)
    means = Means(
        y=y,
        error=np.maximum(error, gaussian.FLOOR),
        Z=np.column_stack([np.ones(y.size), *bases]),
        ranks=tuple(basis.shape[1] for basis in bases),
        seen=np.ones(y.size, dtype=bool),
        total_sd=0.5,
        concentration=2.0,
    )
    theta = np.random.default_rng(1).normal(-4, 2, (5, 4))

    def dense(row: np.ndarray) -> float:
        covariance = 1.0 + sum(np.exp(v) * basis @ basis.T for v, basis in zip(row[:-1], bases, strict=True))
        covariance = covariance + np.diag(np.exp(row[-1]) + means.error**2)
        total = np.exp(row).sum()
        prior = -0.5 * total / 0.5**2 + 0.5 * np.log(total) + 2.0 * (row - np.log(total)).sum()
        return float(stats.multivariate_normal.logpdf(y, np.zeros(y.size), covariance) + prior)

    found, expected = log_density(means, theta), np.array([dense(row) for row in theta])
    assert found - found[0] == pytest.approx(expected - expected[0], abs=1e-6)
    extremes = np.array([[36.0, -22.0, 7.6, -4.2], [-4.0, 40.0, 40.0, -500.0], [-500.0, -500.0, -500.0, -500.0]])
    far = log_density(means, extremes)
    assert np.isfinite(far).all() and (far < found.min() - 100).all()

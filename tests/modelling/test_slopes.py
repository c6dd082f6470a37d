"""Slopes of entropy on log gain, by the exact engine."""

import numpy as np
import pytest
from scipy import stats
from simulated import benchmark_table

from thermostats.errors import UsageError
from thermostats.modelling.draws import Settings
from thermostats.modelling.entropy import SLOPE_SD, SLOPES, fit_slopes
from thermostats.modelling.populations import read_cells

LEVELS = [-0.2, 0.1, 0.4, 0.41]


@pytest.fixture(scope="module")
def table():
    return benchmark_table(np.random.default_rng(1), LEVELS)


@pytest.fixture(scope="module")
def fitted(table):
    return fit_slopes(table, seed=1, without="c1")


def test_slopes_and_their_classical_counterpart(fitted):
    slopes = fitted.table("slopes").set_index("model_id")
    assert fitted.status == "passed"
    assert (slopes["correlation_alone"] > 0.2).all()
    assert fitted.probabilities["between > 0"] > 0.95
    classical = fitted.table("correlation").iloc[0]
    assert classical["estimate"] == pytest.approx(slopes["correlation_alone"].mean(), abs=1e-6)
    assert classical["p_value"] < 0.01
    assert fitted.plot().has_data()


def test_without_effects_it_is_a_regression_summed_over_its_noise(table):
    """β | r is normal in closed form; r is summed over a grid."""
    laid = SLOPES.drop_kinds("slope", "prompt").design_rows(read_cells(table, "")[0])
    draws = laid.model.sample(seed=1, settings=Settings(draws=5000))
    X, y, r = laid.model.X, laid.model.y, np.linspace(0.05, 3, 2000)
    precision = X.T @ X / r[:, None, None] ** 2 + np.eye(2) / SLOPE_SD**2
    mean = np.linalg.solve(precision, (X.T @ y / r[:, None] ** 2)[..., None])[..., 0]
    cov = np.linalg.inv(precision)
    total = [
        stats.multivariate_normal.logpdf(y, cov=s**2 * np.eye(y.size) + SLOPE_SD**2 * X @ X.T)
        for s in r[::20]
    ]
    weight = np.exp(np.interp(r, r[::20], total) - max(total) - 0.5 * r**2)
    weight /= weight.sum()
    expected = weight @ mean
    sd = np.sqrt(weight @ (np.diagonal(cov, axis1=1, axis2=2) + (mean - expected) ** 2))
    beta = draws.flat("beta")
    assert np.abs(beta.mean(axis=0) - expected).max() < 4 * sd.max() / len(beta) ** 0.5
    assert beta.std(axis=0) == pytest.approx(sd, rel=0.03)


def test_models_without_entropies_that_vary_have_no_slope(table):
    flat = table.assign(entropy=table["entropy"].where(table["model_id"] != "m0", 3.0))
    fit = fit_slopes(flat, seed=1)
    assert fit.design.labels["slopes"] == ("m1", "m2", "m3")
    assert any("no slope of m0" in words for words in fit.warnings)
    for rows in (
        table.assign(entropy=3.0),
        table.drop(columns="entropy"),
        table[table["model_id"] < "m2"].assign(
            entropy=lambda t: t["entropy"].where(t["model_id"] != "m0")
        ),
    ):
        with pytest.raises(UsageError, match="need two models"):
            fit_slopes(rows, seed=1)
    with pytest.raises(UsageError, match="no such category"):
        fit_slopes(table, without="c9", seed=1)
    with pytest.raises(UsageError, match="missing or infinite"):
        fit_slopes(table.assign(entropy=table["entropy"].where(table.index > 0, np.inf)), seed=1)

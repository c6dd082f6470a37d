"""Likelihoods of a line along a tree against R (ape, nlme), and the exact test of a share of descent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import thermostats
from thermostats.modelling.lineage_likelihood import ML, PARTS, REML, Restricted, beside, line, pagel

GENERATED = Path(__file__).parent / "lineage"
TREE = thermostats.tree(GENERATED / "generated.nwk")
ROWS = pd.read_csv(GENERATED / "generated.csv", skipinitialspace=True)
REFERENCE = pd.read_csv(GENERATED / "generated_reference.csv", skipinitialspace=True)


@pytest.mark.parametrize("method", [REML, ML])
@pytest.mark.parametrize("name", ["least squares", "brownian", "lambda"])
def test_r_says_the_same_on_a_generated_tree(name: str, method: str) -> None:
    y = ROWS["log_gain"].to_numpy()
    x = np.column_stack([np.ones(len(ROWS)), ROWS["a"], ROWS["b"]])
    k = TREE.covariance(ROWS["model_id"].tolist())
    if name == "lambda":
        own = pagel(y, x, k, method=method)
    else:
        own = line(y, x, k if name == "brownian" else np.eye(len(y)), method=method)
    chosen = REFERENCE[(REFERENCE["fit"] == name) & (REFERENCE["method"] == method)].set_index("quantity")
    names = ["(Intercept)", "a", "b"]
    assert own.log_likelihood == pytest.approx(chosen["value"]["logLik"], abs=1e-6)
    assert own.beta == pytest.approx(chosen["value"][names].to_numpy(), abs=1e-4)
    assert own.se == pytest.approx(chosen["se"][names].to_numpy(), rel=1e-4)
    assert own.sigma == pytest.approx(chosen["value"]["sigma"], rel=1e-4)
    if name == "lambda":
        assert own.parameter == pytest.approx(chosen["value"]["parameter"], rel=1e-4)


def test_the_test_keeps_its_level_and_its_power_is_that_of_simulated_outcomes() -> None:
    rng = np.random.default_rng(1)
    k = TREE.covariance(ROWS["model_id"].tolist())
    x = np.column_stack([np.ones(len(ROWS)), ROWS["a"]])
    null = Restricted.of(rng.standard_normal((2000, len(ROWS))), x, k)
    bar = np.quantile(null.null(3), 0.95)
    assert (null.statistic() > bar).mean() == pytest.approx(0.05, abs=0.015)
    root = np.linalg.cholesky(0.4 * np.eye(len(ROWS)) + 0.6 * k)
    right = Restricted.of(5 + 2 * rng.standard_normal((1000, len(ROWS))) @ root.T, x, k)
    assert (right.statistic() > bar).mean() == pytest.approx(right.power(0.6, 3), abs=0.05)


def test_the_grid_finds_the_maximum_and_its_interval_holds_the_truth_mostly() -> None:
    rng = np.random.default_rng(2)
    k, x = TREE.covariance(ROWS["model_id"].tolist()), np.ones((len(ROWS), 1))
    y = ROWS["log_gain"].to_numpy()
    assert Restricted.of(y, x, k).estimate() == pytest.approx(pagel(y, x, k).parameter, abs=0.03)
    root = np.linalg.cholesky(0.4 * np.eye(len(ROWS)) + 0.6 * k)
    covered = [
        low <= 0.6 <= high
        for low, high in (Restricted.of(root @ rng.standard_normal(len(ROWS)), x, k).interval() for _ in range(200))
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.05)


def test_descent_beside_another_component_is_that_of_the_likelihood_written_out() -> None:
    """On a grid: against the restricted likelihood of a multivariate normal, contrast by contrast."""
    rng = np.random.default_rng(4)
    n, labs, sources = 24, np.arange(24) % 6, np.arange(24) % 3
    k = ((labs[:, None] == labs) + np.eye(n)) / 2
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    y = rng.normal(size=(3, n)) + 2 * rng.normal(size=(3, 6))[:, labs]
    ratio, lam = beside(y, x, k, sources)
    free = np.linalg.svd(x)[0][:, 2:]
    z = (sources[:, None] == sources).astype(float)

    def twice(w: np.ndarray, a: float, b: float) -> float:
        v = free.T @ (a * k + b * z + (1 - a - b) * np.eye(n)) @ free
        sigma = w @ np.linalg.inv(v) @ w / len(w)
        return float(2 * stats.multivariate_normal(np.zeros(len(w)), sigma * v).logpdf(w))

    pairs = [(a, b) for a in PARTS for b in PARTS if a + b < 1]
    for place, w in enumerate(y @ free):
        every = {pair: twice(w, *pair) for pair in pairs}
        best = max(every, key=lambda pair: every[pair])
        assert lam[place] == best[0]
        assert ratio[place] == pytest.approx(every[best] - max(v for (a, _), v in every.items() if a == 0))


def test_a_source_is_not_taken_for_descent() -> None:
    """Where sources alone differ the ratio given them is small, and that without them is not."""
    rng = np.random.default_rng(5)
    n, labs = 39, np.arange(39) // 4
    sources, k = labs // 3, ((np.arange(39)[:, None] // 4 == labs) + np.eye(39)) / 2
    y = rng.normal(size=(300, n)) * 0.4**0.5 + rng.normal(size=(300, 4))[:, sources] * 0.6**0.5
    given, _ = beside(y, np.ones((n, 1)), k, sources)
    without = Restricted.of(y, np.ones((n, 1)), k).statistic()
    assert (given > 2.7).mean() < 0.1 and (without > 2.7).mean() > 0.3

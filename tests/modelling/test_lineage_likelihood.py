"""Likelihoods of a line along a tree against R (ape, nlme), and the exact test of a share of
descent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.modelling.tree_likelihood import ML, REML, Restricted, fit_gls, fit_pagel

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
        own = fit_pagel(y, x, k, method=method)
    else:
        own = fit_gls(y, x, k if name == "brownian" else np.eye(len(y)), method=method)
    chosen = REFERENCE[(REFERENCE["fit"] == name) & (REFERENCE["method"] == method)].set_index(
        "quantity"
    )
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
    null = Restricted.build(rng.standard_normal((2000, len(ROWS))), x, k)
    bar = np.quantile(null.null(3), 0.95)
    assert (null.statistic() > bar).mean() == pytest.approx(0.05, abs=0.015)
    root = np.linalg.cholesky(0.4 * np.eye(len(ROWS)) + 0.6 * k)
    right = Restricted.build(5 + 2 * rng.standard_normal((1000, len(ROWS))) @ root.T, x, k)
    assert (right.statistic() > bar).mean() == pytest.approx(right.power(0.6, 3), abs=0.05)


def test_the_grid_finds_the_maximum_and_its_interval_holds_the_truth_mostly() -> None:
    rng = np.random.default_rng(2)
    k, x = TREE.covariance(ROWS["model_id"].tolist()), np.ones((len(ROWS), 1))
    y = ROWS["log_gain"].to_numpy()
    assert Restricted.build(y, x, k).estimate() == pytest.approx(
        fit_pagel(y, x, k).parameter, abs=0.03
    )
    root = np.linalg.cholesky(0.4 * np.eye(len(ROWS)) + 0.6 * k)
    covered = [
        low <= 0.6 <= high
        for low, high in (
            Restricted.build(root @ rng.standard_normal(len(ROWS)), x, k).interval()
            for _ in range(200)
        )
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.05)

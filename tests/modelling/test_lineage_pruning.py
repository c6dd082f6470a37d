"""Pruning gives what the dense likelihood gives, on balanced and ladder-like trees of any size."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.tree_likelihood import ML, REML, Pruning, fit_pagel, fit_pagel_by_pruning
from thermostats.tables.tree import Tree


def grown(n: int, seed: int = 1, *, ladder: bool = False) -> Tree:
    """A random tree of n tips: each is split off a branch at random, or off the last one."""
    rng = np.random.default_rng(seed)
    names, parents = ["root", "t0", "t1"], ["", "root", "root"]
    for i in range(2, n):
        split = len(names) - 1 if ladder else int(rng.integers(1, len(names)))
        names += [f"n{i}", f"t{i}"]
        parents += [parents[split], f"n{i}"]
        parents[split] = f"n{i}"
    edges = pd.DataFrame(
        {"name": names, "parent": parents, "length": rng.exponential(size=len(names)) + 0.01}
    )
    return Tree.build(edges)


@pytest.mark.parametrize("ladder", [False, True])
def test_products_are_those_of_the_dense_covariance_where_inner_nodes_are_models_too(
    ladder: bool,
) -> None:
    tree = grown(40, ladder=ladder)
    names = [*tree.tips, *tree.names[1:6]]
    names = list(dict.fromkeys(names))
    rng = np.random.default_rng(0)
    w, own = rng.normal(size=(len(names), 3)), rng.uniform(0.1, 2, len(names))
    v = 0.7 * tree.covariance(names) + np.diag(own)
    log_det, cross = Pruning.build(tree, names).compute_products(w, 0.7, own)
    assert log_det == pytest.approx(np.linalg.slogdet(v)[1])
    assert cross == pytest.approx(w.T @ np.linalg.solve(v, w))


@pytest.mark.parametrize(
    ("n", "seconds"), [(1_000, 10), pytest.param(10_000, 120, marks=pytest.mark.slow)]
)
def test_large_trees_take_seconds(n: int, seconds: float) -> None:
    tree = grown(n)
    rng, drift = np.random.default_rng(2), np.zeros(len(tree))
    scale = tree.heights.max() ** -0.5
    for i, parents in enumerate(tree.parents[1:], 1):
        drift[i] = drift[parents[0]] + scale * tree.lengths[i] ** 0.5 * rng.normal()
    names = list(tree.tips)
    y = 0.8 * drift[[tree.place(name) for name in names]] + 0.6 * rng.normal(size=n)
    start = time.process_time()
    found = fit_pagel_by_pruning(y, np.ones((n, 1)), tree, names)
    assert time.process_time() - start < seconds
    assert found.sigma * (1 - found.parameter) ** 0.5 == pytest.approx(0.6, rel=0.15)


def test_merges_are_refused() -> None:
    edges = pd.DataFrame(
        {"name": ["r", "a", "b", "c", "c"], "parent": ["", "r", "r", "a", "b"], "length": 1.0}
    )
    with pytest.raises(UsageError, match="merged models is not pruned: got c"):
        Pruning.build(Tree.build(edges), ["a", "b", "c"])


GENERATED = Path(__file__).parent / "lineage"


@pytest.mark.parametrize("method", [REML, ML])
def test_the_reference_of_r_is_met_by_pruning(method: str) -> None:
    tree, rows = (
        thermostats.tree(GENERATED / "generated.nwk"),
        pd.read_csv(GENERATED / "generated.csv"),
    )
    rows.columns = rows.columns.str.strip()
    names = rows["model_id"].str.strip().tolist()
    y, x = rows["log_gain"].to_numpy(), np.column_stack([np.ones(len(rows)), rows["a"], rows["b"]])
    dense, pruned = (
        fit_pagel(y, x, tree.covariance(names), method=method),
        fit_pagel_by_pruning(y, x, tree, names, method=method),
    )
    assert pruned.log_likelihood == pytest.approx(dense.log_likelihood, abs=1e-7)
    assert pruned.parameter == pytest.approx(dense.parameter, abs=1e-5)
    assert pruned.beta == pytest.approx(dense.beta, abs=1e-5)
    assert pruned.se == pytest.approx(dense.se, rel=1e-5)

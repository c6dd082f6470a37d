"""A lineage on a large tree, drawn along it, is the dense model: densities, draws given the scales,
the report."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from test_lineage_pruning import grown

from thermostats import fit_lineage
from thermostats.errors import UsageError
from thermostats.modelling import lineage_law
from thermostats.modelling.draws import Settings
from thermostats.modelling.gaussian import Gaussian, build_factor
from thermostats.modelling.lineage_law import AlongTree
from thermostats.tables.tree import Tree


def rows_of(tree: Tree, *, lam: float, slope: float, seed: int, error: float = 0.0) -> pd.DataFrame:
    """Log gains of the tips: drift and what is their own in the ratio of λ, a column of numbers and
    its slope."""
    rng, drift = np.random.default_rng(seed), np.zeros(len(tree))
    scale = tree.heights.max() ** -0.5
    for i, parents in enumerate(tree.parents[1:], 1):
        drift[i] = drift[parents[0]] + scale * tree.lengths[i] ** 0.5 * rng.normal()
    x, n = rng.normal(size=len(tree.tips)), len(tree.tips)
    own = 0.3 * lam**0.5 * drift[[tree.place(name) for name in tree.tips]] + 0.3 * (
        1 - lam
    ) ** 0.5 * rng.normal(size=n)
    y = 0.1 + slope * x + own + error * rng.normal(size=n)
    return pd.DataFrame(
        {"model_id": tree.tips, "log_gain": y, "error": error * rng.uniform(0.5, 1.5, n), "x": x}
    )


def both(monkeypatch: pytest.MonkeyPatch, n: int = 24) -> tuple[AlongTree, Gaussian]:
    """The same rows by both models, in the same axes."""
    tree = grown(n)
    rows = rows_of(tree, lam=0.6, slope=0.2, seed=3, error=0.1)
    dense = fit_lineage(rows, tree, {"x": ["x"]}, settings=Settings(draws=50)).model
    for module in (lineage_law, lineage_law):
        monkeypatch.setattr(module, "DENSE", n - 1)
    along = fit_lineage(rows, tree, {"x": ["x"]}, settings=Settings(draws=50)).model
    assert isinstance(along, AlongTree) and not isinstance(dense, AlongTree)
    return along, dense


def test_the_density_is_that_of_the_dense_model(monkeypatch: pytest.MonkeyPatch) -> None:
    along, dense = both(monkeypatch)
    theta = np.random.default_rng(1).normal(-1.5, 0.7, (20, len(along.blocks) + 1))
    assert along.log_density(theta) == pytest.approx(dense.log_density(theta), abs=1e-6)
    some = np.arange(along.y.size) % 3 > 0
    assert along.select_rows(some).log_density(theta) == pytest.approx(
        dense.select_rows(some).log_density(theta), abs=1e-6
    )


def test_effects_given_the_scales_have_the_means_and_errors_of_the_dense_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    along, dense = both(monkeypatch)
    theta = np.tile([[-1.2, -1.6, -1.4]], (4000, 1))
    square = np.broadcast_to(dense.moments[0], (4000, dense.moments[0].size))
    a = along._draw_effects(theta, square, np.random.default_rng(1))
    factor, _, d = build_factor(dense, theta[:1], square[:1])
    q = d.shape[1]
    root = np.linalg.inv(factor[0, :q, :q])
    mean, cov = d[0] * (root.T @ factor[0, q, :q]), d[0][:, None] * (root.T @ root) * d[0]
    mean[: dense.sd.size] += dense.centre
    maps = np.column_stack([dense.X, *dense.blocks.values()])
    drawn = np.column_stack([a["beta"], *(a[name] for name in along.blocks)])
    there = np.column_stack([along.X, *along.blocks.values()])
    expected, spread = maps @ mean, np.sqrt(np.diagonal(maps @ cov @ maps.T))
    outcomes = drawn @ there.T
    assert np.abs(outcomes.mean(axis=0) - expected).max() < 5 * spread.max() / 4000**0.5
    assert outcomes.std(axis=0) == pytest.approx(spread, rel=0.08)
    at = _place(dense, "u_x")
    assert a["u_x"].mean() == pytest.approx(mean[at], abs=5 * cov[at, at] ** 0.5 / 4000**0.5)


def _place(model: Gaussian, name: str) -> int:
    widths = [model.sd.size, *(z.shape[1] for z in model.blocks.values())]
    return int(np.cumsum(widths)[list(model.blocks).index(name)])


@pytest.mark.slow
def test_a_thousand_tips_with_columns_take_seconds_and_find_share_and_slope() -> None:
    tree = grown(1_000)
    rows = rows_of(tree, lam=0.7, slope=0.2, seed=5, error=0.02)
    start = time.process_time()
    fit = fit_lineage(rows, tree, {"x": ["x"]})
    slopes, likelihood = fit.table("slopes"), fit.table("likelihood")
    assert time.process_time() - start < 15
    assert fit.status == "passed" and isinstance(fit.model, AlongTree)
    best = likelihood[likelihood["p"].notna()].iloc[0]
    drawn = fit.quantities["lambda"]
    assert best["lower"] < 0.7 < best["upper"]
    assert drawn.mean() == pytest.approx(best["lambda"], abs=0.1)
    by_model = slopes.drop_duplicates("model").set_index("model")["estimate"]
    assert by_model["posterior"] == pytest.approx(by_model["Pagel's λ"], abs=0.01)
    assert by_model["posterior"] == pytest.approx(0.2, abs=0.05)
    gate = fit.check(refits=False)
    assert gate.passes and "so many models along a tree" in " ".join(gate.reasons)
    with pytest.raises(UsageError, match="are not left out"):
        fit.loo()


def test_more_than_400_are_refused_where_they_cannot_be_pruned() -> None:
    tree = grown(401)
    rows = rows_of(tree, lam=0.5, slope=0.0, seed=1)
    with pytest.raises(UsageError, match="too many models for draws"):
        fit_lineage(rows, tree, {}, process="free")
    with pytest.raises(UsageError, match="too many models for draws"):
        fit_lineage(pd.concat([rows, rows]), tree, {})

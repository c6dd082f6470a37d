"""Weighted cross-products by rows that are alike are those of all rows."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from thermostats import fit_heritage
from thermostats.modelling import gaussian, importance
from thermostats.modelling.draws import Settings
from thermostats.modelling.gaussian import Alike, Products
from thermostats.modelling.heritage import law
from thermostats.modelling.heritage.simulated import simulate_facts, simulate_heritage


def matrix(groups: int, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Three columns, then a centred indicator of every group, then one more."""
    group = rng.integers(0, groups, rows)
    centred = np.eye(groups)[group] - np.bincount(group, minlength=groups) / rows
    return np.column_stack([rng.normal(size=(rows, 3)), centred, rng.normal(size=rows)])


def test_alike_rows_give_the_sums_of_all() -> None:
    rng = np.random.default_rng(1)
    m, weights = matrix(10, 60, rng), rng.random((4, 60))
    alike = Alike.build(m, [3, 10, 1])
    assert alike is not None and len(alike.distinct) == 10
    direct = np.einsum("ti,ij,ik->tjk", weights, m, m)
    assert alike.weighted(weights) == pytest.approx(direct, abs=1e-12)
    assert Products.build(list(m[:, None])).weighted(weights) == pytest.approx(direct, abs=1e-12)
    pairs = Products.build([m[:20], m[20:]]).weighted(weights[:, :2])
    assert pairs == pytest.approx(
        np.einsum("ti,ij,ik->tjk", np.repeat(weights[:, :2], [20, 40], axis=1), m, m)
    )


def test_many_rows_and_errors_that_rows_share_give_the_same_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(1)
    m, which, weights = matrix(10, 60, rng), rng.integers(0, 40, 60), rng.random((4, 40))
    direct = np.einsum("ti,ij,ik->tjk", weights[:, which], m, m)
    for many in (1000, 10):
        monkeypatch.setattr(gaussian, "MANY", many)
        alike = Alike.build(m, [3, 10, 1], which)
        assert alike is not None
        assert alike.weighted(weights) == pytest.approx(direct, abs=1e-12)


def test_the_mode_is_where_the_density_is_flat() -> None:
    """By central differences of single densities; the spread is that of its curvature."""
    facts = simulate_facts(40, 12, np.random.default_rng(1))
    table = simulate_heritage(
        facts, shares={"heritage": 0.6, "geometry": 0.2}, n_prompts=5, seed=1
    ).table
    model = fit_heritage(table, estimand="simulated").model
    assert isinstance(model, gaussian.Gaussian)
    mode, spread = importance.find_mode(model)

    def density(theta: np.ndarray) -> float:
        return float(model.log_density(theta[None])[0])

    sides = 1e-4 * np.eye(mode.size)
    slopes = [(density(mode + side) - density(mode - side)) / 2e-4 for side in sides]
    assert np.abs(slopes).max() < 2e-2, "BFGS stops below a hundredth"
    heights = [density(mode + 0.5 * side) for side in np.eye(mode.size)]
    assert max(heights) < density(mode)
    assert np.array_equal(mode, np.round(mode, importance.DIGITS))
    assert (np.linalg.eigvalsh(spread) > 0).all()


def test_a_large_study_is_drawn_and_summarised_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same draws, but for rounding, whatever is held at a time."""
    facts = simulate_facts(40, 12, np.random.default_rng(1))
    shares = {"heritage": 0.6, "geometry": 0.2}
    table = simulate_heritage(facts, shares=shares, n_prompts=5, seed=1).table
    few = Settings(draws=100)
    whole = fit_heritage(table, estimand="simulated", settings=few)
    quantities = dict(whole.quantities)
    for module in (importance, law):
        monkeypatch.setattr(module, "AT_ONCE", 1000)
    monkeypatch.setattr(gaussian, "MANY", 10)
    parts = fit_heritage(table, estimand="simulated", settings=few)
    # Weights that differ in rounding move a few draws across the boundaries of resampling.
    assert np.isclose(parts.quantities["total_sd"], quantities["total_sd"], rtol=1e-3).mean() > 0.9
    same = law.compute_quantities(whole.draws.values, whole.design)
    for name, drawn in quantities.items():
        assert same[name] == pytest.approx(drawn, abs=1e-12)


def test_narrow_blocks_and_distinct_rows_stay_as_they_are() -> None:
    rng = np.random.default_rng(1)
    assert Alike.build(matrix(5, 60, rng), [3, 5, 1]) is None
    assert Alike.build(rng.normal(size=(60, 14)), [3, 10, 1]) is None


def test_a_fit_of_many_labs_is_the_same_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = simulate_facts(60, 12, np.random.default_rng(1))
    table = simulate_heritage(
        facts, shares={"heritage": 0.6, "geometry": 0.2}, n_prompts=5, seed=1
    ).table
    few = Settings(draws=250)
    fit = fit_heritage(table, estimand="simulated")
    model = fit.model
    assert isinstance(model.products, Alike)
    one = model.sample(seed=1, settings=few)
    monkeypatch.setattr(gaussian, "MOST_DISTINCT", 0.0)
    again = dataclasses.replace(model)
    assert isinstance(again.products, Products)
    two = again.sample(seed=1, settings=few)
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-4)
    theta = np.log(one.few(200)["scale"])
    assert model.log_density(theta) == pytest.approx(again.log_density(theta), rel=1e-9)
    # Weights that differ in rounding move a few draws across the boundaries of resampling.
    assert np.isclose(one["scale"], two["scale"], rtol=1e-3).mean() > 0.9


def test_few_and_many_draws_have_the_same_sums() -> None:
    """Of many draws the products of single rows are summed."""
    rng = np.random.default_rng(4)
    m, weights = matrix(10, 60, rng), rng.random((gaussian.SEVERAL, 60))
    alike = Alike.build(m, [3, 10, 1])
    assert alike is not None and alike.products is not None
    few = np.concatenate([alike.weighted(each[None]) for each in weights])
    assert alike.weighted(weights) == pytest.approx(few, abs=1e-12)


def test_a_proposal_is_the_mixture_of_students_t() -> None:
    """Its log density, written out by scipy, a share of it wide."""
    rng = np.random.default_rng(5)
    places, theta = rng.normal(size=(7, 3)), 4 * rng.normal(size=(50, 3))
    spread = np.cov(rng.normal(size=(3, 20)))
    wide = importance.SHARE_WIDE
    expected = np.zeros(len(theta))
    for share, times in ((1 - wide, 0.6), (wide, importance.WIDE)):
        for place in places:
            law = stats.multivariate_t(place, times**2 * spread, df=importance.TAIL)
            expected += share / len(places) * law.pdf(theta)
    found = importance._score_proposal(theta, places, spread, 0.6)
    assert found == pytest.approx(np.log(expected), rel=1e-12)

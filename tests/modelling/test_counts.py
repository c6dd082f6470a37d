"""Counts against published examples, closed forms and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.counts import (
    estimate_proportion,
    find_roc_threshold,
    measure_accuracy,
    measure_exceedance,
    run_barnard_exact,
    run_fisher_exact,
)
from thermostats.modelling.classical.many import (
    estimate_differences,
    estimate_grouped_shares,
    find_least_p,
)

TEA = [[3, 1], [1, 3]]
LABS = list("EEEMMT")
NAMES = list("abcdef")


def test_fishers_tea() -> None:
    result = run_fisher_exact(TEA)
    assert result.p_value == pytest.approx(34 / 70)
    assert result.estimate == pytest.approx(6.408309, abs=2e-4)  # fisher.test of R

    def at_most_three(odds: float) -> float:  # noncentral hypergeometric, margins of 4
        weights = np.array([1, 16, 36, 16, 1]) * odds ** np.arange(5)
        return float(weights[:4].sum() / weights.sum())

    assert at_most_three(result.upper) == pytest.approx(0.025, rel=1e-4)
    assert result.lower == pytest.approx(0.2117329, abs=1e-5)


def test_barnards_test_of_the_vaccine_example() -> None:
    """Mehta and Senchaudhuri 2003: 7 of 15 against 12 of 15 infected, one-sided 0.0341; doubled by
    symmetry."""
    result = run_barnard_exact([[7, 8], [12, 3]])
    assert result.p_value == pytest.approx(2 * 0.0341, abs=1e-4)
    assert result.estimate == pytest.approx(7 / 15 - 12 / 15)
    assert result.p_value < run_fisher_exact([[7, 8], [12, 3]]).p_value


@given(st.integers(1, 60), st.data())
def test_clopper_pearson_is_the_beta_quantile(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    result = estimate_proportion(k, n)
    assert result.lower == pytest.approx(
        stats.beta.ppf(0.025, k, n - k + 1) if k else 0.0, abs=1e-9
    )
    assert result.upper == pytest.approx(
        stats.beta.ppf(0.975, k + 1, n - k) if k < n else 1.0, abs=1e-9
    )


def test_share_above_a_bound() -> None:
    values, bounds = np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 1, 1])
    result = measure_exceedance(values, bounds)
    assert (result.n_above, result.estimate, result.largest_ratio) == (3, 0.75, pytest.approx(4))
    assert result.ratio == pytest.approx((0.5 * 2 * 3 * 4) ** 0.25)
    assert result.p_value == pytest.approx(stats.binom.sf(2, 4, 0.05))
    assert measure_exceedance(values, 10.0).p_value == 1


def test_accuracy_of_a_textbook_table() -> None:
    """Cells 20, 5, 10, 15."""
    predicted = ["yes"] * 25 + ["no"] * 25
    observed = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    result = measure_accuracy(predicted, observed)
    assert (result.estimate, result.majority) == pytest.approx((0.7, 0.6))
    assert result.p_value == pytest.approx(stats.binom.sf(34, 50, 0.6))
    assert result.balanced_accuracy == pytest.approx((20 / 30 + 15 / 20) / 2)


def test_searching_for_a_cut_does_not_inflate_p() -> None:
    rng = np.random.default_rng(5)
    p = []
    for i in range(100):
        outcome = rng.permutation([True] * 6 + [False] * 10)
        p.append(find_roc_threshold(rng.normal(size=16), outcome, seed=i, resamples=99).p_value)
    assert np.mean(np.array(p) <= 0.1) <= 0.18
    assert (
        find_roc_threshold(rng.normal(size=16), outcome, seed=1, resamples=99).accuracy_by_chance
        > 0.6
    )


@pytest.mark.parametrize(
    "table",
    [[[0, 0], [1, 2]], [[0, 1], [0, 2]], [[1, 2, 3]], [[1.5, 2], [3, 4]], [[-1, 2], [3, 4]]],
)
def test_bad_tables_are_refused(table: list[list[float]]) -> None:
    for test in (run_fisher_exact, run_barnard_exact):
        with pytest.raises(UsageError):
            test(table)


def test_bad_counts_and_columns_are_refused() -> None:
    for k, n in ((3, 2), (0, 0), (-1, 4)):
        with pytest.raises(UsageError):
            estimate_proportion(k, n)
    with pytest.raises(UsageError, match="above 0"):
        measure_exceedance([1, -2], 1.0)
    with pytest.raises(UsageError, match="labels"):
        measure_accuracy(["a", None], ["a", "b"])
    with pytest.raises(UsageError, match="outcome"):
        find_roc_threshold([1, 2, 3, 4], [True] * 4, seed=0)


@pytest.mark.parametrize("signs", [[1, 1, 1, 0, 0, 0], [1, 0, 1, 0, 1, 0], [1, 1, 0, 0, 0, 1]])
def test_signs_over_families_are_permuted_exactly_by_brute_force(signs: list[int]) -> None:
    inside = np.array(LABS) == "E"
    null = [
        abs(np.array(s)[inside].mean() - np.array(s)[~inside].mean())
        for s in itertools.permutations(signs)
    ]
    observed = abs(np.array(signs)[inside].mean() - np.array(signs)[~inside].mean())
    outcomes = np.array([signs], dtype=bool)
    result = estimate_differences(outcomes, inside, NAMES)
    assert result.p[0] == pytest.approx(np.mean(np.array(null) >= observed - 1e-9))
    least = find_least_p(outcomes, inside, NAMES)
    assert least == pytest.approx(np.mean(np.array(null) >= max(null) - 1e-9))
    assert abs(result.estimate[0]) == pytest.approx(observed)


def test_families_keep_the_size_that_models_lose() -> None:
    """Eight families of four like-signed models in four labs, signs unrelated to labs."""
    rng = np.random.default_rng(0)
    inside, families = np.repeat(list("abcd"), 8) == "a", np.repeat(list("ijklmnop"), 4)
    draws = [rng.permutation([True] * 3 + [False] * 5) for _ in range(60)]
    signs = np.repeat(draws, 4, axis=1)
    by_model = estimate_differences(signs, inside, [str(n) for n in range(32)])
    by_family = estimate_differences(signs, inside, families)
    assert (by_model.p <= 0.12).mean() > 0.3
    assert (by_family.p <= 0.12).mean() <= 0.21


def test_sides_that_cannot_be_exchanged_are_refused() -> None:
    signs = np.array([[True, False, True]])
    with pytest.raises(UsageError, match="a group lies on both sides"):
        estimate_differences(signs, np.array([True, False, False]), list("xxy"))
    with pytest.raises(UsageError, match="too few groups to exchange"):
        estimate_differences(signs, np.array([False, False, False]), list("xyz"))


def test_it_covers_a_share_that_differs_between_groups() -> None:
    rng = np.random.default_rng(3)
    groups = np.repeat([f"g{i}" for i in range(16)], 4)
    hits = 0
    for _ in range(400):
        p = np.repeat(rng.beta(3, 1, 16), 4)
        found = estimate_grouped_shares((rng.random(64) < p)[None], groups)
        hits += found.lower[0] <= 0.75 <= found.upper[0]
    assert hits / 400 > 0.92


def test_one_group_has_no_spread() -> None:
    with pytest.raises(UsageError, match="one group has no spread over groups"):
        estimate_grouped_shares(np.array([[True, False]]), ["a", "a"])


def test_one_class_alone_gives_no_p() -> None:
    result = measure_accuracy(["a", "b", "a"], ["a", "a", "a"])
    assert math.isnan(result.p_value) and result.test.startswith("none")


def test_a_clean_cut_is_found_in_both_directions() -> None:
    scores = np.array([0.05, 0.06, 0.1, 0.12, 0.2, 0.25, 0.3, 0.4])
    result = find_roc_threshold(scores, scores > 0.15, seed=0)
    assert (result.estimate, result.accuracy) == pytest.approx((0.16, 1.0))
    assert result.p_value == pytest.approx(2 / math.comb(8, 4), abs=0.012)
    other = find_roc_threshold(scores, scores < 0.15, seed=0, resamples=99)
    assert (other.estimate, other.accuracy) == (result.estimate, result.accuracy)


def test_with_a_group_for_every_unit_it_is_the_exact_interval() -> None:
    holds = np.array([[True] * 7 + [False] * 13])
    found = estimate_grouped_shares(holds, [f"g{i}" for i in range(20)])
    effective = 20 * (1 - 1 / 20)
    assert found.lower[0] == pytest.approx(
        stats.beta.ppf(0.025, 0.35 * effective, 0.65 * effective + 1)
    )
    near = stats.binomtest(7, 20).proportion_ci()
    assert (found.lower[0], found.upper[0]) == pytest.approx(near, abs=0.02)


def test_balanced_focal_groups_agree_with_fisher() -> None:
    inside, signs = np.arange(12) < 6, np.array([[1] * 5 + [0] * 2 + [1] + [0] * 4])
    result = estimate_differences(signs, inside, [f"f{i}" for i in range(12)])
    assert result.p[0] == pytest.approx(stats.fisher_exact([[5, 1], [1, 5]])[1])

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
    estimate_clustered_share,
    estimate_proportion,
    find_roc_threshold,
    measure_accuracy,
    measure_exceedance,
    permute_clustered_signs,
    run_barnard_exact,
    run_fisher_exact,
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
    result = permute_clustered_signs(signs, LABS, NAMES, focal="E", seed=0)
    assert result.p_value == pytest.approx(np.mean(np.array(null) >= observed - 1e-9))
    assert result.smallest_p_families == pytest.approx(np.mean(np.array(null) >= max(null) - 1e-9))
    assert abs(result.estimate) == pytest.approx(observed) and "no association" in result.interval


def test_families_keep_the_size_that_models_lose() -> None:
    """Eight families of four like-signed models in four labs, signs unrelated to labs."""
    rng = np.random.default_rng(0)
    labs, families = np.repeat(list("abcd"), 8), np.repeat(list("ijklmnop"), 4)
    p = []
    for i in range(60):
        sign = np.repeat(rng.permutation([1, 1, 1, 0, 0, 0, 0, 0]), 4)
        over_models = permute_clustered_signs(
            sign, labs, [str(n) for n in range(32)], focal="a", seed=i
        )
        p.append(
            (
                over_models.p_value,
                permute_clustered_signs(sign, labs, families, focal="a", seed=i).p_value,
            )
        )
    models, by_family = (np.array(p) <= 0.12).mean(axis=0)
    assert models > 0.3
    assert by_family <= 0.21


def test_bad_signs_labs_and_families_are_refused() -> None:
    for match, signs, labs, families, focal in (
        ("sign does not vary", [1, 1], "ab", "xy", "a"),
        ("labs", [1, 0], "aa", "xy", "a"),
        ("labs", [1, 0], "ab", "xy", "c"),
        (r"a family.*got \['x'\]", [1, 0, 1], "abb", "xxy", "a"),
    ):
        with pytest.raises(UsageError, match=match):
            permute_clustered_signs(signs, list(labs), list(families), focal=focal, seed=0)


def test_it_covers_a_share_that_differs_between_groups() -> None:
    rng = np.random.default_rng(3)
    groups = np.repeat([f"g{i}" for i in range(16)], 4)
    hits = 0
    for _ in range(400):
        p = np.repeat(rng.beta(3, 1, 16), 4)
        found = estimate_clustered_share(rng.random(64) < p, groups)
        hits += found.lower <= 0.75 <= found.upper
    assert hits / 400 > 0.92


@pytest.mark.parametrize(
    "holds, groups", [([True, False], ["a", "a"]), ([1.5, 0], ["a", "b"]), ([True], ["a", "b"])]
)
def test_wrong_units_are_refused(holds: list[bool], groups: list[str]) -> None:
    with pytest.raises(UsageError):
        estimate_clustered_share(holds, groups)


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
    holds = [True] * 7 + [False] * 13
    found = estimate_clustered_share(holds, [f"g{i}" for i in range(20)])
    effective = 20 * (1 - 1 / 20)
    assert found.lower == pytest.approx(
        stats.beta.ppf(0.025, 0.35 * effective, 0.65 * effective + 1)
    )
    near = stats.binomtest(7, 20).proportion_ci()
    assert (found.lower, found.upper) == pytest.approx(near, abs=0.02)


def test_balanced_focal_groups_agree_with_fisher() -> None:
    labs, signs = ["E"] * 6 + ["X"] * 6, [1] * 5 + [0] * 2 + [1] + [0] * 4
    result = permute_clustered_signs(signs, labs, [f"f{i}" for i in range(12)], focal="E", seed=0)
    assert result.p_value == pytest.approx(stats.fisher_exact([[5, 1], [1, 5]])[1])

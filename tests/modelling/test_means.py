"""Tests of means against R's published output for Student's sleep data, and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.association import (
    estimate_one_sample,
    estimate_paired_difference,
    estimate_welch_difference,
)

FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_paired_t_of_students_sleep_data() -> None:
    result = estimate_paired_difference(FIRST, SECOND, log=False, seed=0)
    assert (result.statistic, result.df) == pytest.approx((-4.0621, 9), abs=5e-5)
    assert result.p_value == pytest.approx(0.002833, abs=5e-7)
    assert (result.lower, result.upper) == pytest.approx((-2.4598858, -0.7001142), abs=1e-7)
    assert math.isnan(result.ratio)


def test_welch_t_of_students_sleep_data() -> None:
    result = estimate_welch_difference(FIRST, SECOND, log=False, seed=0)
    assert (result.statistic, result.df, result.p_value) == pytest.approx(
        (-1.8608, 17.776, 0.07939), abs=5e-4
    )
    assert (result.lower, result.upper) == pytest.approx((-3.3654832, 0.2054832), abs=1e-7)


def test_ratios_are_geometric_means_on_the_log_scale() -> None:
    a, b = np.exp(FIRST), np.exp(SECOND)
    result = estimate_paired_difference(a, b, seed=0)
    assert result.estimate == pytest.approx(-1.58)
    assert result.ratio == pytest.approx(stats.gmean(a / b))
    assert (result.ratio_lower, result.ratio_upper) == pytest.approx(
        (math.exp(-2.4598858), math.exp(-0.7001142))
    )
    single = estimate_one_sample(a, against=2.0, log=True, seed=0)
    assert single.ratio == pytest.approx(stats.gmean(a))
    assert single.p_value == pytest.approx(stats.ttest_1samp(FIRST, math.log(2)).pvalue)


def test_sign_flips_are_exact_by_brute_force() -> None:
    values = np.array([0.4, 1.2, -0.3, 0.9])
    flips = [abs(np.mean(values * signs)) for signs in itertools.product([-1, 1], repeat=4)]
    result = estimate_one_sample(values, seed=0)
    assert result.p_permutation == pytest.approx(
        np.mean(np.array(flips) >= abs(values.mean()) - 1e-12)
    )
    assert result.permutation == "exact, all 16 arrangements"


def test_group_labels_are_permuted_exactly_by_brute_force() -> None:
    a, b = [1.0, 2.5, 3.0], [2.0, 4.0, 6.5]
    pooled = np.array(a + b)
    observed, hits = abs(stats.ttest_ind(a, b, equal_var=False).statistic), []
    for chosen in itertools.combinations(range(6), 3):
        mask = np.isin(range(6), chosen)
        hits.append(
            abs(stats.ttest_ind(pooled[mask], pooled[~mask], equal_var=False).statistic)
            >= observed - 1e-9
        )
    assert estimate_welch_difference(a, b, log=False, seed=0).p_permutation == pytest.approx(
        np.mean(hits)
    )


def test_bad_input_is_refused() -> None:
    with pytest.raises(UsageError, match="above 0"):
        estimate_paired_difference(FIRST, SECOND, seed=0)
    with pytest.raises(UsageError, match="differ in length"):
        estimate_paired_difference([1, 2, 3], [1, 2, 3, 4], seed=0)
    with pytest.raises(UsageError, match="same amount"):
        estimate_paired_difference([1, 2, 3], [2, 4, 6], seed=0)
    with pytest.raises(UsageError, match="too few"):
        estimate_one_sample([1, 2], seed=0)
    with pytest.raises(UsageError, match="constant"):
        estimate_welch_difference([1, 1, 1], [2, 2, 2], seed=0)
    with pytest.raises(UsageError, match="missing"):
        estimate_one_sample([1, 2, math.nan], seed=0)


def test_values_of_a_group_that_are_alike_count_once() -> None:
    levels, groups = np.repeat([1.1, 1.3, 0.9, 1.2], 6), np.repeat(list("abcd"), 6)
    once, often = (
        estimate_one_sample(levels[::6], against=1, log=True, seed=1),
        estimate_one_sample(levels, against=1, log=True, seed=1),
    )
    found = estimate_one_sample(levels, groups=groups, against=1, log=True, seed=1)
    assert (found.ratio, found.ratio_lower, found.n) == pytest.approx(
        (once.ratio, once.ratio_lower, 4)
    )
    assert found.lower < often.lower
    pairs = estimate_paired_difference(levels, np.ones(24), groups=groups, seed=1)
    assert (pairs.ratio, pairs.ratio_upper) == pytest.approx((once.ratio, once.ratio_upper))


def test_permutation_test_holds_its_size() -> None:
    rng = np.random.default_rng(3)
    p = np.array(
        [estimate_one_sample(rng.laplace(size=9), seed=i).p_permutation for i in range(200)]
    )
    assert np.mean(p <= 0.1) <= 0.15

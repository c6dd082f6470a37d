"""A share with groups against the exact interval, published behaviour and simulated truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.inference.clustered import clustered_share


def test_with_a_group_for_every_unit_it_is_the_exact_interval():
    holds = [True] * 7 + [False] * 13
    found = clustered_share(holds, [f"g{i}" for i in range(20)])
    effective = 20 * (1 - 1 / 20)
    exact = stats.beta.ppf(0.025, 0.35 * effective, 0.65 * effective + 1)
    assert found.effective_n == pytest.approx(effective) and found.lower == pytest.approx(exact)
    near = stats.binomtest(7, 20).proportion_ci()
    assert (found.lower, found.upper) == pytest.approx(near, abs=0.02)


def test_groups_that_are_alike_count_as_one_unit_each():
    groups = np.repeat([f"g{i}" for i in range(10)], 6)
    alike = np.repeat([True] * 4 + [False] * 6, 6)
    found = clustered_share(alike, groups)
    assert found.effective_n < 10 and found.estimate == pytest.approx(0.4)
    exact = stats.binomtest(4, 10).proportion_ci()
    assert found.upper - found.lower > exact.high - exact.low
    mixed = clustered_share(np.tile([True, True, False, True, False, False], 10), groups)
    assert mixed.effective_n == pytest.approx(60 * (stats.t.isf(0.025, 59) / stats.t.isf(0.025, 9)) ** 2)


def test_where_it_holds_for_all_or_none_the_bounds_are_those_of_independent_units():
    groups = np.repeat([f"g{i}" for i in range(16)], 4)
    all_of_them, none = (clustered_share([value] * 64, groups) for value in (True, False))
    n = 64 * (stats.t.isf(0.025, 63) / stats.t.isf(0.025, 15)) ** 2
    assert all_of_them.upper == 1 and all_of_them.lower == pytest.approx(0.025 ** (1 / n))
    assert none.lower == 0 and none.upper == pytest.approx(1 - 0.025 ** (1 / n))


def test_it_covers_a_share_that_differs_between_groups():
    rng = np.random.default_rng(3)
    groups = np.repeat([f"g{i}" for i in range(16)], 4)
    hits = 0
    for _ in range(400):
        p = np.repeat(rng.beta(3, 1, 16), 4)
        found = clustered_share(rng.random(64) < p, groups)
        hits += found.lower <= 0.75 <= found.upper
    assert hits / 400 > 0.92


@pytest.mark.parametrize("holds, groups", [([True, False], ["a", "a"]), ([1.5, 0], ["a", "b"]), ([True], ["a", "b"])])
def test_wrong_input_is_refused(holds, groups):
    with pytest.raises(UsageError):
        clustered_share(holds, groups)

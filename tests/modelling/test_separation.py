"""Pairs across kinds within groups: counts by hand, the exact p over groups, and kinds around one
another."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.counts import count_pairs_above, measure_separation
from thermostats.modelling.classical.many import measure_separations


def test_p_is_that_of_all_groups_together() -> None:
    """One clean split of 2 v 2 and one of 1 v 3: the two extremes of 6 · 4 arrangements."""
    member = [False, False, True, True, False, False, False, True]
    found = measure_separation([0, 1, 2, 3, 0, 1, 2, 3], member, ["a"] * 4 + ["b"] * 4)
    assert found.share == 1 and found.p == found.smallest_p == pytest.approx(2 / 24)
    assert found.groups[["group", "n", "pairs", "above"]].to_numpy().tolist() == [
        ["a", 4, 4, 4.0],
        ["b", 4, 3, 3.0],
    ]


def test_ties_count_half_and_the_test_has_two_sides() -> None:
    assert count_pairs_above(np.array([1.0, 1.0, 2.0]), np.array([True, False, False])) == 0.5
    below = measure_separation([0, 1, 2, 3, 4, 5], [True] * 3 + [False] * 3, ["a"] * 6)
    assert below.share == 0 and below.p == pytest.approx(2 / 20)
    assert measure_separation([0, 1, 2, 3], [True, False, False, True], ["a"] * 4).p == 1


@pytest.mark.parametrize(
    ("member", "straddling"),
    [([0, 0, 1, 1], 0), ([1, 0, 0, 1], 1), ([0, 1, 0, 0], 1), ([1, 0, 1, 0], 0), ([0, 1, 1, 0], 1)],
)
def test_a_kind_on_both_sides_of_the_other_is_counted(member: list[int], straddling: int) -> None:
    assert measure_separation(range(4), member, ["a"] * 4).groups["straddling"].item() == straddling


def test_groups_of_one_kind_are_left_out_and_without_any_other_it_is_refused() -> None:
    found = measure_separation([0, 1, 2], [False, True, True], ["a", "a", "b"])
    assert list(found.groups["group"]) == ["a"]
    with pytest.raises(UsageError, match="both kinds"):
        measure_separation([0, 1], [True, True], ["a", "a"])


def test_many_arrangements_are_drawn() -> None:
    rng = np.random.default_rng(3)
    member, group = np.arange(40) % 2 == 0, np.repeat(["a", "b"], 20)
    null = measure_separation(rng.normal(size=40), member, group)
    apart = measure_separation(rng.normal(size=40) + 3 * member, member, group)
    whole = stats.mannwhitneyu(
        x := rng.normal(size=20), y := rng.normal(size=20) + 0.7, method="exact"
    ).pvalue
    drawn = measure_separation(np.concatenate([x, y]), np.arange(40) < 20, ["a"] * 40)
    assert null.p > 0.05 > apart.p and drawn.p == pytest.approx(whole, abs=0.02)


def test_many_studies_are_separated_as_single_ones() -> None:
    outcomes, member = np.random.default_rng(4).normal(size=(6, 12)), np.arange(12) % 3 == 0
    group = ["a"] * 5 + ["b"] * 4 + ["c"] * 2 + ["d"]
    whole, by_group = measure_separations(outcomes, member, group)
    for study, y in enumerate(outcomes):
        single = measure_separation(y, member, group)
        assert (whole.estimate[study], whole.p[study]) == pytest.approx((single.share, single.p))
        assert [(share[study], around[study]) for share, around in by_group] == [
            (row.share, row.straddling) for row in single.groups.itertuples()
        ]
    with pytest.raises(UsageError, match="both kinds"):
        measure_separations(outcomes, member, list("abcdefghijkl"))

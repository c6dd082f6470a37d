"""Counts against published examples, closed forms and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.counts import (
    barnard_exact,
    classification_accuracy,
    fisher_exact,
    mcnemar_exact,
    one_sample_bound,
    proportion,
    roc_threshold,
)

TEA = [[3, 1], [1, 3]]


def test_fishers_tea() -> None:
    result = fisher_exact(TEA)
    assert result.p_value == pytest.approx(34 / 70)
    assert result.estimate == pytest.approx(6.408309, abs=2e-4)  # fisher.test of R

    def at_most_three(odds: float) -> float:  # noncentral hypergeometric, margins of 4
        weights = np.array([1, 16, 36, 16, 1]) * odds ** np.arange(5)
        return float(weights[:4].sum() / weights.sum())

    assert at_most_three(result.upper) == pytest.approx(0.025, rel=1e-4)
    assert result.lower == pytest.approx(0.2117329, abs=1e-5)


def test_a_perfect_table_has_an_open_interval() -> None:
    result = fisher_exact([[5, 0], [0, 6]])
    assert math.isinf(result.estimate) and math.isinf(result.upper) and result.lower > 1
    assert result.p_value == pytest.approx(1 / math.comb(11, 5))


def test_barnards_test_of_the_vaccine_example() -> None:
    """Mehta and Senchaudhuri 2003: 7 of 15 against 12 of 15 infected, one-sided 0.0341; doubled by symmetry."""
    result = barnard_exact([[7, 8], [12, 3]])
    assert result.p_value == pytest.approx(2 * 0.0341, abs=1e-4)
    assert result.estimate == pytest.approx(7 / 15 - 12 / 15)
    assert result.p_value < fisher_exact([[7, 8], [12, 3]]).p_value


@given(st.integers(1, 60), st.data())
def test_clopper_pearson_is_the_beta_quantile(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    result = proportion(k, n)
    assert result.lower == pytest.approx(stats.beta.ppf(0.025, k, n - k + 1) if k else 0.0, abs=1e-9)
    assert result.upper == pytest.approx(stats.beta.ppf(0.975, k + 1, n - k) if k < n else 1.0, abs=1e-9)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.83])
def test_clopper_pearson_covers_at_least_its_level(share: float) -> None:
    n = 16
    inside = [r.lower <= share <= r.upper for r in (proportion(k, n, level=0.9) for k in range(n + 1))]
    assert stats.binom.pmf(np.arange(n + 1), n, share) @ inside >= 0.9


def test_share_above_a_bound() -> None:
    values, bounds = np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 1, 1])
    result = one_sample_bound(values, bounds, seed=0)
    assert (result.n_above, result.estimate, result.largest_ratio) == (3, 0.75, pytest.approx(4))
    assert result.ratio == pytest.approx((0.5 * 2 * 3 * 4) ** 0.25)
    assert result.p_value == pytest.approx(stats.binom.sf(2, 4, 0.05))
    assert result.ratio_lower < result.ratio < result.ratio_upper
    assert one_sample_bound(values, 10.0, seed=0).p_value == 1


def test_kappa_and_accuracy_of_a_textbook_table() -> None:
    """Cells 20, 5, 10, 15: observed agreement 0.7, expected 0.5, κ = 0.4."""
    predicted = ["yes"] * 25 + ["no"] * 25
    observed = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    result = classification_accuracy(predicted, observed)
    assert (result.estimate, result.kappa, result.majority) == pytest.approx((0.7, 0.4, 0.6))
    assert result.p_value == pytest.approx(stats.binom.sf(34, 50, 0.6))
    assert result.balanced_accuracy == pytest.approx((20 / 30 + 15 / 20) / 2)
    assert result.kappa_lower < 0.4 < result.kappa_upper


def test_one_class_alone_gives_no_p() -> None:
    result = classification_accuracy(["a", "b", "a"], ["a", "a", "a"])
    assert math.isnan(result.p_value) and result.test.startswith("none")
    assert math.isnan(classification_accuracy(["a", "a"], ["a", "a"]).kappa)


def test_mcnemar_is_binomial_on_the_discordant() -> None:
    a = [True] * 16
    b = [True] * 7 + [False] * 9
    result = mcnemar_exact(a, b)
    assert (result.p_value, result.estimate, result.n) == (pytest.approx(2 / 2**9), 1.0, 16)
    with pytest.raises(UsageError, match="same cases"):
        mcnemar_exact(a, a)


def test_a_clean_cut_is_found_in_both_directions() -> None:
    scores = np.array([0.05, 0.06, 0.1, 0.12, 0.2, 0.25, 0.3, 0.4])
    result = roc_threshold(scores, scores > 0.15, seed=0)
    assert (result.estimate, result.accuracy, result.auc) == pytest.approx((0.16, 1.0, 1.0))
    assert result.positive_above
    assert result.p_value == pytest.approx(2 / math.comb(8, 4), abs=0.012)
    assert not roc_threshold(scores, scores < 0.15, seed=0, resamples=99).positive_above


def test_searching_for_a_cut_does_not_inflate_p() -> None:
    rng = np.random.default_rng(5)
    p = []
    for i in range(100):
        outcome = rng.permutation([True] * 6 + [False] * 10)
        p.append(roc_threshold(rng.normal(size=16), outcome, seed=i, resamples=99).p_value)
    assert np.mean(np.array(p) <= 0.1) <= 0.18
    assert roc_threshold(rng.normal(size=16), outcome, seed=1, resamples=99).accuracy_by_chance > 0.6


@pytest.mark.parametrize(
    "table", [[[0, 0], [1, 2]], [[0, 1], [0, 2]], [[1, 2, 3]], [[1.5, 2], [3, 4]], [[-1, 2], [3, 4]]]
)
def test_bad_tables_are_refused(table: list[list[float]]) -> None:
    for test in (fisher_exact, barnard_exact):
        with pytest.raises(UsageError):
            test(table)


def test_bad_counts_and_columns_are_refused() -> None:
    for k, n in ((3, 2), (0, 0), (-1, 4)):
        with pytest.raises(UsageError):
            proportion(k, n)
    with pytest.raises(UsageError, match="above 0"):
        one_sample_bound([1, -2], 1.0, seed=0)
    with pytest.raises(UsageError, match="labels"):
        classification_accuracy(["a", None], ["a", "b"])
    with pytest.raises(UsageError, match="outcome"):
        roc_threshold([1, 2, 3, 4], [True] * 4, seed=0)

"""Levels of intervals at other numbers than their ends: p of the same test."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.claims.condition import V
from thermostats.claims.levels import SIDES
from thermostats.claims.result import Estimate, Result, drop_laws
from thermostats.claims.rule import Above, Each
from thermostats.modelling.classical.interval_laws import NORMAL, ProfileLaw, ShareLaw, StudentLaw
from thermostats.modelling.classical.many import (
    Many,
    estimate_correlations,
    estimate_means,
    estimate_shares,
    estimate_welch_differences,
    transform_logs,
)

RNG = np.random.default_rng(58)
VALUES = RNG.normal(2.0, 0.5, (3, 7))


def measure_p(made: Many, bar: float, *, below: bool) -> np.ndarray:
    """p at a bar of every study, by the law of its interval."""
    assert made.law is not None
    return made.law.measure_p(made.estimate, made.lower if below else made.upper, bar, below=below)


def test_a_level_of_a_mean_is_p_of_its_t() -> None:
    made = estimate_means(VALUES)
    known = stats.ttest_1samp(VALUES, 0.3, axis=1).pvalue
    assert measure_p(made, 0.3, below=True) == pytest.approx(known)


def test_logs_have_their_t_on_the_scale_of_logs() -> None:
    ratios = transform_logs(estimate_means(np.log(VALUES)))
    known = stats.ttest_1samp(np.log(VALUES), np.log(0.5), axis=1).pvalue
    assert measure_p(ratios, 0.5, below=True) == pytest.approx(known)


def test_a_difference_has_the_freedom_of_welch() -> None:
    inside = np.array([True, True, True, False, False, False, False])
    made = estimate_welch_differences(VALUES, inside)
    shifted = VALUES + 5.0 * inside
    known = stats.ttest_ind(shifted[:, inside], shifted[:, ~inside], axis=1, equal_var=False).pvalue
    assert measure_p(made, -5.0, below=True) == pytest.approx(known)


@pytest.mark.parametrize(("count", "bar"), [(9, 0.5), (3, 0.8), (0, 0.25), (12, 0.5)])
def test_a_share_has_its_binomial_tail(count: int, bar: float) -> None:
    made = estimate_shares((np.arange(12) < count)[None])
    below = bar < count / 12
    tail = stats.binom.sf(count - 1, 12, bar) if below else stats.binom.cdf(count, 12, bar)
    assert measure_p(made, bar, below=below) == pytest.approx(2 * tail)


@pytest.mark.parametrize(
    ("law", "estimate", "lower"),
    [
        (StudentLaw(4), 1.0, 0.4),
        (StudentLaw(6.5, scale="log"), 1.2, 0.9),
        (StudentLaw(np.inf, scale="atanh"), 0.6, 0.2),
        (StudentLaw(9, scale="logit"), 0.7, 0.55),
        (StudentLaw(5, level=1 - 0.05 / 3), 2.0, 1.0),
    ],
)
def test_an_interval_that_just_reaches_a_number_has_5_percent_there(
    law: StudentLaw, estimate: float, lower: float
) -> None:
    at_end = law.measure_p(np.array(estimate), np.array(lower), lower, below=True)
    assert float(at_end) == pytest.approx(0.05)
    nearer = law.measure_p(np.array(estimate), np.array(lower), (estimate + lower) / 2, below=True)
    assert float(nearer) > 0.05
    assert (
        float(law.measure_p(np.array(estimate), np.array(lower), estimate * 1.1, below=True)) == 1
    )


def test_a_share_that_just_reaches_a_number_has_5_percent_there() -> None:
    made = estimate_shares((np.arange(20) < 14)[None])
    assert measure_p(made, float(made.lower[0]), below=True) == pytest.approx(0.05)
    assert measure_p(made, float(made.upper[0]), below=False) == pytest.approx(0.05)
    assert ShareLaw(np.array([20, 30])).take_first() == ShareLaw(20.0)


def test_a_bar_that_was_counted_is_never_sure() -> None:
    # a bar of 1 or 0 is met in all of n or in none: it is taken half a unit nearer, 1 − ½/5 = .9
    made = estimate_shares((np.arange(5) < 4)[None])
    assert measure_p(made, 1.0, below=False) == pytest.approx(
        min(1.0, 2 * stats.binom.cdf(4, 5, 0.9))
    )
    assert measure_p(estimate_shares(np.zeros((1, 5))), 1.0, below=False) > 0


def test_a_profile_has_chi_square_of_what_lies_beyond() -> None:
    nodes = np.array([0.0, 0.5, 1.0])
    law = ProfileLaw(nodes, np.array([[6.0, 2.0, 0.0], [0.0, 1.0, 9.0]]))
    p = law.measure_p(np.array([1.0, 0.0]), np.array([0.5, 0.0]), 0.5, below=True)
    assert p == pytest.approx(stats.chi2.sf([2.0, 0.0], 1))
    assert float(law.take_first().measure_p(nodes[2], nodes[1], 0.2, below=True)) == pytest.approx(
        stats.chi2.sf(6.0, 1)
    )


def test_rules_read_the_law_of_an_estimate_and_of_a_row() -> None:
    rule = Above("x", 0.0)
    t = StudentLaw(5)
    known = float(t.measure_p(np.array(3.0), np.array(1.0), 0.0, below=True))
    given = Result(quantities={"x": Estimate(3.0, 1.0, 5.0, law=t)})
    assert float(rule.level(given, SIDES[0])) == pytest.approx(known)
    plain = Result(quantities={"x": Estimate(3.0, 1.0, 5.0)})
    normal = float(NORMAL.measure_p(np.array(3.0), np.array(1.0), 0.0, below=True))
    assert float(rule.level(plain, SIDES[0])) == pytest.approx(normal) and normal < known


def test_tables_carry_laws_that_nobody_is_shown() -> None:
    t = StudentLaw(5)
    frame = pd.DataFrame({"x": [3.0], "x_lower": [1.0], "x_upper": [5.0], "x_law": [t]})
    level = Each("units", V("x").interval > 0).attained(Result(rows={"units": frame}))
    known = float(t.measure_p(np.array(3.0), np.array(1.0), 0.0, below=True))
    assert float(level) == pytest.approx(known)
    shown = drop_laws(frame)
    assert shown is not None and list(shown) == ["x", "x_lower", "x_upper"]
    assert drop_laws(None) is None


def test_correlations_are_symmetric_in_fishers_z() -> None:
    x = np.arange(12.0)
    made = estimate_correlations(x, (x + RNG.normal(0, 4, 12))[None])
    z = np.arctanh(made.estimate) - np.arctanh(-0.3)
    known = 2 * stats.norm.sf(z * np.sqrt(9))
    assert measure_p(made, -0.3, below=True) == pytest.approx(known)

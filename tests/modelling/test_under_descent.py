"""Classical estimates under descent: against formulas by hand, scipy, another maximiser, and worlds
of known truth."""

import numpy as np
import pytest
from scipy import stats

from thermostats.modelling.heritability import (
    estimate_branch_change,
    estimate_descent_slope,
    estimate_shares,
)
from thermostats.modelling.tree_likelihood import fit_pagel


def nested(labs: int, each: int) -> np.ndarray:
    """K of labs with models in pairs."""
    lab, pair = np.repeat(np.arange(labs), each), np.arange(labs * each) // 2
    return np.asarray(
        ((lab[:, None] == lab) + 1.0 * (pair[:, None] == pair) + np.eye(labs * each)) / 3
    )


def drawn(rng: np.random.Generator, k: np.ndarray, lam: float) -> np.ndarray:
    return np.linalg.cholesky((1 - lam) * np.eye(len(k)) + lam * k) @ rng.standard_normal(len(k))


def test_a_slope_is_that_of_the_maximum_and_its_interval_the_textbook_s() -> None:
    rng, k = np.random.default_rng(1), nested(6, 6)
    x = np.column_stack([np.ones(36), rng.standard_normal(36)])
    y = x @ [0.3, 1.0] + drawn(rng, k, 0.6)
    found, best = estimate_descent_slope(y, x, k, 1), fit_pagel(y, x, k)
    assert found is not None and abs(found.descent - best.parameter) < 0.05
    assert found.estimate == pytest.approx(best.beta[1], abs=0.02)
    inverse = np.linalg.inv((1 - found.descent) * np.eye(36) + found.descent * k)
    cov = np.linalg.inv(x.T @ inverse @ x)
    b = cov @ x.T @ inverse @ y
    se = np.sqrt(cov[1, 1] * (y - x @ b) @ inverse @ (y - x @ b) / 34)
    assert found.estimate == pytest.approx(b[1], rel=1e-9)
    assert found.upper == pytest.approx(b[1] + stats.t.ppf(0.975, 34) * se, rel=1e-9)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(b[1] / se), 34), rel=1e-9)


def test_no_slope_where_nothing_is_left() -> None:
    k, x = nested(2, 2), np.column_stack([np.ones(4), [1.0, 1, 0, 0]])
    assert (
        estimate_descent_slope(np.array([1.0, 1, 0, 0]), x, k, 1) is None
    )  # the column is the outcome
    assert (
        estimate_descent_slope(np.arange(3.0), x[:3], k[:3, :3], 1) is None
    )  # one degree of freedom
    assert (
        estimate_descent_slope(np.arange(4.0) ** 2, x, np.ones((4, 4)), 1, 1.0) is None
    )  # one model four times


@pytest.mark.slow
def test_shares_are_near_the_truth_and_their_intervals_hold_it() -> None:
    rng, k = np.random.default_rng(3), nested(10, 6)
    a, b = rng.standard_normal((2, 60))
    blocks, lam, n = {"a": a, "b": b}, 0.7, 60
    drift = (np.trace(k) - k.sum() / n) / (n - 1)
    parts = np.array([0.8**2 * a.var(ddof=1), 0.3**2 * b.var(ddof=1), lam * drift, 1 - lam])
    whole = (0.8 * a + 0.3 * b).var(ddof=1) + parts[2] + parts[3]
    truth = [*parts / whole, (parts[0] - parts[1]) / whole]
    made = [
        estimate_shares(0.8 * a + 0.3 * b + drawn(rng, k, lam), blocks, k, [("a", "b")])
        for _ in range(100)
    ]
    tables = [table for table in made if table is not None]
    assert len(tables) == 100 and list(tables[0]["what"]) == ["a", "b", "descent", "own", "a − b"]
    mean = np.mean([table["estimate"] for table in tables], axis=0)
    assert mean == pytest.approx(truth, abs=0.06)
    low, high = (np.array([table[end] for table in tables]) for end in ("lower", "upper"))
    held = (low <= truth) & (truth <= high)
    assert held.mean(axis=0).min() > 0.85


def test_the_mean_change_along_branches_has_a_t_interval_and_the_next_one_its_prediction() -> None:
    rng = np.random.default_rng(5)
    parent = rng.normal(0.3, 0.2, 12)
    child = parent + rng.normal(-0.2, 0.3, 12)
    found = estimate_branch_change(parent, child)
    assert found is not None
    low, high = stats.ttest_1samp(child - parent, 0).confidence_interval(0.95)
    assert (found.lower, found.upper) == pytest.approx((low, high))
    d = child - parent
    steps = d.mean() + d.std(ddof=1) * np.sqrt(1 + 1 / 12) * rng.standard_t(11, 200_000)
    crossed = np.mean([(np.sign(p + steps) != np.sign(p)).mean() for p in parent])
    assert found.crossing == pytest.approx(crossed, abs=0.005)
    assert (
        estimate_branch_change(parent[:1], child[:1]) is None
        and estimate_branch_change(parent, parent + 1) is None
    )


def test_a_contrast_of_one_clade_is_told_less_well_the_more_is_descent() -> None:
    rng, k = np.random.default_rng(2), nested(5, 6)
    x = np.column_stack([np.ones(30), np.repeat([1.0, 0, 0, 0, 0], 6)])
    y = 0.5 * x[:, 1] + rng.standard_normal(30)
    widths = [
        made.upper - made.lower
        for lam in (0.0, 0.5, 1.0)
        if (made := estimate_descent_slope(y, x, k, 1, lam))
    ]
    assert len(widths) == 3 and widths[0] < widths[1] < widths[2]

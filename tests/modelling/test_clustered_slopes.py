"""Slopes with clusters: against HC2, against a closed form, and with known truth."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.many import (
    estimate_differences,
    fit_clustered_slopes,
    fit_slopes,
)


def test_clusters_of_one_row_are_hc2() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=15)
    y = 2 + 0.5 * x + rng.normal(size=15) * (1 + np.abs(x))
    found = fit_clustered_slopes(x, y[None], range(15))
    known = sm.OLS(y, sm.add_constant(x)).fit(cov_type="HC2")
    assert found.estimate[0] == pytest.approx(known.params[1])
    half = (found.upper[0] - found.lower[0]) / 2
    p = 2 * stats.t.sf(abs(known.params[1]) / known.bse[1], df := _df(x, np.arange(15)))
    assert half == pytest.approx(stats.t.ppf(0.975, df) * known.bse[1])
    assert found.p[0] == pytest.approx(p)


def _df(x: np.ndarray, cluster: np.ndarray) -> float:
    """Degrees of freedom as Imbens and Kolesár write them: (Σλ)² / Σλ² of G'G, G's columns (I −
    H)_·g A_g w_g."""
    design = np.column_stack([np.ones(x.size), x])
    hat = design @ np.linalg.pinv(design)
    left, weights = np.eye(x.size) - hat, np.linalg.pinv(design)[1]
    columns = []
    for code in np.unique(cluster):
        at = cluster == code
        values, vectors = np.linalg.eigh(left[np.ix_(at, at)])
        root = vectors @ np.diag(values**-0.5) @ vectors.T
        columns.append(left[:, at] @ root @ weights[at])
    values = np.linalg.eigvalsh(np.array(columns) @ np.array(columns).T)
    return float(values.sum() ** 2 / np.square(values).sum())


def test_clusters_of_several_rows_have_the_variance_and_the_degrees_of_freedom_of_the_source() -> (
    None
):
    rng = np.random.default_rng(2)
    x, cluster = rng.normal(size=18), np.repeat(np.arange(6), 3)
    y = rng.normal(size=(3, 18))
    found = fit_clustered_slopes(x, y, cluster)
    design = np.column_stack([np.ones(18), x])
    hat, weights = design @ np.linalg.pinv(design), np.linalg.pinv(design)[1]
    for place, values in enumerate(y):
        residual, variance = values - hat @ values, 0.0
        for code in range(6):
            at = cluster == code
            eigen, vectors = np.linalg.eigh(np.eye(3) - hat[np.ix_(at, at)])
            variance += (
                float(weights[at] @ (vectors @ np.diag(eigen**-0.5) @ vectors.T) @ residual[at])
                ** 2
            )
        half = stats.t.ppf(0.975, _df(x, cluster)) * variance**0.5
        assert found.upper[place] - found.estimate[place] == pytest.approx(half)


def test_intervals_cover_where_labs_have_levels_of_their_own() -> None:
    """Twelve clusters of unlike size, half of the variance between them: 2,000 studies at a slope
    of 0.5."""
    rng = np.random.default_rng(3)
    cluster = np.repeat(np.arange(12), [9, 6, 4, 4, 3, 3, 2, 2, 1, 1, 1, 1])
    x = rng.normal(size=12)[cluster] + rng.normal(size=cluster.size)
    errors = rng.normal(size=(2000, 12))[:, cluster] + rng.normal(size=(2000, cluster.size))
    found = fit_clustered_slopes(x, 0.5 * x + errors, cluster)
    covered = ((found.lower < 0.5) & (found.upper > 0.5)).mean()
    assert 0.92 <= covered <= 0.985


@pytest.mark.parametrize(
    ("x", "cluster", "what"),
    [([1.0, 2, 3, 4], [0, 0, 1, 1], "too few clusters"), ([1.0] * 4, [0, 1, 2, 3], "differ")],
)
def test_rows_that_carry_no_slope_are_refused(
    x: list[float], cluster: list[int], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        fit_clustered_slopes(np.array(x), np.arange(4.0)[None], cluster)


def test_a_difference_of_groups_has_welch_s_interval() -> None:
    rng = np.random.default_rng(4)
    family = np.repeat(np.arange(9), 2)
    y = rng.normal(size=(3, 18))
    found = estimate_differences(y, family < 3, family)
    for place, values in enumerate(y):
        means = pd.Series(values).groupby(family).mean()
        known = stats.ttest_ind(means[:3], means[3:], equal_var=False).confidence_interval(0.95)
        assert (found.lower[place], found.upper[place]) == pytest.approx((known.low, known.high))


@pytest.mark.parametrize("groups", [None, list("aaaaabbbbccc")])
def test_slopes_within_groups_are_those_of_a_model_with_levels(groups: list[str] | None) -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=12)
    outcomes = rng.normal(size=(4, 12)) + 0.5 * x
    found = fit_slopes(x, outcomes, groups)
    for place, y in enumerate(outcomes):
        table = pd.DataFrame({"x": x, "y": y, "g": groups or "a"})
        known = smf.ols("y ~ x + C(g)" if groups else "y ~ x", table).fit()
        assert found.estimate[place] == pytest.approx(known.params["x"])
        ends = (found.lower[place], found.upper[place])
        assert ends == pytest.approx(tuple(known.conf_int().loc["x"]))
        assert found.p[place] == pytest.approx(known.pvalues["x"])


@pytest.mark.parametrize(
    ("x", "groups", "says"),
    [
        ([1.0, 2.0, 3.0], list("aab"), "too few points inside groups"),
        ([1.0, 1.0, 2.0, 2.0, 2.0], list("aabbb"), "a slope needs values that differ"),
    ],
)
def test_slopes_that_groups_do_not_carry_are_refused(
    x: list[float], groups: list[str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        fit_slopes(np.array(x), np.arange(float(len(x)))[None], groups)


def test_a_group_of_many_rows_lies_on_one_side() -> None:
    """The mean of 49 truths is 1 but for rounding."""
    group = np.repeat(np.arange(6), 49)
    y = np.random.default_rng(3).normal(size=(2, group.size))
    found = estimate_differences(y, group < 3, group)
    assert found.estimate == pytest.approx(y[:, group < 3].mean(1) - y[:, group >= 3].mean(1))
    with pytest.raises(UsageError, match="a group lies on both sides"):
        estimate_differences(y, np.arange(group.size) < 100, group)

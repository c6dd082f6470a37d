"""A test of many studies is that of one where it is called with rows; those that many claims
share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import thermostats
from thermostats.claims.common_tests import (
    EXACT_95,
    correlate_columns,
    count_share,
    count_share_in_groups,
)
from thermostats.claims.question import Test, Trial
from thermostats.claims.result import Result
from thermostats.errors import UsageError
from thermostats.modelling.classical.association import estimate_correlation
from thermostats.modelling.classical.counts import estimate_proportion
from thermostats.modelling.classical.many import (
    Many,
    estimate_grouped_shares,
    estimate_means,
    wrap_counts,
)


def models(n: int = 12) -> pd.DataFrame:
    """Models of four labs with two numbers and a truth value each."""
    rng = np.random.default_rng(3)
    labs = [f"lab{i % 4}" for i in range(n)]
    rows = pd.DataFrame({"model_id": [f"m{i}" for i in range(n)], "heritage": labs})
    x = rng.normal(size=n)
    return rows.assign(x=x, y=0.6 * x + rng.normal(size=n), grows=rng.random(n) < 0.7)


def average(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Mean of every study, and of every lab as a row of a table."""
    labs = rows["heritage"].to_numpy()
    each = [{"mean": estimate_means(outcomes["y"][:, labs == lab])} for lab in np.unique(labs)]
    none = wrap_counts(np.full(len(outcomes["y"]), np.nan))
    return {"mean": estimate_means(outcomes["y"]), "none": none, "labs": each}


def test_one_study_has_the_numbers_of_the_first_of_many() -> None:
    rows = models()
    several = np.stack([rows["y"].to_numpy(), np.zeros(12) + np.arange(12)])
    many: Many = average(rows, {"y": several})["mean"]
    found = Test(average, ("y",), "95% t interval", "p-value")(rows)
    mean = found.quantities["mean"]
    assert (mean.value, mean.lower, mean.upper, mean.p) == pytest.approx(
        (many.estimate[0], many.lower[0], many.upper[0], many.p[0])
    )
    assert (mean.interval, found.n_models, found.n_groups) == ("95% t interval", 12, 4)
    none = found.quantities["none"]
    assert (none.value, none.lower, none.interval, none.p) == (None, None, "", None)
    table = found.rows["labs"]
    assert list(table.columns) == ["mean", "mean_lower", "mean_upper", "p", "mean_law"]
    assert table["mean"].tolist() == pytest.approx(rows.groupby("heritage")["y"].mean().tolist())


def test_without_words_for_p_one_study_has_none() -> None:
    assert Test(average, ("y",))(models()).quantities["mean"].p is None


@pytest.mark.parametrize("groups", ["", "heritage"])
def test_correlation_of_columns_is_that_of_two_samples(groups: str) -> None:
    rows = models()
    within = rows[groups] if groups else None
    alone = estimate_correlation(rows["x"], rows["y"], groups=within, method="spearman", seed=2)
    test = correlate_columns("r", "x", "y", groups=groups, method="spearman")
    found = test(rows)
    r = found.quantities["r"]
    assert (r.value, r.lower, r.upper, r.p) == pytest.approx(
        (alone.estimate, alone.lower, alone.upper, alone.p_value)
    )
    df = 7 if groups else 10
    assert found.words["permutation"] == f"t of the correlation, {df} degrees of freedom"
    with pytest.raises(UsageError):
        test(rows.iloc[:3])


def test_a_p_that_decides_has_no_floor_beyond_eight_models() -> None:
    """Up to eight all pairings are counted; of more p is that of t, however small."""
    rows = models(60).assign(y=lambda own: own["x"] + 0.001 * own["y"])
    test = correlate_columns("r", "x", "y")
    expected = stats.pearsonr(rows["x"], rows["y"]).pvalue
    assert 0 < expected < 1e-100
    assert test(rows).quantities["r"].p == pytest.approx(expected, rel=1e-6, abs=0)
    few = test(rows.iloc[:8])
    assert few.quantities["r"].p == pytest.approx(1 / 40_320)
    assert few.words["permutation"] == "exact, all 40320 arrangements"
    with pytest.warns(DeprecationWarning, match="leave out seed"):
        correlate_columns("r", "x", "y", seed=1)


def test_share_is_exact_and_counts_are_named_and_no_rows_are_refused() -> None:
    rows = models()
    k = int(rows["grows"].sum())
    test = count_share("share", "grows", true="grow", false="shrink", n="models")
    found = test(rows).quantities
    alone = estimate_proportion(k, 12)
    share = found["share"]
    assert (share.value, share.lower, share.upper) == pytest.approx(
        (alone.estimate, alone.lower, alone.upper)
    )
    assert share.interval == EXACT_95
    assert [found[name].value for name in ("grow", "shrink", "models")] == [k, 12 - k, 12]
    with pytest.raises(UsageError, match="no rows"):
        test(rows.iloc[:0])


def test_share_of_alike_rows_has_the_interval_of_groups() -> None:
    rows = models()
    share = count_share_in_groups("share", "grows", "heritage")(rows).quantities["share"]
    alone = estimate_grouped_shares(rows["grows"].to_numpy()[None], rows["heritage"])
    assert (share.value, share.lower, share.upper) == pytest.approx(
        (alone.estimate[0], alone.lower[0], alone.upper[0])
    )


def test_function_of_one_study_is_a_test_without_a_form_of_many() -> None:
    trial = Trial(lambda _: models(), Result.build)
    assert trial.many_studies is None and trial.test(models()).n_models == 12


STUDY = "thermostats.studies.delia2026"


@pytest.mark.parametrize(
    "name", ["benchmark", "crowding", "invariance", "slopes", "spectral", "threshold"]
)
def test_names_of_one_study_are_found_at_the_top_with_a_warning(name: str) -> None:
    name = f"fit_{name}"
    with pytest.warns(DeprecationWarning, match=f"{STUDY}.{name} now"):
        function = getattr(thermostats, name)
    assert function is getattr(thermostats.studies.delia2026, name)
    with pytest.raises(UsageError, match=f"Next: {STUDY}.{name}"):
        function()

"""Properties that go with a group: counts by hand, φ from χ², and what is not stated."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

from thermostats.modelling.causal_graph import (
    count_shared_pairs,
    find_confounded,
    measure_variance_left,
)


def test_a_property_that_is_nearly_the_group_is_named_with_its_counts() -> None:
    focal = pd.Series([True] * 12 + [False] * 10)
    rows = pd.DataFrame(
        {"block": [True] * 9 + [False] * 3 + [True] * 2 + [False] * 8, "kind": ["a", "b"] * 11}
    )
    table = find_confounded(rows, focal, ["block", "kind"])
    assert table[
        ["fact", "value", "inside", "n_inside", "outside", "n_outside"]
    ].to_numpy().tolist() == [["block", "True", 9, 12, 2, 10]]
    chi = stats.chi2_contingency([[9, 3], [2, 8]], correction=False).statistic
    assert table["phi"][0] == pytest.approx(np.sqrt(chi / 22))
    assert len(find_confounded(rows, focal, ["block", "kind"], least=0.0)) >= 2


def test_what_is_not_stated_or_never_varies_is_left_out() -> None:
    focal = pd.Series([True, True, False, False, False])
    rows = pd.DataFrame(
        {"year": [2021, 2021, 2023, None, 2023], "norm": ["x"] * 5, "none": [None] * 5}
    )
    table = find_confounded(rows, focal, ["year", "norm", "none"])
    assert len(table) == 1 and table.loc[0, ["n_outside", "phi"]].tolist() == [2, 1.0]


def test_pairs_that_share_two_facts_are_counted_by_hand() -> None:
    """a a b b b by x x x y (nothing): the pair (1, 2) shares both, (1, 3) and (2, 3) x alone, (3,
    4), … the letter."""
    table = count_shared_pairs(
        pd.DataFrame({"lab": list("aabbb"), "corpus": ["x", "x", "x", "y", None]})
    )
    assert table.iloc[0].tolist() == ["lab", "corpus", 1, 3, 2, 1 / 6]
    same = count_shared_pairs(
        pd.DataFrame({"lab": list("aab"), "code": list("xxy"), "year": ["", "", ""]})
    )
    assert same["jaccard"].tolist() == [1.0, 0.0, 0.0] and same.loc[
        0, ["fact_alone", "other_alone"]
    ].tolist() == [0, 0]


def test_what_is_left_of_a_fact_once_others_are_held_fixed() -> None:
    """A 2 × 2 table by hand: τ of Goodman and Kruskal is φ², here (3·3 − 1·1)²/(4·4·4·4) = 1/4."""
    block = pd.DataFrame({"block": ["yes"] * 3 + ["no"] + ["yes"] + ["no"] * 3})
    lab = pd.DataFrame({"lab": ["a"] * 4 + ["b"] * 4})
    share, n = measure_variance_left(block, lab)
    assert n == 8 and share == pytest.approx((1 - 1 / 4) * 7 / 6)
    assert measure_variance_left(lab, lab) == (0.0, 8)
    assert measure_variance_left(block, pd.DataFrame(index=block.index)) == (pytest.approx(1.0), 8)
    assert math.isnan(measure_variance_left(block, pd.DataFrame({"each": list("abcdefgh")}))[0])
    block.loc[0, "block"] = None
    assert measure_variance_left(block, lab)[1] == 7


def test_what_is_left_of_numbers_is_that_of_a_regression() -> None:
    rng = np.random.default_rng(2)
    x = pd.DataFrame(rng.standard_normal((50, 2)), columns=["a", "b"])
    y = pd.DataFrame({"y": x["a"] + rng.standard_normal(50)})
    fit = sm.OLS(y["y"], sm.add_constant(x)).fit()
    assert measure_variance_left(y, x)[0] == pytest.approx(1 - fit.rsquared_adj)

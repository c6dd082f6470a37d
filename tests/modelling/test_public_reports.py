"""Public reports of other tools, each tried here on a small case whose right answer the package did
not make (`tests/reports.md` lists them)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from bad_inputs import CASES
from test_tables_in_other_clothes import laid, nothing_is_drawn

import thermostats
from thermostats.errors import UsageError

__all__ = ["nothing_is_drawn"]
GAIN = "penultimate_gain"
GOOD = CASES["line"].good(12, 4)
FITS = [name for name in CASES if name != "spectral"]


def fit_line(table: pd.DataFrame) -> Any:
    return thermostats.fit_line(table, GAIN, ["n_layers", "rho"], scale=0.5, seed=1)


def is_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.allclose(one[x], other[x]) for x in one)


@pytest.mark.parametrize("name", FITS)
def test_numbers_that_are_categories_are_numbers(name: str) -> None:
    """whylabs/whylogs#1093: a column of 0 and 1 is a category, and a mean of it a TypeError."""
    good = CASES[name].good(12, 4)
    numeric = [x for x in good if pd.api.types.is_numeric_dtype(good[x])]
    assert numeric
    categories = good.astype(dict.fromkeys(numeric, "category"))
    assert is_same(laid(CASES[name].fit, good), laid(CASES[name].fit, categories))


def test_categories_of_whole_numbers_name_groups() -> None:
    """pyro-ppl/brmp#62: levels that are whole numbers end in a TypeError."""
    number = GOOD["heritage"].str[3:].astype(int)
    as_text = laid(fit_line, GOOD.assign(heritage=number.astype(str)))
    assert is_same(as_text, laid(fit_line, GOOD.assign(heritage=pd.Categorical(number))))


@pytest.mark.parametrize("name", FITS)
def test_columns_of_two_levels_are_refused_with_the_line_that_mends_them(name: str) -> None:
    """mito-ds/mito#571: names on several levels end in a KeyError."""
    good = CASES[name].good(12, 4)
    nested = good.set_axis(pd.MultiIndex.from_product([["a"], list(good)]), axis=1)
    with pytest.raises(UsageError, match="names of columns have levels") as raised:
        CASES[name].fit(nested)
    line = 'df.set_axis(["_".join(map(str, name)) for name in df.columns], axis=1)'
    assert raised.value.next_step == line
    mended = nested.set_axis(["_".join(map(str, name)) for name in nested.columns], axis=1)
    assert list(mended) == [f"a_{column}" for column in good]


@pytest.mark.parametrize("name", FITS)
def test_a_column_that_stands_twice_is_refused_with_the_line_that_mends_it(name: str) -> None:
    """JonJala/mtag#57, aeturrell/skimpy#918: `cannot reindex on an axis with duplicate labels`."""
    good = CASES[name].good(12, 4)
    twice = pd.concat([good, good], axis=1)
    with pytest.raises(UsageError, match="two columns have one name") as raised:
        CASES[name].fit(twice)
    assert raised.value.next_step.startswith("df.loc[:, ~df.columns.duplicated()]")
    mended = twice.loc[:, ~twice.columns.duplicated()]
    pd.testing.assert_frame_equal(mended, good)
    assert is_same(laid(CASES[name].fit, mended), laid(CASES[name].fit, good))


def test_an_outcome_without_variation_is_refused_in_words() -> None:
    """JuliaStats/MixedModels.jl#292, statsmodels/statsmodels#7051: a MethodError, and `Singular
    matrix`."""
    with pytest.raises(UsageError, match="a constant column decides nothing"):
        fit_line(GOOD.assign(**{GAIN: 1.2}))
    alike = GOOD.assign(rho=2.0 * GOOD["n_layers"])
    line = laid(fit_line, alike)  # slopes share what the data say; priors tell them apart
    assert np.linalg.matrix_rank(line[" X" if " X" in line else "0 X"]) < 3


def test_what_a_tree_hands_out_is_the_callers_own() -> None:
    """HEXRD/hexrd#837, spacetelescope/poppy#16: a cached array is changed by whoever got it."""
    tree = thermostats.tree(
        pd.DataFrame({"model_id": list("pqr"), "heritage": list("aab"), "parent": ["", "p", "p"]})
    )
    wanted = {"covariance": tree.covariance().copy(), "heights": tree.heights.copy()}
    for array in (tree.covariance(), tree.heights, tree.roots()):
        array[...] = 99.0
    with pytest.raises(ValueError, match="read-only"):
        tree.lengths[...] = 99.0
    edges = tree.edges()
    edges.iloc[:, -1] = 99.0
    np.testing.assert_array_equal(tree.covariance(), wanted["covariance"])
    np.testing.assert_array_equal(tree.heights, wanted["heights"])
    assert not (tree.edges() == 99.0).any(axis=None)

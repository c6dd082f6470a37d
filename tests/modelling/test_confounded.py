"""Properties that go with a group: counts by hand, φ from χ², and what is not stated."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.modelling.confounded import confounded


def test_a_property_that_is_nearly_the_group_is_named_with_its_counts() -> None:
    focal = pd.Series([True] * 12 + [False] * 10)
    rows = pd.DataFrame({"block": [True] * 9 + [False] * 3 + [True] * 2 + [False] * 8, "kind": ["a", "b"] * 11})
    table = confounded(rows, focal, ["block", "kind"])
    assert table[["fact", "value", "inside", "n_inside", "outside", "n_outside"]].to_numpy().tolist() == [
        ["block", "True", 9, 12, 2, 10]
    ]
    chi = stats.chi2_contingency([[9, 3], [2, 8]], correction=False).statistic
    assert table["phi"][0] == pytest.approx(np.sqrt(chi / 22))
    assert len(confounded(rows, focal, ["block", "kind"], least=0.0)) >= 2


def test_what_is_not_stated_or_never_varies_is_left_out() -> None:
    focal = pd.Series([True, True, False, False, False])
    rows = pd.DataFrame({"year": [2021, 2021, 2023, None, 2023], "norm": ["x"] * 5, "none": [None] * 5})
    table = confounded(rows, focal, ["year", "norm", "none"])
    assert len(table) == 1 and table.loc[0, ["n_outside", "phi"]].tolist() == [2, 1.0]

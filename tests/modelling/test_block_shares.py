"""Jackknifed shares of blocks against pseudo-values, and what too few rows come to."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.heritage.shares import dominance, jackknifed_shares, with_differences

BLOCKS = {"heritage": ["lab"], "geometry": ["depth"], "scale": ["size"]}
DIFFERENCES = (("heritage", "geometry"), ("geometry", "scale"))


def simulated(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["depth", "size"])
    frame["lab"] = list("abcd" * n)[:n]
    return frame.assign(gain=2 * frame["depth"] + (frame["lab"] == "a") + rng.normal(size=n))


def test_intervals_are_those_of_the_mean_of_pseudo_values() -> None:
    frame = simulated(12)
    found = jackknifed_shares(frame, "gain", BLOCKS, DIFFERENCES, seed=1, level=0.9)
    assert list(found["what"]) == ["heritage", "geometry", "scale", "heritage − geometry", "geometry − scale"]
    whole = with_differences(dominance(frame, "gain", BLOCKS, seed=1), DIFFERENCES)
    pseudo = np.array(
        [
            12 * np.array(whole) - 11 * np.array(with_differences(dominance(part, "gain", BLOCKS, seed=1), DIFFERENCES))
            for part in (frame.drop(index=i) for i in frame.index)
        ]
    )
    lower, upper = stats.t.interval(0.9, 11, loc=whole, scale=stats.sem(pseudo, axis=0))
    assert found["estimate"].to_numpy() == pytest.approx(whole)
    assert found["lower"].to_numpy() == pytest.approx(lower)
    assert found["upper"].to_numpy() == pytest.approx(upper)
    share = found.set_index("what")["estimate"]
    assert share["heritage − geometry"] == pytest.approx(share["heritage"] - share["geometry"])
    assert share["geometry"] > 0.4 > share["scale"]


def test_a_row_that_cannot_be_left_out_is_refused() -> None:
    frame = simulated(7)
    assert dominance(frame, "gain", BLOCKS, seed=1).n == 7
    with pytest.raises(UsageError, match="more predictors than rows"):
        jackknifed_shares(frame, "gain", BLOCKS, DIFFERENCES, seed=1)

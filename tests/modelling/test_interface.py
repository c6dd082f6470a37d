"""What fits offer to a report: elements paired by name, numbers as JSON takes them."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd

from thermostats.modelling.inference.fitted import records, updates_of


def test_quantities_are_paired_element_by_element() -> None:
    prior = {"slope": np.zeros((5, 2)), "own": np.ones(5)}
    posterior = {"slope": np.arange(16.0).reshape(2, 4, 2), "other": np.zeros((2, 4))}
    found = updates_of(prior, posterior)
    assert list(found) == ["slope[0]", "slope[1]"]
    assert list(found["slope[1]"].posterior) == [1, 3, 5, 7, 9, 11, 13, 15]
    assert found["slope[0]"].prior.shape == (5,)


def test_records_are_json() -> None:
    table = pd.DataFrame({"x": [1.5, math.nan, math.inf], "n": pd.array([1, None, 3], dtype="Int64")})
    rows = json.loads(json.dumps(records(table), allow_nan=False))
    assert rows == [{"x": 1.5, "n": 1}, {"x": None, "n": None}, {"x": None, "n": 3}]

"""What a fit of any family offers."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from thermostats.errors import UsageError
from thermostats.modelling.inference.fitted import Deferred, records
from thermostats.modelling.inference.parts import updates_of
from thermostats.modelling.laws.lines import fit_line


def rows(name: str, mean: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kinds = np.repeat(list("abcd"), 6)
    return pd.DataFrame(
        {"model_id": name, "heritage": f"lab of {name}", "kind": kinds, "y": rng.normal(mean, 0.1, kinds.size)}
    )


@pytest.fixture(scope="module")
def alone():
    cases = {"low": -0.3, "near": -0.01}
    return {
        name: fit_line(rows(name, mean, k), "y", scale=0.25, group="kind", sources=["a file"], seed=k)
        for k, (name, mean) in enumerate(cases.items())
    }


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


def test_a_part_may_name_its_own_priors_and_declares_five_test_quantities_at_most(alone):
    part = alone["low"].parts["line"]
    other = {"wider": 0.01 * alone["low"].quantities["mean"]}
    plain = replace(alone["low"], parts={"line": replace(part, alternatives=lambda: other)}, prefixed=False)
    found = {check.name: check for check in plain.check().checks}
    kinds = ["prior predictive", "posterior predictive", "LOO-PIT", "prior sensitivity", "influence"]
    assert list(found) == kinds and "wider" in set(found["prior sensitivity"].table["alternative"])
    with pytest.raises(UsageError, match="too many test quantities"):
        replace(part, statistics=dict.fromkeys("abcdef", np.mean))


def test_deferred_entries_are_computed_once_and_when_asked_for():
    made: list[str] = []

    def make(name: str) -> str:
        made.append(name)
        return name.upper()

    entries = Deferred({"a": lambda: make("a"), "b": lambda: make("b")})
    assert (list(entries), len(entries), "a" in entries, made) == (["a", "b"], 2, True, ["a"])
    assert (entries["b"], entries["b"], entries.get("c"), made) == ("B", "B", None, ["a", "b"])

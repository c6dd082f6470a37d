"""What a fit of any family offers, and several fitted means as one fit."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from thermostats.errors import UsageError
from thermostats.modelling.inference.fitted import Deferred, records, side_by_side
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


@pytest.fixture(scope="module")
def both(alone):
    return side_by_side(alone)


def test_means_are_those_of_the_fits_alone_and_the_joint_probability_is_their_product(alone, both):
    means = both.table("means").set_index("model_id")
    for name, fit in alone.items():
        assert means.loc[name, "mean"] == pytest.approx(fit.quantities["mean"].mean())
        assert means.loc[name, "p_below_0"] == pytest.approx(1 - fit.probabilities["mean > 0"])
    assert both.probabilities["every mean < 0"] == pytest.approx(means["p_below_0"].prod(), abs=0.02)
    assert (both.n_models, both.n_heritages, both.sources) == (2, 2, ("a file",))


def test_a_fit_with_more_draws_than_the_others_keeps_its_mean(alone):
    longer = fit_line(rows("near", -0.01, 1), "y", scale=0.25, group="kind", sources=["a file"], seed=7)
    quantities = {name: np.concatenate([drawn, drawn + 1], axis=1) for name, drawn in longer.quantities.items()}
    table = side_by_side({"low": alone["low"], "near": replace(longer, quantities=quantities)}).table("means")
    assert table["mean"].tolist() == pytest.approx(
        [alone["low"].quantities["mean"].mean(), longer.quantities["mean"].mean() + 0.5]
    )


def test_every_fit_keeps_its_checks_updates_and_names(both):
    gate, updates = both.check(), both.updates()
    assert gate.passes, gate.reasons
    names = {check.name.split(":")[0] for check in gate.checks}
    assert names == {"low", "near", "prior sensitivity", "influence"}
    influence = gate.checks[-1].table
    units = {f"{kind} in {name}" for name in ("low", "near") for kind in "abcd"}
    assert set(influence["left_out"]) == {"nothing"} | units and set(influence["statement"]) == set(both.statements)
    assert {"as fitted", "half the prior scales"} <= set(both.sensitivity()["alternative"])
    assert {"beta[0], low", "beta[0], near"} <= set(updates)
    assert {"mean[low]", "mean[near]"} <= set(both.summary()["quantity"])
    assert both.plot(Figure().subplots()).get_yticklabels()[1].get_text() == "near"


def test_fits_of_which_nothing_can_be_left_out_say_so(alone):
    plain = replace(alone["low"], left_out=None)
    assert side_by_side({"low": plain, "near": alone["near"]}).left_out is not None
    last = side_by_side({"low": plain}).check().checks[-1]
    assert (last.name, last.outcome, last.reason) == ("influence", "warned", "no unit was left out")


def test_nothing_and_different_outcomes_do_not_stand_side_by_side(alone):
    other = fit_line(rows("x", 0.1, 3).rename(columns={"y": "z"}), "z", scale=0.25, group=None, seed=3)
    for fits in ({}, {**alone, "x": other}):
        with pytest.raises(UsageError, match="only fits of the same outcome can be compared"):
            side_by_side(fits)


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

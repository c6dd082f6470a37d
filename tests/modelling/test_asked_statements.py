"""A statement keeps its question: under other priors, without each unit, and in what the gate judges of the sampler."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from thermostats.modelling.inference import checks
from thermostats.modelling.inference.sensitivity import rescaled
from thermostats.modelling.inference.statements import AS_FITTED, influence, read_by, sensitivity

X = np.random.default_rng(1).normal(0.5, 0.5**0.5, (4, 5000))
ASKED = {"x > 0.3": lambda q: q["x"] > 0.3}


def test_the_first_row_is_the_fit_itself_and_weights_are_what_the_other_prior_gives() -> None:
    """x ~ N(0, 1) under y = 1 with unit error: N(1/2, 1/2); with a prior of twice the scale N(4/5, 4/5)."""
    ratios = {"twice": rescaled(X, 1.0, 2.0), "far": rescaled(10 * X, 1.0, 0.01)}
    table = sensitivity(ASKED, {"x": X}, [("other rows", {"x": X[None, 0] - 9})], ratios)
    assert table["alternative"].tolist() == [AS_FITTED, "other rows", "twice", "far"]
    p = table.set_index("alternative")["probability"]
    assert p[AS_FITTED] == (X > 0.3).mean() and p["other rows"] == 0
    assert p["twice"] == pytest.approx(stats.norm.sf(-0.5 / 0.8**0.5), abs=0.02)
    assert np.isnan(p["far"]) and "weights of far cannot be trusted" in checks.prior_sensitivity(table).reason


def test_a_prior_to_a_power_is_the_conjugate_posterior() -> None:
    """Prior N(0, 1), one datum 2: N(1, 1/2); prior to the power 0.5 is N(0, 2), and the posterior N(4/3, 2/3)."""
    mu = np.random.default_rng(3).normal(1, 0.5**0.5, size=(4, 5000))
    powers = checks.powers(-0.5 * mu**2, [0.5])
    table = sensitivity({"mu > 0": mu > 0}, {}, [("not asked", {})], powers).set_index("alternative")
    assert table["probability"]["prior to the power 0.5"] == pytest.approx(
        stats.norm.sf(-(4 / 3) / (2 / 3) ** 0.5), abs=0.01
    )
    assert list(table.index) == [AS_FITTED, "prior to the power 0.5"]


def test_without_each_unit_the_same_is_asked_where_it_can_be() -> None:
    refits = [("a", {"x": X - 2}), ("the unit it is about", {"y": X})]
    table = influence(ASKED, {"x": X}, refits).set_index("left_out")["probability"]
    assert table.to_dict() == {"nothing": (X > 0.3).mean(), "a": (X - 2 > 0.3).mean()}
    of_draws = checks.influence(influence({"drawn": X > 0}, {"x": X}, refits))
    assert (of_draws.outcome, of_draws.reason) == ("warned", "not refitted without some units: drawn")


def test_the_gate_knows_what_a_statement_reads() -> None:
    quantities = {"x": X, "y": X, "z": X}
    asked = {"both": lambda q: (q["x"] > 0) & (q["y"] > 0), "drawn": X > 0}
    assert set(read_by(asked, quantities)) == {"x", "y", "drawn"}

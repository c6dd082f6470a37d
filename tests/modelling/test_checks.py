"""Checks against data whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.inference import checks
from thermostats.modelling.inference.draws import Diagnostics, Draws, Settings, Weights
from thermostats.modelling.inference.statements import sensitivity

STATISTICS: dict[str, checks.Statistic] = {"mean": lambda x: float(x.mean()), "largest": lambda x: float(x.max())}
GOOD = Diagnostics(
    rhat_max=1.0,
    rhat_name="a",
    ess_bulk_min=900.0,
    ess_bulk_name="a",
    ess_tail_min=900.0,
    ess_tail_name="a",
    divergences=0,
    bfmi_min=0.9,
)


def normal_posterior(data: np.ndarray, rng: np.random.Generator, draws: int = 2000) -> np.ndarray:
    """Draws of the mean of a normal with SD 1 and a flat prior."""
    return data.mean() + rng.normal(size=draws) / data.size**0.5


def test_predictive_checks_pass_the_right_model_and_fail_a_wrong_one() -> None:
    rng = np.random.default_rng(0)
    replicates = rng.normal(size=(1000, 40))
    right = checks.posterior_predictive(replicates, rng.normal(size=40), STATISTICS)
    wrong = checks.posterior_predictive(replicates, rng.normal(size=40) + 3, STATISTICS)
    assert (right.outcome, wrong.outcome) == ("passed", "failed")
    assert "mean" in wrong.reason
    assert checks.prior_predictive(replicates, rng.normal(size=40) + 3, STATISTICS).outcome == "warned"
    covered = checks.prior_predictive(replicates, rng.normal(size=40), STATISTICS)
    assert (covered.outcome, covered.reason) == ("passed", "all statistics are covered")
    known = checks.posterior_predictive(replicates, np.zeros(40), {"mean": STATISTICS["mean"]}).table
    assert known["p"][0] == pytest.approx(0.5, abs=0.06)
    with pytest.raises(UsageError, match="replicates do not match"):
        checks.posterior_predictive(replicates, np.zeros(39), STATISTICS)


def test_loo_pit_against_its_closed_form() -> None:
    """Leaving x_i out of a normal mean with n points: x_i ~ N(mean of the others, 1 + 1/(n − 1)).

    With P(y < observed) of every draw in the place of replicates, only the importance weights are left to chance.
    """
    rng = np.random.default_rng(1)
    data = rng.normal(size=60)
    mu = normal_posterior(data, rng, 4000)[:, None]
    density = stats.norm.logpdf(data, mu, 1)
    expected = stats.norm.cdf((data - (data.sum() - data) / 59) / np.sqrt(1 + 1 / 59))
    replicated = checks.loo_pit(density, mu + rng.normal(size=(4000, 60)), data, seed=2)
    stated = checks.weighted_pit(density, stats.norm.cdf(data, mu, 1))
    for found, error in ((replicated, 0.06), (stated, 0.005)):
        assert found.table["pit"].to_numpy() == pytest.approx(expected, abs=error)
        assert (found.table["pareto_k"] < 0.7).all()
        assert found.outcome == "passed"
    assert checks.loo_pit(density, mu + 4 * rng.normal(size=(4000, 60)), data, seed=2).outcome == "warned"
    far = np.append(data[:10], 60.0)
    mu = normal_posterior(far, rng, 4000)[:, None]
    unsure = checks.weighted_pit(stats.norm.logpdf(far, mu, 1), stats.norm.cdf(far, mu, 1))
    assert unsure.outcome == "warned"
    assert "Pareto" in unsure.reason


def test_exact_transforms_warn_as_often_as_stated() -> None:
    rng = np.random.default_rng(5)
    outcomes = [checks.exact_pit(rng.random(30)).outcome for _ in range(1000)]
    assert outcomes.count("warned") <= stats.binom.isf(0.001, 1000, 2 * checks.SURPRISING)
    assert checks.exact_pit(rng.random(30) / 2).outcome == "warned"


def test_numbers_that_are_missing_do_not_pass() -> None:
    """A transform, a weight or a mean that is no number decides nothing."""
    rng = np.random.default_rng(6)
    pit = rng.random(30)
    assert checks.exact_pit(pit).outcome == "passed"
    found = checks.exact_pit(np.append(pit, np.nan))
    assert (found.name, found.outcome, found.reason) == ("LOO-PIT", "warned", "1 of 31 outcomes have no transform")
    density = stats.norm.logpdf(rng.normal(size=(500, 5)))
    density[0, 0] = np.nan
    assert checks.weighted_pit(density, rng.random((500, 5)) < 0.5).outcome == "warned"
    draws = rng.normal(size=(4, 500))
    far = sensitivity({"x > 0": lambda q: q["x"] > 0}, {"x": draws}, [], {"far": np.where(draws > 3, np.nan, draws)})
    found = checks.prior_sensitivity(far)
    assert (found.outcome, found.reason) == ("warned", "weights of far cannot be trusted")
    near = checks.prior_sensitivity(far[far["alternative"] != "far"])
    assert (near.outcome, near.reason, len(near.table)) == ("passed", "nothing moves by much", 1)


def test_declared_test_quantities_close_the_gate_and_shapes_warn() -> None:
    rng = np.random.default_rng(7)
    replicates, skewed = rng.normal(size=(1000, 40)), np.append(rng.normal(size=39), 9.0)
    mean = {"mean": STATISTICS["mean"]}
    found = checks.posterior_predictive(replicates, skewed, mean)
    assert found.outcome == "warned" and "largest" in found.reason and "skew" in found.reason
    assert checks.posterior_predictive(replicates, skewed, STATISTICS).outcome == "failed"
    assert found.table.set_index("statistic")["declared"].to_dict() == {
        "largest": False,
        "smallest": False,
        "skew": False,
        "mean": True,
    }


@pytest.mark.parametrize(
    ("whole", "other", "moved"),
    [
        (0.951, 0.949, False),
        (0.97, 0.81, False),
        (0.97, 0.79, True),
        (0.03, 0.21, True),
        (0.03, 0.19, False),
        (0.6, 0.2, False),
    ],
)
def test_a_statement_hangs_on_a_unit_where_its_probability_is_no_longer_near(
    whole: float, other: float, moved: bool
) -> None:
    table = pd.DataFrame([("s", "nothing", whole), ("s", "a", other)], columns=["statement", "left_out", "probability"])
    found = checks.influence(table)
    assert (found.name, found.outcome) == ("influence", "warned" if moved else "passed")
    assert ("without “a”" in found.reason) == moved
    assert checks.Gate(checks=(found,)).passes
    assert checks.nothing_left_out("one pair").outcome == "warned"


SAME = checks.Check(name="influence", outcome="passed", reason="same", table=pd.DataFrame())
OTHER = checks.Check(name="influence", outcome="warned", reason="hangs on b", table=pd.DataFrame())


def test_a_failed_check_closes_the_gate() -> None:
    failed = checks.Check(name="sampler", outcome="failed", reason="R-hat", table=OTHER.table)
    assert checks.Gate(checks=(SAME, OTHER)).passes
    gate = checks.Gate(checks=(SAME, OTHER, failed))
    assert not gate.passes
    assert gate.reasons == ("influence warned: hangs on b", "sampler failed: R-hat")
    assert list(gate.table()["outcome"]) == ["passed", "warned", "failed"]


def drawn(diagnostics: Diagnostics | Weights, values: np.ndarray, exact: bool = False) -> Draws:
    """Draws of one quantity."""
    made = {"settings": Settings(), "attempts": 2, "seed": 1, "compile_seconds": 0.0, "sample_seconds": 0.0}
    return Draws(values={"x": values}, diagnostics=diagnostics, exact=exact, **made)


def test_the_sampler_fails_by_what_is_read_and_warns_of_the_rest() -> None:
    rng = np.random.default_rng(8)
    good = rng.normal(size=(4, 1000))
    stuck = good + np.arange(4)[:, None]
    nuisance = drawn(replace(GOOD, rhat_max=1.5, rhat_name="nuisance", bfmi_min=0.1), good)
    read = checks.sampler({"part": nuisance}, {"x": good})
    assert read is not None and read.outcome == "warned" and "nuisance" in read.reason
    bad = checks.sampler({"part": drawn(GOOD, stuck)}, {"x": stuck})
    assert bad is not None and bad.outcome == "failed" and "R-hat" in bad.reason and bad.name == "sampler"
    outcomes = [
        found.outcome
        for n in (0, 4, 5)
        if (found := checks.sampler({"part": drawn(replace(GOOD, divergences=n), good)}, {"x": good}))
    ]
    assert outcomes == ["passed", "warned", "failed"]  # 0.1% of 4000 draws are 4


def test_where_there_was_no_sampler_only_weights_are_judged() -> None:
    values = np.random.default_rng(9).normal(size=(4, 1000))
    assert checks.sampler({"part": drawn(Weights(), values, exact=True)}, {"x": values}) is None
    weighed = [Weights(effective=n, pareto_k=k) for n, k in ((900.0, 0.3), (900.0, 0.8), (100.0, 0.3))]
    found = [checks.sampler({"part": drawn(one, values, exact=True)}, {"x": values}) for one in weighed]
    assert [one.outcome for one in found if one] == ["passed", "failed", "failed"]
    assert {one.name for one in found if one} == {"importance weights"}
    assert set(found[0].table["diagnostic"]) == {"importance ESS", "Pareto k"} if found[0] else False


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"rhat_max": 1.02}, "R-hat"),
        ({"ess_bulk_min": 399.0}, "bulk ESS"),
        ({"ess_tail_min": 10.0}, "tail ESS"),
        ({"divergences": 1}, "divergent"),
        ({"bfmi_min": 0.2}, "energy"),
        ({"rhat_max": float("nan")}, "R-hat"),
    ],
)
def test_every_diagnostic_can_fail(change: dict[str, float], word: str) -> None:
    values = np.zeros((4, 1000))
    assert drawn(GOOD, values).beyond_limits() == ()
    (failure,) = drawn(Diagnostics(**{**vars(GOOD), **change}), values).beyond_limits()
    assert word in failure

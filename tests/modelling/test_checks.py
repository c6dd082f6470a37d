"""Checks against data whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.inference import checks
from thermostats.modelling.inference.draws import Diagnostics

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
    assert checks.prior_predictive(replicates, rng.normal(size=40) + 3, STATISTICS).outcome == "failed"
    known = checks.posterior_predictive(replicates, np.zeros(40), {"mean": STATISTICS["mean"]}).table
    assert known["p"][0] == pytest.approx(0.5, abs=0.06)
    with pytest.raises(UsageError, match="replicates do not match"):
        checks.posterior_predictive(replicates, np.zeros(39), STATISTICS)


def test_loo_pit_against_its_closed_form() -> None:
    """Leaving x_i out of a normal mean with n points: x_i ~ N(mean of the others, 1 + 1/(n − 1))."""
    rng = np.random.default_rng(1)
    data = rng.normal(size=60)
    mu = normal_posterior(data, rng, 4000)
    density = stats.norm.logpdf(data[None, :], mu[:, None], 1)
    replicates = mu[:, None] + rng.normal(size=(4000, 60))
    found = checks.loo_pit(density, replicates, data, seed=2)
    others = (data.sum() - data) / 59
    expected = stats.norm.cdf((data - others) / np.sqrt(1 + 1 / 59))
    assert found.table["pit"].to_numpy() == pytest.approx(expected, abs=0.06)
    assert found.outcome == "passed"
    wide = checks.loo_pit(density, mu[:, None] + 4 * rng.normal(size=(4000, 60)), data, seed=2)
    assert wide.outcome == "failed"


def test_loo_pit_without_replicates_is_the_closed_form() -> None:
    """With P(y < observed) of every draw in the place of replicates, only the importance weights are left to chance."""
    rng = np.random.default_rng(1)
    data = rng.normal(size=60)
    mu = normal_posterior(data, rng, 4000)[:, None]
    found = checks.weighted_pit(stats.norm.logpdf(data, mu, 1), stats.norm.cdf(data, mu, 1))
    expected = stats.norm.cdf((data - (data.sum() - data) / 59) / np.sqrt(1 + 1 / 59))
    assert found.table["pit"].to_numpy() == pytest.approx(expected, abs=0.005)
    assert found.outcome == "passed"
    far = np.append(data[:10], 60.0)
    mu = normal_posterior(far, rng, 4000)[:, None]
    unsure = checks.weighted_pit(stats.norm.logpdf(far, mu, 1), stats.norm.cdf(far, mu, 1))
    assert unsure.outcome == "undecided"
    assert "Pareto" in unsure.reason


def test_exact_transforms_fail_as_often_as_stated() -> None:
    rng = np.random.default_rng(5)
    outcomes = [checks.exact_pit(rng.random(30)).outcome for _ in range(1000)]
    failed, unsure = outcomes.count("failed"), outcomes.count("undecided")
    assert failed <= stats.binom.isf(0.001, 1000, checks.EXTREME)
    assert failed + unsure <= stats.binom.isf(0.001, 1000, checks.DOUBTFUL)
    assert checks.exact_pit(rng.random(30) / 2).outcome == "failed"


def test_numbers_that_are_missing_do_not_pass() -> None:
    """A transform, a weight or a mean that is no number decides nothing."""
    rng = np.random.default_rng(6)
    pit = rng.random(30)
    assert checks.exact_pit(pit).outcome == "passed"
    found = checks.exact_pit(np.append(pit, np.nan))
    assert (found.outcome, found.reason) == ("undecided", "1 of 31 outcomes have no transform")
    density = stats.norm.logpdf(rng.normal(size=(500, 5)))
    density[0, 0] = np.nan
    assert checks.weighted_pit(density, rng.random((500, 5)) < 0.5).outcome == "undecided"
    draws = rng.normal(size=(4, 500))
    for ratio, values in ((np.where(draws > 3, np.nan, -0.1 * draws**2), draws), (-0.1 * draws**2, draws * np.nan)):
        assert checks.prior_sensitivity({"half": ratio}, {"mean": values}).outcome == "undecided"


def test_prior_sensitivity_against_conjugate_posteriors() -> None:
    """Prior N(0, 1), one datum 2: mean 1; prior to the power 0.5 is N(0, 2), mean 4/3."""
    mu = np.random.default_rng(3).normal(1, 0.5**0.5, size=(4, 5000))
    found = checks.prior_sensitivity(checks.powers(-0.5 * mu**2, [0.5]), {"mu": mu, "positive": mu > 0})
    table = found.table.set_index("quantity")
    assert table["mean_under_alternative"]["mu"] == pytest.approx(4 / 3, abs=0.03)
    assert table["mean_under_alternative"]["positive"] == pytest.approx(
        stats.norm.sf(-(4 / 3) / (2 / 3) ** 0.5), abs=0.01
    )
    assert found.outcome == "passed"
    shifted = checks.prior_sensitivity({"to the tail": 2.0 * mu}, {"mu": mu})
    assert shifted.outcome == "undecided"


SAME = checks.influence("supported", {"a": "supported"}, {"a": {"p": 0.97}})
OTHER = checks.influence("supported", {"a": "supported", "b": "inconclusive"}, {"a": {"p": 0.97}, "b": {"p": 0.9}})


def test_joined_checks_have_the_worst_outcome_and_all_reasons() -> None:
    assert (SAME.outcome, checks.joined([SAME]).reason) == ("passed", SAME.reason)
    none = checks.nothing_left_out("one pair")
    both = checks.joined([SAME, OTHER, none])
    assert (both.name, both.outcome) == ("influence", "undecided")
    assert both.reason == "the verdict changes without b; one pair"
    assert both.table["left_out"].tolist() == ["a", "a", "b"]
    with pytest.raises(UsageError, match="nothing to join"):
        checks.joined([])


def test_a_failed_check_closes_the_gate() -> None:
    failed = checks.Check(name="sampler", outcome="failed", reason="R-hat", table=OTHER.table)
    assert checks.Gate(checks=(SAME, OTHER)).passes
    gate = checks.Gate(checks=(SAME, OTHER, failed))
    assert not gate.passes
    assert gate.reasons == ("influence undecided: the verdict changes without b", "sampler failed: R-hat")
    assert list(gate.table()["outcome"]) == ["passed", "undecided", "failed"]


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
    assert GOOD.failures() == ()
    (failure,) = Diagnostics(**{**vars(GOOD), **change}).failures()
    assert word in failure

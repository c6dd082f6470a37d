import json

import numpy as np
import pytest
from calibrated import assert_calibrated, assert_covered, within
from scipy import stats
from scipy.special import logsumexp
from simulated import crowding_table, model_table

from thermostats.errors import UsageError
from thermostats.modelling.inference.held_out import node_evidence
from thermostats.modelling.inference.quadrature import log_evidence, posterior
from thermostats.modelling.laws.crowding import Crowded, crowding_rows, fit_crowding, thresholds


def table(seed: int, *, within: float = 0.0, between: float = 0.0, step: float = 0.0, n: int = 36, labs: int = 6):
    rng = np.random.default_rng(seed)
    lab = np.arange(n) % labs
    level, effects = rng.normal(-1.6, 0.5, labs), rng.normal(0, 0.1, labs)
    x = level[lab] + rng.normal(0, 0.5, n)
    mean = np.array([x[lab == j].mean() for j in range(labs)])[lab]
    y = 0.05 + within * (x - mean) + between * (mean - x.mean()) + step * (x > np.log(0.2))
    y += effects[lab] + rng.normal(0, 0.1, n)
    return model_table(y, rho=np.exp(x), labs=labs)


def test_slopes_within_and_between_labs_are_told_apart():
    found = fit_crowding(table(1, within=-0.25, between=0.4), seed=1)
    rows = found.summary().set_index("quantity")
    assert found.status == "passed"
    assert rows.loc["within", "lower"] < -0.25 < rows.loc["within", "upper"] < 0
    assert rows.loc["between", "lower"] < 0.4 < rows.loc["between", "upper"]
    assert found.probabilities["within < 0"] > 0.99
    assert found.table("rivals")["rival"].iloc[0] == "slopes apart"


def test_a_threshold_is_found_where_there_is_one():
    found = fit_crowding(table(2, step=-0.4), seed=1)
    assert found.table("rivals")["rival"].iloc[0] == "step"
    assert found.numbers["threshold_lower"] < 0.2 < found.numbers["threshold_upper"]
    assert found.probabilities["gain falls at the step"] > 0.99
    assert found.table("threshold")["probability"].sum() == pytest.approx(1)


@pytest.mark.slow
def test_without_an_effect_constant_is_preferred_on_average_and_checks_pass():
    fits = [fit_crowding(table(seed), seed=1) for seed in (3, 4, 5)]
    evidence = np.mean([f.table("rivals").set_index("rival")["log_evidence"][list(RIVALS)] for f in fits], axis=0)
    assert evidence[0] > max(evidence[1], evidence[3])
    found = fits[0]
    gate = found.check()
    assert gate.passes, gate.reasons
    assert {"slopes: LOO-PIT", "influence"} <= {check.name for check in gate.checks}
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.plot().has_data()


def test_what_the_table_cannot_tell_is_said():
    good = table(4)
    with pytest.raises(UsageError, match="no such column"):
        fit_crowding(good.drop(columns="rho"), seed=1)
    same = good.head(12).assign(rho=[0.1] * 6 + [0.4] * 6)
    assert any("same mean of log ρ" in words for words in crowding_rows(same).warnings)
    assert any("2 labs" in words for words in crowding_rows(good[good["heritage"].isin(["lab0", "lab1"])]).warnings)


SLOPES = ("a", "within", "between", "sigma", "tau")
RIVALS = ("constant", "slope", "slopes apart", "step")


def chances(rows: Crowded) -> np.ndarray:
    """Probability of every rival, in the order of `RIVALS`, all equally likely beforehand."""
    plain = [log_evidence(lines) for lines in (rows.of(), rows.of(rows.x - rows.x.mean()), rows.apart)]
    steps, *_ = thresholds(rows, seed=0)
    each = np.array([*plain, logsumexp(steps.log_weights + node_evidence(steps))])
    return np.exp(each - logsumexp(each))


def test_intervals_of_slopes_cover_tables_from_their_prior():
    inside = []
    for i in range(100):
        table, truth = crowding_table(np.random.default_rng(i), "slopes apart")
        found = posterior(crowding_rows(table).apart, seed=i, draws=1500)
        drawn = np.column_stack([found.beta, found.sigma, found.tau])
        inside.append(within([truth[name] for name in SLOPES], drawn))
    assert_covered(inside)


@pytest.mark.slow
def test_probability_of_a_threshold_is_calibrated_and_its_interval_covers():
    """Rivals drawn with equal odds and everything of them from their priors."""
    stated, true, inside, signs, fell, crossed, crosses = [], [], [], [], [], [], []
    for i in range(100):
        kind = RIVALS[i % 4]
        table, truth = crowding_table(np.random.default_rng(1000 + i), kind)
        rows = crowding_rows(table)
        stated.append(chances(rows))
        true.append([kind == name for name in RIVALS])
        if kind == "step":
            *_, joint = thresholds(rows, seed=i)
            inside.append(within(truth["cut"], np.log(joint["threshold"])))
            signs.append((joint["step"] < 0).mean())
            fell.append(truth["step"] < 0)
            crossed.append(((joint["below"] > 0) & (joint["above"] < 0)).mean())
            crosses.append(truth["a"] > 0 > truth["a"] + truth["step"])
    for number in range(4):
        assert_calibrated(np.array(stated)[:, number], np.array(true)[:, number])
    assert_covered(inside)
    assert_calibrated(signs, fell)
    assert_calibrated(crossed, crosses)


@pytest.mark.slow
def test_without_an_effect_none_is_found_more_often_than_stated():
    """100 tables without effect: P(sign) beyond 0.95 in 10% at most, a step with P > 0.95 in 5%, binomial bounds."""
    signs, steps = [], []
    for i in range(100):
        rows = crowding_rows(crowding_table(np.random.default_rng(2000 + i), "constant")[0])
        negative = (posterior(rows.apart, seed=i, draws=1500).beta[:, 1:] < 0).mean(axis=0)
        signs.append((negative > 0.95) | (negative < 0.05))
        steps.append(chances(rows)[3] > 0.95)
    assert (np.sum(signs, axis=0) <= stats.binom.isf(0.001, 100, 0.1)).all()
    assert sum(steps) <= stats.binom.isf(0.001, 100, 0.05)


def test_both_slopes_are_checked_without_every_lab_and_model_and_told_in_symbols():
    found = fit_crowding(table(6, within=-0.3, n=18), seed=1)
    left_out = next(check for check in found.check().checks if check.name == "influence").table
    assert len(left_out) == 3 * (1 + 6 + 18)
    assert set(left_out["statement"]) == {"within < 0", "between < 0", "both < 0"}
    assert {line[0] for line in found.priors} == {"a", "b_w, b_b", "δ", "c", "τ", "σ"}
    assert found.equations[0].startswith("log gᵢ = a + b_w")

"""N03 on trained models of known truth: slopes, law, bound, threshold, interactions and mediator turn with it."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, UNMEASURED, WITHHELD, YES, by_rules_alone, judged, untried
from simulated_studies import Simulated

from thermostats.modelling.classical.association import slope
from thermostats.studies.nursery.design import N_LAYERS
from thermostats.studies.nursery.largest import curve_of
from thermostats.studies.nursery.rows import final
from thermostats.studies.nursery.rows import judged as judged_by
from thermostats.studies.nursery.slopes import extra_terms, held, slope_of, slope_on, with_terms
from thermostats.tables.vocabulary import NURSERY

A_LOG = 2 / np.log(N_LAYERS[-1] / N_LAYERS[0])
"""Slope on log L of a slope of 1 on the design's column, which runs from −1 to 1."""
A_LOG_RHO = 2 / np.log(16)


class WithTraces(Simulated):
    """Simulated models with a trace and norms that follow head density."""

    def __init__(self, truth, **named):
        super().__init__(truth, **named)
        features, rows = self.frames["features"], final(self)
        n = np.arange(len(features))
        self.frames["features"] = features.assign(wv_norm=2.0 + n % 7, wo_norm=1.0 + n % 5)
        trace = np.exp(rows["log_rho"] + np.random.default_rng(5).normal(0, 0.3, len(rows)))
        traces = pd.DataFrame({"model_id": rows["model_id"], "variant": "exact", "head": "", "trace": trace})
        self.frames["attention"] = traces.assign(source=NURSERY)


def falls(matrix):
    """Falls with depth and with density, and with other things that must not be taken for them."""
    return 0.1 - 0.3 * matrix["log_L"] - 0.25 * matrix["log_rho"] + 0.4 * matrix["corpus"] + 0.2 * matrix["log_d"]


def test_slopes_are_found_whatever_else_moves_the_gain():
    rows = judged_by(final(Simulated(falls)), "penultimate_gain")
    for term, truth in (("log_L", -0.3 * A_LOG), ("log_rho", -0.25 * A_LOG_RHO)):
        found = slope_on(rows, term, [name for name in held(rows) if name != term], "recipe")
        assert found.lower < truth < found.upper and found.upper - found.lower < 0.15
        assert found.estimate == pytest.approx(truth, abs=0.05) and found.n_groups == 16
        within = slope_of(rows, term)
        formula = f"log_gain ~ C(recipe) + {' + '.join(f'Q({name!r})' for name in held(rows))}"
        known = slope(rows, formula, term=f"Q('{term}')", errors="classical")
        assert (within.value, within.lower, within.p) == pytest.approx((known.estimate, known.lower, known.p_value))


SLOPES = ("depth", "density")


def verdicts(truth, *names, noise=0.05):
    found = judged(by_rules_alone("n03"), WithTraces(truth, noise=noise), *names)
    return [one.verdict for one in found.values()]


@pytest.mark.parametrize(
    ("truth", "noise", "verdict"),
    [
        (falls, 0.05, YES),
        (lambda m: 0.05 * m["corpus"], 0.02, NO),
        (lambda m: 0.3 * m["log_L"] + 0.3 * m["log_rho"], 0.05, NO),
    ],
)
def test_slopes_turn_with_the_truth(truth, noise, verdict):
    assert verdicts(truth, *SLOPES, noise=noise) == [verdict] * 2


@pytest.mark.parametrize(("level", "verdict"), [(2.0, NO), (-1.0, YES)])
def test_the_bound_turns_with_the_level(level, verdict):
    assert verdicts(lambda m: level + 0 * m["log_L"], "bound") == [verdict]


@pytest.mark.parametrize(("sparse", "by_rule", "given"), [(0.5, YES, (YES, "")), (-0.5, NO, WITHHELD)])
def test_the_threshold_turns_with_the_side_of_sparse_heads(sparse, by_rule, given):
    """Against it the rule errs too often to be believed."""
    tables = WithTraces(lambda m: np.where(m["log_rho"] < -0.9, sparse, -sparse))
    alone, finding = (
        judged(change(by_rules_alone("n03")), tables, "threshold")["threshold"] for change in (untried, lambda n03: n03)
    )
    assert alone.verdict == by_rule and (finding.verdict, finding.reason) == given


def published(matrix):
    """Log of 10^(1/L)."""
    depth = np.exp((matrix["log_L"] + 1) / A_LOG + np.log(N_LAYERS[0]))
    return np.log(10) / depth


@pytest.mark.parametrize(("truth", "beta", "verdict"), [(published, 1, YES), (lambda m: 0.5 + 0 * m["log_L"], 0, NO)])
def test_the_published_curve_is_known_when_it_is_there(truth, beta, verdict):
    law = judged(by_rules_alone("n03"), WithTraces(truth, noise=0.01), "exponent")["exponent"]
    assert law.verdict == verdict and law.headline.value == pytest.approx(beta, abs=0.1)


def test_curve_by_least_squares_is_that_of_scipy():
    from scipy.optimize import curve_fit

    rng = np.random.default_rng(1)
    L = rng.choice([4.0, 9.0, 20.0], 40)
    y = 0.2 * (L / 9) ** -0.7 + rng.normal(0, 0.02, 40)
    theirs, _ = curve_fit(lambda L, m, beta: m * (L / 9) ** -beta, L, y, p0=[0.1, 1.0])
    assert curve_of(L, y, 9.0) == pytest.approx(tuple(theirs), abs=0.006)


def test_curvature_and_interactions_are_found_where_they_are_and_not_elsewhere():
    def p(truth):
        rows = judged_by(final(Simulated(truth, noise=0.1)), "geometric_gain")
        return extra_terms(with_terms(rows), seed=1).set_index("what")["p"]

    plain = p(falls)
    assert (plain > 0.001).all()
    assert p(lambda m: 0.3 * m["P2(log_L)"])["curvature over depth"] < 1e-4
    crossed = p(lambda m: 0.3 * m["corpus x log_rho"])
    assert crossed["recipe factors × head density"] < 1e-4 and crossed["recipe factors × depth"] > 0.001


def test_the_trace_carries_the_effect_where_the_gain_follows_it():
    tables = WithTraces(lambda m: 0 * m["log_L"], noise=0.05)
    shift = -0.3 * np.log(tables.frames["attention"].set_index("model_id")["trace"])
    rows = tables.frames["features"]
    for gain in ("penultimate_gain", "penultimate_gain_geometric"):
        rows[gain] *= np.exp(rows["model_id"].map(shift))
    found = judged(by_rules_alone("n03"), tables, "through_trace")["through_trace"]
    assert found.verdict == YES and found.headline.value == pytest.approx(-0.3, abs=0.06)
    assert len(found.table) == 3
    assert verdicts(falls, "through_trace") == [OPEN]


def test_few_models_need_measurement():
    found = judged(by_rules_alone("n03"), WithTraces(falls, models=30))
    assert {one.verdict for one in found.values()} == {UNMEASURED} and len(found) == 17

"""N03 on trained models of known truth: slopes, law, bound, threshold, interactions and mediator turn with it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from simulated_nursery import Simulated

from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, UNMEASURED
from thermostats.studies.nursery import density as nursery_density
from thermostats.studies.nursery import law as nursery_law
from thermostats.studies.nursery.factors import N_LAYERS
from thermostats.studies.nursery.recipe_fit import judged
from thermostats.studies.nursery.rows import final
from thermostats.studies.nursery.slopes import curve_of, extra_terms, held, slope_on
from thermostats.tables.vocabulary import NURSERY

ROOT = Path(__file__).parents[2]
A_LOG = 2 / np.log(N_LAYERS[-1] / N_LAYERS[0])
"""Slope on log L of a slope of 1 on the design's column, which runs from −1 to 1."""
A_LOG_RHO = 2 / np.log(16)


class WithTraces(Simulated):
    """Simulated models with a trace and norms that follow head density."""

    follows = 1.0

    def table(self, name, **equals):
        if name == "attention" and equals.get("source") == NURSERY:
            rows = judged_rows(self)
            noise = np.random.default_rng(5).normal(0, 0.3, len(rows))
            trace = np.exp(self.follows * rows["log_rho"] + noise)
            return pd.DataFrame({"model_id": rows["model_id"], "variant": "exact", "head": "", "trace": trace})
        found = super().table(name, **equals)
        if name == "features" and equals.get("source") == NURSERY:
            return found.assign(wv_norm=2.0 + np.arange(len(found)) % 7, wo_norm=1.0 + np.arange(len(found)) % 5)
        return found


def judged_rows(tables):
    """Rows at the end of training, without the traces."""
    plain = Simulated.__new__(Simulated)
    plain.__dict__ = tables.__dict__
    return final(plain)


@pytest.fixture
def analysis():
    path = next((ROOT / "analyses").glob("n03_*.py"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def by_tests_alone(analysis, monkeypatch):
    """The analysis with its classical verdicts: what turns those takes no sampling."""

    class Draws(dict):
        def __missing__(self, key):
            return np.ones((4, 10))

    fit = SimpleNamespace(quantities=Draws(), probabilities=Draws(), table=lambda name: None)
    monkeypatch.setattr(analysis, "fit_line", lambda *_, **__: fit)
    monkeypatch.setattr(analysis, "fit_kleiber", lambda *_, **__: fit)
    monkeypatch.setattr(nursery_density, "fit_share", lambda *_, **__: fit)
    for module in (analysis, nursery_density, nursery_law):
        monkeypatch.setattr(module, "posterior_of", lambda *_, **__: None)
        monkeypatch.setattr(module, "beside", lambda finding, fit, told: finding)
    return analysis


def named(findings):
    return {finding.estimand.split(",")[0]: finding for finding in findings}


def falls(matrix):
    """Falls with depth and with density, and with other things that must not be taken for them."""
    return 0.1 - 0.3 * matrix["log_L"] - 0.25 * matrix["log_rho"] + 0.4 * matrix["corpus"] + 0.2 * matrix["log_d"]


def test_slopes_are_found_whatever_else_moves_the_gain():
    rows = judged(final(Simulated(falls)), "penultimate_gain")
    for term, truth in (("log_L", -0.3 * A_LOG), ("log_rho", -0.25 * A_LOG_RHO)):
        found = slope_on(rows, term, [name for name in held(rows) if name != term], "recipe")
        assert found.lower < truth < found.upper and found.upper - found.lower < 0.15
        assert found.estimate == pytest.approx(truth, abs=0.05) and found.n_groups == 16


@pytest.mark.slow
def test_verdicts_turn_with_the_truth(by_tests_alone):
    def verdicts(truth, noise=0.05):
        tables = WithTraces(truth, noise=noise)
        return {name: found.verdict for name, found in named(by_tests_alone.analyse(tables)).items()}

    down = verdicts(falls)
    assert down["slope on the log of depth"] == down["slope on the log of head density ρ"] == SUPPORTED
    flat = verdicts(lambda m: 0.05 * m["corpus"], noise=0.02)
    assert flat["slope on the log of depth"] == flat["slope on the log of head density ρ"] == AGAINST
    up = verdicts(lambda m: 0.3 * m["log_L"] + 0.3 * m["log_rho"])
    assert up["slope on the log of depth"] == up["slope on the log of head density ρ"] == AGAINST
    loud = verdicts(lambda m: 2.0 + 0 * m["log_L"])
    assert loud["share of models whose largest gain of blocks 2 to L − 1 lies above 10^(1/L)"] == AGAINST
    quiet = verdicts(lambda m: -1.0 + 0 * m["log_L"])
    assert quiet["share of models whose largest gain of blocks 2 to L − 1 lies above 10^(1/L)"] == SUPPORTED
    assert quiet["accuracy of ρ ≥ threshold in the controlled study"] == OPEN
    sparse_expand = verdicts(lambda m: np.where(m["log_rho"] < -0.9, 0.5, -0.5))
    assert sparse_expand["accuracy of ρ ≥ threshold in the controlled study"] == SUPPORTED
    dense_expand = verdicts(lambda m: np.where(m["log_rho"] < -0.9, -0.5, 0.5))
    assert dense_expand["accuracy of ρ ≥ threshold in the controlled study"] == AGAINST


def published(matrix):
    """Log of 10^(1/L)."""
    depth = np.exp((matrix["log_L"] + 1) / A_LOG + np.log(N_LAYERS[0]))
    return np.log(10) / depth


def test_the_published_curve_is_known_when_it_is_there(by_tests_alone):
    name = "exponent β of log10 of the largest gain over depth"
    law = named(by_tests_alone.analyse(WithTraces(published, noise=0.01)))[name]
    assert law.verdict == SUPPORTED and law.estimate == pytest.approx(1, abs=0.1)
    flat = named(by_tests_alone.analyse(WithTraces(lambda m: 0.5 + 0 * m["log_L"], noise=0.01)))[name]
    assert flat.verdict == AGAINST and flat.estimate == pytest.approx(0, abs=0.1)


def test_curve_by_least_squares_is_that_of_scipy():
    from scipy.optimize import curve_fit

    rng = np.random.default_rng(1)
    L = rng.choice([4.0, 9.0, 20.0], 40)
    y = 0.2 * (L / 9) ** -0.7 + rng.normal(0, 0.02, 40)
    theirs, _ = curve_fit(lambda L, m, beta: m * (L / 9) ** -beta, L, y, p0=[0.1, 1.0])
    assert curve_of(L, y, 9.0) == pytest.approx(tuple(theirs), abs=0.006)


def test_curvature_and_interactions_are_found_where_they_are_and_not_elsewhere():
    def p(truth):
        rows = judged(final(Simulated(truth, noise=0.1)), "geometric_gain")
        return extra_terms(rows, seed=1).set_index("what")["p"]

    plain = p(falls)
    assert (plain > 0.001).all()
    assert p(lambda m: 0.3 * m["P2(log_L)"])["curvature over depth"] < 1e-4
    crossed = p(lambda m: 0.3 * m["corpus x log_rho"])
    assert crossed["recipe factors × head density"] < 1e-4 and crossed["recipe factors × depth"] > 0.001


def test_the_trace_carries_the_effect_where_the_gain_follows_it(by_tests_alone):
    tables = WithTraces(lambda m: 0 * m["log_L"], noise=0.05)
    noise = np.random.default_rng(5).normal(0, 0.3, len(tables.made))
    log_rho = judged_rows(tables).set_index("model_id")["log_rho"]
    shift = -0.3 * (log_rho + pd.Series(noise, index=log_rho.index))
    for gain in ("penultimate_gain", "penultimate_gain_geometric"):
        tables.made[gain] *= np.exp(tables.made["model_id"].map(shift))
    name = "effect of log ρ through the log trace of the sheaf Laplacian"
    found = named(by_tests_alone.analyse(tables))[name]
    assert found.verdict == SUPPORTED and found.estimate == pytest.approx(-0.3, abs=0.06)
    assert len(found.table) == 3
    apart = named(by_tests_alone.analyse(WithTraces(falls)))[name]
    assert apart.verdict == OPEN


def test_few_models_need_measurement_and_nothing_is_fitted(analysis):
    findings = analysis.analyse(WithTraces(falls, models=30))
    assert [finding.verdict for finding in findings] == [UNMEASURED, UNMEASURED]


@pytest.mark.slow
@pytest.mark.long
def test_with_posteriors_beside_every_plain_sentence_is_whole(analysis):
    for finding in analysis.analyse(WithTraces(falls)):
        assert finding.plain.endswith(".") and not {"nan", "None", "inf"} & set(finding.plain.split())
        assert finding.draw is None or finding.caption

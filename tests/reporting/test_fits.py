"""What a page shows of a fit: the verdict goes through the gate, the panels draw, nothing is typed by hand."""

from __future__ import annotations

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of, update_table
from thermostats.claims.posterior import both
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, if_probable
from thermostats.modelling.inference.checks import FAILED, Gate
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.laws.lines import fit_line
from thermostats.tables.caching import CACHE_VARIABLE

mpl.use("Agg")


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"model_id": [f"m{i}" for i in range(20)], "heritage": list("abcd") * 5})
    rows = rows.assign(x=rng.normal(size=20))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        return fit_line(rows.assign(y=rows["x"] + 0.3 * rng.normal(size=20)), "y", ["x"], scale=1.0, seed=1)


def test_a_posterior_is_told_whole(fit: Fitted) -> None:
    told = posterior_of(fit, model="y on x.", statement="x > 0", classical=SUPPORTED, tables=["rows"])
    assert told.probability == fit.probabilities["x > 0"]
    assert told.verdict == told.concluded == SUPPORTED
    assert both(SUPPORTED, told) == SUPPORTED
    assert both(AGAINST, told) == OPEN
    assert list(told.tables) == ["rows"]
    assert (told.summary["mcse"] < told.summary["sd"] / 10).all()
    assert {panel.name for panel in told.panels} == {"posterior", "prior-to-posterior", "line-predictive"}
    for panel in told.panels:
        panel.draw(Figure().subplots())
    assert 0 <= (told.probability_error or 0) < 0.01


def test_a_finding_takes_what_both_come_to(fit: Fitted) -> None:
    finding = Finding(claim="C01", estimand="slope", verdict=SUPPORTED, plain=f"{SENTENCES[SUPPORTED]}: so it is.")
    same = beside(finding, fit, posterior_of(fit, model="", statement="x > 0", classical=SUPPORTED))
    assert same.verdict == SUPPORTED
    assert same.plain.startswith(
        f"{SENTENCES[SUPPORTED]}: so it is. The fitted model gives P(x > 0) > 0.999 and agrees"
    )
    assert same.rhat_max is not None and same.rhat_max < 1.01
    other = beside(
        finding, fit, posterior_of(fit, model="", statement="x < 0", truth=fit.quantities["x"] < 0, classical=SUPPORTED)
    )
    assert other.verdict == OPEN
    assert other.plain.startswith(SENTENCES[OPEN])
    assert "not supported" in other.plain


def test_no_verdict_passes_a_failed_gate(fit: Fitted) -> None:
    told = posterior_of(fit, model="y on x.", statement="x > 0", classical=SUPPORTED)
    first, *rest = told.gate.checks
    broken = replace(told, gate=Gate(checks=(replace(first, outcome=FAILED), *rest)))
    assert broken.verdict == SUPPORTED
    assert broken.concluded == both(SUPPORTED, broken) == OPEN


def test_error_of_a_probability(fit: Fitted) -> None:
    """The bound by the smallest effective sample is not below the error of the draws themselves."""
    truth = fit.quantities["mean"] > np.median(fit.quantities["mean"])
    exact = posterior_of(fit, model="", statement="mean above its median", truth=truth, classical=OPEN)
    assert exact.probability == pytest.approx(0.5, abs=1e-3)
    assert exact.probability_error == pytest.approx(0.5 / np.sqrt(truth.size), rel=1.0)
    assert exact.verdict == OPEN


def test_rules_and_tables() -> None:
    assert [if_probable(p) for p in (0.96, 0.95, 0.5, 0.05, 0.01)] == [SUPPORTED, SUPPORTED, OPEN, AGAINST, AGAINST]
    assert update_table({}, 0.94).empty

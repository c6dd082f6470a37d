"""What a page shows of a fit: the verdict goes through the gate, the panels draw, nothing is typed
by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import shipped_tables
from matplotlib.figure import Figure

from thermostats.claims.finding import FittedModel, Undrawn, format_finding, record_posterior
from thermostats.claims.judge import answer_question
from thermostats.claims.question import Question
from thermostats.claims.result import OPEN, SUPPORTED, Estimate, Inference, Reason, Result
from thermostats.claims.rule import Above, Posterior, V
from thermostats.claims.template import Template
from thermostats.formatting import format_number
from thermostats.modelling.checks import FAILED, Gate
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.lines import fit_line
from thermostats.settings import DRAW_VARIABLE


@pytest.fixture(scope="module")
def fit() -> Fit:
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"model_id": [f"m{i}" for i in range(20)], "heritage": list("abcd") * 5})
    rows = rows.assign(x=rng.normal(size=20))
    return fit_line(
        rows.assign(y=rows["x"] + 0.3 * rng.normal(size=20)), "y", ["x"], scale=1.0, seed=1
    )


def test_a_posterior_is_shown_whole(fit: Fit) -> None:
    result = Result(
        quantities={"x": Estimate(1.0, 0.5, 1.5)}, inference=Inference(fit, tables=("rows",))
    )
    shown = record_posterior(result, Posterior("slope on x > 0"), "y on x.", Above("x", 0))
    assert shown.conclusion.probability == fit.probabilities["slope on x > 0"]
    assert shown.conclusion.verdict == shown.concluded == SUPPORTED
    assert list(shown.tables) == ["rows"]
    assert (shown.summary["mcse"] < shown.summary["sd"] / 10).all()
    assert {panel.name for panel in shown.panels} == {
        "posterior",
        "prior-to-posterior",
        "posterior-predictive",
    }
    for panel in shown.panels:
        panel.draw(Figure().subplots())
    assert 0 <= (shown.conclusion.error or 0) < 0.01
    first, *rest = shown.gate.checks
    broken = replace(shown, gate=Gate(checks=(replace(first, outcome=FAILED), *rest)))
    assert broken.conclusion.verdict == SUPPORTED and broken.concluded == OPEN


def test_an_order_that_hangs_on_names_is_shown_with_its_range() -> None:
    """Weights that layers and width give."""
    rng = np.random.default_rng(4)
    layers, width = rng.integers(6, 48, 16), 64 * rng.integers(8, 60, 16)
    rows = pd.DataFrame({"model_id": [f"m{i}" for i in range(16)], "heritage": list("abcd") * 4})
    rows = rows.assign(layers=layers, width=width, weights=12 * layers * width**2)
    rows = rows.assign(gain=np.exp(rng.normal(0.0, 0.1, 16)))
    named = {"geometry": ["layers", "width"], "scale": ["weights"]}
    fit = fit_heritage(rows, outcome="gain", seed=1, **named)
    result = Result(inference=Inference(fit))
    shown = record_posterior(result, Posterior("geometry > scale"), "A model.").conclusion
    assert shown.ends == fit.ranges["geometry > scale"]
    low, high = map(format_number, shown.ends)
    assert shown.chance.endswith(f", {low} to {high} by which column is called which")
    other = record_posterior(result, Posterior("heritage > geometry and scale"), "A model.")
    assert other.conclusion.ends is None and "called which" not in other.conclusion.chance


@pytest.mark.parametrize("statement", ["slope on x > 0", "slope on x < 0"])
def test_the_test_decides_and_the_posterior_is_shown(fit: Fit, statement: str) -> None:
    words = Template(
        Path("u01.md"),
        "U01",
        "t",
        {},
        {"one": {"estimand": "slope", "plain": "{{ verdict.sentence }}."}},
    )
    question = Question(
        "U01.one", "one", None, Result, primary=Above("slope", 0), robustness=Posterior(statement)
    )
    drawn = {"slope on x < 0": fit.quantities["slope on x"] < 0}
    result = Result(
        quantities={"slope": Estimate(1.0, 0.5, 1.5)}, inference=Inference(fit, statements=drawn)
    )
    agreed = statement == "slope on x > 0"
    found = answer_question(words, question, shipped_tables(), result, None)
    assert (found.verdict, found.reason) == (SUPPORTED, Reason.NONE)
    assert found.plain.startswith(f"{SUPPORTED.sentence}. The fitted model gives P({statement})")
    assert ("agrees" in found.plain) == agreed
    assert "P(" not in found.criterion.words
    assert found.posterior.conclusion.rule.startswith("Supported where P(")
    assert (found.convergence.rhat_max, found.convergence.divergences) == (
        None,
        None,
    ) and found.convergence.ess_min >= 400


def test_what_is_left_for_later_is_made_where_it_is_drawn_or_decides(
    fit: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = {"one": {"estimand": "slope", "plain": "{{ verdict.sentence }}.", "model": "y on x."}}
    words, rule, drawn = (
        Template(Path("u01.md"), "U01", "t", {}, lines),
        Posterior("slope on x > 0"),
        list[int](),
    )

    def later() -> Fit:
        drawn.append(1)
        return fit

    result = Result(quantities={"slope": Estimate(1.0, 0.5, 1.5)}, inference=Inference(later=later))
    shown = Question("U01.one", "one", None, Result, primary=Above("slope", 0), robustness=rule)
    found = answer_question(words, shown, shipped_tables(), result, None)
    assert (
        not drawn and found.plain == f"{SUPPORTED.sentence}." and found.convergence.ess_min is None
    )
    assert found.posterior == Undrawn(
        model="y on x.",
        rule="Supported where P(slope on x > 0) is at least 0.95, "
        "not supported where it is at most 0.05, else inconclusive.",
        statement="P(slope on x > 0)",
    )
    assert "P(slope on x > 0) is not drawn: thermostats report U01 --draw" in format_finding(found)
    decides = Question("U01.one", "one", None, Result, primary=rule)
    assert answer_question(
        words, decides, shipped_tables(), result, None
    ).verdict == SUPPORTED and drawn == [1]
    monkeypatch.setenv(DRAW_VARIABLE, "1")
    again = answer_question(words, shown, shipped_tables(), result, None)
    assert (
        drawn == [1, 1]
        and isinstance(again.posterior, FittedModel)
        and again.verdict == found.verdict
    )


def test_error_of_a_probability(fit: Fit) -> None:
    """The bound by the smallest effective sample is not below the error of the draws themselves."""
    middle = float(np.median(fit.quantities["mean"]))
    exact = record_posterior(
        Result(inference=Inference(fit)),
        Posterior("mean above its median", draws=V("mean") > middle),
        "y on x.",
    )
    assert (
        exact.conclusion.probability == pytest.approx(0.5, abs=1e-3)
        and exact.conclusion.verdict == OPEN
        and exact.conclusion.classical == ""
    )
    assert exact.conclusion.error == pytest.approx(
        0.5 / np.sqrt(fit.quantities["mean"].size), rel=1.0
    )

"""Every check of every finding is of the statement that its rule asks, and "as fitted" is the headline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from altered import ROOT, analysis, by_rules_alone, shipped

from thermostats.claims.fits import posterior_of
from thermostats.claims.result import TooFew
from thermostats.claims.rule import Posterior
from thermostats.modelling.inference.calibration import Simulator
from thermostats.modelling.inference.draws import Settings
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.inference.parts import Part
from thermostats.modelling.inference.sampling import exact_draws
from thermostats.modelling.inference.statements import AS_FITTED

pytestmark = pytest.mark.slow
CLAIMS = [path.name[:3] for path in sorted((ROOT / "analyses").glob("[cn][0-9]*.py"))]
OF_DRAWS_ALONE = {"N01.carry_over", "N02.effect", "N02.sign"}
"""Findings whose statement is of the fit's own draws, which no refit can answer and a stand-in has not."""
SHAPE = (4, 25)


class Drawn(dict[str, np.ndarray]):
    """A quantity for every name, another one each, chain × draw."""

    def __missing__(self, key: str) -> np.ndarray:
        return np.random.default_rng(list(key.encode())).normal(size=SHAPE)

    def __contains__(self, key: object) -> bool:
        return True


def stand_in(statement: str) -> Fitted:
    """A fit without a model, with one alternative and one unit to leave out."""
    settings = Settings(chains=SHAPE[0], draws=SHAPE[1])
    draws = exact_draws({"x": np.arange(100.0)}, seed=1, settings=settings, start=0.0)
    made = np.random.default_rng(1).normal(size=(100, 5))
    part = Part(
        draws=draws,
        observed=made[0],
        statistics={"mean": np.mean},
        prior=lambda seed: made,
        replicate=lambda seed: made,
        density=lambda: made,
        log_prior=lambda: np.zeros(SHAPE),
        simulator=Simulator(joint=lambda seed, size: ({}, made), posterior=lambda y, seed: None),
    )
    refit = [("another", Drawn())]
    return Fitted(
        family="none",
        estimand="none",
        sources=(),
        n_models=1,
        n_heritages=1,
        parts={"part": part},
        quantities={"x": draws["x"]},
        more=Drawn(),
        statements={statement: lambda q: q[statement] > 0},
        probabilities={},
        tables={},
        warnings=(),
        figure=lambda fit, axes: axes,
        seed=1,
        alternatives=lambda seed: refit,
        left_out=lambda seed: refit,
    )


@pytest.mark.parametrize("claim", CLAIMS)
def test_every_check_is_of_the_statement_that_the_rule_asks(claim: str) -> None:
    rules = {q.id: q.robustness for q in analysis(claim).CLAIM.questions if isinstance(q.robustness, Posterior)}
    if not rules:
        pytest.skip("no posterior")
    module = by_rules_alone(claim)
    for question in (q for q in module.CLAIM.questions if q.id in rules and q.id not in OF_DRAWS_ALONE):
        rule, evidence = rules[question.id], shipped().named(question.evidence)
        try:
            result = question.answer(evidence) if question.over is None else question.answer(evidence, question.over)
        except TooFew:
            continue
        if result.fit is None or (rule.pick and rule.pick.table not in result.rows):
            continue
        asked = rule.stated(result)
        result = replace(result, fit=stand_in(asked), fit_tables=())
        shown = posterior_of(result, rule, "A model.")
        checks = {check.name: check.table for check in shown.gate.checks}
        others, units = checks["prior sensitivity"], checks["influence"]
        for table in (shown.sensitivity, others, units):
            assert table is not None and set(table["statement"]) == {asked}, question.id
            assert table["probability"].iloc[0] == shown.probability, question.id
        assert others["alternative"].iloc[0] == AS_FITTED and shown.statement == f"P({asked})"
        assert "another" in set(others["alternative"]) & set(units["left_out"]), question.id

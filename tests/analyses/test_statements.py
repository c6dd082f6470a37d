"""Every check of every finding is of the statement that its rule asks, and "as fitted" is the
headline."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from altered import ROOT, analysis, by_rules_alone, shipped

from thermostats.claims.finding import record_posterior
from thermostats.claims.result import Inference, TooFew
from thermostats.claims.rule import Posterior
from thermostats.claims.study import list_scripts
from thermostats.modelling.checks import AS_FITTED
from thermostats.modelling.draws import Array, Settings, evaluate_statement
from thermostats.modelling.fit import Design, Fit, Law, build_fit
from thermostats.modelling.gaussian import Gaussian, HalfNormals

pytestmark = pytest.mark.slow
CLAIMS = [claim.lower() for claim in list_scripts(ROOT / "analyses")]
SHAPE = (4, 250)
"""Draws enough for the weights of the exact engine to be trusted."""


class Read(dict[str, Array]):
    """A quantity for every name that is read, another one each, chain × draw."""

    def __missing__(self, key: str) -> Array:
        self[key] = np.random.default_rng(list(key.encode())).normal(size=SHAPE)
        return self[key]


def design(rows: pd.DataFrame) -> Design:
    n = len(rows)
    model = Gaussian(
        y=rows["y"].to_numpy(),
        X=np.ones((n, 1)),
        sd=np.ones(1),
        blocks={},
        prior=HalfNormals((1.0,)),
        error=np.zeros(n),
    )
    return Design(model=model)


def above_0(name: str, quantities: Mapping[str, Array]) -> Array:
    return quantities[name] > 0


def stand_in(statements: Collection[str], quantities: Mapping[str, Array] | None = None) -> Fit:
    """A fit of five numbers that has these quantities and statements, with one alternative."""
    rows = pd.DataFrame(
        {"y": [0.1, -0.2, 0.4, 0.0, 0.3], "model_id": list("abcde"), "heritage": list("xxyyz")}
    )
    law = Law(
        name="none",
        of=design,
        quantities=lambda values, design: {"x": values["beta"][..., 0], **(quantities or {})},
        reported=("x",),
        statements={name: partial(above_0, name) for name in statements},
    )
    return build_fit(
        replace(law, alternatives={"another": law}), rows, settings=Settings(draws=SHAPE[1])
    )


@pytest.mark.parametrize("claim", CLAIMS)
def test_every_check_is_of_the_statement_that_the_rule_asks(claim: str) -> None:
    rules = {
        q.id: q.robustness
        for q in analysis(claim).CLAIM.questions
        if isinstance(q.robustness, Posterior)
    }
    if not rules:
        pytest.skip("no posterior")
    module = by_rules_alone(claim)
    for question in (q for q in module.CLAIM.questions if q.id in rules):
        rule, evidence = rules[question.id], shipped().named(question.scope.evidence)
        try:
            result = (
                question.answer(evidence)
                if question.over is None
                else question.answer(evidence, question.over)
            )
        except TooFew:
            continue
        inference = result.inference
        if inference.fit is None and inference.later is None:
            continue
        asked = rule.statement
        names, read = {asked, *result.inference.statements}, Read()
        for statement in rule.list_statements(
            replace(result, inference=Inference(stand_in(names)))
        ).values():
            evaluate_statement(statement, read)
        result = replace(result, inference=Inference(stand_in(names, read)))
        shown = record_posterior(result, rule, "A model.")
        checks = {check.name: check.table for check in shown.gate.checks}
        others, units = checks["prior sensitivity"], checks["influence"]
        for table in (shown.sensitivity, others, units):
            assert table is not None and set(table["statement"]) == {asked}, question.id
            assert table["probability"].iloc[0] == shown.conclusion.probability, question.id
        assert (
            others["alternative"].iloc[0] == AS_FITTED
            and shown.conclusion.statement == f"P({asked})"
        )
        assert "another" in set(others["alternative"]) and "a" in set(units["left_out"]), (
            question.id
        )

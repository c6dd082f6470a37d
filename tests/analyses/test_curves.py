"""Every declared curve holds the universe of its own finding, and every option of every choice can
be applied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from altered import analysis, shipped

from thermostats.claims.question import build_curve
from thermostats.modelling.specification import build_universes
from thermostats.studies.delia2026.curves import READ

OPTIONS = {
    "c01": {},
    "c02": {"gain": "largest block"},
    "c03": {},
    "c04": {"models": "labs of two or more", "shape | size": "L/d, ρ | weights"},
    "c10": {},
    "c12": {"gain and models": "last gain, base and tuned"},
}
"""Options of the finding's own universe that are not the first of their choice."""


@pytest.mark.parametrize("name", OPTIONS)
def test_the_findings_own_universe_is_one_of_them(name: str) -> None:
    (question,) = (question for question in analysis(name).CLAIM.questions if question.curve)
    evidence = shipped().named(question.scope.evidence)
    rows = question.curve.rows(evidence)
    chosen = {
        choice: OPTIONS[name].get(choice, next(iter(options)))
        for choice, options in question.curve.choices.items()
    }
    only = {
        choice: {label: question.curve.choices[choice][label]} for choice, label in chosen.items()
    }
    curve = replace(question.curve, rows=lambda _: rows, choices=only)
    made = build_curve(curve, question.primary, question.trial.test, evidence)
    result = question.trial.test(question.trial.read_rows(evidence, question.over))
    (row,) = made.table.to_dict("records")
    assert row["n_models"] == result.n_models
    assert row["verdict"] == question.primary.verdict(result)
    headline = result.rows["steps"]["ratio"].min() if name == "c12" else result.headline.value
    assert row["estimate"] == pytest.approx(
        np.log(headline) if name == "c12" else headline, rel=1e-6
    )
    for choice, options in question.curve.choices.items():
        for labels, universe in build_universes(rows, {**only, choice: options}):
            assert len(universe) > 3 or not READ.keys().isdisjoint(labels), labels
            assert np.isfinite(universe["outcome"]).all()

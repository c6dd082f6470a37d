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
    "C01": {},
    "C02.bound.max_gain": {"gain": "largest block"},
    "C02.family_exponent": {},
    "C03": {},
    "C04": {"models": "labs of two or more", "shape | size": "L/d, ρ | weights"},
    "C10": {},
    "C12": {"gain and models": "last gain, base and tuned"},
}
"""Options of the finding's own universe that are not the first of their choice, by claim or, of a
claim with several curves, by finding."""


@pytest.mark.parametrize("claim", sorted({name.partition(".")[0].lower() for name in OPTIONS}))
def test_every_curve_of_a_claim_is_tried(claim: str) -> None:
    curved = [question.id for question in analysis(claim).CLAIM.questions if question.curve]
    tried = [name for name in OPTIONS if name.lower().startswith(claim)]
    assert len(curved) == len(tried)
    assert all(any(each.startswith(name) for name in tried) for each in curved)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_findings_own_universe_is_one_of_them(name: str) -> None:
    claim = name.partition(".")[0].lower()
    curved = [question for question in analysis(claim).CLAIM.questions if question.curve]
    (question,) = (each for each in curved if each.id.startswith(name))
    evidence = shipped().named(question.scope.evidence)
    rows = question.curve.rows(evidence)
    chosen = {
        choice: OPTIONS[name].get(choice, next(iter(options)))
        for choice, options in question.curve.choices.items()
    }
    only = {
        choice: {label: question.curve.choices[choice][label]} for choice, label in chosen.items()
    }
    curve = replace(question.curve, choices=only)
    made = build_curve(curve, question.primary, question.trial.test, rows)
    result = question.trial.test(question.trial.read_rows(evidence, question.over))
    (row,) = made.table.to_dict("records")
    assert row["n_models"] == result.n_models
    assert row["verdict"] == question.primary.verdict(result)
    headline = result.rows["steps"]["ratio"].min() if name == "C12" else result.headline.value
    assert row["estimate"] == pytest.approx(
        np.log(headline) if name == "C12" else headline, rel=1e-6
    )
    for choice, options in question.curve.choices.items():
        for labels, universe in build_universes(rows, {**only, choice: options}):
            assert len(universe) > 3 or not READ.keys().isdisjoint(labels), labels
            assert np.isfinite(universe["outcome"]).all()

"""Every level that comes from an interval is p of the test that made the interval."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from thermostats.claims import condition
from thermostats.claims.evidence import Evidence
from thermostats.claims.levels import SIDES
from thermostats.claims.question import Question
from thermostats.claims.result import Result, TooFew
from thermostats.claims.run import load_claim
from thermostats.claims.study import list_scripts
from thermostats.errors import UsageError
from thermostats.tables.folders import find_shipped

pytestmark = pytest.mark.slow


class NoLaw:
    """In the place of the normal that an interval without a law has."""

    def measure_p(self, *_: Any, **__: Any) -> float:
        """Nothing may ask."""
        raise AssertionError("an interval without a law")


def measure(question: Question, evidence: Evidence, name: str) -> Result | None:
    """The numbers on a set; None where rows are too few."""
    assert question.trial is not None
    try:
        rows = question.trial.read_rows(evidence.named(name), question.over)
        if question.views and name != question.scope.evidence:
            rows = question.views.check_rows(rows)
        return question.trial.test(rows)
    except (TooFew, UsageError):
        return None


def test_no_rule_reads_an_interval_without_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condition, "NORMAL", NoLaw())
    data = find_shipped("data")
    evidence = Evidence(data)
    measured = Counter[bool]()
    for script in list_scripts(data.parent / "analyses").values():
        for question in load_claim(script).questions:
            if question.trial is None or question.primary is None:
                continue
            views = question.views.sets if question.views else ()
            for name in (question.scope.evidence, *views):
                if (result := measure(question, evidence, name)) is None:
                    continue
                levels = [float(question.primary.level(result, side)) for side in SIDES]
                assert all(0 <= level <= 1 for level in levels), (question.id, name)
                measured[bool(name != question.scope.evidence)] += 1
    assert measured[False] > 80 and measured[True] > 80

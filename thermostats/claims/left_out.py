"""Whether a decisive verdict hangs on one unit or on one source of rows: without it the verdict would not be near."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.question import Question
from thermostats.claims.result import Result, TooFew
from thermostats.claims.rule import AtLeast, Decide, Rule
from thermostats.claims.trial import Trial
from thermostats.claims.verdict import AGAINST, SUPPORTED, UNMEASURED, Verdict
from thermostats.errors import UsageError

MANY = 200
"""Units above which none is left out."""


def hangs_on(rule: Rule, trial: Trial, rows: pd.DataFrame, verdict: Verdict) -> str:
    """The unit without which a decisive verdict would not be near; empty where there is none.

    Of more than `MANY` units none carries a verdict. Near: the estimate on the same side, p at most 0.20, a posterior
    probability of at least 0.80 (or at most 0.20). A unit without which the test cannot be made is passed over.
    """
    if not trial.unit or not 1 < len(units := rows[trial.unit].drop_duplicates()) <= MANY:
        return ""

    def rest(unit: Any) -> Result:
        return trial.test(rows[rows[trial.unit] != unit].reset_index(drop=True))

    return _falls_without(rule, verdict, units, rest)


def hangs_on_source(
    question: Question, evidence: Evidence, rows: pd.DataFrame, verdict: Verdict, least: AtLeast | None
) -> str:
    """The source of rows without which a decisive verdict would not be near; empty where there is none.

    The rows are chosen anew without each source of the set in turn, so that a model which others measured too stays.
    Near: as for `hangs_on`. A source without which the rows are fewer than `least`, or the test cannot be made, is
    passed over, as nothing is known of it; and a set of one source has none to leave out. Where one counterexample
    decides (`Trial.unit` is empty), a verdict against the statement stands: leaving its source out takes nothing back.
    """
    primary, trial = question.on_trial()
    if verdict == AGAINST and not trial.unit:
        return ""
    sources = evidence.sources(set(rows["model_id"])) if "model_id" in rows else []
    if len(sources) < 2:
        return ""

    def rest(source: str) -> Result:
        others = trial.of(evidence.without(source), question.over)
        if least is not None and not least.rows:
            least.of(others)
        result = trial.test(others)
        if least is not None and least.rows and least.verdict(result) == UNMEASURED:
            raise TooFew(result)
        return result

    return _falls_without(primary, verdict, sources, rest)


def _falls_without(rule: Rule, verdict: Verdict, parts: Iterable[Any], rest: Callable[[Any], Result]) -> str:
    """The first part without which a decisive verdict would not be near; `rest`: the result without a part."""
    if verdict not in {SUPPORTED, AGAINST}:
        return ""
    nearly = rule.nearly()
    for part in parts:
        try:
            result = rest(part)
        except (UsageError, TooFew):  # the rest does not carry the test: nothing is known of the part
            continue
        if not _holds(nearly, verdict, result):
            return str(part)
    return ""


def _holds(nearly: Rule, verdict: Verdict, rest: Result) -> bool:
    """Whether a result meets a loosened rule's condition of a verdict; it may meet that of the other as well."""
    if not isinstance(nearly, Decide):
        return nearly.verdict(rest) == verdict
    return (nearly.supported if verdict == SUPPORTED else nearly.against).holds(rest)

"""A finding's question put to another set of evidence: the same test on its rows, the same rule, no further fit."""

from __future__ import annotations

from dataclasses import replace

from thermostats.claims.evidence import SETS, Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.judge import Question, standing
from thermostats.claims.operating import Known, hangs_on, nearest
from thermostats.claims.result import Result, TooFew
from thermostats.claims.verdict import UNMEASURED
from thermostats.errors import DataError, UsageError
from thermostats.tables.vocabulary import NURSERY
from thermostats.words import plural

ABOUT = 1.25
"""Designs that differ by less than this factor count as of one size."""


def viewed(question: Question, own: Finding, evidence: Evidence) -> Finding:
    """The finding of one question on a named set of evidence; `own`: on the set that it was asked of first.

    Rows that are too few, or that do not carry the test, need measurement; `settles` says what it takes. Raises
    DataError for a question without a trial.
    """
    trial, primary, needs = question.trial, question.primary, question.views
    if trial is None or primary is None or needs is None:
        raise DataError("a question without a trial has one set of evidence", where=question.id)
    group = "recipe" if evidence.name == NURSERY else question.group
    found = replace(
        own,
        view=True,
        evidence=evidence.name,
        group=group,
        **dict.fromkeys(("estimate", "lower", "upper", "probability", "rhat_max", "ess_min", "divergences"), None),
        **dict.fromkeys(("table", "draw", "posterior", "operating", "worlds"), None),
        **dict.fromkeys(("interval", "probability_kind", "caption", "could"), ""),
        published={},
        reproduced={},
        notes=(),
    )
    there = Result()
    try:
        rows = needs.of(trial.of(evidence, question.over))
        there = Result(n_models=rows["model_id"].nunique(), n_groups=rows["heritage"].nunique())
        there = result = trial.test(rows)
    except TooFew as few:
        known = Known(nearest(question, needs.models)[0], larger=trial.larger)
        takes = f"It {needs.words()}; {known.takes(group)}".rstrip("; ")
        return _counted(found, few.result, verdict=UNMEASURED, reason="", settles=takes.rstrip(".") + ".")
    except UsageError as error:
        return _counted(found, there, verdict=UNMEASURED, reason="", settles=f"The test cannot be made: {error.what}.")
    said, (tried, size) = primary.verdict(result), nearest(question, len(rows))
    design = "this design" if size == len(rows) else f"a design of {plural(size, trial.larger)}, the nearest in size"
    unit = hangs_on(primary, trial, rows, said)
    known = Known(tried, unit, trial.larger, design, smaller=size < len(rows) / ABOUT)
    verdict, reason = standing(primary, result, known, said)
    head = result.headline
    return _counted(
        found,
        result,
        verdict=verdict,
        reason=reason,
        settles=known.sentence(said, group),
        could=known.could(),
        worlds=len(known.rates),
        operating=known.rates if len(known.rates) else None,
        estimate=head.value,
        lower=head.lower,
        upper=head.upper,
        interval=head.interval,
        probability=head.p,
        probability_kind=head.p_kind if head.p is not None else "",
    )


def _counted(found: Finding, result: Result, **more: object) -> Finding:
    """The finding with a result's counts."""
    plain = f"The same question, asked of {SETS[found.evidence]}."
    return replace(found, n_models=result.n_models, n_heritages=result.n_groups, plain=plain, **more)  # type: ignore[arg-type]

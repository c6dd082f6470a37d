"""From a question to a finding: the attained level of each side against α*, and the words with the
numbers put in.

One way for the set of evidence that a question was asked of first and for all others: the same test
on the set's rows, the same rule, the same limits. Only the words differ: those of the claim, or
that it is the same question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from thermostats.claims.calibration import FAIR, Calibration, calibrate_rows, find_nearest
from thermostats.claims.evidence import READS, SETS, Evidence, describe_coincidence, find_lacking
from thermostats.claims.finding import (
    Convergence,
    Criterion,
    Drawing,
    Finding,
    FittedModel,
    Sample,
    Screen,
    Strength,
    Undrawn,
    record_posterior,
    record_undrawn,
    summarise_convergence,
)
from thermostats.claims.levels import (
    LARGER,
    MANY,
    PLAUSIBLE,
    SIDES,
    TOLERANCE,
    WITHOUT,
    Attained,
    measure_attained,
)
from thermostats.claims.planning.shipped_advice import advise
from thermostats.claims.question import Question, describe_missing_models, describe_noise
from thermostats.claims.result import (
    AGAINST,
    OPEN,
    SUPPORTED,
    UNMEASURED,
    Estimate,
    Reason,
    Result,
    TooFew,
    Verdict,
    combine_verdicts,
    drop_laws,
)
from thermostats.claims.rule import ALPHA, NEAR, AtLeast, Decide, Given, Posterior, Rule
from thermostats.claims.template import Template
from thermostats.errors import DataError, UsageError
from thermostats.formatting import format_count, format_declared, join_words
from thermostats.modelling.draws import PASSED
from thermostats.modelling.planned import WANTED
from thermostats.settings import is_calibrating, is_drawing
from thermostats.tables.choices import OWN_ROWS, POOLED, PUBLISHED
from thermostats.tables.schemas import NURSERY

EXACT = (
    "The rule compares a computed number with a bar. It has no error rate, so it was not tried in "
    "simulated worlds."
)
AT_WILL = (
    "As a cause, nothing: it can be set at will while the outputs stay. As a prediction it takes "
    "models that are more, "
    "or less alike, and no number of them is named."
)
OWN = (PUBLISHED, NURSERY)
"""Sets that are a study's own files."""
NAMED = 12
"""Models up to which a set is listed."""


NOTHING = Attained(1.0)
"""Of no side."""


@dataclass(frozen=True)
class Weighed:
    """What the rows of one set of evidence say by a question's rule."""

    verdict: Verdict
    reason: Reason = Reason.NONE
    strength: Strength = field(default_factory=Strength)
    calibration: Calibration = field(default_factory=lambda: Calibration(pd.DataFrame()))
    attained: Attained = NOTHING
    """Of the side that is given, or leant to, with the unit without which its level is largest."""
    row: Attained = NOTHING
    """The same with the model without which the verdict would not stand; without a unit where there
    is none."""


def answer_question(
    words: Template,
    question: Question,
    evidence: Evidence,
    result: Result,
    rows: pd.DataFrame | None,
) -> Finding:
    """The finding of a question's own answer on the set that it is asked of first; `rows`: those of
    its trial.

    Raises DataError where rule, words and result do not fit one another.
    """
    if question.scope.needs is not None and question.scope.needs.verdict(result) == UNMEASURED:
        return report_unmeasured(words, question, result)
    if is_drawing() or isinstance(question.primary, Posterior):
        result = result.adding(inference=result.inference.drawn())
    weighed = weigh(question, evidence, result, rows)
    fitted = _record_fit(words, question, result)
    if (
        isinstance(fitted, FittedModel)
        and isinstance(question.primary, Posterior)
        and not fitted.gate.passes
    ):
        fit = result.inference.fit
        reason = Reason.NO_MODEL if fit is None or fit.status == PASSED else Reason.SAMPLER
        weighed = replace(weighed, verdict=OPEN, reason=reason, strength=Strength())
    finding = _build_finding(words, question, result, weighed, fitted)
    there = rows is not None and "model_id" in rows
    coincide = (
        describe_coincidence(evidence, set(rows["model_id"])) if there and rows is not None else ""
    )
    return replace(finding, sample=replace(finding.sample, coincidence=coincide))


def repeat_question(
    question: Question,
    evidence: Evidence,
    first: Finding | None = None,
    measures: Sequence[str] = (),
) -> Finding:
    """The finding of the same question on another set of evidence; `first`: on the set that it was
    asked of first.

    measures: what the claim reads of a model; with it, notes say which of the user's models are
    left out, and why. Rows that are too few, or that do not carry the test, need measurement;
    `settles` says what it takes.
    Raises DataError for a question without a trial.
    """
    trial = question.require_trial()[1]
    needs = question.views
    if needs is None:
        raise DataError("a question without views has only one set of evidence", where=question.id)
    group = "recipe" if evidence.name == NURSERY else question.scope.group
    finding = _prepare_finding(question, evidence, first, group)
    used: set[str] = set()
    there = Result()

    def missing() -> tuple[str, ...]:
        return tuple(describe_missing_models(finding.claim, measures, used, evidence))

    try:
        rows = trial.read_rows(evidence, question.over)
        used = set(rows["model_id"])
        rows = needs.check_rows(rows)
        there = Result(n_models=rows["model_id"].nunique(), n_groups=rows["heritage"].nunique())
        result = trial.test(rows)
        if evidence.name == OWN_ROWS:
            _require_rows(question, result)
    except TooFew as few:
        calibration = find_nearest(question, needs.models)
        without = find_lacking(evidence, needs.reads or [READS[kind] for kind in measures])
        lacks = f"The set {evidence.name} has no values of {join_words(without)}. " * bool(without)
        takes = f"{lacks}It {needs.words()}."
        larger = calibration.takes(trial.larger, needs.models)
        takes += f" {larger}." * bool(larger and first is None)
        takes = f"{takes} {planned(question)}".strip()
        noted = replace(finding, notes=missing())
        return _update_finding(noted, few.result, settles=takes)
    except UsageError as error:
        noted = replace(finding, notes=missing())
        settles = f"The test cannot be made: {error.what}."
        return _update_finding(noted, there, settles=settles)
    weighed = weigh(question, evidence, result, rows, needs)
    sample = replace(finding.sample, coincidence=describe_coincidence(evidence, used))
    noise = describe_noise(question, used, evidence) if needs.groups > 1 else ()
    plain = f"{finding.plain[:-1]}{_list_names(rows)}."
    notes = (*missing(), *noise, *describe_row(weighed))
    made = replace(
        finding,
        verdict=weighed.verdict,
        reason=weighed.reason,
        strength=weighed.strength,
        plain=plain,
        sample=sample,
        notes=notes,
        posterior=_fit_view(question, evidence, result, first),
    )
    return _update_finding(made, result, **_describe_weighed(question, weighed))


def _fit_view(
    question: Question, evidence: Evidence, result: Result, first: Finding | None
) -> FittedModel | Undrawn | None:
    """The posterior on all evidence of a question that has one on its own set, without figures and
    tables, undrawn where that one is; None on other sets, and where its views have no fit."""
    views = question.views
    rule = question.robustness
    own = first.posterior if first is not None else None
    if evidence.name != POOLED or own is None:
        return None
    if views is None or views.fit is None or not isinstance(rule, Posterior):
        return None
    over = () if question.over is None else (question.over,)
    inference = views.fit(evidence, *over)
    result = result.adding(inference=inference.drawn() if is_drawing() else inference)
    if result.inference.later is not None:
        return record_undrawn(result, rule, own.model)
    if result.inference.fit is None:
        return None
    fitted = record_posterior(result, rule, own.model, question.primary)
    return replace(fitted, tables={}, panels=())


def _require_rows(question: Question, result: Result) -> None:
    """Raise TooFew where a result has fewer rows than the question needs on its first set."""
    least = question.scope.needs
    if least is not None and least.rows and least.verdict(result) == UNMEASURED:
        raise TooFew(result)


def weigh(
    question: Question,
    evidence: Evidence,
    result: Result,
    rows: pd.DataFrame | None,
    least: AtLeast | None = None,
) -> Weighed:
    """The verdict of a result: a side is given where its attained level is at most 5% and below α*.

    Of two sides that hold the one with the smaller level over α* stands. It must not hang on one
    unit or source: without it the level may be four times as large. A level within the error of α*,
    or within 5% of what it may be without a unit, is at the limit, and the verdict open.
    """
    primary = question.primary
    if primary is None:
        raise DataError(
            "a verdict over findings cannot have a result of its own", where=question.id
        )
    calibration = choose_calibration(question, rows)
    levels = {side: measure_attained(primary, question.trial, rows, result, side) for side in SIDES}
    near = [side for side in SIDES if calibration.side(side).is_near(levels[side].level)]
    given = []
    for side in SIDES:
        if calibration.side(side).gives(levels[side].level) and side not in near:
            given.append(side)
    if not given and near:
        side = min(near, key=lambda side: levels[side].level)
        strength = _measure_strength(question, calibration, side, levels[side], False)
        strength = replace(strength, unless="", leans=str(side), unit="")
        return Weighed(OPEN, Reason.AT_LIMIT, strength, calibration, Attained(levels[side].level))
    if not given:
        return _open(question, result, levels, calibration)
    side = min(given, key=lambda side: levels[side].level / _find_limit(calibration, side))
    strength = _measure_strength(question, calibration, side, levels[side], len(given) > 1)
    at = levels[side]
    allowed = WITHOUT * _find_limit(calibration, side)
    undecided = replace(strength, unless="", leans=str(side), unit=at.unit)
    if at.without > allowed * (1 + TOLERANCE):
        return Weighed(OPEN, Reason.ONE_UNIT, undecided, calibration, at)
    if at.without >= allowed * (1 - TOLERANCE):
        return Weighed(OPEN, Reason.AT_LIMIT, undecided, calibration, at)
    needed = least or question.scope.needs
    source = find_decisive_source(question, evidence, rows, side, needed, allowed)
    if source.unit:
        at = replace(source, level=at.level, value=at.value)
        strength = _measure_strength(question, calibration, side, at, len(given) > 1)
        undecided = replace(strength, unless="", leans=str(side))
        return Weighed(OPEN, Reason.ONE_SOURCE, undecided, calibration, at)
    row = find_decisive_row(question, rows, result, side, allowed)
    return Weighed(side, Reason.NONE, strength, calibration, at, row)


def find_decisive_row(
    question: Question, rows: pd.DataFrame | None, result: Result, side: Verdict, allowed: float
) -> Attained:
    """The model without which the level of a side would be beyond what is allowed; no unit where
    there is none, or where models are the units or one counterexample decides."""
    if rows is None or question.trial is None or question.trial.unit in ("", "model_id"):
        return NOTHING
    if "model_id" not in rows or rows["model_id"].duplicated().any():
        return NOTHING
    primary, trial = question.require_trial()
    at = measure_attained(primary, replace(trial, unit="model_id"), rows, result, side)
    return at if at.without > allowed else NOTHING


def describe_row(weighed: Weighed) -> tuple[str, ...]:
    """That one model makes the verdict, with the numbers without it; nothing where none does."""
    row = weighed.row
    if not row.unit:
        return ()
    return (f"One model makes this verdict: without {row.unit} {_describe_without(row)}.",)


def _describe_without(at: Attained) -> str:
    """Estimate and level with and without a unit."""
    level = f"the level {_round(at.without)} in place of {_round(at.level)}"
    if at.value is None or at.value_without is None:
        return f"it would have {level}"
    values = f"{_round(at.value_without)} in place of {_round(at.value)}"
    return f"the estimate would be {values} and {level}"


def _round(number: float) -> str:
    """A number with four figures."""
    return format_declared(float(f"{number:.4g}"))


def choose_calibration(question: Question, rows: pd.DataFrame | None) -> Calibration:
    """What is known of a question's rule on some rows; simulated on them where a report is asked
    to."""
    if rows is None:
        return find_nearest(question, 0)
    return calibrate_rows(question, rows) if is_calibrating() else find_nearest(question, len(rows))


def _find_limit(calibration: Calibration, side: Verdict) -> float:
    """min(5%, α*)."""
    limit = calibration.side(side).limit()
    return ALPHA if math.isnan(limit) else min(ALPHA, limit)


def _measure_strength(
    question: Question, calibration: Calibration, side: Verdict, at: Attained, both: bool
) -> Strength:
    of_side = calibration.side(side)
    hangs = at.without > WITHOUT * at.level
    level = at.without / WITHOUT if hangs else at.level
    limit = of_side.limit()
    provisional = calibration.provisional if question.trial is not None else ""
    return Strength(
        level=level,
        limit=None if math.isnan(limit) else limit,
        p=of_side.p(level),
        full_level=at.level if hangs else None,
        unit=at.unit if hangs else "",
        unless=of_side.condition(level),
        provisional=provisional,
        both=both,
        tipping=of_side.tipping(level),
    )


def _open(
    question: Question, result: Result, levels: dict[Verdict, Attained], calibration: Calibration
) -> Weighed:
    """An open verdict: why it is open, and the side to which it leans, which is nearly met."""
    primary = question.primary
    assert primary is not None  # noqa: S101
    side = find_leaning(question, result, levels)
    shown = side or SUPPORTED
    strength = _measure_strength(question, calibration, shown, levels[shown], False)
    strength = replace(strength, unless="", leans=str(side or ""))
    if isinstance(primary, Decide) and primary.divided.holds(result):
        return Weighed(OPEN, Reason.CODING, strength, calibration)
    of_side = calibration.side(shown)
    short = isinstance(primary, Given) and primary.short(result)
    is_weak = calibration.tried and not of_side.power >= FAIR
    too_little = short or of_side.limit() == 0 or is_weak
    return Weighed(
        OPEN, Reason.TOO_LITTLE if too_little else Reason.UNDECIDED, strength, calibration
    )


def find_leaning(
    question: Question, result: Result, levels: dict[Verdict, Attained]
) -> Verdict | None:
    """The side that is nearly met at a level of at most `NEAR`, of two the one with the smaller
    level; None where neither is."""
    assert question.primary is not None  # noqa: S101
    nearly = question.primary.nearly()
    if isinstance(nearly, Posterior):
        verdict = nearly.verdict(result)
        return verdict if verdict in SIDES else None
    near = []
    for side in SIDES:
        if nearly.side(side).holds(result) and levels[side].level <= NEAR:
            near.append(side)
    return min(near, key=lambda side: levels[side].level) if near else None


def find_decisive_source(
    question: Question,
    evidence: Evidence,
    rows: pd.DataFrame | None,
    side: Verdict,
    least: AtLeast | None,
    near: float,
) -> Attained:
    """The source of rows without which the level of a side would be beyond `near`; no unit where
    there is none.

    The rows are chosen anew without each source of the set in turn, so that a model which others
    measured too stays. A source without which the rows are fewer than `least`, or the test cannot
    be made, is passed over, as nothing is known of it. Where one counterexample decides
    (`Trial.unit` is empty), a verdict against the statement stands.
    """
    if question.trial is None or rows is None or "model_id" not in rows:
        return NOTHING
    primary, trial = question.require_trial()
    if side == AGAINST and not trial.unit:
        return NOTHING
    sources = evidence.sources(set(rows["model_id"]))
    for source in sources if 1 < len(sources) <= MANY else ():
        try:
            others = trial.read_rows(evidence.exclude_source(source), question.over)
            if least is not None and not least.rows:
                least.check_rows(others)
            result = trial.test(others)
        except (UsageError, TooFew):
            continue
        if least is not None and least.rows and least.verdict(result) == UNMEASURED:
            continue
        level = float(primary.level(result, side))
        if level > near:
            value = result.headline.value
            return replace(NOTHING, without=level, unit=source, value_without=value)
    return NOTHING


def report_unmeasured(words: Template, question: Question, result: Result) -> Finding:
    """The finding that needs measurement."""
    return _build_finding(words, question, result, Weighed(UNMEASURED))


def combine_parts(
    words: Template, question: Question, parts: Sequence[Finding], result: Result
) -> Finding:
    """The verdict over findings: one part against it decides, support needs every part.

    Parts were simulated alone, so one of k speaks against the whole where its level is at most
    α*/k.
    """
    weighed = _weigh_parts(parts)
    finding = _build_finding(words, question, result, weighed)
    named = "; ".join(part.estimand for part in parts)
    rule = (
        f"supported if all of these are supported, not supported if any of them is not supported: "
        f"{named}"
    )
    return replace(finding, criterion=replace(finding.criterion, words=rule, parts=question.parts))


def _weigh_parts(parts: Sequence[Finding]) -> Weighed:
    counted = [_weigh_part(part, len(parts)) for part in parts]
    verdict = combine_verdicts(counted)
    verdicts = {part.verdict for part in parts}
    few = Reason.TOO_LITTLE if UNMEASURED in verdicts else Reason.UNDECIDED
    never = (Reason(part.reason) for part in parts if part.reason == Reason.CODING)
    reason = Reason.NONE if verdict != OPEN else next(never, few)
    leans = str(AGAINST) * (verdict == OPEN and AGAINST in verdicts)
    weakest = max((part for part in parts), key=lambda part: part.strength.level or 0.0)
    unless = weakest.strength.unless * (verdict == SUPPORTED)
    provisional = next(filter(None, (part.strength.provisional for part in parts)), "")
    return Weighed(verdict, reason, Strength(leans=leans, unless=unless, provisional=provisional))


def decide_parts(id_: str, estimand: str, parts: Sequence[Finding]) -> Finding:
    """The verdict over findings alone, with no words; the counts are those of the first part."""
    first = parts[0].sample
    weighed = _weigh_parts(parts)
    sample = Sample("", "", first.n_models, first.n_groups, first.group)
    made = Finding(id_, estimand, weighed.verdict, "", weighed.reason, sample=sample)
    return replace(
        made, strength=weighed.strength, criterion=Criterion(parts=tuple(part.id for part in parts))
    )


def repeat_parts(id_: str, estimand: str, parts: Sequence[Finding], evidence: Evidence) -> Finding:
    """The verdict over findings on another set of evidence, that of the parts."""
    made = decide_parts(id_, estimand, parts)
    view_of = parts[0].sample.view_of or evidence.name
    sample = replace(made.sample, evidence=evidence.name, view_of=view_of)
    return replace(made, plain=f"The same question for {SETS[evidence.name]}.", sample=sample)


def pick_own_verdict(findings: Sequence[Finding]) -> Finding | None:
    """A claim's first question on the user's rows alone; None where it is not put to them."""
    for finding in findings:
        if finding.id == findings[0].id and finding.sample.evidence == OWN_ROWS:
            return finding
    return None


def pick_verdicts(findings: Sequence[Finding]) -> tuple[Finding | None, Finding | None]:
    """A claim's first question on the study's own files and on all evidence; None where it is not
    put to that set.

    A verdict over findings is on all evidence the one over these there, where all of them are asked
    of it.
    """
    if not findings:
        return None, None
    first = findings[0]
    by_set = {}
    for f in reversed(findings):
        if f.id == first.id:
            by_set[f.sample.evidence] = f
    if ids := first.criterion.parts:
        pooled = {}
        for f in findings:
            if f.sample.evidence == POOLED:
                pooled[f.id] = f
        parts = [pooled[id_] for id_ in ids if id_ in pooled]
        is_whole = len(parts) == len(ids)
        return first, decide_parts(first.id, first.estimand, parts) if is_whole else None
    own = next((by_set[name] for name in OWN if name in by_set), None)
    return own, by_set.get(POOLED)


def decide_by_rule(question: Question, evidence: Evidence) -> Finding | None:
    """The finding of a question with a trial by its rule alone: verdict, estimate and counts, as
    `answer_question` has them.

    None where the answer alone can count: every row is a group of its own, such as a recipe, or
    there are too few for what the question needs. Raises DataError for a question without a
    trial.
    """
    _, trial = question.require_trial()
    sample = Sample(question.scope.evidence, group=question.scope.group)
    finding = Finding(question.id, question.name, UNMEASURED, "", sample=sample)
    try:
        rows = trial.read_rows(evidence, question.over)
        result = trial.test(rows)
    except TooFew as few:
        return _update_finding(finding, few.result)
    except UsageError:  # the answer says why, or what it needs
        return None
    needs = question.scope.needs
    if result.n_models <= result.n_groups or (needs and needs.verdict(result) == UNMEASURED):
        return None
    weighed = weigh(question, evidence, result, rows)
    judged = replace(
        finding, verdict=weighed.verdict, reason=weighed.reason, strength=weighed.strength
    )
    return _update_finding(judged, result)


def _weigh_part(part: Finding, k: int) -> Verdict:
    """The verdict of one of k parts; one against the statement counts where its level is at most
    α*/k."""
    verdict = Verdict(part.verdict)
    strength = part.strength
    if verdict != AGAINST or strength.level is None or k < 2:
        return verdict
    limit = ALPHA if strength.limit is None else min(ALPHA, strength.limit)
    return verdict if strength.level <= limit / k else OPEN


def pick_headline(result: Result) -> Estimate:
    """The number that heads a finding; an undefined p-value is none and has no kind."""
    head = replace(result.headline, law=None)
    is_number = head.p is not None and not math.isnan(head.p)
    return head if is_number else replace(head, p=None, p_kind="")


def _record_fit(
    words: Template, question: Question, result: Result
) -> FittedModel | Undrawn | None:
    """The fit that a rule on a posterior asks, with its checks; undrawn where it is left for
    later."""
    primary = question.primary
    other = question.robustness
    inference = result.inference
    asked = next((rule for rule in (primary, other) if isinstance(rule, Posterior)), None)
    if asked is None or (
        inference.fit is None and inference.later is None and asked is not primary
    ):
        return None
    model = inference.model or words.line(
        question.name, "model", _collect_values(question, result, OPEN)
    )
    if inference.later is not None:
        return record_undrawn(result, asked, model)
    return record_posterior(result, asked, model, other if asked is primary else primary)


def _describe_weighed(question: Question, weighed: Weighed) -> dict[str, Any]:
    """What a criterion says of a weighed result: what the rule could have shown, and what would
    settle it."""
    calibration = weighed.calibration
    return {
        "could": describe_power(calibration) if question.trial else "",
        "settles": describe_settling(question, weighed),
        "worlds": len(calibration.rows) if question.trial else None,
        "bounds": _describe_bounds(question) if calibration.tried else "",
        "levels": calibration.rows if calibration.tried else None,
    }


def _describe_bounds(question: Question) -> str:
    """How far nuisances of a question's worlds may go, in words; empty without worlds."""
    worlds = question.trial.worlds if question.trial is not None else None
    return worlds.describe_bounds() if worlds is not None else ""


def describe_power(calibration: Calibration) -> str:
    """What the rule could have shown, in plain words."""
    if not calibration.tried:
        return (
            "The rule has not been tried in simulated worlds of this design, so it is given at a "
            "level of 5%."
        )
    design = (
        f"a design of {format_count(calibration.size, 'row')}, the nearest in size to the "
        f"{calibration.here:,} here"
    )
    sentences = [
        f"The rule was tried on "
        f"{'this design' if calibration.size == calibration.here else design}."
    ]
    for side in SIDES:
        of_side = calibration.side(side)
        if of_side.worst is None:
            continue
        limit = of_side.limit(PLAUSIBLE)
        below = (
            "up to a level of 5%"
            if limit > ALPHA
            else f"below a level of {format_declared(float(f'{limit:.2g}'))}"
        )
        given = f"is given {below}" if limit else "is never given"
        sentences.append(f"“{side}” {given}: {of_side.error_rate}.")
        if not math.isnan(of_side.power):
            size = "the declared size" if side == SUPPORTED else "no effect"
            sentences.append(f"With {size} it comes in {of_side.power:.0%} of studies.")
    return " ".join(sentences)


def planned(question: Question) -> str:
    """Which models would settle a question, or where it is said; empty where none can."""
    if not question.growing_set or question.require_trial()[1].larger not in ("model", "pair"):
        return ""
    return advise(question)


def describe_settling(question: Question, weighed: Weighed) -> str:
    """What would settle an open verdict, in plain words; empty where nothing was simulated."""
    if weighed.reason == Reason.CODING:
        return (
            "More models of this kind settle nothing: the answer is another when columns change "
            "their block."
        )
    hangs = (Reason.ONE_UNIT, Reason.ONE_SOURCE, Reason.AT_LIMIT)
    if weighed.attained.unit and weighed.reason in hangs:
        unit = weighed.attained.unit
        if weighed.reason == Reason.ONE_SOURCE:
            unit = f"the rows of the source {unit}"
        at_limit = weighed.reason == Reason.AT_LIMIT
        stands = "be at the limit" if at_limit else "not stand"
        side = Verdict(weighed.strength.leans)
        allowed = _round(WITHOUT * _find_limit(weighed.calibration, side))
        return (
            f"Without {unit} the verdict would {stands}, so it is left open: "
            f"{_describe_without(weighed.attained)}, where at most {allowed} is allowed."
        )
    if weighed.reason == Reason.AT_LIMIT:
        side = Verdict(weighed.strength.leans)
        low, high = map(_round, weighed.calibration.side(side).limit_ends())
        level = _round(weighed.attained.level)
        return (
            f"The level {level} lies within the error of the limit, which is simulated: {low} to "
            f"{high}. So the verdict is left open."
        )
    if weighed.verdict != OPEN or question.trial is None:
        return ""
    larger = question.trial.larger
    by_power = _describe_study_size(weighed, larger) if weighed.calibration.tried else ""
    before = "" if larger else AT_WILL
    return " ".join(filter(None, [before, by_power, planned(question)]))


def _describe_study_size(weighed: Weighed, larger: str) -> str:
    """What a study of this size finds at α* of the side to which it leans, and what a larger one
    takes."""
    side = Verdict(weighed.strength.leans or SUPPORTED)
    of_side = weighed.calibration.side(side)
    effect = weighed.calibration.side(SUPPORTED)
    if of_side.worst is None:
        return f"“{side}” was tried in no case in which it is false, so it is not given."
    if of_side.limit() == 0:
        return f"Even at its smallest level “{side}” comes falsely in more than 5% of cases."
    said = []
    if side == AGAINST and not math.isnan(of_side.power):
        said = [
            f"Where there is no effect, a study of this size says so in {of_side.power:.0%} of "
            f"cases."
        ]
    if math.isnan(effect.power):
        return " ".join(said)
    takes = weighed.calibration.takes(larger) if effect.power < WANTED else ""
    if takes:
        return " ".join([*said, f"{takes}, a study of this size in {effect.power:.0%}."])
    said.append(
        f"A study of this size finds an effect of the declared size in {effect.power:.0%} of cases."
    )
    if larger and effect.power < FAIR and math.isnan(effect.wanted[0]):
        said.append(f"One {LARGER[-1]} times as large does not find it in {WANTED:.0%} of them.")
    return " ".join(said)


def _collect_values(question: Question, result: Result, verdict: Verdict) -> dict[str, Any]:
    """What the words may name: `q`, the quantities by name, and the result's own."""
    return {
        "q": result.quantities,
        "estimate": result.headline,
        "over": question.over,
        "verdict": verdict,
        "n_models": result.n_models,
        "n_groups": result.n_groups,
        "group": question.scope.group,
        **result.words,
    }


def find_wanted_bounds(rule: Rule | None, name: str) -> tuple[float | None, float | None]:
    """The numbers above and below which a quantity supports the statement; None where the rule
    names no such number."""
    decide = rule.rule if isinstance(rule, Given) else rule
    bars: list[Any] = []
    if isinstance(decide, Decide):
        bars = [bar for bar in decide.supported.bars if bar[0] == name]
    low = max((bar for _, side, bar in bars if side == ">"), default=None)
    high = min((bar for _, side, bar in bars if side == "<"), default=None)
    return (low, high) if low is None or high is None or low < high else (None, None)


def _build_finding(
    words: Template,
    question: Question,
    result: Result,
    weighed: Weighed,
    fitted: FittedModel | Undrawn | None = None,
) -> Finding:
    verdict = weighed.verdict
    values = _collect_values(question, result, verdict)
    named = result.estimate or next(iter(result.quantities), "")
    above, below = find_wanted_bounds(question.primary, named)
    certain = not (question.trial or result.headline.interval or result.headline.p is not None)
    said = (
        _describe_weighed(question, weighed) if verdict != UNMEASURED and not question.parts else {}
    )
    exact = {"could": EXACT} if said and certain else {}
    written = words.line(question.name, "could", values)
    criterion = Criterion(
        words=question.rule(),
        brief=question.brief(),
        above=above,
        below=below,
        statement=question.statement,
        **{**said, **exact, **({"could": written} if written else {})},
    )
    sentences = (words.line(question.name, "plain", values), _describe_fit(fitted, verdict))
    scope = question.scope
    fit = result.inference.fit if fitted else None
    notes = words.items(question.name, "notes", values)
    caption = words.line(question.name, "caption", values) if result.draw else ""
    shown = words.items(question.name, "first screen", values)
    label = words.line(question.name, "table", values) if result.screen is not None else ""
    return Finding(
        id=question.id,
        estimand=words.line(question.name, "estimand", values),
        verdict=verdict,
        plain=" ".join(filter(None, sentences)),
        short=words.line(question.name, "short", values),
        reason=weighed.reason,
        headline=pick_headline(result),
        criterion=criterion,
        strength=weighed.strength,
        sample=Sample(scope.evidence, "", result.n_models, result.n_groups, scope.group),
        audit=result.audit,
        convergence=summarise_convergence(fit) if fit else Convergence(),
        notes=(*notes, *describe_row(weighed)),
        table=drop_laws(result.table),
        figure=Drawing(result.draw, caption),
        screen=Screen(shown, result.screen, label),
        posterior=fitted,
    )


def _prepare_finding(
    question: Question, evidence: Evidence, first: Finding | None, group: str
) -> Finding:
    """The finding of a question on another set, before its rows are read."""
    first_sample = Sample(question.scope.evidence)
    first = first or Finding(question.id, question.name, UNMEASURED, "", sample=first_sample)
    rule = first.criterion
    criterion = Criterion(words=rule.words, above=rule.above, below=rule.below)
    plain = f"The same question for {SETS[evidence.name]}."
    sample = Sample(evidence.name, first.sample.evidence, group=group)
    return Finding(
        id=first.id,
        estimand=first.estimand,
        verdict=UNMEASURED,
        plain=plain,
        criterion=criterion,
        sample=sample,
    )


def _update_finding(finding: Finding, result: Result, **criterion: Any) -> Finding:
    """A finding with the headline and the counts of a result, and with more of its criterion."""
    headline = pick_headline(result)
    rule = replace(finding.criterion, **criterion)
    sample = replace(finding.sample, n_models=result.n_models, n_groups=result.n_groups)
    return replace(finding, headline=headline, criterion=rule, sample=sample)


def _list_names(rows: pd.DataFrame) -> str:
    """The models, where they are few."""
    names = sorted(set(rows["model_id"]))
    return f": {join_words(names)}" if len(names) <= NAMED else ""


def _describe_fit(fitted: FittedModel | Undrawn | None, verdict: Verdict) -> str:
    """What the fitted model says, and whether the test agrees; its verdict may not be the one that
    stands."""
    if not isinstance(fitted, FittedModel):
        return ""
    by = fitted.conclusion
    text = f"The fitted model gives {by.chance}"
    if not fitted.gate.passes:
        return f"{text}, which does not count because one of its checks failed."
    if not by.classical:
        return f"{text}."
    if by.classical != verdict:
        says = "so too" if by.verdict == by.classical else f"“{by.classical}”"
        return (
            f"{text} and by its own rule says “{by.verdict}”. At 5% alone the test "
            f"would say {says}; the verdict asks more."
        )
    if by.verdict == by.classical:
        return f"{text} and agrees with the test, which decides."
    return f"{text} and says “{by.verdict}” by its own rule, unlike the test, which decides."

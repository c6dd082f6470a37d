"""From a result to a finding: the rule's verdict, the gate of its fit, and the words with the numbers put in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from thermostats.claims.curve import curve_of
from thermostats.claims.error_rates import FAIR, ErrorRates, rates, table, untried
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Convergence, Criterion, Drawing, Finding, Sample
from thermostats.claims.fits import convergence, posterior_of, undrawn
from thermostats.claims.left_out import hangs_on, hangs_on_source
from thermostats.claims.posterior import FittedModel, Undrawn
from thermostats.claims.question import Question
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Decide, Given, Posterior, Rule, wanted
from thermostats.claims.sources import coincidence
from thermostats.claims.template import Template
from thermostats.claims.verdict import OPEN, UNMEASURED, Reason, Verdict, all_of
from thermostats.errors import DataError
from thermostats.formatting import chance_of
from thermostats.modelling.draws import PASSED
from thermostats.settings import drawing

EXACT = "The rule compares a computed number with a bar. It has no error rate, so it was not tried in simulated worlds."


def answered(
    words: Template, question: Question, result: Result, rows: pd.DataFrame | None, evidence: Evidence
) -> Finding:
    """The finding of one result; `rows`: those of the question's trial, from `evidence`.

    The primary rule decides. Its verdict stands where no single unit or source carries it and where, in simulated
    worlds, that side is wrong in at most 5%. Raises DataError where rule, words and result do not fit one another.
    """
    if question.needs is not None and question.needs.verdict(result) == UNMEASURED:
        return unmeasured(words, question, result)
    primary = question.primary
    if primary is None:
        raise DataError("a verdict over findings cannot have a result of its own", where=question.id)
    if drawing() or isinstance(primary, Posterior):
        result = result.adding(inference=result.inference.drawn())
    verdict, reason = primary.verdict(result), Reason.NONE
    fit, fitted = result.inference.fit, _fitted(words, question, result, verdict)
    if isinstance(primary, Posterior) and isinstance(fitted, FittedModel):
        verdict = Verdict(fitted.concluded)
        if not fitted.gate.passes:
            reason = Reason.NO_MODEL if fit is None or fit.status == PASSED else Reason.SAMPLER
    errors, coincide = ErrorRates(table().iloc[:0]), ""
    if question.trial is not None and rows is not None:
        unit = hangs_on(primary, question.trial, rows, verdict)
        source = "" if unit else hangs_on_source(question, evidence, rows, verdict, question.needs)
        tried = rates(question, len(rows))
        errors = ErrorRates(tried, unit, source, question.trial.larger, untried=untried(question, tried))
        coincide = coincidence(evidence, set(rows["model_id"])) if "model_id" in rows else ""
    by_rule = verdict
    verdict, reason = standing(primary, result, errors, verdict, reason)
    settles = errors.sentence(by_rule, question.group, reason)
    finding = _finding(words, question, result, verdict, fitted, reason, errors, settles)
    curve = None
    if question.curve is not None and question.trial is not None:
        curve = curve_of(question.curve, primary, question.trial.test, evidence)
    return replace(finding, sample=replace(finding.sample, coincidence=coincide), curve=curve)


def _fitted(words: Template, question: Question, result: Result, verdict: Verdict) -> FittedModel | Undrawn | None:
    """The fit that a rule on a posterior asks, with its checks; undrawn where it is left for later."""
    primary, other, inference = question.primary, question.robustness, result.inference
    asked = next((rule for rule in (primary, other) if isinstance(rule, Posterior)), None)
    if asked is None or (inference.fit is None and inference.later is None and asked is not primary):
        return None
    model = inference.model or words.line(question.name, "model", _values(question, result, verdict))
    if inference.later is not None:
        return undrawn(result, asked, model)
    return posterior_of(result, asked, model, other if asked is primary else primary)


def standing(
    primary: Rule, result: Result, errors: ErrorRates, verdict: Verdict, reason: Reason = Reason.NONE
) -> tuple[Verdict, Reason]:
    """The verdict that stands, and why it is open: it must hang on no unit or source, nor be of a side that errs."""
    if errors.hangs_on or errors.source:
        return OPEN, Reason.ONE_UNIT if errors.hangs_on else Reason.ONE_SOURCE
    if errors.worst(verdict) is not None:
        return OPEN, Reason.WITHHELD
    if verdict == OPEN and reason == Reason.NONE:
        if isinstance(primary, Decide) and primary.divided.holds(result):
            return verdict, Reason.CODING
        if errors.silent:
            return verdict, Reason.WITHHELD
        short = isinstance(primary, Given) and primary.short(result)
        reason = Reason.TOO_LITTLE if short or errors.power < FAIR else Reason.UNDECIDED
    return verdict, reason


def unmeasured(words: Template, question: Question, result: Result) -> Finding:
    """The finding that needs measurement."""
    return _finding(words, question, result, UNMEASURED)


def together(words: Template, question: Question, parts: Sequence[Finding], result: Result) -> Finding:
    """The verdict over findings: one part against it decides, support needs every part."""
    verdict = all_of(Verdict(part.verdict) for part in parts)
    few = Reason.TOO_LITTLE if UNMEASURED in {part.verdict for part in parts} else Reason.UNDECIDED
    never = (Reason(part.reason) for part in parts if part.reason in {Reason.CODING, Reason.WITHHELD})
    reason = Reason.NONE if verdict != OPEN else next(never, few)
    finding = _finding(words, question, result, verdict, reason=reason)
    named = "; ".join(part.estimand for part in parts)
    rule = f"supported if all of these are supported, not supported if any of them is not supported: {named}"
    return replace(finding, criterion=replace(finding.criterion, words=rule))


def headline(result: Result) -> Estimate:
    """The number that heads a finding; an undefined p-value is none and has no kind."""
    head = result.headline
    return replace(head, p=None, p_kind="") if head.p is None or math.isnan(head.p) else head


def _values(question: Question, result: Result, verdict: Verdict) -> dict[str, Any]:
    """What the words may name: `q`, the quantities by name, and the result's own."""
    return {
        "q": result.quantities,
        "estimate": result.headline,
        "over": question.over,
        "verdict": verdict,
        "n_models": result.n_models,
        "n_groups": result.n_groups,
        "group": question.group,
        **result.words,
    }


def _could(question: Question, result: Result, errors: ErrorRates | None) -> str:
    """What the rule could have shown; a number without trial, interval and p-value is certain."""
    if errors is None:
        return ""
    certain = not (question.trial or result.headline.interval or result.headline.p is not None)
    return EXACT if certain else errors.could()


def _finding(
    words: Template,
    question: Question,
    result: Result,
    verdict: Verdict,
    fitted: FittedModel | Undrawn | None = None,
    reason: Reason = Reason.NONE,
    errors: ErrorRates | None = None,
    settles: str = "",
) -> Finding:
    values = _values(question, result, verdict)
    above, below = wanted(question.primary, result.estimate or next(iter(result.quantities), ""))
    criterion = Criterion(
        words=question.rule(),
        brief=question.brief(),
        above=above,
        below=below,
        statement=question.statement,
        could=words.line(question.name, "could", values) or _could(question, result, errors),
        settles=settles,
        worlds=len(errors.rates) if errors and question.trial else None,
        untried=errors.untried if errors else 0,
        rates=errors.rates if errors and len(errors.rates) else None,
    )
    caption = words.line(question.name, "caption", values) if result.draw else ""
    return Finding(
        id=question.id,
        estimand=words.line(question.name, "estimand", values),
        verdict=verdict,
        plain=" ".join(filter(None, [words.line(question.name, "plain", values), _sentence(fitted, verdict)])),
        reason=reason,
        headline=headline(result),
        criterion=criterion,
        sample=Sample(question.evidence, "", result.n_models, result.n_groups, question.group),
        audit=result.audit,
        convergence=convergence(result.inference.fit) if result.inference.fit and fitted else Convergence(),
        notes=words.notes(question.name, values),
        table=result.table,
        figure=Drawing(result.draw, caption),
        posterior=fitted,
    )


def _sentence(fitted: FittedModel | Undrawn | None, verdict: Verdict) -> str:
    """What the fitted model says, and whether the test agrees; its verdict may not be the one that stands."""
    if not isinstance(fitted, FittedModel):
        return ""
    by = fitted.conclusion
    text = f"The fitted model gives {chance_of(by.statement, by.probability)}"
    if not fitted.gate.passes:
        return f"{text}, which does not count because one of its checks failed."
    if not by.classical:
        return f"{text}."
    decides = "which decides" if by.classical == verdict else "whose verdict is not given"
    if by.verdict == by.classical:
        return f"{text} and agrees with the test, {decides}."
    return f"{text} and says “{by.verdict}” by its own rule, unlike the test, {decides}."

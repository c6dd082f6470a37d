"""From a result to a finding: the rule's verdict, the gate of its fit, and the words with the numbers put in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from thermostats.claims.finding import Finding
from thermostats.claims.fits import ess_min, posterior_of
from thermostats.claims.posterior import Posterior as Fitted
from thermostats.claims.result import Result
from thermostats.claims.rule import AtLeast, Posterior, Rule
from thermostats.claims.template import Template
from thermostats.claims.verdict import OPEN, UNMEASURED, Reason, Verdict, all_of
from thermostats.errors import DataError
from thermostats.modelling.inference.draws import PASSED
from thermostats.words import chance_of


@dataclass(frozen=True)
class Question:
    """One finding as an analysis declares it."""

    id: str
    name: str
    """Section of the words."""
    over: Any
    answer: Callable[..., Result]
    primary: Rule | None = None
    robustness: Rule | None = None
    veto: bool = True
    evidence: str = ""
    needs: AtLeast | None = None
    group: str = "lab"
    parts: tuple[str, ...] = ()
    """Ids of the findings that a verdict over findings rests on."""

    def rule(self) -> str:
        """How it is decided, in words."""
        if self.parts or self.primary is None:
            return f"one of {', '.join(self.parts)} that is not supported decides; supported needs all"
        said = self.primary.words()
        if self.robustness is not None:
            said += f"; and by the {'posterior' if isinstance(self.robustness, Posterior) else 'test'}: "
            said += self.robustness.words() + ("; inconclusive where the two differ" if self.veto else "")
        return said + (f"; {self.needs.words()}" if self.needs else "")


def answered(claim: str, words: Template, question: Question, result: Result) -> Finding:
    """The finding of one result.

    Raises DataError where rule, words and result do not fit one another.
    """
    if question.needs is not None and question.needs.verdict(result) == UNMEASURED:
        return _finding(claim, words, question, result, UNMEASURED, Reason.NONE, None)
    rules = [rule for rule in (question.primary, question.robustness) if rule is not None]
    if result.fit is None and len(rules) > 1:  # too few rows for the model: the test stands alone
        rules = [rule for rule in rules if not isinstance(rule, Posterior)]
    asked = next((rule for rule in rules if isinstance(rule, Posterior)), None)
    verdicts = {id(rule): rule.verdict(result) for rule in rules}
    if UNMEASURED in verdicts.values():
        return _finding(claim, words, question, result, UNMEASURED, Reason.NONE, None)
    fitted = None
    if asked is not None:
        fitted = _posterior(words, question, result, asked, verdicts[id(asked)], [r for r in rules if r is not asked])
        verdicts[id(asked)] = Verdict(fitted.concluded)
    first, *others = verdicts.values()
    verdict = OPEN if question.veto and any(other != first for other in others) else first
    return _finding(claim, words, question, result, verdict, _reason(verdict, fitted, result), fitted)


def together(claim: str, words: Template, question: Question, parts: Sequence[Finding], result: Result) -> Finding:
    """The verdict over findings: one part against it decides, support needs every part."""
    verdict = all_of(Verdict(part.verdict) for part in parts)
    if UNMEASURED in {part.verdict for part in parts} and verdict == OPEN:
        return _finding(claim, words, question, result, verdict, Reason.TOO_LITTLE, None)
    return _finding(claim, words, question, result, verdict, _reason(verdict, None, result), None)


def _reason(verdict: Verdict, fitted: Fitted | None, result: Result) -> Reason:
    if verdict != OPEN:
        return Reason.NONE
    if fitted is not None and not fitted.gate.passes:
        sampled = result.fit is None or result.fit.status == PASSED
        return Reason.NO_MODEL if sampled else Reason.SAMPLER
    return Reason.UNDECIDED


def _posterior(
    words: Template, question: Question, result: Result, rule: Posterior, verdict: Verdict, others: Sequence[Rule]
) -> Fitted:
    if result.fit is None:
        raise DataError("a rule asks for a posterior and the result has no fit", where=question.id)
    statement = rule.stated(result)
    return posterior_of(
        result.fit,
        model=result.model or words.line(question.name, "model", _values(question, result, verdict)),
        statement=statement,
        truth=result.statements.get(statement),
        verdict=verdict,
        rule=f"{rule.words().capitalize()}, else inconclusive.",
        classical=others[0].verdict(result) if others else "",
        classical_rule=f"{others[0].words().capitalize()}, else inconclusive." if others else "",
        tables=result.fit_tables,
        sensitivity=result.sensitivity,
        panels=result.panels,
    )


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


def _finding(
    claim: str,
    words: Template,
    question: Question,
    result: Result,
    verdict: Verdict,
    reason: Reason,
    fitted: Fitted | None,
) -> Finding:
    values = _values(question, result, verdict)
    head = result.headline
    plain = words.line(question.name, "plain", values)
    diagnostics = [d.diagnostics for d in result.fit.sampled.values()] if fitted and result.fit else []
    return Finding(
        claim=claim,
        id=question.id,
        evidence=question.evidence,
        estimand=words.line(question.name, "estimand", values),
        verdict=verdict,
        reason=reason,
        rule=question.rule(),
        plain=f"{plain} {_sentence(fitted)}" if fitted else plain,
        published=result.audit.published,
        reproduced=result.audit.reproduced,
        estimate=head.value,
        lower=head.lower,
        upper=head.upper,
        interval=head.interval,
        probability=head.p,
        probability_kind=head.p_kind if head.p is not None else "",
        n_models=result.n_models,
        n_heritages=result.n_groups,
        group=question.group,
        rhat_max=max((d.rhat_max for d in diagnostics), default=None),
        ess_min=ess_min(result.fit) if diagnostics and result.fit else None,
        divergences=sum(d.divergences for d in diagnostics) if diagnostics else None,
        notes=words.notes(question.name, values),
        table=result.table,
        draw=result.draw,
        caption=words.line(question.name, "caption", values) if result.draw else "",
        posterior=fitted,
    )


def _sentence(fitted: Fitted) -> str:
    said = f"The fitted model gives {chance_of(fitted.statement, fitted.probability)}"
    if not fitted.gate.passes:
        return f"{said}, which does not count, since a check of it failed."
    agrees = "agrees" if fitted.verdict == fitted.classical else f"says “{fitted.verdict}” by its own rule"
    return f"{said} and {agrees}; a verdict needs both."

"""From a result to a finding: the rule's verdict, the gate of its fit, and the words with the numbers put in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thermostats.claims.finding import Finding
from thermostats.claims.fits import ess_min, posterior_of
from thermostats.claims.posterior import Posterior as Fitted
from thermostats.claims.result import Result
from thermostats.claims.rule import AtLeast, Posterior, Rule
from thermostats.claims.template import Template
from thermostats.claims.verdict import OPEN, UNMEASURED, Reason, Verdict, all_of
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
        if self.primary is None:
            return f"one of {', '.join(self.parts)} that is not supported decides; supported needs all"
        said = self.primary.words()
        if self.robustness is not None:
            by = "posterior" if isinstance(self.robustness, Posterior) else "test"
            said += f"; and by the {by}: {self.robustness.words()}"
            said += "; inconclusive where the two differ" if self.veto else "; shown, it decides nothing"
        return said + (f"; {self.needs.words()}" if self.needs else "")


def answered(claim: str, words: Template, question: Question, result: Result) -> Finding:
    """The finding of one result.

    Raises DataError where rule, words and result do not fit one another.
    """
    if question.needs is not None and question.needs.verdict(result) == UNMEASURED:
        return unmeasured(claim, words, question, result)
    rules = [rule for rule in (question.primary, question.robustness) if rule is not None]
    if result.fit is None and len(rules) > 1:  # too few rows for the model: the test stands alone
        rules = [rule for rule in rules if not isinstance(rule, Posterior)]
    verdicts, fitted = [], None
    for rule in rules:
        verdict = rule.verdict(result)
        if isinstance(rule, Posterior):
            test = next((other for other in rules if other is not rule), None)
            model = result.model or words.line(question.name, "model", _values(question, result, verdict))
            fitted = posterior_of(result, rule, model, test)
            verdict = Verdict(fitted.concluded)
        verdicts.append(verdict)
    verdict = OPEN if question.veto and len(set(verdicts)) > 1 else verdicts[0]
    return _finding(claim, words, question, result, verdict, fitted)


def unmeasured(claim: str, words: Template, question: Question, result: Result) -> Finding:
    """The finding that needs measurement."""
    return _finding(claim, words, question, result, UNMEASURED)


def together(claim: str, words: Template, question: Question, parts: Sequence[Finding], result: Result) -> Finding:
    """The verdict over findings: one part against it decides, support needs every part."""
    verdict = all_of(Verdict(part.verdict) for part in parts)
    few = verdict == OPEN and UNMEASURED in {part.verdict for part in parts}
    found = _finding(claim, words, question, result, verdict, reason=Reason.TOO_LITTLE if few else None)
    named = "; ".join(part.estimand for part in parts)
    return replace(found, rule=f"supported needs all of these, one that is not supported decides: {named}")


def _reason(verdict: Verdict, fitted: Fitted | None, result: Result) -> Reason:
    if verdict != OPEN:
        return Reason.NONE
    if fitted is not None and not fitted.gate.passes:
        sampled = result.fit is None or result.fit.status == PASSED
        return Reason.NO_MODEL if sampled else Reason.SAMPLER
    return Reason.UNDECIDED


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
    fitted: Fitted | None = None,
    reason: Reason | None = None,
) -> Finding:
    values, head = _values(question, result, verdict), result.headline
    plain = words.line(question.name, "plain", values)
    sampled = list(result.fit.sampled.values()) if fitted and result.fit else []
    return Finding(
        claim=claim,
        id=question.id,
        evidence=question.evidence,
        estimand=words.line(question.name, "estimand", values),
        verdict=verdict,
        reason=_reason(verdict, fitted, result) if reason is None else reason,
        rule=question.rule(),
        plain=f"{plain} {_sentence(fitted, question.veto)}" if fitted else plain,
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
        rhat_max=max((draws.diagnostics.rhat_max for draws in sampled), default=None),
        ess_min=ess_min(result.fit) if sampled and result.fit else None,
        divergences=sum(draws.diagnostics.divergences for draws in sampled) if sampled else None,
        notes=words.notes(question.name, values),
        table=result.table,
        draw=result.draw,
        caption=words.line(question.name, "caption", values) if result.draw else "",
        posterior=fitted,
    )


def _sentence(fitted: Fitted, veto: bool) -> str:
    said = f"The fitted model gives {chance_of(fitted.statement, fitted.probability)}"
    if not fitted.gate.passes:
        return f"{said}, which does not count, since a check of it failed."
    agrees = "agrees" if fitted.verdict == fitted.classical else f"says “{fitted.verdict}” by its own rule"
    return f"{said} and {agrees}" + ("; a verdict needs both." if veto else ".")

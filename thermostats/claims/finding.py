"""A finding: what one set of evidence says about one estimand of one claim; a row of the table
`findings`."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from html import escape
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.condition import Truth
from thermostats.claims.result import (
    AGAINST,
    OPEN,
    SUPPORTED,
    UNMEASURED,
    Audit,
    ByColumn,
    Estimate,
    Panel,
    Reason,
    Result,
)
from thermostats.claims.rule import Posterior, Rule
from thermostats.errors import DataError
from thermostats.formatting import (
    compare_figures,
    estimate_text,
    format_count,
    format_number,
    format_probability,
    format_statement_chance,
)
from thermostats.modelling.checks import Gate
from thermostats.modelling.display import summarise_updates
from thermostats.modelling.draws import KIND, estimate_mcse, list_versions
from thermostats.modelling.fit import Fit
from thermostats.modelling.specification import SpecificationCurve
from thermostats.plots.posterior import draw_predictive_panels, draw_prior_to_posterior
from thermostats.public_names import VERSION
from thermostats.settings import THOROUGH_VARIABLE


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What the rule concludes from a posterior, and the classical test next to it."""

    rule: str
    """Which posterior probability supports the claim, which speaks against it."""
    statement: str
    """What the probability is of."""
    probability: float
    error: float | None = None
    """Monte-Carlo standard error of `probability`."""
    ends: tuple[float, float] | None = None
    """Its range, where the statement hangs on which column is called which."""
    verdict: str
    """By the rule alone."""
    classical: str = ""
    """Verdict of the classical test alone."""
    classical_rule: str = ""
    """Rule of the classical test; empty: the claim's rule."""

    @property
    def chance(self) -> str:
        """The probability in words, with its range where it has one."""
        text = format_statement_chance(self.statement, self.probability)
        if self.ends is None:
            return text
        low, high = map(format_number, self.ends)
        return f"{text}, {low} to {high} by which column is called which"


@dataclass(frozen=True, kw_only=True)
class Computation:
    """How the draws came about."""

    words: str = ""
    """Sampler, chains, draws kept and discarded, attempts."""
    diagnostics: pd.DataFrame
    """diagnostic, worst, limit, quantity."""
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    drawn: str = ""
    """By which versions, and when, where PyMC drew; the exact engine gives the same at any time."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EarlierDraws:
    """A posterior that an earlier report drew."""

    probability: float
    """Of the statement that is asked."""
    error: float | None
    """Its Monte-Carlo standard error."""
    drawn: str
    """By which versions, and when."""


@dataclass(frozen=True, kw_only=True)
class Undrawn:
    """A fit that PyMC alone can draw, in a report that does not draw."""

    model: str
    """What would be fitted to what, in one sentence."""
    rule: str
    statement: str
    """What the probability is of."""
    earlier: EarlierDraws | None = None
    why: str = ""
    """Why there are no figures of it."""


@dataclass(frozen=True, kw_only=True)
class FittedModel(ByColumn):
    """A fit as a page shows it; every table is ready to print."""

    COLUMNS = MappingProxyType(
        {
            "model": "model",
            "equations": "equations",
            "priors": "priors",
            "rule": "conclusion.rule",
            "statement": "conclusion.statement",
            "probability": "conclusion.probability",
            "verdict": "conclusion.verdict",
            "warnings": "computation.warnings",
            "seed": "computation.seed",
            "versions": "computation.versions",
            "drawn": "computation.drawn",
            "classical": "conclusion.classical",
            "sources": "sources",
            "computation": "computation.words",
            "probability_error": "conclusion.error",
            "concluded": "concluded",
        }
    )

    model: str
    """What was fitted to what, in one sentence."""
    equations: tuple[str, ...]
    priors: tuple[tuple[str, str, str], ...]
    """Quantity, distribution, why."""
    sources: tuple[str, ...] = ()
    """Files or measurements that the rows come from."""
    conclusion: Conclusion
    gate: Gate
    computation: Computation
    summary: pd.DataFrame
    """quantity, mean, sd, median, lower, upper, kind, level, rhat, ess_bulk, ess_tail, and mcse of
    the mean."""
    sensitivity: pd.DataFrame | None = None
    """One row per alternative: what was changed, and what the decisive probability becomes."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Further tables by title: labs, rivals, models left out."""
    panels: tuple[Panel, ...] = ()

    @property
    def concluded(self) -> str:
        """The verdict through the gate: inconclusive where a check failed."""
        return self.conclusion.verdict if self.gate.passes else OPEN


NO_NUMBER = Estimate(None, p_kind="")
NO_FIGURES = Audit()


@dataclass(frozen=True)
class Criterion:
    """The rule that decided, and what it could have shown in simulated worlds."""

    words: str = ""
    brief: str = ""
    """The rule in a few short sentences; empty where the claim alone states its rule."""
    above: float | None = None
    """Number above which the estimate supports the statement by the rule; None where the rule names
    none."""
    below: float | None = None
    """Number below which it does."""
    statement: str = ""
    """What several findings ask, by one name; their decisive verdicts must agree
    (`check_agreement`)."""
    could: str = ""
    """What the rule could have shown in simulated worlds, in a sentence or two."""
    settles: str = ""
    """What a larger study would find, or which unit carries the finding; empty where nothing was
    simulated."""
    worlds: int | None = None
    """Simulated worlds that the rule's limits rest on; None where there is nothing to try."""
    levels: pd.DataFrame | None = None
    """The worst of these worlds, with the levels below which their studies lie, one row a side and
    world."""
    bounds: str = ""
    """How far nuisances of these worlds may go and what that rests on, in a sentence."""
    parts: tuple[str, ...] = ()
    """Findings that the verdict is over, by id; empty where it has a rule of its own."""


@dataclass(frozen=True)
class Strength:
    """How surely a verdict stands."""

    level: float | None = None
    """Attained level of the side that is given, or of the one to which an open verdict leans."""
    limit: float | None = None
    """α* of that side: the level below which it is given, in the worst plausible world; None where
    none was tried."""
    p: str = ""
    """p in the worst plausible world, in classes: `< .001`, `< .01`, `≤ .05`, `above .05`."""
    full_level: float | None = None
    """Attained level of all rows, where `level` is a quarter of that without a unit; else None."""
    unit: str = ""
    """The unit, or source of rows, on which it hangs, or of which the level is: a quarter of that
    without it."""
    unless: str = ""
    """The hostile world in which a decided verdict would not stand, in words."""
    leans: str = ""
    """The verdict to which an open one leans."""
    provisional: str = ""
    """Why its limits are provisional, in words; empty where they are those of this design."""
    both: bool = False
    """Whether both sides hold, of which the one with the smaller level over α* stands."""
    tipping: tuple[str, ...] = ()
    """How far each nuisance is raised before the level is no longer below α*, the others at rest
    and at half: where a decided verdict falls, and up to where an open one would be given."""


@dataclass(frozen=True)
class Sample:
    """The models that a finding rests on."""

    evidence: str = ""
    """Set of evidence; empty: mathematics."""
    view_of: str = ""
    """Set of evidence to which the question was put first; empty: this one."""
    n_models: int = 0
    n_groups: int = 0
    group: str = "lab"
    """What groups models: labs, or recipes where they were trained in the controlled study."""
    coincidence: str = ""
    """Labs that one source alone measured, in a sentence; empty where the set has one source, or no
    such lab."""


@dataclass(frozen=True)
class Convergence:
    """How well the draws of a fit have mixed; None without a fit, or where nothing was sampled in
    chains."""

    rhat_max: float | None = None
    ess_min: float | None = None
    divergences: int | None = None


@dataclass(frozen=True)
class Drawing:
    """The figure of a finding."""

    draw: Callable[..., object] | None = None
    """Draws it onto the matplotlib axes it is given; None where there is none, or where it is
    drawn."""
    caption: str = ""
    """What it shows and what was estimated; its alt text."""


@dataclass(frozen=True)
class Screen:
    """What a page says next to the verdict, before any reason: a table, and sentences."""

    sentences: tuple[str, ...] = ()
    table: pd.DataFrame | None = None
    label: str = ""
    """What the table shows."""


@dataclass(frozen=True)
class Finding(ByColumn):
    """What the tables say about one estimand of one claim; a row of the table `findings`."""

    COLUMNS = MappingProxyType(
        {
            "claim": "claim",
            "estimand": "estimand",
            "verdict": "verdict",
            "plain": "plain",
            "published": "audit.published",
            "reproduced": "audit.reproduced",
            "estimate": "headline.value",
            "lower": "headline.lower",
            "upper": "headline.upper",
            "interval": "headline.interval",
            "above": "criterion.above",
            "below": "criterion.below",
            "probability": "headline.p",
            "probability_kind": "headline.p_kind",
            "n_models": "sample.n_models",
            "n_heritages": "sample.n_groups",
            "group": "sample.group",
            "coincidence": "sample.coincidence",
            "rhat_max": "convergence.rhat_max",
            "ess_min": "convergence.ess_min",
            "divergences": "convergence.divergences",
            "notes": "notes",
            "short": "short",
            "caption": "figure.caption",
            "id": "id",
            "evidence": "sample.evidence",
            "reason": "reason",
            "rule": "criterion.words",
            "rule_in_short": "criterion.brief",
            "could": "criterion.could",
            "worlds": "criterion.worlds",
            "view_of": "sample.view_of",
            "parts": "criterion.parts",
            "statement": "criterion.statement",
            "settles": "criterion.settles",
            "level": "strength.level",
            "limit": "strength.limit",
            "p_worst": "strength.p",
            "unless": "strength.unless",
            "leans": "strength.leans",
            "provisional": "strength.provisional",
            "both": "strength.both",
            "tipping": "strength.tipping",
            "unit": "strength.unit",
        }
    )

    id: str
    """Stable name, such as `C04.architecture.penultimate_gain`."""
    estimand: str
    """Names the estimate in the table of all claims."""
    verdict: str
    """That of the primary rule."""
    plain: str
    """One paragraph that a non-statistician can quote, with every number formatted from the
    computed values; its first two sentences stand in the table of all claims."""
    reason: str = Reason.NONE
    """Why the verdict is inconclusive."""
    headline: Estimate = NO_NUMBER
    """The number that heads the finding, with its interval and p-value."""
    criterion: Criterion = Criterion()
    strength: Strength = Strength()
    sample: Sample = Sample()
    audit: Audit = NO_FIGURES
    """Published figures and the same recomputed."""
    convergence: Convergence = Convergence()
    notes: tuple[str, ...] = ()
    """Further sentences for the page: which computation gives the published figure, what the data
    cannot decide."""
    table: pd.DataFrame | None = None
    """The numbers behind the verdict, shown on the page."""
    figure: Drawing = Drawing()
    screen: Screen = Screen()
    posterior: FittedModel | Undrawn | None = None
    """The fitted model that accompanies the classical test; undrawn where the report does not draw
    it."""
    curve: SpecificationCurve | None = None
    """The estimate and the verdict under every defensible choice."""
    short: str = ""
    """One short sentence that the index adds to its claim's answer, of a finding that does not head
    the claim; empty for most."""

    def __repr__(self) -> str:
        return format_finding(self)

    def _repr_html_(self) -> str:
        """Its words and its figure, in a notebook."""
        from thermostats.plots.svg import render_svg  # noqa: PLC0415 - matplotlib

        figure = render_svg(self.figure.draw).decode() if self.figure.draw else ""
        return f"<pre>{escape(format_finding(self))}</pre>{figure[max(0, figure.find('<svg')) :]}"

    @property
    def decisive_unit(self) -> str:
        """The unit or source without which the verdict would be another, so that it is open; else
        empty."""
        hangs = self.reason in (Reason.AT_LIMIT, Reason.ONE_UNIT, Reason.ONE_SOURCE)
        return self.strength.unit if hangs else ""

    @property
    def stands(self) -> str:
        """The verdict as a line has it: with its condition, or why it is open and where it
        leans."""
        strength = self.strength
        line = self.verdict
        if self.reason:
            unit = f", {self.decisive_unit}" if self.decisive_unit else ""
            line += f" ({self.reason}{unit})"
        line += f", leans to “{strength.leans}”" if strength.leans else ""
        line += f", unless {strength.unless}" if strength.unless else ""
        return line + (
            ", provisional" if strength.provisional and self.verdict != UNMEASURED else ""
        )

    @property
    def claim(self) -> str:
        """Id of the claim, with which the finding's begins."""
        return self.id.partition(".")[0]

    @property
    def has_rows(self) -> bool:
        """Whether its set of evidence has rows for the question, be it that notes name models that
        are left out."""
        return self.verdict != UNMEASURED or self.sample.n_models > 0 or bool(self.notes)


def read_finding(values: Mapping[str, Any]) -> Finding:
    """A finding from what the table has of it, without its tables and figures.

    Raises KeyError for a column that findings do not have.
    """
    parts = {
        "headline": Estimate,
        "criterion": Criterion,
        "strength": Strength,
        "sample": Sample,
        "audit": Audit,
    }
    parts |= {"convergence": Convergence, "figure": Drawing}
    fields: dict[str, Any] = {}
    for name, value in values.items():
        record, _, field = Finding.COLUMNS[name].partition(".")
        if field:
            fields.setdefault(record, {})[field] = (
                tuple(value) if field in ("tipping", "parts") else value
            )
        elif record != "claim":
            fields[record] = tuple(value) if record == "notes" else value
    for name, build in parts.items():
        if name in fields:
            fields[name] = build(**fields[name])
    return Finding(**fields)


def format_finding(finding: Finding) -> str:
    """A finding as a person would read it on a terminal."""
    head = finding.headline
    sample = finding.sample
    posterior = finding.posterior
    plain = f"{finding.plain} {finding.criterion.settles}".strip()
    lines = [f"{finding.verdict.upper()}  {finding.estimand}", wrap_text(plain)]
    lines += [f"  stands       {finding.stands}"] * (finding.stands != finding.verdict)
    lines += [f"  worst world  p {finding.strength.p}"] * bool(finding.strength.p)
    lines += [f"  estimate     {estimate_text(head)}"] * (head.value is not None)
    lines += [f"  probability  {format_probability(head)}"] * (head.p is not None)
    if isinstance(posterior, Undrawn):
        lines.append(
            f"  posterior    {posterior.statement} is not drawn: thermostats report "
            f"{finding.claim} --draw"
        )
    elif posterior is not None:
        conclusion = posterior.conclusion
        lines.append(f"  posterior    {conclusion.chance}")
        lines += [wrap_text(f"Check: {reason}") for reason in posterior.gate.reasons]
    lines.append(
        f"  rests on     {format_count(sample.n_models, 'model')} of "
        f"{format_count(sample.n_groups, sample.group)}"
    )
    if finding.curve is not None:
        lines.append(f"  curve        {finding.curve.summary}")
    for row in compare_figures(finding.audit.published, finding.audit.reproduced):
        again = row.reproduced or "not recomputed"
        lines.append(f"  {row.name}: published {row.published}, reproduced {again} {row.word}")
    lines += [wrap_text(f"Note: {note}") for note in (sample.coincidence, *finding.notes) if note]
    if finding.table is not None:
        lines.append(finding.table.to_string(index=False, float_format=format_number))
    return "\n".join(lines)


def wrap_text(text: str) -> str:
    """A paragraph for a terminal."""
    return textwrap.fill(text, width=100, initial_indent="  ", subsequent_indent="  ")


MOST_UPDATED = 12
"""Quantities that the figure of priors and posteriors can hold."""


def record_posterior(
    result: Result, rule_asked: Posterior, model: str, test: Rule | None = None
) -> FittedModel:
    """The page's record of a result's fit, its checks run; with refits of the exact engine, of
    others where asked for.

    rule_asked: the rule on its posterior. model: what was fitted to what, in one sentence. test:
    the classical rule. Raises DataError where the result has no fit.
    """
    fit = result.inference.fit
    if fit is None:
        raise DataError(
            "a rule asks for a posterior, but the result has no fit", got=rule_asked.statement
        )
    statements = rule_asked.list_statements(result)
    gate = fit.check(statements, refits=fit.draws.exact or THOROUGH_VARIABLE in os.environ)
    statement = f"P({rule_asked.statement})"
    probability = rule_asked.probability(result)
    tables = result.inference.tables
    if not isinstance(tables, Mapping):
        tables = {name.replace("_", " "): fit.table(name) for name in tables}
    caption = (
        f"{model} {format_statement_chance(statement, probability)}; intervals are equal-tailed, "
        f"{fit.level:.0%}."
    )
    checks = {check.name: check for check in gate.checks}
    replicated = checks["posterior predictive"]
    sensitivity = checks["prior sensitivity"]
    drawing_error = _estimate_error(fit, probability, rule_asked.truth(result))
    conclusion = Conclusion(
        rule=_describe_rule(rule_asked),
        statement=statement,
        probability=probability,
        error=drawing_error,
        ends=fit.ranges.get(rule_asked.statement),
        verdict=rule_asked.verdict(result),
        classical=test.verdict(result) if test else "",
        classical_rule=_describe_rule(test) if test else "",
    )
    computation = Computation(
        words=_describe_drawing(fit),
        diagnostics=fit.draws.diagnostics,
        seed=fit.seed,
        versions=list_versions(),
        drawn="" if fit.draws.exact else _describe_versions(),
        warnings=fit.warnings,
    )
    posterior = Panel(name="posterior", draw=lambda axes: fit.plot(axes=axes), caption=caption)
    predictive = Panel(
        name="posterior-predictive",
        draw=partial(draw_predictive_panels, replicated.table),
        caption=f"Test quantities of posterior predictive replications, and as observed: "
        f"{replicated.reason}.",
    )
    return FittedModel(
        model=model,
        equations=fit.law.equations,
        priors=fit.law.priors,
        sources=fit.sources,
        conclusion=conclusion,
        gate=gate,
        computation=computation,
        summary=_summarise_fit(fit),
        sensitivity=sensitivity.table,
        tables=dict(tables),
        panels=(posterior, _build_update_panel(fit), predictive, *result.inference.panels),
    )


def _summarise_fit(fit: Fit) -> pd.DataFrame:
    """A row a quantity, with kind and level of the interval, convergence, and the Monte-Carlo error
    of the mean."""
    convergence = fit.convergence()
    table = fit.summary().assign(kind=KIND, level=fit.level).join(convergence)
    size = table["ess_bulk"] if len(convergence) else fit.draws.effective
    table = table.assign(mcse=table["sd"] / np.sqrt(size))
    return table.dropna(axis=1, how="all").reset_index()


def _build_update_panel(fit: Fit) -> Panel:
    table = summarise_updates(fit)
    table = table[table["quantity"].isin(table["quantity"].unique()[:MOST_UPDATED])]
    wide = table.assign(width=table["upper"] - table["lower"]).pivot(
        index="quantity", columns="stage", values="width"
    )
    narrowed = (wide["posterior"] / wide["prior"]).sort_values()
    learned = f"{narrowed.index[0]} narrowed most, to {narrowed.iloc[0]:.0%} of its prior interval"
    caption = f"Quantities before and after the data: {learned}."
    return Panel(
        name="prior-to-posterior", draw=partial(draw_prior_to_posterior, table), caption=caption
    )


def _describe_drawing(fit: Fit) -> str:
    """How a posterior was drawn, in one sentence."""
    draws = fit.draws
    used = draws.settings
    if draws.exact:
        return (
            f"{draws.size} independent draws by the exact engine: scales by importance weights, "
            f"all else given them."
        )
    attempts = (
        "one attempt"
        if draws.attempts == 1
        else "second attempt, with smaller steps and twice the draws"
    )
    chains = f"{used.chains} chains of {used.draws} draws after {used.tune} of adaptation"
    target = f"target acceptance {used.target_accept:g}"
    return f"NUTS by {draws.engine}, {chains}, {target}, {attempts}."


def _describe_versions() -> str:
    """Versions of what draws, and the day."""
    there = {"thermostats": VERSION, **list_versions()}
    numbers = ", ".join(map(" ".join, there.items()))
    return f"{numbers}; {datetime.now(UTC):%Y-%m-%d}"


def record_undrawn(result: Result, rule_asked: Posterior, model: str) -> Undrawn:
    """The record of a result's fit that is left for later."""
    return Undrawn(
        model=model, rule=_describe_rule(rule_asked), statement=f"P({rule_asked.statement})"
    )


def summarise_convergence(fit: Fit) -> Convergence:
    """Largest R-hat and divergences of what was sampled, and the smallest effective number of
    draws."""
    worst = fit.draws.diagnostics.set_index("diagnostic")["worst"]
    divergences = worst.get("divergences")
    counted = None if divergences is None else int(divergences)
    return Convergence(worst.get("R-hat"), fit.draws.effective, counted)


def _describe_rule(rule_asked: Rule) -> str:
    words = rule_asked.words()
    return f"{words[0].upper()}{words[1:]}, else inconclusive."


def _estimate_error(fit: Fit, probability: float, truth: Truth | None) -> float:
    """Monte-Carlo error of a probability; where its draws are not known by the effective number of
    the fit."""
    if truth is None:
        return float(np.sqrt(probability * (1 - probability) / fit.draws.effective))
    values = truth.astype(np.float64)
    return estimate_mcse(values) if np.ptp(values) > 0 else 0.0


def check_agreement(findings: Iterable[Finding]) -> None:
    """Raise DataError where one finding supports a declared statement and another is decided
    against it."""
    decided: dict[str, dict[str, str]] = {}
    for finding in findings:
        if finding.criterion.statement and finding.verdict in {SUPPORTED, AGAINST}:
            decided.setdefault(finding.criterion.statement, {})[finding.verdict] = finding.id
    for statement, by in decided.items():
        if len(by) > 1:
            raise DataError(
                "findings decide one statement both ways",
                where=f"{by[SUPPORTED]}, {by[AGAINST]}",
                got=f"“{statement}”: supported by the first, not supported by the second",
                allowed="one decisive verdict a statement",
                next_step="give the findings statements of their own where they differ, or judge "
                "their rows together",
            )

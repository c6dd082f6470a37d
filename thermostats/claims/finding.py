"""A finding: what one set of evidence says about one estimand of one claim; a row of the table `findings`."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pandas as pd

from thermostats.claims.by_column import ByColumn
from thermostats.claims.posterior import FittedModel, Undrawn
from thermostats.claims.result import Audit, Estimate
from thermostats.claims.verdict import UNMEASURED, Reason
from thermostats.formatting import chance_of, comparison, estimate_text, number, plural, probability_text
from thermostats.modelling.specification.curve import SpecificationCurve
from thermostats.tables.evidence import POOLED, PUBLISHED
from thermostats.tables.vocabulary import NURSERY

OWN = (PUBLISHED, NURSERY)
"""Sets that are a study's own files."""
NO_NUMBER, NO_FIGURES = Estimate(None, p_kind=""), Audit()


@dataclass(frozen=True)
class Criterion:
    """The rule that decided, and what it could have shown in simulated worlds."""

    words: str = ""
    brief: str = ""
    """The rule in a few short sentences; empty where the claim alone states its rule."""
    above: float | None = None
    """Number above which the estimate supports the statement by the rule; None where the rule names none."""
    below: float | None = None
    """Number below which it does."""
    statement: str = ""
    """What several findings ask, by one name; their decisive verdicts must agree (`claims/statements.py`)."""
    could: str = ""
    """What the rule could have shown in simulated worlds, in a sentence or two."""
    settles: str = ""
    """What a larger study would find, or which unit carries the finding; empty where nothing was simulated."""
    worlds: int | None = None
    """Simulated worlds that the rule's limits rest on; None where there is nothing to try."""
    levels: pd.DataFrame | None = None
    """The worst of these worlds, with the levels below which their studies lie, one row a side and world."""


@dataclass(frozen=True)
class Strength:
    """How surely a verdict stands."""

    level: float | None = None
    """Attained level of the side that is given, or of the one to which an open verdict leans."""
    limit: float | None = None
    """α* of that side: the level below which it is given, in the worst plausible world; None where none was tried."""
    p: str = ""
    """p in the worst plausible world, in classes: `< .001`, `< .01`, `≤ .05`, `above .05`."""
    unless: str = ""
    """The hostile world in which a decided verdict would not stand, in words."""
    leans: str = ""
    """The verdict to which an open one leans."""
    provisional: str = ""
    """Why its limits are provisional, in words; empty where they are those of this design."""
    both: bool = False
    """Whether both sides hold, of which the one with the smaller level over α* stands."""
    tipping: tuple[str, ...] = ()
    """How far each nuisance is raised before a decided verdict falls, the others at rest and at half."""


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
    """Labs that one source alone measured, in a sentence; empty where the set has one source, or no such lab."""


@dataclass(frozen=True)
class Convergence:
    """How well the draws of a fit have mixed; None without a fit, or where nothing was sampled in chains."""

    rhat_max: float | None = None
    ess_min: float | None = None
    divergences: int | None = None


@dataclass(frozen=True)
class Drawing:
    """The figure of a finding."""

    draw: Callable[..., object] | None = None
    """Draws it onto the matplotlib axes it is given; None where there is none, or where it is drawn."""
    caption: str = ""
    """What it shows and what was estimated; its alt text."""


@dataclass(frozen=True)
class Finding(ByColumn):
    """What the tables say about one estimand of one claim; a row of the table `findings`."""

    COLUMNS = MappingProxyType(
        {
            **{name: name for name in ("claim", "estimand", "verdict", "plain")},
            **{name: f"audit.{name}" for name in ("published", "reproduced")},
            **{"estimate": "headline.value", "lower": "headline.lower", "upper": "headline.upper"},
            **{"interval": "headline.interval", "above": "criterion.above", "below": "criterion.below"},
            **{"probability": "headline.p", "probability_kind": "headline.p_kind", "n_models": "sample.n_models"},
            **{"n_heritages": "sample.n_groups", "group": "sample.group", "coincidence": "sample.coincidence"},
            **{name: f"convergence.{name}" for name in ("rhat_max", "ess_min", "divergences")},
            **{"notes": "notes", "caption": "figure.caption", "id": "id", "evidence": "sample.evidence"},
            **{"reason": "reason", "rule": "criterion.words", "rule_in_short": "criterion.brief"},
            **{"could": "criterion.could", "worlds": "criterion.worlds", "view_of": "sample.view_of"},
            **{"statement": "criterion.statement", "settles": "criterion.settles", "level": "strength.level"},
            **{"limit": "strength.limit", "p_worst": "strength.p", "unless": "strength.unless"},
            **{name: f"strength.{name}" for name in ("leans", "provisional", "both", "tipping")},
        }
    )

    id: str
    """Stable name, such as `C04.architecture.penultimate_gain`."""
    estimand: str
    """Names the estimate in the table of all claims."""
    verdict: str
    """That of the primary rule."""
    plain: str
    """One paragraph that a non-statistician can quote, with every number formatted from the computed values; its first
    two sentences stand in the table of all claims."""
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
    """Further sentences for the page: which computation gives the published figure, what the data cannot decide."""
    table: pd.DataFrame | None = None
    """The numbers behind the verdict, shown on the page."""
    figure: Drawing = Drawing()
    posterior: FittedModel | Undrawn | None = None
    """The fitted model that accompanies the classical test; undrawn where the report does not draw it."""
    curve: SpecificationCurve | None = None
    """The estimate and the verdict under every defensible choice."""

    @property
    def stands(self) -> str:
        """The verdict as a line has it: with its condition, or why it is open and where it leans."""
        strength, line = self.strength, self.verdict
        line += f" ({self.reason})" if self.reason else ""
        line += f", leans to “{strength.leans}”" if strength.leans else ""
        line += f", unless {strength.unless}" if strength.unless else ""
        return line + (", provisional" if strength.provisional and self.verdict != UNMEASURED else "")

    @property
    def claim(self) -> str:
        """Id of the claim, with which the finding's begins."""
        return self.id.partition(".")[0]

    @property
    def has_rows(self) -> bool:
        """Whether its set of evidence has rows for the question, be it that notes name models that are left out."""
        return self.verdict != UNMEASURED or self.sample.n_models > 0 or bool(self.notes)


def from_columns(values: Mapping[str, Any]) -> Finding:
    """A finding from what the table has of it, without its tables and figures.

    Raises KeyError for a column that findings do not have.
    """
    parts = {"headline": Estimate, "criterion": Criterion, "strength": Strength, "sample": Sample, "audit": Audit}
    parts |= {"convergence": Convergence, "figure": Drawing}
    fields: dict[str, Any] = {}
    for name, value in values.items():
        record, _, field = Finding.COLUMNS[name].partition(".")
        if field:
            fields.setdefault(record, {})[field] = tuple(value) if field == "tipping" else value
        elif record != "claim":
            fields[record] = tuple(value) if record == "notes" else value
    return Finding(**{name: parts[name](**value) if name in parts else value for name, value in fields.items()})


def text_of(finding: Finding) -> str:
    """A finding as a person would read it on a terminal."""
    head, sample, posterior = finding.headline, finding.sample, finding.posterior
    plain = f"{finding.plain} {finding.criterion.settles}".strip()
    lines = [f"{finding.verdict.upper()}  {finding.estimand}", wrapped(plain)]
    lines += [f"  stands       {finding.stands}"] * (finding.stands != finding.verdict)
    lines += [f"  worst world  p {finding.strength.p}"] * bool(finding.strength.p)
    lines += [f"  estimate     {estimate_text(head)}"] * (head.value is not None)
    lines += [f"  probability  {probability_text(head)}"] * (head.p is not None)
    if isinstance(posterior, Undrawn):
        lines.append(f"  posterior    {posterior.statement} is not drawn: thermostats report {finding.claim} --draw")
    elif posterior is not None:
        conclusion = posterior.conclusion
        lines.append(f"  posterior    {chance_of(conclusion.statement, conclusion.probability)}")
        lines += [wrapped(f"Check: {reason}") for reason in posterior.gate.reasons]
    lines.append(f"  rests on     {plural(sample.n_models, 'model')} of {plural(sample.n_groups, sample.group)}")
    if finding.curve is not None:
        lines.append(f"  curve        {finding.curve.summary}")
    for row in comparison(finding.audit.published, finding.audit.reproduced):
        lines.append(
            f"  {row.name}: published {row.published}, reproduced {row.reproduced or 'not recomputed'} {row.word}"
        )
    lines += [wrapped(f"Note: {note}") for note in (sample.coincidence, *finding.notes) if note]
    if finding.table is not None:
        lines.append(finding.table.to_string(index=False, float_format=number))
    return "\n".join(lines)


def two_verdicts(findings: Sequence[Finding]) -> tuple[Finding | None, Finding | None]:
    """A claim's first question on the study's own files and on all evidence; None where it is not put to that set."""
    first = findings[0] if findings else None
    by_set = {f.sample.evidence: f for f in reversed(findings) if first is not None and f.id == first.id}
    own = next((by_set[name] for name in OWN if name in by_set), None)
    return own, by_set.get(POOLED)


def wrapped(text: str) -> str:
    """A paragraph for a terminal."""
    return textwrap.fill(text, width=100, initial_indent="  ", subsequent_indent="  ")

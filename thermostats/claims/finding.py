"""A finding: what one set of evidence says about one estimand of one claim; a row of the table `findings`."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from thermostats.claims.posterior import FittedModel
from thermostats.claims.verdict import Reason
from thermostats.formatting import chance_of, comparison, estimate_text, number, plural, probability_text
from thermostats.modelling.specification.curve import SpecificationCurve


@dataclass(frozen=True)
class Finding:
    """What the tables say about one estimand of one claim; a row of the table `findings`.

    `published` and `reproduced` are named figures with the same names where a figure could be recomputed; a name that
    is only in `published` could not. A name that ends in `<` or `>` is a bound ("Fisher p <": 0.001). `lower` and
    `upper` are of the kind and level that `interval` names. `plain` is one paragraph that a non-statistician can quote,
    with every number formatted from the computed values; its first two sentences stand in the table of all claims, and
    `estimand` names the estimate there.
    """

    claim: str
    estimand: str
    verdict: str
    plain: str
    published: Mapping[str, float] = field(default_factory=dict)
    reproduced: Mapping[str, float] = field(default_factory=dict)
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    interval: str = ""
    above: float | None = None
    """Number above which the estimate supports the statement by the rule; None where the rule names none."""
    below: float | None = None
    """Number below which it does."""
    probability: float | None = None
    probability_kind: str = ""
    """What `probability` is: `p-value` (two-sided or without sides) or `one-sided p-value`, both adjusted for the
    family of claims on the index, or what it is posterior of."""
    n_models: int = 0
    n_heritages: int = 0
    group: str = "lab"
    """What `n_heritages` counts: labs, or recipes where models were trained in the controlled study."""
    coincidence: str = ""
    """Labs that one source alone measured, in a sentence; empty where the set has one source, or no such lab."""
    rhat_max: float | None = None
    ess_min: float | None = None
    divergences: int | None = None
    notes: tuple[str, ...] = ()
    """Further sentences for the page: which computation gives the published figure, what the data cannot decide."""
    table: pd.DataFrame | None = None
    """The numbers behind the verdict, shown on the page."""
    draw: Callable[..., object] | None = None
    """Draws the finding's figure onto the matplotlib axes it is given."""
    caption: str = ""
    """What the figure shows and what was estimated; its alt text."""
    posterior: FittedModel | None = None
    """The fitted model that accompanies the classical test; `verdict` is that of the primary rule."""
    id: str = ""
    """Stable name, such as `C04.architecture.penultimate_gain`."""
    evidence: str = ""
    """Set of evidence that it rests on; empty: mathematics."""
    reason: str = Reason.NONE
    """Why the verdict is inconclusive."""
    rule: str = ""
    """The rule that decided, in words."""
    rule_in_short: str = ""
    """The same in a few short sentences; empty where the claim alone states its rule."""
    could: str = ""
    """What the rule could have shown: its error rates in simulated worlds, in a sentence or two."""
    worlds: int | None = None
    """Kinds of simulated worlds in which its rule was tried; None where there is nothing to try."""
    operating: pd.DataFrame | None = None
    """How often the rule gives each verdict in simulated worlds, one row per world."""
    view_of: str = ""
    """Set of evidence to which the question was put first; empty: this one."""
    statement: str = ""
    """What several findings ask, by one name; their decisive verdicts must agree (`claims/statements.py`)."""
    settles: str = ""
    """What a larger study would find, or which unit carries it; empty where nothing was simulated."""
    curve: SpecificationCurve | None = None
    """The estimate and the verdict under every defensible choice."""


def text_of(finding: Finding) -> str:
    """A finding as a person would read it on a terminal."""
    lines = [f"{finding.verdict.upper()}  {finding.estimand}", wrapped(f"{finding.plain} {finding.settles}".strip())]
    lines += [f"  estimate     {estimate_text(finding)}"] * (finding.estimate is not None)
    lines += [f"  probability  {probability_text(finding)}"] * (finding.probability is not None)
    if finding.posterior is not None:
        lines.append(f"  posterior    {chance_of(finding.posterior.statement, finding.posterior.probability)}")
        lines += [wrapped(f"Check: {reason}") for reason in finding.posterior.gate.reasons]
    lines.append(f"  rests on     {plural(finding.n_models, 'model')} of {plural(finding.n_heritages, finding.group)}")
    if finding.curve is not None:
        lines.append(f"  curve        {finding.curve.summary}")
    for row in comparison(finding.published, finding.reproduced):
        lines.append(
            f"  {row.name}: published {row.published}, reproduced {row.reproduced or 'not recomputed'} {row.word}"
        )
    lines += [wrapped(f"Note: {note}") for note in (finding.coincidence, *finding.notes) if note]
    if finding.table is not None:
        lines.append(finding.table.to_string(index=False, float_format=number))
    return "\n".join(lines)


def wrapped(text: str) -> str:
    """A paragraph for a terminal."""
    return textwrap.fill(text, width=100, initial_indent="  ", subsequent_indent="  ")

"""Rules: which numbers of a result support a statement and which count against it, written once and
read by people.

A rule is a condition for "supported" and one for "not supported", and whatever meets neither is
inconclusive.

    Above("heritage − geometry", 0) & Above("geometry − scale", 0)
    Decide((V("r") < 0) & (V("r").p <= 0.05), V("r").lower > -0.3)
    EveryRow(Below("last gain", 1), "models")
    Posterior("slope on depth < 0", draws=V("n_layers") < 0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.condition import (
    ALPHA,
    NEAR,
    NEVER,
    Condition,
    Each,
    Gate,
    Levels,
    Some,
    Truth,
    V,
)
from thermostats.claims.result import (
    AGAINST,
    OPEN,
    SUPPORTED,
    SURE,
    UNMEASURED,
    Reason,
    Result,
    TooFew,
    Verdict,
    judge_probability,
)
from thermostats.formatting import format_count, format_declared, join_words
from thermostats.modelling.draws import Statement, evaluate_statement

__all__ = [
    "ACCIDENTS",
    "ALPHA",
    "NEAR",
    "NEVER",
    "Above",
    "Always",
    "AtLeast",
    "Below",
    "Condition",
    "Decide",
    "Each",
    "EveryRow",
    "Gate",
    "Given",
    "Posterior",
    "Rule",
    "Some",
    "Sometimes",
    "V",
    "Within",
]


@dataclass(frozen=True)
class Decide:
    """Supported and not supported by a condition each, in that order; neither: inconclusive.

    `a & b`: one against decides, support needs both; `a | b`: the reverse.

    Examples
    --------
    >>> from thermostats.claims.result import Estimate, Result
    >>> from thermostats.claims.rule import Decide, V
    >>> rule = Decide(V("share").interval > 0.8, V("share") < 0.5)
    >>> str(rule.verdict(Result(quantities={"share": Estimate(0.9, 0.85, 0.95)})))
    'supported'
    """

    supported: Condition
    against: Condition
    divided: Condition = NEVER
    """Where it holds, an inconclusive answer hangs on how columns are put into blocks
    (`Reason.CODING`)."""

    def verdict(self, result: Result) -> Verdict:
        """What the result says by this rule: by the first condition that holds."""
        if self.supported.holds(result):
            return SUPPORTED
        return AGAINST if self.against.holds(result) else OPEN

    def level(self, result: Result, verdict: Verdict) -> Levels:
        """Attained level of one side: the smallest nominal level at which the rule would give
        it."""
        return self.side(verdict).attained(result)

    def side(self, verdict: Verdict) -> Condition:
        """The condition of one side."""
        return self.supported if verdict == SUPPORTED else self.against

    def nearly(self) -> Decide:
        """The rule by conditions that are nearly its own: the side to which an open verdict
        leans."""
        return replace(self, supported=self.supported.nearly(), against=self.against.nearly())

    def words(self) -> str:
        """Both conditions; one that nothing meets is left out."""
        parts = []
        if self.supported != NEVER:
            parts.append(f"supported where {self.supported.words}")
        if self.against != NEVER:
            parts.append(f"not supported where {self.against.words}")
        text = "; ".join(parts)
        if self.divided != NEVER:
            text += f"; else {Reason.CODING} where {self.divided.words}"
        return text or "inconclusive whatever it shows"

    def brief(self) -> list[str]:
        """A sentence a condition."""
        sentences = []
        if self.supported != NEVER:
            sentences.append(f"Supported where {self.supported.brief}.")
        if self.against != NEVER:
            sentences.append(f"Not supported where {self.against.brief}.")
        if self.divided != NEVER:
            sentences.append(f"Else it {Reason.CODING} where {self.divided.brief}.")
        return sentences

    def __and__(self, other: Decide) -> Decide:
        """The rule that both rules must be met: supported where both support, against where either
        does."""
        return Decide(self.supported & other.supported, self.against | other.against)

    def __or__(self, other: Decide) -> Decide:
        """The rule that one of two must be met: supported where either supports, against where both
        do."""
        return Decide(self.supported | other.supported, self.against & other.against)


def Above(name: str, bar: float) -> Decide:
    """Declare supported if the whole interval lies above the threshold, not supported if below.

    Parameters
    ----------
    name : str
        The quantity.
    bar : float
        The threshold.

    Returns
    -------
    Decide
        The rule.

    Examples
    --------
    >>> from thermostats.claims.result import Estimate, Result
    >>> from thermostats.claims.rule import Above
    >>> str(Above("share", 0.8).verdict(Result(quantities={"share": Estimate(0.9, 0.7, 0.95)})))
    'inconclusive'
    """
    return Decide(V(name).interval > bar, V(name).interval < bar)


def Below(name: str, bar: float) -> Decide:
    """Declare supported if the whole interval lies below the threshold, not supported if above.

    Parameters
    ----------
    name : str
        The quantity.
    bar : float
        The threshold.

    Returns
    -------
    Decide
        The rule.

    Examples
    --------
    >>> from thermostats.claims.result import Estimate, Result
    >>> from thermostats.claims.rule import Below
    >>> str(Below("slope", 0).verdict(Result(quantities={"slope": Estimate(-0.2, -0.3, -0.1)})))
    'supported'
    """
    return Decide(V(name).interval < bar, V(name).interval > bar)


def Within(name: str, low: float, high: float) -> Decide:
    """Declare supported if the whole interval lies within the limits, not supported if outside.

    Parameters
    ----------
    name : str
        The quantity.
    low, high : float
        The limits.

    Returns
    -------
    Decide
        The rule.

    Examples
    --------
    >>> from thermostats.claims.result import Estimate, Result
    >>> from thermostats.claims.rule import Within
    >>> near = Result(quantities={"ratio": Estimate(1, 0.95, 1.05)})
    >>> str(Within("ratio", 0.9, 1.1).verdict(near))
    'supported'
    """
    return Above(name, low) & Below(name, high)


def EveryRow(rule: Decide, table: str = "rows") -> Decide:
    """Declare a rule that every row of a table must meet.

    One row against it decides, and support needs all rows.

    Parameters
    ----------
    rule : Decide
        The rule of a row.
    table : str
        The result's table.

    Returns
    -------
    Decide
        The rule of the result.

    Examples
    --------
    >>> import pandas as pd
    >>> from thermostats.claims.result import Result
    >>> from thermostats.claims.rule import Above, EveryRow
    >>> rows = pd.DataFrame({"share": [0.9, 0.6], "lower": [0.85, 0.5], "upper": [1.0, 0.7]})
    >>> str(EveryRow(Above("share", 0.8)).verdict(Result(rows={"rows": rows})))
    'not supported'
    """
    return Decide(Each(table, rule.supported), Some(table, rule.against))


ACCIDENTS = 1
"""Clear counterexamples to a statement about every unit that may be accidents; more refute it."""


def Always(counterexamples: str, enough: Condition, clear: str = "") -> Decide:
    """Declare a statement about every unit.

    It is supported where none is against it and there is enough for it. Not supported where more
    than `ACCIDENTS` units are against it, beyond their errors of measurement where those are known.
    One alone leaves it open. What some units do is a fact about them, so neither count says
    anything of a large sample.

    Parameters
    ----------
    counterexamples : str
        The quantity that counts units against it.
    enough : Condition
        There is enough for it.
    clear : str
        A quantity of its own, where some are against it that are not clear.

    Returns
    -------
    Decide
        The rule.

    Examples
    --------
    >>> from thermostats.claims.result import Estimate, Result
    >>> from thermostats.claims.rule import Always, V
    >>> rule = Always("against", V("models") >= 10)
    >>> counts = {"against": Estimate(0), "models": Estimate(12)}
    >>> str(rule.verdict(Result(quantities=counts)))
    'supported'
    """
    return Decide(
        Gate(V(counterexamples) <= 0) & enough, Gate(V(clear or counterexamples) > ACCIDENTS)
    )


def Sometimes(instances: str, enough: Condition) -> Decide:
    """Declare that something can happen, the contrary of `Always`.

    It is supported where more than `ACCIDENTS` units show it.

    Parameters
    ----------
    instances : str
        The quantity that counts units that show it.
    enough : Condition
        Where no unit shows it and this holds, it is not supported.

    Returns
    -------
    Decide
        The rule.

    Examples
    --------
    >>> from thermostats.claims.result import Estimate, Result
    >>> from thermostats.claims.rule import Sometimes, V
    >>> rule = Sometimes("crossed", V("models") >= 10)
    >>> counts = {"crossed": Estimate(3), "models": Estimate(4)}
    >>> str(rule.verdict(Result(quantities=counts)))
    'supported'
    """
    always = Always(instances, enough)
    return Decide(always.against, always.supported)


@dataclass(frozen=True)
class AtLeast:
    """A minimum number of models and groups (labs, recipes).

    With fewer the statement needs measurement.

    Examples
    --------
    >>> from thermostats.claims.rule import AtLeast
    >>> AtLeast(models=12, groups=4).words()
    'needs at least 12 models and 4 groups'
    """

    models: int = 0
    groups: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    """Least rows of the result's tables, by name."""

    def verdict(self, result: Result) -> Verdict:
        """SUPPORTED stands for "enough"."""
        enough = result.n_models >= self.models and result.n_groups >= self.groups
        enough &= all(len(result.rows[name]) >= least for name, least in self.rows.items())
        return SUPPORTED if enough else UNMEASURED

    def check_rows(self, rows: pd.DataFrame, group: str = "heritage", **words: Any) -> pd.DataFrame:
        """Rows of models, handed on where they are enough, models and groups counted; raises TooFew
        where not."""
        counted = Result(
            n_models=rows["model_id"].nunique(), n_groups=rows[group].nunique(), words=words
        )
        if self.verdict(counted) == UNMEASURED:
            raise TooFew(counted)
        return rows

    def words(self) -> str:
        """How many are needed."""
        counts = []
        for least, noun in ((self.models, "model"), (self.groups, "group")):
            if least:
                counts.append(format_count(least, noun))
        counts += [f"{least} of the {name}" for name, least in self.rows.items()]
        return f"needs at least {join_words(counts)}"

    def brief(self) -> list[str]:
        """The same as a sentence."""
        return [f"It {self.words()}."]


@dataclass(frozen=True)
class Posterior:
    """A statement by its posterior probability.

    `draws` is the statement as a condition on the fit's quantities, draw by draw; without it the
    result's `statements` or those of the fit know it, or its `probabilities`. `refuted` is a
    condition that speaks against whatever the posterior says, such as a clear counterexample.

    Examples
    --------
    >>> from thermostats.claims.rule import Posterior, V
    >>> Posterior("the gain falls", draws=V("slope") < 0).sure
    0.95
    """

    statement: str
    sure: float = SURE
    draws: Condition | None = None
    refuted: Condition = NEVER

    def list_statements(self, result: Result) -> Mapping[str, Statement]:
        """The statement as every check is asked it, by what it says; none where the fit knows its
        probability alone."""
        statement = self.statement
        fit = result.inference.fit
        statements = {**(fit.statements if fit is not None else {}), **result.inference.statements}
        statements |= {statement: self.draws.truth} if self.draws is not None else {}
        return {statement: statements[statement]} if statement in statements else {}

    def truth(self, result: Result) -> Truth | None:
        """Whether it holds, chain × draw; None where the fit knows the probability alone."""
        if result.inference.fit is None:
            return None
        drawn = result.inference.fit.quantities
        return next(
            (
                evaluate_statement(statement, drawn)
                for statement in self.list_statements(result).values()
            ),
            None,
        )

    def probability(self, result: Result) -> float:
        """Posterior probability of the statement; raises DataError where neither result nor fit
        knows it."""
        truth = self.truth(result)
        return (
            result.inference.probability(self.statement) if truth is None else float(truth.mean())
        )

    def verdict(self, result: Result) -> Verdict:
        """By the probability alone; whether its checks let it count is judged apart."""
        if self.refuted.holds(result):
            return AGAINST
        return judge_probability(self.probability(result), self.sure)

    def level(self, result: Result, verdict: Verdict) -> float:
        """Probability of the contrary; 0 against what is refuted."""
        if self.refuted.holds(result):
            return float(verdict == SUPPORTED)
        probability = self.probability(result)
        return 1 - probability if verdict == SUPPORTED else probability

    def side(self, _: Verdict) -> Condition:
        """Neither side is a condition on a test."""
        return self.refuted

    def nearly(self) -> Posterior:
        """The rule that is sure from a probability of 1 − `NEAR` on."""
        return replace(self, sure=min(self.sure, 1 - NEAR), refuted=self.refuted.nearly())

    def words(self) -> str:
        """The rule in words: both limits of the probability."""
        sure = format_declared(self.sure)
        unsure = format_declared(1 - self.sure)
        words = (
            f"supported where P({self.statement}) is at least {sure}, "
            f"not supported where it is at most {unsure}"
        )
        if self.refuted == NEVER:
            return words
        return f"not supported, whatever the posterior, where {self.refuted.words}; else {words}"

    def brief(self) -> list[str]:
        """The same as a sentence."""
        words = self.words()
        return [f"{words[0].upper()}{words[1:]}."]


@dataclass(frozen=True)
class Given:
    """A rule that applies only where a condition holds.

    Elsewhere there is too little data for it.

    Examples
    --------
    >>> from thermostats.claims.result import Estimate, Result
    >>> from thermostats.claims.rule import Above, Given, V
    >>> rule = Given(V("pairs") >= 5, Above("share", 0.5))
    >>> few = {"pairs": Estimate(3), "share": Estimate(0.9, 0.8, 1.0)}
    >>> str(rule.verdict(Result(quantities=few)))
    'inconclusive'
    """

    enough: Condition
    rule: Decide

    def short(self, result: Result) -> bool:
        """Whether a result has too little data."""
        return not self.enough.holds(result)

    def verdict(self, result: Result) -> Verdict:
        """By the rule."""
        return OPEN if self.short(result) else self.rule.verdict(result)

    def level(self, result: Result, verdict: Verdict) -> Levels:
        """That of the rule, where there is enough."""
        return np.where(self.enough.attained(result) > 0, 1.0, self.rule.level(result, verdict))

    def side(self, verdict: Verdict) -> Condition:
        """That of the rule."""
        return self.rule.side(verdict)

    def nearly(self) -> Decide:
        """What it applies is nearly met; there is enough data without a unit where there is with
        it."""
        return self.rule.nearly()

    def words(self) -> str:
        """The rule in words: when there is too little data, and what decides where there is
        enough."""
        return f"too little data unless {self.enough.words}; {self.rule.words()}"

    def brief(self) -> list[str]:
        """A sentence a condition, then when there is too little data."""
        return [*self.rule.brief(), f"Too little data unless {self.enough.brief}."]


Rule = Decide | Posterior | Given
"""What decides on a result (`verdict`, `level`), states itself (`words`) and knows what is nearly
enough (`nearly`)."""

"""Rules: which numbers of a result support a statement and which count against it, written once and read by people.

A condition compares a named number of the result with a threshold. A rule is a condition for "supported" and one for
"not supported", and whatever meets neither is inconclusive. Missing numbers and NaN meet no condition.

    Above("heritage − geometry", 0) & Above("geometry − scale", 0)
    Decide((V("r") < 0) & (V("r").p <= 0.05), V("r").lower > -0.3)
    EveryRow(Below("last gain", 1), "models")
    Posterior("slope on depth < 0", draws=V("n_layers") < 0)
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from thermostats.claims.result import (
    AGAINST,
    OPEN,
    SUPPORTED,
    SURE,
    UNMEASURED,
    Estimate,
    Reason,
    Result,
    TooFew,
    Verdict,
    if_probable,
)
from thermostats.errors import DataError
from thermostats.formatting import declared, listed, plural
from thermostats.modelling.columns import holm
from thermostats.modelling.draws import Statement, truth_of

Truth = NDArray[np.bool_]
"""Whether a statement holds, chain × draw."""
Levels = Any
"""Attained level of a result, or of every study of many at once: a number or an array of them."""
OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "≤": operator.le,
    ">": operator.gt,
    "≥": operator.ge,
}
PARTS = {
    "estimate": "{}",
    "lower": "the lower end of {}",
    "upper": "the upper end of {}",
    "p": "the p-value of {}",
    "interval": "the interval of {}",
}
NEAREST = {"<": "upper", ">": "lower"}
"""The end of an interval that decides whether the whole of it lies below or above a bar."""
REACHES = {"<": ("estimate", "interval", "upper"), ">": ("estimate", "interval", "lower")}
"""Parts by which an estimate is asked to lie below or above a bar; of the other end less is asked."""
LIES = {"<": "lies below", ">": "lies above"}
SIDES = {("lower", ">"): "above", ("upper", "<"): "below", ("interval", ">"): "above", ("interval", "<"): "below"}
"""Where an interval lies of which one end is compared so."""
OF_P = re.compile(r"the p-value of (.+) (?=[<≤>≥] )")
SUBJECT = re.compile(r"the interval of [^,]+ is |[^,]+? (?=[<≤>≥] )")
"""What a condition is about, at its beginning."""
ALPHA = 0.05
"""Largest attained level at which a side of a rule is given."""
NEAR = 4 * ALPHA
"""Largest p at which a side is nearly met: an open verdict leans to it."""
END = 1.959963984540054
"""Standard errors from an estimate to the end of its interval."""


def _of_rows_alone(drawn: Mapping[str, NDArray[Any]]) -> Truth:
    raise DataError("a condition on rows cannot be applied to draws", got=", ".join(drawn))


@dataclass(frozen=True, eq=False)
class Condition:
    """Something that holds of a result, or of one row of its tables, and says what it is; joined with `&` and `|`."""

    words: str
    """The condition as a person reads it."""
    holds: Callable[[Result], bool]
    """Whether a result meets it; raises DataError for a quantity or a table that the result lacks."""
    truth: Callable[[Mapping[str, NDArray[Any]]], Truth] = _of_rows_alone
    """Whether the quantities of a fit meet it, of a quantity with several elements all; not for conditions on rows."""
    bars: tuple[tuple[str, str, float], ...] = ()
    """Numbers that quantities are compared with: name, < or >, number."""
    short: str = ""
    """The condition in fewer words, for a sentence; empty where there are none."""
    loosened: Callable[[], Condition] | None = None
    """Makes the condition that is nearly this one; None: it is as strict."""
    level: Callable[[Result], Levels] | None = None
    """The smallest nominal level at which it would hold of a result, 1 where at none; of a gate 0 or 1."""
    states: Callable[[], Condition] | None = None
    """What it says of a large sample: estimates on one side of their bars; None: nothing, as p-values and gates do."""

    def attained(self, result: Result) -> Levels:
        """The attained level of a result; raises DataError for a condition without a level."""
        if self.level is None:
            raise DataError(NO_LEVEL, got=self.words, allowed="comparisons of V, joined with & and |, Each, Some, Pick")
        return self.level(result)

    def statement(self) -> Condition:
        """What it says of a large sample; the condition itself where it compares no estimate with a bar."""
        return self.states() if self.states is not None else self

    def nearly(self) -> Condition:
        """The condition with its bars loosened: ends of intervals are the estimate, and a p is small up to `NEAR`."""
        return self.loosened() if self.loosened is not None else self

    def __and__(self, other: Condition) -> Condition:
        """The condition that both conditions hold."""
        if NEVER in (self, other):
            return NEVER
        return Condition(
            f"{self.words} and {other.words}",
            lambda result: self.holds(result) and other.holds(result),
            lambda drawn: self.truth(drawn) & other.truth(drawn),
            self.bars + other.bars,
            _both(self.brief, other.brief),
            lambda: self.nearly() & other.nearly(),
            _joined(np.maximum, self, other),
            _stated_by_both(self, other),
        )

    @property
    def brief(self) -> str:
        """The condition in as few words as it has."""
        return self.short or self.words

    def __or__(self, other: Condition) -> Condition:
        """One of them, or both."""
        if NEVER in (self, other):
            return other if self is NEVER else self
        return Condition(
            f"({self.words} or {other.words})",
            lambda result: self.holds(result) or other.holds(result),
            lambda drawn: self.truth(drawn) | other.truth(drawn),
            self.bars + other.bars,
            f"{self.brief}, or {_after(self.brief, other.brief)}",
            lambda: self.nearly() | other.nearly(),
            _joined(np.minimum, self, other),
            None if _opposite(self, other) else lambda: self.statement() | other.statement(),
        )


def _joined(
    extreme: Callable[[Levels, Levels], Levels], first: Condition, second: Condition
) -> Callable[[Result], Levels] | None:
    """The level of two conditions together, where both have one."""
    one, other = first.level, second.level
    return None if one is None or other is None else lambda result: extreme(one(result), other(result))


def _opposite(first: Condition, second: Condition) -> bool:
    """Whether two conditions state nothing of a large sample, or both sides of one bar, of which one always holds."""
    sides = {(name, bar) for name, _, bar in first.bars}, {(name, bar) for name, _, bar in second.bars}
    return not (first.states or second.states) or (bool(sides[0]) and sides[0] == sides[1])


def _stated_by_both(first: Condition, second: Condition) -> Callable[[], Condition] | None:
    """What two conditions state together: p-values and gates next to an estimate state nothing."""
    if first.states is None or second.states is None:
        return first.states or second.states
    one, other = first.states, second.states
    return lambda: one() & other()


def _both(left: str, right: str) -> str:
    """Two conditions in a sentence."""
    first, second = (f"({part})" if ", or " in part else part for part in (left, _after(left, right)))
    return f"{first} and {second}"


def _after(first: str, second: str) -> str:
    """The second of two conditions, without the subject that it shares with the first."""
    about = OF_P.match(second)
    if about and about[1] in first:
        return f"its p-value {second[about.end() :]}"
    subjects = [match[0] if (match := SUBJECT.match(part)) else "" for part in (first, second)]
    return second.removeprefix(subjects[0]) if subjects[0] == subjects[1] else second


@dataclass(frozen=True)
class V:
    """A named number of a result: the estimate, or with `.lower`, `.upper`, `.p`, `.interval` another part of it.

    `V("x").interval` is compared as a whole: `> 1` where its lower end is above 1. Comparisons with a number or another
    V are conditions.
    """

    name: str
    part: str = "estimate"

    @property
    def lower(self) -> V:
        """Lower end of the interval."""
        return V(self.name, "lower")

    @property
    def upper(self) -> V:
        """Upper end of the interval."""
        return V(self.name, "upper")

    @property
    def p(self) -> V:
        """P-value."""
        return V(self.name, "p")

    @property
    def interval(self) -> V:
        """The whole interval; compared with < and > alone."""
        return V(self.name, "interval")

    def of(self, result: Result, sign: str = "") -> float:
        """The number in a result; NaN where the estimate has no such part. Raises DataError for a name it lacks."""
        value = self._part(result, sign)
        return math.nan if value is None else float(value)

    def of_studies(self, result: Result, sign: str = "") -> Levels:
        """The same of many studies at once, whose parts are arrays."""
        value = self._part(result, sign)
        return np.asarray(math.nan if value is None else value, dtype=np.float64)

    def _part(self, result: Result, sign: str) -> Any:
        if self.name not in result.quantities:
            names = ", ".join(result.quantities)
            raise DataError("a rule reads a quantity that the result lacks", got=self.name, allowed=names)
        return getattr(result.quantities[self.name], NEAREST[sign] if self.part == "interval" else self.part)

    def _against(self, sign: str, bar: float | V) -> Condition:
        compare, left, side = OPERATORS[sign], self, "<" if sign in "<≤" else ">"
        words = bar.words if isinstance(bar, V) else declared(bar)

        where = SIDES.get((self.part, sign))

        def truth(drawn: Mapping[str, NDArray[Any]]) -> Truth:
            holds = np.asarray(compare(drawn[left.name], drawn[bar.name] if isinstance(bar, V) else bar))
            return np.asarray(holds.all(axis=tuple(range(2, holds.ndim))))

        return Condition(
            f"{self.words} {LIES[sign] if self.part == 'interval' else sign} {words}",
            lambda result: bool(compare(left.of(result, sign), bar.of(result) if isinstance(bar, V) else bar)),
            truth,
            ((self.name, side, bar),) if self.part in REACHES[side] and not isinstance(bar, V) else (),
            f"the interval of {self.name} is {where} {words}" if where else "",
            lambda: self._nearly_against(sign, bar),
            lambda result: self._level_against(sign, bar, result),
            None if self.part == "p" else lambda: self._nearly_against(sign, bar),
        )

    def _level_against(self, sign: str, bar: float | V, result: Result) -> Levels:
        """p of "p ≤ α"; of an interval by how much it may be widened on that side, as a two-sided normal level."""
        number = bar.of_studies(result) if isinstance(bar, V) else bar
        value, side = self.of_studies(result, sign), "<" if sign in "<≤" else ">"
        with np.errstate(invalid="ignore", divide="ignore"):
            holds = OPERATORS[sign](value, number)
            if self.part == "p" and side == "<" and not isinstance(bar, V) and bar <= NEAR:
                return np.where(np.isnan(value), 1.0, value)
            if self.part not in {"interval", NEAREST[side]}:
                return np.where(holds, 0.0, 1.0)
            middle = V(self.name).of_studies(result)
            stretch = (middle - number) / (middle - value)
            of_stretch = np.where(stretch > 0, 2 * ndtr(-END * stretch), 1.0)
            whole = np.isnan(middle) | (middle == value)
            return np.where(whole, np.where(holds, 0.0, 1.0), np.where(np.isnan(value), 1.0, of_stretch))

    def _nearly_against(self, sign: str, bar: float | V) -> Condition:
        if self.part != "p":
            return self._middle()._against(sign, bar._middle() if isinstance(bar, V) else bar)
        strict = sign in "<≤" and not isinstance(bar, V) and bar <= NEAR
        return self._against("≤", NEAR) if strict else self._against(sign, bar)

    def _middle(self) -> V:
        return V(self.name) if self.part in {"lower", "upper", "interval"} else self

    @property
    def words(self) -> str:
        """The number as a person reads it."""
        return PARTS[self.part].format(self.name)

    def __lt__(self, bar: float | V) -> Condition:
        return self._against("<", bar)

    def __le__(self, bar: float | V) -> Condition:
        return self._against("≤", bar)

    def __gt__(self, bar: float | V) -> Condition:
        return self._against(">", bar)

    def __ge__(self, bar: float | V) -> Condition:
        return self._against("≥", bar)


@dataclass(frozen=True)
class Pick:
    """The row of a table with the smallest or largest value of a column: what is picked after looking."""

    table: str
    smallest: str = ""
    largest: str = ""

    def row(self, result: Result) -> Mapping[str, object]:
        """The row that is picked; the first of equal ones."""
        frame = result.rows[self.table]
        place = frame[self.smallest].idxmin() if self.smallest else frame[self.largest].idxmax()
        return {str(name): value for name, value in frame.loc[place].items()}

    def where(self, condition: Condition) -> Condition:
        """A condition on that row alone; an empty table does not meet it."""
        return Condition(
            f"for {self.words}, {condition.words}",
            lambda result: not result.rows[self.table].empty and condition.holds(_of_row(self.row(result))),
            bars=condition.bars,
            short=f"for {self.words}, {condition.brief}",
            loosened=lambda: self.where(condition.nearly()),
            level=condition.level
            and (lambda r: 1.0 if r.rows[self.table].empty else condition.attained(_of_row(self.row(r)))),
            states=condition.states and (lambda: self.where(condition.statement())),
        )

    @property
    def words(self) -> str:
        """Which row it is."""
        return f"the {self.table} with the {'smallest' if self.smallest else 'largest'} {self.smallest or self.largest}"


def Each(table: str, condition: Condition) -> Condition:
    """A condition on every row of one of the result's tables; an empty table does not meet it.

    Columns `x`, `x_lower`, `x_upper`, `x_p` are the parts of the quantity x; without them the columns `lower`, `upper`
    and `p` belong to every quantity of the row.
    """

    def holds(result: Result) -> bool:
        met = [condition.holds(row) for row in _rows(result, table)]
        return bool(met) and all(met)

    return Condition(
        f"in each of the {table}, {condition.words}",
        holds,
        bars=condition.bars,
        short=f"in each of the {table}, {condition.brief}",
        loosened=lambda: Each(table, condition.nearly()),
        level=condition.level and (lambda r: _extreme(np.maximum, condition, _rows(r, table))),
        states=condition.states and (lambda: Each(table, condition.statement())),
    )


def Some(table: str, condition: Condition, adjust: str = "") -> Condition:
    """A condition on at least one row; `adjust="holm"` adjusts column `p` over them. Columns: see `Each`."""
    adjusted = f" (adjusted by {adjust.capitalize()} over all of them)" if adjust else ""
    return Condition(
        f"in at least one of the {table}, {condition.words}{adjusted}",
        lambda result: any(condition.holds(row) for row in _rows(result, table, adjust)),
        bars=condition.bars,
        short=f"in at least one of the {table}, {condition.brief}{adjusted}",
        loosened=lambda: Some(table, condition.nearly(), adjust),
        level=condition.level and (lambda r: _extreme(np.minimum, condition, _rows(r, table, adjust))),
        states=condition.states and (lambda: Some(table, condition.statement(), adjust)),
    )


def Gate(condition: Condition) -> Condition:
    """A condition on the sample alone, such as a count: it must be met, and says nothing of a large sample."""
    return replace(condition, states=None)


NEVER = Condition("never", lambda result: False, level=lambda result: 1.0)
"""A condition that nothing meets, for a rule with one side."""
NO_LEVEL = "a condition without a level"


def _extreme(extreme: np.ufunc, condition: Condition, rows: list[Result]) -> Levels:
    """The largest or smallest level of a condition over rows; 1 where there are none."""
    return extreme.reduce([condition.attained(row) for row in rows], axis=0) if rows else 1.0


def _rows(result: Result, table: str, adjust: str = "") -> list[Result]:
    """Rows of a table of a result as results of their own; of many studies at once a table is a list of rows."""
    if table not in result.rows:
        raise DataError("a rule reads a table that the result lacks", got=table, allowed=", ".join(result.rows))
    frame: Any = result.rows[table]
    if isinstance(frame, list):
        return [Result(quantities=row) for row in (_adjusted(frame) if adjust else frame)]
    if adjust and len(frame):
        frame = frame.assign(p=holm(frame["p"].to_dict()))
    return [_of_row(row) for row in frame.to_dict("records")]


def _adjusted(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of many studies at once, each with one p for all of its quantities, with these adjusted as `holm` does."""
    p = np.stack([next(iter(row.values())).p for row in rows])
    order, factors = p.argsort(axis=0), np.arange(len(p), 0, -1)[:, None]
    raised = np.minimum(np.maximum.accumulate(np.take_along_axis(p, order, axis=0) * factors, axis=0), 1.0)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, raised, axis=0)
    return [{name: replace(q, p=each) for name, q in row.items()} for row, each in zip(rows, adjusted, strict=True)]


def _of_row(row: Mapping[Any, object]) -> Result:
    """A row of a table as a result of its own."""
    named = {str(name): float(value) for name, value in row.items() if isinstance(value, int | float)}

    def part(name: str, which: str) -> float | None:
        return named.get(f"{name}_{which}", named.get(which))

    return Result(
        quantities={
            name: Estimate(value, part(name, "lower"), part(name, "upper"), p=part(name, "p"))
            for name, value in named.items()
        }
    )


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
    "Pick",
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
    """

    supported: Condition
    against: Condition
    divided: Condition = NEVER
    """Where it holds, an inconclusive answer hangs on how columns are put into blocks (`Reason.CODING`)."""

    def verdict(self, result: Result) -> Verdict:
        """What the result says by this rule: by the first condition that holds."""
        return SUPPORTED if self.supported.holds(result) else AGAINST if self.against.holds(result) else OPEN

    def level(self, result: Result, verdict: Verdict) -> Levels:
        """Attained level of one side: the smallest nominal level at which the rule would give it."""
        return self.side(verdict).attained(result)

    def side(self, verdict: Verdict) -> Condition:
        """The condition of one side."""
        return self.supported if verdict == SUPPORTED else self.against

    def nearly(self) -> Decide:
        """The rule by conditions that are nearly its own: the side to which an open verdict leans."""
        return replace(self, supported=self.supported.nearly(), against=self.against.nearly())

    def words(self) -> str:
        """Both conditions; one that nothing meets is left out."""
        sides = (("supported", self.supported), ("not supported", self.against))
        text = "; ".join(f"{name} where {side.words}" for name, side in sides if side is not NEVER)
        text += f"; else {Reason.CODING} where {self.divided.words}" if self.divided is not NEVER else ""
        return text or "inconclusive whatever it shows"

    def brief(self) -> list[str]:
        """A sentence a condition."""
        sides = (("Supported", self.supported), ("Not supported", self.against))
        sentences = [f"{name} where {side.brief}." for name, side in sides if side is not NEVER]
        divided = f"Else it {Reason.CODING} where {self.divided.brief}."
        return [*sentences, divided] if self.divided is not NEVER else sentences

    def __and__(self, other: Decide) -> Decide:
        """The rule that both rules must be met: supported where both support, against where either does."""
        return Decide(self.supported & other.supported, self.against | other.against)

    def __or__(self, other: Decide) -> Decide:
        """The rule that one of two must be met: supported where either supports, against where both do."""
        return Decide(self.supported | other.supported, self.against & other.against)


def Above(name: str, bar: float) -> Decide:
    """Supported if the whole interval lies above the threshold, not supported if it lies below."""
    return Decide(V(name).interval > bar, V(name).interval < bar)


def Below(name: str, bar: float) -> Decide:
    """Supported if the whole interval lies below the threshold, not supported if it lies above."""
    return Decide(V(name).interval < bar, V(name).interval > bar)


def Within(name: str, low: float, high: float) -> Decide:
    """Supported if the whole interval lies within the limits, not supported if it lies outside."""
    return Above(name, low) & Below(name, high)


def EveryRow(rule: Decide, table: str = "rows") -> Decide:
    """A rule that every row of a table must meet: one row against it decides, and support needs all rows."""
    return Decide(Each(table, rule.supported), Some(table, rule.against))


ACCIDENTS = 1
"""Clear counterexamples to a statement about every unit that may be accidents; more refute it."""


def Always(counterexamples: str, enough: Condition, clear: str = "") -> Decide:
    """A statement about every unit: supported where none is against it and there is enough for it.

    Not supported where more than `ACCIDENTS` units are against it, beyond their errors of measurement where those are
    known (`clear`, a quantity of its own where some are against it that are not clear). One alone leaves it open. What
    some units do is a fact about them, so neither count says anything of a large sample.
    """
    return Decide(Gate(V(counterexamples) <= 0) & enough, Gate(V(clear or counterexamples) > ACCIDENTS))


def Sometimes(instances: str, enough: Condition) -> Decide:
    """That something can happen, the contrary of `Always`: supported where more than `ACCIDENTS` units show it."""
    always = Always(instances, enough)
    return Decide(always.against, always.supported)


@dataclass(frozen=True)
class AtLeast:
    """A minimum number of models and groups (labs, recipes); with fewer the statement needs measurement."""

    models: int = 0
    groups: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    """Least rows of the result's tables, by name."""

    def verdict(self, result: Result) -> Verdict:
        """SUPPORTED stands for "enough"."""
        enough = result.n_models >= self.models and result.n_groups >= self.groups
        enough &= all(len(result.rows[name]) >= least for name, least in self.rows.items())
        return SUPPORTED if enough else UNMEASURED

    def of(self, rows: pd.DataFrame, group: str = "heritage", **words: Any) -> pd.DataFrame:
        """Rows of models, handed on where they are enough, models and groups counted; raises TooFew where not."""
        counted = Result(n_models=rows["model_id"].nunique(), n_groups=rows[group].nunique(), words=words)
        if self.verdict(counted) == UNMEASURED:
            raise TooFew(counted)
        return rows

    def words(self) -> str:
        """How many are needed."""
        counts = [plural(n, noun) for n, noun in ((self.models, "model"), (self.groups, "group")) if n]
        return f"needs at least {listed([*counts, *(f'{n} of the {name}' for name, n in self.rows.items())])}"

    def brief(self) -> list[str]:
        """The same as a sentence."""
        return [f"It {self.words()}."]


@dataclass(frozen=True)
class Posterior:
    """A statement by its posterior probability; with `pick`, names in braces are columns of the picked row.

    `draws` is the statement as a condition on the fit's quantities, draw by draw; without it the result's `statements`
    or those of the fit know it, or its `probabilities`. `against` is another statement of the same fit: where given,
    its probability of at most 1 − sure speaks against. `refuted` is a condition that speaks against whatever the
    posterior says, such as a clear counterexample.
    """

    statement: str
    sure: float = SURE
    draws: Condition | None = None
    pick: Pick | None = None
    against: str = ""
    refuted: Condition = NEVER

    def stated(self, result: Result) -> str:
        """The statement put to this result."""
        return self.statement.format(**self.pick.row(result)) if self.pick else self.statement

    def statements_of(self, result: Result) -> Mapping[str, Statement]:
        """The statement as every check is asked it, by what it says; none where the fit knows its probability alone."""
        statement, fit = self.stated(result), result.inference.fit
        statements = {**(fit.statements if fit is not None else {}), **result.inference.statements}
        statements |= {statement: self.draws.truth} if self.draws is not None else {}
        return {statement: statements[statement]} if statement in statements else {}

    def truth(self, result: Result) -> Truth | None:
        """Whether it holds, chain × draw; None where the fit knows the probability alone."""
        if result.inference.fit is None:
            return None
        drawn = result.inference.fit.quantities
        return next((truth_of(statement, drawn) for statement in self.statements_of(result).values()), None)

    def probability(self, result: Result) -> float:
        """Posterior probability of the statement; raises DataError where neither result nor fit knows it."""
        truth = self.truth(result)
        return result.inference.probability(self.stated(result)) if truth is None else float(truth.mean())

    def verdict(self, result: Result) -> Verdict:
        """By the probability alone; whether its checks let it count is judged apart."""
        if self.refuted.holds(result):
            return AGAINST
        probability = self.probability(result)
        if not self.against:
            return if_probable(probability, self.sure)
        if probability >= self.sure:
            return SUPPORTED
        return AGAINST if result.inference.probability(self.against) <= 1 - self.sure else OPEN

    def level(self, result: Result, verdict: Verdict) -> float:
        """Probability of the contrary; 0 against what is refuted."""
        if self.refuted.holds(result):
            return float(verdict == SUPPORTED)
        if verdict == SUPPORTED:
            return 1 - self.probability(result)
        return result.inference.probability(self.against) if self.against else self.probability(result)

    def side(self, _: Verdict) -> Condition:
        """Neither side is a condition on a test."""
        return self.refuted

    def nearly(self) -> Posterior:
        """The rule that is sure from a probability of 1 − `NEAR` on."""
        return replace(self, sure=min(self.sure, 1 - NEAR), refuted=self.refuted.nearly())

    def words(self) -> str:
        """The rule in words: both limits of the probability."""
        statement = re.sub(r"{(\w+)[^}]*}", r"the \1", self.statement) + (
            f", for {self.pick.words}" if self.pick else ""
        )
        refuted = f"not supported, whatever the posterior, where {self.refuted.words}; else "
        other = f"P({self.against}) is" if self.against else "it is"
        limits = f"at least {declared(self.sure)}, not supported where {other} at most {declared(1 - self.sure)}"
        return (refuted if self.refuted is not NEVER else "") + f"supported where P({statement}) is {limits}"

    def brief(self) -> list[str]:
        """The same as a sentence."""
        words = self.words()
        return [f"{words[0].upper()}{words[1:]}."]


@dataclass(frozen=True)
class Given:
    """A rule that applies only where a condition holds; elsewhere there is too little data for it."""

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
        """What it applies is nearly met; there is enough data without a unit where there is with it."""
        return self.rule.nearly()

    def words(self) -> str:
        """The rule in words: when there is too little data, and what decides where there is enough."""
        return f"too little data unless {self.enough.words}; {self.rule.words()}"

    def brief(self) -> list[str]:
        """A sentence a condition, then when there is too little data."""
        return [*self.rule.brief(), f"Too little data unless {self.enough.brief}."]


Rule = Decide | Posterior | Given
"""What decides on a result (`verdict`, `level`), states itself (`words`) and knows what is nearly enough (`nearly`)."""


def without_level(rule: Rule) -> str:
    """Words of the first side that has no attained level; empty where every side has one."""
    sides = {} if isinstance(rule, Posterior) else {v: rule.side(v) for v in (SUPPORTED, AGAINST)}
    return next((f"“{verdict}” where {side.words}" for verdict, side in sides.items() if side.level is None), "")

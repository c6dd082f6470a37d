"""Conditions on a result: which numbers must lie where, written once, read by people and put to
draws of a fit alike.

A condition compares a named number of the result with a threshold; conditions are joined with `&`
and `|`, and put to the rows of a table by `Each` and `Some`. Missing numbers and NaN meet no
condition.

    (V("r") < 0) & (V("r").p <= 0.05)
    Each("models", V("last gain").interval < 1)

It is a tree: inequalities, joined by `Both` and `Either`, put to rows by `Each` and `Some`, within
a `Gate`. Whatever is asked of it is asked of its parts.
"""

from __future__ import annotations

import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thermostats.claims.result import OF_LAW, Estimate, Result
from thermostats.errors import DataError
from thermostats.formatting import format_declared
from thermostats.modelling.classical.interval_laws import NORMAL
from thermostats.modelling.columns import apply_holm

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
"""Parts by which an estimate is asked to lie below or above a bar; of the other end less is
asked."""
LIES = {"<": "lies below", ">": "lies above"}
SIDES = {
    ("lower", ">"): "above",
    ("upper", "<"): "below",
    ("interval", ">"): "above",
    ("interval", "<"): "below",
}
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
Bar = tuple[str, str, float]
"""A number that a quantity is compared with: its name, < or >, the number."""


class Condition(ABC):
    """Something that holds of a result, or of one row of its tables, and says what it is.

    Conditions are joined with `&` and `|`.

    Examples
    --------
    >>> from thermostats.claims.condition import V
    >>> ((V("share") > 0.8) & (V("models") >= 12)).words
    'share > 0.8 and models ≥ 12'
    """

    def __new__(cls, *stated: object, **named: object) -> Self:
        """A node of a kind that can be ordered; raises DataError for a condition in words alone."""
        if cls is Condition:
            got = next(iter((*stated, *named.values())), "")
            allowed = "comparisons of V, joined with & and |, Each, Some"
            raise DataError("a condition without a level", got=got, allowed=allowed)
        return super().__new__(cls)

    @property
    @abstractmethod
    def words(self) -> str:
        """The condition as a person reads it."""

    @property
    def brief(self) -> str:
        """The condition in as few words as it has."""
        return self.words

    @property
    def bars(self) -> tuple[Bar, ...]:
        """Numbers that quantities are compared with."""
        return ()

    @abstractmethod
    def holds(self, result: Result) -> bool:
        """Whether a result meets it; raises DataError for a quantity or a table that the result
        lacks."""

    @abstractmethod
    def attained(self, result: Result) -> Levels:
        """The smallest nominal level at which it would hold of a result, 1 where at none; of a gate
        0 or 1."""

    def truth(self, drawn: Mapping[str, NDArray[Any]]) -> Truth:
        """Whether the quantities of a fit meet it, of a quantity with several elements all; raises
        DataError for conditions on rows."""
        raise DataError("a condition on rows cannot be applied to draws", got=", ".join(drawn))

    def nearly(self) -> Condition:
        """The condition with its bars loosened: ends of intervals are the estimate, and a p is
        small up to `NEAR`."""
        return self

    @property
    def states(self) -> Condition | None:
        """What it says of a large sample: estimates on one side of their bars; None: nothing, as
        p-values and gates do."""
        return None

    def statement(self) -> Condition:
        """What it says of a large sample; the condition itself where it compares no estimate with a
        bar."""
        return self.states or self

    def __and__(self, other: Condition) -> Condition:
        """The condition that both conditions hold."""
        return NEVER if NEVER in (self, other) else Both(self, other)

    def __or__(self, other: Condition) -> Condition:
        """One of them, or both."""
        if NEVER in (self, other):
            return other if self == NEVER else self
        return Either(self, other)


@dataclass(frozen=True)
class Never(Condition):
    """A condition that nothing meets, for a rule with one side.

    Examples
    --------
    >>> from thermostats.claims.condition import NEVER, V
    >>> ((V("share") > 0.8) | NEVER).words
    'share > 0.8'
    """

    @property
    def words(self) -> str:
        """Never."""
        return "never"

    def holds(self, result: Result) -> bool:
        """It does not."""
        return False

    def attained(self, result: Result) -> Levels:
        """At no level."""
        return 1.0


NEVER = Never()


@dataclass(frozen=True)
class Inequality(Condition):
    """A number of a result compared with another one, as `V` makes it.

    Examples
    --------
    >>> from thermostats.claims.condition import V
    >>> (V("share").lower > 0.8).brief
    'the interval of share is above 0.8'
    """

    left: V
    sign: str
    """One of `OPERATORS`."""
    bar: float | V

    def __post_init__(self) -> None:
        if self.left.part == "interval" and self.sign not in LIES:
            allowed = " and ".join(LIES)
            raise DataError("an interval lies below or above", got=self.sign, allowed=allowed)

    @property
    def words(self) -> str:
        """Both numbers with the sign, or where the interval lies."""
        sign = LIES[self.sign] if self.left.part == "interval" else self.sign
        return f"{self.left.words} {sign} {self._bar_words}"

    @property
    def brief(self) -> str:
        """Where the interval lies of which an end is compared; else both numbers with the sign."""
        where = SIDES.get((self.left.part, self.sign))
        if where is None:
            return self.words
        return f"the interval of {self.left.name} is {where} {self._bar_words}"

    @property
    def bars(self) -> tuple[Bar, ...]:
        """The number, where all of what is asked of the estimate is asked."""
        if isinstance(self.bar, V) or self.left.part not in REACHES[self._side]:
            return ()
        return ((self.left.name, self._side, self.bar),)

    def holds(self, result: Result) -> bool:
        """Whether the number of the result lies on this side of the other."""
        number = self.left.read_number(result, self.sign)
        return bool(OPERATORS[self.sign](number, self._read_bar(result)))

    def truth(self, drawn: Mapping[str, NDArray[Any]]) -> Truth:
        """The same of a quantity's draws, whichever part of it is compared."""
        bar = drawn[self.bar.name] if isinstance(self.bar, V) else self.bar
        holds = np.asarray(OPERATORS[self.sign](drawn[self.left.name], bar))
        return np.asarray(holds.all(axis=tuple(range(2, holds.ndim))))

    def attained(self, result: Result) -> Levels:
        """p of "p ≤ α"; of an interval p at the bar by the law by which it was made."""
        value = self.left.read_number(result, self.sign)
        if self._is_small_p:
            return np.where(np.isnan(value), 1.0, value)
        number = self._read_bar(result)
        with np.errstate(invalid="ignore"):
            exact = np.where(OPERATORS[self.sign](value, number), 0.0, 1.0)
        if self.left.part not in {"interval", NEAREST[self._side]}:
            return exact
        middle = self.left.middle.read_number(result)
        law = result.quantities[self.left.name].law or NORMAL
        of_law = law.measure_p(middle, value, number, below=self._side == ">")
        has_no_width = np.isnan(middle) | (middle == value)
        return np.where(has_no_width, exact, np.where(np.isnan(value), 1.0, of_law))

    def nearly(self) -> Condition:
        """The estimates compared; of a p that is to be small whether it is up to `NEAR`."""
        if self.left.part != "p":
            bar = self.bar.middle if isinstance(self.bar, V) else self.bar
            return replace(self, left=self.left.middle, bar=bar)
        return replace(self, sign="≤", bar=NEAR) if self._is_small_p else self

    @property
    def states(self) -> Condition | None:
        """The estimates compared; a p-value states nothing."""
        return None if self.left.part == "p" else self.nearly()

    @property
    def _side(self) -> str:
        """Side of the bar, the bar itself apart."""
        return "<" if self.sign in "<≤" else ">"

    @property
    def _is_small_p(self) -> bool:
        """Whether a p is to be as small as one that decides."""
        if self.left.part != "p" or isinstance(self.bar, V):
            return False
        return self._side == "<" and self.bar <= NEAR

    @property
    def _bar_words(self) -> str:
        return self.bar.words if isinstance(self.bar, V) else format_declared(self.bar)

    def _read_bar(self, result: Result) -> float | NDArray[np.float64]:
        return self.bar.read_number(result) if isinstance(self.bar, V) else self.bar


@dataclass(frozen=True)
class _Joined(Condition):
    """Two conditions as one."""

    first: Condition
    second: Condition

    @property
    def bars(self) -> tuple[Bar, ...]:
        """Those of both."""
        return self.first.bars + self.second.bars


@dataclass(frozen=True)
class Both(_Joined):
    """Two conditions that must both hold, as `&` makes it.

    Examples
    --------
    >>> from thermostats.claims.condition import V
    >>> ((V("r") < 0) & (V("r").p <= 0.05)).brief
    'r < 0 and its p-value ≤ 0.05'
    """

    @property
    def words(self) -> str:
        """Both in words."""
        return f"{self.first.words} and {self.second.words}"

    @property
    def brief(self) -> str:
        """Both, a subject that they share named once."""
        parts = (self.first.brief, _drop_subject(self.first.brief, self.second.brief))
        first, second = (f"({part})" if ", or " in part else part for part in parts)
        return f"{first} and {second}"

    def holds(self, result: Result) -> bool:
        """Whether both hold."""
        return self.first.holds(result) and self.second.holds(result)

    def truth(self, drawn: Mapping[str, NDArray[Any]]) -> Truth:
        """Whether both hold, draw by draw."""
        return self.first.truth(drawn) & self.second.truth(drawn)

    def attained(self, result: Result) -> Levels:
        """The larger level."""
        return np.maximum(self.first.attained(result), self.second.attained(result))

    def nearly(self) -> Condition:
        """Both, loosened."""
        return self.first.nearly() & self.second.nearly()

    @property
    def states(self) -> Condition | None:
        """What both state: p-values and gates next to an estimate state nothing."""
        first = self.first.states
        second = self.second.states
        return first & second if first and second else first or second


@dataclass(frozen=True)
class Either(_Joined):
    """Two conditions of which one must hold, or both, as `|` makes it.

    Examples
    --------
    >>> from thermostats.claims.condition import V
    >>> ((V("share").interval < 0.5) | (V("share").interval > 0.8)).brief
    'the interval of share is below 0.5, or above 0.8'
    """

    @property
    def words(self) -> str:
        """Both in words."""
        return f"({self.first.words} or {self.second.words})"

    @property
    def brief(self) -> str:
        """Both, a subject that they share named once."""
        return f"{self.first.brief}, or {_drop_subject(self.first.brief, self.second.brief)}"

    def holds(self, result: Result) -> bool:
        """Whether one holds."""
        return self.first.holds(result) or self.second.holds(result)

    def truth(self, drawn: Mapping[str, NDArray[Any]]) -> Truth:
        """Whether one holds, draw by draw."""
        return self.first.truth(drawn) | self.second.truth(drawn)

    def attained(self, result: Result) -> Levels:
        """The smaller level."""
        return np.minimum(self.first.attained(result), self.second.attained(result))

    def nearly(self) -> Condition:
        """Both, loosened."""
        return self.first.nearly() | self.second.nearly()

    @property
    def states(self) -> Condition | None:
        """What one of them states; nothing where neither does, and of both sides of one bar, of
        which one always holds."""
        if not (self.first.states or self.second.states):
            return None
        first = {(name, bar) for name, _, bar in self.first.bars}
        second = {(name, bar) for name, _, bar in self.second.bars}
        if first and first == second:
            return None
        return self.first.statement() | self.second.statement()


@dataclass(frozen=True)
class _OfRows(Condition):
    """A condition on rows of one of the result's tables."""

    table: str
    """The result's table."""
    condition: Condition
    """Of a row."""

    @property
    def words(self) -> str:
        """Of which rows, and the condition."""
        return self._set_words(self.condition.words)

    @property
    def brief(self) -> str:
        """Of which rows, and the condition in few words."""
        return self._set_words(self.condition.brief)

    @abstractmethod
    def _set_words(self, condition: str) -> str:
        """A condition in words, and of which rows it is."""

    @property
    def bars(self) -> tuple[Bar, ...]:
        """Those of a row."""
        return self.condition.bars

    def nearly(self) -> Condition:
        """The condition of a row, loosened."""
        return replace(self, condition=self.condition.nearly())

    @property
    def states(self) -> Condition | None:
        """What the condition states, of the same rows."""
        stated = self.condition.states
        return replace(self, condition=stated) if stated else None


@dataclass(frozen=True)
class Each(_OfRows):
    """A condition on every row of one of the result's tables.

    An empty table does not meet it. Columns `x`, `x_lower`, `x_upper`, `x_p` are the parts of the
    quantity x; without them the columns `lower`, `upper` and `p` belong to every quantity of the
    row.

    Examples
    --------
    >>> from thermostats.claims.condition import Each, V
    >>> Each("labs", V("gain") < 1).words
    'in each of the labs, gain < 1'
    """

    def _set_words(self, condition: str) -> str:
        return f"in each of the {self.table}, {condition}"

    def holds(self, result: Result) -> bool:
        """Whether there are rows, and every one meets it."""
        met = []
        for row in _split_rows(result, self.table):
            met.append(self.condition.holds(row))
        return bool(met) and all(met)

    def attained(self, result: Result) -> Levels:
        """The largest level of a row; 1 where there are none."""
        levels = []
        for row in _split_rows(result, self.table):
            levels.append(self.condition.attained(row))
        return np.maximum.reduce(levels, axis=0) if levels else 1.0


@dataclass(frozen=True)
class Some(_OfRows):
    """A condition on at least one row of one of the result's tables, with columns as for `Each`.

    Examples
    --------
    >>> from thermostats.claims.condition import Some, V
    >>> Some("labs", V("gain").p <= 0.05, adjust="holm").words
    'in at least one of the labs, the p-value of gain ≤ 0.05 (adjusted by Holm over all of them)'
    """

    adjust: str = ""
    """`holm` adjusts column `p` over the rows."""

    def _set_words(self, condition: str) -> str:
        how = self.adjust.capitalize()
        adjusted = f" (adjusted by {how} over all of them)" if how else ""
        return f"in at least one of the {self.table}, {condition}{adjusted}"

    def holds(self, result: Result) -> bool:
        """Whether a row meets it."""
        return any(self.condition.holds(row) for row in self._split(result))

    def attained(self, result: Result) -> Levels:
        """The smallest level of a row; 1 where there are none."""
        levels = [self.condition.attained(row) for row in self._split(result)]
        return np.minimum.reduce(levels, axis=0) if levels else 1.0

    def _split(self, result: Result) -> list[Result]:
        return _split_rows(result, self.table, self.adjust)


@dataclass(frozen=True)
class Gated(Condition):
    """A condition on the sample alone, as `Gate` makes it.

    Examples
    --------
    >>> from thermostats.claims.condition import Gate, V
    >>> Gate(V("models") >= 12).states is None
    True
    """

    condition: Condition
    """What must be met."""

    @property
    def words(self) -> str:
        """Those of the condition."""
        return self.condition.words

    @property
    def brief(self) -> str:
        """Those of the condition."""
        return self.condition.brief

    @property
    def bars(self) -> tuple[Bar, ...]:
        """Those of the condition."""
        return self.condition.bars

    def holds(self, result: Result) -> bool:
        """Whether the condition does."""
        return self.condition.holds(result)

    def truth(self, drawn: Mapping[str, NDArray[Any]]) -> Truth:
        """Whether the condition holds, draw by draw."""
        return self.condition.truth(drawn)

    def attained(self, result: Result) -> Levels:
        """That of the condition."""
        return self.condition.attained(result)

    def nearly(self) -> Condition:
        """The condition, loosened."""
        return Gated(self.condition.nearly())


def Gate(condition: Condition) -> Condition:
    """Declare a condition on the sample alone, such as a count.

    It must be met, and says nothing of a large sample.

    Parameters
    ----------
    condition : Condition
        What must be met.

    Returns
    -------
    Condition
        The same, without what it states of a large sample.

    Examples
    --------
    >>> from thermostats.claims.condition import Gate, V
    >>> Gate(V("models") >= 12).words
    'models ≥ 12'
    """
    return Gated(condition)


@dataclass(frozen=True)
class V:
    """A named number of a result, or a part of it.

    It is the estimate; with `.lower`, `.upper`, `.p` or `.interval` another part. `V("x").interval`
    is compared as a whole: `> 1` where its lower end is above 1. Comparisons with a number or
    another V are conditions.

    Examples
    --------
    >>> from thermostats.claims.condition import V
    >>> (V("share").interval > 0.8).words
    'the interval of share lies above 0.8'
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

    def read_number(self, result: Result, sign: str = "") -> NDArray[np.float64]:
        """The number in a result, or of each of many studies; NaN where the estimate has no such
        part.

        Raises DataError for a name that the result lacks.
        """
        if self.name not in result.quantities:
            names = ", ".join(result.quantities)
            raise DataError(
                "a rule reads a quantity that the result lacks", got=self.name, allowed=names
            )
        which = NEAREST[sign] if self.part == "interval" else self.part
        value = getattr(result.quantities[self.name], which)
        return np.asarray(math.nan if value is None else value, dtype=np.float64)

    @property
    def middle(self) -> V:
        """The estimate, of a part that is an end or the whole of its interval."""
        return V(self.name) if self.part in {"lower", "upper", "interval"} else self

    @property
    def words(self) -> str:
        """The number as a person reads it."""
        return PARTS[self.part].format(self.name)

    def __lt__(self, bar: float | V) -> Condition:
        return self._compare("<", bar)

    def __le__(self, bar: float | V) -> Condition:
        return self._compare("≤", bar)

    def __gt__(self, bar: float | V) -> Condition:
        return self._compare(">", bar)

    def __ge__(self, bar: float | V) -> Condition:
        return self._compare("≥", bar)

    def _compare(self, sign: str, bar: float | V) -> Condition:
        return Inequality(self, sign, bar)


def _drop_subject(first: str, second: str) -> str:
    """The second of two conditions, without the subject that it shares with the first."""
    about = OF_P.match(second)
    if about and about[1] in first:
        return f"its p-value {second[about.end() :]}"
    subjects = [match[0] if (match := SUBJECT.match(part)) else "" for part in (first, second)]
    return second.removeprefix(subjects[0]) if subjects[0] == subjects[1] else second


def _split_rows(result: Result, table: str, adjust: str = "") -> list[Result]:
    """Rows of a table of a result as results of their own; of many studies at once a table is a
    list of rows."""
    if table not in result.rows:
        raise DataError(
            "a rule reads a table that the result lacks", got=table, allowed=", ".join(result.rows)
        )
    frame: Any = result.rows[table]
    if isinstance(frame, list):
        rows = _apply_holm(frame) if adjust else frame
        return [Result(quantities=row) for row in rows]
    if adjust and len(frame):
        frame = frame.assign(p=apply_holm(frame["p"].to_dict()))
    return [_build_row_result(row) for row in frame.to_dict("records")]


def _apply_holm(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of many studies at once, each with one p for all of its quantities, with these adjusted
    as `apply_holm` does."""
    p = np.stack([next(iter(row.values())).p for row in rows])
    order = p.argsort(axis=0)
    factors = np.arange(len(p), 0, -1)[:, None]
    scaled = np.take_along_axis(p, order, axis=0) * factors
    raised = np.minimum(np.maximum.accumulate(scaled, axis=0), 1.0)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, raised, axis=0)
    changed = []
    for row, each in zip(rows, adjusted, strict=True):
        changed.append({name: replace(quantity, p=each) for name, quantity in row.items()})
    return changed


def _build_row_result(row: Mapping[Any, object]) -> Result:
    """A row of a table as a result of its own; a column `x_law` has the law of an interval."""
    named: dict[str, float] = {}
    laws: dict[str, Any] = {}
    for column, cell in row.items():
        laws[str(column)] = cell
        if isinstance(cell, int | float):
            named[str(column)] = float(cell)

    def part(name: str, which: str) -> float | None:
        return named.get(f"{name}_{which}", named.get(which))

    quantities = {}
    for name, value in named.items():
        lower = part(name, "lower")
        upper = part(name, "upper")
        law = laws.get(f"{name}{OF_LAW}")
        quantities[name] = Estimate(value, lower, upper, p=part(name, "p"), law=law)
    return Result(quantities=quantities)

"""Conditions on a result: which numbers must lie where, written once, read by people and put to
draws of a fit alike.

A condition compares a named number of the result with a threshold; conditions are joined with `&`
and `|`, and put to the rows of a table by `Each` and `Some`. Missing numbers and NaN meet no
condition.

    (V("r") < 0) & (V("r").p <= 0.05)
    Each("models", V("last gain").interval < 1)
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from thermostats.claims.result import Estimate, Result
from thermostats.errors import DataError
from thermostats.formatting import format_declared
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


def _refuse_draws(drawn: Mapping[str, NDArray[Any]]) -> Truth:
    raise DataError("a condition on rows cannot be applied to draws", got=", ".join(drawn))


@dataclass(frozen=True, eq=False)
class Condition:
    """Something that holds of a result, or of one row of its tables, and says what it is.

    Conditions are joined with `&` and `|`.

    Examples
    --------
    >>> from thermostats.claims.condition import V
    >>> ((V("share") > 0.8) & (V("models") >= 12)).words
    'share > 0.8 and models ≥ 12'
    """

    words: str
    """The condition as a person reads it."""
    holds: Callable[[Result], bool]
    """Whether a result meets it; raises DataError for a quantity or a table that the result
    lacks."""
    truth: Callable[[Mapping[str, NDArray[Any]]], Truth] = _refuse_draws
    """Whether the quantities of a fit meet it, of a quantity with several elements all; not for
    conditions on rows."""
    bars: tuple[tuple[str, str, float], ...] = ()
    """Numbers that quantities are compared with: name, < or >, number."""
    short: str = ""
    """The condition in fewer words, for a sentence; empty where there are none."""
    loosened: Callable[[], Condition] | None = None
    """Makes the condition that is nearly this one; None: it is as strict."""
    level: Callable[[Result], Levels] | None = None
    """The smallest nominal level at which it would hold of a result, 1 where at none; of a gate 0
    or 1."""
    states: Callable[[], Condition] | None = None
    """What it says of a large sample: estimates on one side of their bars; None: nothing, as
    p-values and gates do."""

    def attained(self, result: Result) -> Levels:
        """The attained level of a result; raises DataError for a condition without a level."""
        if self.level is None:
            raise DataError(
                NO_LEVEL,
                got=self.words,
                allowed="comparisons of V, joined with & and |, Each, Some",
            )
        return self.level(result)

    def statement(self) -> Condition:
        """What it says of a large sample; the condition itself where it compares no estimate with a
        bar."""
        return self.states() if self.states is not None else self

    def nearly(self) -> Condition:
        """The condition with its bars loosened: ends of intervals are the estimate, and a p is
        small up to `NEAR`."""
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
            _join_words(self.brief, other.brief),
            lambda: self.nearly() & other.nearly(),
            _combine_levels(np.maximum, self, other),
            _combine_statements(self, other),
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
            f"{self.brief}, or {_drop_subject(self.brief, other.brief)}",
            lambda: self.nearly() | other.nearly(),
            _combine_levels(np.minimum, self, other),
            None if _is_opposite(self, other) else lambda: self.statement() | other.statement(),
        )


def _combine_levels(
    extreme: Callable[[Levels, Levels], Levels], first: Condition, second: Condition
) -> Callable[[Result], Levels] | None:
    """The level of two conditions together, where both have one."""
    one = first.level
    other = second.level
    return (
        None if one is None or other is None else lambda result: extreme(one(result), other(result))
    )


def _is_opposite(first: Condition, second: Condition) -> bool:
    """Whether two conditions state nothing of a large sample, or both sides of one bar, of which
    one always holds."""
    sides = (
        {(name, bar) for name, _, bar in first.bars},
        {(name, bar) for name, _, bar in second.bars},
    )
    return not (first.states or second.states) or (bool(sides[0]) and sides[0] == sides[1])


def _combine_statements(first: Condition, second: Condition) -> Callable[[], Condition] | None:
    """What two conditions state together: p-values and gates next to an estimate state nothing."""
    if first.states is None or second.states is None:
        return first.states or second.states
    one = first.states
    other = second.states
    return lambda: one() & other()


def _join_words(left: str, right: str) -> str:
    """Two conditions in a sentence."""
    first, second = (
        f"({part})" if ", or " in part else part for part in (left, _drop_subject(left, right))
    )
    return f"{first} and {second}"


def _drop_subject(first: str, second: str) -> str:
    """The second of two conditions, without the subject that it shares with the first."""
    about = OF_P.match(second)
    if about and about[1] in first:
        return f"its p-value {second[about.end() :]}"
    subjects = [match[0] if (match := SUBJECT.match(part)) else "" for part in (first, second)]
    return second.removeprefix(subjects[0]) if subjects[0] == subjects[1] else second


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
        value = getattr(
            result.quantities[self.name], NEAREST[sign] if self.part == "interval" else self.part
        )
        return np.asarray(math.nan if value is None else value, dtype=np.float64)

    def _build_condition(self, sign: str, bar: float | V) -> Condition:
        compare = OPERATORS[sign]
        left = self
        side = "<" if sign in "<≤" else ">"
        words = bar.words if isinstance(bar, V) else format_declared(bar)

        where = SIDES.get((self.part, sign))

        def evaluate_truth(drawn: Mapping[str, NDArray[Any]]) -> Truth:
            holds = np.asarray(
                compare(drawn[left.name], drawn[bar.name] if isinstance(bar, V) else bar)
            )
            return np.asarray(holds.all(axis=tuple(range(2, holds.ndim))))

        return Condition(
            f"{self.words} {LIES[sign] if self.part == 'interval' else sign} {words}",
            lambda result: bool(
                compare(
                    left.read_number(result, sign),
                    bar.read_number(result) if isinstance(bar, V) else bar,
                )
            ),
            evaluate_truth,
            ((self.name, side, bar),)
            if self.part in REACHES[side] and not isinstance(bar, V)
            else (),
            f"the interval of {self.name} is {where} {words}" if where else "",
            lambda: self._build_near_condition(sign, bar),
            lambda result: self._measure_level(sign, bar, result),
            None if self.part == "p" else lambda: self._build_near_condition(sign, bar),
        )

    def _measure_level(self, sign: str, bar: float | V, result: Result) -> Levels:
        """p of "p ≤ α"; of an interval by how much it may be widened on that side, as a two-sided
        normal level."""
        number = bar.read_number(result) if isinstance(bar, V) else bar
        value = self.read_number(result, sign)
        side = "<" if sign in "<≤" else ">"
        with np.errstate(invalid="ignore", divide="ignore"):
            holds = OPERATORS[sign](value, number)
            if self.part == "p" and side == "<" and not isinstance(bar, V) and bar <= NEAR:
                return np.where(np.isnan(value), 1.0, value)
            if self.part not in {"interval", NEAREST[side]}:
                return np.where(holds, 0.0, 1.0)
            middle = V(self.name).read_number(result)
            stretch = (middle - number) / (middle - value)
            of_stretch = np.where(stretch > 0, 2 * special.ndtr(-END * stretch), 1.0)
            whole = np.isnan(middle) | (middle == value)
            return np.where(
                whole, np.where(holds, 0.0, 1.0), np.where(np.isnan(value), 1.0, of_stretch)
            )

    def _build_near_condition(self, sign: str, bar: float | V) -> Condition:
        if self.part != "p":
            return self._take_middle()._build_condition(
                sign, bar._take_middle() if isinstance(bar, V) else bar
            )
        strict = sign in "<≤" and not isinstance(bar, V) and bar <= NEAR
        return self._build_condition("≤", NEAR) if strict else self._build_condition(sign, bar)

    def _take_middle(self) -> V:
        return V(self.name) if self.part in {"lower", "upper", "interval"} else self

    @property
    def words(self) -> str:
        """The number as a person reads it."""
        return PARTS[self.part].format(self.name)

    def __lt__(self, bar: float | V) -> Condition:
        return self._build_condition("<", bar)

    def __le__(self, bar: float | V) -> Condition:
        return self._build_condition("≤", bar)

    def __gt__(self, bar: float | V) -> Condition:
        return self._build_condition(">", bar)

    def __ge__(self, bar: float | V) -> Condition:
        return self._build_condition("≥", bar)


def Each(table: str, condition: Condition) -> Condition:
    """Declare a condition on every row of one of the result's tables.

    An empty table does not meet it. Columns `x`, `x_lower`, `x_upper`, `x_p` are the parts of the
    quantity x; without them the columns `lower`, `upper` and `p` belong to every quantity of the
    row.

    Parameters
    ----------
    table : str
        The result's table.
    condition : Condition
        Of a row.

    Returns
    -------
    Condition
        Of the result.

    Examples
    --------
    >>> from thermostats.claims.condition import Each, V
    >>> Each("labs", V("gain") < 1).words
    'in each of the labs, gain < 1'
    """

    def is_met(result: Result) -> bool:
        met = [condition.holds(row) for row in _split_rows(result, table)]
        return bool(met) and all(met)

    return Condition(
        f"in each of the {table}, {condition.words}",
        is_met,
        bars=condition.bars,
        short=f"in each of the {table}, {condition.brief}",
        loosened=lambda: Each(table, condition.nearly()),
        level=condition.level
        and (lambda r: _find_extreme(np.maximum, condition, _split_rows(r, table))),
        states=condition.states and (lambda: Each(table, condition.statement())),
    )


def Some(table: str, condition: Condition, adjust: str = "") -> Condition:
    """Declare a condition on at least one row of one of the result's tables.

    Parameters
    ----------
    table : str
        The result's table; columns as for `Each`.
    condition : Condition
        Of a row.
    adjust : str
        `holm` adjusts column `p` over the rows.

    Returns
    -------
    Condition
        Of the result.

    Examples
    --------
    >>> from thermostats.claims.condition import Some, V
    >>> Some("labs", V("gain").p <= 0.05, adjust="holm").words
    'in at least one of the labs, the p-value of gain ≤ 0.05 (adjusted by Holm over all of them)'
    """
    adjusted = f" (adjusted by {adjust.capitalize()} over all of them)" if adjust else ""
    return Condition(
        f"in at least one of the {table}, {condition.words}{adjusted}",
        lambda result: any(condition.holds(row) for row in _split_rows(result, table, adjust)),
        bars=condition.bars,
        short=f"in at least one of the {table}, {condition.brief}{adjusted}",
        loosened=lambda: Some(table, condition.nearly(), adjust),
        level=condition.level
        and (lambda r: _find_extreme(np.minimum, condition, _split_rows(r, table, adjust))),
        states=condition.states and (lambda: Some(table, condition.statement(), adjust)),
    )


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
    return replace(condition, states=None)


NEVER = Condition("never", lambda result: False, level=lambda result: 1.0)
"""A condition that nothing meets, for a rule with one side."""
NO_LEVEL = "a condition without a level"


def _find_extreme(extreme: np.ufunc, condition: Condition, rows: list[Result]) -> Levels:
    """The largest or smallest level of a condition over rows; 1 where there are none."""
    return extreme.reduce([condition.attained(row) for row in rows], axis=0) if rows else 1.0


def _split_rows(result: Result, table: str, adjust: str = "") -> list[Result]:
    """Rows of a table of a result as results of their own; of many studies at once a table is a
    list of rows."""
    if table not in result.rows:
        raise DataError(
            "a rule reads a table that the result lacks", got=table, allowed=", ".join(result.rows)
        )
    frame: Any = result.rows[table]
    if isinstance(frame, list):
        return [Result(quantities=row) for row in (_apply_holm(frame) if adjust else frame)]
    if adjust and len(frame):
        frame = frame.assign(p=apply_holm(frame["p"].to_dict()))
    return [_build_row_result(row) for row in frame.to_dict("records")]


def _apply_holm(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of many studies at once, each with one p for all of its quantities, with these adjusted
    as `apply_holm` does."""
    p = np.stack([next(iter(row.values())).p for row in rows])
    order = p.argsort(axis=0)
    factors = np.arange(len(p), 0, -1)[:, None]
    raised = np.minimum(
        np.maximum.accumulate(np.take_along_axis(p, order, axis=0) * factors, axis=0), 1.0
    )
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, raised, axis=0)
    return [
        {name: replace(q, p=each) for name, q in row.items()}
        for row, each in zip(rows, adjusted, strict=True)
    ]


def _build_row_result(row: Mapping[Any, object]) -> Result:
    """A row of a table as a result of its own."""
    named = {
        str(name): float(value) for name, value in row.items() if isinstance(value, int | float)
    }

    def part(name: str, which: str) -> float | None:
        return named.get(f"{name}_{which}", named.get(which))

    return Result(
        quantities={
            name: Estimate(value, part(name, "lower"), part(name, "upper"), p=part(name, "p"))
            for name, value in named.items()
        }
    )

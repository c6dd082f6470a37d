"""Rules: which numbers of a result support a statement and which speak against it, written once and read by people.

A condition compares a named number of the result with a bar; a rule is a condition for "supported" and one for "not
supported", and whatever meets neither is inconclusive. Numbers that are not there or are NaN meet no condition.

    Above("heritage − geometry", 0) & Above("geometry − scale", 0)
    Rule(supported=(V("r") < 0) & (V("r").p <= 0.05), against=V("r").lower > -0.3)
    EveryRow(Below("last gain", 1))
    Posterior("heritage > geometry > scale", 0.95)
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from thermostats.claims.result import Estimate, Result
from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, SURE, UNMEASURED, Verdict, all_of, any_of, if_probable
from thermostats.errors import DataError
from thermostats.words import figure, listed, plural

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "≤": operator.le,
    ">": operator.gt,
    "≥": operator.ge,
}
PARTS = {"estimate": "{}", "lower": "the lower end of {}", "upper": "the upper end of {}", "p": "the p-value of {}"}


class Condition(ABC):
    """Something that holds of a result, or of one row of its tables, and says what it is; joined with `&` and `|`."""

    @abstractmethod
    def holds(self, result: Result) -> bool:
        """Whether the result meets it."""

    @abstractmethod
    def words(self) -> str:
        """The condition as a person reads it."""

    def __and__(self, other: Condition) -> Condition:
        """Both."""
        return Both(self, other)

    def __or__(self, other: Condition) -> Condition:
        """One of them, or both."""
        return Either(self, other)


@dataclass(frozen=True)
class V:
    """A named number of a result: the estimate, or with `.lower`, `.upper`, `.p` an end of its interval or its p."""

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

    def of(self, result: Result) -> float:
        """The number in a result; NaN where the estimate has no such part. Raises DataError for a name it lacks."""
        if self.name not in result.quantities:
            known = ", ".join(result.quantities)
            raise DataError("a rule reads a quantity that the result lacks", got=self.name, allowed=known)
        value = getattr(result.quantities[self.name], self.part)
        return math.nan if value is None else float(value)

    def words(self) -> str:
        """The number as a person reads it."""
        return PARTS[self.part].format(self.name)

    def __lt__(self, bar: float | V) -> Compare:  # noqa: D105
        return Compare(self, "<", bar)

    def __le__(self, bar: float | V) -> Compare:  # noqa: D105
        return Compare(self, "≤", bar)

    def __gt__(self, bar: float | V) -> Compare:  # noqa: D105
        return Compare(self, ">", bar)

    def __ge__(self, bar: float | V) -> Compare:  # noqa: D105
        return Compare(self, "≥", bar)


@dataclass(frozen=True)
class Compare(Condition):
    """A number of the result against a bar, or against another number of it."""

    value: V
    sign: str
    bar: float | V

    def holds(self, result: Result) -> bool:
        """False where either number is missing."""
        bar = self.bar.of(result) if isinstance(self.bar, V) else self.bar
        return OPERATORS[self.sign](self.value.of(result), bar)

    def words(self) -> str:
        """`the lower end of r > −0.3`."""
        bar = self.bar.words() if isinstance(self.bar, V) else figure(self.bar)
        return f"{self.value.words()} {self.sign} {bar}"


@dataclass(frozen=True)
class Both(Condition):
    """Both conditions."""

    one: Condition
    other: Condition

    def holds(self, result: Result) -> bool:
        """Whether both hold."""
        return self.one.holds(result) and self.other.holds(result)

    def words(self) -> str:
        """Joined by "and"."""
        return f"{self.one.words()} and {self.other.words()}"


@dataclass(frozen=True)
class Either(Condition):
    """One of two conditions, or both."""

    one: Condition
    other: Condition

    def holds(self, result: Result) -> bool:
        """Whether one of them holds."""
        return self.one.holds(result) or self.other.holds(result)

    def words(self) -> str:
        """Joined by "or"."""
        return f"({self.one.words()} or {self.other.words()})"


@dataclass(frozen=True)
class Each(Condition):
    """A condition on every row of one of the result's tables; an empty table meets it not."""

    table: str
    condition: Condition

    def holds(self, result: Result) -> bool:
        """Whether all rows meet it."""
        rows = rows_of(result, self.table)
        return bool(rows) and all(self.condition.holds(row) for row in rows)

    def words(self) -> str:
        """`in each of labs: …`."""
        return f"in each of the {self.table}, {self.condition.words()}"


@dataclass(frozen=True)
class Some(Condition):
    """A condition on at least one row of one of the result's tables; `adjust="holm"` adjusts column `p` over them."""

    table: str
    condition: Condition
    adjust: str = ""

    def holds(self, result: Result) -> bool:
        """Whether a row meets it."""
        return any(self.condition.holds(row) for row in rows_of(result, self.table, adjust=self.adjust))

    def words(self) -> str:
        """`in one of labs: …`."""
        adjusted = f" (adjusted by {self.adjust.capitalize()} over all of them)" if self.adjust else ""
        return f"in at least one of the {self.table}, {self.condition.words()}{adjusted}"


NEVER = Each("", V("") > 0)
"""A condition that nothing meets, for a rule with one side."""


class Rule(ABC):
    """Decides on a result and states itself; `&`: one against decides, support needs all; `|`: the reverse."""

    @abstractmethod
    def verdict(self, result: Result) -> Verdict:
        """What the result says by this rule."""

    @abstractmethod
    def words(self) -> str:
        """The rule in words: `supported where …; not supported where …`."""

    def __and__(self, other: Rule) -> Rule:
        """Both must be met."""
        return All((self, other))

    def __or__(self, other: Rule) -> Rule:
        """One must be met."""
        return Any((self, other))


@dataclass(frozen=True)
class Decide(Rule):
    """Supported and not supported by a condition each, in that order; neither: inconclusive."""

    supported: Condition
    against: Condition

    def verdict(self, result: Result) -> Verdict:
        """By the first condition that holds."""
        return SUPPORTED if self.supported.holds(result) else AGAINST if self.against.holds(result) else OPEN

    def words(self) -> str:
        """Both conditions; one that nothing meets is left out."""
        sides = (("supported", self.supported), ("not supported", self.against))
        said = "; ".join(f"{name} where {side.words()}" for name, side in sides if side is not NEVER)
        return said or "inconclusive whatever it shows"


@dataclass(frozen=True)
class _Interval(Decide):
    said: str = ""

    def words(self) -> str:
        """As an interval is spoken of."""
        return self.said


def Above(name: str, bar: float) -> Decide:
    """Supported where the whole interval lies above the bar, not supported where it lies below."""
    said = f"supported where the interval of {name} lies above {figure(bar)}, not supported where it lies below"
    return _Interval(V(name).lower > bar, V(name).upper < bar, said)


def Below(name: str, bar: float) -> Decide:
    """Supported where the whole interval lies below the bar, not supported where it lies above."""
    said = f"supported where the interval of {name} lies below {figure(bar)}, not supported where it lies above"
    return _Interval(V(name).upper < bar, V(name).lower > bar, said)


def Within(name: str, low: float, high: float) -> Decide:
    """Supported where the whole interval lies within the limits, not supported where it lies outside."""
    said = (
        f"supported where the interval of {name} lies within {figure(low)} to {figure(high)}, not supported where it "
        "lies outside"
    )
    within = (V(name).lower > low) & (V(name).upper < high)
    return _Interval(within, (V(name).lower > high) | (V(name).upper < low), said)


@dataclass(frozen=True)
class All(Rule):
    """Rules that must all be met."""

    rules: tuple[Rule, ...]

    def verdict(self, result: Result) -> Verdict:
        """One against decides, support needs all."""
        return all_of(rule.verdict(result) for rule in self.rules)

    def words(self) -> str:
        """Every rule, joined by "and"."""
        return "; and ".join(rule.words() for rule in self.rules)


@dataclass(frozen=True)
class Any(Rule):
    """Rules of which one suffices."""

    rules: tuple[Rule, ...]

    def verdict(self, result: Result) -> Verdict:
        """One supported decides, against needs all."""
        return any_of(rule.verdict(result) for rule in self.rules)

    def words(self) -> str:
        """Every rule, joined by "or"."""
        return "; or ".join(rule.words() for rule in self.rules)


@dataclass(frozen=True)
class EveryRow(Rule):
    """A rule that every row of a table of the result must meet: one row against decides, support needs all."""

    rule: Rule
    table: str = "rows"

    def verdict(self, result: Result) -> Verdict:
        """Inconclusive without rows."""
        return all_of(self.rule.verdict(row) for row in rows_of(result, self.table))

    def words(self) -> str:
        """`for every row of labs: …`."""
        return f"for every one of the {self.table}: {self.rule.words()} (one against it decides)"


@dataclass(frozen=True)
class AnyRow(Rule):
    """A rule that one row of a table of the result must meet; `adjust="holm"` adjusts the column `p` over the rows."""

    rule: Rule
    table: str = "rows"
    adjust: str = ""

    def verdict(self, result: Result) -> Verdict:
        """Inconclusive without rows."""
        return any_of(self.rule.verdict(row) for row in rows_of(result, self.table, adjust=self.adjust))

    def words(self) -> str:
        """`for one row of labs: …`."""
        adjusted = f", p adjusted by {self.adjust.capitalize()}" if self.adjust else ""
        return f"for at least one of the {self.table}{adjusted}: {self.rule.words()}"


@dataclass(frozen=True)
class AtLeast(Rule):
    """So many models and groups (labs, recipes) must be there; with fewer the statement needs measurement."""

    models: int = 0
    groups: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    """Least rows of the result's tables, by name."""

    def verdict(self, result: Result) -> Verdict:
        """SUPPORTED stands for "enough"."""
        enough = result.n_models >= self.models and result.n_groups >= self.groups
        enough &= all(len(result.rows[name]) >= least for name, least in self.rows.items())
        return SUPPORTED if enough else UNMEASURED

    def words(self) -> str:
        """How many are needed."""
        counts = [plural(n, noun) for n, noun in ((self.models, "model"), (self.groups, "group")) if n]
        return f"needs at least {listed([*counts, *(f'{n} of the {name}' for name, n in self.rows.items())])}"


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

    def words(self) -> str:
        """Which row it is."""
        return f"the {self.table} with the {'smallest' if self.smallest else 'largest'} {self.smallest or self.largest}"


@dataclass(frozen=True)
class Picked(Rule):
    """A rule put to the one row of a table that is picked after looking; inconclusive where the table is empty."""

    pick: Pick
    rule: Rule

    def verdict(self, result: Result) -> Verdict:
        """Of the picked row."""
        if result.rows[self.pick.table].empty:
            return OPEN
        return self.rule.verdict(Result(quantities=_quantities(self.pick.row(result))))

    def words(self) -> str:
        """Which row it is, and the rule."""
        return f"for {self.pick.words()}: {self.rule.words()}"


@dataclass(frozen=True)
class Posterior(Rule):
    """A statement by its posterior probability; with `pick`, names in braces are columns of the picked row.

    `against` is another statement of the same fit: where given, its probability of at most 1 − sure speaks against.
    `refuted` is a condition that speaks against whatever the posterior says, such as a clear counterexample.
    """

    statement: str
    sure: float = SURE
    pick: Pick | None = None
    against: str = ""
    refuted: Condition = NEVER

    def stated(self, result: Result) -> str:
        """The statement put to this result."""
        return self.statement.format(**self.pick.row(result)) if self.pick else self.statement

    def verdict(self, result: Result) -> Verdict:
        """By the probability alone; whether its checks let it count is judged apart."""
        if self.refuted.holds(result):
            return AGAINST
        probability = result.probability(self.stated(result))
        if not self.against:
            return if_probable(probability, self.sure)
        if probability >= self.sure:
            return SUPPORTED
        return AGAINST if result.probability(self.against) <= 1 - self.sure else OPEN

    def words(self) -> str:
        """Both limits of the probability."""
        said = self.statement if not self.pick else f"{self.statement} of {self.pick.words()}"
        refuted = f"not supported, whatever the posterior, where {self.refuted.words()}; else "
        other = f"P({self.against}) is" if self.against else "it is"
        limits = f"at least {figure(self.sure)}, not supported where {other} at most {figure(1 - self.sure, 2)}"
        return (refuted if self.refuted is not NEVER else "") + f"supported where P({said}) is {limits}"


def rows_of(result: Result, table: str, *, adjust: str = "") -> list[Result]:
    """Rows of a table of the result, each as a result of its own.

    Columns `x`, `x_lower`, `x_upper`, `x_p` are the parts of the quantity x; without them the columns `lower`, `upper`
    and `p` belong to every quantity of the row. Raises DataError for a table that the result lacks.
    """
    if not table:
        return []
    if table not in result.rows:
        raise DataError("a rule reads a table that the result lacks", got=table, allowed=", ".join(result.rows))
    frame = result.rows[table]
    if adjust:
        frame = frame.assign(p=adjusted(frame["p"], adjust))
    return [
        Result(quantities=_quantities({str(name): value for name, value in row.items()}))
        for row in frame.to_dict("records")
    ]


def adjusted(p: pd.Series[float], method: str) -> pd.Series[float]:
    """P-values adjusted over one another by a method of statsmodels, such as `holm`."""
    from statsmodels.stats.multitest import multipletests  # noqa: PLC0415 - slow to load

    return pd.Series(multipletests(p, method=method)[1], index=p.index)


class _quantities(dict[str, Estimate]):  # noqa: N801 - a view of a row
    """Quantities of a row by name; any name with a column, or with parts in `lower`, `upper`, `p`."""

    def __init__(self, row: Mapping[str, object]) -> None:
        named = {name: float(value) for name, value in row.items() if isinstance(value, int | float)}

        def part(name: str, which: str) -> float | None:
            return named.get(f"{name}_{which}", named.get(which))

        super().__init__(
            {
                name: Estimate(value, part(name, "lower"), part(name, "upper"), p=part(name, "p"))
                for name, value in named.items()
            }
        )

    def __missing__(self, name: str) -> Estimate:
        return self["estimate"]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or super().__contains__("estimate")

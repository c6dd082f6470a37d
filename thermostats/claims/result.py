"""What an analysis returns: named numbers, the rows behind them, a fit; no verdict and no
sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pandas as pd

from thermostats.errors import DataError
from thermostats.modelling.draws import evaluate_statement

if TYPE_CHECKING:
    from thermostats.modelling import columns as estimates
    from thermostats.modelling.classical.interval_laws import IntervalLaw
    from thermostats.modelling.draws import Statement
    from thermostats.modelling.fit import Fit
from operator import attrgetter
from typing import ClassVar

SURE = 0.95
"""A posterior probability at or above this supports a statement; at or below 1 − SURE it counts
against it."""


class Verdict(StrEnum):
    """What the data say about a statement."""

    SUPPORTED = "supported"
    AGAINST = "not supported"
    OPEN = "inconclusive"
    UNMEASURED = "needs measurement"

    @property
    def sentence(self) -> str:
        """The verdict in plain words, without a full stop."""
        return _SENTENCES[self]


_SENTENCES = {
    Verdict.SUPPORTED: "The data support this",
    Verdict.AGAINST: "The data speak against this",
    Verdict.OPEN: "The data do not decide this",
    Verdict.UNMEASURED: "This has not been measured",
}


class Reason(StrEnum):
    """Why a verdict is inconclusive; NONE for any other verdict."""

    NONE = ""
    TOO_LITTLE = "too little data"
    NO_MODEL = "no declared model fits"
    SAMPLER = "sampler"
    AT_LIMIT = "at the limit"
    ONE_UNIT = "hangs on one unit"
    ONE_SOURCE = "hangs on one source"
    CODING = "depends on what is called geometry"
    UNDECIDED = "undecided"


SUPPORTED, AGAINST, OPEN, UNMEASURED = Verdict


def describe_verdict(row: Mapping[str, Any]) -> str:
    """The verdict of a row of findings, with where it leans and whether it is provisional."""
    verdict = str(row["verdict"]) + (f", leans to “{row['leans']}”" if row["leans"] else "")
    return verdict + ", provisional" * bool(row["provisional"] and verdict != UNMEASURED)


def combine_verdicts(verdicts: Iterable[Verdict]) -> Verdict:
    """Parts of a claim together: one part against it decides, and support needs every part."""
    parts = set(verdicts)
    if AGAINST in parts:
        return AGAINST
    return next(iter(parts)) if len(parts) == 1 else OPEN


def judge_probability(probability: float, sure: float = SURE) -> Verdict:
    """Supported if the probability is at least `sure`, not supported if at most 1 − `sure`,
    otherwise open."""
    return SUPPORTED if probability >= sure else AGAINST if probability <= 1 - sure else OPEN


@dataclass(frozen=True)
class Estimate:
    """A number with its interval and its p-value, where it has them."""

    value: float | None
    lower: float | None = None
    upper: float | None = None
    interval: str = ""
    """Kind and level of the interval: `95% t interval over prompts`."""
    p: float | None = None
    p_kind: str = "p-value"
    """`p-value` (two-sided or without sides) or `one-sided p-value`, both adjusted over the claims
    on the index; or what the probability is."""
    law: IntervalLaw | None = None
    """By which its interval was made, so that p at any number is that of the test; None: normal."""

    @classmethod
    def build(
        cls,
        estimate: estimates.ClassicalEstimate,
        interval: str = "",
        p: float | None = None,
        p_kind: str = "p-value",
    ) -> Estimate:
        """What a classical test found; `interval`: its kind and level where they are not its own at
        95%."""
        return cls(
            estimate.estimate,
            estimate.lower,
            estimate.upper,
            interval or f"95% {estimate.interval}",
            p,
            p_kind,
        )

    @property
    def estimate(self) -> float | None:
        """The value, by the name that rules use."""
        return self.value


@dataclass(frozen=True)
class Audit:
    """Figures that a study prints and the same recomputed, by name; a name in `published` alone
    could not be.

    A name that ends in `<` or `>` is a bound ("Fisher p <": 0.001).
    """

    published: Mapping[str, float] = field(default_factory=dict)
    reproduced: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One figure of a fit."""

    name: str
    """Short, for a file name: `prior-to-posterior`."""
    draw: Callable[..., object] | None
    """Draws the figure onto the matplotlib axes it is given; None where it is drawn."""
    caption: str
    """What it shows and what was estimated, with its result; the alt text."""


@dataclass(frozen=True)
class Inference:
    """What accompanies the test of a result: a fit, what the rule asks of it, and what the page
    shows of it."""

    fit: Fit | None = None
    later: Callable[[], Fit] | None = None
    """Makes the fit, in its place where PyMC alone can draw it: a report draws it where asked to
    (`--draw`)."""
    tables: Mapping[str, pd.DataFrame] | tuple[str, ...] = ()
    """Tables of the fit to show: names of its own, or titles with tables."""
    panels: tuple[Panel, ...] = ()
    """Figures of the fit in addition to those that every fit has."""
    statements: Mapping[str, Statement] = field(default_factory=dict)
    """What a rule asks the fit beyond its own `statements`: functions of its quantities, so that
    refits answer too."""
    model: str = ""
    """What was fitted to what, in one sentence; empty: the template's."""

    def drawn(self) -> Inference:
        """The same with its fit."""
        return self if self.later is None else replace(self, fit=self.later(), later=None)

    def probability(self, statement: str) -> float:
        """Posterior probability of a statement.

        Raises DataError for one that is neither among these statements nor among the fit's own.
        """
        fit = self.fit
        if statement in self.statements:
            return float(
                evaluate_statement(
                    self.statements[statement], fit.quantities if fit is not None else {}
                ).mean()
            )
        if fit is not None and statement in fit.probabilities:
            return float(fit.probabilities[statement])
        names = [*self.statements, *(fit.probabilities if fit is not None else ())]
        raise DataError(
            "a rule asks for a statement that the result lacks",
            got=statement,
            allowed="; ".join(names),
        )


NO_FIT = Inference()


@dataclass(frozen=True, kw_only=True)
class Result:
    """One answer of an analysis to one finding's question."""

    quantities: Mapping[str, Estimate] = field(default_factory=dict)
    """Numbers that the rule and the words name."""
    estimate: str = ""
    """Name of the quantity that heads the finding; empty: the first one, where there is one."""
    n_models: int = 0
    n_groups: int = 0
    rows: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Tables that a rule reads row by row."""
    table: pd.DataFrame | None = None
    """The numbers behind the verdict, shown on the page."""
    words: Mapping[str, Any] = field(default_factory=dict)
    """Further values for the sentences: numbers, names, tables; no sentences."""
    draw: Callable[..., object] | None = None
    """Draws the finding's figure onto the matplotlib axes it is given."""
    screen: pd.DataFrame | None = None
    """A table for the page's first screen, ready to print."""
    inference: Inference = NO_FIT
    """The fit that accompanies the test, where there is one."""
    audit: Audit = field(default_factory=Audit)

    @classmethod
    def build(
        cls, models: pd.DataFrame, quantities: Mapping[str, Estimate] | None = None, **more: Any
    ) -> Result:
        """A result over a table with one row per model, which is counted with its labs (`heritage`)
        and shown."""
        counts = {
            "n_models": len(models),
            "n_groups": models["heritage"].nunique(),
            "table": models,
        }
        return cls(quantities=quantities or {}, **{**counts, **more})

    def adding(self, *, words: Mapping[str, Any] | None = None, **fields: Any) -> Result:
        """The same with other fields, and with further words."""
        return replace(self, words={**self.words, **(words or {})}, **fields)

    def name_intervals(self, intervals: Mapping[str, str]) -> Result:
        """The same with other words for what the intervals of some quantities are, by their
        names."""
        named = {}
        for name, words in intervals.items():
            named[name] = replace(self.quantities[name], interval=words)
        return replace(self, quantities={**self.quantities, **named})

    @property
    def headline(self) -> Estimate:
        """The quantity that heads the finding; without a value where there is none."""
        name = self.estimate or next(iter(self.quantities), "")
        return self.quantities[name] if name else Estimate(None)


OF_LAW = "_law"
"""End of the name of a column that has the laws of intervals."""


def drop_laws(table: pd.DataFrame | None) -> pd.DataFrame | None:
    """A table as it is shown, without laws of intervals."""
    if table is None:
        return None
    return table.drop(columns=[name for name in table if str(name).endswith(OF_LAW)])


class TooFew(Exception):  # noqa: N818 - an answer, not an error
    """Raised by an analysis that has too few rows for an answer; the finding then needs
    measurement."""

    def __init__(self, result: Result) -> None:
        """`result`: the counts and words of the finding."""
        super().__init__(f"{result.n_models} models of {result.n_groups} groups are too few")
        self.result = result


class ByColumn:
    """A record whose parts stand in the columns of a table."""

    COLUMNS: ClassVar[Mapping[str, str]]
    """Where in the record a column stands: `lower` at `headline.lower`."""

    def columns(self) -> dict[str, Any]:
        """Values by column."""
        columns: dict[str, Any] = {}
        for name, place in self.COLUMNS.items():
            columns[name] = attrgetter(place)(self)
        return columns

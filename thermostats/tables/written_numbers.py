"""Numbers that stand in a table as something else: texts with units, dates, truth values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from thermostats.formatting import join_words
from thermostats.next_steps import write_value

TRUTHS = "true and false"
KINDS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "dates": ("M", (date, np.datetime64)),
    "durations": ("m", (timedelta, np.timedelta64)),
    "complex numbers": ("c", (complex, np.complexfloating)),
    TRUTHS: ("b", (bool, np.bool_)),
}
"""What has numbers inside, and is none: NumPy's kind of such columns, and types of such values."""
MISSING = ("", "-", "–", "—", "?", "n/a", "na", "nan", "none", "null", "unknown", "tbd")
"""Texts for a number that is not known."""
DIGITS = r"[+-]?[0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?"
NUMBERS = "iuf"
"""NumPy's kinds of columns that are numbers already."""
PLAIN, PER_CENT = "numbers", "per cent"
DATES = "dates, as days since the first"
EXPONENTS = {" ": "", "k": "e3", "m": "e6", "b": "e9", "t": "e12"}


@dataclass(frozen=True)
class Named:
    """What a step is given that a line can only name."""

    text: str
    value: Any


@dataclass(frozen=True)
class Step:
    """A method of a column, as it is called and as a line has it."""

    method: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def run(self, column: pd.Series) -> pd.Series:
        """The column after this step."""
        values = [each.value if isinstance(each, Named) else each for each in self.arguments]
        return attrgetter(self.method)(column)(*values, **self.options)

    def write(self) -> str:
        """The step in a line, behind a column."""
        words = []
        for each in self.arguments:
            words.append(each.text if isinstance(each, Named) else write_value(each))
        for name, value in self.options.items():
            words.append(f"{name}={write_value(value)}")
        return f".{self.method}({', '.join(words)})"


def _count_days(dates: pd.Series) -> pd.Series:
    return (dates - dates.min()) / pd.Timedelta("1D")


TO_FLOAT = Step("astype", (Named("float", float),))
TO_DATES = Step("pipe", (Named("pd.to_datetime", pd.to_datetime),), {"format": "ISO8601"})
TO_DAYS = Step("pipe", (Named('lambda d: (d - d.min()) / pd.Timedelta("1D")', _count_days),))
OF_DATES = (TO_DATES, TO_DAYS)
WRITTEN: Mapping[str, tuple[str, tuple[Step, ...]]] = {
    PLAIN: (DIGITS, (TO_FLOAT,)),
    "sizes such as 7B": (
        rf"{DIGITS}\s*[kmbt]?",
        (Step("replace", (EXPONENTS,), {"regex": True}), TO_FLOAT),
    ),
    PER_CENT: (rf"{DIGITS}\s*%", (Step("str.rstrip", (" %",)), TO_FLOAT, Step("div", (100,)))),
    "numbers with their errors": (
        rf"{DIGITS}\s*(?:±|\+/-|\+-)\s*{DIGITS}",
        (Step("str.extract", ("^([0-9.e+-]+?) *[±+]",), {"expand": False}), TO_FLOAT),
    ),
    "numbers with their errors in brackets": (
        rf"{DIGITS}\s*\({DIGITS}\)",
        (Step("str.split", ("(",)), Step("str.get", (0,)), TO_FLOAT),
    ),
    "numbers with a decimal comma": (
        r"[+-]?[0-9]*,(?:[0-9]{1,2}|[0-9]{4,})|0,[0-9]+",
        (Step("str.replace", (",", ".")), TO_FLOAT),
    ),
    DATES: (r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[t ].*)?", (Step("str.upper"), *OF_DATES)),
}
"""How numbers are written as texts, in small letters, and what makes numbers of them."""


def describe_no_numbers(values: ArrayLike, *, truths: bool) -> str:
    """In words what a column holds that no arithmetic makes a number; empty where it may be one."""
    series = values if isinstance(values, pd.Series) else pd.Series(np.ravel(np.asarray(values)))
    kind = getattr(series.dtype, "kind", "O")
    values = series if series.dtype == object else ()
    for word, (of_column, types) in KINDS.items():
        if truths and word == TRUTHS:
            continue
        if kind == of_column or any(isinstance(value, types) for value in values):
            return word
    return ""


CLEANED = (Step("astype", (Named("str", str),)), Step("str.strip"), Step("str.lower"))


def read_written(column: pd.Series, theirs: str) -> tuple[str, str]:
    """What the cells of a column are, and the expression that makes numbers of them; both empty
    where that is not clear.

    theirs: the expression of the column.
    """
    words, steps = _find_steps(column)
    written = [step.write() for step in steps]
    return words, theirs + "".join(written) if words else ""


def convert_written(column: pd.Series) -> pd.Series:
    """A column with numbers in the place of what `read_written` makes numbers of; as it is where
    that is not clear, or they are numbers already."""
    if column.dtype.kind in NUMBERS:
        return column
    words, steps = _find_steps(column)
    if words != PLAIN:
        for step in steps:
            column = step.run(column)
    return column


def _find_steps(column: pd.Series) -> tuple[str, tuple[Step, ...]]:
    """What the cells of a column are, and the steps that make numbers of them."""
    kind = describe_no_numbers(column, truths=False)
    if kind == TRUTHS:
        return kind, (TO_FLOAT,)
    if kind == "dates":
        return DATES, OF_DATES
    if kind:
        return "", ()
    texts = column.dropna().astype(str).str.strip().str.casefold()
    unknown = texts.isin(MISSING)
    known = texts[~unknown]
    for words, (pattern, steps) in WRITTEN.items():
        if len(known) and known.str.fullmatch(pattern).all():
            gone = sorted(set(texts[unknown]))
            if not gone:
                return words, (*CLEANED, *steps)
            names = [repr(text) for text in gone]
            empty = Step("replace", (gone, Named("np.nan", np.nan)))
            return f"{words}, and {join_words(names)} for none", (*CLEANED, empty, *steps)
    return "", ()

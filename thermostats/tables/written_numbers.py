"""Numbers that stand in a table as something else: texts with units, dates, truth values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

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
PLAIN = "numbers"
DATES = "dates, as days since the first"
WRITTEN: Mapping[str, tuple[str, str]] = {
    PLAIN: (DIGITS, ".astype(float)"),
    "sizes such as 7B": (
        rf"{DIGITS}\s*[kmbt]?",
        '.replace({" ": "", "k": "e3", "m": "e6", "b": "e9", "t": "e12"}, regex=True)'
        ".astype(float)",
    ),
    "per cent": (rf"{DIGITS}\s*%", '.str.rstrip(" %").astype(float) / 100'),
    "numbers with their errors": (
        rf"{DIGITS}\s*(?:±|\+/-|\+-)\s*{DIGITS}",
        '.str.extract("^([0-9.e+-]+?) *[±+]")[0].astype(float)',
    ),
    "numbers with their errors in brackets": (
        rf"{DIGITS}\s*\({DIGITS}\)",
        '.str.split("(").str[0].astype(float)',
    ),
    "numbers with a decimal comma": (
        r"[+-]?[0-9]*,(?:[0-9]{1,2}|[0-9]{4,})|0,[0-9]+",
        '.str.replace(",", ".").astype(float)',
    ),
    DATES: (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[t ].*)?",
        '.pipe(pd.to_datetime, format="ISO8601")'
        '.pipe(lambda d: (d - d.min()) / pd.Timedelta("1D"))',
    ),
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


def read_written(column: pd.Series, theirs: str) -> tuple[str, str]:
    """What the cells of a column are, and the expression that makes numbers of them; both empty
    where that is not clear.

    theirs: the expression of the column.
    """
    kind = describe_no_numbers(column, truths=False)
    if kind == TRUTHS:
        return kind, f"{theirs}.astype(float)"
    if kind == "dates":
        return DATES, f"{theirs}{WRITTEN[DATES][1]}"
    if kind:
        return "", ""
    texts = column.dropna().astype(str).str.strip().str.casefold()
    unknown = texts.isin(MISSING)
    known = texts[~unknown]
    for words, (pattern, made) in WRITTEN.items():
        if len(known) and known.str.fullmatch(pattern).all():
            gone = sorted(set(texts[unknown]))
            left = f".replace({write_value(gone)}, np.nan)" if gone else ""
            none = f", and {join_words([repr(text) for text in gone])} for none" if gone else ""
            return f"{words}{none}", f"{theirs}.astype(str).str.strip().str.lower(){left}{made}"
    return "", ""


def convert_written(column: pd.Series) -> pd.Series:
    """A column with numbers in the place of what `read_written` makes numbers of; as it is where
    that is not clear, or they are numbers already."""
    what, made = read_written(column, "cells")
    if what in ("", PLAIN):
        return column
    return eval(made, {"cells": column, "np": np, "pd": pd})  # noqa: S307 (made of WRITTEN alone)

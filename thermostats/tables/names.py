"""Names in tables: what they may not hold, so that two that look alike are alike and none leads out of its folder."""

from __future__ import annotations

import re

import pandas as pd

from thermostats.errors import DataError
from thermostats.tables.declare import TEXT
from thermostats.tables.schemas import TABLES

HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Control characters, characters without width, and those that turn the direction of text around."""
FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes for the beginning of a formula."""
SURROGATE = re.compile("[\ud800-\udfff]")
RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*")


def check_names(frame: pd.DataFrame, name: str, where: object = "") -> None:
    """Raise DataError where a text of table `name` holds what it may not.

    Free text (prompts, tokens) is kept as it is, as long as it can be written in UTF-8. All other text is a name or a
    sentence: no hidden characters, no beginning that a spreadsheet takes for a formula. A run_id names a file.
    """
    for label, column in TABLES[name].columns.items():
        if column.metadata["dtype"] != TEXT:
            continue
        for value in frame[label].unique():
            if fault := _fault(str(value), label, free=column.metadata["free"]):
                raise DataError(
                    f"table {name}, column {label} {fault}",
                    where=where,
                    got=ascii(value)[:100],
                    next_step="write the name without it",
                )


def _fault(value: str, label: str, *, free: bool) -> str:
    if SURROGATE.search(value):
        return "holds half of a character, which UTF-8 cannot write"
    if free or not value:
        return ""
    if label == "run_id" and not RUN.fullmatch(value):
        return "names a run by more than letters, digits, - and _"
    if HIDDEN.search(value):
        return "holds a hidden character"
    if value.startswith(FORMULA):
        return "begins as a formula of a spreadsheet does"
    return ""

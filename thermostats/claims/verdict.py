"""Verdicts from intervals and from other verdicts, by rules that name their threshold."""

from __future__ import annotations

import math
from collections.abc import Iterable

SUPPORTED, AGAINST, OPEN, UNMEASURED = "supported", "not supported", "inconclusive", "needs measurement"

SURE = 0.95
"""A posterior probability at or above this supports a statement; at or below 1 − SURE it speaks against it."""

SENTENCES = {
    SUPPORTED: "The data support this",
    AGAINST: "The data speak against this",
    OPEN: "The data do not decide this",
    UNMEASURED: "This has not been measured",
}
"""A sentence, without its full stop, that says the verdict in plain words."""


def if_above(lower: float, upper: float, bar: float) -> str:
    """Supported where the whole interval lies above the bar, against where it lies below; NaN decides nothing."""
    if math.isnan(lower) or math.isnan(upper):
        return OPEN
    return SUPPORTED if lower > bar else AGAINST if upper < bar else OPEN


def if_below(lower: float, upper: float, bar: float) -> str:
    """Supported where the whole interval lies below the bar, against where it lies above; NaN decides nothing."""
    return if_above(-upper, -lower, -bar)


def if_all(verdicts: Iterable[str]) -> str:
    """All parts of a claim together: one part against it is enough, and support needs every part."""
    parts = list(verdicts)
    if AGAINST in parts:
        return AGAINST
    if UNMEASURED in parts:
        return UNMEASURED if set(parts) == {UNMEASURED} else OPEN
    return SUPPORTED if parts and set(parts) == {SUPPORTED} else OPEN


def if_probable(probability: float) -> str:
    """Supported where the posterior probability is at least SURE, against where at most 1 − SURE, else open."""
    return SUPPORTED if probability >= SURE else AGAINST if probability <= 1 - SURE else OPEN

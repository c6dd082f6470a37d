"""The verdicts of a finding, and the reasons why one stays open."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

SURE = 0.95
"""A posterior probability at or above this supports a statement; at or below 1 − SURE it counts against it."""


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
    ONE_UNIT = "hangs on one unit"
    ONE_SOURCE = "hangs on one source"
    CODING = "depends on what is called geometry"
    UNDECIDED = "undecided"


SUPPORTED, AGAINST, OPEN, UNMEASURED = Verdict


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Parts of a claim together: one part against it decides, and support needs every part."""
    parts = set(verdicts)
    if AGAINST in parts:
        return AGAINST
    return next(iter(parts)) if len(parts) == 1 else OPEN


def if_probable(probability: float, sure: float = SURE) -> Verdict:
    """Supported if the probability is at least `sure`, not supported if at most 1 − `sure`, otherwise open."""
    return SUPPORTED if probability >= sure else AGAINST if probability <= 1 - sure else OPEN

"""The ledger: a parsed file whose every number is read exactly once and ends in one fate, or the import stops.

Numbers are integers, floats, NaN, and text that parses as a number; truth values, dates and sizes with a unit are not.
"""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from thermostats.errors import DataError

STAMP = r"_\d{8}_\d{6}(?=\.\w+$)"
"""Time stamp at the end of a file's name."""
IMPORTED, DERIVABLE = "imported", "derivable"
NUMERAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[Nn]a[Nn]")
KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}

WRITTEN_AS_TEXT = frozenset(
    {"Entropy", "Top_Prob", "Cliche_Entropy_Mean", "Novel_Entropy_Mean", "L* apriori", "Mean Trace", "Mean Trace (MH)"}
)
"""Keys of the JSON files whose numbers may stand in quotes; anywhere else a number in quotes is a wrong type."""

BEYOND = {"lower": (operator.lt, "at least"), "above": (operator.le, "above"), "upper": (operator.gt, "at most")}
SHARE = {"lower": 0.0, "upper": 1.0}
BOUNDS: dict[str, dict[str, float]] = {
    r"probability|sparsity": SHARE,
    r"complexity|n_tokens": {"lower": 1},
    r"_sd$|entropy|logit_range|contraction_ratio|operator_norm|row_norm|_abs$|condition": {"lower": 0.0},
    r"gain|amplification|norm": {"above": 0.0},
}
"""Range of a number by the table, column and estimand it is imported into: the first pattern that is found in them."""
RANGES: dict[str, dict[str, float]] = {
    r"_pct$": {"lower": 0.0, "upper": 100.0},
    r"(^|_)p(_val|_value.*)?$": SHARE,
    r"(_r|[Cc]orrelation)$": {"lower": -1.0, "upper": 1.0},
    r"_rate$": SHARE,
}
"""The same by the number's key, whatever it is derived from."""


class Entry(NamedTuple):
    """What became of one number: fate, where it went or what it follows from, relative difference where recomputed."""

    pattern: str
    fate: str
    where: str
    missing: bool
    difference: float | None = None


@dataclass
class Document:
    """One file as parsed, and the fate of every number in it that has been read so far, by JSON pointer."""

    file: str
    root: Any
    content: bytes = b""
    entries: dict[str, Entry] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """Its name without the time stamp."""
        return re.sub(STAMP, "", self.file)

    @property
    def top(self) -> Place:
        """The place to start reading from."""
        return Place(self, self.root, "", "")

    def unread(self) -> list[str]:
        """Pointers of numbers that nothing has read."""
        return [pointer for pointer, _ in numbers(self.root) if pointer not in self.entries]

    def close(self) -> None:
        """Raise DataError where a number of the file has not been read: a new or renamed key."""
        if unread := self.unread():
            raise DataError(
                "the file holds numbers that the importer does not know",
                where=f"{self.file}{unread[0]}",
                got=f"{len(unread)} such numbers",
                next_step="a key is new or has another name; restore the published file",
            )


def numbers(value: Any, pointer: str = "") -> Iterator[tuple[str, float]]:
    """Every number below `value` with its JSON pointer."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from numbers(below, f"{pointer}/{escape(key)}")
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from numbers(below, f"{pointer}/{index}")
    elif isinstance(value, str):
        if NUMERAL.fullmatch(value):
            yield pointer, float(value)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield pointer, float(value) if isinstance(value, float) or abs(value) <= sys.float_info.max else math.inf


def escape(key: str) -> str:
    """One key as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


@dataclass(frozen=True)
class Place:
    """One value of a document with its JSON pointer; reading a number through it enters its fate."""

    document: Document
    value: Any
    pointer: str
    pattern: str

    def __getitem__(self, key: str) -> Place:
        """The place below a key; raises DataError where the key is not there."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object", f" while looking for key {key!r}")
        if key not in self.value:
            raise DataError(
                f"key {key!r} is missing",
                where=self.where,
                got=", ".join(map(repr, self.value)) or "no keys",
                allowed=repr(key),
                next_step="restore the published file",
            )
        return self._below(key, key)

    @property
    def where(self) -> str:
        """File and pointer, for messages."""
        return f"{self.document.file}{self.pointer}"

    @property
    def key(self) -> str:
        """The last key on the way, ``*`` for a name or an entry of a list."""
        return self.pattern.rsplit("/", 1)[-1]

    @property
    def is_entry(self) -> bool:
        """True for an entry of a list."""
        return self.key == "*" and self.pointer.rsplit("/", 1)[-1].isdigit()

    def each(self, length: int | None = None) -> list[Place]:
        """The places of a list; raises DataError where it has another length."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        if length is not None and len(self.value) != length:
            raise DataError(
                "the list has another length", where=self.where, got=str(len(self.value)), allowed=str(length)
            )
        return [self._below(index, "*") for index in range(len(self.value))]

    def named(self) -> list[tuple[str, Place]]:
        """Names (of models, prompts, labs) and places of an object whose keys are names."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return [(key, self._below(key, "*")) for key in self.value]

    def text(self) -> str:
        """The text here; a number written as text is not read by this."""
        if not isinstance(self.value, str):
            raise self.wrong("text")
        return self.value

    def flag(self) -> bool:
        """The truth value here."""
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def number(self, where: str, **bounds: float) -> float | None:
        """Import the number into `where` (table and column); None where the file has NaN.

        Without bounds (`lower`, `above`, `upper`), those of `BOUNDS` hold.
        """
        value = self.within(**(bounds or _of(BOUNDS, where)))
        self.enter(IMPORTED, where)
        return None if math.isnan(value) else value

    def within(self, **bounds: float) -> float:
        """The number here, without entering a fate; raises DataError where it is out of range (NaN never is)."""
        value = self.peek()
        for name, bound in (bounds or _of(RANGES, self.key)).items():
            beyond, words = BEYOND[name]
            if beyond(value, bound):
                raise DataError(
                    "the number is out of range", where=self.where, got=repr(self.value), allowed=f"{words} {bound}"
                )
        return value

    def token(self, where: str) -> str:
        """Import a token's text; where it reads as a number it is entered as one."""
        text = self.text()
        if NUMERAL.fullmatch(text):
            self.enter(IMPORTED, where)
        return text

    def peek(self) -> float:
        """The number here, without entering a fate."""
        as_text = self.document.file.endswith(".csv") or self.key in WRITTEN_AS_TEXT
        is_numeral = as_text and isinstance(self.value, str) and NUMERAL.fullmatch(self.value)
        if not is_numeral and (isinstance(self.value, bool) or not isinstance(self.value, (int, float))):
            raise self.wrong("a number")
        try:
            found = float(self.value)
        except OverflowError:
            found = math.inf
        if math.isinf(found):
            raise self.wrong("a number within the range of numbers")
        return found

    def whole(self) -> int:
        """The whole number here, without entering a fate."""
        value = self.peek()
        if not value.is_integer():
            raise self.wrong("a whole number")
        return int(value)

    def enter(self, fate: str, where: str, difference: float | None = None) -> None:
        """Enter the fate of the number here; a number has one fate only."""
        if self.pointer in self.document.entries:
            raise RuntimeError(f"{self.where} was read twice")
        missing = math.isnan(float(self.value))
        self.document.entries[self.pointer] = Entry(self.pattern, fate, where, missing, difference)

    def wrong(self, wanted: str, note: str = "") -> DataError:
        """The error for a value of another kind than wanted."""
        shown = "" if isinstance(self.value, (dict, list)) else f" {self.value!r}"
        got = KINDS.get(type(self.value), "a number") + shown
        return DataError(f"{wanted} was expected{note}", where=self.where, got=got)

    def _below(self, at: str | int, part: str) -> Place:
        return Place(self.document, self.value[at], f"{self.pointer}/{escape(str(at))}", f"{self.pattern}/{part}")


def _of(table: dict[str, dict[str, float]], name: str) -> dict[str, float]:
    return next((bounds for pattern, bounds in table.items() if re.search(pattern, name)), {})

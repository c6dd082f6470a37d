"""The ledger: a parsed file whose every number is read exactly once and ends in one fate, or the import stops.

Numbers are integers, floats, NaN, and text that parses as a number; truth values, dates and sizes with a unit are not.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from thermostats.errors import DataError

STAMP = r"_\d{8}_\d{6}"
IMPORTED, DERIVABLE, LEFT_OUT = "imported", "derivable", "left out"
NUMERAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[Nn]a[Nn]")

WRITTEN_AS_TEXT = frozenset(
    {"Entropy", "Top_Prob", "Cliche_Entropy_Mean", "Novel_Entropy_Mean", "L* apriori", "Mean Trace", "Mean Trace (MH)"}
)
"""Keys of the JSON files whose numbers may stand in quotes; anywhere else a number in quotes is a wrong type."""

BOUNDS: tuple[tuple[str, dict[str, float]], ...] = (
    (r"probability|sparsity", {"lower": 0.0, "upper": 1.0}),
    (r"complexity|n_tokens", {"lower": 1}),
    (r"_sd$|entropy|logit_range|contraction_ratio|operator_norm|row_norm|_abs$|condition", {"lower": 0.0}),
    (r"gain|amplification|norm", {"above": 0.0}),
)
"""Range of a number by the table, column and estimand it is imported into: the first pattern that is found in them."""
RANGES: tuple[tuple[str, dict[str, float]], ...] = (
    (r"_pct$", {"lower": 0.0, "upper": 100.0}),
    (r"(^|_)p(_val|_value.*)?$", {"lower": 0.0, "upper": 1.0}),
    (r"(_r|[Cc]orrelation)$", {"lower": -1.0, "upper": 1.0}),
    (r"_rate$", {"lower": 0.0, "upper": 1.0}),
)
"""Keys whose numbers have a range whatever they are derived from."""


@dataclass(frozen=True)
class Entry:
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
    entries: dict[str, Entry] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """Its name without the time stamp."""
        return re.sub(rf"{STAMP}(?=\.\w+$)", "", self.file)

    @property
    def is_csv(self) -> bool:
        """True where every number is written as text."""
        return self.file.endswith(".csv")

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
            raise self.wrong("an object", f"while looking for key {key!r}")
        if key not in self.value:
            near = ", ".join(repr(k) for k in self.value)
            raise DataError(
                f"key {key!r} is missing",
                where=f"{self.document.file}{self.pointer}",
                got=near or "no keys",
                allowed=repr(key),
                next_step="restore the published file",
            )
        return Place(self.document, self.value[key], f"{self.pointer}/{escape(key)}", f"{self.pattern}/{key}")

    @property
    def where(self) -> str:
        """File and pointer, for messages."""
        return f"{self.document.file}{self.pointer}"

    @property
    def range(self) -> dict[str, float]:
        """Bounds of the number here by its key."""
        return _bounds(RANGES, self.pattern.rsplit("/", 1)[-1])

    @property
    def is_entry(self) -> bool:
        """True for an entry of a list."""
        return self.pattern.endswith("/*") and self.pointer.rsplit("/", 1)[-1].isdigit()

    def each(self, length: int | None = None) -> list[Place]:
        """The places of a list; raises DataError where it has another length."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        if length is not None and len(self.value) != length:
            raise DataError(
                "the list has another length", where=self.where, got=str(len(self.value)), allowed=str(length)
            )
        return [
            Place(self.document, below, f"{self.pointer}/{index}", f"{self.pattern}/*")
            for index, below in enumerate(self.value)
        ]

    def named(self) -> list[tuple[str, Place]]:
        """Names (of models, prompts, labs) and places of an object whose keys are names."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return [
            (key, Place(self.document, below, f"{self.pointer}/{escape(key)}", f"{self.pattern}/*"))
            for key, below in self.value.items()
        ]

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

    def number(
        self, where: str, *, lower: float | None = None, above: float | None = None, upper: float | None = None
    ) -> float | None:
        """Import the number into `where` (table and column); None where the file has NaN.

        Without bounds, those of `BOUNDS` hold.
        """
        given = {"lower": lower, "above": above, "upper": upper}
        value = self.within(**(_bounds(BOUNDS, where) if set(given.values()) == {None} else given))
        self.enter(IMPORTED, where)
        return None if math.isnan(value) else value

    def within(self, *, lower: float | None = None, above: float | None = None, upper: float | None = None) -> float:
        """The number here, without entering a fate; raises DataError where it is out of range (NaN never is)."""
        value = self.peek()
        for fails, bound in (
            (lower is not None and value < lower, f"at least {lower}"),
            (above is not None and value <= above, f"above {above}"),
            (upper is not None and value > upper, f"at most {upper}"),
        ):
            if fails:
                raise DataError("the number is out of range", where=self.where, got=repr(self.value), allowed=bound)
        return value

    def token(self, where: str) -> str:
        """Import a token's text; where it reads as a number it is entered as one."""
        text = self.text()
        if NUMERAL.fullmatch(text):
            self.enter(IMPORTED, where)
        return text

    def peek(self) -> float:
        """The number here, without entering a fate."""
        as_text = self.document.is_csv or self.pattern.rsplit("/", 1)[-1] in WRITTEN_AS_TEXT
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
        if math.isnan(value) or value != int(value):
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
        kind = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}.get(
            type(self.value), "a number"
        )
        shown = "" if isinstance(self.value, (dict, list)) else f" {self.value!r}"
        return DataError(f"{wanted} was expected{' ' * bool(note)}{note}", where=self.where, got=kind + shown)


def _bounds(table: tuple[tuple[str, dict[str, float]], ...], name: str) -> dict[str, float]:
    return next((bounds for pattern, bounds in table if re.search(pattern, name)), {})

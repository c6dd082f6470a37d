"""The ledger: a parsed file whose every number is read exactly once and ends in one fate, or the
import stops.

Numbers are integers, floats, NaN, and text that parses as a number; truth values, dates and sizes
with a unit are not.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from thermostats.errors import DataError

STAMP = r"_\d{8}_\d{6}(?=\.\w+$)"
"""Time stamp at the end of a file's name."""
IMPORTED = "imported"
DERIVABLE = "derivable"
NUMERAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[Nn]a[Nn]")


class Entry(NamedTuple):
    """What became of one number: fate, where it went or what it follows from, relative difference
    where recomputed."""

    pattern: str
    fate: str
    where: str
    missing: bool
    difference: float | None = None


@dataclass
class Document:
    """One file as parsed, and the fate of every number in it that has been read so far, by JSON
    pointer."""

    file: str
    root: Any
    content: bytes = b""
    entries: dict[str, Entry] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Document:
        content = path.read_bytes()
        text = content.decode()
        csv_file = path.suffix == ".csv"
        root = list(csv.DictReader(io.StringIO(text, newline=""))) if csv_file else json.loads(text)
        return cls(path.name, root, content)

    @property
    def family(self) -> str:
        """Its name without the time stamp."""
        return re.sub(STAMP, "", self.file)

    @property
    def top(self) -> Place:
        """The place to start reading from."""
        return Place(self, self.root, "", "")

    def close(self) -> None:
        """Raise DataError where a number of the file has not been read: a new or renamed key."""
        if unread := [pointer for pointer, _ in numbers(self.root) if pointer not in self.entries]:
            what = f"the file holds {len(unread)} numbers that nothing reads"
            raise DataError(
                what, where=f"{self.file}{unread[0]}", next_step="restore the published file"
            )


def numbers(value: Any, pointer: str = "") -> Iterator[tuple[str, float]]:
    """Every number below `value` with its JSON pointer."""
    if isinstance(value, (dict, list)):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(below, f"{pointer}/{escape(str(key))}")
    elif isinstance(value, str):
        if NUMERAL.fullmatch(value):
            yield pointer, float(value)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield pointer, float(value)


def escape(key: str) -> str:
    """One key as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


@dataclass(frozen=True)
class Place:
    """One value of a document with its JSON pointer; reading a number through it enters its
    fate."""

    document: Document
    value: Any
    pointer: str
    pattern: str

    def __getitem__(self, key: str) -> Place:
        """The place below a key."""
        if not isinstance(self.value, dict) or key not in self.value:
            raise DataError(
                f"key {key!r} is missing", where=self.where, next_step="restore the published file"
            )
        return self._below(key, key)

    @property
    def where(self) -> str:
        """File and pointer, for messages."""
        return f"{self.document.file}{self.pointer}"

    @property
    def is_entry(self) -> bool:
        """True for an entry of a list."""
        return self.pattern.endswith("*") and self.pointer.rsplit("/", 1)[-1].isdigit()

    def each(self, length: int | None = None) -> list[Place]:
        """The places of a list; raises DataError where it has another length."""
        if length is not None and len(self.value) != length:
            raise DataError(
                "another length", where=self.where, got=str(len(self.value)), allowed=str(length)
            )
        return [self._below(index, "*") for index in range(len(self.value))]

    def named(self) -> list[tuple[str, Place]]:
        """Names (of models, prompts, labs) and places of an object whose keys are names."""
        return [(key, self._below(key, "*")) for key in self.value]

    def text(self) -> str:
        """The text here; a number written as text is not read by this."""
        return str(self.value)

    def number(self, where: str) -> float | None:
        """Import the number into `where` (table and column); None where the file has NaN."""
        value = self.peek()
        self.enter(IMPORTED, where)
        return None if math.isnan(value) else value

    def token(self, where: str) -> str:
        """Import a token's text; where it reads as a number it is entered as one."""
        if NUMERAL.fullmatch(self.text()):
            self.enter(IMPORTED, where)
        return self.text()

    def peek(self) -> float:
        """The number here, without entering a fate."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float, str)):
            raise DataError("a number was expected", where=self.where, got=repr(self.value)[:60])
        return float(self.value)

    def integer(self) -> int:
        """The whole number here, without entering a fate."""
        return int(self.peek())

    def enter(self, fate: str, where: str, difference: float | None = None) -> None:
        """Enter the fate of the number here; a number has one fate only."""
        if self.pointer in self.document.entries:
            raise RuntimeError(f"{self.where} was read twice")
        missing = math.isnan(float(self.value))
        self.document.entries[self.pointer] = Entry(self.pattern, fate, where, missing, difference)

    def _below(self, at: str | int, part: str) -> Place:
        return Place(
            self.document,
            self.value[at],
            f"{self.pointer}/{escape(str(at))}",
            f"{self.pattern}/{part}",
        )

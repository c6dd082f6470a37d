"""Whose figures rows are: what lies next to the tables of an external source, in `source.toml`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from thermostats.errors import DataError, reason
from thermostats.tables.folders import CONFIG, data_folder, layers, read_bytes
from thermostats.tables.schemas import EXTERNAL

FILE, LICENCE = "source.toml", "LICENSE"
"""Next to the tables of a source: where they come from, and the text of their licence."""


@dataclass(frozen=True)
class Source:
    """Whose figures, from where and on what terms."""

    name: str
    """Folder of its files, and what its rows are called in the column `source`."""
    title: str
    address: str
    commit: str
    licence: str
    """SPDX identifier."""
    licence_file: str = LICENCE
    """File among its own that holds the licence; empty: it has none, and `licence_by` says who states it."""
    licence_by: str = ""
    left_out: str = ""
    """What of its files is not taken, and why."""

    def toml(self) -> bytes:
        """The record as TOML; a JSON string is a basic string of TOML."""
        stated = asdict(self)
        return "".join(f"{name} = {json.dumps(text, ensure_ascii=False)}\n" for name, text in stated.items()).encode()

    def statement(self) -> bytes:
        """In the place of a licence's text: who states it, and where."""
        return f"{self.licence} by {self.licence_by}: {self.address}, {self.commit}.\n".encode()


def read_source(path: Path) -> Source:
    """The record of a file `source.toml`.

    Raises DataError where it cannot be read, lacks an entry or has one that no source has.
    """
    try:
        stated: Mapping[str, object] = tomllib.loads(read_bytes(path, CONFIG).decode())
    except OSError as error:
        raise DataError("a source does not say where it comes from", where=path, got=reason(error)) from error
    except ValueError as error:
        raise DataError("what says where rows come from is no TOML", where=path, got=str(error)) from error
    allowed = [field.name for field in fields(Source)]
    if wrong := [name for name, text in stated.items() if name not in allowed or not isinstance(text, str)]:
        got = f"{wrong[0]} = {stated[wrong[0]]!r}"
        raise DataError("not an entry of a source", where=path, got=got, allowed=f"texts: {', '.join(allowed)}")
    try:
        return Source(**{name: str(text) for name, text in stated.items()})
    except TypeError as error:
        lacking = ", ".join(name for name in allowed[:5] if name not in stated)
        raise DataError("a source lacks entries", where=path, got=f"no {lacking}", next_step="add them") from error


def sources(data: str | Path | None = None) -> list[Source]:
    """The external sources of a data folder that say where they come from, by name."""
    places = [path for folder in layers(data_folder(data)) for path in (folder / EXTERNAL).glob(f"*/{FILE}")]
    return sorted(map(read_source, places), key=lambda source: source.name)

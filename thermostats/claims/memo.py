"""Values kept from one run to the next, each with the digests of what it was made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from thermostats.claims.codec import UNREADABLE, dump_value, load_value
from thermostats.tables.store import cache_folder, write_cache

FORMAT = 2
"""It rises when values are written otherwise, so that older files are made again."""
LAST = 3
"""Versions of a value that are kept: on the package's tables alone, and with rows of one's own."""
Part = tuple[str, str]
"""What a value is called, and the set of evidence that it is of."""


class Version:
    """One version of a value, which is decoded where it is asked for.

    made_of: SHA-256, by name, of what it was made of: rows of a selection, a file. rows: SHA-256 of
    the rows that alone it is made of, wherever they came from; empty where that is not known. text:
    JSON of the value.
    """

    def __init__(self, made_of: Mapping[str, str], rows: str = "", text: str = "") -> None:
        self.made_of = dict(made_of)
        self.rows = rows
        self._text = text

    @classmethod
    def hold(cls, value: Any, made_of: Mapping[str, str], rows: str = "") -> Version:
        """The version of a value that was made now; it is encoded where it is written."""
        version = cls(made_of, rows)
        version.value = value
        return version

    @cached_property
    def value(self) -> Any:
        """What was made; raises one of `UNREADABLE` where the text is of no value."""
        return load_value(self._text)

    @property
    def is_readable(self) -> bool:
        """Whether it can be decoded."""
        try:
            _ = self.value
        except UNREADABLE:
            return False
        return True

    @property
    def text(self) -> str:
        """JSON of it; raises TypeError for what has no form in it."""
        return self._text or dump_value(self.value)


class Memo:
    """The values that one file of the cache keeps.

    name: of the file, with its folder. key: digest of all that they depend on but what `made_of` of
    a version names; empty where nothing is kept. anew: what was kept is not read.
    """

    def __init__(self, name: str, key: str, *, anew: bool = False) -> None:
        folder = cache_folder() if key else None
        self.file = folder / f"{name}.json" if folder else None
        self.key = key
        self.versions: dict[Part, list[Version]] = {}
        if self.file is not None and not anew:
            self.versions = _read_file(self.file, key)
        self._has_new = False

    def find(self, part: Part, is_fresh: Callable[[Version], bool]) -> Version | None:
        """The last version that is fresh, decoded or not; None where there is none."""
        return next(filter(is_fresh, self.versions.get(part, [])), None)

    def find_readable(self, part: Part, is_fresh: Callable[[Version], bool]) -> Version | None:
        """The same, without those that cannot be decoded, which are kept no longer."""
        while (version := self.find(part, is_fresh)) is not None:
            if version.is_readable:
                break
            self.versions[part].remove(version)
        return version

    def keep(self, part: Part, version: Version) -> None:
        """Put a version first of those that are kept."""
        before = self.versions.get(part, [])
        others = [each for each in before if each is not version]
        self._has_new |= len(others) == len(before)
        self.versions[part] = [version, *others][:LAST]

    def write(self) -> str:
        """Keep them for the next run; why they cannot be kept, empty where they are or nothing is
        new."""
        if self.file is None or not self._has_new:
            return ""
        content = {"format": FORMAT, "key": self.key, "values": list(self._encode_parts())}
        return write_cache(self.file, json.dumps(content).encode())

    def _encode_parts(self) -> Iterator[list[Any]]:
        """Every value by its name, each version with its checksum; what has no form in JSON is made
        again the next time."""
        for part, versions in self.versions.items():
            with suppress(TypeError):
                parts = [[each.made_of, each.rows, each.text] for each in versions]
                yield [*part, [[_hash_version(self.key, part, each), *each] for each in parts]]


def _read_file(file: Path, key: str) -> dict[Part, list[Version]]:
    """What a file keeps under a key, without what was edited; nothing where there is no such file,
    or it is damaged."""
    known: dict[Part, list[Version]] = {}
    try:
        content = json.loads(file.read_bytes())
        if (content["format"], content["key"]) != (FORMAT, key):
            return {}
        for name, evidence, versions in content["values"]:
            part = (name, evidence)
            kept = []
            for checksum, *parts in versions:
                if checksum == _hash_version(key, part, parts):
                    kept.append(Version(*parts))
            known[part] = kept
    except (OSError, *UNREADABLE):
        return {}
    return known


def _hash_version(key: str, part: Part, parts: list[Any]) -> str:
    """SHA-256 of one version, of what it is of, and of all else that it depends on."""
    return hashlib.sha256(json.dumps([key, *part, *parts]).encode()).hexdigest()

"""Joins of files that are done: the same files into the same tables are recognised by hashes,
before they are read.

Of each data folder the cache keeps what its files were after the last join, and which joins have
all their rows in them; files that need a mapping are known without it, too. A file of the folder
that was written, replaced or removed since makes all of that void: by number, size or time of the
file, as version control knows changed files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from thermostats.errors import DataError, UsageError
from thermostats.public_names import VERSION
from thermostats.tables.folders import MARK, ROWS, find_lookup_folder, list_layers, list_own_files
from thermostats.tables.remedies import JoinCall
from thermostats.tables.schemas import TABLES
from thermostats.tables.store import cache_folder, warn_unkept, write_cache

ANYHOW = ("data", "options")
"""Arguments of a call on which it does not depend whether its rows are there."""


def hash_call(call: JoinCall) -> str:
    """Hash of the files of a call and of what it says about them; empty where a source is no file
    that can be read."""
    if not all(isinstance(source, str | Path) for source in call.sources):
        return ""
    stated = {}
    for each in fields(call):
        if each.name not in ANYHOW:
            stated[each.name] = getattr(call, each.name)
    files = list(map(Path, stated.pop("sources")))
    if isinstance(stated["mapping"], str | Path):
        files.append(Path(stated["mapping"]))
    try:
        if any(path.stat().st_size > ROWS for path in files):
            return ""  # it is refused unread
        contents = [(path.suffix, _hash_file(path)) for path in files]
    except OSError:
        return ""  # whoever reads it says so
    return _hash_value((VERSION, stated, contents))


def find_finished_rows(digest: str, data: str | Path | None) -> dict[str, int] | None:
    """Rows by table of a call whose rows are all in the tables of a data folder; None where that is
    not known."""
    folder = find_lookup_folder(data)
    path = _locate_record(folder) if digest else None
    if path is None:
        return None
    try:
        rows = _read_joins(path, _state(folder)).get(digest)
    except (DataError, UsageError):
        return None  # whoever loads the tables says so
    if rows is None:
        return None
    return {name: int(rows[name]) for name in TABLES if name in rows}


def keep(digests: Collection[str], rows: Mapping[str, int], folder: Path) -> None:
    """Remember that the rows of a call, known by each of these hashes, are all in the tables of a
    folder, which nobody else may be writing to."""
    path = _locate_record(folder)
    if path is not None:
        state = _state(folder)
        done = {digest: dict(rows) for digest in digests}
        content = {"state": state, "joins": {**_read_joins(path, state), **done}}
        if why := write_cache(path, json.dumps(content).encode()):
            warn_unkept(why)


def _locate_record(folder: Path) -> Path | None:
    cache = cache_folder()
    path = os.fsencode(folder.resolve())
    name = hashlib.sha256(path).hexdigest()[:16]
    return None if cache is None else cache / "joins" / f"{name}.json"


def _read_joins(path: Path, state: str) -> dict[str, Any]:
    """Joins that are done, by digest; none where the tables are others than they were then."""
    try:
        content = json.loads(path.read_bytes())
        return dict(content["joins"]) if content["state"] == state else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _state(folder: Path) -> str:
    """Hash of which files make up the tables of a data folder, and of what tells a changed one."""
    return _hash_value(list(map(_look, _list_files(folder))))


def _hash_value(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _list_files(folder: Path) -> Iterable[Path]:
    for layer in list_layers(folder):
        yield from (layer / MARK, layer / "private" / "prompts.csv")
        for name in TABLES:
            yield from list_own_files(name, layer)


def _look(path: Path) -> tuple[object, ...]:
    try:
        stat = path.stat()
    except OSError:
        return (str(path),)
    return str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _hash_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

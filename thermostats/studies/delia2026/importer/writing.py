"""Write the tables all together or not at all, and say what differs from those that were there."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from thermostats.claims.study import Change
from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.atomic import only_writer, write_all
from thermostats.tables.schemas import key


def write(tables: Mapping[str, pd.DataFrame], texts: pd.DataFrame, data: Path) -> tuple[Change, ...]:
    """Write `published/<table>.csv` and the prompts' texts to `private/prompts.csv`; only what differs, all or none.

    Raises DataError where the folder cannot be written; every file is as it was then.
    """
    contents = {data / "published" / f"{name}.csv": (name, store.to_csv(frame, name)) for name, frame in tables.items()}
    private = data / "private" / "prompts.csv"
    contents[private] = ("prompts", store.to_csv(_with_others(texts, private), "prompts"))
    pending = {path: content for path, content in contents.items() if not _holds(path, content[1])}
    if not pending:
        return ()
    for path in pending:
        if path.exists() and not path.is_file():
            raise DataError("a table's place is taken by something that is not a file", where=path)
    with only_writer(data):
        changes = [_change(name, path, content) for path, (name, content) in pending.items()]
        write_all(data, {path: content for path, (_, content) in pending.items()})
    return tuple(changes)


def _with_others(texts: pd.DataFrame, path: Path) -> pd.DataFrame:
    if not path.is_file():
        return texts
    before = store.read(path, "prompts")
    return pd.concat([before[~before["prompt_set"].isin(set(texts["prompt_set"]))], texts], ignore_index=True)


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.is_file() and path.read_bytes() == content
    except OSError as error:
        raise DataError("table cannot be read", where=path, got=error.strerror or str(error)) from error


def _change(name: str, path: Path, content: bytes) -> Change:
    label = name if path.parent.name == "published" else f"{path.parent.name}/{name}"
    new = _rows(content, name)
    old = _rows(path.read_bytes(), name) if path.is_file() else {}
    return Change(
        label,
        added=len(new.keys() - old.keys()),
        removed=len(old.keys() - new.keys()),
        altered=sum(old[row] != new[row] for row in new.keys() & old.keys()),
    )


def _rows(content: bytes, name: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    lines = csv.DictReader(io.StringIO(content.decode("utf-8", errors="replace"), newline=""))
    return {
        tuple(line.get(label) or "" for label in key(name)): tuple(str(cell) for cell in line.values())
        for line in lines
    }

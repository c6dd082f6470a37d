"""Many CSV files of one table as one: parsed together, since beginning to parse costs more than a run's rows do."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.tables.declare import TEXT
from thermostats.tables.limits import TABLE, read_bytes

AT_ONCE = 64 * 2**20
"""Bytes that are parsed together; more is no faster."""


def read_all(
    paths: Sequence[Path], declared: Mapping[str, str], read: Callable[[Path], pd.DataFrame]
) -> list[pd.DataFrame]:
    """Rows of files with these columns, not yet validated, in a few tables; `read` reads one alone.

    A file is read alone where its header is another, it does not end with a line, or it might change how the one
    behind it is read; so are all of a batch that cannot be parsed as one row a line. What is wrong then, and whether
    anything is, `read` says.
    """
    head = (",".join(declared) + "\n").encode()
    frames = []
    for batch, rows in _batches(paths, head):
        together = _parse(head, rows, declared) if rows else None
        frames += [read(path) for path in batch] if together is None else [together]
    return frames


def _batches(paths: Sequence[Path], head: bytes) -> Iterator[tuple[list[Path], list[bytes]]]:
    """Files with their rows as long as they may be parsed together; one that may not comes without rows."""
    batch: list[Path] = []
    rows: list[bytes] = []
    size = 0
    for path in paths:
        try:
            content = read_bytes(path, TABLE)
        except OSError:
            yield [path], []
            continue
        outside_quotes = content.count(b'"') % 2 == 0 and b"\r" not in content and b"\0" not in content
        if not content.startswith(head) or not content.endswith(b"\n") or not outside_quotes:
            yield [path], []
            continue
        batch.append(path)
        rows.append(content[len(head) :])
        size += len(content)
        if size > AT_ONCE:
            yield batch, rows
            batch, rows, size = [], [], 0
    if batch:
        yield batch, rows


def _parse(head: bytes, rows: Sequence[bytes], declared: Mapping[str, str]) -> pd.DataFrame | None:
    """Rows of several files; None where they cannot be parsed, or a line is no row."""
    lines = sum(part.count(b"\n") for part in rows)
    try:
        frame = pd.read_csv(io.BytesIO(b"".join((head, *rows))), **options(declared), low_memory=False)
    except (ValueError, TypeError):
        return None
    return frame if len(frame) == lines and isinstance(frame.index, pd.RangeIndex) else None


def options(declared: Mapping[str, str]) -> dict[str, Any]:
    """How pandas reads a table with these columns: an empty cell of a number is missing, of a text is empty."""
    return {
        "dtype": dict(declared),
        "keep_default_na": False,
        "na_values": {label: [""] for label, dtype in declared.items() if dtype != TEXT},
        "true_values": ["True"],
        "false_values": ["False"],
    }

"""Files read whole only where they are of a size that such files have; a larger one never comes to fill memory."""

from __future__ import annotations

from pathlib import Path

from thermostats.errors import DataError

MEGABYTE = 1_000_000
CONFIG, INDEX, PROMPTS, ROWS = 10 * MEGABYTE, 30 * MEGABYTE, 50 * MEGABYTE, 200 * MEGABYTE
"""Largest files by kind; the largest that are known of are under a tenth of it."""


def read_bytes(path: Path, limit: int) -> bytes:
    """Content of a file of at most `limit` bytes.

    Raises OSError where it cannot be read, DataError where it is larger.
    """
    with path.open("rb") as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise DataError(
            "the file is larger than files of its kind are", where=path, got=f"{path.stat().st_size} bytes",
            allowed=f"at most {limit} bytes", next_step="name another file, or split it",
        )  # fmt: skip
    return content

"""Files read whole only where they are of a size that such files have; a larger one never comes to fill memory."""

from __future__ import annotations

import os
from pathlib import Path

from thermostats.errors import DataError

MEGABYTE = 1_000_000
CONFIG, INDEX, PROMPTS, ROWS = 10 * MEGABYTE, 30 * MEGABYTE, 50 * MEGABYTE, 200 * MEGABYTE
"""Largest files by kind; the largest that are known of are under a tenth of it."""
TABLE = 500 * MEGABYTE
"""Largest file of a store: rows of one run, or of the models."""
CELLS = 20_000_000
"""Most cells of a file of rows, so that a small file does not unpack to what fills memory."""


class TooManyError(ValueError):
    """A file holds more cells than files of its kind do."""


def read_bytes(path: Path, limit: int) -> bytes:
    """Content of a file; raises OSError where it cannot be read, DataError where it has more than `limit` bytes."""
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        content = stream.read(min(size, limit) + 1)
        if len(content) > size:  # it grows, or does not tell its size
            content += stream.read(limit + 1 - len(content))
    if len(content) > limit:
        raise DataError(
            "the file is larger than files of its kind may be",
            where=path,
            got=f"{path.stat().st_size} bytes",
            allowed=f"at most {limit} bytes",
            next_step="name another file, or split it",
        )
    return content


def check_cells(count: int) -> None:
    """Raise TooManyError where a file has more cells than `CELLS`."""
    if count > CELLS:
        raise TooManyError(f"about {count} cells")

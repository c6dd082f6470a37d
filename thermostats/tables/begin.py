"""A user's store is begun when it is first written to; the package's own tables are never written to."""

from __future__ import annotations

import sys
from pathlib import Path

import thermostats
from thermostats.errors import DataError
from thermostats.tables import folders
from thermostats.tables.atomic import write_atomically

CONTENT = """\
# A data folder of thermostats: it holds your own rows. The tables that ship with the package are read beneath them;
# a row of yours stands in the place of one with the same key there. Without this file the folder stands for itself.
begun_with = "{version}"
schema = {schema}
"""


def writable_folder(data: str | Path | None = None) -> Path:
    """Data folder to write to; one that has no tables yet is begun, whole or not at all.

    Raises UsageError where none is named, DataError where it cannot be made.
    """
    folder = folders.own_folder(data)
    if any((folder / name).exists() for name in (folders.MARK, *folders.HELD)):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError("cannot begin a data folder", where=folder, got=error.strerror or str(error)) from error
    write_atomically(
        folder / folders.MARK, CONTENT.format(version=thermostats.__version__, schema=folders.SCHEMA).encode()
    )
    print(f"{folder}: new data folder for your own rows; the package's tables are read beside them", file=sys.stderr)
    return folder

"""A new data folder begins as a copy of the tables that ship with the package, so that analyses find them there."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from thermostats.errors import DataError
from thermostats.tables import store

NOT_COPIED = ("private", ".lock")


def writable_folder(data: str | Path | None = None) -> Path:
    """Data folder to write to; one that does not exist or is empty is begun, whole or not at all.

    Raises DataError where it cannot be made.
    """
    chosen = data if data is not None else os.environ.get(store.DATA_VARIABLE)
    if chosen is None or (Path(chosen).is_dir() and any(Path(chosen).iterdir())):
        return store.data_folder(data)
    folder = Path(chosen)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
            copy = Path(temporary) / folder.name
            shutil.copytree(store.shipped("data"), copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
            copy.replace(folder)
    except OSError as error:
        raise DataError("cannot begin a data folder", where=folder, got=error.strerror or str(error)) from error
    print(f"{folder}: new data folder, begun with the tables that ship with the package", file=sys.stderr)
    return folder

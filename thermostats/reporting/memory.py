"""Results of analyses kept in the user's cache folder, so that another template does not mean another fit."""

from __future__ import annotations

import pickle
from dataclasses import asdict
from pathlib import Path

from thermostats.errors import DataError
from thermostats.modelling.cache import cache_folder
from thermostats.reporting.freshness import Record, machine, sha_of
from thermostats.reporting.runner import Run
from thermostats.tables.atomic import write_atomically

FOLDER = "analyses"


def load(record: Record) -> Run | None:
    """Result of the analysis that a record tells of; None where it was not kept on this machine with these "
    "versions."""
    path = _path(record)
    if path is None:
        return None
    try:
        run = pickle.loads(path.read_bytes())  # noqa: S301 (the user's own cache folder, written by `save`)
    except (OSError, pickle.UnpicklingError, EOFError, AttributeError, ImportError):
        return None
    return run if isinstance(run, Run) else None


def save(record: Record, run: Run) -> None:
    """Keep a result; a cache that cannot be written keeps nothing."""
    path = _path(record)
    if path is not None:
        try:
            write_atomically(path, pickle.dumps(run))
        except DataError:
            return


def _path(record: Record) -> Path | None:
    """Its file, named after script, imported code, rows read and versions; None where the cache is off."""
    folder = cache_folder()
    told = {name: value for name, value in asdict(record).items() if name in {"script", "code", "selections"}}
    return folder / FOLDER / f"{sha_of([told, machine()])}.pickle" if folder else None

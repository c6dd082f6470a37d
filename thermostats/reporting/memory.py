"""Results of analyses kept in the user's cache folder, so that another template does not mean another fit.

They are pickles; those that hold anything but results, tables and arrays are not loaded, as code could run.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

from thermostats.errors import DataError
from thermostats.reporting.freshness import Record, machine, sha_of
from thermostats.reporting.runner import Run
from thermostats.tables.atomic import write_atomically
from thermostats.tables.caching import cache_folder

FOLDER = "analyses"
PLAIN = {
    "builtins": {"bytearray", "slice"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "pandas": {"DataFrame", "Index", "RangeIndex", "Series", "StringDtype", "Int64Dtype", "BooleanDtype"},
    "pandas._libs.internals": {"_unpickle_block"},
    "pandas.arrays": {"ArrowStringArray", "BooleanArray", "FloatingArray", "IntegerArray", "StringArray"},
    "pandas.core.indexes.base": {"_new_Index"},
    "pandas.core.internals.managers": {"BlockManager", "SingleBlockManager"},
    "pyarrow.lib": {"_restore_array", "py_buffer", "type_for_alias"},
    "thermostats.modelling.inference.checks": {"Check", "Gate"},
    "thermostats.claims.finding": {"Claim", "Finding"},
    "thermostats.claims.posterior": {"Panel", "Posterior"},
    "thermostats.reporting.runner": {"Run", "_drawn"},
}
"""What a result is made of, by module; a result of anything else is made afresh."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """What the pickle names, where it is part of a result."""
        if name not in PLAIN.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a result")
        return super().find_class(module, name)


def load(record: Record) -> Run | None:
    """Result of the analysis that a record tells of; None where it was not kept on this machine with these "
    "versions."""
    path = _path(record)
    if path is None:
        return None
    try:
        run = _Plain(io.BytesIO(path.read_bytes())).load()
    except Exception:  # a damaged pickle raises whatever it comes upon; a result that is not kept is made afresh
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

"""What the features of each run were made to, kept in the user's cache folder: only runs that are new or changed count.

A run is known by the bytes of the files and archives that hold its rows, and the depth of its model. What is kept are
numbers and names in an npz file, read without pickles.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.archive import is_archive, runs_in
from thermostats.tables.atomic import write_atomically
from thermostats.tables.limits import TABLE, read_bytes
from thermostats.tables.schemas import TEXT

OF_RUNS = ("layers", "summaries", "transitions", "weights")


def place(cache: Path, data: str | Path | None, code: str) -> Path:
    """File in a cache folder for a data folder, made by code of this digest."""
    about = f"{store.data_folder(data).resolve()}\n{code}\n{np.__version__}\n{pd.__version__}"
    return cache / "features" / f"{hashlib.sha256(about.encode()).hexdigest()[:32]}.npz"


def signatures(data: str | Path | None, depths: Mapping[str, int]) -> dict[str, str]:
    """SHA-256 by run over the files that hold it and the depth of its model; none where a file cannot be read."""
    digests: dict[str, hashlib._Hash] = {}
    for name in OF_RUNS:
        for path in store.files(name, data):
            try:
                content = read_bytes(path, TABLE)
                held = runs_in(path) if is_archive(path) else _first_cells(content)
            except (OSError, ValueError, DataError):
                return {}  # loading says what is wrong
            stamp = f"{name} ".encode() + hashlib.sha256(content).digest()
            for run in held:
                digests.setdefault(run, hashlib.sha256(str(depths.get(run)).encode())).update(stamp)
    return {run: digest.hexdigest() for run, digest in digests.items()}


def _first_cells(content: bytes) -> set[str]:
    """What stands first in the lines of a CSV file but the first line; no table of runs has a text of several lines."""
    return {line.partition(b",")[0].decode() for line in content.splitlines()[1:]}


def read(path: Path) -> tuple[dict[str, str], dict[str, pd.DataFrame]]:
    """Signatures of the runs that are kept, and their tables by name; none where there are none or they are damaged."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            known = dict(zip(file["runs"].tolist(), file["signatures"].tolist(), strict=True))
            tables: dict[str, dict[str, np.ndarray]] = {}
            for name, _, column in (entry.partition("/") for entry in file.files if "/" in entry):
                tables.setdefault(name, {})[column] = file[f"{name}/{column}"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}, {}  # as good as none: they are made anew
    frames = {name: pd.DataFrame(columns) for name, columns in tables.items()}
    return known, {
        name: frame.astype({label: TEXT for label in frame if frame[label].dtype.kind in "UO"})
        for name, frame in frames.items()
    }


def write(path: Path, known: Mapping[str, str], tables: Mapping[str, pd.DataFrame]) -> None:
    """Keep the tables of runs; a cache that cannot be written keeps nothing."""
    arrays = {"runs": np.array(list(known), dtype=str), "signatures": np.array(list(known.values()), dtype=str)}
    for name, frame in tables.items():
        for column in frame:
            cells = frame[column]
            text = cells.dtype == TEXT
            arrays[f"{name}/{column}"] = np.array(cells.tolist(), dtype=str) if text else cells.to_numpy()
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type] # names are ours
    try:
        write_atomically(path, content.getvalue())
    except DataError:
        return

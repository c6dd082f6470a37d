"""What the features of each run were made to, kept in the user's cache folder: only runs that are new or changed count.

A run is known by the bytes of its files and archives and the depth of its model. Runs that stand in CSV files of
several runs (published figures) are few and are always made anew, and so is everything where a file holds rows of a run
that it is not named after. What is kept are numbers and names in an npz file, read without pickles.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.archive import is_archive, runs_in
from thermostats.tables.atomic import write_atomically
from thermostats.tables.caching import cache_folder
from thermostats.tables.declare import TEXT
from thermostats.tables.limits import TABLE, read_bytes
from thermostats.tables.store import RUN_FILE

FOLDER = "features"
OF_RUNS = ("layers", "summaries", "transitions", "weights")


def signatures(data: str | Path | None, depths: Mapping[str, int]) -> dict[str, str] | None:
    """SHA-256 by run over its files and the depth of its model; None where a file holds rows of another run."""
    digests: dict[str, hashlib._Hash] = {}
    for name in OF_RUNS:
        for path in store.files(name, data):
            if not is_archive(path) and not RUN_FILE.fullmatch(path.name):
                continue
            try:
                content = read_bytes(path, TABLE)
                held = runs_in(path) if is_archive(path) else {path.stem}
            except (OSError, ValueError, DataError):
                return None  # loading says what is wrong
            if is_archive(path):
                content = hashlib.sha256(content).digest()
            elif content.count(f"\n{path.stem},".encode()) != content.count(b"\n") - 1:
                return None
            for run in held:
                digest = digests.setdefault(run, hashlib.sha256(str(depths.get(run)).encode()))
                digest.update(f"{name} {len(content)} ".encode() + content)
    return {run: digest.hexdigest() for run, digest in digests.items()}


def read(data: str | Path | None, code: str) -> tuple[dict[str, str], dict[str, pd.DataFrame]]:
    """Signatures of the runs that are kept, and their tables by name; none where there are none or they are damaged."""
    path = _path(data, code)
    try:
        if path is None:
            return {}, {}
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            known = dict(zip(file["runs"].tolist(), file["signatures"].tolist(), strict=True))
            tables: dict[str, dict[str, np.ndarray]] = {}
            for entry in file.files:
                if "/" in entry:
                    name, column = entry.split("/", 1)
                    tables.setdefault(name, {})[column] = file[entry]
        return known, {name: _typed(pd.DataFrame(columns)) for name, columns in tables.items()}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}, {}  # as good as none: they are made anew


def write(data: str | Path | None, code: str, known: Mapping[str, str], tables: Mapping[str, pd.DataFrame]) -> None:
    """Keep the tables of runs; a cache that cannot be written keeps nothing."""
    path = _path(data, code)
    if path is None:
        return
    arrays = {"runs": np.array(list(known), dtype=str), "signatures": np.array(list(known.values()), dtype=str)}
    for name, frame in tables.items():
        for column in frame:
            text = frame[column].dtype == TEXT
            arrays[f"{name}/{column}"] = (
                np.array(frame[column].tolist(), dtype=str) if text else frame[column].to_numpy()
            )
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type] # names are ours
    try:
        write_atomically(path, content.getvalue())
    except DataError:
        return


def only(frame: pd.DataFrame, runs: Collection[str]) -> pd.DataFrame:
    """Rows of some runs."""
    return frame[frame["run_id"].isin(list(runs))]


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype({label: TEXT for label in frame if frame[label].dtype.kind in "UO"})


def _path(data: str | Path | None, code: str) -> Path | None:
    folder = cache_folder()
    place = str(store.data_folder(data).resolve())
    name = hashlib.sha256(f"{place}\n{code}\n{np.__version__}\n{pd.__version__}".encode()).hexdigest()[:32]
    return folder / FOLDER / f"{name}.npz" if folder else None

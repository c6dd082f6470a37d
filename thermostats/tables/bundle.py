"""Bundles: measured rows of one lab in a zip file, with digests, for another lab to join.

In a bundle the rows have a source of their own, so that they never stand for, nor against, what the other lab measures.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import DataError, UsageError, reason
from thermostats.tables import store
from thermostats.tables.atomic import write_atomically
from thermostats.tables.incoming import READERS
from thermostats.tables.limits import ROWS, TABLE
from thermostats.tables.runs import run_id
from thermostats.tables.schemas import OF_RUNS, TABLES

ENDING = ".zip"
MANIFEST = "manifest.json"
FORMAT = 1
"""Number of the form of a bundle."""
ROOM = 200
"""Files that a bundle holds at most."""
WHEN = (1980, 1, 1, 0, 0, 0)
"""Time of every file in it: the same rows give the same bytes."""
DIGITS = 8
"""Of the digest that names a source which nobody has named."""


def source_of(data: Path, runs: Collection[str]) -> str:
    """What rows of some runs are called elsewhere where nobody says: a digest of them; raises as `write` does."""
    frames = _rows(data, runs)
    both = b"".join(store.to_csv(frames[name], name) for name in sorted(frames))
    return f"bundle-{_sha(both)[:DIGITS]}"


def write(
    path: Path, data: Path, runs: Collection[str], pages: Mapping[str, bytes], *, source: str, **about: Any
) -> None:
    """Write rows of some runs and pages about them.

    source: what the rows are called elsewhere. about: further entries of the manifest. Texts of prompts that do not
    ship stay here, their hashes go.

    Raises UsageError where there are no such runs, DataError where the file cannot be written.
    """
    frames = _named(_rows(data, runs), source)
    files = {f"{name}.csv": store.to_csv(rows, name) for name, rows in frames.items()}
    files |= dict(pages)
    manifest = {"format": FORMAT, "source": source, **about, "files": {n: _sha(c) for n, c in sorted(files.items())}}
    files[MANIFEST] = json.dumps(manifest, indent=1, ensure_ascii=False).encode()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, WHEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    write_atomically(path, content.getvalue())


def unpacked(path: Path) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Table, place and rows of each table in a bundle, as text; nothing of it is written to disk.

    Raises DataError where it is no bundle, or a file of it is not the one that its manifest lists.
    """
    step = "ask for the file again: `thermostats replicate` writes it"
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
            if len(sizes) > ROOM or sum(sizes.values()) > TABLE or MANIFEST not in sizes:
                got = f"{len(sizes)} files, {sum(sizes.values())} bytes unpacked"
                raise DataError("not a bundle of rows", where=path, got=got, allowed=MANIFEST, next_step=step)
            manifest = json.loads(_content(archive, MANIFEST))
            listed = manifest["files"]
            if manifest["format"] != FORMAT:
                got = repr(manifest["format"])[:20]
                raise DataError("a bundle with another format", where=path, got=got, allowed=str(FORMAT))
            found = [(name, _content(archive, f"{name}.csv")) for name in TABLES if f"{name}.csv" in listed]
        for name, content in found:
            if _sha(content) != listed[f"{name}.csv"]:
                where = f"{path}, {name}.csv"
                raise DataError("a file of the bundle is not the one that was packed", where=where, next_step=step)
        frames = [(name, READERS[".csv"](content)) for name, content in found]
    except OSError as error:
        raise DataError("the bundle cannot be read", where=path, got=reason(error)) from error
    except (zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise DataError("the bundle is damaged", where=path, got=str(error)[:100], next_step=step) from error
    yield from ((name, f"{path}, {name}.csv", frame) for name, frame in frames)


def _content(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as stream:
        content = stream.read(ROWS + 1)
    if len(content) > ROWS:
        raise ValueError(f"{name} unpacks to more than {ROWS} bytes")
    return content


def _rows(data: Path, runs: Collection[str]) -> dict[str, pd.DataFrame]:
    """Rows of some runs by table, with the models and prompts that they are of."""
    chosen = store.load("runs", data)
    chosen = chosen[chosen["run_id"].isin(runs)]
    if chosen.empty:
        raise UsageError("there are no measured rows to bundle", where=data, next_step="thermostats ls runs says why")
    models, prompts = store.load("models", data), store.load("prompts", data, private=False)
    model = ["model_id", "revision"]
    frames = {
        "models": models.merge(chosen[model].drop_duplicates(), on=model),
        "prompts": prompts[prompts["prompt_set"].isin(chosen["prompt_set"])],
        "runs": chosen,
    }
    for schema in OF_RUNS:
        rows = store.load(schema.name, data, runs=set(chosen["run_id"]))
        frames[schema.name] = rows[rows["run_id"].isin(chosen["run_id"])]
    return {name: rows for name, rows in frames.items() if len(rows)}


def _named(frames: Mapping[str, pd.DataFrame], source: str) -> dict[str, pd.DataFrame]:
    """The rows under another source, and so under other ids of their runs."""
    runs = frames["runs"].assign(source=source)
    ids = dict(zip(runs["run_id"], map(run_id, runs.to_dict("records")), strict=True))
    renamed = {
        name: (runs if name == "runs" else rows).assign(run_id=rows["run_id"].map(ids)) if "run_id" in rows else rows
        for name, rows in frames.items()
    }
    return {name: store.validate(rows, name) for name, rows in renamed.items()}


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

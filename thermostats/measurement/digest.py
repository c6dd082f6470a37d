"""A hash of the model in a folder: of its weights' files and its configuration, so that a name is not taken for it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from thermostats.errors import DataError, reason
from thermostats.measurement.checkpoint import weight_files
from thermostats.measurement.spectra import read_config
from thermostats.tables.caching import cache_folder

BLOB = re.compile(r"[0-9a-f]{64}")
"""What the hub's cache calls a file of weights: its SHA-256."""
PROVENANCE = {"_name_or_path", "_commit_hash", "transformers_version", "architectures", "dtype", "torch_dtype"}
"""Keys of a configuration that say where a model is from or how it is stored, not what it computes."""
SETTLED = 2.0
"""Seconds after which a file that is written again has another time of change, however coarse the clock."""


def model_sha(folder: Path) -> str:
    """SHA-256 over name and SHA-256 of each file of weights, sorted, and over the configuration, in hexadecimal.

    A file's SHA-256 is what the hub's cache calls it, if it does; else it is computed, and kept by path, size and time
    of change. Of the configuration `PROVENANCE` does not count. Raises DataError where a file cannot be read.
    """
    files = [f"{path.name} {file_sha(path)}" for path in sorted(weight_files(folder), key=lambda path: path.name)]
    stated = json.dumps(_computing(read_config(folder, "")), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256("\n".join([*files, stated]).encode()).hexdigest()


def _computing(config: Any) -> Any:
    """A configuration, and those nested in it, without what does not count."""
    if isinstance(config, dict):
        return {key: _computing(value) for key, value in config.items() if key not in PROVENANCE}
    return [_computing(each) for each in config] if isinstance(config, list) else config


def file_sha(path: Path) -> str:
    """SHA-256 of a file's bytes; raises DataError where it cannot be read."""
    place = path.resolve()
    if BLOB.fullmatch(place.name) and place.parent.name == "blobs":
        return place.name
    try:
        state = place.stat()
        seen = [str(place), state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
        note = _place_of(place)
        if sha := _noted(note, seen):
            return sha
        with place.open("rb") as file:
            computed = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError("weights cannot be read", where=path, got=reason(error)) from error
    if note is not None and time.time() - max(state.st_mtime, state.st_ctime) > SETTLED:
        _keep(note, seen, computed)
    return computed


def _place_of(path: Path) -> Path | None:
    """Where a file's hash is kept; None where nothing is."""
    cache = cache_folder()
    return None if cache is None else cache / "weights" / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}.json"


def _noted(path: Path | None, seen: list[Any]) -> str:
    """The hash of a file as it was seen; empty where it is not known, or the note of it is damaged."""
    if path is None:
        return ""
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    fits = isinstance(written, dict) and written.get("seen") == seen and BLOB.fullmatch(str(written.get("sha256")))
    return str(written["sha256"]) if fits else ""


def _keep(path: Path, seen: list[Any], computed: str) -> None:
    """Write down a file's hash; where nothing can be written it is computed again the next time."""
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps({"seen": seen, "sha256": computed}), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)

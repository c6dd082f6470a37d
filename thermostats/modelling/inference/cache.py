"""Draws kept in the user's cache folder: one file per model, data, settings and versions."""

from __future__ import annotations

import hashlib
import inspect
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from thermostats.errors import UsageError
from thermostats.modelling.inference.draws import Diagnostics, Draws, Settings
from thermostats.tables.caching import CACHE_VARIABLE, OFF


def source_of(function: Callable[..., Any]) -> str:
    """Name and source of a function's module, so that a changed helper is a changed model.

    Functions without a source file (an interactive session) are known by their compiled code.
    """
    module = inspect.getmodule(function)
    try:
        source = inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError):
        source = ""
    if not source:
        code = function.__code__
        source = repr((code.co_code, code.co_consts, code.co_names, function.__defaults__))
    return f"{function.__module__}.{function.__qualname__}\n{source}"


def key(model: Callable[..., Any], data: Mapping[str, Any], **settings: object) -> str:
    """SHA-256 over model source, arrays with their types and shapes, and settings."""
    digest = hashlib.sha256(source_of(model).encode())
    for name in sorted(data):
        value = data[name]
        if isinstance(value, np.ndarray):
            digest.update(f"{name}:{value.dtype}:{value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        else:
            digest.update(f"{name}:{value!r}".encode())
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def load(path: Path) -> Draws | None:
    """Draws of a cache file; None where there is none or it is damaged, which is as good as none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            record = json.loads(str(file["record"]))
            values = {name.removeprefix("draws/"): file[name] for name in file.files if name.startswith("draws/")}
        return Draws(
            values=values,
            diagnostics=Diagnostics(**record.pop("diagnostics")),
            settings=Settings(**record.pop("settings")),
            from_cache=True,
            **record,
        )
    except Exception:  # a damaged archive raises whatever it comes upon; draws that are not kept are made afresh
        return None


def save(path: Path, draws: Draws) -> None:
    """Write draws to a temporary file and rename it.

    Raises UsageError where the folder cannot be written.
    """
    record = {
        "diagnostics": asdict(draws.diagnostics),
        "settings": asdict(draws.settings),
        "attempts": draws.attempts,
        "seed": draws.seed,
        "compile_seconds": draws.compile_seconds,
        "sample_seconds": draws.sample_seconds,
        "versions": dict(draws.versions),
    }
    arrays: dict[str, Any] = {f"draws/{name}": array for name, array in draws.values.items()}
    write(path, lambda file: np.savez(file, record=np.array(json.dumps(record)), **arrays))


def write(path: Path, put: Callable[[IO[bytes]], None]) -> None:
    """Write a file of the cache whole or not at all: under another name, then renamed.

    Raises UsageError where the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".partial", delete=False) as file:
            put(file)
        Path(file.name).replace(path)
    except OSError as error:
        raise UsageError(
            "the cache of draws cannot be written",
            where=path.parent,
            got=error,
            next_step=f"set {CACHE_VARIABLE} to another folder, or to {OFF}",
        ) from error

"""Files of a report: written where they changed, removed with the folders they leave empty."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from thermostats.tables.atomic import write_all


def write_files(out: Path, files: Mapping[str, bytes]) -> list[str]:
    """Write those files that are not there with the same bytes; their names."""
    there = {name: out / name for name in files if (out / name).is_file()}
    written = [name for name, content in files.items() if name not in there or there[name].read_bytes() != content]
    write_all(out, {out / name: files[name] for name in written})
    return written


def remove_files(out: Path, names: Iterable[str]) -> list[str]:
    """Remove files of a report, and folders left empty; the names of those that were there."""
    removed = [name for name in names if (out / name).is_file()]
    for name in removed:
        path = out / name
        path.unlink()
        if path.parent != out and not any(path.parent.iterdir()):
            path.parent.rmdir()
    return removed


def as_json(value: object) -> bytes:
    """A value as JSON that is the same bytes for equal values."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

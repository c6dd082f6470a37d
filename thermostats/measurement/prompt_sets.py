"""Names of prompt sets, held against the tables before pandas is loaded."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from thermostats.errors import UsageError, did_you_mean
from thermostats.tables.folders import layers, own_files


def check_set(name: str, folder: Path) -> None:
    """Raise UsageError where there is neither a prompt set of this name in a data folder nor a file at that path."""
    if Path(name).is_file():
        return
    sets: set[str] = set()
    for path in [path for layer in layers(folder) for path in own_files("prompts", layer)]:
        try:
            with path.open(encoding="utf-8", newline="") as lines:
                sets |= {row.get("prompt_set") or "" for row in csv.DictReader(lines)}
        except (OSError, UnicodeDecodeError, csv.Error):
            return  # what is wrong with the table is said by what reads it whole
    if name not in sets:
        raise no_such_set(name, sets)


def no_such_set(name: str, sets: Iterable[str]) -> UsageError:
    """The error for a name that is none of these sets' and no file's."""
    known = sorted(set(sets) - {""})
    return UsageError(
        "no such prompt set or file",
        got=repr(name),
        allowed=", ".join([*known, "a file .txt, .csv or .jsonl"]),
        next_step=did_you_mean(name, known, "thermostats ls prompts"),
    )

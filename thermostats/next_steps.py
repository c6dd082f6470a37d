"""Next steps as code: calls of this package, filled in so that a line runs as it is pasted, in Python or in a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

SHELL: ContextVar[bool] = ContextVar("SHELL", default=False)
"""Whether lines are for a shell."""
PROGRAM = "thermostats"
READERS = {
    ".csv": "pd.read_csv({}, dtype=str, keep_default_na=False)",
    ".tsv": 'pd.read_csv({}, sep="\\t", dtype=str, keep_default_na=False)',
    ".json": "pd.read_json({}, dtype=False)",
    ".jsonl": "pd.read_json({}, lines=True, dtype=False)",
    ".parquet": "pd.read_parquet({})",
}
"""Expressions that read a file of rows as it is, by its ending."""


@dataclass(frozen=True)
class Code:
    """An expression, which stands in a call as it is."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The call that is being made: a function of this package and its arguments by name, its rows first."""

    function: str
    arguments: Mapping[str, Any]
    positional: int = 1
    """Arguments that stand in it without their names; the first are the rows."""
    rows: str = "df"
    """What the rows are called in its lines."""


ASKED: ContextVar[Asked | None] = ContextVar("ASKED", default=None)


@contextmanager
def asking(asked: Asked) -> Iterator[None]:
    """Next steps of what is refused here are this call with other arguments."""
    token = ASKED.set(asked)
    try:
        yield
    finally:
        ASKED.reset(token)


def again(rows: Code | None = None, **changed: Any) -> str:
    """The call that is being made, with other rows or arguments; empty where none is.

    What cannot be written is called as its argument is.
    """
    asked = ASKED.get()
    if asked is None:
        return ""
    first, *_ = asked.arguments
    arguments = {**asked.arguments, **changed, first: rows or Code(asked.rows)}
    plain = {name: value if _can_be_written(value) else Code(name) for name, value in arguments.items()}
    unnamed = [plain.pop(name) for name in [*asked.arguments][: asked.positional] if name in plain]
    return call(asked.function, *unnamed, **plain)


def _can_be_written(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_can_be_written, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_can_be_written, value))
    return value is None or isinstance(value, (Code, str, Path, Real))


@contextmanager
def lines_for_a_shell() -> Iterator[None]:
    """Lines of calls that are refused here are commands."""
    token = SHELL.set(True)
    try:
        yield
    finally:
        SHELL.reset(token)


def call(function: str, *values: Any, **arguments: Any) -> str:
    """The call of a function of this package, by name."""
    words = [*map(written, values), *(f"{name}={written(value)}" for name, value in arguments.items())]
    return f"{PROGRAM}.{function}({', '.join(words)})"


def command(verb: str, *words: object, **options: object) -> str:
    """The command of a verb; an option that is true stands alone, one of several values is repeated."""
    line = [PROGRAM, verb, *map(str, words)]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            line.append(option)
        elif isinstance(value, (list, tuple)):
            line += [word for each in value for word in (option, str(each))]
        elif value not in (None, "", False):
            line += [option, str(value)]
    return shlex.join(line)


def in_shell(line: str) -> str:
    """A line of Python as a command that prints what it gives."""
    imports = f"import {PROGRAM}" + ", pandas as pd" * ("pd." in line)
    return f"python -c {shlex.quote(f'{imports}; print({line})')}"


def file_read(path: str | Path) -> str:
    """The expression that reads a file of rows as a frame, its texts as they are."""
    return READERS[Path(path).suffix.lower()].format(written(str(path)))


def written(value: Any) -> str:
    """A value as Python has it, texts in double quotes, numbers of any library as plain ones."""
    if isinstance(value, (str, Path)):
        return json.dumps(str(value), ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{written(key)}: {written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(written, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if isinstance(value, Code):
        return value.text
    plain = isinstance(value, bool) or not isinstance(value, Real)
    return repr(value) if plain else repr(int(value) if isinstance(value, Integral) else float(value))

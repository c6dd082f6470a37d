"""What lets rows that `join` refused pass, and the call with it as a line to paste: in Python, or in a shell."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any

import pandas as pd

SHELL: ContextVar[bool] = ContextVar("SHELL", default=False)
"""Whether lines are for a shell."""
OPTIONS = ("replace", "accept")
KEYWORD = re.compile(r"\(\*\*\{\"([A-Za-z_]\w*)\": (.*)\}\)")
"""The arguments of `assign` as a dict of one name that can be a keyword."""
THESE = "THESE"
NAMES_ALONE = "columns"
"""The entry of a mapping that a dict of names alone is."""


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """One change to a call of `join`, in our names of columns."""

    when: str
    """What it does, or when it is right."""
    option: str = ""
    """`replace` or `accept`."""
    rows: str = ""
    """An expression of the rows `df`, in which the names of our columns in braces become theirs, quoted."""
    these: Sequence[str] = ()
    """Our columns, of which those that are there stand for THESE in braces in `rows`."""
    file: str = ""
    """An expression that reads the file."""
    mapping: Mapping[str, Any] = field(default_factory=dict)
    """Entries over those of the mapping; a key that is None goes."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Further arguments, which are options of the command too."""
    data: str = ""
    """Another folder."""
    before: str = ""
    """Rows to join first, as the arguments of a dict, for the one that is refused."""


@dataclass(frozen=True, kw_only=True)
class JoinCall:
    """The arguments of a call of `join`."""

    sources: Sequence[Any]
    mapping: Any = None
    table: str | None = None
    recipe: str = ""
    constants: Mapping[str, Any] | None = None
    states: str = ""
    data: str | Path | None = None
    options: tuple[str, ...] = ()

    def line(self, remedy: Remedy) -> str:
        """The call with a remedy, as a line to paste; empty where the remedy does not fit it."""
        rows = self._rows(remedy)
        if not rows:
            return ""
        if not SHELL.get():
            return self._call(rows, remedy)
        if remedy.option or remedy.data or remedy.words:
            return self._command(remedy)
        imports = "import thermostats" + ", pandas as pd" * ("pd." in rows)
        return f"python -c {shlex.quote(f'{imports}; print({self._call(rows, remedy)})')}"

    def _rows(self, remedy: Remedy) -> str:
        """The sources, with what the remedy does to the rows of a single one."""
        if remedy.before or remedy.file:
            return f"[dict({remedy.before})]" if remedy.before else remedy.file
        if not remedy.rows:
            sources = [_named(source, f"df{i or ''}") for i, source in enumerate(self.sources)]
            return sources[0] if len(sources) == 1 else f"[{', '.join(sources)}]"
        if len(self.sources) > 1 or self.recipe or self._content().get("wide"):
            return ""
        wanted = [name for _, name, _, _ in Formatter().parse(remedy.rows) if name and name != THESE]
        theirs = {name: self._theirs(name) for name in [*wanted, *remedy.these]}
        if not all(theirs[name] for name in wanted):
            return ""
        these = [theirs[name] for name in remedy.these if theirs[name]]
        named = {**{ours: written(name) for ours, name in theirs.items()}, THESE: written(these)}
        return self._of_source(KEYWORD.sub(r"(\1=\2)", remedy.rows.format_map(named)))

    def _of_source(self, expression: str) -> str:
        """An expression of `df` for the single source, which is one, is made one or is read as one."""
        source = self.sources[0]
        if isinstance(source, pd.DataFrame):
            return expression.replace("lambda df: ", "")
        if isinstance(source, (str, Path)):
            frame = f"pd.read_{Path(source).suffix[1:]}({written(str(source))})"
        else:
            frame = "df.to_pandas()" if hasattr(source, "to_pandas") else "pd.DataFrame(df)"
        return expression.replace("df", frame, 1)

    def _theirs(self, ours: str) -> str:
        """Their name of one of our columns; empty where it is none of theirs."""
        if self.mapping is None:
            return ours if not isinstance(self.sources[0], pd.DataFrame) or ours in self.sources[0] else ""
        columns = self._content().get("columns", {})
        return next((theirs for theirs, name in columns.items() if name == ours), "")

    def _content(self) -> dict[str, Any]:
        """The mapping as a dict of entries."""
        mapping = self.mapping
        if isinstance(mapping, (str, Path)):
            return tomllib.loads(Path(mapping).read_text(encoding="utf-8-sig"))
        content = dict(mapping or {})
        names = bool(content) and all(isinstance(value, str) for value in content.values()) and "table" not in content
        return {NAMES_ALONE: content} if names else content

    def _call(self, rows: str, remedy: Remedy) -> str:
        mapping = self.mapping
        if remedy.mapping:
            mapping = _over(self._content(), remedy.mapping)
        elif isinstance(mapping, Path):
            mapping = str(mapping)
        arguments: dict[str, Any] = {"data": remedy.data or (str(self.data) if self.data is not None else None)}
        if not remedy.before:
            arguments = {
                "table": self.table,
                "mapping": mapping,
                "recipe": self.recipe,
                "constants": dict(self.constants or {}),
                "states": self.states,
                **remedy.words,
                **arguments,
                **dict.fromkeys([*self.options, *([remedy.option] if remedy.option else [])], True),
            }
        words = [f"{name}={written(value)}" for name, value in arguments.items() if value]
        return f"thermostats.join({', '.join([rows, *words])})"

    def _command(self, remedy: Remedy) -> str:
        words = ["thermostats", "join", *map(str, self.sources)]
        words += ["--map", str(self.mapping)] if self.mapping is not None else []
        words += ["--as", self.recipe] if self.recipe else []
        words += [word for name, value in (self.constants or {}).items() for word in ("--constant", f"{name}={value}")]
        stated = {**({"states": self.states} if self.states else {}), **remedy.words}
        words += [word for name, value in stated.items() for word in (f"--{name}", value)]
        folder = remedy.data or self.data
        words += ["--data", str(folder)] if folder else []
        options = dict.fromkeys([*self.options, *([remedy.option] if remedy.option else [])])
        return shlex.join([*words, *(f"--{name}" for name in options)])


@contextmanager
def lines_for_a_shell() -> Iterator[None]:
    """Lines of calls that are refused here are commands."""
    token = SHELL.set(True)
    try:
        yield
    finally:
        SHELL.reset(token)


def changed(ours: str, value: str) -> str:
    """Rows with a column of ours computed from itself, `{}` in the value."""
    return "df.assign(**{{{" + ours + "}: lambda df: " + value.replace("{}", "df[{" + ours + "}]") + "}})"


def renamed(ours: str, old: str, new: str) -> str:
    """Rows with one value of a column of ours for another."""
    return "df.replace({{{" + ours + "}: {{" + f"{written(old)}: {written(new)}" + "}}}})"


def _named(source: Any, name: str) -> str:
    return written(str(source)) if isinstance(source, (str, Path)) else name


def _over(content: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with entries over its own."""
    both = dict(content)
    for name, entry in entries.items():
        if isinstance(entry, Mapping):
            merged = {**both.get(name, {}), **entry}
            both[name] = {key: value for key, value in merged.items() if value is not None}
        else:
            both[name] = [*both.get(name, []), *entry]
    return {name: entry for name, entry in both.items() if entry}


def written(value: Any) -> str:
    """A value as Python has it, texts in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{written(key)}: {written(each)}" for key, each in value.items()) + "}"
    return "[" + ", ".join(map(written, value)) + "]" if isinstance(value, list) else repr(value)

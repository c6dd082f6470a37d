"""What lets rows that `join` refused pass, and the call with it as a line to paste: in Python, or
in a shell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any

import pandas as pd

from thermostats.next_steps import (
    ARROW,
    SHELL,
    Code,
    call,
    write_command,
    write_file_read,
    write_shell_command,
    write_value,
)
from thermostats.tables.entries import drop_empty, find_name

OPTIONS = ("replace", "accept")
KEYWORD = re.compile(r"\(\*\*\{\"([A-Za-z_]\w*)\": (.*)\}\)")
"""The arguments of `assign` as a dict of one name that can be a keyword."""
FRAME = re.compile(r"\bdf\b")
LAMBDA = re.compile(r"lambda df: .*")
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
    """An expression of the rows `df`, in which the names of our columns in braces become theirs,
    quoted."""
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
    as_given: bool = False
    """Whether `rows` is of the rows as the source has them, in their own names."""
    before: str = ""
    """Rows to join first, as an expression, for what is refused."""


@dataclass(frozen=True, kw_only=True)
class JoinCall:
    """The arguments of a call of `join`."""

    sources: Sequence[Any]
    mapping: Any = None
    table: str | None = None
    recipe: str = ""
    constants: Mapping[str, Any] | None = None
    states: str = ""
    form: str = ""
    data: str | Path | None = None
    options: tuple[str, ...] = ()

    def line(self, remedy: Remedy) -> str:
        """The call with a remedy, as a line to paste; empty where the remedy does not fit it."""
        rows = self._write_rows(remedy)
        if not rows:
            return ""
        if not SHELL.get():
            return self._call(rows, remedy)
        if remedy.option or remedy.data or remedy.words:
            return self._write_command(remedy)
        return write_shell_command(self._call(rows, remedy))

    def _write_rows(self, remedy: Remedy) -> str:
        """The sources, with what the remedy does to the rows of a single one."""
        if remedy.before or remedy.file:
            return remedy.before or remedy.file
        if not remedy.rows:
            sources = []
            for i, source in enumerate(self.sources):
                sources.append(_name_source(source, f"df{i or ''}"))
            return sources[0] if len(sources) == 1 else f"[{', '.join(sources)}]"
        if remedy.as_given:
            return self._write_source(remedy.rows)
        if len(self.sources) > 1 or self.recipe or self._build_content().keys() & {"wide", "norms"}:
            return ""
        wanted = []
        for _, name, _, _ in Formatter().parse(remedy.rows):
            if name and name != THESE:
                wanted.append(name)
        theirs = {}
        for name in [*wanted, *remedy.these]:
            theirs[name] = self._find_theirs(name)
        if not all(theirs[name] for name in wanted):
            return ""
        these = [theirs[name] for name in remedy.these if theirs[name]]
        named = {ours: write_value(name) for ours, name in theirs.items()}
        named[THESE] = write_value(these)
        expression = remedy.rows.format_map(named)
        return self._write_source(KEYWORD.sub(r"(\1=\2)", expression))

    def _write_source(self, expression: str) -> str:
        """An expression of `df` for the single source, which is one, is made one or is read as
        one."""
        source = self.sources[0]
        if isinstance(source, pd.DataFrame):
            return expression.replace("lambda df: ", "")
        if isinstance(source, Code):
            frame = source.text
        elif isinstance(source, (str, Path)):
            frame = write_file_read(source)
        else:
            by_arrow = any(hasattr(source, name) for name in ARROW)
            frame = "pd.DataFrame.from_arrow(df)" if by_arrow else "pd.DataFrame(df)"
            frame = "df.to_pandas()" if hasattr(source, "to_pandas") else frame
        outside_lambda = FRAME.findall(LAMBDA.sub("", expression))
        if expression.startswith("df.") and len(outside_lambda) == 1:
            return f"{frame}{expression[2:]}"
        return f"{frame}.pipe(lambda df: {expression})"

    def _find_theirs(self, ours: str) -> str:
        """Their name of one of our columns; empty where it is none of theirs."""
        if self.mapping is None:
            source = self.sources[0]
            is_lacking = isinstance(source, pd.DataFrame) and ours not in source
            return "" if is_lacking else ours
        columns = self._build_content().get("columns", {})
        return find_name(columns, ours)

    def _build_content(self) -> dict[str, Any]:
        """The mapping as a dict of entries."""
        mapping = self.mapping
        if isinstance(mapping, (str, Path)):
            return tomllib.loads(Path(mapping).read_text(encoding="utf-8-sig"))
        content = dict(mapping or {})
        are_names = all(isinstance(value, str) for value in content.values())
        if content and are_names and "table" not in content:
            return {NAMES_ALONE: content}
        return content

    def _call(self, rows: str, remedy: Remedy) -> str:
        mapping = self.mapping
        if remedy.mapping:
            mapping = merge_entries(self._build_content(), remedy.mapping)
        elif isinstance(mapping, Path):
            mapping = str(mapping)
        folder = None if self.data is None else str(self.data)
        arguments: dict[str, Any] = {"data": remedy.data or folder}
        if not remedy.before:
            given = {
                "table": self.table,
                "mapping": mapping,
                "recipe": self.recipe,
                "constants": dict(self.constants or {}),
                "states": self.states,
                "form": self.form,
            }
            options = self._list_options(remedy)
            arguments = {**given, **remedy.words, **arguments, **options}
        return call("join", Code(rows), **drop_empty(arguments))

    def _list_options(self, remedy: Remedy) -> dict[str, bool]:
        """Options of the call with that of the remedy, all of them true."""
        return dict.fromkeys(filter(None, [*self.options, remedy.option]), True)

    def _write_command(self, remedy: Remedy) -> str:
        constants = []
        for name, value in (self.constants or {}).items():
            constants.append(f"{name}={value}")
        options = {
            "map": self.mapping,
            "as": self.recipe,
            "constant": constants,
            "states": self.states,
        }
        options |= {"form": self.form}
        options |= {**remedy.words, "data": remedy.data or self.data}
        options |= self._list_options(remedy)
        return write_command("join", *self.sources, **options)


def write_change(ours: str, value: str) -> str:
    """Rows with a column of ours computed from itself, `{}` in the value as it is, `{n}` as
    numbers."""
    column = "df[{" + ours + "}]"
    value = value.replace("{n}", f"pd.to_numeric({column})").replace("{}", column)
    return "df.assign(**{{{" + ours + "}: lambda df: " + value + "}})"


def write_renaming(ours: str, old: str, new: str) -> str:
    """Rows with one value of a column of ours for another."""
    change = f"{write_value(old)}: {write_value(new)}"
    return "df.replace({{{" + ours + "}: {{" + change + "}}}})"


def _name_source(source: Any, name: str) -> str:
    if isinstance(source, Code):
        return source.text
    return write_value(str(source)) if isinstance(source, (str, Path)) else name


def merge_entries(content: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with entries over its own."""
    both = dict(content)
    for name, entry in entries.items():
        if isinstance(entry, Mapping):
            merged = {**both.get(name, {}), **entry}
            both[name] = {key: value for key, value in merged.items() if value is not None}
        else:
            both[name] = [*both.get(name, []), *entry]
    return drop_empty(both)

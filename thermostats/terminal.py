"""What a verb prints: data on standard output, the rest on standard error; plain in a pipe, JSON
where asked for."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from thermostats.errors import ThermostatsError

DIGITS = 4
"""Digits of numbers that a person reads."""
SHORTEST = 14
"""Characters that a name keeps where a line is narrow."""
PROSE = 20
"""Characters from which on a text with blanks is prose, which is wrapped, and least width of a
column of it."""


def print_json(value: object) -> None:
    """Print a value as JSON; characters that the output cannot hold are escaped."""
    plain = not takes_any_character(sys.stdout)
    print(json.dumps(value, indent=1, ensure_ascii=plain, allow_nan=False, default=str))


def takes_any_character(stream: TextIO) -> bool:
    """Whether a stream's encoding has every character."""
    return (stream.encoding or "utf-8").replace("-", "").casefold().startswith("utf")


def replace_what_is_lacking() -> None:
    """Have standard output and standard error write ? for a character that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def print_rows(
    rows: Sequence[dict[str, Any]],
    columns: Sequence[str],
    as_json: bool = False,
    *,
    shorten: Sequence[str] = (),
    spare: Sequence[str] = (),
    digits: int = DIGITS,
) -> None:
    """Rows as JSON, as a table on a terminal, as tab-separated text in a pipe.

    Numbers have so many digits, in JSON all.
    On a terminal prose is wrapped, names and numbers are whole. Of columns that do not fit names in
    `shorten` lose their beginnings first, then the `spare` columns are left out, then those on the
    right, and standard error says which.
    """
    if as_json:
        print_json(rows)
    elif sys.stdout.isatty():
        cells = []
        for row in rows:
            cells.append({label: _format_cell(row[label], digits) for label in columns})
        _print_table(cells, columns, shorten, spare)
    else:
        print("\t".join(columns))
        for row in rows:
            print("\t".join(_format_cell(row[label], digits) for label in columns))


def _print_table(
    rows: Sequence[dict[str, str]],
    columns: Sequence[str],
    shorten: Sequence[str],
    spare: Sequence[str],
) -> None:
    """Rows of text as a table of the terminal's width."""
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console()
    widths = {}
    prose = set()
    filled = []
    for label in columns:
        texts = [row[label] for row in rows]
        widths[label] = max(map(len, [label, *texts]))
        if widths[label] > PROSE and any(" " in text for text in texts):
            prose.add(label)
        if any(texts):
            filled.append(label)

    def count_over(labels: Sequence[str]) -> int:
        """Characters that are too many for a line."""
        needed = (2 + (PROSE if label in prose else widths[label]) for label in labels)
        return sum(needed) - 2 - console.width

    def fits(labels: Sequence[str]) -> bool:
        return count_over(labels) <= 0

    chosen = list(columns)
    if not fits(chosen):
        chosen = list(filled) or chosen
    for label in shorten:
        if label in chosen and label not in prose:
            least = min(widths[label], max(len(label), SHORTEST))
            widths[label] = max(least, widths[label] - max(0, count_over(chosen)))
            rows = [{**row, label: shorten_name(row[label], widths[label])} for row in rows]
    for label in [*spare, *reversed(columns)]:
        if not fits(chosen) and label in chosen[1:]:
            chosen.remove(label)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for label in chosen:
        width = None if label in prose else min(widths[label], console.width)
        table.add_column(label, overflow="fold", width=width)
    for row in rows:
        table.add_row(*(Text(row[label]) for label in chosen))
    console.print(table)
    if left := [label for label in filled if label not in chosen]:
        print(f"left out for lack of width: {', '.join(left)}; --json has them", file=sys.stderr)


def shorten_name(name: str, width: int) -> str:
    """The end of a name that is longer than a width, which tells it from others of its kind."""
    return name if len(name) <= width else f"…{name[len(name) - width + 1 :]}"


def print_next_step(step: str, *, data: Path | None = None, visible: bool = True) -> None:
    """One last line on standard error: what can be done now, with the folder `data` where that must
    be named."""
    if visible:
        folder = f" --data {shlex.quote(str(data))}" if data else ""
        print(f"Next: {step}{folder}", file=sys.stderr)


def is_watched(as_json: bool = False) -> bool:
    """Whether a person looks at the output."""
    return not as_json and sys.stdout.isatty()


def is_progress_seen() -> bool:
    """Whether a person sees progress: standard error is a terminal, or the process is a
    notebook's."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return sys.stderr.isatty() or hasattr(shell, "kernel")


def show_progress(line: str) -> None:
    """A line on standard error, without a terminal too, for whoever waits or reads a log."""
    print(line, file=sys.stderr, flush=True)


def refuse(error: ThermostatsError, *, as_json: bool = False) -> None:
    """Say why nothing came of it: a sentence on standard error, and where asked for an object on
    standard output."""
    if as_json:
        parts = {
            name: getattr(error, name) for name in ("what", "where", "got", "allowed", "next_step")
        }
        rows = {"rows": list(error.rows)} if error.rows else {}
        print_json(
            {"error": {**parts, **rows, "message": str(error), "exit_code": error.exit_code}}
        )
    print(f"thermostats: {error}", file=sys.stderr)


@contextmanager
def handle_closed_output() -> Iterator[None]:
    """Let what reads the output stop early, as `head` does, or run out of space: exit code 1 and no
    traceback."""
    replace_what_is_lacking()
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(
                f"thermostats: the output cannot be written: {error.strerror or error}.",
                file=sys.stderr,
            )
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _format_cell(value: object, digits: int) -> str:
    """A value as text; a number to so many digits, a whole one exactly."""
    text = "" if value is None else str(value)
    if isinstance(value, float):
        text = f"{value:.{digits}g}"
    return (
        text.encode("unicode_escape").decode()
        if any(ord(character) < 32 for character in text)
        else text
    )

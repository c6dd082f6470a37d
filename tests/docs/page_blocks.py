"""The code blocks of a Markdown page, and how they are run.

A page is read from top to bottom in an empty folder. Fences with these words do something:

- ``python``: runs; the blocks of a page share their names. A ``text`` block right below is what it
  prints.
- ``console``: lines that begin with ``$`` run in a shell; what stands below each, if anything does,
  is what it prints.
- any other: shown, not run.

A comment on the line before a fence changes that: ``<!-- file: NAME -->`` writes the block to a
file of that name, ``<!-- not run: WHY -->`` leaves it out, ``<!-- needs: MODULE -->`` skips the
page where that module is not installed. In what is printed, ``...`` stands for anything.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
MADE = ("cli.md", "gallery.md", "models.md", "proofs.md", "tables.md")
"""Pages that follow from the code; `docs/generate.py` writes them."""
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", ROOT / "RELEASING.md"]
    + [
        page
        for page in ROOT.glob("docs/**/*.md")
        if page.parent.name != "reference" or page.name not in MADE
    ]
)
FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^\n]+?) -->\n+)?^```(?P<language>\w+)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
ALONE = re.compile(r"thermostats [\w\s./\"=-]+")
"""A command that needs no shell. It is run in this process: most of the time of one in its own goes
into imports."""
RUN = ("python", "console", "sh", "bash")


@dataclass(frozen=True)
class Block:
    """One fence: where it begins, its language, its text, the comment before it, and what it should
    print."""

    line: int
    language: str
    code: str
    note: str = ""
    output: str | None = None


def blocks(text: str) -> list[Block]:
    """Blocks of a page in order; a text block right below a python block is its output."""
    found: list[Block] = []
    end = 0
    for fence in FENCE.finditer(text):
        note, language, code = fence["note"] or "", fence["language"], fence["code"]
        between = text[end : fence.start()].strip()
        end = fence.end()
        if (
            language == "text"
            and found
            and found[-1].language == "python"
            and not between
            and not note
        ):
            before = found.pop()
            found.append(Block(before.line, before.language, before.code, before.note, code))
        else:
            found.append(Block(text.count("\n", 0, fence.start("code")), language, code, note))
    return found


def loaded(path: str) -> Any:
    """A script of the project as a module."""
    spec = importlib.util.spec_from_file_location(
        path.replace("/", "_").removesuffix(".py"), ROOT / path
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(page: Path, found: list[Block], environment: Mapping[str, str]) -> None:
    """Run the blocks of a page in the current folder; AssertionError names page and line."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in found:
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.note.startswith("file: "):
            path = Path(block.note.removeprefix("file: "))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.code, encoding="utf-8")
        elif block.note.startswith("not run: "):
            continue
        elif block.language == "python":
            printed = _python(block.code, names, where)
            assert block.output is None or matches(block.output, printed), (
                f"{where} prints\n{printed}"
            )
        elif block.language == "console":
            for command, expected in commands(block.code):
                printed = _shell(command, environment, where)
                assert not expected or matches(expected, printed), (
                    f"{where}: {command}\nprints\n{printed}"
                )


def commands(code: str) -> Iterator[tuple[str, str]]:
    """Commands of a console block, each with what stands below it; a line that ends in a backslash
    goes on."""
    parts = re.split(r"^\$ ", code, flags=re.MULTILINE)
    assert not parts[0].strip(), f"a console block begins with $: {parts[0]}"
    for part in parts[1:]:
        lines = part.split("\n")
        last = next(i for i, line in enumerate(lines) if not line.endswith("\\"))
        yield "\n".join(lines[: last + 1]), "\n".join(lines[last + 1 :]).strip("\n")


def matches(expected: str, printed: str) -> bool:
    """Whether a text is as expected, blanks at the ends of lines and tabs aside; ``...`` is
    anything."""
    wanted, got = (
        re.sub(r"[ \t]+", " ", text).replace(" \n", "\n").strip() for text in (expected, printed)
    )
    pattern = ".*".join(re.escape(part.strip(" ")) for part in wanted.split("..."))
    return re.fullmatch(pattern.replace("\\ ", " "), got, re.DOTALL) is not None


def _python(code: str, names: dict[str, Any], where: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, where, "exec"), names)  # noqa: S102
    return printed.getvalue()


def _shell(command: str, environment: Mapping[str, str], where: str) -> str:
    if ALONE.fullmatch(command):
        return _in_process(shlex.split(command), where)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-e", "-c", command],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment, "PATH": path},
    )
    assert done.returncode == 0, (
        f"{where}: {command}\nends with {done.returncode}\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def _in_process(words: list[str], where: str) -> str:
    from thermostats.cli.app import main

    printed, told = io.StringIO(), io.StringIO()
    handler = signal.getsignal(signal.SIGINT)
    try:
        with (
            mock.patch.object(sys, "argv", words),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(told),
        ):
            main()
    except SystemExit as stopped:
        assert not stopped.code, (
            f"{where}: {words}\nends with {stopped.code}\n{printed.getvalue()}{told.getvalue()}"
        )
    finally:
        signal.signal(signal.SIGINT, handler)
    return printed.getvalue()

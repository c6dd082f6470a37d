"""Next steps of refusals: what of them is code, and whether it runs as it is pasted.

`conftest.py` looks at every refusal that a test meets, and fails the test where a line does not
run. A line of Python runs with the table or fit of the refused call under the name that the line
gives it: fits are laid out and not drawn, joins are dry, and what writes, measures or simulates is
held against its signature. A command is parsed by the command line. What only the user knows stands
in capitals.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial, wraps
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import thermostats
from thermostats.errors import ThermostatsError

FOLDER = "meine Daten"
"""In which every test works: its name has a space."""
PYTHON = re.compile(r"(?<![\w.\"'/])(?:thermostats\.\w+\(|df\b[.\[]|pd\.\w+\(|fit\.\w+\()")
SHELL = re.compile(r"(?<![\w./\"'-])(?:thermostats (?=[a-z])|python -c )[^`]*")
OF_THE_USER = re.compile(r"\b[A-Z][A-Z_]{2,}\b")
ANYONE = re.compile(r"df\d*|fit(_\w+)?|[A-Z][A-Z_]{2,}")
"""Names in lines that need no more words: tables, fits, and what only the user knows."""
TEXT, NUMBER = re.compile(r'"[^"]*"|\'[^\']*\''), re.compile(r"\d+")
NOT_RUN = ("measure", "report", "export", "forget", "power")
NAMES = {"thermostats", "pd", "np", "scipy", "transformers", *dir(builtins)}


class ReachedSamplerError(Exception):
    """A call got as far as draws of a fit, or a sampler that a test has stopped."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A refusal with the call that it is of."""

    error: ThermostatsError
    site: str
    """Where the package raises it."""
    names: Mapping[str, Any]
    """What the caller has: arguments by their names, the first as `df`, several tables as `df`,
    `df1`, …"""
    folder: str


LINES: set[str] = set()
"""Lines that were looked at."""
RUN: set[tuple[str, str]] = set()
"""Places and lines, but for values, that were run."""


@contextmanager
def watched() -> Iterator[list[Refusal]]:
    """Refusals of calls of the package, those that it catches itself included."""
    plain, met = ThermostatsError.__init__, list[Refusal]()

    @wraps(plain)
    def init(self: ThermostatsError, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        frames = [frame for frame in _frames() if _is_of_package(frame)]
        if frames:
            site = f"{frames[0].f_globals['__name__']}:{frames[0].f_lineno}"
            met.append(
                Refusal(error=self, site=site, names=_names(frames[-1]), folder=str(Path.cwd()))
            )

    with mock.patch.object(ThermostatsError, "__init__", init):
        yield met


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_of_package(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return name.startswith("thermostats.") and name != "thermostats.errors"


def _names(frame: FrameType) -> dict[str, Any]:
    """Arguments of a call from outside: of a function, or of one that looks at its arguments
    first."""
    code, found = frame.f_code, frame.f_locals
    given = {name: found[name] for name in code.co_varnames[: code.co_argcount] if name in found}
    if isinstance(signature := found.get("signature"), inspect.Signature) and "args" in found:
        names = [name for name in signature.parameters if name != "self"]
        given = dict(zip(names, found["args"], strict=False))
    args, kwargs = found.get("args", tuple(given.values())), found.get("kwargs", given)
    of_fit = {"fit": args[0]} if args and type(args[0]).__name__ == "Fit" else {}
    first = next(iter([*args[len(of_fit) :], *kwargs.values()]), None)
    tables = first if isinstance(first, (list, tuple)) else [first]
    of_tables = {f"df{i or ''}": each for i, each in enumerate(tables)} if tables else {}
    others = {
        name: value
        for name, value in {**given, **kwargs}.items()
        if value is not first or not _is_table(value)
    }
    return {**others, **of_tables, "df": tables[0] if len(tables) == 1 else first, **of_fit}


def _is_table(value: Any) -> bool:
    return hasattr(value, "columns") or isinstance(value, (list, tuple, dict))


def code_in(step: str) -> Iterator[str]:
    """Lines of Python in a next step, each as long as it can be; what begins like one and is none
    comes as it is."""
    for line in step.splitlines():
        rest = line
        while (start := PYTHON.search(rest)) and not SHELL.search(rest):
            code = _longest(rest[start.start() :])
            yield code
            rest = rest[start.start() + len(code) :]


def commands_in(step: str) -> Iterator[str]:
    """Lines of a shell in a next step, to the end of the line."""
    for line in step.splitlines():
        if match := SHELL.search(line):
            yield match[0]


def _longest(text: str) -> str:
    """The longest beginning that is one expression; the text where none is."""
    for end in sorted((m.end() for m in re.finditer(r"[)\]]", text)), reverse=True):
        try:
            tree = ast.parse(text[:end], mode="eval")
        except SyntaxError:
            continue
        if not isinstance(tree.body, ast.BoolOp | ast.Compare):
            return text[:end]
    return text


def one_fault(test: Callable[..., None]) -> Callable[..., None]:
    """A test in which what is refused has one fault, so that its line is not refused at all."""
    test.one_fault = True  # type: ignore[attr-defined]
    return test


def faults(met: list[Refusal], *, alone: bool = False) -> list[str]:
    """What is wrong with the lines of these refusals that were not looked at before.

    alone: the refused call had one fault, so that the line is not refused at all.
    """
    wrong = []
    for refusal in met:
        step = refusal.error.next_step
        for line in commands_in(step):
            if line not in LINES and (fault := fault_of_command(line)):
                wrong.append(f"{line}\n  {fault} ({refusal.site})")
            LINES.add(line)
        for line in code_in(step):
            if (line not in LINES and (fault := fault_of_call(line, refusal.names))) or (
                fault := fault_of_run(line, refusal, alone)
            ):
                wrong.append(f"{line}\n  {fault} ({refusal.site})")
            LINES.add(line)
    return wrong


def fault_of_command(line: str) -> str:
    """Why a line of a shell does not run; empty where it does. Words may follow the command."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        return f"no line of a shell: {error}"
    ends = next((i for i, word in enumerate(words) if word.endswith((",", ";", ":"))), len(words))
    words = [word.rstrip(",;:") for word in words[: ends + 1]]
    if half := [word for word in words if word.endswith(FOLDER.partition(" ")[0])]:
        return f"a folder with a space is not quoted: {half[0]}"
    if words[0] == "python":
        return next((fault for code in code_in(words[2]) if (fault := fault_of_call(code, {}))), "")
    if words[1] not in verbs():
        return f"there is no verb {words[1]}"
    options = [i for i, word in enumerate(words) if word.startswith("--")]
    fault = ""
    for end in range(len(words), max([1, *options]), -1):
        if not (fault := _unparsed(words[1:end])):
            return ""
    return fault


@cache
def program() -> Any:
    import typer

    from thermostats.cli.app import app

    return typer.main.get_command(app)


def verbs() -> Mapping[str, Any]:
    return program().commands  # type: ignore[no-any-return]


def _unparsed(words: list[str]) -> str:
    import typer

    from thermostats.cli.options import WRONG_USE

    command, name, context = program(), "thermostats", None
    try:
        while True:
            context = command.make_context(name, list(words), parent=context)
            if not hasattr(command, "commands"):
                return ""
            name, command, words = command.resolve_command(
                context, [*context._protected_args, *context.args]
            )
    except typer.Exit:  # --help
        return ""
    except WRONG_USE as error:
        return error.format_message()  # type: ignore[attr-defined, no-any-return]


def fault_of_call(line: str, names: Mapping[str, Any]) -> str:
    """Why an expression cannot be called so; empty where it can."""
    try:
        tree = ast.parse(line, mode="eval")
    except SyntaxError as error:
        return f"no expression: {error.msg}"
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Name)
            and node.id not in bound | NAMES | names.keys()
            and not ANYONE.fullmatch(node.id)
        ):
            return f"nobody has {node.id}"
        if isinstance(node, ast.Call) and (fault := _unbound(node)):
            return fault
    return ""


def _unbound(call: ast.Call) -> str:
    """Why a call of the package, or of a method of a fit, does not fit its signature."""
    from thermostats.modelling.fit import Fit

    if not (isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)):
        return ""
    of, name = call.func.value.id, call.func.attr
    if of not in ("thermostats", "fit"):
        return ""
    function = getattr(thermostats if of == "thermostats" else Fit, name, None)
    if function is None:
        return f"{of} has no {name}"
    try:
        inspect.signature(function).bind(
            *[None] * (len(call.args) + (of == "fit")),
            **{each.arg or "": None for each in call.keywords if each.arg},
        )
    except TypeError as error:
        return str(error)
    return ""


class Package:
    """The package as a pasted line finds it, where nothing is drawn or written."""

    def __getattr__(self, name: str) -> Any:
        public = getattr(thermostats, name)
        if name in NOT_RUN:
            return lambda *args, **kwargs: None
        return partial(public, dry_run=True) if name == "join" else public


def fault_of_run(line: str, refusal: Refusal, alone: bool) -> str:
    """Why a line does not run for who made the call; empty where it does, or is refused for another
    fault of the rows.

    A line with what only the user knows is not run, nor is one for a table where the call had none,
    nor one that was run from the same place with other values.
    """
    place = refusal.site, NUMBER.sub("0", TEXT.sub("", line))
    without_table = not _is_table(refusal.names["df"]) and re.search(r"\bdf\b", line)
    if (
        place in RUN
        or without_table
        or OF_THE_USER.search(TEXT.sub("", line))
        or not Path(refusal.folder).is_dir()
    ):
        return ""
    RUN.add(place)
    fault = ""
    try:
        ran(line, refusal)
    except ThermostatsError as error:
        if str(error).partition("Next: ")[0] == str(refusal.error).partition("Next: ")[0]:
            fault = "is refused as before"
        elif alone:
            fault = f"is refused: {error}"
    except ReachedSamplerError:
        pass
    except FileNotFoundError as error:  # unless the call named a file that the test has not
        named = [value for value in refusal.names.values() if isinstance(value, (str, Path))]
        fault = (
            ""
            if error.filename in map(str, named)
            else f"reads {error.filename}, which nobody named"
        )
    except Exception as error:
        fault = f"ends in {type(error).__name__}: {error}"
    return fault


def ran(line: str, refusal: Refusal) -> Any:
    """The value of a line, fits that it makes not drawn."""
    from thermostats.modelling.fit import Fit

    names = {"thermostats": Package(), "pd": pd, "np": np, **apart(), **refusal.names}
    names |= {name: sys.modules[name] for name in ("scipy", "transformers") if name in sys.modules}
    stopped = mock.patch.object(Fit, "draws", mock.PropertyMock(side_effect=ReachedSamplerError))
    with nullcontext() if line.startswith("fit.") else stopped, chdir(refusal.folder):
        return eval(line, names)  # noqa: S307


@cache
def apart() -> dict[str, Any]:
    """Fits that the package has not by name: their lines call them as their user has imported
    them."""
    from thermostats.modelling.unit_means import fit_unit_means

    return {fit_unit_means.__name__: fit_unit_means}

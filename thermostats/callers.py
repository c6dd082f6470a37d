"""What a user calls the tables and fits of a call, so that a line which is printed about them can
be pasted.

Lines are written with `df` for a table and `fit` for a fit. Where the user's variable has another
name, that stands in their place; where there is no variable, the line begins by making one of the
expression that was given, or says in words that the table is the user's own.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

PACKAGE = "thermostats"
TEXT = r'"(?:[^"\\]|\\.)*"'
CODE = re.compile(rf"(?<![\w.\"'/])(?:{PACKAGE}\.\w+\(|(?:df\d*|fit)\b[.\[]|pd\.\w+\()")
"""Where a line of Python begins in a next step."""
LONGEST = 100
"""Characters of an expression that is repeated."""


def find_user(frame: FrameType | None) -> FrameType | None:
    """The frame that called, where it is the user's; None where the package called itself."""
    if frame is None or str(frame.f_globals.get("__name__", "")).partition(".")[0] == PACKAGE:
        return None
    return frame


def name_objects(step: str, objects: Mapping[str, Any], user: FrameType) -> str:
    """A next step with the user's names in the place of ours.

    objects: by the name that lines give them.
    """
    for ours, value in objects.items():
        token = re.compile(rf"({TEXT})|\b{ours}\b(?!=)")
        used = any(not match[1] for match in token.finditer(step))
        if not used or not CODE.search(step):
            continue
        theirs = _find_variable(value, ours, user)
        if theirs:
            step = _rename(step, token, theirs)
            continue
        made = _find_expression(ours, user)
        if made:
            step = "\n".join(
                _begin_line(line, f"{ours} = {made}; ", token) for line in step.split("\n")
            )
        else:
            step = f"{step}\n# {ours} is your {'fit' if ours == 'fit' else 'table'}"
    return step


def _rename(step: str, token: re.Pattern[str], theirs: str) -> str:
    """A next step with one name for another, texts in it left as they are."""
    return token.sub(lambda match: match[1] or theirs, step)


def _begin_line(line: str, beginning: str, token: re.Pattern[str]) -> str:
    """A line whose code begins with a statement, where it names what that makes."""
    start = CODE.search(line)
    named = start and any(not match[1] for match in token.finditer(line, start.start()))
    if not start or not named:
        return line
    return f"{line[: start.start()]}{beginning}{line[start.start() :]}"


def _find_variable(value: Any, ours: str, user: FrameType) -> str:
    """The user's variable for a value, ours where it is so called; empty where there is none."""
    for variables in (user.f_locals, user.f_globals):
        if variables.get(ours) is value:
            return ours
    for variables in (user.f_locals, user.f_globals):
        for name, each in list(variables.items()):
            if each is value and name.isidentifier() and not name.startswith("_"):
                return name
    return ""


def _find_expression(ours: str, user: FrameType) -> str:
    """The expression of the call that is being made which gives a table, its first argument, or a
    fit, whose method it is; empty where the code cannot be seen."""
    source = _read_call(user)
    try:
        tree = ast.parse(source, mode="eval").body if source else None
    except SyntaxError:
        return ""
    if not isinstance(tree, ast.Call):
        return ""
    node: ast.expr | None = None
    if ours == "fit":
        node = tree.func.value if isinstance(tree.func, ast.Attribute) else None
    elif tree.args:
        node = tree.args[0]
    is_made = isinstance(node, (ast.Call, ast.Subscript))
    made = ast.get_source_segment(source, node) if is_made and node is not None else None
    return made if made and len(made) <= LONGEST and "\n" not in made else ""


def _read_call(user: FrameType) -> str:
    """The source of the call that a frame is at; empty where it cannot be seen."""
    code = user.f_code
    positions = list(code.co_positions())[user.f_lasti // 2]
    first, last, start, end = positions
    if first is None or last is None or start is None or end is None:
        return ""
    if code.co_filename == "<string>" and sys.orig_argv[1:2] == ["-c"]:
        lines = sys.orig_argv[2].splitlines(keepends=True)
    else:
        lines = linecache.getlines(code.co_filename, user.f_globals)
    chosen = [line.encode() for line in lines[first - 1 : last]]
    if len(chosen) != last - first + 1:
        return ""
    chosen[-1] = chosen[-1][:end]
    chosen[0] = chosen[0][start:]
    return b"".join(chosen).decode(errors="replace")

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


def repeat_chain(step: str, function: str, user: FrameType) -> str:
    """A next step in which the call of a function goes on as the user's did that was refused, such
    as with `.power(models=20)`."""
    chain = _read_chain(user)
    lines = []
    for line in step.split("\n"):
        start = line.rfind(f"{function}(")
        goes_on = bool(chain) and start >= 0 and _is_call(line[start:], function)
        lines.append(line + chain if goes_on else line)
    return "\n".join(lines)


def _is_call(text: str, function: str) -> bool:
    """Whether text is the call of a function, and nothing more."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(tree, ast.Call) and ast.unparse(tree.func) == function


def _read_chain(user: FrameType) -> str:
    """What is asked of the value of the call that a frame is at, as methods of it; empty where
    nothing is, or the code cannot be seen."""
    place = _find_place(user)
    try:
        tree = ast.parse("".join(_read_lines(user)))
    except SyntaxError:
        return ""
    asked: dict[ast.expr, ast.expr] = {}
    made: ast.expr | None = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            asked[node.value] = node
        elif isinstance(node, ast.Call):
            asked[node.func] = node
            ends = node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
            made = node if ends == place else made
    if made is None:
        return ""
    last = made
    while last in asked:
        last = asked[last]
    chain = ast.unparse(last).removeprefix(ast.unparse(made))
    return chain if len(chain) <= LONGEST else ""


def _find_place(user: FrameType) -> tuple[int | None, int | None, int | None, int | None]:
    """First and last line of the call that a frame is at, and where it begins and ends in them."""
    return list(user.f_code.co_positions())[user.f_lasti // 2]


def _read_lines(user: FrameType) -> list[str]:
    """The lines of the code that a frame is of; none where they cannot be seen."""
    code = user.f_code
    if code.co_filename == "<string>" and sys.orig_argv[1:2] == ["-c"]:
        return sys.orig_argv[2].splitlines(keepends=True)
    return linecache.getlines(code.co_filename, user.f_globals)


def _read_call(user: FrameType) -> str:
    """The source of the call that a frame is at; empty where it cannot be seen."""
    first, last, start, end = _find_place(user)
    if first is None or last is None or start is None or end is None:
        return ""
    chosen = [line.encode() for line in _read_lines(user)[first - 1 : last]]
    if len(chosen) != last - first + 1:
        return ""
    chosen[-1] = chosen[-1][:end]
    chosen[0] = chosen[0][start:]
    return b"".join(chosen).decode(errors="replace")

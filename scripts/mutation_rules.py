"""How a source is changed in one place: the rules of `mutants.py`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
MESSAGES = {"where", "got", "allowed", "next_step", "title", "description", "meaning"}
"""Keywords of errors and declarations whose words are for people; a mutant there changes a sentence."""


@dataclass(frozen=True)
class Mutant:
    """One thing changed: where, what, the lines of the statement that it is in, and the source that comes of it."""

    what: str
    lines: range
    source: Callable[[], str]


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a source."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    skipped, statements = _words(tree), _statements(tree)
    found = []
    for number, node in enumerate(nodes):
        if node in skipped:
            continue
        for what, change in _changes(node):
            place = f"line {getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"
            found.append(Mutant(f"{place} {what}", statements[node], _changed(tree, number, change)))
    return found


def _changed(tree: ast.AST, number: int, change: Callable[[Any], object]) -> Callable[[], str]:
    def source() -> str:
        other = copy.deepcopy(tree)
        change(list(ast.walk(other))[number])
        return ast.unparse(ast.fix_missing_locations(other))

    return source


def _statements(tree: ast.Module) -> dict[ast.AST, range]:
    """Lines of the innermost statement of each node; of one that holds others, those of its head."""
    found: dict[ast.AST, range] = {}

    def walk(node: ast.AST, lines: range) -> None:
        if isinstance(node, ast.stmt):
            first = next(iter(getattr(node, "body", [])), None)
            lines = range(node.lineno, max(node.lineno, first.lineno - 1 if first else node.end_lineno or 0) + 1)
        found[node] = lines
        for child in ast.iter_child_nodes(node):
            walk(child, lines)

    walk(tree, range(1, 2))
    return found


def _words(tree: ast.AST) -> set[ast.AST]:
    """Nodes that are words for people or types: docstrings, sentences, messages, annotations."""
    words: set[ast.AST] = set()
    for node in ast.walk(tree):
        roots: list[ast.AST] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            roots.append(node)
        if isinstance(node, ast.keyword) and node.arg in MESSAGES:
            roots.append(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count(" ") > 1:
            roots.append(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error"):
            roots += node.args
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            roots.append(node.annotation)
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            roots.append(node.returns)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            roots.append(node)
        words |= {inner for root in roots for inner in ast.walk(root)}
    return words


def _changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield _swap(node.ops[0]), lambda n: n.ops.__setitem__(0, SWAPS[type(n.ops[0])]())
    elif isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign) and type(node.op) in SWAPS:
        yield _swap(node.op), lambda n: setattr(n, "op", SWAPS[type(n.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield (
            f"{type(node.op).__name__} dropped",
            lambda n: (
                n.__dict__.update(op=ast.UAdd())
                if not isinstance(n.op, ast.Not)
                else n.__dict__.update(operand=ast.UnaryOp(ast.Not(), n.operand))
            ),
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} turned", lambda n: setattr(n, "value", not n.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield f"{node.value} + 1", lambda n: setattr(n, "value", n.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield f"{node.value[:20]!r} changed", lambda n: setattr(n, "value", f"XX{n.value}XX")
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "returns None", lambda n: setattr(n, "value", ast.Constant(None))
    elif isinstance(node, ast.If):
        yield "condition turned", lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield f"{ast.unparse(node.value)[:30]} dropped", lambda n: setattr(n, "value", ast.Constant(None))


def _swap(operator: ast.AST) -> str:
    return f"{type(operator).__name__} to {SWAPS[type(operator)].__name__}"


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None

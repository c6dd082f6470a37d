"""Which modules of the package a file imports, directly or through others; a change to any other changes nothing."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

import thermostats

PACKAGE = "thermostats"
HERE = Path(__file__).resolve().parents[1]


def closure(path: Path) -> tuple[Path, ...]:
    """Files of the package that a file imports, at its head or inside its functions, and so on from there; sorted.

    Imports for the type checker alone do not count. The package's own `__init__` loads nothing before it is asked.
    """
    found: set[Path] = set()
    waiting = list(_imported(path.read_bytes()))
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += _imported(module.read_bytes())
    return tuple(sorted(found))


def code_sha(path: Path) -> str:
    """SHA-256 over the names and contents of the package's files that a file imports; not over the file itself."""
    digest = hashlib.sha256()
    for module in closure(path):
        digest.update(module.relative_to(HERE).as_posix().encode() + b"\0" + module.read_bytes())
    return digest.hexdigest()


@cache
def _imported(source: bytes) -> frozenset[Path]:
    """Files of the package that a source imports by name, and the packages that they are in."""
    names: set[str] = set()
    try:
        tree = ast.parse(source)
    except SyntaxError:  # running it says so
        return frozenset()
    for node in _executed(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(_public(f"{node.module}.{alias.name}") for alias in node.names)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(_public(f"{node.value.id}.{node.attr}"))
    parts = (name.split(".") for name in names)
    whole = {".".join(part[:depth]) for part in parts if part[0] == PACKAGE for depth in range(2, len(part) + 1)}
    return frozenset(file for name in whole if (file := _file(name)) is not None)


def _public(name: str) -> str:
    """Module of a name that the package itself offers: `thermostats.load` is of `thermostats.tables.store`."""
    package, _, rest = name.partition(".")
    return thermostats._HOME.get(rest, name) if package == PACKAGE else name


def _executed(tree: ast.AST) -> list[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    nodes: list[ast.AST] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        checking = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        waiting += node.orelse if checking and isinstance(node, ast.If) else list(ast.iter_child_nodes(node))
    return nodes


def _file(name: str) -> Path | None:
    base = HERE.joinpath(*name.split(".")[1:])
    return next((path for path in (base.with_name(f"{base.name}.py"), base / "__init__.py") if path.is_file()), None)

"""Change one thing in a module and run its tests: those changes that no test notices are shown.

    make mutants

Each module is mutated by rule (comparisons, arithmetic, logic, constants, dropped statements), a sample is drawn with a
seed, and each mutant runs in a process forked from one that has loaded the libraries but none of the package, so that
declarations at the head of a module are mutated too. A test that takes ten times as long counts as noticing.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
MODULES: dict[str, tuple[str, ...]] = {
    "thermostats/measurement/sheaf.py": ("tests/measurement/test_sheaf.py",),
    "thermostats/measurement/spectra.py": ("tests/measurement/test_spectra.py",),
    "thermostats/tables/names.py": ("tests/tables/test_names.py",),
    "thermostats/tables/identities.py": ("tests/tables/test_identities.py",),
    "thermostats/tables/parameters.py": ("tests/tables/test_parameters.py",),
    "thermostats/tables/runs.py": ("tests/tables/test_join.py", "tests/tables/test_store.py"),
    "thermostats/tables/declare.py": ("tests/tables/test_store.py", "tests/tables/test_names.py"),
    "thermostats/measurement/residual.py": ("tests/measurement/test_gains.py",),
    "thermostats/modelling/heritage.py": (
        "tests/modelling/test_heritage.py",
        "tests/modelling/test_heritage_classical.py",
    ),
    "thermostats/tables/features.py": ("tests/tables/test_features.py",),
    "thermostats/tables/folders.py": (
        "tests/tables/test_begin.py",
        "tests/tables/test_store.py",
        "tests/faults/test_drives.py",
    ),
    "thermostats/tables/atomic.py": (
        "tests/tables/test_names.py",
        "tests/tables/test_store.py",
        "tests/faults/test_drives.py",
    ),
    "thermostats/tables/join.py": ("tests/tables/test_join.py", "tests/tables/test_incoming.py"),
    "thermostats/tables/store.py": (
        "tests/tables/test_store.py",
        "tests/tables/test_join.py",
        "tests/tables/test_names.py",
    ),
}
"""Modules and their own tests, the quick ones first."""
LIBRARIES = (
    "numpy",
    "pandas",
    "scipy.stats",
    "pandera.pandas",
    "pytest",
    "hypothesis",
    "filelock",
    "torch",
    "transformers",
)
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Mod: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
MESSAGES = {"where", "got", "allowed", "next_step", "title", "description", "meaning"}
"""Keywords of errors and declarations whose words are for people; a mutant there changes a sentence."""


def mutants(source: str) -> list[tuple[str, str]]:
    """Every mutant of a source by its place and what was changed, with its own source."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    skipped = _words(tree)
    found = []
    for number, node in enumerate(nodes):
        if node in skipped:
            continue
        for what, change in _changes(node):
            other = copy.deepcopy(tree)
            change(list(ast.walk(other))[number])
            text = ast.unparse(ast.fix_missing_locations(other))
            found.append((f"line {getattr(node, 'lineno', '?')}: {what}", text))
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


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module another source."""

    def __init__(self, module: str, path: Path, source: str) -> None:
        self.module, self.path, self.source = module, path, source

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """The mutated module, and nothing else."""
        del path, target
        if name != self.module:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """As usual."""
        del spec

    def exec_module(self, module: ModuleType) -> None:
        """Run the mutated source."""
        exec(compile(self.source, str(self.path), "exec"), module.__dict__)  # noqa: S102 - our own code, changed


def outcome(file: str, source: str, tests: Sequence[str], seconds: int) -> str:
    """`killed`, `timeout` or `survived`: what the tests of a module say of another source of it."""
    child = os.fork()
    if not child:
        code = 99
        try:
            os.chdir(ROOT)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            name = file.removesuffix(".py").replace("/", ".")
            sys.meta_path.insert(0, Mutated(name, ROOT / file, source))
            import pytest  # noqa: PLC0415 - after the mutant is in place

            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", "--no-header", *tests]))
        finally:
            os._exit(code)
    ended = time.monotonic() + seconds
    while time.monotonic() < ended:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if status == 0 else "killed"
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def main() -> None:
    """Draw, run and note mutants; what was run before with the same seed is not run again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=20, help="mutants of each module")
    parser.add_argument("--modules", default="thermostats", help="beginnings of their names, separated by commas")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no mutant after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("build/mutants.jsonl"))
    given = parser.parse_args()
    given.results.parent.mkdir(parents=True, exist_ok=True)
    known = {(r["module"], r["mutant"]) for r in map(json.loads, given.results.read_text().splitlines())} if (
        given.results.is_file()) else set()  # fmt: skip
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    began = time.monotonic()
    for file, tests in MODULES.items():
        if not file.startswith(tuple(given.modules.split(","))):
            continue
        source = (ROOT / file).read_text(encoding="utf-8")
        every = mutants(source)
        drawn = random.Random(f"{given.seed} {file}").sample(every, min(given.sample, len(every)))  # noqa: S311
        drawn = [mutant for mutant in drawn if (file, mutant[0]) not in known]
        if not drawn or time.monotonic() - began > given.seconds:
            continue
        tick = time.monotonic()
        if outcome(file, source, tests, 600) != "survived":
            raise SystemExit(f"{file}: its tests fail as it is")
        limit = int(10 * (time.monotonic() - tick)) + 10
        for what, changed in drawn:
            if time.monotonic() - began > given.seconds:
                break
            line = {"module": file, "of": len(every), "mutant": what, "outcome": outcome(file, changed, tests, limit)}
            print(*line.values(), flush=True)
            with given.results.open("a") as stream:
                stream.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()

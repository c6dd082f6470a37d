"""What the package imports is what it declares: nothing undeclared comes in, what is declared is
installed as asked.

An audit against known weaknesses needs a network, which tests must do without; see SECURITY.md.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import thermostats

PACKAGE = Path(thermostats.__file__).parent
PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED = [Requirement(text) for text in PROJECT["dependencies"]]
EXTRAS = [
    Requirement(text) for extra in PROJECT["optional-dependencies"].values() for text in extra
]

OTHERS = ("nnterp", "transformer_lens", "nnsight")
"""Tools that `prove --tool` holds to the same, where a user has installed them: no part of any
extra."""


def imported() -> dict[str, set[str]]:
    """Modules that are not of the standard library or the package, with the files that import
    them."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top != "thermostats":
                    found.setdefault(top, set()).add(path.relative_to(PACKAGE).as_posix())
    return found


def closure() -> set[str]:
    """Names of what is declared, and of what that needs."""
    known: set[str] = set()
    waiting = [requirement.name for requirement in (*DECLARED, *EXTRAS)]
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in known:
            continue
        known.add(name)
        try:
            needed = requires(name) or []
        except ImportError:
            continue
        waiting += [Requirement(text).name for text in needed if "extra ==" not in text]
    return known


def test_nothing_is_imported_that_is_not_declared() -> None:
    known, where = closure(), packages_distributions()
    found = imported()
    for top in OTHERS:
        assert found.pop(top) == {"measurement/other_tools.py"}
    for top, files in found.items():
        names = {name.lower().replace("_", "-") for name in where.get(top, [top])}
        assert names & known, (top, sorted(files)[:3])


@pytest.mark.parametrize("requirement", DECLARED, ids=lambda requirement: requirement.name)
def test_what_is_installed_is_what_was_asked_for(requirement: Requirement) -> None:
    assert requirement.specifier.contains(version(requirement.name), prereleases=True)


def test_every_dependency_says_from_which_version() -> None:
    for requirement in DECLARED:
        assert requirement.specifier, requirement.name
        assert requirement.url is None, requirement.name

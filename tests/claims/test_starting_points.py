"""What a starting point imports is there: nothing else reads these files before a user runs
them."""

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[2] / "thermostats" / "starting_points").glob("*.py.txt"))


def there(module: str, name: str) -> bool:
    """Whether a module has a name, or a module below it."""
    return (
        hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}") is not None
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_name_that_is_imported_is_there(path: Path) -> None:
    imports = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
    ]
    named = [(node.module, alias.name) for node in imports for alias in node.names if node.module]
    ours = [(module, name) for module, name in named if module.startswith("thermostats")]
    assert ours
    assert [pair for pair in ours if not there(*pair)] == []

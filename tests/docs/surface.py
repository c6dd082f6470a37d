"""The public surface of the package as text: what may not change unannounced.

Public are the functions of `thermostats`, what the pages in docs/reference/api document, the
commands with their options, and the tables with their columns. `python tests/docs/surface.py`
writes it anew.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SURFACE = Path(__file__).with_name("surface.txt")


def surface() -> str:
    """One line a name."""
    return "\n".join([*_package(), "", *_documented(), "", *_commands(), "", *_tables()]) + "\n"


def _package() -> Iterator[str]:
    package = importlib.import_module("thermostats")
    for name in sorted(package.__all__):
        value = getattr(package, name)
        yield f"thermostats.{name}{inspect.signature(value) if callable(value) else ''}"


def _documented() -> Iterator[str]:
    pages = sorted(ROOT.glob("docs/reference/api/*.md"))
    for path in sorted(
        {
            path
            for page in pages
            for path in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)
        }
    ):
        yield from _described(path, _found(path))


def _found(path: str) -> Any:
    """The module, class or function of a dotted path."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            value = getattr(value, name)
        return value
    raise ModuleNotFoundError(path)


def _described(path: str, value: Any) -> Iterator[str]:
    if inspect.ismodule(value):
        for name, member in vars(value).items():
            own = getattr(member, "__module__", path) == path
            if not name.startswith("_") and own and not inspect.ismodule(member):
                yield from _described(f"{path}.{name}", member)
    elif inspect.isclass(value):
        yield f"{path}{_signature(value)}"
        kinds = (
            kind for kind in reversed(value.__mro__) if kind.__module__.startswith("thermostats.")
        )
        members = {name: member for kind in kinds for name, member in vars(kind).items()}
        for name, member in members.items():
            if not name.startswith("_") and (
                inspect.isfunction(member) or isinstance(member, property)
            ):
                yield f"{path}.{name}{_signature(member) if inspect.isfunction(member) else ''}"
    else:
        yield f"{path}{_signature(value) if callable(value) else ''}"


def _signature(value: Any) -> str:
    if inspect.isclass(value) and getattr(value, "_is_protocol", False):
        return ""
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))


def _commands() -> Iterator[str]:
    for name, command in commands().items():
        yield f"$ thermostats {name} " + " ".join(
            sorted(option for part in command.params for option in part.opts)
        )


def commands() -> dict[str, Any]:
    """Every command of the command line by its words, such as `report` or `new claim`."""
    from typer.main import get_command

    from thermostats.cli.app import app

    def below(prefix: str, command: Any) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield prefix.strip(), command
        else:
            for name in sorted(inner):
                yield from below(f"{prefix} {name}", inner[name])

    return dict(below("", get_command(app)))


def _tables() -> Iterator[str]:
    from thermostats.tables.schemas import TABLES, key

    for name, schema in TABLES.items():
        columns = [f"{label}*" if label in key(name) else label for label in schema.columns]
        yield f"table {name}: {' '.join(columns)}"


if __name__ == "__main__":
    SURFACE.write_text(surface(), encoding="utf-8")

"""The commands of the command line, as the tests of the pages need them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


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

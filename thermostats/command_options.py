"""Options that the verbs of the package and of its studies share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thermostats.errors import UsageError, did_you_mean

NEW = Path("analyses")
"""Folder that a user's own analyses are written to where none is named."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder of your own rows, read together with the tables that ship with the package; by default "
        "$THERMOSTATS_DATA, or only those tables.",
    ),
]
Analyses = Annotated[
    Path | None,
    typer.Option("--analyses", help="Folder of your own analyses; by default those that ship with the package."),
]


def check_file(path: Path, otherwise: str = "check the path") -> None:
    """Raise UsageError if there is no such file, naming the most similar file in its folder, or else `otherwise`."""
    if path.is_file():
        return
    near = [file.name for file in path.parent.iterdir() if file.is_file()] if path.parent.is_dir() else []
    raise UsageError("no such file", where=path, next_step=did_you_mean(path.name, near, otherwise))

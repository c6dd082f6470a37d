"""Options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NEW = Path("analyses")
"""Folder that a user's own analyses are written to where none is named."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder of your own rows, read beside the tables that ship with the package; without it "
        "$THERMOSTATS_DATA, or those tables alone.",
    ),
]
Analyses = Annotated[
    Path | None, typer.Option("--analyses", help="Folder of your own analyses; without it those that ship.")
]

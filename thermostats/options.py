"""Options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder of your own rows, read beside the tables that ship with the package; without it "
        "$THERMOSTATS_DATA, or those tables alone.",
    ),
]

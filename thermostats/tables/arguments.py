"""Names of tables and formats that a user gives, checked before pandas is loaded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from thermostats.errors import UsageError, unknown
from thermostats.tables.schemas import TABLES

FORMATS = ("csv", "parquet")
RECIPES = ("hidden-states", "logos-in-layers", "sae-norms", "transformer-lens")
"""Recipes that ship, by the names of their files: tools whose tables are joined in one line."""
DESCRIBED = (*TABLES, "features")
"""Tables whose columns are described: those of the store, and the features that follow from them."""


def check_table(name: str, tables: Collection[str] = TABLES, line: str = "") -> None:
    """Raise UsageError for a table that does not exist; `line` as for `unknown`."""
    if not isinstance(name, str) or name not in tables:
        raise unknown("no such table", name, tables, otherwise="" if line else "thermostats ls tables", line=line)


def check_export(folder: Path, tables: Sequence[str] | None, format_: str, partition: str | None) -> None:
    """Raise UsageError for a table or a format that does not exist, parts of a CSV file, or a folder with content."""
    if format_ not in FORMATS:
        raise unknown("tables cannot be exported in this way", format_, FORMATS)
    for name in tables or ():
        check_table(name)
    if partition is not None and format_ != "parquet":
        raise UsageError("only Parquet is partitioned", got=format_, next_step="leave out --partition or --format")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError("the folder to export to is not empty", where=folder, next_step="name a new one")

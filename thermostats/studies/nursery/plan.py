"""The design that ships, and choosing from it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thermostats.errors import DataError, UsageError, did_you_mean
from thermostats.tables.folders import shipped

if TYPE_CHECKING:
    import pandas as pd


def shipped_table(name: str = "design") -> pd.DataFrame:
    """A table of the nursery that ships: `design`, `training` (records) or `losses`.

    Raises DataError where it cannot be read.
    """
    return _table(shipped_path(name), "a table of the nursery cannot be read", keep_default_na=name != "design")


def shipped_path(name: str = "design") -> Path:
    """File of a table of the nursery that ships."""
    return shipped("data") / "nursery" / f"{name}.csv"


def shipped_models() -> list[Path]:
    """Folders of the trained models that ship, each a Hugging Face model folder named after the model."""
    return sorted(path.parent for path in (shipped("data") / "nursery" / "models").glob("*/config.json"))


def chosen(models: Sequence[str], recipes: Sequence[str], design: Path | None = None) -> list[dict[str, Any]]:
    """Rows of the design (that of a file, or the shipped one) with these models or recipes, all where none is named.

    Raises UsageError for a name that is not in the design, DataError where the file is none.
    """
    _check_names(models, recipes, design or shipped_path())
    frame = shipped_table() if design is None else _read(design)
    if models or recipes:
        frame = frame[frame["model"].isin(models) | frame["recipe"].isin(recipes)]
    return records(frame)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries."""
    return [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]


def tuned_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose models are fine-tuned too: the first of each recipe."""
    return [row for row in rows if row["model"].endswith("-1")]


def _check_names(models: Sequence[str], recipes: Sequence[str], design: Path) -> None:
    """Raise UsageError for a model or a recipe that a design does not have; without pandas, so that it is told soon."""
    try:
        with design.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError("a design cannot be read", where=design, got=str(error)) from error
    for column, names in (("model", models), ("recipe", recipes)):
        known = sorted({row.get(column) or "" for row in rows} - {""})
        for name in names:
            if name not in known:
                raise UsageError(
                    f"no such {column} in the design",
                    got=name,
                    allowed=" … ".join(known[:1] + known[-1:]),
                    next_step=did_you_mean(name, known, "thermostats nursery design lists them"),
                )


def _read(path: Path) -> pd.DataFrame:
    frame = _table(path, "a design cannot be read", keep_default_na=False)
    lacking = [name for name in shipped_table().columns if name not in frame]
    if lacking:
        step = "thermostats nursery design --out FILE"
        raise DataError("a design lacks columns", where=path, got=", ".join(lacking), next_step=step)
    return frame


def _table(path: Path, wrong: str, *, keep_default_na: bool) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - choosing from the design does without

    try:
        return pd.read_csv(path, keep_default_na=keep_default_na)
    except (OSError, ValueError) as error:
        raise DataError(wrong, where=path, got=str(error)) from error

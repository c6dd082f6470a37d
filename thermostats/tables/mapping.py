"""From other people's columns to ours: which is which, unit conversions, constants, and the runs that rows are of.

A mapping file is TOML::

    table = "layers"
    ignore = ["notes"]            # their columns to leave out; "*": all that are not named

    [columns]                     # theirs = ours
    block = "layer"
    growth = "gain_block"

    [factors]                     # ours = number that their values are multiplied by
    norm_in = 0.001

    [constants]                   # ours = value of every row
    position = "last"
    model_id = "EleutherAI/pythia-160m"
    source = "my own hooks"

Where rows of a table that belongs to runs carry no `run_id`, but `model_id` and `source`, their runs are made from the
columns of `runs` that they carry. Hashes of texts and prompt sets are filled in where they are empty.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import DataError, UsageError, did_you_mean
from thermostats.tables import store
from thermostats.tables.declare import FLOAT, TEXT
from thermostats.tables.incoming import as_text, wanted_instead
from thermostats.tables.runs import MEASURED, prompt_sha, run_id
from thermostats.tables.schemas import TABLES, key

UNSTATED = {"revision": "main", "dtype": "unstated", "attention": "unstated"}
"""What a run has where its rows do not say; of any other text nothing."""
TELLING = ("model_id", "source")
"""What rows must say for the run that they are of to follow."""
OTHERS = "*"


@dataclass(frozen=True)
class ColumnMap:
    """Whose column is which; see the module's text."""

    table: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    ignore: tuple[str, ...] | str = ()


def load_map(path: str | Path) -> ColumnMap:
    """A mapping file.

    Raises UsageError where there is none, it is not TOML, it names a table or column that there is not, or a constant
    is not what its column holds.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError("no such mapping file", where=path) from error
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"the mapping file cannot be read: {error}", where=path) from error
    known = [each.name for each in fields(ColumnMap)]
    for name in content:
        if name not in known:
            raise UsageError(
                "a mapping file has no such entry",
                where=path,
                got=name,
                allowed=", ".join(known),
                next_step=did_you_mean(name, known),
            )
    kinds = {"table": str, "columns": dict, "factors": dict, "constants": dict, "ignore": (list, str)}
    for name, value in content.items():
        if not isinstance(value, kinds[name]):  # type: ignore[arg-type]
            raise UsageError(f"{name} of the mapping file is not as it must be", where=path, got=repr(value))
    ignore = content.get("ignore", ())
    found = ColumnMap(**{**content, "ignore": ignore if isinstance(ignore, str) else tuple(map(str, ignore))})
    _check(found, path)
    return found


def _check(found: ColumnMap, path: Path) -> None:
    if found.table not in TABLES:
        raise UsageError(
            "the mapping file names no table",
            where=path,
            got=repr(found.table),
            allowed=", ".join(TABLES),
            next_step=did_you_mean(found.table, TABLES),
        )
    ours, all_of_them = _ours(found.table), f"thermostats ls columns {found.table}"
    for part in ("columns", "factors", "constants"):
        entries = getattr(found, part)
        for name in entries.values() if part == "columns" else entries:
            if not isinstance(name, str) or name not in ours:
                raise UsageError(
                    f"{part} of the mapping file names no column of ours",
                    where=path,
                    got=repr(name),
                    allowed=", ".join(ours),
                    next_step=did_you_mean(str(name), ours, all_of_them),
                )
    for name, factor in found.factors.items():
        if ours[name] != FLOAT or isinstance(factor, bool) or not isinstance(factor, int | float):
            raise UsageError("a factor is a number for a column of numbers", where=path, got=f"{name} = {factor!r}")
    for name, value in found.constants.items():
        many = isinstance(value, list | dict)
        owner = found.table if name in TABLES[found.table].columns else "runs"
        if wanted := "one value, the same in every row" if many else wanted_instead(value, owner, name):
            raise UsageError(
                "a constant of the mapping file is not what its column holds",
                where=path,
                got=f"{name} = {value!r}",
                allowed=wanted,
                next_step=f"thermostats ls columns {owner}",
            )


def _ours(table: str) -> dict[str, str]:
    """Columns that rows of a table may carry, those of their runs too, with their types."""
    own = store.dtypes(table)
    return own | {name: dtype for name, dtype in store.dtypes("runs").items() if "run_id" in own and name not in own}


def mapped(frame: pd.DataFrame, using: ColumnMap, where: object) -> pd.DataFrame:
    """Rows under our names, converted, with constants, and with empty columns where a column may be empty.

    Raises UsageError where a column that is named is not there, two become one, or one is neither named nor ignored;
    DataError where a value to be converted is not a number.
    """
    ours = _ours(using.table)
    for name in using.columns:
        if name not in frame.columns:
            raise UsageError(
                "a column that the mapping file names is not there",
                where=where,
                got=repr(name),
                allowed=", ".join(map(str, frame.columns)),
                next_step=did_you_mean(name, map(str, frame.columns)),
            )
    renamed = frame.rename(columns=dict(using.columns))
    spare = [name for name in renamed.columns if name not in ours]
    if unnamed := [name for name in spare if using.ignore != OTHERS and name not in using.ignore]:
        raise UsageError(
            "columns that are not ours and that the mapping file does not name",
            where=where,
            got=", ".join(unnamed),
            next_step=did_you_mean(unnamed[0], ours, "name them under [columns] or in ignore"),
        )
    renamed = renamed.drop(columns=spare)
    twice = set(renamed.columns[renamed.columns.duplicated()]) | (set(using.constants) & set(renamed.columns))
    if twice:
        raise UsageError("a column of ours is filled twice", where=where, got=", ".join(sorted(twice)))
    for name, factor in using.factors.items():
        renamed[name] = _times(renamed[name], factor, name, where) if name in renamed else None
    return filled(renamed.assign(**using.constants), using.table)


def filled(frame: pd.DataFrame, table: str) -> pd.DataFrame:
    """Rows with the columns of a table that may be left out: empty, or of a run as in `UNSTATED`."""
    spare = {
        name: UNSTATED.get(name, "") if column.metadata["dtype"] == TEXT else None
        for name, column in TABLES[table].columns.items()
        if name not in frame and name not in key(table) and may_be_left_out(table, name)
    }
    return frame.assign(**spare)


def may_be_left_out(table: str, name: str) -> bool:
    """Whether a column that is no key may be empty: it is nullable, any text, or `UNSTATED` of a run."""
    column = TABLES[table].columns[name]
    any_text = column.metadata["dtype"] == TEXT and not column.checks
    if table == "runs" and name in (*UNSTATED, *TELLING):
        return name in UNSTATED
    return column.nullable or any_text


def _times(values: pd.Series, factor: float, name: str, where: object) -> pd.Series:
    try:
        return values.replace("", None).astype("float64") * factor
    except (ValueError, TypeError) as error:
        raise DataError(
            f"column {name} is to be converted and is not all numbers", where=where, got=str(error)
        ) from error


def with_runs(
    frame: pd.DataFrame, table: str, hashes: Mapping[str, str] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Rows with the `run_id` of the runs that they tell of, and those runs; rows as they are where they tell of none.

    A run is at the row that first tells of it. hashes: `prompt_sha` of prompt sets, for rows that name only the set.
    """
    if "run_id" in frame or "run_id" not in store.dtypes(table) or not set(TELLING) <= set(frame.columns):
        return frame, None
    columns = [name for name in store.dtypes("runs") if name != "run_id"]
    told = frame[[name for name in columns if name in frame]]
    told = filled(told, "runs")
    told = told.assign(**{name: as_text(told[name]) for name in MEASURED})
    known = told["prompt_set"].map(lambda name: (hashes or {}).get(name, ""))
    told["prompt_sha"] = told["prompt_sha"].where(told["prompt_sha"] != "", known)
    measured = list(told[list(MEASURED)].itertuples(index=False, name=None))
    ids = {values: run_id(dict(zip(MEASURED, values, strict=True))) for values in set(measured)}
    told["run_id"] = [ids[values] for values in measured]
    if table == "runs":
        return told, None
    rest = frame.drop(columns=[name for name in columns if name in frame and name not in store.dtypes(table)])
    return rest.assign(run_id=told["run_id"]), told.drop_duplicates("run_id")


NEEDED, OPTIONAL = "needed", "optional"
REFUSED = {"findings": "findings are made by `thermostats report`"}
"""Tables that nothing is joined to, and why."""


FILLED = {
    ("prompts", "text_sha256"): "filled in from text",
    ("runs", "prompt_sha"): "filled in from prompt_set",
    **{("runs", label): f"filled in: {value}" for label, value in UNSTATED.items()},
}


def when_joined(table: str, label: str) -> str:
    """Whether rows that are joined with a mapping must have a column: `needed`, `optional`, or how it is filled in.

    Empty for a table that nothing is joined to.
    """
    if table in REFUSED:
        return ""
    if label == "run_id":
        return f"filled in from {' and '.join(TELLING)}"
    spare = label not in key(table) and may_be_left_out(table, label)
    return FILLED.get((table, label), OPTIONAL if spare else NEEDED)


def with_hashes(prompts: pd.DataFrame) -> pd.DataFrame:
    """Rows of prompts whose `text_sha256` is empty though their text is there, with the hash of the text."""
    if not {"text", "text_sha256"} <= set(prompts.columns):
        return prompts
    texts, said = as_text(prompts["text"]), as_text(prompts["text_sha256"])
    made = texts.map(lambda text: hashlib.sha256(text.encode()).hexdigest() if text else "")
    return prompts.assign(text_sha256=said.where(said != "", made))


def hashes_of_sets(prompts: pd.DataFrame) -> dict[str, str]:
    """`prompt_sha` of every prompt set of a table of prompts; empty where no text's hash is known."""
    return {
        str(name): prompt_sha(own) if (own["text_sha256"] != "").any() else ""
        for name, own in prompts.groupby("prompt_set")
    }

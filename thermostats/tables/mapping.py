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

    [norms]                       # of layers: gains are made of norms, see `tables/norms.py`
    state = "hook"
    norm = "norm"
    last = "normed"

Where rows of a table that belongs to runs carry no `run_id`, but `model_id` and `source`, their runs are made from the
columns of `runs` that they carry. Hashes of texts and prompt sets are filled in where they are empty.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import DataError, UsageError, did_you_mean, unknown
from thermostats.tables.join_columns import TELLING, UNSTATED, may_be_left_out
from thermostats.tables.norms import gains_from_norms
from thermostats.tables.runs import MEASURED, prompt_sha, run_id
from thermostats.tables.schemas import FLOAT, TABLES, TEXT, absent, dtypes
from thermostats.tables.validation import as_text, wanted_instead

OTHERS = "*"
ENTRIES = {"table": str, "columns": dict, "factors": dict, "constants": dict, "ignore": list | str, "norms": dict}
"""Entries of a mapping file with their types."""


@dataclass(frozen=True)
class ColumnMap:
    """Whose column is which; see the module's text."""

    table: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    ignore: tuple[str, ...] | str = ()
    norms: Mapping[str, str] = field(default_factory=dict)


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
    for name, value in content.items():
        if name not in ENTRIES:
            raise unknown("a mapping file has no such entry", name, ENTRIES, where=path)
        if not isinstance(value, ENTRIES[name]):
            raise UsageError(f"{name} of the mapping file is not valid", where=path, got=repr(value))
    ignore = content.get("ignore", ())
    found = ColumnMap(**{**content, "ignore": ignore if isinstance(ignore, str) else tuple(map(str, ignore))})
    _check(found, path)
    return found


def _check(found: ColumnMap, path: Path) -> None:
    if found.table not in TABLES:
        raise unknown("the mapping file names no table", found.table, TABLES, where=path)
    if found.norms and found.table != "layers":
        raise UsageError("[norms] is only for the table layers", where=path, got=found.table)
    ours, listing = columns_of_rows(found.table), f"thermostats ls columns {found.table}"
    for part, names in (
        ("columns", found.columns.values()),
        ("factors", found.factors),
        ("constants", found.constants),
    ):
        for name in names:
            if not isinstance(name, str) or name not in ours:
                what = f"{part} of the mapping file is not one of our columns"
                raise unknown(what, name, ours, where=path, otherwise=listing)
    for name, factor in found.factors.items():
        if ours[name] != FLOAT or isinstance(factor, bool) or not isinstance(factor, int | float):
            raise UsageError("a factor is a number for a column of numbers", where=path, got=f"{name} = {factor!r}")
    for name, value in found.constants.items():
        owner = found.table if name in TABLES[found.table].columns else "runs"
        many = "one value, the same in every row" if isinstance(value, list | dict) else ""
        if wanted := many or wanted_instead(value, owner, name):
            raise UsageError(
                "a constant of the mapping file does not fit its column",
                where=path,
                got=f"{name} = {value!r}",
                allowed=wanted,
                next_step=f"thermostats ls columns {owner}",
            )


def columns_of_rows(table: str) -> dict[str, str]:
    """Columns that rows of a table may carry, with their types: its own, and of a table of runs those of the run."""
    own = dtypes(table)
    return {**own, **dtypes("runs"), **own} if "run_id" in own else own


def mapped(frame: pd.DataFrame, using: ColumnMap, where: object) -> pd.DataFrame:
    """Rows under our names, converted, with constants, and with empty columns where a column may be empty.

    Raises UsageError where a column that is named is not there, two become one, or one is neither named nor ignored;
    DataError where a value to be converted is not a number.
    """
    ours = columns_of_rows(using.table)
    if using.norms:
        spared = [] if using.ignore == OTHERS else [name for name in using.ignore if name in frame]
        frame = gains_from_norms(frame.drop(columns=spared), using.norms, where)
    for name in using.columns:
        if name not in frame.columns:
            raise unknown("a column that the mapping file names is missing", name, map(str, frame), where=where)
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
    if twice := set(renamed.columns[renamed.columns.duplicated()]) | (set(using.constants) & set(renamed.columns)):
        raise UsageError("one of our columns is filled twice", where=where, got=", ".join(sorted(twice)))
    for name, factor in using.factors.items():
        try:
            renamed[name] = renamed[name].replace("", None).astype("float64") * factor if name in renamed else None
        except (ValueError, TypeError) as error:
            what = f"column {name} is to be converted but does not hold only numbers"
            raise DataError(what, where=where, got=str(error)) from error
    return filled(renamed.assign(**using.constants), using.table)


def filled(frame: pd.DataFrame, table: str) -> pd.DataFrame:
    """Rows with the columns of a table that may be left out: empty, or of a run as in `UNSTATED`."""
    spare = {
        name: absent(table).get(name, UNSTATED.get(name, "") if column.dtype == TEXT else None)
        for name, column in TABLES[table].columns.items()
        if name not in frame and may_be_left_out(table, name)
    }
    return frame.assign(**spare)


def with_runs(
    frame: pd.DataFrame, table: str, hashes: Mapping[str, str] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Rows with the `run_id` of the runs whose columns they carry, and those runs, each as its first row says.

    Rows as they are where they carry none. hashes: `prompt_sha` of prompt sets, for rows that name only the set.
    """
    if "run_id" in frame or "run_id" not in dtypes(table) or not set(TELLING) <= set(frame.columns):
        return frame, None
    columns = [name for name in dtypes("runs") if name in frame]
    runs = filled(frame[columns], "runs")
    runs = runs.assign(**{name: as_text(runs[name]) for name in MEASURED})
    known = runs["prompt_set"].map(lambda name: (hashes or {}).get(name, ""))
    runs["prompt_sha"] = runs["prompt_sha"].where(runs["prompt_sha"] != "", known)
    groups = runs.groupby(list(MEASURED), sort=False)
    ids = [run_id(dict(zip(MEASURED, values, strict=True))) for values, _ in groups]
    runs["run_id"] = groups.ngroup().map(dict(enumerate(ids)))
    if table == "runs":
        return runs, None
    rest = frame.drop(columns=[name for name in columns if name not in dtypes(table)])
    return rest.assign(run_id=runs["run_id"]), runs.drop_duplicates("run_id")


def with_hashes(prompts: pd.DataFrame) -> pd.DataFrame:
    """Rows of prompts whose `text_sha256` is empty though their text is there, with the hash of the text."""
    if not {"text", "text_sha256"} <= set(prompts.columns):
        return prompts
    texts, stated = as_text(prompts["text"]), as_text(prompts["text_sha256"])
    made = texts.map(lambda text: hashlib.sha256(text.encode()).hexdigest() if text else "")
    return prompts.assign(text_sha256=stated.where(stated != "", made))


def hashes_of_sets(prompts: pd.DataFrame) -> dict[str, str]:
    """`prompt_sha` of every prompt set of a table of prompts; empty where no text's hash is known."""
    sets = prompts.groupby("prompt_set")
    return {str(name): prompt_sha(own) if (own["text_sha256"] != "").any() else "" for name, own in sets}

"""Join new rows into the tables of a data folder: idempotent, conflicts named, nothing half-written.

Rows that are there already with equal values change nothing; with other values they are refused, the largest difference
named, unless `replace` is given. What was merely recorded beside a run (versions, device, time) is no conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.errors import DataError, UsageError, did_you_mean
from thermostats.tables import store
from thermostats.tables.archive import is_archive
from thermostats.tables.atomic import only_writer, write_all
from thermostats.tables.declare import FLOAT, INTEGER
from thermostats.tables.folders import begun_or_shipped, layers, own_files, own_folder, writable_folder
from thermostats.tables.identities import MEASURES, check_identities
from thermostats.tables.incoming import Source, called, read, typed
from thermostats.tables.mapping import (
    REFUSED,
    ColumnMap,
    filled,
    hashes_of_sets,
    load_map,
    mapped,
    with_hashes,
    with_runs,
)
from thermostats.tables.parameters import check_models
from thermostats.tables.runs import RECORDED, check_run_ids
from thermostats.tables.schemas import TABLES, key, references

MAP = "thermostats ls columns {} says which there are; --map names a file that says which of yours is which"


@dataclass(frozen=True)
class Joined:
    """What a join did to one table, in rows."""

    table: str
    added: int
    unchanged: int
    replaced: int
    files: tuple[Path, ...]


def join(
    sources: Source | Sequence[Source],
    *,
    table: str | None = None,
    mapping: str | Path | ColumnMap | None = None,
    data: str | Path | None = None,
    replace: bool = False,
) -> list[Joined]:
    """Join CSV, TSV, JSON, JSON Lines or Parquet files or DataFrames into a data folder.

    Which table each belongs to follows from its columns, unless `table` or a mapping says so; then columns that may be
    empty may be left out. `mapping`: a TOML file from other people's columns to ours (`tables/mapping.py`). Sources of
    one call may refer to each other (runs and their layers). All are checked before the first is written.

    Raises DataError where a source is damaged, a row is not as it must be, refers to a row that does not exist or
    contradicts one that does, and UsageError where a source belongs to no table.
    """
    given = [sources] if isinstance(sources, (str, Path, pd.DataFrame)) else list(sources)
    own_folder(data)
    using = mapping if isinstance(mapping, ColumnMap) or mapping is None else load_map(mapping)
    incoming: dict[str, pd.DataFrame] = {}

    def hashes() -> dict[str, str]:
        held = store.load("prompts", begun_or_shipped(data), private=False)
        both = pd.concat([held, incoming["prompts"]]) if "prompts" in incoming else held
        return hashes_of_sets(both.drop_duplicates(key("prompts"), keep="last"))

    for source in given:
        where = called(source)
        for name, frame in _as_tables(read(source), table, using, where, hashes):
            rows = typed(frame, name, where)
            joined = pd.concat([incoming[name], rows], ignore_index=True) if name in incoming else rows
            incoming[name] = store.validate(joined.drop_duplicates(ignore_index=True), name, where)
    folder = writable_folder(data)
    with only_writer(folder):
        return _join_all(incoming, folder, replace)


def _join_all(incoming: Mapping[str, pd.DataFrame], folder: Path, replace: bool) -> list[Joined]:
    order = [name for name in TABLES if name in incoming]
    about = {run for frame in incoming.values() if "run_id" in frame for run in frame["run_id"].unique()}
    existing = {
        name: store.load(name, folder, runs=about if name != "runs" and "run_id" in store.dtypes(name) else None)
        for name in TABLES
        if name in incoming or name in _needed(order)
    }
    union = {
        name: pd.concat([existing[name], incoming[name]]) if name in incoming else existing[name] for name in existing
    }
    if "runs" in incoming:
        check_run_ids(incoming["runs"])
        store.check_prompts(incoming["runs"], union["prompts"])
    for name in order:
        for label, target in references(name).items():
            store.check_reference(incoming[name], name, label, union[target], target)
    plans = [_plan(name, incoming[name], existing[name], replace) for name in order]
    if "models" in incoming:
        check_models(incoming["models"])
    if not incoming.keys().isdisjoint({"runs", *MEASURES}):
        check_identities(_as_they_will_be(incoming, existing, folder))
    changes = [_changes(name, folder, added, other) for name, (added, other, _) in zip(order, plans, strict=True)]
    write_all(
        folder,
        {
            path: store.to_csv(rows, name)
            for name, changed in zip(order, changes, strict=True)
            for path, rows in changed.items()
        },
    )
    return [
        Joined(name, len(added), unchanged, len(replaced), tuple(changed))
        for name, (added, replaced, unchanged), changed in zip(order, plans, changes, strict=True)
    ]


def _as_they_will_be(
    incoming: Mapping[str, pd.DataFrame], existing: Mapping[str, pd.DataFrame], folder: Path
) -> dict[str, pd.DataFrame]:
    """Rows of every run of the models that incoming rows are about, as they are once those are joined."""
    models = existing["models"] if "models" in existing else store.load("models", folder)
    runs = _joined(incoming, "runs", existing["runs"])
    given = pd.concat([frame["run_id"] for frame in incoming.values() if "run_id" in frame])
    about = runs[runs["run_id"].isin(set(given))][["model_id", "revision"]].drop_duplicates()
    runs = runs.merge(about, on=["model_id", "revision"])
    prompts = existing["prompts"] if "prompts" in existing else store.load("prompts", folder, private=False)
    tables = {
        "models": _joined(incoming, "models", models),
        "prompts": _joined(incoming, "prompts", prompts),
        "runs": runs,
    }
    for name in MEASURES:
        rows = _joined(incoming, name, store.load(name, folder, runs=set(runs["run_id"])))
        tables[name] = rows[rows["run_id"].isin(set(runs["run_id"]))]
    return tables


def _joined(incoming: Mapping[str, pd.DataFrame], name: str, held: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([held, incoming.get(name, held.iloc[:0])]).drop_duplicates(key(name), keep="last")


def _needed(order: Sequence[str]) -> set[str]:
    return {target for name in order for target in references(name).values()} | (
        {"prompts"} if "runs" in order else set()
    )


def _plan(name: str, new: pd.DataFrame, old: pd.DataFrame, replace: bool) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """Rows to add, rows to put in place of others, and how many are there already."""
    known = old.set_index(key(name))
    rows = new.set_index(key(name))
    shared = rows.index.intersection(known.index)
    compared = [label for label in rows.columns if not (name == "runs" and label in RECORDED)]
    mine, theirs = rows.loc[shared, compared], known.loc[shared, compared]
    differs = ~((mine == theirs) | (mine.isna() & theirs.isna())).fillna(False).all(axis=1)
    if differs.any() and not replace:
        raise DataError(
            _conflict(name, mine[differs], theirs[differs]),
            next_step="join with --replace to keep the new values, or leave them out",
        )
    return rows.drop(shared).reset_index(), rows.loc[shared][differs].reset_index(), int((~differs).sum())


def _conflict(name: str, mine: pd.DataFrame, theirs: pd.DataFrame) -> str:
    worst, size = (mine.index[0], ""), -1.0
    for label in mine.columns:
        if store.dtypes(name)[label] in (FLOAT, INTEGER):
            gap = (mine[label].astype(float) - theirs[label].astype(float)).abs().fillna(np.inf)
            gap = gap.where(mine[label].notna() | theirs[label].notna(), 0.0)
            if gap.max() > max(size, 0.0):
                worst, size = (gap.idxmax(), label), float(gap.max())
        elif size < 0 and (mine[label] != theirs[label]).any():
            worst, size = ((mine[label] != theirs[label]).idxmax(), label), 0.0
    row, label = worst
    named = ", ".join(f"{k} {v}" for k, v in zip(key(name), row if isinstance(row, tuple) else (row,), strict=True))
    return (
        f"table {name} already has {len(mine)} of these rows with other values; "
        f"the largest difference is in {label} at {named}: "
        f"there {theirs.loc[row, label]}, new {mine.loc[row, label]}"
    )


def _changes(name: str, folder: Path, added: pd.DataFrame, replaced: pd.DataFrame) -> dict[Path, pd.DataFrame]:
    """Files that a join changes, with all their rows as they will be."""
    changed: dict[Path, pd.DataFrame] = {}
    beneath = replaced
    if len(replaced):
        _refuse_published(name, folder, replaced)
        fresh = replaced.set_index(key(name))
        for path in own_files(name, folder):
            if is_archive(path):  # what is shipped stays; a row of one's own stands over it
                continue
            held = store.read(path, name).set_index(key(name))
            here = held.index.intersection(fresh.index)
            if len(here):
                changed[path] = pd.concat([held.drop(here), fresh.loc[here]]).reset_index()
                fresh = fresh.drop(here)
        beneath = fresh.reset_index()
    for path, rows in _homes(name, folder, pd.concat([added, beneath])):
        before = changed.get(path, store.read(path, name) if path.is_file() else rows.iloc[:0])
        changed[path] = pd.concat([before, rows], ignore_index=True)
    return changed


def _refuse_published(name: str, folder: Path, replaced: pd.DataFrame) -> None:
    for path in (layer / "published" / f"{name}.csv" for layer in layers(folder)):
        if not path.is_file():
            continue
        held = store.read(path, name).set_index(key(name)).index
        if len(here := held.intersection(replaced.set_index(key(name)).index)):
            raise DataError(
                "these rows are figures of the study and are not replaced",
                where=path,
                got=f"{len(here)} of them",
                next_step="give your own rows a run of their own (another `source`), or thermostats import",
            )


def _homes(name: str, folder: Path, added: pd.DataFrame) -> list[tuple[Path, pd.DataFrame]]:
    """Files that new rows go to: one per run where the table has runs, else the table's own."""
    if not len(added):
        return []
    if "run_id" not in added:
        return [(folder / f"{name}.csv", added)]
    return [(folder / "measured" / name / f"{run}.csv", rows) for run, rows in added.groupby("run_id")]


def _as_tables(
    frame: pd.DataFrame, table: str | None, using: ColumnMap | None, where: str, hashes: Callable[[], dict[str, str]]
) -> list[tuple[str, pd.DataFrame]]:
    """Rows under our columns by table: those of one table, and of the runs that they tell of.

    hashes: gives `prompt_sha` of every prompt set.
    """
    name = using.table if using is not None else table or _table_of(list(frame.columns), where)
    _refuse(name, where)
    rows = mapped(frame, using, where) if using is not None else filled(frame, name) if table else frame
    rows = with_hashes(rows) if name == "prompts" else rows
    rows, runs = with_runs(rows, name, hashes() if "prompt_set" in rows and "run_id" not in rows else None)
    _check_columns(list(rows.columns), name, where)
    return [*([("runs", runs)] if runs is not None else []), (name, rows)]


def _check_columns(columns: Sequence[str], name: str, where: str) -> None:
    declared = store.dtypes(name)
    lacking = [label for label in declared if label not in columns]
    unknown = [label for label in columns if label not in declared]
    if "run_id" in lacking and "model_id" in columns:
        raise UsageError(
            f"rows of table {name} do not say which run they are of",
            where=where,
            got="model_id without source",
            next_step="add source, as a column or under [constants] of a mapping: run_id then follows from both",
        )
    if lacking or unknown:
        raise UsageError(
            f"columns are not those of table {name}",
            where=where,
            got="; ".join(
                [f"without {', '.join(lacking)}"] * bool(lacking) + [f"unknown {', '.join(unknown)}"] * bool(unknown)
            ),
            next_step=did_you_mean(unknown[0], lacking, MAP.format(name))
            if unknown
            else f"{MAP.format(name)}, or that it is the same in every row, under [constants]",
        )


def _refuse(name: str, where: object) -> None:
    if name not in TABLES or name in REFUSED:
        allowed = ", ".join(label for label in TABLES if label not in REFUSED)
        raise UsageError(REFUSED.get(name, "no such table"), where=where, got=repr(name), allowed=allowed)


def _table_of(columns: Sequence[str], where: object) -> str:
    for name in TABLES:
        if set(columns) == set(store.dtypes(name)):
            return name
    joinable = [name for name in TABLES if name not in REFUSED]
    nearest = min(
        joinable, key=lambda name: (len(set(columns) - _told(name)), len(set(store.dtypes(name)) - set(columns)))
    )
    lacking = [label for label in store.dtypes(nearest) if label not in columns]
    unknown = [label for label in columns if label not in _told(nearest)]
    near = "nearly those" if len(unknown) < len(columns) / 2 else "nearest those"
    raise UsageError(
        "its columns are those of no table",
        where=where,
        got=f"{near} of {nearest}: without {', '.join(lacking) or 'none'}, unknown {', '.join(unknown) or 'none'}",
        next_step=did_you_mean(unknown[0], lacking, MAP.format(nearest)) if unknown else MAP.format(nearest),
    )


def _told(name: str) -> set[str]:
    """Columns that rows of a table may have: its own, and where it is of runs those that tell of the run."""
    own = set(store.dtypes(name))
    return own | set(store.dtypes("runs")) if "run_id" in own else own

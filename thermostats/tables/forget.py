"""Take a join back: the rows of one source removed from a user's folder."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pandas as pd

from thermostats.errors import DataError, UsageError, nearest, reason, unknown
from thermostats.next_steps import command
from thermostats.tables import store
from thermostats.tables.atomic import only_writer, write_all
from thermostats.tables.folders import own_files, own_folder
from thermostats.tables.schemas import OF_RUNS
from thermostats.tables.table_files import is_archive

MODEL = ["model_id", "revision"]


def forget(source: str, *, data: str | Path | None = None, dry_run: bool = False) -> dict[str, int]:
    """Rows removed from a user's folder, by table: the runs of a source, their rows, and models whose facts it states.

    A model stays while a run of another source is of it; prompts stay. Rows of runs go before the runs, so that what is
    interrupted is finished by the same call.

    Raises UsageError where the folder does not exist or holds no rows of this source, DataError where a file cannot be
    removed.
    """
    folder = own_folder(data)
    if not folder.is_dir():
        raise UsageError("no such data folder", where=folder, next_step="thermostats ls runs --own lists what is there")
    with only_writer(folder):
        held = {
            name: {path: store.read(path, name) for path in own_files(name, folder) if not is_archive(path)}
            for name in ("runs", "models", *(schema.name for schema in OF_RUNS))
        }
        runs = pd.concat(held["runs"].values()) if held["runs"] else pd.DataFrame(columns=["run_id", "source", *MODEL])
        models = pd.concat(held["models"].values()) if held["models"] else pd.DataFrame(columns=["source", *MODEL])
        sources = {*runs["source"], *models["source"]} - {""}
        if source not in sources:
            meant = nearest(source, sources) or next(iter(sorted(sources)), "SOURCE")
            line = command("forget", source=meant, data=folder)
            error = unknown("no own rows of this source", source, sorted(sources), where=folder)
            raise error.ending_in(f"{error.next_step} {line}".strip())
        gone = set(runs.loc[runs["source"] == source, "run_id"])
        every = store.load("runs", folder)
        used = pd.MultiIndex.from_frame(every.loc[~every["run_id"].isin(gone), MODEL])
        changed: dict[str, dict[Path, pd.DataFrame]] = {}
        for name in (*(schema.name for schema in OF_RUNS), "runs", "models"):
            for path, rows in held[name].items():
                if name == "models":
                    goes = (rows["source"] == source) & ~pd.MultiIndex.from_frame(rows[MODEL]).isin(used)
                else:
                    goes = rows["run_id"].isin(gone)
                if goes.any():
                    changed.setdefault(name, {})[path] = rows[~goes]
        counts = {
            name: sum(len(held[name][path]) - len(rows) for path, rows in of.items()) for name, of in changed.items()
        }
        if not dry_run:
            for name, of in changed.items():
                _replace(of, name, folder)
    return counts


def _replace(files: dict[Path, pd.DataFrame], name: str, folder: Path) -> None:
    """Write what is left of files of a table; a file with nothing left is removed."""
    left = store.FilesOfRows.of({path: rows for path, rows in files.items() if len(rows)}, name)
    write_all(folder, store.to_csv_files(left, name))
    _remove(path for path, rows in files.items() if not len(rows))


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        try:
            path.unlink()
        except OSError as error:
            raise DataError("cannot remove a file", where=path, got=reason(error)) from error
        with suppress(OSError):  # other runs have files there
            path.parent.rmdir()

"""Runs that do not state the hash of their model, confirmed to be of one: written down, so that it is asked once."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from thermostats.tables import store
from thermostats.tables.atomic import only_writer, write_all
from thermostats.tables.folders import own_files
from thermostats.tables.table_files import is_archive


def confirm(run_ids: Collection[str], model_sha: str, folder: Path) -> None:
    """Record in a user's folder that runs are of the model with this hash; a run that ships gets a row there.

    Raises DataError where the folder cannot be written.
    """
    with only_writer(folder):
        changed: dict[Path, pd.DataFrame] = {}
        left = set(run_ids)
        for path in (path for path in own_files("runs", folder) if not is_archive(path)):
            rows = store.read(path, "runs")
            here = rows["run_id"].isin(left)
            if here.any():
                changed[path] = rows.assign(confirmed_sha=rows["confirmed_sha"].mask(here, model_sha))
                left -= set(rows.loc[here, "run_id"])
        beneath = store.load("runs", folder)
        for run_id, rows in beneath[beneath["run_id"].isin(left)].groupby("run_id"):
            changed[folder / "measured" / "runs" / f"{run_id}.csv"] = rows.assign(confirmed_sha=model_sha)
        write_all(folder, store.to_csv_files(store.FilesOfRows.of(changed, "runs"), "runs"))

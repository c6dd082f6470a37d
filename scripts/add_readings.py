"""Put what readers see into shipped runs that are older than it: `python scripts/add_readings.py
DATA`.

DATA is a folder in which shipped models were measured again (`thermostats measure MODEL --set
name=ID --revision R
--set older=again --what weights,gains --data DATA`). Each run of it is held against the shipped run
of the same model: the columns that both have must agree, and then the shipped rows get those that
they lack. Nothing else in an archive changes, so that a run stays what it was. Prints each run with
its largest relative difference.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from pack_runs import write

from thermostats.tables import store
from thermostats.tables.features import AS_READ
from thermostats.tables.runs import LIKE
from thermostats.tables.schemas import add_later_columns, list_key_columns

ROOT = Path(__file__).resolve().parents[1]
ADDED = {"layers": list(AS_READ), "weights": ["ov_read_norm", "balanced_norm"]}
SHARED = {"layers": ["norm_in", "gain_block"], "weights": ["spectral_norm", "frobenius_norm"]}
"""Columns by which a run is held against the shipped one."""
APART = 1e-4
"""Largest relative difference that still is another machine's rounding."""


def pairs(data: Path) -> dict[str, str]:
    """Shipped run → the run of the same model in the folder."""
    runs = store.load("runs", data)
    shipped = store.load("runs", ROOT / "data")
    again = runs[~runs["run_id"].isin(shipped["run_id"])]
    both = shipped.merge(again, on=LIKE, suffixes=("", "_again"))
    return dict(zip(both["run_id"], both["run_id_again"], strict=True))


def filled(name: str, rows: pd.DataFrame, again: pd.DataFrame, of: dict[str, str]) -> pd.DataFrame:
    """Rows of an archive with the added columns of the runs that were measured again, and why there
    is none."""
    rows = add_later_columns(rows, name)
    keys = list_key_columns(name)
    new = again.assign(run_id=again["run_id"].map({fresh: old for old, fresh in of.items()}))
    both = rows[keys].merge(new, on=keys, how="left").set_axis(rows.index)
    here = rows["run_id"].isin(set(new["run_id"]))
    for column in SHARED[name]:
        apart = (
            (both.loc[here, column] / rows.loc[here, column] - 1)
            .abs()
            .groupby(rows.loc[here, "run_id"])
            .max()
        )
        for run, off in apart.items():
            print(f"{name} {run} {column}: {off:.1e}")
            if not off < APART:
                sys.exit(
                    f"{run} was measured of another model, or on another machine that computes "
                    f"otherwise"
                )
    values = {column: both[column].where(here, rows[column]) for column in ADDED[name]}
    return rows.assign(
        **values, missing=both["missing"].where(here, rows["missing"]).fillna("").astype("str")
    )


def main() -> None:
    """Fill the archives."""
    data = Path(sys.argv[1])
    of = pairs(data)
    for name in ADDED:
        again = store.load(name, data)
        again = again[again["run_id"].isin(of.values())]
        for path in sorted((ROOT / "data").glob(f"*/{name}*.parquet")):
            rows = store.read_typed(path, name)
            if rows["run_id"].isin(set(of) & set(rows["run_id"])).any():
                write(filled(name, rows, again, of), name, path)
                print(path.relative_to(ROOT), int(np.isin(rows["run_id"], list(of)).sum()), "rows")


if __name__ == "__main__":
    main()

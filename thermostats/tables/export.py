"""Tables for other tools: CSV or Parquet files in a separate folder, with files that describe them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from thermostats.errors import DataError, UsageError, listed, reason, unknown
from thermostats.tables import store
from thermostats.tables.arguments import check_export
from thermostats.tables.describe import CODEBOOK, codebook, for_tools
from thermostats.tables.schemas import TABLES


@dataclass(frozen=True)
class Exported:
    """One table that was written: its rows and its file, or its folder where it is partitioned."""

    table: str
    rows: int
    path: Path


def export(
    out: str | Path,
    tables: str | Sequence[str] | None = None,
    *,
    data: str | Path | None = None,
    format: str = "csv",
    partition: str | None = None,
) -> list[Exported]:
    """Write tables (one name or several, without any all that have rows) to a new or empty folder, whole or not at all.

    `export("layers", "out")` is `export("out", "layers")`: what is a table's name is no folder's then.

    CSV files are described by `datapackage.json`, both formats by `CODEBOOK.md`. Texts of prompts that may not be
    shipped are left out. partition: a column, such as model_id, by whose values Parquet files lie in
    folders `column=value/`; tables of runs have the columns of their runs for it.

    Raises UsageError for an unknown table, format or column, or a folder that is not empty.
    """
    if out in TABLES and isinstance(tables, (str, Path)) and tables not in TABLES:
        out, tables = tables, str(out)
    if not isinstance(out, (str, Path)):
        raise UsageError("give the path of the folder to export to", got=repr(out)[:60], allowed="text or a path")
    folder, wanted = Path(out), listed(tables, "tables")
    check_export(folder, wanted, format, partition)
    chosen = wanted if wanted is not None else list(TABLES)
    columns = {label for name in TABLES for label in TABLES[name].columns}
    if partition is not None and partition not in columns:
        raise unknown("no such column to partition by", partition, sorted(columns))
    frames = {name: store.load(name, data, private=False) for name in chosen}
    if wanted is None:
        frames = {name: frame for name, frame in frames.items() if len(frame)}
    runs = store.load("runs", data) if partition else None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
            staged = Path(temporary) / "new"
            staged.mkdir()
            paths = {name: _write(frame, name, staged, format, partition, runs) for name, frame in frames.items()}
            (staged / CODEBOOK).write_text(codebook(), encoding="utf-8")
            if format == "csv":
                for name, content in for_tools(staged, {name: [path.name] for name, path in paths.items()}).items():
                    (staged / name).write_bytes(content)
            if folder.is_dir():
                folder.rmdir()
            shutil.move(staged, folder)
    except OSError as error:
        raise DataError("cannot export", where=folder, got=reason(error)) from error
    return [Exported(name, len(frames[name]), folder / path.name) for name, path in paths.items()]


def _write(
    frame: pd.DataFrame, name: str, folder: Path, format_: str, partition: str | None, runs: pd.DataFrame | None
) -> Path:
    path = folder / f"{name}.{format_}"
    if format_ == "csv":
        path.write_bytes(store.to_csv(frame, name))
        return path
    if runs is not None and partition in runs and partition not in frame and "run_id" in frame:
        frame = frame.merge(runs[["run_id", partition]], on="run_id", how="left")
    content = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata({"table": name})
    if partition is None or partition not in frame:
        pq.write_table(content, path)
        return path
    pq.write_to_dataset(content, folder / name, partition_cols=[partition], basename_template="part-{i}.parquet")
    return folder / name

"""Pack the files of single runs in a data folder into archives: `python scripts/pack_runs.py DATA
FOLDER SOURCE...`.

Runs whose source is one of SOURCE go to `DATA/FOLDER/<table>.parquet`, or with --release to
`DATA/FOLDER/<table>-<release>.parquet`; archives that are there are never changed. The rows that
the folder's tables come to are the same before and after.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from thermostats.tables import store
from thermostats.tables.folders import ARCHIVE, ARCHIVES, list_own_files, write_atomically
from thermostats.tables.schemas import FLOAT, TABLES, list_dtypes, list_key_columns, list_written
from thermostats.tables.store import build_schema


def write(frame: pd.DataFrame, name: str, path: Path) -> None:
    """Write rows of table `name`, validated, as an archive, whole or not at all."""
    ordered = frame.sort_values(list_key_columns(name), ignore_index=True)
    table = pa.Table.from_pandas(
        ordered, build_schema(name, list_written(frame, name)), preserve_index=False
    )
    numbers = [label for label, dtype in list_dtypes(name).items() if dtype == FLOAT]
    content = io.BytesIO()
    pq.write_table(
        table.replace_schema_metadata(),
        content,
        compression="zstd",
        compression_level=19,
        use_dictionary=[label for label in table.column_names if label not in numbers],
        use_byte_stream_split=numbers,
    )
    write_atomically(path, content.getvalue())


def add_rows(frame: pd.DataFrame, name: str, path: Path) -> pd.DataFrame:
    """Rows of an archive of table `name`, if it is there, with new ones; a row that is there stays
    as it is."""
    if not path.is_file():
        return frame
    held = store.validate(store.read_typed(path, name), name)
    both = pd.concat([held, frame], ignore_index=True) if len(frame) else held
    return both.drop_duplicates(list_key_columns(name), ignore_index=True)


def pack(data: Path, folder: str, sources: list[str], release: str = "") -> dict[str, int]:
    """Rows packed by table; the files of single runs that held them are removed once all archives
    are written."""
    runs = store.load("runs", data)
    chosen = set(runs.loc[runs["source"].isin(sources), "run_id"])
    models = set(runs.loc[runs["source"].isin(sources), "model_id"])
    held: dict[str, tuple[list[Path], pd.DataFrame]] = {}
    for name in TABLES:
        place = data / "measured" / name
        paths = [path for path in list_own_files(name, data) if path.parent == place]
        frames = [store.read_typed(path, name) for path in paths]
        column, among = (
            ("run_id", chosen) if "run_id" in store.list_dtypes(name) else ("model_id", models)
        )
        packed = [
            i
            for i, frame in enumerate(frames)
            if column in frame and frame[column].isin(among).all()
        ]
        if packed:
            rows = pd.concat([frames[i] for i in packed], ignore_index=True)
            held[name] = [paths[i] for i in packed], store.validate(rows, name)
    places = {name: data / folder / f"{name}{release and '-'}{release}{ARCHIVE}" for name in held}
    if there := [str(path) for path in places.values() if path.exists()]:
        sys.exit(f"{', '.join(there)}: there already; archives are only added to, name a --release")
    for name, (_, rows) in held.items():
        write(rows, name, places[name])
        pd.testing.assert_frame_equal(
            store.validate(store.read_typed(places[name], name), name), rows, check_exact=True
        )
    for paths, _ in held.values():
        for path in paths:
            path.unlink()
    return {name: len(rows) for name, (_, rows) in held.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", choices=ARCHIVES)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--release", default="")
    arguments = parser.parse_args()
    for table, count in pack(
        arguments.data, arguments.folder, arguments.sources, arguments.release
    ).items():
        print(table, count, sep="\t")

"""Archives: rows of many runs in one Parquet file a table, as a release ships them; a later release adds files.

`scripts/pack_runs.py` makes them of files of single runs.
"""

from __future__ import annotations

import io
from collections.abc import Collection
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thermostats.errors import DataError
from thermostats.tables.folders import ARCHIVE
from thermostats.tables.limits import TABLE, check_cells, read_bytes
from thermostats.tables.schemas import FLAG, FLOAT, INTEGER, TEXT, absent, dtypes

ARROW = {FLOAT: pa.float64(), INTEGER: pa.int64(), TEXT: pa.string(), FLAG: pa.bool_()}


def read(path: Path, name: str, runs: Collection[str] | None = None) -> pa.Table:
    """Rows of table `name` in an archive, with `runs` only those of these runs, not yet validated.

    Raises DataError where the file cannot be read or its columns are not as declared.
    """
    try:
        file = pq.ParquetFile(io.BytesIO(read_bytes(path, TABLE)))
        check_cells(file.metadata.num_rows * file.metadata.num_columns)
        found = file.read()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"table {name} cannot be read: {error}", where=path) from error
    declared = as_found(name, found.schema.names)
    if not found.schema.equals(declared):
        got, allowed = (", ".join(f"{each.name} {each.type}" for each in of) for of in (found.schema, declared))
        raise DataError(f"columns of table {name} are not as declared", where=path, got=got, allowed=allowed)
    if runs is not None and "run_id" in declared.names:
        found = found.filter(pc.is_in(found["run_id"], pa.array(list(runs), pa.string())))
    return with_added(found, name)


def is_archive(path: Path) -> bool:
    """Whether a file of a table is an archive."""
    return path.suffix == ARCHIVE


@cache
def runs_in(path: Path) -> frozenset[str]:
    """Runs that an archive holds rows of; an archive is never changed."""
    return frozenset(pq.read_table(path, columns=["run_id"], partitioning=None)["run_id"].unique().to_pylist())


def schema(name: str) -> pa.Schema:
    """Columns of table `name` with the types of Arrow."""
    return pa.schema([(label, ARROW[dtype]) for label, dtype in dtypes(name).items()])


def as_found(name: str, found: Collection[str]) -> pa.Schema:
    """Columns of table `name` in a file that may lack those that were added later."""
    return pa.schema([each for each in schema(name) if each.name in found or each.name not in absent(name)])


def with_added(table: pa.Table, name: str) -> pa.Table:
    """Rows with the columns that were added to their table later."""
    for place, each in enumerate(schema(name)):
        if each.name not in table.column_names:
            table = table.add_column(place, each, _repeated(absent(name)[each.name], len(table), each.type))
    return table


def _repeated(value: str | int | None, count: int, of: pa.DataType) -> pa.Array:
    """A column that holds one text or number, or nothing; Arrow's own way to make it loads pandas."""
    if value is None:
        return pa.nulls(count, of)
    if isinstance(value, int):
        return pa.Array.from_buffers(of, count, [None, pa.py_buffer(np.full(count, value, dtype=np.int64))])
    text = value.encode()
    ends = np.arange(count + 1, dtype=np.int32) * len(text)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(text * count))

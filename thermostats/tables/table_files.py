"""One file of a table: CSV, or an archive, which holds rows of many runs in Parquet as a release ships them.

`scripts/pack_runs.py` makes archives of files of single runs; a later release adds files and changes none.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from thermostats.errors import DataError, reason
from thermostats.tables.cells import WORDS
from thermostats.tables.folders import ARCHIVE
from thermostats.tables.limits import TABLE, check_cells, read_bytes
from thermostats.tables.schemas import FLAG, FLOAT, INTEGER, TEXT, absent, dtypes, with_added
from thermostats.tables.validation import converted, difference

AT_ONCE = 4_000_000
"""Bytes of files that are parsed at once, about."""
ARROW = {FLOAT: pa.float64(), INTEGER: pa.int64(), TEXT: pa.string(), FLAG: pa.bool_()}


def read(path: Path, name: str, runs: Collection[str] | None = None) -> pa.Table:
    """Rows of table `name` in a file, of an archive only those of `runs`, as typed columns, not yet validated.

    Raises DataError where it cannot be read or its columns are not as declared, naming the first cell that is not of
    its column's type.
    """
    return _read_archive(path, name, runs) if is_archive(path) else _parsed(_content(path), path, name)


def _read_archive(path: Path, name: str, runs: Collection[str] | None) -> pa.Table:
    try:
        file = pq.ParquetFile(io.BytesIO(read_bytes(path, TABLE)))
        check_cells(file.metadata.num_rows * file.metadata.num_columns)
        rows = file.read() if _holds(file, runs) else file.schema_arrow.empty_table()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"table {name} cannot be read: {error}", where=path) from error
    declared = schema(name, rows.schema.names)
    if not rows.schema.equals(declared):
        got, allowed = (", ".join(f"{each.name} {each.type}" for each in of) for of in (rows.schema, declared))
        raise DataError(f"columns of table {name} are not as declared", where=path, got=got, allowed=allowed)
    if runs is not None and "run_id" in declared.names:
        rows = rows.filter(pc.is_in(rows["run_id"], pa.array(list(runs), pa.string())))
    return rows


def _holds(file: pq.ParquetFile, runs: Collection[str] | None) -> bool:
    """Whether an archive holds rows of some runs, or has no runs."""
    if runs is None or "run_id" not in file.schema_arrow.names:
        return True
    return not set(runs).isdisjoint(file.read(columns=["run_id"])["run_id"].unique().to_pylist())


def is_archive(path: Path) -> bool:
    """Whether a file of a table is an archive."""
    return path.suffix == ARCHIVE


@cache
def runs_in(path: Path) -> frozenset[str]:
    """Runs that an archive holds rows of; an archive is never changed."""
    return frozenset(pq.read_table(path, columns=["run_id"], partitioning=None)["run_id"].unique().to_pylist())


def schema(name: str, there: Collection[str]) -> pa.Schema:
    """Columns of table `name` as Arrow types them, in a file that may lack those that were added later."""
    spare = {label for label in absent(name) if label not in there}
    return pa.schema([(label, ARROW[dtype]) for label, dtype in dtypes(name).items() if label not in spare])


def read_all(paths: Iterable[Path], name: str) -> list[pa.Table]:
    """Rows of table `name` in many CSV files, as `read` gives and refuses those of one; some are parsed at once."""
    return [table for contents in _alike(paths) for table in _parsed_at_once(contents, name)]


def _alike(paths: Iterable[Path]) -> Iterator[dict[Path, bytes]]:
    """Files by turns that have the same first line; by itself one with quotes, in which a line may not be a row."""
    alike: dict[Path, bytes] = {}
    names, size = b"", 0
    for path in paths:
        content = _content(path)
        first, quoted = content.partition(b"\n")[0], b'"' in content
        if alike and (quoted or first != names or size > AT_ONCE):
            yield alike
            alike, size = {}, 0
        alike[path], names, size = content, first, size + len(content)
        if quoted:
            yield alike
            alike, size = {}, 0
    if alike:
        yield alike


def _parsed_at_once(contents: Mapping[Path, bytes], name: str) -> list[pa.Table]:
    """Rows of files whose first lines are the same; file by file where they are not as they must be."""
    if len(contents) > 1:
        header, *rest = contents.values()
        lines = [content.partition(b"\n")[2] for content in rest]
        path = next(iter(contents))
        with suppress(DataError):  # said of the file that is to blame
            return [_parsed(b"\n".join([header, *lines]), path, name)]
    return [_parsed(content, path, name) for path, content in contents.items()]


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path, TABLE)
    except OSError as error:
        raise DataError("table cannot be read", where=path, got=reason(error)) from error


def _parsed(content: bytes, path: Path, name: str) -> pa.Table:
    """Rows of one CSV file."""
    declared = schema(name, _header(content, path, name))
    convert = ConvertOptions(
        column_types=declared, null_values=[""], strings_can_be_null=False, true_values=["True"], false_values=["False"]
    )
    try:
        return read_csv(
            pa.py_buffer(content),
            ReadOptions(use_threads=False, block_size=len(content) + 1),  # a cell may be longer than a block
            ParseOptions(newlines_in_values=True),
            convert,
        )
    except (ValueError, pa.ArrowException) as error:
        _check_cells(_text(content, path), path, name)
        raise DataError(f"table {name} is damaged: {error}", where=path) from error


def _text(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        got = f"byte {error.object[error.start]:#04x} at {error.start}"
        raise DataError("table is not UTF-8 text", where=path, got=got) from error


def _header(content: bytes, path: Path, name: str) -> list[str]:
    """Columns of the first line. Raises DataError where they are not those of a table in their order."""
    first = content.partition(b"\n")[0].rstrip(b"\r").decode(errors="replace").split(",")
    declared = [label for label in dtypes(name) if label in first or label not in absent(name)]
    if first == declared:
        return first
    try:
        names = next(csv.reader(io.StringIO(_text(content, path))), [])
    except csv.Error as error:
        raise DataError(f"table is damaged: {error}", where=path) from error
    declared = [label for label in dtypes(name) if label in names or label not in absent(name)]
    if names == declared:
        return names
    lacking, extra = difference(names, declared)
    parts = [f"lacking {', '.join(lacking)}"] * bool(lacking) + [f"unknown {', '.join(map(repr, extra))}"] * bool(extra)
    raise DataError(
        f"columns of table {name} are not as declared",
        where=path,
        got="; ".join(parts) or "another order",
        allowed=", ".join(declared),
        next_step=f"thermostats ls columns {name} shows what each means",
    )


def _check_cells(text: str, path: Path, name: str) -> None:
    """Raise DataError for the first cell that is not of its declared type, with its line; none may be to blame."""
    reader, cells, lines = csv.reader(io.StringIO(text, newline="")), [], []
    try:
        names = next(reader)
        for row in reader:
            if len(row) == len(names):
                cells.append(row)
                lines.append(reader.line_num)
    except csv.Error:
        return  # a cell of over 131,072 characters: there is none to point at
    wrong = converted(with_added(pd.DataFrame(cells, columns=names, dtype="str"), name), name)[1]
    for fault in sorted(wrong, key=lambda each: each.row):
        what = f"table {name}, line {lines[fault.row]}, column {fault.column}: {fault.value!r} {fault.what}"
        raise DataError(what, where=path, allowed=WORDS[dtypes(name)[fault.column]])

"""Rows of the tables of a data folder as Arrow holds them, read and held against the schema; loads no pandas.

A data folder holds `<table>.csv`, `published/<table>.csv`, `measured/<table>/<run_id>.csv` and archives
(`archive.py`); a table is all of them together, a row of an archive giving way to one with the same key, in a user's
store with the tables of the package beneath (`folders.py`).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from thermostats.errors import DataError, reason
from thermostats.tables import archive
from thermostats.tables.archive import is_archive
from thermostats.tables.arguments import check_table
from thermostats.tables.arrow_check import difference, held, keys
from thermostats.tables.folders import data_folder, layers, own_files
from thermostats.tables.limits import TABLE, read_bytes
from thermostats.tables.schemas import FLAG, FLOAT, INTEGER, TEXT, absent, dtypes, key

PARSE: dict[str, Callable[[str], Any]] = {FLOAT: float, INTEGER: int, FLAG: ("True", "False").index, TEXT: str}
RUN_FILE = re.compile(r"[0-9a-f]{16}\.csv")
"""What a file is called that holds the rows of one run."""
SMALL = 2**20
"""Bytes of a file from which on it is parsed by itself."""


def load(
    name: str, data: str | Path | None = None, *, private: bool = True, runs: Collection[str] | None = None
) -> pa.Table:
    """Whole table `name`, validated and sorted by key; empty with the right columns where there are no rows.

    A row of a user's store stands in the place of one with the same key among the package's. Prompt texts that may not
    be shipped are filled in from `private/prompts.csv` where it exists, unless `private` is False. With `runs`, rows of
    other runs in archives and in files named after them are left out.

    Raises DataError if a file is damaged, a value is not allowed or a key occurs twice.
    """
    check_table(name)
    folder = data_folder(data)
    files = [own_files(name, layer) for layer in layers(folder)]
    found: pa.Table | None = None
    for own in files:
        archives = [archive.read(path, name, runs) for path in own if is_archive(path)]
        others = [path for path in own if not is_archive(path) and _may_hold(path, runs)]
        for rows in (archives, _read_csvs(others, name)):
            if rows:
                found = _over(pa.concat_tables(rows), found, name)
    if found is None:
        return pa.Table.from_batches([], archive.schema(name))  # `empty_table` loads pandas
    paths = [path for own in files for path in own]
    found = held(found, name, paths[0] if len(paths) == 1 else folder)
    return _with_private_texts(found, folder) if name == "prompts" and private else found


def has_run(name: str, run_id: str, folder: Path) -> bool:
    """Whether rows of table `name` that a run measured are in a data folder, or beneath it."""
    return any(
        (layer / "measured" / name / f"{run_id}.csv").is_file()
        or any(run_id in archive.runs_in(path) for path in own_files(name, layer) if is_archive(path))
        for layer in layers(folder)
    )


def _may_hold(path: Path, runs: Collection[str] | None) -> bool:
    """Whether a file may hold rows of some runs: it is named after one of them, or after none."""
    return runs is None or not RUN_FILE.fullmatch(path.name) or path.stem in runs


def _over(own: pa.Table, beneath: pa.Table | None, name: str) -> pa.Table:
    """Rows of `own`, and those beneath whose keys it does not have."""
    if beneath is None:
        return own
    first = key(name)[0]
    near = own.filter(pc.is_in(own[first], pc.unique(beneath[first])))
    if not near.num_rows:  # as mostly: of a run beneath there are seldom rows
        return pa.concat_tables([beneath, own])
    hiding = set(keys(near, name))
    return pa.concat_tables([beneath.filter(pa.array([each not in hiding for each in keys(beneath, name)])), own])


def _with_private_texts(prompts: pa.Table, folder: Path) -> pa.Table:
    path = folder / "private" / "prompts.csv"
    if not path.is_file():
        return prompts
    texts = read(path, "prompts")
    by_hash = dict(zip(reversed(texts["text_sha256"].to_pylist()), reversed(texts["text"].to_pylist()), strict=True))
    stated = zip(prompts["text"].to_pylist(), prompts["text_sha256"].to_pylist(), strict=True)
    filled = pa.array([text or by_hash.get(sha) or "" for text, sha in stated], pa.string())
    return prompts.set_column(prompts.column_names.index("text"), "text", filled)


def read(path: Path, name: str) -> pa.Table:
    """One file of table `name`, as typed columns, not yet validated.

    Raises DataError where it is damaged, naming the first cell that is not of its column's type.
    """
    return archive.read(path, name) if is_archive(path) else _read_csv(path, name)


def _read_csvs(paths: Sequence[Path], name: str) -> list[pa.Table]:
    """Files of table `name`; small ones without quotes are parsed together, since a parser costs more than they do."""
    small: dict[bytes, list[tuple[Path, bytes]]] = {}
    tables, known = [], _schemas(name)
    for path in paths:
        content = _content(path)
        header, _, body = content.partition(b"\n")
        if len(content) < SMALL and body.endswith(b"\n") and b'"' not in content and header in known:
            small.setdefault(header, []).append((path, body))
        else:
            tables.append(_read_csv(path, name))
    for header, files in small.items():
        try:
            whole = b"\n".join([header, b"".join(body for _, body in files)])
            tables.append(_parsed(whole, name, known[header]))
        except (ValueError, pa.ArrowException):
            tables += [_read_csv(path, name) for path, _ in files]  # which names the file
    return tables


def _read_csv(path: Path, name: str) -> pa.Table:
    content = _content(path)
    header = content.partition(b"\n")[0]
    declared = _schemas(name).get(header) or archive.as_found(name, _header(content, path, name))
    try:
        return _parsed(content, name, declared)
    except (ValueError, pa.ArrowException) as error:
        text = _text(content, path)
        raise DataError(_bad_cell(text, name) or f"table {name} is damaged: {error}", where=path) from error


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path, TABLE)
    except OSError as error:
        raise DataError("table cannot be read", where=path, got=reason(error)) from error


@cache
def _schemas(name: str) -> dict[bytes, pa.Schema]:
    """Columns of a file by its first line: of the table with all and with none of the optional ones."""
    return {",".join(each.names).encode(): each for each in (archive.as_found(name, ()), archive.schema(name))}


def _parsed(content: bytes, name: str, declared: pa.Schema) -> pa.Table:
    rows = read_csv(
        pa.py_buffer(content),
        ReadOptions(use_threads=False, block_size=len(content) + 1),  # a cell may be longer than a block
        ParseOptions(newlines_in_values=True),
        ConvertOptions(
            column_types=declared,
            null_values=[""],
            strings_can_be_null=False,
            true_values=["True"],
            false_values=["False"],
        ),
    )
    return archive.with_added(rows, name)


def _text(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        got = f"byte {error.object[error.start]:#04x} at {error.start}"
        raise DataError("table is not UTF-8 text", where=path, got=got) from error


def _header(content: bytes, path: Path, name: str) -> list[str]:
    """Columns of the first line. Raises DataError where they are not those of a table in their order."""
    try:
        found = next(csv.reader(io.StringIO(_text(content, path))), [])
    except csv.Error as error:
        raise DataError(f"table is damaged: {error}", where=path) from error
    declared = [label for label in dtypes(name) if label in found or label not in absent(name)]
    if found == declared:
        return found
    lacking, extra = difference(found, declared)
    parts = [f"lacking {', '.join(lacking)}"] * bool(lacking) + [f"unknown {', '.join(map(repr, extra))}"] * bool(extra)
    raise DataError(
        f"columns of table {name} are not as declared",
        where=path,
        got="; ".join(parts) or "another order",
        allowed=", ".join(declared),
        next_step=f"thermostats ls columns {name} shows what each means",
    )


def _bad_cell(text: str, name: str) -> str:
    """The first cell that is not of its declared type, in words; empty where none is to blame."""
    lines = csv.reader(io.StringIO(text, newline=""))
    with suppress(csv.Error):  # a cell of over 131,072 characters: there is none to point at
        labels = next(lines, [])
        for row in lines:
            for label, cell in zip(labels, row, strict=False):
                dtype = dtypes(name)[label]
                try:
                    if cell:
                        PARSE[dtype](cell)
                except ValueError:
                    return f"table {name}, line {lines.line_num}, column {label}: {cell!r} is not a {dtype}"
    return ""

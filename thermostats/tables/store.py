"""Read and write the tidy tables of a data folder.

A data folder holds `<table>.csv`, `published/<table>.csv`, `measured/<table>/<run_id>.csv` and
archives; a table is all of them together, a row of an archive giving way to one with the same key,
in a user's store with the tables of the package beneath (`folders.py`). CSV files are sorted by
key, floats in their shortest exact form, LF: saving what was loaded gives the same bytes. A run of
more than `LARGE` rows is `measured/<table>/<run_id>.parquet`, which is read without being validated
again (`sealed_runs.py`).
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from thermostats.errors import DataError, UsageError, describe_file_error, find_nearest
from thermostats.settings import CACHE_VARIABLE as CACHE_VARIABLE  # noqa: PLC0414
from thermostats.settings import OFF as OFF  # noqa: PLC0414
from thermostats.tables import sealed_runs
from thermostats.tables.choices import check_table
from thermostats.tables.entries import drop_names
from thermostats.tables.folders import (
    ARCHIVE,
    TABLE,
    check_cells,
    has_own_runs,
    list_layers,
    list_own_files,
    read_bytes,
    write_atomically,
)
from thermostats.tables.folders import find_data_folder as find_data_folder  # noqa: PLC0414
from thermostats.tables.folders import find_shipped as find_shipped  # noqa: PLC0414
from thermostats.tables.frames import select_rows
from thermostats.tables.identities import check_identities, check_models
from thermostats.tables.incoming import build_csv_lines
from thermostats.tables.remedies import Remedy, write_renaming
from thermostats.tables.runs import check_run_ids
from thermostats.tables.schemas import (
    EXTERNAL,
    FLAG,
    FLOAT,
    INTEGER,
    TABLES,
    TEXT,
    add_later_columns,
    list_dtypes,
    list_key_columns,
    list_optional,
    list_references,
    list_written,
)
from thermostats.tables.sealed_runs import RUN_FILE, encode_run, is_run_file, is_sealed, list_filled
from thermostats.tables.suggested_models import suggest_models
from thermostats.tables.validation import (
    WORDS,
    compare_columns,
    convert_columns,
    order_ranks,
    rank_keys,
)
from thermostats.tables.validation import validate as validate  # noqa: PLC0414

PERMITTED = ("MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CC-BY-4.0")
"""SPDX identifiers of licences that let figures be passed on, with their source and the text of the
licence."""


def check_licence(licence: str, where: object) -> None:
    """Raise UsageError where a licence does not permit that figures ship with the package.

    What is not stated permits nothing, and terms against commercial use or changed versions forbid
    it.
    """
    if licence not in PERMITTED:
        step = (
            "ask its author, leave it out, or take it into your own folder: thermostats join FILES "
            "--data FOLDER"
        )
        raise UsageError(
            "this licence does not permit that the rows ship",
            where=where,
            got=licence or "none stated",
            allowed=", ".join(PERMITTED),
            next_step=step,
        )


def check_licences(runs: pd.DataFrame) -> None:
    """Raise UsageError for a run of other people that ships under no licence that permits it."""
    shipped = select_rows(runs, measure_version=EXTERNAL).drop_duplicates(["source", "licence"])
    for run in shipped.itertuples():
        check_licence(str(run.licence), f"{run.source}, run {run.run_id}")


def check_lineage(models: pd.DataFrame, lineage: pd.DataFrame) -> None:
    """Raise DataError where the two tables contradict each other, or a parent stands in neither."""
    names = set(models["model_id"]) | set(lineage["model_id"])
    for model, parent in lineage[["model_id", "parent"]].itertuples(index=False):
        if parent and parent not in names:
            row = f"add a row for {parent} to table lineage"
            raise DataError(
                "table lineage names a parent that neither it nor table models has",
                where=model,
                got=parent,
                next_step=f"{row}, its parent empty where it has none",
            )
    stated = select_rows(models, model_id=lineage["model_id"])
    stated = stated.loc[stated["parent"] != "", ["model_id", "parent"]]
    parents = lineage.groupby("model_id")["parent"].agg(set)
    for model, parent in stated.drop_duplicates().itertuples(index=False):
        if parent not in parents[model]:
            others = ", ".join(sorted(parents[model])) or "none"
            raise DataError(
                "two tables name another parent",
                where=model,
                got=f"{parent} in models, {others} in lineage",
                next_step="correct one of the two",
            )
    facts = models.drop_duplicates("model_id").set_index("model_id")
    for row in select_rows(lineage, model_id=facts.index).to_dict("records"):
        for label in ("heritage", "family"):
            model = row["model_id"]
            held = facts.loc[model, label]
            stated_here = row[label]
            if stated_here and held and stated_here != held:
                got = f"{stated_here}, {held}"
                what = f"two tables name another {label}"
                step = "leave it empty in lineage"
                raise DataError(what, where=model, got=got, next_step=step)


def join_lineage(models: pd.DataFrame, lineage: pd.DataFrame) -> pd.DataFrame:
    """One row per model and parent, with lab, family and year; the parent of table models where
    lineage lacks it."""
    facts = models.drop_duplicates("model_id").set_index("model_id")
    rows = lineage.copy()
    lacking = facts[~facts.index.isin(rows["model_id"])].reset_index()
    rows = pd.concat(
        [rows, lacking[["model_id", "parent", "heritage", "family"]]], ignore_index=True
    )
    for label in ("heritage", "family"):
        of_model = rows["model_id"].map(facts[label]).fillna("")
        unstated = rows[label].fillna("") == ""
        rows[label] = of_model.where(unstated, rows[label])
    rows["year"] = rows["model_id"].map(facts["year"])
    for label in ("parent", "kind", "teacher", "tokenizer", "corpus", "source"):
        rows[label] = rows[label].fillna("")
    return rows


AT_ONCE = 4_000_000
"""Bytes of files that are parsed at once, about."""
TIMES_OF_A_RUN = 10
"""How many times the cells of other files a run's Parquet file may have; more are refused
unread."""
ARROW = {FLOAT: pa.float64(), INTEGER: pa.int64(), TEXT: pa.string(), FLAG: pa.bool_()}


def read(path: Path, name: str, runs: Collection[str] | None = None) -> pa.Table:
    """Rows of table `name` in a file, of an archive only those of `runs`, as typed columns, not yet
    validated.

    Raises DataError where it cannot be read or its columns are not as declared, naming the first
    cell that is not of its column's type.
    """
    content = _read_content(path)
    if path.suffix == ARCHIVE:
        return _read_parquet(content, path, name, runs)
    return _parse_file(content, path, name)


def _read_parquet(
    content: bytes, path: Path, name: str, runs: Collection[str] | None = None
) -> pa.Table:
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        times = TIMES_OF_A_RUN if is_run_file(path) else 1
        check_cells(file.metadata.num_rows * file.metadata.num_columns, times)
        rows = file.read() if _has_runs(file, runs) else file.schema_arrow.empty_table()
    except (OSError, ValueError, pa.ArrowException) as error:
        again = "restore it, or remove it and join the rows of this run again"
        step = again if is_run_file(path) else ""
        what = f"table {name} cannot be read: {error}"
        raise DataError(what, where=path, next_step=step) from error
    declared = build_schema(name, rows.schema.names)
    if not rows.schema.equals(declared):
        what = f"columns of table {name} are not as declared"
        allowed = _name_columns(declared)
        raise DataError(what, where=path, got=_name_columns(rows.schema), allowed=allowed)
    if runs is not None and "run_id" in declared.names:
        wanted = pa.array(list(runs), pa.string())
        rows = rows.filter(pc.is_in(rows["run_id"], wanted))
    return rows


def _has_runs(file: pq.ParquetFile, runs: Collection[str] | None) -> bool:
    """Whether an archive holds rows of some runs, or has no runs."""
    if runs is None or "run_id" not in file.schema_arrow.names:
        return True
    return not set(runs).isdisjoint(_list_runs(file.read(columns=["run_id"])))


def _list_runs(rows: pa.Table) -> list[str]:
    """The distinct runs of rows."""
    runs: list[str] = rows["run_id"].unique().to_pylist()
    return runs


def is_archive(path: Path) -> bool:
    """Whether a file of a table is an archive, which is never changed."""
    return path.suffix == ARCHIVE and not is_run_file(path)


@cache
def read_archived_runs(path: Path) -> frozenset[str]:
    """Runs that an archive holds rows of; an archive is never changed."""
    return frozenset(_list_runs(pq.read_table(path, columns=["run_id"], partitioning=None)))


def build_schema(name: str, there: Collection[str]) -> pa.Schema:
    """Columns of table `name` as Arrow types them, in a file that may lack those that were added
    later."""
    lacking = set(list_optional(name)).difference(there)
    dtypes = drop_names(list_dtypes(name), lacking)
    return pa.schema([(label, ARROW[dtype]) for label, dtype in dtypes.items()])


def _name_columns(schema: pa.Schema) -> str:
    """Columns with their types, as an error names them."""
    return ", ".join(f"{column.name} {column.type}" for column in schema)


def read_all(paths: Iterable[Path], name: str) -> list[pa.Table]:
    """Rows of table `name` in many files that are no archives, as `read` gives and refuses those of
    one; some CSV files are parsed at once."""
    listed = list(paths)
    tables = []
    for contents in _group_files(path for path in listed if not is_run_file(path)):
        tables += _parse_files(contents, name)
    tables += [read(path, name) for path in filter(is_run_file, listed)]
    return tables


def _group_files(paths: Iterable[Path]) -> Iterator[dict[Path, bytes]]:
    """Files by turns that have the same first line; by itself one with quotes, in which a line may
    not be a row."""
    alike: dict[Path, bytes] = {}
    names = b""
    size = 0
    for path in paths:
        content = _read_content(path)
        first = content.partition(b"\n")[0]
        quoted = b'"' in content
        if alike and (quoted or first != names or size > AT_ONCE):
            yield alike
            alike = {}
            size = 0
        alike[path] = content
        names = first
        size += len(content)
        if quoted:
            yield alike
            alike = {}
            size = 0
    if alike:
        yield alike


def _parse_files(contents: Mapping[Path, bytes], name: str) -> list[pa.Table]:
    """Rows of files whose first lines are the same; file by file where they are not as they must
    be."""
    if len(contents) > 1:
        header, *rest = contents.values()
        lines = [content.partition(b"\n")[2] for content in rest]
        path = next(iter(contents))
        with suppress(DataError):  # said of the file that is to blame
            return [_parse_file(b"\n".join([header, *lines]), path, name)]
    return [_parse_file(content, path, name) for path, content in contents.items()]


def _read_content(path: Path) -> bytes:
    try:
        return read_bytes(path, TABLE)
    except OSError as error:
        raise DataError(
            "table cannot be read", where=path, got=describe_file_error(error)
        ) from error


def _parse_file(content: bytes, path: Path, name: str) -> pa.Table:
    """Rows of one CSV file."""
    declared = build_schema(name, _read_header(content, path, name))
    convert = ConvertOptions(
        column_types=declared,
        null_values=[""],
        strings_can_be_null=False,
        true_values=["True"],
        false_values=["False"],
    )
    try:
        # a cell may be longer than a block
        reading = ReadOptions(use_threads=False, block_size=len(content) + 1)
        parsing = ParseOptions(newlines_in_values=True)
        return read_csv(pa.py_buffer(content), reading, parsing, convert)
    except (ValueError, pa.ArrowException) as error:
        _check_cells(_decode_text(content, path), path, name)
        raise DataError(f"table {name} is damaged: {error}", where=path) from error


def _decode_text(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        got = f"byte {error.object[error.start]:#04x} at {error.start}"
        raise DataError("table is not UTF-8 text", where=path, got=got) from error


def _read_header(content: bytes, path: Path, name: str) -> list[str]:
    """Columns of the first line. Raises DataError where they are not those of a table in their
    order."""
    line = content.partition(b"\n")[0].rstrip(b"\r")
    first = line.decode(errors="replace").split(",")
    if first == build_schema(name, first).names:
        return first
    try:
        names = next(csv.reader(io.StringIO(_decode_text(content, path))), [])
    except csv.Error as error:
        raise DataError(f"table is damaged: {error}", where=path) from error
    declared = build_schema(name, names).names
    if names == declared:
        return names
    lacking, extra = compare_columns(names, declared)
    parts = []
    if lacking:
        parts.append(f"lacking {', '.join(lacking)}")
    if extra:
        parts.append(f"unknown {', '.join(map(repr, extra))}")
    what = f"columns of table {name} are not as declared"
    got = "; ".join(parts) or "another order"
    allowed = ", ".join(declared)
    step = f"thermostats ls columns {name} shows what each means"
    raise DataError(what, where=path, got=got, allowed=allowed, next_step=step)


def _check_cells(text: str, path: Path, name: str) -> None:
    """Raise DataError for the first cell that is not of its declared type, with its line; none may
    be to blame."""
    reader = csv.reader(io.StringIO(text, newline=""))
    cells = []
    lines = []
    try:
        names = next(reader)
        for row in reader:
            if len(row) == len(names):
                cells.append(row)
                lines.append(reader.line_num)
    except csv.Error:
        return  # a cell of over 131,072 characters: there is none to point at
    texts = pd.DataFrame(cells, columns=names, dtype="str")
    _, wrong = convert_columns(add_later_columns(texts, name), name)
    for fault in sorted(wrong, key=lambda each: each.row):
        place = f"table {name}, line {lines[fault.row]}, column {fault.column}"
        dtype = list_dtypes(name)[fault.column]
        what = f"{place}: {fault.value!r} {fault.what}"
        raise DataError(what, where=path, allowed=WORDS[dtype])


FEW = 16
"""Rows of a run on average, below which runs are put in order row by row."""
PARSED: dict[bytes, pd.DataFrame] = {}
"""Tables of few cells by what they were read from, the oldest first: a join reads the same ones
several times."""
MOST_PARSED = 64
FEW_CELLS = 300_000
ROWS_OF_A_PART = 1_000_000
"""Rows of sealed runs that are handed out at a time, about."""
PANDAS = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
"""Types of pandas by those of Arrow, where they are not its own."""


def load(
    name: str,
    data: str | Path | None = None,
    *,
    private: bool = True,
    runs: Collection[str] | None = None,
) -> pd.DataFrame:
    """Whole table `name`, validated and sorted by key; empty with the right columns where there are
    no rows.

    A row of a user's store stands in the place of one with the same key among the package's. Prompt
    texts that may not be shipped are filled in from `private/prompts.csv` where it exists, unless
    `private` is False. With `runs`, rows of other runs in archives and in files named after them
    are left out.

    Raises DataError if a file is damaged, a value is not allowed or a key occurs twice.
    """
    check_table(name)
    folder = find_data_folder(data)
    files = _list_files(name, folder, runs)
    digest = _hash_files(name, files, runs)
    frame = PARSED.get(digest)
    if frame is None:
        frame = _read_files(name, files, folder, runs)
        if digest and frame.size <= FEW_CELLS and _hash_files(name, files, runs) == digest:
            PARSED[digest] = frame
            while len(PARSED) > MOST_PARSED:
                PARSED.pop(next(iter(PARSED)), None)
    if digest in PARSED:
        frame = frame.copy()  # what is handed out shares no array with what is kept
    return _fill_private_texts(frame, folder) if name == "prompts" and private else frame


def load_parts(
    name: str, data: str | Path | None, columns: Sequence[str]
) -> Iterator[pd.DataFrame]:
    """Some columns of table `name` in parts: first all rows that `load` validates, then some sealed
    runs at a time, read when they are asked for, texts as categories. No run is in two of them.

    Raises DataError as `load` does.
    """
    check_table(name)
    folder = find_data_folder(data)
    checked, sealed = _read_unsealed(name, _list_files(name, folder, None), folder, None)
    yield checked[list(columns)]
    read: list[pa.Table] = []
    for number, path in enumerate(sealed, 1):
        read.append(_read_sealed(path, name, columns))
        if sum(map(len, read)) >= ROWS_OF_A_PART or number == len(sealed):
            rows = pa.concat_tables(read).unify_dictionaries()
            read = []
            yield rows.to_pandas(types_mapper=PANDAS.get, split_blocks=True)


class Pieces(NamedTuple):
    """A table in pieces in the order of its keys: its rows, the columns that are written of it, and
    the pieces, each read when it is asked for."""

    rows: int
    columns: list[str]
    frames: Iterator[pd.DataFrame]


def load_pieces(name: str, data: str | Path | None, *, shipped: bool = True) -> Pieces:
    """Table `name` as `load` gives it without private texts, each sealed run by itself.

    shipped: whether the package's rows are among those of a user's folder.

    Raises DataError as `load` does.
    """
    check_table(name)
    folder = find_data_folder(data)
    files = _list_files(name, folder, None)
    chosen = files if shipped else files[-1:]
    checked, sealed = _read_unsealed(name, chosen, folder, None)
    written = set(list_written(checked, name))
    rows = len(checked)
    for file in map(pq.read_metadata, sealed):
        written.update(file.schema.names)
        rows += file.num_rows
    columns = [label for label in list_dtypes(name) if label in written]
    return Pieces(rows, columns, _read_pieces(checked, sealed, name))


def count_own_rows(data: str | Path | None = None) -> dict[str, int]:
    """Rows of every table in a user's own folder, sealed runs by what their files state; none where
    the folder stands for itself, as the package's does."""
    if len(list_layers(find_data_folder(data))) < 2:
        return {}
    return {name: load_pieces(name, data, shipped=False).rows for name in TABLES}


def _read_pieces(
    checked: pd.DataFrame, sealed: Sequence[Path], name: str
) -> Iterator[pd.DataFrame]:
    """Validated rows and those of sealed runs, piece by piece in the order of runs."""
    for piece in _order_pieces(checked, sealed):
        if isinstance(piece, Path):
            yield convert_frame(_read_sealed(piece, name), name)
        else:
            yield piece.reset_index(drop=True)


def _list_files(name: str, folder: Path, runs: Collection[str] | None) -> list[list[Path]]:
    """Files of a table by layer, without those named after other runs."""
    files = []
    for layer in list_layers(folder):
        in_layer = list_own_files(name, layer)
        files.append([path for path in in_layer if is_candidate(path, runs)])
    return files


def _read_files(
    name: str, files: list[list[Path]], folder: Path, runs: Collection[str] | None
) -> pd.DataFrame:
    """Table `name` from files by layer, those of a higher layer over those of a lower one."""
    checked, sealed = _read_unsealed(name, files, folder, runs)
    return _insert_runs(checked, sealed, name) if sealed else checked


def _read_unsealed(
    name: str, files: list[list[Path]], folder: Path, runs: Collection[str] | None
) -> tuple[pd.DataFrame, list[Path]]:
    """Rows of all files but those of sealed runs, validated, and these files in the order of
    runs."""
    sealed = _find_sealed(name, files)
    rows = _stack_files(name, files, runs, sealed)
    ids = {path.stem for path in sealed}
    if ids and not ids.isdisjoint(_list_runs(rows)):
        sealed = []  # other files have rows of these runs as well
        rows = _stack_files(name, files, runs, sealed)
    paths = list(chain.from_iterable(files))
    frame = convert_frame(_order_runs(rows), name)
    checked = validate(frame, name, paths[0] if len(paths) == 1 else folder)
    return checked, sealed


def _stack_files(
    name: str, files: list[list[Path]], runs: Collection[str] | None, sealed: Collection[Path]
) -> pa.Table:
    """Rows of all files but the sealed ones, those of a higher layer over those of a lower one."""
    rows = build_schema(name, ()).empty_table()
    for in_layer in files:
        archives = [read(path, name, runs) for path in filter(is_archive, in_layer)]
        left = (path for path in in_layer if not is_archive(path) and path not in sealed)
        for parts in (archives, read_all(left, name)):
            if parts:
                rows = _stack_layers(_join_parts(parts, name), rows, name)
    return rows


def _find_sealed(name: str, files: list[list[Path]]) -> list[Path]:
    """Files of runs that are as they were written, in the order of runs; none where two are of one
    run."""
    paths = list(filter(is_run_file, chain.from_iterable(files)))
    if len({path.name for path in paths}) < len(paths):
        return []
    by_run = sorted(paths, key=lambda path: path.name)
    return [path for path in by_run if is_sealed(_read_content(path), name, path.stem)]


def _read_sealed(path: Path, name: str, columns: Sequence[str] = ()) -> pa.Table:
    """Rows of a sealed run: the columns that hold something, or those that are asked for, texts as
    categories."""
    content = _read_content(path)
    if not is_sealed(content, name, path.stem):
        raise DataError(
            "a file was changed while it was read", where=path, next_step="read it again"
        )
    dtypes = list_dtypes(name)
    texts = [label for label in columns if dtypes[label] == TEXT]
    file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=texts)
    filled = []
    for label in list_filled(file.metadata):
        if label in columns or not columns:
            filled.append(label)
    rows = file.read(filled)
    if not columns:
        return rows
    for label in columns:
        if label not in filled:
            empty = pa.nulls(len(rows), ARROW[dtypes[label]])
            rows = rows.append_column(label, empty)
    return rows.select(list(columns))


def _insert_runs(checked: pd.DataFrame, sealed: Sequence[Path], name: str) -> pd.DataFrame:
    """Validated rows with those of sealed runs between them, in the order of runs."""
    pieces = []
    for piece in _order_pieces(checked, sealed):
        pieces.append(_read_sealed(piece, name) if isinstance(piece, Path) else piece)
    dtypes = list_dtypes(name)
    cells = {}
    for label, dtype in dtypes.items():
        if dtype != FLOAT:
            default = list_optional(name).get(label)
            cells[label] = _join_cells(pieces, label, dtype, default)
    others = pa.table(cells).to_pandas(types_mapper=PANDAS.get, split_blocks=True)
    columns = {}
    for label, dtype in dtypes.items():
        columns[label] = _join_numbers(pieces, label) if dtype == FLOAT else others[label]
    return pd.DataFrame(columns, copy=False)


def _order_pieces(checked: pd.DataFrame, sealed: Sequence[Path]) -> Iterator[pd.DataFrame | Path]:
    """Validated rows, cut where sealed runs stand between them, and the files of these."""
    before = 0
    places = checked["run_id"].searchsorted([path.stem for path in sealed]) if sealed else ()
    for place, path in zip(places, sealed, strict=True):
        if place > before:
            yield checked.iloc[before:place]
        yield path
        before = place
    if before < len(checked) or not sealed:
        yield checked.iloc[before:]


def _join_numbers(pieces: Sequence[pd.DataFrame | pa.Table], label: str) -> NDArray[np.float64]:
    """A column of numbers of several pieces, missing where one does not have it."""
    numbers = np.full(sum(map(len, pieces)), np.nan)
    first = 0
    for piece in pieces:
        if isinstance(piece, pd.DataFrame) or label in piece.column_names:
            numbers[first : first + len(piece)] = piece[label].to_numpy()
        first += len(piece)
    return numbers


def _join_cells(
    pieces: Sequence[pd.DataFrame | pa.Table], label: str, dtype: str, default: object
) -> pa.ChunkedArray:
    """Another column of several pieces; where one does not have it, what it is there."""
    kind = ARROW[dtype]
    unsaid = "" if default is None and dtype == TEXT else default
    spare = pa.scalar(unsaid, kind)
    chunks: list[pa.Array] = []
    for piece in pieces:
        if isinstance(piece, pd.DataFrame):
            cells = pa.array(piece[label])
        elif label in piece.column_names:
            cells = piece[label]
        else:
            cells = pa.repeat(spare, len(piece))
        chunks += cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]
    wide = pa.large_string() if dtype == TEXT else kind
    return pa.chunked_array([each.cast(wide) for each in chunks], wide)


def _hash_files(name: str, files: list[list[Path]], runs: Collection[str] | None) -> bytes:
    """Hash of what `_read_files` depends on; empty where the files are large or cannot be read,
    which it says."""
    asked = (name, runs if runs is None else sorted(runs))
    digest = hashlib.sha256(repr(asked).encode())
    try:
        if sum(path.stat().st_size for path in chain.from_iterable(files)) > AT_ONCE:
            return b""
        for number, in_layer in enumerate(files):
            for path in in_layer:
                content = read_bytes(path, AT_ONCE)
                head = f"\n{number} {is_archive(path)} {len(content)}\n"
                digest.update(head.encode() + content)
    except (OSError, DataError):
        return b""
    return digest.digest()


def _join_parts(parts: Sequence[pa.Table], name: str) -> pa.Table:
    """Rows of several files; in the order of their keys where rows of one run are in several."""
    rows = pa.concat_tables(parts, promote_options="default")
    if "run_id" not in rows.column_names or len(parts) == 1:
        return rows
    runs = [part["run_id"].unique() for part in parts]
    once = len(pa.chunked_array(runs).unique()) == sum(map(len, runs))
    if once:
        return rows
    return rows.sort_by([(label, "ascending") for label in list_key_columns(name)])


def read_typed(path: Path, name: str) -> pd.DataFrame:
    """One file of table `name`, as typed columns, not yet validated.

    Raises DataError where it is damaged, naming the first cell that is not of its column's type.
    """
    return convert_frame(read(path, name), name)


def read_own_runs(folder: Path) -> pd.DataFrame:
    """Ids of the runs in a user's own folder, in the column `run_id`; none where the folder stands
    for itself, as the package's does."""
    paths = list_own_files("runs", folder) if has_own_runs(folder) else []
    ids = [read_typed(path, "runs")[["run_id"]] for path in paths]
    return pd.concat(ids) if ids else pd.DataFrame({"run_id": []}, dtype="str")


def has_run(name: str, run_id: str, folder: Path) -> bool:
    """Whether rows of table `name` that a run measured are in a data folder, or beneath it."""
    for layer in list_layers(folder):
        if locate_run(name, run_id, layer).is_file():
            return True
        archives = filter(is_archive, list_own_files(name, layer))
        if any(run_id in read_archived_runs(path) for path in archives):
            return True
    return False


def locate_run(name: str, run_id: str, folder: Path) -> Path:
    """The file of a run in a folder: its Parquet file where there is one, else its CSV file, there
    or not."""
    path = folder / "measured" / name / f"{run_id}.csv"
    large = path.with_suffix(ARCHIVE)
    return large if large.is_file() else path


def _order_runs(rows: pa.Table) -> pa.Table:
    """Rows with the runs in order, as far as those of each are together: only what refers to them
    is moved."""
    if "run_id" not in rows.column_names:
        return rows
    pieces: list[tuple[str, pa.RecordBatch]] = []
    for batch in rows.to_batches():
        run = batch["run_id"]
        starts = np.flatnonzero(pc.not_equal(run[1:], run[:-1])) + 1
        bounds = [0, *starts.tolist(), len(run)]
        if len(bounds) > FEW + len(run) // FEW:
            return rows
        for a, b in pairwise(bounds):
            if a < b:
                pieces.append((run[a].as_py(), batch.slice(a, b - a)))
    pieces.sort(key=itemgetter(0))
    return pa.Table.from_batches([batch for _, batch in pieces], rows.schema)


def convert_frame(rows: pa.Table, name: str) -> pd.DataFrame:
    """Rows of files as a frame of the declared types."""
    return convert_columns(rows.to_pandas(types_mapper=PANDAS.get, split_blocks=True), name)[0]


def is_candidate(path: Path, runs: Collection[str] | None) -> bool:
    """Whether a file may hold rows of some runs: it is named after one of them, or after none."""
    return runs is None or not RUN_FILE.fullmatch(path.name) or path.stem in runs


def _stack_layers(above: pa.Table, beneath: pa.Table, name: str) -> pa.Table:
    """Rows of `above`, and those beneath whose keys it does not have."""
    keys = list_key_columns(name)
    is_near = pc.is_in(above[keys[0]], beneath[keys[0]].unique())
    near = above.filter(is_near).select(keys)
    if len(near):  # seldom: of a run beneath there are seldom rows
        hidden = _index_keys(beneath.select(keys)).isin(_index_keys(near))
        beneath = beneath.filter(pa.array(~hidden))
    return pa.concat_tables([beneath, above], promote_options="default")


def _index_keys(keys: pa.Table) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(keys.to_pandas())


def _fill_private_texts(prompts: pd.DataFrame, folder: Path) -> pd.DataFrame:
    path = folder / "private" / "prompts.csv"
    if not path.is_file():
        return prompts
    private = read_typed(path, "prompts").drop_duplicates("text_sha256")
    texts = private.set_index("text_sha256")["text"]
    held = prompts["text_sha256"].map(texts).fillna("")
    stated = prompts["text"]
    return prompts.assign(text=stated.where(stated != "", held))


def encode_csv(frame: pd.DataFrame, name: str) -> bytes:
    """Canonical bytes of a table: declared column order, sorted by key, shortest exact floats,
    LF."""
    checked = validate(frame, name)
    lines = build_csv_lines(checked[list_written(checked, name)], name)
    return lines.pack_rows(0, len(checked))


class FilesOfRows(NamedTuple):
    """Files of a table: the rows of all of them, the number of the file of each row, and the files
    by number."""

    rows: pd.DataFrame
    number: NDArray[np.int64]
    paths: tuple[Path, ...] = ()

    @classmethod
    def build(cls, files: Mapping[Path, pd.DataFrame], name: str) -> FilesOfRows:
        """Files whose rows are frames of their own."""
        if not files:
            none = pd.DataFrame(columns=list(list_dtypes(name)))
            return cls(none, np.zeros(0, dtype=np.int64))
        rows = pd.concat(list(files.values()), ignore_index=True)
        sizes = list(map(len, files.values()))
        number = np.repeat(np.arange(len(files)), sizes)
        return cls(rows, number, tuple(files))


def encode_files(files: FilesOfRows, name: str) -> dict[Path, bytes]:
    """Bytes of each file of a table, its rows all checked at once; an optional column is in all CSV
    files or in none. A run of more than `LARGE` rows that is not there as CSV yet is Parquet."""
    if not files.paths:
        return {}
    by_key = order_ranks(rank_keys(files.rows, name))
    number = files.number if by_key is None else files.number[by_key]
    checked = validate(files.rows, name)
    by_file = order_ranks(number)
    if by_file is not None:
        checked = checked.take(by_file)
        number = number[by_file]
    bounds = np.searchsorted(number, np.arange(len(files.paths) + 1))
    sizes = np.diff(bounds)
    large = np.array(list(map(_is_large, files.paths, sizes)))
    contents: dict[Path, bytes] = {}
    for i in np.flatnonzero(large):
        path = files.paths[i]
        of_run = checked.iloc[bounds[i] : bounds[i + 1]]
        contents[path.with_suffix(ARCHIVE)] = _encode_run(of_run, name, path.stem)
    rest = checked[~np.repeat(large, sizes)] if large.any() else checked
    lines = build_csv_lines(rest[list_written(rest, name)], name)
    ends = np.where(large, 0, sizes).cumsum()
    starts = ends - sizes
    for i in np.flatnonzero(~large):
        rows = lines.pack_rows(int(starts[i]), int(ends[i]))
        contents[files.paths[i]] = rows
    return contents


def _is_large(path: Path, size: int) -> bool:
    """Whether a file of so many rows is Parquet: it holds one run, of more rows than a CSV file."""
    return RUN_FILE.fullmatch(path.name) is not None and size > sealed_runs.LARGE


def _encode_run(rows: pd.DataFrame, name: str, run_id: str) -> bytes:
    """The Parquet file of a run."""
    schema = build_schema(name, list_written(rows, name))
    return encode_run(pa.Table.from_pandas(rows, schema, preserve_index=False), name, run_id)


def remove_replaced(name: str, folder: Path) -> None:
    """Remove CSV files of runs that a Parquet file stands in the place of, once it does."""
    for path in list_own_files(name, folder):
        if is_run_file(path):
            remove_file(path.with_suffix(".csv"))


def remove_file(path: Path) -> None:
    """Remove a file where it is there; raises DataError where that cannot be done."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            "cannot remove a file", where=path, got=describe_file_error(error)
        ) from error


def save(frame: pd.DataFrame, name: str, path: Path) -> None:
    """Write table `name` to `path` in its canonical bytes, whole or not at all."""
    write_atomically(path, encode_csv(frame, name))


def check(data: str | Path | None = None) -> dict[str, int]:
    """Check every table against its schema, its keys and the tables that it refers to.

    Parameters
    ----------
    data : str or Path
        A user's folder, whose rows are checked together with the package's; none: the package's
        alone.

    Returns
    -------
    dict
        Number of rows of every table.

    Raises
    ------
    DataError
        At the first thing that is wrong.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.check()
    >>> rows["models"] > 100, rows["layers"] > 10_000
    (True, True)
    """
    tables = {name: load(name, data) for name in TABLES}
    for name, frame in tables.items():
        for label, target in list_references(name).items():
            check_reference(frame, name, label, tables[target], target)
    check_prompts(tables["runs"], tables["prompts"])
    check_models(tables["models"])
    check_lineage(tables["models"], tables["lineage"])
    check_run_ids(tables["runs"])
    check_licences(tables["runs"])
    check_identities(tables)
    return {name: len(frame) for name, frame in tables.items()}


def check_reference(
    frame: pd.DataFrame, name: str, label: str, other: pd.DataFrame, target: str
) -> None:
    """Raise DataError where a value of column `label` is not a key of table `target`."""
    labels = [label, "revision"] if target == "models" else [label]
    keys = set(other[labels].itertuples(index=False, name=None))
    if len(labels) > 1:
        distinct = frame[labels].drop_duplicates()
    else:
        distinct = pd.DataFrame({label: frame[label].unique()})
    lacking = [row for row in distinct.itertuples(index=False, name=None) if row not in keys]
    if not lacking:
        return
    row = lacking[0]
    where = f"table {name} refers to a row that table {target} does not have"
    got = f"{label} {' @ '.join(map(repr, row))}"
    if target != "models":
        step = f"add it to {target}, for instance by thermostats join FILES"
        raise DataError(where, got=got, next_step=step)
    near = find_nearest(row[0], other["model_id"])
    near = "" if near == row[0] else near  # of another revision
    facts = suggest_models(lacking, other)
    meant = f"did you mean {near}? Otherwise " if near else ""
    step = f"{meant}add it to models first: thermostats.join({facts})"
    remedy = _suggest_remedy(label, row[0], near, facts)
    raise DataError(where, got=got, next_step=step, remedy=remedy)


def _suggest_remedy(label: str, model: str, near: str, facts: str) -> Remedy:
    """The rows under the name that is near, or the models to join first."""
    if near:
        return Remedy(when=f"if {near} is meant", rows=write_renaming(label, model, near))
    capitals = ", with its facts for the words in capitals" * ("=LAYERS" in facts)
    return Remedy(when=f"join the model first{capitals}", before=facts)


def check_prompts(runs: pd.DataFrame, prompts: pd.DataFrame) -> None:
    """Raise DataError where a run names a prompt set that the table prompts does not have."""
    known = {"", *prompts["prompt_set"]}
    unheard = sorted(set(runs["prompt_set"]) - known)
    if unheard:
        raise DataError(
            "table runs refers to a prompt set that table prompts does not have",
            got=", ".join(unheard),
            next_step="join its rows of prompts first, or leave prompt_set empty",
        )


def cache_folder() -> Path | None:
    """`$THERMOSTATS_CACHE`, else the platform's cache folder; None where the variable says
    `off`."""
    chosen = os.environ.get(CACHE_VARIABLE, "")
    if chosen == OFF:
        return None
    if chosen:
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "thermostats"
    variable = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    home = os.environ.get(variable)
    return Path(home or Path.home() / ".cache") / "thermostats"


def write_cache(path: Path, content: bytes) -> str:
    """Keep a file in the cache; why it cannot be kept, empty where it is."""
    try:
        write_atomically(path, content)
    except DataError as error:
        return f"{error.where}: {error.got}"
    return ""


def warn_unkept(why: str) -> None:
    """Say that the work goes on without the cache, which cannot be written."""
    then = (
        f"what it would save is made again the next time; ${CACHE_VARIABLE} names another folder, "
        f"or says {OFF}"
    )
    print(f"the cache cannot be written ({why}), so {then}", file=sys.stderr)

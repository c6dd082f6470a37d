"""Tables for other tools: CSV or Parquet files in a separate folder, with files that describe
them."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet import read_schema

from thermostats.errors import (
    DataError,
    UsageError,
    build_unknown_error,
    describe_file_error,
    make_list,
)
from thermostats.next_steps import write_command
from thermostats.public_names import VERSION
from thermostats.tables import folders, schemas, store
from thermostats.tables.choices import check_export, of_interventions
from thermostats.tables.column_map import describe_requirement
from thermostats.tables.entries import drop_empty
from thermostats.tables.features import FEATURES, MEANING
from thermostats.tables.folders import (
    BEGINNING,
    CONFIG,
    MARK,
    PROVENANCE,
    SCHEMA,
    find_data_folder,
    find_own_folder,
    find_shipped,
    list_layers,
    list_own_files,
    read_bytes,
    write_all,
    write_atomically,
)
from thermostats.tables.frames import select_rows
from thermostats.tables.incoming import build_csv_lines
from thermostats.tables.model_rows import list_gain_pairs
from thermostats.tables.reading import features
from thermostats.tables.runs import run_id
from thermostats.tables.schemas import (
    EXTERNAL,
    FLAG,
    FLOAT,
    INTEGER,
    LOWER,
    ONE_OF,
    OURS,
    RUN_TABLES,
    TABLES,
    TEXT,
    UPPER,
    Column,
    add_later_columns,
    list_dtypes,
    list_key_columns,
    list_optional,
    list_references,
)
from thermostats.tables.sealed_runs import is_run_file


class Resource(NamedTuple):
    """Files of one table in one format and release, which have the same columns."""

    name: str
    table: str
    format: str
    paths: list[str]
    """Relative to the folder."""
    columns: list[Column]


CODEBOOK = "CODEBOOK.md"
DATAPACKAGE = "datapackage.json"
KINDS = {FLOAT: "number", INTEGER: "whole number", TEXT: "text", FLAG: "true or false"}
FIELD_TYPES = {FLOAT: "number", INTEGER: "integer", TEXT: "string", FLAG: "boolean"}
MEDIA = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
TITLE = "Residual-stream gains of transformers"
_SECOND_PARAGRAPH = str(schemas.__doc__).split("\n\n")[1]
CONVENTIONS = _SECOND_PARAGRAPH.replace("\n", " ").strip()
LICENCE = "https://opensource.org/license/mit"
RECORD = "https://doi.org/10.5281/zenodo.18165365"
SOURCE = "D'Elia 2026, preprint and result files"
JOINED = (
    "When joined: what rows that come with a mapping (or `table=` in Python) must have; without "
    "one a file has every "
    "column of its table, empty where a value may be."
)
_MEANINGS = "; ".join(f"*{name}*: {meaning}" for name, meaning in schemas.PROPERTIES.items())
PROPERTY = f"Property of: {_MEANINGS}; empty: it names, counts or describes."
CONSTRAINTS = {ONE_OF: "enum", LOWER: "minimum", UPPER: "maximum"}
"""Checks of a column that a data package has too; an exclusive bound it has not."""


def describe_folder(folder: Path) -> dict[str, bytes]:
    """What describes the tables of a folder, by file name; made from the schemas and the files that
    are there."""
    files = {}
    for name in TABLES:
        paths = folders.list_own_files(name, folder)
        files[name] = [path.relative_to(folder).as_posix() for path in paths]
    return {CODEBOOK: write_codebook().encode(), **build_tool_files(folder, files)}


def build_tool_files(folder: Path, files: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
    """The data package of tables in a folder, by file name; files: paths within it by table."""
    resources = []
    for name, paths in files.items():
        resources.extend(_list_resources(folder, name, paths))
    described = json.dumps(build_datapackage(resources), indent=1, ensure_ascii=False)
    return {DATAPACKAGE: f"{described}\n".encode()}


def describe(folder: Path) -> list[Path]:
    """Write what describes the tables of a folder where it is not current; the files written."""
    written = []
    for name, content in describe_folder(folder).items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            write_atomically(path, content)
            written.append(path)
    return written


def write_codebook() -> str:
    """The codebook as Markdown: every table and column with type, unit, meaning and key."""
    lines = [
        "# Codebook",
        "",
        "Made from `thermostats/tables/schemas.py`; `thermostats ls tables` lists the same.",
        "",
    ]
    lines += [CONVENTIONS, "", JOINED, "", PROPERTY, ""]
    for name, schema in TABLES.items():
        key = list_key_columns(name)
        keys = ", ".join(f"`{label}`" for label in key)
        sentence = _format_sentence(schema.description)
        lines += [f"## {name}", "", f"{sentence}. Key: {keys}.", ""]
        lines += [
            "| column | type | unit | property of | may be empty | when joined | meaning |",
            "|---" * 7 + "|",
        ]
        for label, declared in schema.columns.items():
            bold = f"**{label}**" if label in key else label
            empty = "yes" if declared.nullable else ""
            wanted = describe_requirement(name, label)
            lines.append(_format_row(bold, declared, empty, wanted))
        lines.append("")
    lines += ["## features", "", f"{_format_sentence(MEANING)}; `thermostats.features()`.", ""]
    lines += ["| column | type | unit | property of | meaning |", "|---" * 5 + "|"]
    for label, declared in FEATURES.items():
        lines.append(_format_row(label, declared))
    return "\n".join([*lines, ""])


def _format_row(label: str, column: Column, *more: str) -> str:
    """A row of a table of columns, its meaning last."""
    cells = (label, KINDS[column.dtype], column.unit, column.of, *more, column.description)
    return f"| {' | '.join(cells)} |"


def _format_sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _list_resources(folder: Path, table: str, paths: Sequence[str]) -> list[Resource]:
    """Resources of a table: its CSV files, those that lack a column apart, the archives of each
    release, and the Parquet files of runs."""
    formats = {path: path.rpartition(".")[2] for path in paths}
    lacking = {path: _find_lacking(table, folder / path) for path in paths}
    spare: dict[str, set[str]] = {}
    for path in paths:
        kind = formats[path]
        spare_before = spare.get(kind, lacking[path])
        spare[kind] = spare_before & lacking[path]
    by_name: dict[str, list[str]] = {}
    for path in sorted(paths, key=formats.__getitem__):
        name = table
        if formats[path] == "parquet":
            release = Path(path).stem.removeprefix(table)
            if is_run_file(Path(path)):
                release = "-runs"
            name += release or "-archive" * ("csv" in formats.values())
        elif lacks := sorted(lacking[path] - spare["csv"]):
            name += f"-without-{'-'.join(lacks)}"
        by_name.setdefault(name, []).append(path)
    resources = []
    for name, files in by_name.items():
        without = set.intersection(*(lacking[path] for path in files))
        columns = _list_columns(table, without)
        kind = formats[files[0]]
        resources.append(Resource(name, table, kind, files, columns))
    return resources


def _find_lacking(table: str, path: Path) -> set[str]:
    """Columns added to a table later that a file has not; all where it cannot be read: its reader
    says why."""
    later = set(list_optional(table))
    with suppress(OSError, ValueError), path.open("rb") as stream:
        if path.suffix == ".parquet":
            held = read_schema(stream).names
        else:
            held = stream.readline().decode().split(",")
        later.difference_update(map(str.strip, held))
    return later


def _list_columns(table: str, without: Collection[str]) -> list[Column]:
    columns: list[Column] = []
    for label, column in TABLES[table].columns.items():
        if label not in without:
            columns.append(column)
    return columns


def build_datapackage(resources: Sequence[Resource]) -> dict[str, Any]:
    """The Frictionless data package of a folder; a foreign key is looked up in one resource."""
    counted = Counter(each.table for each in resources)
    once = {name for name, count in counted.items() if count == 1}
    return {
        "profile": "tabular-data-package",
        "name": "thermostats",
        "title": TITLE,
        "description": CONVENTIONS,
        "licenses": [{"name": "MIT", "path": LICENCE}],
        "sources": [{"title": SOURCE, "path": RECORD}],
        "resources": [_describe_resource(each, once) for each in resources],
    }


def _describe_resource(of: Resource, targets: Collection[str]) -> dict[str, Any]:
    """One resource; its foreign keys are those to `targets`."""
    is_csv = of.format == "csv"
    schema: dict[str, Any] = {
        "fields": list(map(_describe_field, of.columns)),
        "primaryKey": list_key_columns(of.table),
        "missingValues": [""] if is_csv else ["", "nan"],
    }
    foreign = []
    for label, target in list_references(of.table).items():
        if target in targets:
            fields = [label, "revision"] if target == "models" else [label]
            reference = {"resource": target, "fields": fields}
            foreign.append({"fields": fields, "reference": reference})
    if foreign:
        schema["foreignKeys"] = foreign
    encoding = {"encoding": "utf-8"} if is_csv else {}
    return {
        "profile": "tabular-data-resource",
        "name": of.name,
        "description": TABLES[of.table].description,
        "path": of.paths[0] if len(of.paths) == 1 else of.paths,
        "format": of.format,
        "mediatype": MEDIA[of.format],
        **encoding,
        "schema": schema,
    }


def _describe_field(column: Column) -> dict[str, Any]:
    constraints: dict[str, Any] = {}
    for check in column.checks:
        if name := CONSTRAINTS.get(check.kind):
            bound = check.value
            constraints[name] = list(filter(None, bound)) if check.kind == ONE_OF else bound
    if not column.nullable and column.dtype != TEXT:
        constraints["required"] = True
    kind = FIELD_TYPES[column.dtype]
    field: dict[str, Any] = {"name": column.name, "type": kind, "description": column.description}
    if column.unit:
        field["unit"] = column.unit
    if column.dtype == FLAG:
        field |= {"trueValues": ["True"], "falseValues": ["False"]}
    if constraints:
        field["constraints"] = constraints
    return field


if __name__ == "__main__":
    named = sys.argv[1] if len(sys.argv) > 1 else None
    for written in describe(folders.find_data_folder(named)):
        print(written)


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
    shipped: bool = False,
) -> list[Exported]:
    """Write tables to a new or empty folder, whole or not at all.

    Of a user's folder its own rows alone, with the runs, models and prompts that they are of.
    `export("layers", "out")` is `export("out", "layers")`: what is a table's name is no folder's
    then. CSV files are described by `datapackage.json`, both formats by `CODEBOOK.md`. Texts of
    prompts that may not be shipped are left out.

    Parameters
    ----------
    out : str or Path
        The folder.
    tables : str or sequence of str
        One name or several; without any all tables that have rows.
    data : str or Path
        A user's folder; without one the package's tables.
    format : str
        `csv` or `parquet`.
    partition : str
        A column, such as model_id, by whose values Parquet files lie in folders `column=value/`;
        tables of runs have the columns of their runs for it.
    shipped : bool
        Write the package's rows together with those of a user's folder.

    Returns
    -------
    list of Exported
        Name, number of rows and path of each table.

    Raises
    ------
    UsageError
        For an unknown table, format or column, or a folder that is not empty.

    Examples
    --------
    >>> import thermostats
    >>> for each in thermostats.export("out", ["lineage", "models"]):
    ...     print(each.table, each.path.name)
    lineage lineage.csv
    models models.csv
    """
    if out in TABLES and isinstance(tables, (str, Path)) and tables not in TABLES:
        out, tables = tables, str(out)
    if not isinstance(out, (str, Path)):
        raise UsageError(
            "give the path of the folder to export to", got=repr(out)[:60], allowed="text or a path"
        )
    folder = Path(out)
    wanted = make_list(tables, "tables")
    check_export(folder, wanted, format, partition)
    chosen = wanted if wanted is not None else list(TABLES)
    columns = set[str]().union(*(table.columns for table in TABLES.values()))
    if partition is not None and partition not in columns:
        raise build_unknown_error("no such column to partition by", partition, sorted(columns))
    runs = store.load("runs", data) if partition else None
    counts: dict[str, int] = {}
    paths: dict[str, Path] = {}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
            staged = Path(temporary) / "new"
            staged.mkdir()
            for name, pieces in _load_tables(chosen, data, shipped=shipped):
                if pieces.rows or wanted is not None:
                    counts[name] = pieces.rows
                    paths[name] = _write(pieces, name, staged, format, partition, runs)
            (staged / CODEBOOK).write_text(write_codebook(), encoding="utf-8")
            if format == "csv":
                files = {name: [path.name] for name, path in paths.items()}
                for name, content in build_tool_files(staged, files).items():
                    (staged / name).write_bytes(content)
            if folder.is_dir():
                folder.rmdir()
            shutil.move(staged, folder)
    except OSError as error:
        raise DataError(
            "cannot export; nothing was written",
            where=folder,
            got=describe_file_error(error),
            next_step="free space or choose a folder that can be written",
        ) from error
    exported: list[Exported] = []
    for name in chosen:
        if name in paths:
            place = folder / paths[name].name
            exported.append(Exported(name, counts[name], place))
    return exported


REFERRED = {"runs": "run_id", "models": "model_id", "prompts": "prompt_set"}
"""Tables that rows of others are of, in the order in which they are looked up, and by what."""


def _load_tables(
    names: Sequence[str], data: str | Path | None, *, shipped: bool
) -> Iterator[tuple[str, store.Pieces]]:
    """Tables with their rows: of a user's folder its own and those of `REFERRED` that they are of,
    which come last; all rows where there is no such folder, or where those `shipped` are asked
    for."""
    if shipped or find_data_folder(data) == find_shipped("data"):
        for name in names:
            yield name, store.load_pieces(name, data)
        return
    ids = set[str]()
    for name in names:
        if name not in REFERRED:
            pieces = store.load_pieces(name, data, shipped=False)
            yield name, pieces._replace(frames=_note_runs(pieces.frames, ids))
    runs = _choose_rows("runs", data, ids)
    for name in names:
        if name in REFERRED:
            chosen = runs
            if name != "runs":
                referred = set(runs[REFERRED[name]])
                chosen = _choose_rows(name, data, referred)
            columns = store.load_pieces(name, data).columns
            pieces = store.Pieces(len(chosen), columns, iter([chosen]))
            yield name, pieces


def _note_runs(frames: Iterator[pd.DataFrame], ids: set[str]) -> Iterator[pd.DataFrame]:
    """The same frames; the runs that their rows are of are added to `ids`."""
    for frame in frames:
        if "run_id" in frame:
            ids.update(frame["run_id"].unique())
        yield frame


def _choose_rows(name: str, data: str | Path | None, wanted: set[str]) -> pd.DataFrame:
    """A user's own rows of a table, and those that ship whose key in `REFERRED` is wanted."""
    both = pd.concat(store.load_pieces(name, data).frames, ignore_index=True)
    keys = list_key_columns(name)
    own = pd.concat(store.load_pieces(name, data, shipped=False).frames, ignore_index=True)
    own_keys = pd.MultiIndex.from_frame(own[keys])
    is_own = pd.MultiIndex.from_frame(both[keys]).isin(own_keys)
    is_wanted = both[REFERRED[name]].isin(wanted)
    return both[is_own | is_wanted].reset_index(drop=True)


def _write(
    pieces: store.Pieces,
    name: str,
    folder: Path,
    format_: str,
    partition: str | None,
    runs: pd.DataFrame | None,
) -> Path:
    path = folder / f"{name}.{format_}"
    if format_ == "csv":
        with path.open("wb") as stream:
            for number, frame in enumerate(pieces.frames):
                lines = build_csv_lines(frame[pieces.columns], name)
                rows = lines.body if number else lines.pack_rows(0, len(frame))
                stream.write(rows)
        return path
    if partition is None:
        tables = (_build_table(frame, name) for frame in pieces.frames)
        first = next(tables)
        with pq.ParquetWriter(path, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table)
        return path
    frame = pd.concat(pieces.frames, ignore_index=True)
    if runs is not None and partition in runs and partition not in frame and "run_id" in frame:
        frame = frame.merge(runs[["run_id", partition]], on="run_id", how="left")
    if partition not in frame:
        pq.write_table(_build_table(frame, name), path)
        return path
    pq.write_to_dataset(
        _build_table(frame, name),
        folder / name,
        partition_cols=[partition],
        basename_template="part-{i}.parquet",
    )
    return folder / name


def _build_table(frame: pd.DataFrame, name: str) -> pa.Table:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return table.replace_schema_metadata({"table": name})


FILE, LICENCE_FILE = PROVENANCE, "LICENSE"
"""Next to the tables of a source: where they come from, and the text of their licence."""


@dataclass(frozen=True)
class Source:
    """Whose figures, from where and on what terms."""

    name: str
    """Folder of its files, and what its rows are called in the column `source`."""
    title: str
    address: str
    commit: str
    licence: str
    """SPDX identifier."""
    licence_file: str = LICENCE_FILE
    """File among its own that holds the licence; empty: it has none, and `licence_by` says who
    states it."""
    licence_by: str = ""
    left_out: str = ""
    """What of its files is not taken, and why."""

    def toml(self) -> bytes:
        """The record as TOML; a JSON string is a basic string of TOML."""
        lines = []
        for name, text in asdict(self).items():
            written = json.dumps(text, ensure_ascii=False)
            lines.append(f"{name} = {written}\n")
        return "".join(lines).encode()

    def statement(self) -> bytes:
        """In the place of a licence's text: who states it, and where."""
        place = f"{self.address}, {self.commit}"
        return f"{self.licence} by {self.licence_by}: {place}.\n".encode()


def read_source(path: Path) -> Source:
    """The record of a file `source.toml`.

    Raises DataError where it cannot be read, lacks an entry or has one that no source has.
    """
    try:
        content = read_bytes(path, CONFIG).decode()
        stated: Mapping[str, object] = tomllib.loads(content)
    except OSError as error:
        raise DataError(
            "a source does not say where it comes from", where=path, got=describe_file_error(error)
        ) from error
    except ValueError as error:
        raise DataError(
            "what says where rows come from is no TOML", where=path, got=str(error)
        ) from error
    allowed = [field.name for field in fields(Source)]
    texts = {}
    for name, text in stated.items():
        if name not in allowed or not isinstance(text, str):
            raise DataError(
                "not an entry of a source",
                where=path,
                got=f"{name} = {text!r}",
                allowed=f"texts: {', '.join(allowed)}",
            )
        texts[name] = text
    try:
        return Source(**texts)
    except TypeError as error:
        lacking = ", ".join(name for name in allowed[:5] if name not in stated)
        raise DataError(
            "a source lacks entries", where=path, got=f"no {lacking}", next_step="add them"
        ) from error


def list_sources(data: str | Path | None = None) -> list[Source]:
    """The external sources of a data folder that say where they come from, by name."""
    places: list[Path] = []
    for folder in list_layers(find_data_folder(data)):
        places.extend((folder / EXTERNAL).glob(f"*/{FILE}"))
    return sorted(map(read_source, places), key=lambda source: source.name)


CHECKS = "CHECKS.md"
"""What was checked, for the reader who reviews a contribution."""
SOURCE_FORM = """\
# Whose rows a contribution holds, and on what terms. Fill in what is empty, then run the same command again.
# name: the source of the rows, as `thermostats ls runs --own` lists it; for measurements of this package a new name.
# licence: one that lets figures be passed on: {permitted}.
# licence_by: who gives it, such as your name; or licence_file, a file next to this one that holds its text.
# address and commit: where the figures are published, and in which state.
# left_out: what of them is not among the rows, and why.
"""  # noqa: E501
NEEDED = ("name", "title", "address", "licence")
"""Entries that may not be empty."""


def contribute(out: str | Path, *, data: str | Path | None = None) -> list[Exported]:
    """Write the rows of one source of a user's folder as `data/external` holds others' rows.

    They go to `out`/<name>/. `source.toml` in the user's folder says whose they are; where it is
    missing a first one is written, to be filled in. The tables come with `source.toml`, LICENSE and
    CHECKS.md. Runs become external ones with ids that follow; texts of prompts are left out, their
    hashes stay. Models that the package lacks come with their rows. What is written was read back
    as a part of `data/external` and checked as `thermostats check` does.

    Parameters
    ----------
    out : str or Path
        A new or empty folder.
    data : str or Path
        The user's folder; by default the one that `THERMOSTATS_DATA` names.

    Returns
    -------
    list of Exported
        Name, number of rows and path of each table.

    Raises
    ------
    UsageError
        For a folder that is not empty, provenance that is not stated, a licence that does not let
        figures be passed on and a source without own rows.
    DataError
        For rows under another licence, and as `check` does.

    Examples
    --------
    The first call writes what is to be filled in:

    >>> import pandas as pd
    >>> import thermostats
    >>> gains = pd.DataFrame({"layer": [11, 12], "prompt_id": "a", "gain_block": [1.31, 1.12]})
    >>> stated = {"position": "last", "model_id": "EleutherAI/pythia-160m", "source": "my hooks"}
    >>> _ = thermostats.join(gains, mapping={"table": "layers", "constants": stated}, data="mine")
    >>> try:
    ...     thermostats.contribute("given", data="mine")
    ... except thermostats.errors.UsageError as error:
    ...     print(str(error).split(";")[0])
    nothing says whose rows these are
    """
    folder = find_data_folder(find_own_folder(data))
    place = Path(out)
    check_export(place, None, "csv", None)
    source = _read_source(folder)
    tables = _collect_tables(folder, source)
    contents = {}
    for name, rows in tables.items():
        contents[f"{name}.csv"] = store.encode_csv(rows, name)
    contents[LICENCE_FILE] = _read_licence(source, folder)
    contents[FILE] = replace(
        source, licence_file=LICENCE_FILE if source.licence_file else ""
    ).toml()
    contents[CHECKS] = _check_contribution(source, tables, contents)
    of_source = place / source.name
    write_all(place, {of_source / name: content for name, content in contents.items()})
    contributed: list[Exported] = []
    for name, rows in tables.items():
        contributed.append(Exported(name, len(rows), of_source / f"{name}.csv"))
    return contributed


def _read_source(folder: Path) -> Source:
    """What the user says of the rows; where nothing is said a file to be filled in is written."""
    path = folder / FILE
    again = write_command("export", "contribution", data=folder)
    runs = _read_own_rows("runs", folder)
    if not path.is_file():
        begun = Source(
            _read_single_label(runs["source"]),
            title="",
            address="",
            commit="",
            licence=_read_single_label(runs["licence"]),
            licence_file="",
        )
        permitted = ", ".join(store.PERMITTED)
        form = SOURCE_FORM.format(permitted=permitted)
        write_all(folder, {path: form.encode() + begun.toml()})
        step = f"fill it in, then {again}"
        raise UsageError(
            "nothing says whose rows these are; a file that asks was written",
            where=path,
            next_step=step,
        )
    source = read_source(path)
    stated = {*drop_empty(asdict(source)), "licence"}  # which is checked below
    if empty := [name for name in NEEDED if name not in stated]:
        raise UsageError(
            "a contribution says whose it is",
            where=path,
            got=f"no {', '.join(empty)}",
            next_step=again,
        )
    if source.name != Path(source.name).name:
        raise UsageError(
            "the name is that of a folder", where=path, got=repr(source.name), next_step=again
        )
    try:
        store.check_licence(source.licence, path)
    except UsageError as error:
        raise error.replace_next_step(
            f"state in {path} the licence that you give, then {again}"
        ) from None
    return source


def _read_single_label(labels: pd.Series) -> str:
    """The label of rows that have one; empty where they have several, or ours alone."""
    others = set(labels) - {OURS, ""}
    return str(others.pop()) if len(others) == 1 else ""


def _read_own_rows(name: str, folder: Path) -> pd.DataFrame:
    """The user's own rows of a table."""
    held = []
    for path in list_own_files(name, folder):
        rows = store.read_typed(path, name)
        held.append(add_later_columns(rows, name))
    if not held:
        return pd.DataFrame(columns=list(list_dtypes(name)))
    return pd.concat(held, ignore_index=True)


def _collect_tables(folder: Path, source: Source) -> dict[str, pd.DataFrame]:
    """Rows of the source by table, under the ids of external runs; those of prompts and models that
    are not shipped."""
    runs = _rename_runs(folder, source)
    ids = dict(zip(runs.pop("was"), runs["run_id"], strict=True))
    tables = {"runs": runs}
    for name in RUN_TABLES:
        rows = _read_own_rows(name, folder)
        rows = select_rows(rows, run_id=ids)
        tables[name] = rows.assign(run_id=rows["run_id"].map(ids))
    prompts = _read_own_rows("prompts", folder)
    models = _read_own_rows("models", folder)
    of_sets = prompts["prompt_set"].isin(runs["prompt_set"])
    tables["prompts"] = prompts[of_sets].assign(text="")
    there = store.load("models", find_shipped("data"))["model_id"]
    new = set(runs["model_id"]).difference(there)
    tables["models"] = select_rows(models, model_id=new)
    checked = {}
    for name, rows in tables.items():
        if len(rows):
            checked[name] = store.validate(rows, name)
    return checked


def _rename_runs(folder: Path, source: Source) -> pd.DataFrame:
    """Runs of the source as external ones, those that changed a model left out; `was`: their ids
    before."""
    runs = _read_own_rows("runs", folder)
    runs = runs[~of_interventions(runs)]
    path = folder / FILE
    held = sorted(set(runs["source"]))
    called = source.name if source.name in held else OURS
    chosen = select_rows(runs, source=called)
    if chosen.empty:
        step = write_command("ls", "runs", own=True, data=folder)
        what = "no own rows of this source"
        allowed = ", ".join(held)
        raise UsageError(what, where=path, got=source.name, allowed=allowed, next_step=step)
    if other := sorted(set(chosen["licence"]) - {"", source.licence}):
        what = "rows are under another licence"
        raise DataError(what, where=path, got=other[0], allowed=source.licence)
    versions = chosen["measure_version"].where(chosen["source"] == OURS)
    usual = ("thermostats, measurement " + versions).fillna("unstated")
    instrument = chosen["instrument"].where(chosen["instrument"] != "", usual)
    chosen = chosen.assign(was=chosen["run_id"], source=source.name, measure_version=EXTERNAL)
    chosen = chosen.assign(licence=source.licence, instrument=instrument)
    return chosen.assign(run_id=[run_id(row) for row in chosen.to_dict("records")])


def _read_licence(source: Source, folder: Path) -> bytes:
    """The text of the licence, or who gives it; UsageError where neither is stated."""
    if not source.licence_file and source.licence_by:
        return source.statement()
    try:
        return (folder / source.licence_file).read_bytes()
    except OSError as error:
        allowed = (
            "licence_file, a file next to it with the text, or licence_by, who gives the licence"
        )
        got = f"licence_file = {source.licence_file!r}, {describe_file_error(error)}"
        what = "nobody is named who gives the licence"
        raise UsageError(what, where=folder / FILE, got=got, allowed=allowed) from error


def _check_contribution(
    source: Source, tables: Mapping[str, pd.DataFrame], contents: Mapping[str, bytes]
) -> bytes:
    """What a reviewer is to know: the rows, read back as a part of `data/external`, next to others'
    of these models."""
    with tempfile.TemporaryDirectory() as temporary:
        store_of_it = Path(temporary)
        mark = BEGINNING.format(version=VERSION, schema=SCHEMA).encode()
        place = store_of_it / EXTERNAL / source.name
        files_of_it = {place / name: text for name, text in contents.items()}
        write_all(store_of_it, {store_of_it / MARK: mark, **files_of_it})
        store.check(store_of_it)
        rows = features(store_of_it, every=True)
        files = set(store.load("sources", store_of_it)["file"])
    measured = select_rows(rows, model_id=tables["runs"]["model_id"])
    pairs = list_gain_pairs(measured, files)
    is_source = pairs[["first", "second"]].eq(source.name)
    pairs = pairs[is_source.any(axis=1)]
    return "\n".join(_format_lines(source, tables, pairs)).encode()


def _format_lines(
    source: Source, tables: Mapping[str, pd.DataFrame], pairs: pd.DataFrame
) -> list[str]:
    counts = []
    for name, rows in tables.items():
        counts.append(f"- {len(rows)} rows of {name}")
    new = [f"- {model}" for model in tables["models"]["model_id"]] if "models" in tables else []
    whose = f"{source.title}. {source.address}; licence {source.licence}."
    lines = [f"# {source.name}", "", whose, ""]
    lines += [
        f"Read back and checked by thermostats {VERSION} as a part of data/external:",
        "",
        *counts,
    ]
    lines += (
        ["", "Models that the package lacks, to be held against their configurations:", "", *new]
        if new
        else []
    )
    lines += ["", "Gains at the last token that others measured of the same models:", ""]
    for pair in pairs.to_dict("records"):
        first = f"{pair['first_gain']:.4g} by {pair['first']}"
        second = f"{pair['second_gain']:.4g} by {pair['second']}"
        lines.append(f"- {pair['model_id']}, {pair['gain']}: {first}, {second}")
    return [*lines, *["- none"] * pairs.empty, ""]

"""What describes tables for people and other tools, made from the schemas: codebook and data package.

`python -m thermostats.tables.describe data` writes them into the package's own data folder when that has changed. A
data package (https://datapackage.org/standard/data-package/, version 1 as frictionless reads it) knows one format a
and one set of columns a resource, so the archives of a table with CSV files are a resource of their own,
`<table>-archive`, and so are CSV files from before a column was added, `runs-without-licence`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow.parquet import read_schema

from thermostats.tables import folders, schemas
from thermostats.tables.column_map import when_joined
from thermostats.tables.features import FEATURES, MEANING
from thermostats.tables.folders import write_atomically
from thermostats.tables.schemas import (
    FLAG,
    FLOAT,
    INTEGER,
    LOWER,
    ONE_OF,
    TABLES,
    TEXT,
    UPPER,
    Column,
    absent,
    key,
    references,
)


class Resource(NamedTuple):
    """Files of one table in one format and release, which have the same columns."""

    name: str
    table: str
    format: str
    paths: list[str]
    """Relative to the folder."""
    columns: list[Column]


CODEBOOK, DATAPACKAGE = "CODEBOOK.md", "datapackage.json"
KINDS = {FLOAT: "number", INTEGER: "whole number", TEXT: "text", FLAG: "true or false"}
FIELD_TYPES = {FLOAT: "number", INTEGER: "integer", TEXT: "string", FLAG: "boolean"}
MEDIA = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
TITLE = "Residual-stream gains of transformers"
CONVENTIONS = str(schemas.__doc__).split("\n\n")[1].replace("\n", " ").strip()
LICENCE = "https://opensource.org/license/mit"
RECORD = "https://doi.org/10.5281/zenodo.18165365"
SOURCE = "D'Elia 2026, preprint and result files"
JOINED = (
    "When joined: what rows that come with a mapping (or `table=` in Python) must have; without one a file has every "
    "column of its table, empty where a value may be."
)
PROPERTY = (
    f"Property of: {'; '.join(f'*{name}*: {meaning}' for name, meaning in schemas.PROPERTIES.items())}; "
    "empty: it names, counts or describes."
)
CONSTRAINTS = {ONE_OF: "enum", LOWER: "minimum", UPPER: "maximum"}
"""Checks of a column that a data package has too; an exclusive bound it has not."""


def descriptions(folder: Path) -> dict[str, bytes]:
    """What describes the tables of a folder, by file name; made from the schemas and the files that are there."""
    files = {name: [path.relative_to(folder).as_posix() for path in folders.own_files(name, folder)] for name in TABLES}
    return {CODEBOOK: codebook().encode(), **for_tools(folder, files)}


def for_tools(folder: Path, files: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
    """The data package of tables in a folder, by file name; files: paths within it by table."""
    resources = [each for name, paths in files.items() for each in _resources(folder, name, paths)]
    return {DATAPACKAGE: f"{json.dumps(datapackage(resources), indent=1, ensure_ascii=False)}\n".encode()}


def describe(folder: Path) -> list[Path]:
    """Write what describes the tables of a folder where it is not current; the files written."""
    written = []
    for name, content in descriptions(folder).items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            write_atomically(path, content)
            written.append(path)
    return written


def codebook() -> str:
    """The codebook as Markdown: every table and column with type, unit, meaning and key."""
    lines = ["# Codebook", "", "Made from `thermostats/tables/schemas.py`; `thermostats ls tables` lists the same.", ""]
    lines += [CONVENTIONS, "", JOINED, "", PROPERTY, ""]
    for name, schema in TABLES.items():
        keys = ", ".join(f"`{label}`" for label in key(name))
        lines += [f"## {name}", "", f"{_sentence(schema.description)}. Key: {keys}.", ""]
        lines += ["| column | type | unit | property of | may be empty | when joined | meaning |", "|---" * 7 + "|"]
        for label, declared in schema.columns.items():
            bold = f"**{label}**" if label in key(name) else label
            kind, unit = KINDS[declared.dtype], declared.unit
            cells = (bold, kind, unit, declared.of, "yes" if declared.nullable else "", when_joined(name, label))
            lines.append(f"| {' | '.join(cells)} | {declared.description} |")
        lines.append("")
    lines += ["## features", "", f"{_sentence(MEANING)}; `thermostats.features()`.", ""]
    lines += ["| column | type | unit | property of | meaning |", "|---" * 5 + "|"]
    rows = ((x, KINDS[each.dtype], each.unit, each.of, each.description) for x, each in FEATURES.items())
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, ""])


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _resources(folder: Path, table: str, paths: Sequence[str]) -> list[Resource]:
    """Resources of a table: its CSV files, those that lack a column apart, and the archives of each release."""
    formats = {path: path.rpartition(".")[2] for path in paths}
    lacking = {path: _lacking(table, folder / path) for path in paths}
    spare = {kind: set.intersection(*(lacking[x] for x in paths if formats[x] == kind)) for kind in formats.values()}
    by_name: dict[str, list[str]] = {}
    for path in sorted(paths, key=formats.__getitem__):
        name = table
        if formats[path] == "parquet":
            release = Path(path).stem.removeprefix(table)
            name += release or "-archive" * ("csv" in formats.values())
        elif lacks := sorted(lacking[path] - spare["csv"]):
            name += f"-without-{'-'.join(lacks)}"
        by_name.setdefault(name, []).append(path)
    return [
        Resource(name, table, formats[files[0]], files, _columns(table, set.intersection(*(lacking[x] for x in files))))
        for name, files in by_name.items()
    ]


def _lacking(table: str, path: Path) -> set[str]:
    """Columns added to a table later that a file has not; all where it cannot be read: its reader says why."""
    later = set(absent(table))
    with suppress(OSError, ValueError), path.open("rb") as stream:
        held = read_schema(stream).names if path.suffix == ".parquet" else stream.readline().decode().split(",")
        later -= {label.strip() for label in held}
    return later


def _columns(table: str, without: Collection[str]) -> list[Column]:
    return [column for label, column in TABLES[table].columns.items() if label not in without]


def datapackage(resources: Sequence[Resource]) -> dict[str, Any]:
    """The Frictionless data package of a folder; a foreign key is looked up in one resource."""
    tables = [each.table for each in resources]
    return {
        "profile": "tabular-data-package",
        "name": "thermostats",
        "title": TITLE,
        "description": CONVENTIONS,
        "licenses": [{"name": "MIT", "path": LICENCE}],
        "sources": [{"title": SOURCE, "path": RECORD}],
        "resources": [_resource(each, {name for name in tables if tables.count(name) == 1}) for each in resources],
    }


def _resource(of: Resource, targets: Collection[str]) -> dict[str, Any]:
    """One resource; its foreign keys are those to `targets`."""
    schema: dict[str, Any] = {
        "fields": [_field(column) for column in of.columns],
        "primaryKey": key(of.table),
        "missingValues": [""] if of.format == "csv" else ["", "nan"],
    }
    foreign = [
        {"fields": fields, "reference": {"resource": target, "fields": fields}}
        for label, target in references(of.table).items()
        if target in targets
        for fields in [[label, "revision"] if target == "models" else [label]]
    ]
    return {
        "profile": "tabular-data-resource",
        "name": of.name,
        "description": TABLES[of.table].description,
        "path": of.paths[0] if len(of.paths) == 1 else of.paths,
        "format": of.format,
        "mediatype": MEDIA[of.format],
        **({"encoding": "utf-8"} if of.format == "csv" else {}),
        "schema": schema | ({"foreignKeys": foreign} if foreign else {}),
    }


def _field(column: Column) -> dict[str, Any]:
    constraints: dict[str, Any] = {}
    for check in column.checks:
        if name := CONSTRAINTS.get(check.kind):
            constraints[name] = [v for v in check.value if v != ""] if check.kind == ONE_OF else check.value
    if not column.nullable and column.dtype != TEXT:
        constraints["required"] = True
    field: dict[str, Any] = {"name": column.name, "type": FIELD_TYPES[column.dtype], "description": column.description}
    field |= {"unit": column.unit} if column.unit else {}
    field |= {"trueValues": ["True"], "falseValues": ["False"]} if column.dtype == FLAG else {}
    return field | ({"constraints": constraints} if constraints else {})


if __name__ == "__main__":
    for written in describe(folders.data_folder(sys.argv[1] if len(sys.argv) > 1 else None)):
        print(written)

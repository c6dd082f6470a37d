"""What describes tables for people and other tools, made from the schemas: codebook, data package, Croissant.

`python -m thermostats.tables.describe data` writes them into the package's own data folder when that has changed. A
data package (https://datapackage.org/standard/data-package/, version 1 as frictionless reads it) and a Croissant file
(https://docs.mlcommons.org/croissant/docs/croissant-spec-1.0.html) know one format a resource, so the archives of a
table with CSV files are a resource of their own, `<table>-archive`. References between tables stand in the data package
alone: a reader of Croissant would join tables by them and drop rows.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyarrow.parquet import read_schema

import thermostats
from thermostats.tables import folders, schemas
from thermostats.tables.atomic import write_atomically
from thermostats.tables.feature_columns import MEANING, feature_columns
from thermostats.tables.join_columns import when_joined
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

Files = Mapping[str, Sequence[str]]
"""Paths within a folder by table."""
Resource = tuple[str, str, list[str]]
"""Table, format and paths."""
CODEBOOK, DATAPACKAGE, CROISSANT = "CODEBOOK.md", "datapackage.json", "croissant.json"
KINDS = {FLOAT: "number", INTEGER: "whole number", TEXT: "text", FLAG: "true or false"}
FIELD_TYPES = {FLOAT: "number", INTEGER: "integer", TEXT: "string", FLAG: "boolean"}
SCHEMA_ORG = {FLOAT: "sc:Float", INTEGER: "sc:Integer", TEXT: "sc:Text", FLAG: "sc:Boolean"}
MEDIA = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
TITLE = "Residual-stream gains of transformers"
CONVENTIONS = str(schemas.__doc__).split("\n\n")[1].replace("\n", " ").strip()
LICENCE = "https://opensource.org/license/mit"
RECORD = "https://doi.org/10.5281/zenodo.18165365"
SOURCE = "D'Elia 2026, preprint and result files"
PUBLISHED = "2026-11-21"
CITE = (
    "@misc{delia2026thermodynamic, author={D'Elia, Davide}, title={Thermodynamic Constraints in Transformer "
    "Architectures: A Sheaf-Theoretic Perspective}, year={2026}, doi={10.5281/zenodo.18165365}}"
)
JOINED = (
    "When joined: what rows that come with a mapping (or `table=` in Python) must have; without one a file has every "
    "column of its table, empty where a value may be."
)
CONSTRAINTS = {ONE_OF: "enum", LOWER: "minimum", UPPER: "maximum"}
"""Checks of a column that a data package has too; an exclusive bound it has not."""
OWN = """
citeAs column conformsTo cr data dataType dct equivalentProperty examples extract field fileObject fileProperty fileSet
format includes isLiveDataset jsonPath key md5 parentField path rai recordSet references regex repeated replace
samplingRate sc separator source subField transform
"""
CONTEXT = (
    {"@language": "en", "@vocab": "https://schema.org/"}
    | {name: f"cr:{name}" for name in OWN.split()}
    | {
        "conformsTo": "dct:conformsTo",
        "cr": "http://mlcommons.org/croissant/",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "dct": "http://purl.org/dc/terms/",
        "examples": {"@id": "cr:examples", "@type": "@json"},
        "rai": "http://mlcommons.org/croissant/RAI/",
        "sc": "https://schema.org/",
    }
)
"""The context that the specification of Croissant gives."""


def descriptions(folder: Path) -> dict[str, bytes]:
    """What describes the tables of a folder, by file name; made from the schemas and the files that are there."""
    files = {name: [path.relative_to(folder).as_posix() for path in folders.own_files(name, folder)] for name in TABLES}
    return {CODEBOOK: codebook().encode(), **for_tools(folder, files)}


def for_tools(folder: Path, files: Files) -> dict[str, bytes]:
    """Data package and Croissant description of tables in a folder, by file name."""
    described = {DATAPACKAGE: datapackage(files, folder), CROISSANT: croissant(folder, files)}
    return {name: f"{json.dumps(each, indent=1, ensure_ascii=False)}\n".encode() for name, each in described.items()}


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
    lines += [CONVENTIONS, "", JOINED, ""]
    for name, schema in TABLES.items():
        keys = ", ".join(f"`{label}`" for label in key(name))
        lines += [f"## {name}", "", f"{_sentence(schema.description)}. Key: {keys}.", ""]
        lines += ["| column | type | unit | may be empty | when joined | meaning |", "|---|---|---|---|---|---|"]
        for label, declared in schema.columns.items():
            bold = f"**{label}**" if label in key(name) else label
            kind, unit = KINDS[declared.dtype], declared.unit
            cells = (bold, kind, unit, "yes" if declared.nullable else "", when_joined(name, label))
            lines.append(f"| {' | '.join(cells)} | {declared.description} |")
        lines.append("")
    lines += ["## features", "", f"{_sentence(MEANING)}; `thermostats.features()`.", ""]
    lines += ["| column | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| {each.column} | {KINDS[each.type]} | {each.unit} | {each.meaning} |" for each in feature_columns()]
    return "\n".join([*lines, ""])


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _resources(files: Files) -> dict[str, Resource]:
    """Resources by name: one for each table, format and release, of which each has columns of its own."""
    found: dict[str, Resource] = {}
    for name, paths in files.items():
        formats = sorted({path.rsplit(".", 1)[-1] for path in paths})
        for path in sorted(paths, key=lambda path: path.rsplit(".", 1)[-1]):
            stem, _, format_ = path.rpartition("/")[2].rpartition(".")
            release = stem.removeprefix(name) if format_ == "parquet" else ""
            base = f"{name}-archive" if len(formats) > 1 and format_ == "parquet" else name
            found.setdefault(f"{name}{release}" if release else base, (name, format_, []))[2].append(path)
    return found


def _columns(name: str, paths: Sequence[str], folder: Path | None) -> list[Column]:
    """Columns of a table that its files have: those that were added later are not in all."""
    spare = set(absent(name))
    found = [folder / path for path in paths] if folder is not None and spare else []
    for path in filter(Path.is_file, found):
        with suppress(ValueError), path.open("rb") as stream:  # what is damaged is said by what reads it whole
            held = read_schema(stream).names if path.suffix == ".parquet" else stream.readline().decode().split(",")
            spare -= {label.strip() for label in held}
    return [column for label, column in TABLES[name].columns.items() if label not in spare]


def datapackage(files: Files, folder: Path | None = None) -> dict[str, Any]:
    """The Frictionless data package of a folder."""
    resources = _resources(files)
    in_one = {
        name for name in files if sum(name == of for of, _, _ in resources.values()) < 2
    }  # a key is looked up in one resource
    return {
        "profile": "tabular-data-package",
        "name": "thermostats",
        "title": TITLE,
        "description": CONVENTIONS,
        "licenses": [{"name": "MIT", "path": LICENCE}],
        "sources": [{"title": SOURCE, "path": RECORD}],
        "resources": [_resource(name, resource, in_one, folder) for name, resource in resources.items()],
    }


def _resource(label: str, resource: Resource, targets: Collection[str], folder: Path | None) -> dict[str, Any]:
    """One resource; its foreign keys are those to `targets`."""
    name, format_, paths = resource
    schema: dict[str, Any] = {
        "fields": [_field(column) for column in _columns(name, paths, folder)],
        "primaryKey": key(name),
        "missingValues": [""] if format_ == "csv" else ["", "nan"],
    }
    referred = {
        target: [column, "revision"] if target == "models" else [column]
        for column, target in references(name).items()
        if target in targets
    }
    if referred:
        schema["foreignKeys"] = [
            {"fields": fields, "reference": {"resource": target, "fields": fields}}
            for target, fields in referred.items()
        ]
    return {
        "profile": "tabular-data-resource",
        "name": label,
        "description": TABLES[name].description,
        "path": paths[0] if len(paths) == 1 else paths,
        "format": format_,
        "mediatype": MEDIA[format_],
        **({"encoding": "utf-8"} if format_ == "csv" else {}),
        "schema": schema,
    }


def _field(column: Column) -> dict[str, Any]:
    dtype, unit = column.dtype, column.unit
    constraints: dict[str, Any] = {}
    for check in column.checks:
        if name := CONSTRAINTS.get(check.kind):
            constraints[name] = [v for v in check.value if v != ""] if check.kind == ONE_OF else check.value
    if not column.nullable and dtype != TEXT:
        constraints["required"] = True
    field: dict[str, Any] = {"name": column.name, "type": FIELD_TYPES[dtype], "description": column.description}
    field |= {"unit": unit} if unit else {}
    field |= {"trueValues": ["True"], "falseValues": ["False"]} if dtype == FLAG else {}
    return field | ({"constraints": constraints} if constraints else {})


def croissant(folder: Path, files: Files) -> dict[str, Any]:
    """The Croissant description (JSON-LD) of tables in a folder; several files of one table are one FileSet."""
    resources = _resources(files)
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": "thermostats",
        "description": f"{TITLE}. {CONVENTIONS}",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "license": LICENCE,
        "url": RECORD,
        "version": thermostats.__version__,
        "datePublished": PUBLISHED,
        "citeAs": CITE,
        "distribution": [_distribution(folder, name, resource) for name, resource in resources.items()],
        "recordSet": [_record_set(name, resource, folder) for name, resource in resources.items()],
    }


def _distribution(folder: Path, label: str, resource: Resource) -> dict[str, Any]:
    """The file of a resource, or where there are several the set of them, relative to the description."""
    name, format_, paths = resource
    if len(paths) > 1:
        runs = f"measured/{name}/"
        patterns = dict.fromkeys(f"{runs}*.csv" if path.startswith(runs) else path for path in paths)
        named = {"@type": "cr:FileSet", "@id": f"files-{label}", "name": f"files-{label}"}
        return {**named, "encodingFormat": MEDIA[format_], "includes": list(patterns)}
    [path] = paths
    return {
        "@type": "cr:FileObject",
        "@id": path,
        "name": path.replace("/", "-"),
        "contentUrl": path,
        "encodingFormat": MEDIA[format_],
        "sha256": hashlib.sha256((folder / path).read_bytes()).hexdigest(),
    }


def _record_set(label: str, resource: Resource, folder: Path) -> dict[str, Any]:
    name, _, paths = resource
    source = {"fileSet": {"@id": f"files-{label}"}} if len(paths) > 1 else {"fileObject": {"@id": paths[0]}}
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{label}/{column.name}",
            "name": column.name,
            "description": column.description + f" ({column.unit})" * bool(column.unit),
            "dataType": SCHEMA_ORG[column.dtype],
            "source": {**source, "extract": {"column": column.name}},
        }
        for column in _columns(name, paths, folder)
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": label,
        "name": label,
        "description": TABLES[name].description,
        "key": [{"@id": f"{label}/{column}"} for column in key(name)],
        "field": fields,
    }


if __name__ == "__main__":
    for written in describe(folders.data_folder(sys.argv[1] if len(sys.argv) > 1 else None)):
        print(written)

"""What describes tables for people and other tools, made from the schemas: codebook, data package, Croissant.

`python -m thermostats.tables.describe data` writes them into the package's own data folder when that has changed. A
data package (https://datapackage.org/standard/data-package/, version 1 as the library frictionless reads it) and a
Croissant file (https://docs.mlcommons.org/croissant/docs/croissant-spec-1.0.html) know one format a resource, so the
archives of a table with CSV files are a resource of their own, `<table>-archive`. What refers to what stands in the
data package alone: a reader of Croissant would join tables by it and drop rows.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import thermostats
from thermostats.tables import folders, schemas
from thermostats.tables.atomic import write_atomically
from thermostats.tables.declare import FLAG, FLOAT, INTEGER, TEXT
from thermostats.tables.feature_columns import MEANING, feature_columns
from thermostats.tables.mapping import when_joined
from thermostats.tables.schemas import TABLES, key, references

Files = Mapping[str, Sequence[str]]
"""Paths within a folder by table."""
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
CONSTRAINTS = {
    "isin": ("enum", "allowed_values"),
    "greater_than_or_equal_to": ("minimum", "min_value"),
    "less_than_or_equal_to": ("maximum", "max_value"),
}
"""Checks of a column that a data package has too; an exclusive bound it has not."""
OWN = [
    "citeAs",
    "column",
    "conformsTo",
    "cr",
    "data",
    "dataType",
    "dct",
    "equivalentProperty",
    "examples",
    "extract",
    "field",
    "fileObject",
    "fileProperty",
    "fileSet",
    "format",
    "includes",
    "isLiveDataset",
    "jsonPath",
    "key",
    "md5",
    "parentField",
    "path",
    "rai",
    "recordSet",
    "references",
    "regex",
    "repeated",
    "replace",
    "samplingRate",
    "sc",
    "separator",
    "source",
    "subField",
    "transform",
]
CONTEXT = (
    {"@language": "en", "@vocab": "https://schema.org/"}
    | {name: f"cr:{name}" for name in OWN}
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
    described = {DATAPACKAGE: datapackage(files), CROISSANT: croissant(folder, files, thermostats.__version__)}
    return {
        name: (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode() for name, content in described.items()
    }


def describe(folder: Path) -> list[Path]:
    """Write what describes the tables of a folder where it is not current; the files written."""
    stale = {
        folder / name: content
        for name, content in descriptions(folder).items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != content
    }
    for path, content in stale.items():
        write_atomically(path, content)
    return list(stale)


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
            kind, unit = KINDS[declared.metadata["dtype"]], declared.metadata["unit"]
            cells = (bold, kind, unit, "yes" if declared.nullable else "", when_joined(name, label))
            lines.append(f"| {' | '.join(cells)} | {declared.description} |")
        lines.append("")
    lines += ["## features", "", f"{_sentence(MEANING)}; `thermostats.features()`.", ""]
    lines += ["| column | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| {each.column} | {KINDS[each.type]} | {each.unit} | {each.meaning} |" for each in feature_columns()]
    return "\n".join([*lines, ""])


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _resources(files: Files) -> dict[str, tuple[str, str, list[str]]]:
    """Table, format and paths of each resource by its name."""
    found = {}
    for name, paths in files.items():
        formats = dict.fromkeys(path.rsplit(".", 1)[-1] for path in sorted(paths, key=lambda path: Path(path).suffix))
        for format_ in formats:
            resource = f"{name}-archive" if len(formats) > 1 and format_ == "parquet" else name
            found[resource] = name, format_, [path for path in paths if path.endswith(f".{format_}")]
    return found


def datapackage(files: Files) -> dict[str, Any]:
    """The Frictionless data package of a folder."""
    return {
        "profile": "tabular-data-package",
        "name": "thermostats",
        "title": TITLE,
        "description": CONVENTIONS,
        "licenses": [{"name": "MIT", "path": LICENCE}],
        "sources": [{"title": SOURCE, "path": RECORD}],
        "resources": [_resource(name, *resource, files) for name, resource in _resources(files).items()],
    }


def _resource(resource: str, name: str, format_: str, paths: list[str], files: Files) -> dict[str, Any]:
    whole = _resources({label: there for label, there in files.items() if label in references(name).values()})
    schema: dict[str, Any] = {
        "fields": [_field(name, label) for label in TABLES[name].columns],
        "primaryKey": key(name),
        "missingValues": [""] if format_ == "csv" else ["", "nan"],
    }
    keys = [
        {"fields": fields, "reference": {"resource": target, "fields": fields}}
        for label, target in references(name).items()
        if target in files and f"{target}-archive" not in whole  # a key is looked up in one resource
        for fields in [[label, "revision"] if target == "models" else [label]]
    ]
    return {
        "profile": "tabular-data-resource",
        "name": resource,
        "description": TABLES[name].description,
        "path": paths[0] if len(paths) == 1 else paths,
        "format": format_,
        "mediatype": MEDIA[format_],
        **({"encoding": "utf-8"} if format_ == "csv" else {}),
        "schema": schema | ({"foreignKeys": keys} if keys else {}),
    }


def _field(table: str, label: str) -> dict[str, Any]:
    column = TABLES[table].columns[label]
    dtype = column.metadata["dtype"]
    constraints: dict[str, Any] = {}
    for check in column.checks:
        if check.name in CONSTRAINTS:
            name, statistic = CONSTRAINTS[check.name]
            value = check.statistics[statistic]
            constraints[name] = [v for v in value if v != ""] if name == "enum" else value
    if not column.nullable and dtype != TEXT:
        constraints["required"] = True
    field = {"name": label, "type": FIELD_TYPES[dtype], "description": column.description}
    field |= {"unit": column.metadata["unit"]} if column.metadata["unit"] else {}
    field |= {"trueValues": ["True"], "falseValues": ["False"]} if dtype == FLAG else {}
    return field | ({"constraints": constraints} if constraints else {})


def croissant(folder: Path, files: Files, version: str) -> dict[str, Any]:
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
        "version": version,
        "datePublished": PUBLISHED,
        "citeAs": CITE,
        "distribution": [_distribution(folder, name, *resource) for name, resource in resources.items()],
        "recordSet": [_record_set(name, table, paths) for name, (table, _, paths) in resources.items()],
    }


def _distribution(folder: Path, resource: str, name: str, format_: str, paths: list[str]) -> dict[str, Any]:
    """The file of a resource, or where there are several the set of them, relative to the description."""
    if len(paths) > 1:
        runs = f"measured/{name}/"
        patterns = dict.fromkeys(f"{runs}*.csv" if path.startswith(runs) else path for path in paths)
        named = {"@type": "cr:FileSet", "@id": f"files-{resource}", "name": f"files-{resource}"}
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


def _record_set(resource: str, name: str, paths: list[str]) -> dict[str, Any]:
    source = {"fileSet": {"@id": f"files-{resource}"}} if len(paths) > 1 else {"fileObject": {"@id": paths[0]}}
    fields = []
    for label, column in TABLES[name].columns.items():
        unit = f" ({column.metadata['unit']})" if column.metadata["unit"] else ""
        field = {
            "@type": "cr:Field",
            "@id": f"{resource}/{label}",
            "name": label,
            "description": f"{column.description}{unit}",
            "dataType": SCHEMA_ORG[column.metadata["dtype"]],
            "source": {**source, "extract": {"column": label}},
        }
        fields.append(field)
    return {
        "@type": "cr:RecordSet",
        "@id": resource,
        "name": resource,
        "description": TABLES[name].description,
        "key": [{"@id": f"{resource}/{label}"} for label in key(name)],
        "field": fields,
    }


if __name__ == "__main__":
    for written in describe(folders.data_folder(sys.argv[1] if len(sys.argv) > 1 else None)):
        print(written)

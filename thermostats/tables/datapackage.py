"""Tables described for other tools: a Frictionless data package, made from the schemas.

https://datapackage.org/standard/data-package/, version 1 as the library frictionless reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from thermostats.tables import schemas
from thermostats.tables.declare import FLAG, FLOAT, INTEGER, TEXT
from thermostats.tables.schemas import TABLES, key, references

NAME = "datapackage.json"
TITLE = "Residual-stream gains of transformers"
TYPES = {FLOAT: "number", INTEGER: "integer", TEXT: "string", FLAG: "boolean"}
CONSTRAINTS = {
    "isin": ("enum", "allowed_values"),
    "greater_than_or_equal_to": ("minimum", "min_value"),
    "less_than_or_equal_to": ("maximum", "max_value"),
}
"""Checks of a column that the standard has too; an exclusive bound it has not."""


def datapackage(files: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The data package of a folder; `files`: paths within it by table."""
    return {
        "profile": "tabular-data-package",
        "name": "thermostats",
        "title": TITLE,
        "description": str(schemas.__doc__).split("\n\n")[1].replace("\n", " ").strip(),
        "licenses": [{"name": "MIT", "path": "https://opensource.org/license/mit"}],
        "sources": [
            {"title": "D'Elia 2026, preprint and result files", "path": "https://doi.org/10.5281/zenodo.18165365"}
        ],
        "resources": [_resource(name, paths, set(files)) for name, paths in files.items() if paths],
    }


def content(files: Mapping[str, Sequence[str]]) -> bytes:
    """The data package as the bytes of its file."""
    return (json.dumps(datapackage(files), indent=1, ensure_ascii=False) + "\n").encode()


def _resource(name: str, paths: Sequence[str], present: set[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "fields": [_field(name, label) for label in TABLES[name].columns],
        "primaryKey": key(name),
        "missingValues": [""],
    }
    keys = [
        {"fields": fields, "reference": {"resource": target, "fields": fields}}
        for label, target in references(name).items()
        if target in present
        for fields in [[label, "revision"] if target == "models" else [label]]
    ]
    return {
        "profile": "tabular-data-resource",
        "name": name,
        "description": TABLES[name].description,
        "path": paths[0] if len(paths) == 1 else list(paths),
        "format": "csv",
        "mediatype": "text/csv",
        "encoding": "utf-8",
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
    field = {"name": label, "type": TYPES[dtype], "description": column.description}
    field |= {"unit": column.metadata["unit"]} if column.metadata["unit"] else {}
    field |= {"trueValues": ["True"], "falseValues": ["False"]} if dtype == FLAG else {}
    return field | ({"constraints": constraints} if constraints else {})

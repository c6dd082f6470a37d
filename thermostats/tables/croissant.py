"""Tables described for machine-learning tools: a Croissant file (JSON-LD), made from the schemas.

https://docs.mlcommons.org/croissant/docs/croissant-spec-1.0.html. Files of one table are one FileSet where there are
several. What refers to what stands in the data package: a reader of Croissant would join tables by it and drop rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thermostats.tables import schemas
from thermostats.tables.datapackage import TITLE
from thermostats.tables.declare import FLAG, FLOAT, INTEGER, TEXT
from thermostats.tables.schemas import TABLES, key

NAME = "croissant.json"
PUBLISHED = "2026-11-21"
CITE = (
    "@misc{delia2026thermodynamic, author={D'Elia, Davide}, title={Thermodynamic Constraints in Transformer "
    "Architectures: A Sheaf-Theoretic Perspective}, year={2026}, doi={10.5281/zenodo.18165365}}"
)
TYPES = {FLOAT: "sc:Float", INTEGER: "sc:Integer", TEXT: "sc:Text", FLAG: "sc:Boolean"}
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that the specification gives, word for word."""


def croissant(folder: Path, files: Mapping[str, Sequence[str]], version: str) -> dict[str, Any]:
    """The Croissant description of the tables in a folder; `files`: paths within it by table."""
    tables = {name: paths for name, paths in files.items() if paths}
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": "thermostats",
        "description": f"{TITLE}. {str(schemas.__doc__).split(chr(10) * 2)[1].replace(chr(10), ' ').strip()}",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "license": "https://opensource.org/license/mit",
        "url": "https://doi.org/10.5281/zenodo.18165365",
        "version": version,
        "datePublished": PUBLISHED,
        "citeAs": CITE,
        "distribution": [_distribution(folder, name, paths) for name, paths in tables.items()],
        "recordSet": [_record_set(name, paths) for name, paths in tables.items()],
    }


def content(folder: Path, files: Mapping[str, Sequence[str]], version: str) -> bytes:
    """The Croissant description as the bytes of its file."""
    return (json.dumps(croissant(folder, files, version), indent=1, ensure_ascii=False) + "\n").encode()


def _distribution(folder: Path, name: str, paths: Sequence[str]) -> dict[str, Any]:
    """The file of a table, or where there are several the set of them, relative to the description."""
    if len(paths) > 1:
        patterns = dict.fromkeys(f"measured/{name}/*.csv" if path.startswith("measured/") else path for path in paths)
        return {
            "@type": "cr:FileSet",
            "@id": f"files-{name}",
            "name": f"files-{name}",
            "encodingFormat": "text/csv",
            "includes": list(patterns),
        }
    [path] = paths
    return {
        "@type": "cr:FileObject",
        "@id": path,
        "name": path.replace("/", "-"),
        "contentUrl": path,
        "encodingFormat": "text/csv",
        "sha256": hashlib.sha256((folder / path).read_bytes()).hexdigest(),
    }


def _record_set(name: str, paths: Sequence[str]) -> dict[str, Any]:
    source = {"fileSet": {"@id": f"files-{name}"}} if len(paths) > 1 else {"fileObject": {"@id": paths[0]}}
    fields = []
    for label, column in TABLES[name].columns.items():
        unit = f" ({column.metadata['unit']})" if column.metadata["unit"] else ""
        field = {
            "@type": "cr:Field",
            "@id": f"{name}/{label}",
            "name": label,
            "description": f"{column.description}{unit}",
            "dataType": TYPES[column.metadata["dtype"]],
            "source": {**source, "extract": {"column": label}},
        }
        fields.append(field)
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": TABLES[name].description,
        "key": [{"@id": f"{name}/{label}"} for label in key(name)],
        "field": fields,
    }

"""The study's files: found in a folder by name, and parsed strictly."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from thermostats.errors import DataError, UsageError
from thermostats.studies.delia2026.importer.ledger import STAMP, Document

DOI = "10.5281/zenodo.18165365"
LICENCE = "MIT"


def find(folder: Path, families: Collection[str]) -> tuple[dict[str, Path], list[str]]:
    """File of every family in a folder, and the names of files that hold no figures (README, LICENSE, pictures).

    families: names without time stamp.

    Raises UsageError where the folder or a file is missing, DataError where there is a file of figures too many.
    """
    if not folder.is_dir():
        raise UsageError("no such folder", where=folder, allowed="a folder with the study's result files")
    try:
        names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise DataError("folder cannot be read", where=folder, got=error.strerror or str(error)) from error
    found: dict[str, Path] = {}
    ignored = []
    for name in names:
        family = re.sub(STAMP, "", name)
        if family in found:
            raise DataError(
                f"two files of the family {family}",
                where=folder,
                got=f"{found[family].name}, {name}",
                next_step="keep one of them",
            )
        if family in families:
            found[family] = folder / name
        elif name.lower().endswith((".json", ".csv")):
            raise DataError(
                "a file of figures that the importer does not know",
                where=folder / name,
                allowed="the study's files: " + ", ".join(families),
                next_step="move it out of the folder",
            )
        else:
            ignored.append(name)
    if lacking := [family for family in families if family not in found]:
        raise UsageError(
            "files of the study are missing",
            where=folder,
            got=f"{len(found)} of {len(families)} files",
            allowed="also " + ", ".join(lacking),
            next_step=f"download the record {DOI}",
        )
    return found, ignored


def read(path: Path) -> Document:
    """Read and parse one file; raises DataError where it is damaged."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError("file cannot be read", where=path, got=error.strerror or str(error)) from error
    try:
        text = content.decode("utf-8")
        root = _parse_csv(text) if path.suffix == ".csv" else _parse_json(text)
    except (ValueError, RecursionError, csv.Error) as error:
        raise DataError(
            "file is damaged", where=path, got=str(error), next_step="restore the published file"
        ) from error
    return Document(path.name, root, content)


def source_row(document: Document, repeats: str) -> dict[str, object]:
    """A file's row of the table `sources`; `repeats` names the file that it repeats."""
    return {
        "file": document.file,
        "sha256": hashlib.sha256(document.content).hexdigest(),
        "bytes": len(document.content),
        "measured_at": stated_date(document.root),
        "repeats": repeats,
        "doi": DOI,
        "licence": LICENCE,
    }


def stated_date(root: Any) -> str:
    """Date and time that a parsed file gives for itself, ISO 8601; empty where it gives none."""
    stated = root.get("date", root.get("timestamp")) if isinstance(root, dict) else ""
    if not isinstance(stated, str):
        return ""
    if match := re.fullmatch(r"(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)", stated):
        return "{}-{}-{}T{}:{}:{}".format(*match.groups())
    return stated.replace(" ", "T")


def _parse_json(text: str) -> Any:
    root = json.loads(text, object_pairs_hook=_unique)
    if not isinstance(root, dict):
        raise ValueError("not one JSON object")
    return root


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"key {key!r} occurs twice in one object")
        result[key] = value
    return result


def _parse_csv(text: str) -> list[dict[str, str]]:
    lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    if not lines:
        raise ValueError("empty file")
    header, *rows = lines
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"line {number} has {len(row)} cells, the header {len(header)}")
    return [_unique(zip(header, row, strict=True)) for row in rows]

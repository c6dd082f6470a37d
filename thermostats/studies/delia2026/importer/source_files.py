"""The study's files: which there must be, how they are read, and which repeat others."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thermostats.errors import DataError, UsageError
from thermostats.studies.delia2026.importer.ledger import STAMP, Document

DOI = "10.5281/zenodo.18165365"
LICENCE = "MIT"
FAMILIES = {
    "4model_validation_results.json": "",
    "H4_summary.csv": "H4_validation.json",
    "H4_v2_extended.json": "",
    "H4_v2_summary.csv": "H4_v2_validation.json",
    "H4_v2_validation.json": "",
    "H4_validation.json": "",
    "OPT_anomaly.json": "",
    "clean_residual_NO_FINAL_LN.json": "",
    "ffn_expansion_results.json": "",
    "gpt2_layernorm_validation.csv": "gpt2_layernorm_validation.json",
    "gpt2_layernorm_validation.json": "",
    "gptj_parallel_test.csv": "gptj_parallel_test.json",
    "gptj_parallel_test.json": "",
    "high_rho_hunt_NO_FINAL_LN.json": "",
    "input_dependency_thermodynamics.json": "",
    "l_star_sign_change.json": "",
    "llama_anomaly_hypothesis_tests.json": "",
    "mistral_paradox_investigation_results.json": "",
    "pythia_family_NO_FINAL_LN.json": "",
    "restriction_map_summary.csv": "",
    "restriction_maps_results.json": "",
    "scaling_law_multi_pythia_results.json": "",
    "thermodynamic_benchmark.csv": "thermodynamic_benchmark.json",
    "thermodynamic_benchmark.json": "",
    "twin_test_results.csv": "twin_test_results.json",
    "twin_test_results.json": "",
}
"""Families by name without time stamp; the value names the family that a file repeats."""


@dataclass(frozen=True)
class Source:
    """One file as found: family, name, bytes and content."""

    family: str
    path: Path
    content: bytes
    document: Document

    def row(self, names: dict[str, str]) -> dict[str, object]:
        """The file's row of the table `sources`; `names` gives the file of each family."""
        return {
            "file": self.path.name,
            "sha256": hashlib.sha256(self.content).hexdigest(),
            "bytes": len(self.content),
            "measured_at": stated_date(self.document.root),
            "repeats": names[FAMILIES[self.family]] if FAMILIES[self.family] else "",
            "doi": DOI,
            "licence": LICENCE,
        }


def find(folder: Path) -> tuple[dict[str, Path], list[str]]:
    """File of every family in a folder, and the names of files that hold no figures (README, LICENSE, pictures).

    Raises UsageError where the folder or a file is missing, DataError where there is a file of figures too many.
    """
    if not folder.is_dir():
        raise UsageError("no such folder", where=folder, allowed="a folder with the study's result files")
    found: dict[str, Path] = {}
    ignored = []
    try:
        names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise DataError("folder cannot be read", where=folder, got=error.strerror or str(error)) from error
    for name in names:
        family = _family(name)
        if family and family in found:
            raise DataError(
                f"two files of the family {family}",
                where=folder,
                got=f"{found[family].name}, {name}",
                next_step="keep one of them",
            )
        if family:
            found[family] = folder / name
        elif name.lower().endswith((".json", ".csv")):
            raise DataError(
                "a file of figures that the importer does not know",
                where=folder / name,
                allowed="the study's files: " + ", ".join(FAMILIES),
                next_step="move it out of the folder",
            )
        else:
            ignored.append(name)
    if lacking := [family for family in FAMILIES if family not in found]:
        raise UsageError(
            "files of the study are missing",
            where=folder,
            got=f"{len(found)} of {len(FAMILIES)} files",
            allowed="also " + ", ".join(lacking),
            next_step=f"download the record {DOI}",
        )
    return found, ignored


def read(family: str, path: Path) -> Source:
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
    return Source(family, path, content, Document(path.name, root))


def _family(name: str) -> str:
    for family in FAMILIES:
        stem, suffix = family.rsplit(".", 1)
        if re.fullmatch(rf"{re.escape(stem)}({STAMP})?\.{suffix}", name):
            return family
    return ""


def _parse_json(text: str) -> Any:
    root = json.loads(text, object_pairs_hook=_unique, parse_constant=_constant, parse_float=_finite)
    if not isinstance(root, dict):
        raise ValueError("not one JSON object")
    return root


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"key {key!r} stands twice in one object")
        result[key] = value
    return result


def _constant(name: str) -> float:
    if name != "NaN":
        raise ValueError(f"{name} is no figure that can be imported")
    return math.nan


def _finite(numeral: str) -> float:
    value = float(numeral)
    if math.isinf(value):
        raise ValueError(f"{numeral} is beyond the range of a number")
    return value


def _parse_csv(text: str) -> list[dict[str, str]]:
    lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    if not lines:
        raise ValueError("empty file")
    header, *rows = lines
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"line {number} has {len(row)} cells, the header {len(header)}")
    return [_unique(zip(header, row, strict=True)) for row in rows]


def stated_date(root: Any) -> str:
    """Date and time that a parsed file gives for itself, ISO 8601; empty where it gives none."""
    stated = next((root[key] for key in ("date", "timestamp") if key in root), "") if isinstance(root, dict) else ""
    if not isinstance(stated, str):
        return ""
    if match := re.fullmatch(r"(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)", stated):
        return "{}-{}-{}T{}:{}:{}".format(*match.groups())
    return stated.replace(" ", "T")

"""Posteriors that only PyMC can draw: what the committed snapshot has of them, for a report that does not draw them.

The snapshot's table of findings ships with the package. Its figures of a posterior stand for a finding that is made of
the same script and the same rows, where this version of the package drew them.
"""

from __future__ import annotations

import csv
import hashlib
import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import thermostats
from thermostats.reporting.names import SNAPSHOT, TABLE
from thermostats.tables.folders import shipped

LIBRARIES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "jinja2", "markdown-it-py")
SAMPLERS = ("pymc", "pytensor", "nutpie", "arviz")
PACKAGE = "thermostats"
HERE = Path(__file__).resolve().parents[1]


def sha(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def sha_of(value: object) -> str:
    """SHA-256 of a value's canonical JSON."""
    return sha(json.dumps(value, sort_keys=True, ensure_ascii=False).encode())


@cache
def machine() -> dict[str, str]:
    """Versions of the package, the interpreter and the libraries that results can depend on."""
    versions_of = {PACKAGE: thermostats.__version__, "python": platform.python_version()}
    return versions_of | versions(*LIBRARIES, *SAMPLERS)


def versions(*names: str) -> dict[str, str]:
    """Versions of those distributions that are installed."""
    by_name = {}
    for name in names:
        with suppress(PackageNotFoundError):
            by_name[name] = version(name)
    return by_name


@cache
def package_sha() -> str:
    """SHA-256 over the versions of package, interpreter and libraries; in a checkout also over the package's files."""
    checkout = (HERE.parent / "pyproject.toml").is_file()
    files = sorted(path for path in HERE.rglob("*") if path.is_file() and path.suffix != ".pyc") if checkout else []
    return sha_of([machine(), [(path.relative_to(HERE).as_posix(), sha(path.read_bytes())) for path in files]])


FIGURES = ("posterior", "mc_error", "rhat_max", "ess_min", "divergences")
"""Columns of the table that are numbers."""
COLUMNS = {"finding", "evidence", "claim", "drawn", "inputs_sha", *FIGURES}


@dataclass(frozen=True)
class Posteriors:
    """Rows of a snapshot whose posterior PyMC drew, by finding and set of evidence."""

    rows: Mapping[tuple[str, str], Mapping[str, str]]
    damaged: str = ""
    """Why there are none, where the table cannot be read."""

    def digest(self, claim: str) -> str:
        """SHA-256 of those of one claim."""
        return sha_of([self.damaged, [list(row.values()) for row in self.rows.values() if row["claim"] == claim]])

    def of(self, finding: str, evidence: str, inputs: str) -> Mapping[str, str] | str:
        """The row that stands for a finding made of such inputs (`inputs_of`), or why none does."""
        row = self.rows.get((finding, evidence))
        if self.damaged or row is None:
            return self.damaged or "the snapshot has none of it"
        if row["inputs_sha"] != inputs:
            return "the snapshot is of other rows, or of another script"
        version = row["drawn"].removeprefix(f"{PACKAGE} ").partition(",")[0]
        return row if version == thermostats.__version__ else f"the snapshot was drawn by {PACKAGE} {version}"


def inputs_of(script: str, selections: Mapping[str, str]) -> str:
    """SHA-256 of what a finding is made of: the script with its words and error rates, and rows by selection."""
    return sha_of([script, sorted(selections.items())])


def shipped_snapshot() -> Path:
    """The snapshot's table of findings that ships with the package."""
    return shipped(f"reports/{SNAPSHOT}") / TABLE


def posteriors(path: Path | None = None) -> Posteriors:
    """Those of the snapshot that ships with the package, or of another table of findings."""
    try:
        with (path or shipped_snapshot()).open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file, strict=True) if row["drawn"]]
        for row in rows:
            if None in row or not row.keys() >= COLUMNS or not all(map(str.strip, (row["posterior"], row["drawn"]))):
                raise ValueError("a row is not whole")
            _ = [float(row[name]) for name in FIGURES if row[name]]
    except FileNotFoundError:
        return Posteriors({}, "no snapshot ships with this version")
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return Posteriors({}, "the snapshot is damaged or of another version")
    return Posteriors({(row["finding"], row["evidence"]): row for row in rows})

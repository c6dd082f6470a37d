"""What a report was made of: hashes of scripts, code, rows and pages, and the stamp of the machine that made it."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import thermostats
from thermostats.claims.evidence import Evidence
from thermostats.errors import DataError
from thermostats.reporting.imports import HERE, code_sha
from thermostats.tables.atomic import write_all

MANIFEST, STAMP = "manifest.json", ".built.json"
PAGE_CODE = "the code of its page changed"
"""Why pages are stale whose numbers are not."""
LIBRARIES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "jinja2")
SAMPLERS = ("pymc", "pytensor", "nutpie", "arviz")


@dataclass(frozen=True)
class Record:
    """What pages were made of, and the SHA-256 of each of their files by name relative to the report."""

    script: str
    """SHA-256 of the analysis; of pages about all claims, of what they tell."""
    code: str
    """SHA-256 of the modules that the analysis imports."""
    page: str = ""
    """SHA-256 of the modules and templates that its pages are rendered with."""
    selections: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def sha(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def sha_of(value: object) -> str:
    """SHA-256 of a value's canonical JSON."""
    return sha(json.dumps(value, sort_keys=True, ensure_ascii=False).encode())


def inputs_sha(script: str, selections: Mapping[str, str]) -> str:
    """SHA-256 over the rows an analysis read and its script."""
    return sha_of([script, sorted(selections.items())])


@cache
def page_sha(module: str) -> str:
    """SHA-256 over a module, the package's modules that it imports, and all templates."""
    path = Path(str(import_module(module).__file__))
    templates = sorted(path for path in (HERE / "reporting" / "templates").iterdir() if path.is_file())
    return sha_of([code_sha(path), *(sha(file.read_bytes()) for file in (path, *templates))])


@cache
def machine() -> dict[str, str]:
    """Versions of the package, the interpreter and the libraries that results can depend on."""
    versions = {"thermostats": thermostats.__version__, "python": platform.python_version()}
    for name in (*LIBRARIES, *SAMPLERS):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def read_manifest(out: Path) -> dict[str, Record]:
    """Records of a report by claim, `index` for the pages about all of them; empty where there is no report.

    Raises DataError where the manifest is damaged.
    """
    path = out / MANIFEST
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        return {name: Record(**record) for name, record in content.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        next_step = "delete it, then thermostats report --all"
        raise DataError(
            "the manifest of the report is damaged", where=path, got=str(error), next_step=next_step
        ) from error
    except OSError as error:
        raise DataError("the manifest of the report cannot be read", where=path, got=error.strerror or "") from error


def write_manifest(out: Path, records: Mapping[str, Record]) -> None:
    """Write the records; nothing where they are as they were."""
    write_json(out / MANIFEST, {name: asdict(record) for name, record in sorted(records.items())})


def read_stamp(out: Path) -> dict[str, str]:
    """Claims that this machine built as the manifest has them: SHA-256 of the record by claim."""
    try:
        stamp = json.loads((out / STAMP).read_bytes())
        return dict(stamp["claims"]) if stamp["machine"] == machine() else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def read_seconds(out: Path) -> dict[str, float]:
    """How long each analysis took on this machine when it last ran."""
    try:
        return {str(name): float(took) for name, took in json.loads((out / STAMP).read_bytes())["seconds"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def write_stamp(out: Path, claims: Mapping[str, str], seconds: Mapping[str, float]) -> None:
    """Note what this machine built, and how long it took."""
    write_json(out / STAMP, {"machine": machine(), "claims": dict(claims), "seconds": dict(seconds)})


def record_key(record: Record) -> str:
    """SHA-256 of a record."""
    return sha_of(asdict(record))


def stale_because(record: Record | None, now: Record, tables: Evidence, out: Path) -> str:
    """Why pages are not what they would be if made now; empty where they are. `now`: what they would be made of."""
    if record is None:
        return "not built yet"
    if record.script != now.script:
        return "its script changed" if now.code else "what it tells of changed"
    if record.code != now.code:
        return "code that it imports changed"
    if tables.changed(record.selections):
        return "rows that it reads changed"
    return PAGE_CODE if record.page != now.page else changed_file(record, out)


def changed_file(record: Record, out: Path) -> str:
    """What happened to the first file of a record that is not as it was written; empty where all are."""
    for name, digest in record.files.items():
        path = out / name
        if not path.is_file():
            return f"{name} is missing"
        if sha(path.read_bytes()) != digest:
            return f"{name} was edited"
    return ""


def write_files(out: Path, files: Mapping[str, bytes]) -> list[str]:
    """Write those files that are not there with the same bytes; their names."""
    written = [name for name, content in files.items() if not _holds(out / name, content)]
    write_all(out, {out / name: files[name] for name in written})
    return written


def remove_files(out: Path, names: Iterable[str]) -> list[str]:
    """Remove files of a report, and folders left empty; the names of those that were there."""
    removed = [name for name in names if (out / name).is_file()]
    for name in removed:
        path = out / name
        path.unlink()
        if path.parent != out and not any(path.parent.iterdir()):
            path.parent.rmdir()
    return removed


def write_json(path: Path, value: object) -> None:
    """Write canonical JSON; nothing where the file holds it already."""
    content = (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
    if not _holds(path, content):
        write_all(path.parent, {path: content})


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content

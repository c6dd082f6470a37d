"""What a report was made of: digests of scripts, code, rows and files, and why a page is not what it would be now."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import thermostats
from thermostats.errors import DataError
from thermostats.reporting.names import MANIFEST, SECONDS
from thermostats.tables.atomic import write_all

PAGES = "what the page links to changed"
"""Why pages are stale whose text is not."""
LIBRARIES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "jinja2", "markdown-it-py")
SAMPLERS = ("pymc", "pytensor", "nutpie", "arviz")
PACKAGE = "thermostats"
HERE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Record:
    """What a claim's page, or a page about all claims, was made of, and the SHA-256 of its files by name."""

    script: str
    """SHA-256 of the analysis, its words and its rules' error rates; of pages about all claims, of what they show."""
    package: str
    """SHA-256 of the package and of the libraries that results can depend on."""
    page: str = ""
    """SHA-256 of the pages that it leads to."""
    tables: str = ""
    """SHA-256 over the files that rows are read from; empty: those are not all known."""
    selections: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the rows read, by selection."""
    files: dict[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> str:
        """SHA-256 over the rows an analysis read and its script."""
        return sha_of([self.script, sorted(self.selections.items())])

    @property
    def but_rows(self) -> str:
        """SHA-256 over all that findings depend on but rows."""
        return sha_of([self.script, self.package])

    def made(self, selections: Mapping[str, str], files: Mapping[str, bytes]) -> Record:
        """The record of what is made of this, and from these rows."""
        digests = {name: sha(content) for name, content in files.items()}
        return replace(self, selections=dict(sorted(selections.items())), files=digests)


def record_now(made_of: bytes, navigation: Mapping[str, str], tables: str) -> Record:
    """A record of an analysis or of what a page shows, and of the pages that it leads to."""
    return Record(sha(made_of), package_sha(), sha_of(navigation), tables)


def stale_because(record: Record | None, now: Record, changed: Callable[[Mapping[str, str]], bool], out: Path) -> str:
    """Why pages are not what they would be if made now; empty where they are.

    now: what they would be made of. changed: whether any of some selections has other rows; asked where files changed.
    """
    if record is None:
        return "not built yet"
    if record.script != now.script:
        return (
            "its script, its words or the error rates of its rules changed"
            if record.selections
            else "what it shows changed"
        )
    if record.package != now.package:
        return "built with another version of the package or of libraries"
    if not (record.tables and record.tables == now.tables) and changed(record.selections):
        return "rows that it reads changed"
    return _changed_file(record, out) or (PAGES if record.page != now.page else "")


def _changed_file(record: Record, out: Path) -> str:
    """What happened to the first file of a record that is not as it was written; empty where all are."""
    for name, digest in record.files.items():
        if not (out / name).is_file():
            return f"{name} is missing"
        if sha((out / name).read_bytes()) != digest:
            return f"{name} was edited"
    return ""


def sha(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def sha_of(value: object) -> str:
    """SHA-256 of a value's canonical JSON."""
    return sha(json.dumps(value, sort_keys=True, ensure_ascii=False).encode())


@cache
def machine() -> dict[str, str]:
    """Versions of the package, the interpreter and the libraries that results can depend on."""
    own = {PACKAGE: thermostats.__version__, "python": platform.python_version()}
    return own | versions(*LIBRARIES, *SAMPLERS)


def versions(*names: str) -> dict[str, str]:
    """Versions of those distributions that are installed."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@cache
def package_sha() -> str:
    """SHA-256 over the versions of package, interpreter and libraries; in a checkout also over the package's files."""
    checkout = (HERE.parent / "pyproject.toml").is_file()
    files = sorted(path for path in HERE.rglob("*") if path.is_file() and path.suffix != ".pyc") if checkout else []
    return sha_of([machine(), [(path.relative_to(HERE).as_posix(), sha(path.read_bytes())) for path in files]])


def read_manifest(out: Path) -> dict[str, Record]:
    """Records of a report by claim or page; without those of another version, and empty where there is no report.

    Raises DataError where the manifest is damaged.
    """
    path = out / MANIFEST
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        known = {each.name for each in fields(Record)}
        return {name: Record(**record) for name, record in content.items() if record.keys() <= known}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError("the manifest of the report cannot be read", where=path, got=error.strerror or "") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        step = "delete it, then thermostats report --all"
        raise DataError("the manifest of the report is damaged", where=path, got=str(error), next_step=step) from error


def write_manifest(out: Path, records: Mapping[str, Record]) -> None:
    """Write the records; nothing where they are as they were."""
    write_files(out, {MANIFEST: _json({name: asdict(record) for name, record in records.items()})})


def read_seconds(out: Path) -> dict[str, float]:
    """How long each analysis took when it last ran; empty where that is not known."""
    try:
        return {str(name): float(took) for name, took in json.loads((out / SECONDS).read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def write_seconds(out: Path, seconds: Mapping[str, float]) -> None:
    """Note how long each analysis took."""
    write_files(out, {SECONDS: _json(seconds)})


def write_files(out: Path, files: Mapping[str, bytes]) -> list[str]:
    """Write those files that are not there with the same bytes; their names."""
    there = {name: out / name for name in files if (out / name).is_file()}
    written = [name for name, content in files.items() if name not in there or there[name].read_bytes() != content]
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


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

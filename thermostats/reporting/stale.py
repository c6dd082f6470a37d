"""What a page was made of, and why it is not what it would be now."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from thermostats.errors import DataError
from thermostats.reporting.digest import package_sha, sha, sha_of
from thermostats.reporting.files import as_json, write_files
from thermostats.reporting.names import MANIFEST

NEW = "not built yet"
LINKS, ROWS = "what the page links to changed", "rows that it reads changed"
"""Why pages are stale whose text is not."""
POSTERIORS = "posteriors that it does not draw"
"""Why pages are stale that show what the snapshot has of these: that changed, or they are to be drawn."""


@dataclass(frozen=True)
class Record:
    """What a claim's page, or a page about all claims, was made of, and the SHA-256 of its files by name."""

    digest: str
    """SHA-256 of all that it depends on but rows: script, words, error rates or what it shows; package, libraries."""
    links: str = ""
    """SHA-256 of the pages that it leads to."""
    tables: str = ""
    """SHA-256 over the files that rows are read from; empty: those are not all known."""
    rows: str = ""
    """SHA-256 of the rows that it was made of, as `claims.stored.Stored.rows` has it."""
    files: dict[str, str] = field(default_factory=dict)
    posteriors: str = ""
    """SHA-256 of the snapshot's posteriors of the claim, of a page on which one is not drawn; else empty."""

    @classmethod
    def of(cls, made_of: bytes, links: Mapping[str, str], tables: str, posteriors: str = "") -> Record:
        """The record of a page that is made of these bytes by this package, before its rows and files are known."""
        return cls(sha_of([sha(made_of), package_sha()]), sha_of(links), tables, posteriors=posteriors)

    def made(self, rows: str, files: Mapping[str, bytes]) -> Record:
        """The record of what is made of this, and from these rows."""
        return replace(self, rows=rows, files={name: sha(content) for name, content in files.items()})


def stale_because(record: Record | None, now: Record, rows: Callable[[], str], out: Path) -> str:
    """Why a page is not what it would be if made now; empty where it is.

    now: what it would be made of. rows: SHA-256 of the rows of its findings; asked where files of tables changed.
    """
    if record is None:
        return NEW
    if record.posteriors and record.posteriors != now.posteriors:
        return POSTERIORS
    if record.digest != now.digest:
        return "its script, its words, the error rates of its rules, the package or a library changed"
    if not (record.tables and record.tables == now.tables) and record.rows != rows():
        return ROWS
    return _changed_file(record, out) or (LINKS if record.links != now.links else "")


def read_manifest(out: Path) -> dict[str, Record]:
    """Records of a report by claim or page; without those of another version, and empty where there is no report.

    Raises DataError where the manifest is damaged.
    """
    path = out / MANIFEST
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        names = {each.name for each in fields(Record)}
        return {name: Record(**record) for name, record in content.items() if record.keys() <= names}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError("the manifest of the report cannot be read", where=path, got=error.strerror or "") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        step = "delete it, then thermostats report --all"
        raise DataError("the manifest of the report is damaged", where=path, got=str(error), next_step=step) from error


def write_manifest(out: Path, records: Mapping[str, Record]) -> None:
    """Write the records; nothing where they are as they were."""
    write_files(out, {MANIFEST: as_json({name: asdict(record) for name, record in records.items()})})


def _changed_file(record: Record, out: Path) -> str:
    """What happened to the first file of a record that is not as it was written; empty where all are."""
    for name, digest in record.files.items():
        if not (out / name).is_file():
            return f"{name} is missing"
        if sha((out / name).read_bytes()) != digest:
            return f"{name} was edited"
    return ""

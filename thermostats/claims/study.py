"""What a study brings to the instrument, and the studies that are registered: the instrument names none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from thermostats.errors import UsageError

GROUP = "thermostats.studies"
"""Package whose modules are searched for a `STUDY`, and the entry-point group of studies installed elsewhere."""


@dataclass(frozen=True)
class Study:
    """One study; what it brings is named as `package.module` or `package.module:name` and imported when asked for."""

    name: str
    title: str
    letter: str = ""
    """First letter of its claims' ids."""
    claims: str = ""
    """Heading of its claims on the index, the first page of a report."""
    fixed: str = ""
    """When the rules of its claims were fixed: a Jinja template that may ask whether a rule has `changed` and whether
    a finding has a posterior, `fitted`."""
    about: str = ""
    """What the index says of it, in a few sentences."""
    credit: str = ""
    """Whose it is and under which conditions it is used, in one sentence at the foot of the index."""
    source: str = ""
    """DOI of its published files."""
    citation: Mapping[str, str] = field(default_factory=dict)
    """BibTeX fields of what to cite where rows are from these files, with `key`."""
    importer: str = ""
    """Function `(source, data) -> Imported` that reads its files into `data/published`."""
    pages: Mapping[str, str] = field(default_factory=dict)
    """Pages of the report by name: modules with a function `files(tables)`."""
    layers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Summaries by layer for the atlas: what the estimand begins with, before the layer's number, to the quantity where
    they are drawn and what they are instead of it, in words."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Tables of its own that ship, by the name under which an analysis reads them: their names for `read_table`."""
    read_table: str = ""
    """Function `(name) -> DataFrame` that reads them."""
    verbs: str = ""
    """Typer application of its commands."""
    replication: str = ""
    """Package whose folder `replication` holds the plan by which its models are measured anew (`replication.py`)."""


@dataclass(frozen=True)
class Change:
    """How a table differs from the one that was there, in rows by key."""

    table: str
    added: int
    removed: int
    altered: int


@dataclass(frozen=True)
class Imported:
    """What an import found and did."""

    files: int
    numbers: int
    fates: Mapping[str, int]
    """Numbers by fate: imported, derivable, left out."""
    rows: Mapping[str, int]
    """Rows by table."""
    ignored: tuple[str, ...]
    """Files of the folder that hold no figures."""
    changes: tuple[Change, ...]
    """What differs from the tables that were there; empty: unchanged, nothing was written."""

    @property
    def unchanged(self) -> bool:
        """True where the tables there were equal already."""
        return not self.changes

    def __str__(self) -> str:
        """What was read, and what changed, a line each."""
        fates = ", ".join(f"{count} {fate}" for fate, count in self.fates.items())
        lines = [f"{self.files} files, {self.numbers} numbers: {fates}"]
        lines += [f"ignored: {', '.join(self.ignored)}"] * bool(self.ignored)
        if self.unchanged:
            return "\n".join([*lines, "unchanged: the tables are equal, so nothing was written"])
        lines += [f"{c.table}: {c.added} rows added, {c.removed} removed, {c.altered} altered" for c in self.changes]
        return "\n".join(lines)


@cache
def studies() -> dict[str, Study]:
    """Registered studies by name: `STUDY` of each module in the package's own studies, then the entry points."""
    folder = Path(__file__).parents[1] / "studies"
    shipped = (import_module(f"{GROUP}.{module.name}") for module in iter_modules([str(folder)]))
    found = [module.STUDY for module in shipped if hasattr(module, "STUDY")]
    found += [entry.load() for entry in entry_points(group=GROUP)]
    return {study.name: study for study in found}


def study_of(claim: str) -> Study | None:
    """The study whose claim this is, by the first letter of its id; None for a user's own."""
    letter = claim[:1].upper()
    return next((study for study in studies().values() if letter and study.letter == letter), None)


def named(path: str) -> Any:
    """The module `package.module`, or what it calls `name` for `package.module:name`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)


def import_published(source: Path, data: Path, study: str = "") -> Imported:
    """Read the result files of a study in `source` into `data/published`, prompt texts into `data/private`.

    study: its name; not needed if only one study has an importer. Everything is read, accounted for, validated and
    serialised before the first file is written; tables that are there already are replaced whole where they differ.

    Raises UsageError where the folder, a file or the study is missing, DataError where a file is damaged or not as
    published, or the data folder cannot be written; nothing has changed then.
    """
    importers = {name: found.importer for name, found in studies().items() if found.importer and study in ("", name)}
    if len(importers) != 1:
        allowed = ", ".join(name for name, found in studies().items() if found.importer)
        raise UsageError("it is not clear which study these files belong to", got=repr(study), allowed=allowed)
    (importer,) = importers.values()
    done: Imported = named(importer)(Path(source), Path(data))
    return done

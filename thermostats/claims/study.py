"""What a study brings to the instrument, and the studies that are registered: the instrument names none of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

GROUP = "thermostats.studies"
"""Package whose modules are searched for a `STUDY`, and the entry-point group of studies installed elsewhere."""


@dataclass(frozen=True)
class InReport:
    """What a report says of a study."""

    heading: str = ""
    """Heading of its claims on the index, the first page of a report."""
    fixed: str = ""
    """When the rules of its claims were fixed: a Jinja template that may ask whether a rule has `changed` and whether
    a finding has a posterior, `fitted`."""
    about: str = ""
    """What the index says of it, in a few sentences."""
    credit: str = ""
    """Whose it is and under which conditions it is used, in one sentence at the foot of the index."""


UNSAID = InReport()


@dataclass(frozen=True)
class Study:
    """One study; what it brings is named as `package.module` or `package.module:name` and imported when asked for."""

    name: str
    title: str
    letter: str = ""
    """First letter of its claims' ids."""
    report: InReport = UNSAID
    source: str = ""
    """DOI of its published files."""
    citation: Mapping[str, str] = field(default_factory=dict)
    """BibTeX fields of what to cite where rows are from these files, with `key`."""
    builds_on: tuple[Mapping[str, str], ...] = ()
    """The same of the work that the study builds on."""
    pages: Mapping[str, str] = field(default_factory=dict)
    """Pages of the report by name: modules with a function `files(tables)`."""
    account: str = ""
    """Module of the page that weighs claims against one another: a function `files(findings, tables)`, which returns
    files by name, `growth.md` among them."""
    layers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Summaries by layer for the atlas: what the estimand begins with, before the layer's number, to the quantity where
    they are drawn and what they are instead of it, in words."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Tables of its own that ship, by the name under which an analysis reads them: their names for `read_table`."""
    read_table: str = ""
    """Function `(name) -> DataFrame` that reads them."""
    apart: str = ""
    """Models of its own that are no rows of the table `models`, in a sentence for pages and listings of models."""
    verbs: str = ""
    """Typer application of its commands."""


def apart() -> list[str]:
    """What studies say of models that are no rows of the table `models`."""
    return [study.apart for study in studies().values() if study.apart]


@cache
def studies() -> dict[str, Study]:
    """Registered studies by name: `STUDY` of each module in the package's own studies, then the entry points."""
    folder = Path(__file__).parents[1] / "studies"
    shipped = (import_module(f"{GROUP}.{module.name}") for module in iter_modules([str(folder)]))
    registered = [module.STUDY for module in shipped if hasattr(module, "STUDY")]
    registered += [entry.load() for entry in entry_points(group=GROUP)]
    return {study.name: study for study in registered}


def study_of(claim: str) -> Study | None:
    """The study whose claim this is, by the first letter of its id; None for a user's own."""
    letter = claim[:1].upper()
    return next((study for study in studies().values() if letter and study.letter == letter), None)


def account_of(claims: Iterable[str]) -> str:
    """The module of the page that weighs the claims of a study; empty where none of these is of a study with one."""
    of_claims = filter(None, map(study_of, claims))
    return next((study.account for study in of_claims if study.account), "")


def named(path: str) -> Any:
    """The module `package.module`, or what it calls `name` for `package.module:name`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)

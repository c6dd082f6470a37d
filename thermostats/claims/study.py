"""What a study brings to the instrument, and the studies that are registered: the instrument names
none of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from thermostats.errors import DataError, UsageError, suggest_nearest
from thermostats.next_steps import write_command

GROUP = "thermostats.studies"
"""Package whose modules are searched for each `Study`, and the entry-point group of studies
installed elsewhere."""


@dataclass(frozen=True)
class InReport:
    """What a report says of a study."""

    heading: str = ""
    """Heading of its claims on the index, the first page of a report."""
    fixed: str = ""
    """When the rules of its claims were fixed: a Jinja template that may ask whether a rule has
    `changed` and whether a finding has a posterior, `fitted`."""
    about: str = ""
    """What the index says of it, in a few sentences."""
    credit: str = ""
    """Whose it is and under which conditions it is used, in one sentence at the foot of the
    index."""
    leading: tuple[str, ...] = ()
    """Its claims that the index lists first, by id, in this order."""
    further: tuple[str, ...] = ()
    """Its claims and findings of one observation, by id, which the index lists below all others."""


UNSAID = InReport()


@dataclass(frozen=True)
class Literature:
    """Works behind a study, each as BibTeX fields with its `key`."""

    published: Mapping[str, str] = field(default_factory=dict)
    """The study itself, cited where rows are from its files, which its `doi` tells."""
    builds_on: tuple[Mapping[str, str], ...] = ()
    """What the study builds on."""


UNCITED = Literature()


@dataclass(frozen=True)
class Study:
    """One study; what it brings is named as `package.module` or `package.module:name` and imported
    when asked for."""

    name: str
    title: str
    letter: str = ""
    """First letter of its claims' ids."""
    report: InReport = UNSAID
    literature: Literature = UNCITED
    pages: Mapping[str, str] = field(default_factory=dict)
    """Pages of the report by name: modules with a function `files(tables)`."""
    account: str = ""
    """Module of the page that weighs claims against one another: a function `files(findings,
    tables)`, which returns files by name, `growth.md` among them."""
    layers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Summaries by layer for the atlas: what the estimand begins with, before the layer's number,
    to the quantity where they are drawn and what they are instead of it, in words."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Tables of its own that ship, by the name under which an analysis reads them: their names for
    `read_table`."""
    read_table: str = ""
    """Function `(name) -> DataFrame` that reads them."""
    apart: str = ""
    """Models of its own that are no rows of the table `models`, in a sentence for pages and
    listings of models."""
    verbs: str = ""
    """Typer application of its commands."""


def list_study_models() -> list[str]:
    """What studies say of models that are no rows of the table `models`."""
    return [study.apart for study in load_studies().values() if study.apart]


def list_further_statements() -> tuple[str, ...]:
    """Claims and findings of one observation, by id, in the order of their studies."""
    studies = sorted(load_studies().values(), key=lambda study: study.letter)
    return tuple(chain.from_iterable(study.report.further for study in studies))


@cache
def load_studies() -> dict[str, Study]:
    """Registered studies by name: those of each module in the package's own studies, then the entry
    points."""
    folder = Path(__file__).parents[1] / "studies"
    shipped = (import_module(f"{GROUP}.{module.name}") for module in iter_modules([str(folder)]))
    registered: list[Study] = []
    for module in shipped:
        registered += [value for value in vars(module).values() if isinstance(value, Study)]
    registered += [entry.load() for entry in entry_points(group=GROUP)]
    return {study.name: study for study in registered}


def find_study(claim: str) -> Study | None:
    """The study whose claim this is, by the first letter of its id; None for a user's own."""
    letter = claim[:1].upper()
    return next(
        (study for study in load_studies().values() if letter and study.letter == letter), None
    )


def find_account(claims: Iterable[str]) -> str:
    """The module of the page that weighs the claims of a study; empty where none of these is of a
    study with one."""
    of_claims = filter(None, map(find_study, claims))
    return next((study.account for study in of_claims if study.account), "")


def load_named(path: str) -> Any:
    """The module `package.module`, or what it calls `name` for `package.module:name`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)


ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that limit linear algebra to one thread, so that sums come in one order; read when
numpy is loaded."""
NAME = re.compile(r"([a-z]\d\d)_\w+\.py")
"""A letter for whose claim it is (a study's, or u: the user's), two digits, what it is about."""


LATER = re.compile(r"partial\(\s*(fit_\w+)")
"""A fit that a script leaves for later."""


def group_claims(paths: Mapping[str, Path]) -> list[tuple[str, ...]]:
    """Claims whose scripts leave fits of one law for later, which compile the same model, by
    law."""
    laws: dict[str, list[str]] = {}
    for claim, path in paths.items():
        for law in set(LATER.findall(path.read_text(encoding="utf-8"))):
            laws.setdefault(law, []).append(claim)
    return [tuple(claims) for claims in laws.values()]


def is_own(claim: str) -> bool:
    """True for a user's claim: one of no registered study."""
    return find_study(claim) is None


def list_scripts(analyses: str | Path) -> dict[str, Path]:
    """Scripts such as `c01_depth.py` of a folder by the claim's id (`C01`), in order.

    Raises UsageError where there is no such folder or no analysis in it, DataError where two are of
    one claim.
    """
    folder = Path(analyses)
    if not folder.is_dir():
        raise UsageError(
            "no such folder of analyses", where=folder, next_step="name one with --analyses"
        )
    paths: dict[str, Path] = {}
    for path in sorted(folder.glob("*.py")):
        if match := NAME.fullmatch(path.name):
            claim = match[1].upper()
            if claim in paths:
                raise DataError(
                    f"two analyses of claim {claim}",
                    where=folder,
                    got=f"{paths[claim].name}, {path.name}",
                )
            paths[claim] = path
    if not paths:
        raise UsageError(
            "no analyses in this folder",
            where=folder,
            allowed="files named like u01_depth.py",
            next_step=f"{write_command('new', 'claim', 'depth', folder=folder)} writes one",
        )
    return paths


def choose_claims(claims: Sequence[str] | None, paths: Mapping[str, Path]) -> list[str]:
    """Ids of the claims asked for, whatever their case; all without any.

    Raises UsageError for one that the folder does not have.
    """
    if claims is None:
        return list(paths)
    wanted = [claim.upper() for claim in claims]
    if unknown := [claim for claim in wanted if claim not in paths]:
        elsewhere = bool(paths) and all(map(is_own, paths)) and not is_own(unknown[0])
        shipped = "claims that ship with the package are reported without --analyses"
        other = shipped if elsewhere else "thermostats ls claims"
        padded = f"{unknown[0][:1]}{unknown[0][1:].zfill(2)}"  # C4 is C04, not C14
        step = (
            f"did you mean {padded}?"
            if padded in paths
            else suggest_nearest(unknown[0], paths, other)
        )
        raise UsageError(
            "no such claim", got=", ".join(unknown), allowed=", ".join(paths), next_step=step
        )
    return list(dict.fromkeys(wanted))


def list_script_files(script: Path) -> list[Path]:
    """An analysis and the file of its words, where it has one."""
    return [path for path in (script, script.with_suffix(".md")) if path.is_file()]

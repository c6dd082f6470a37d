"""A report as it stands in its folder, and what of it is stale; nothing is run or made here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from thermostats.claims.scripts import with_words
from thermostats.claims.study import named, studies
from thermostats.formatting import listed, plural
from thermostats.reporting.digest import PACKAGE, sha, sha_of
from thermostats.reporting.layout import Layout
from thermostats.reporting.names import CHECKSUMS, findings_name, folder_of
from thermostats.reporting.pages import PAGES
from thermostats.reporting.posteriors import Posteriors, posteriors
from thermostats.reporting.stale import NEW, Record, stale_because
from thermostats.tables import folders

if TYPE_CHECKING:
    from thermostats.claims.evidence import Evidence

INDEX, MEANS, METHODS, DATA, BUNDLE = "index", "means", "methods", "data", "bundle"
ABOUT = tuple(name for name, page in PAGES.items() if page.at_once)
"""Pages about all claims that are made at once, in this order; a report of some claims alone begins with INDEX only."""
FILES = {BUNDLE: "thermostats-report.html"}
ROWS = ("*.csv", "*.parquet")
"""Files that rows are read from."""
PRIVATE = "private"
"""Folder of texts that no analysis reads."""


def navigation(there: Collection[str] = tuple(PAGES)) -> dict[str, str]:
    """Titles by file of the pages that every page leads to, of those that are there."""
    return {f"{name}.html": page.title for name, page in PAGES.items() if page.in_navigation and name in there}


def pages_of_tables() -> dict[str, str]:
    """Pages that take time to make, by name: modules with a function `files(tables)`, the studies' first."""
    of_studies = {name: module for study in studies().values() for name, module in study.pages.items()}
    return of_studies | {n: f"{PACKAGE}.reporting.pages.{n}" for n, page in PAGES.items() if not page.at_once}


@dataclass
class State:
    """A report: where it lies, what it is of, what it was made of."""

    out: Path
    data: Path
    scripts: Mapping[str, Path]
    records: dict[str, Record]
    all_claims: bool
    """Of all claims; else of pages about all of them the index, and those that are there already."""
    draw: bool = False
    """Posteriors that PyMC alone can draw are drawn."""
    command: str = "thermostats report --all"
    """What is run, as one would type it."""
    errors: dict[str, str] = field(default_factory=dict)
    """Why an analysis that was run now gave nothing, by claim."""

    @cached_property
    def pages(self) -> dict[str, str]:
        """Pages that take time to make, by name, with their modules."""
        return pages_of_tables()

    @cached_property
    def about(self) -> tuple[str, ...]:
        """Pages about all claims that this report has, of those that are made at once, in their order."""
        return tuple(name for name in ABOUT if self.all_claims or name == INDEX or name in self.records)

    @cached_property
    def navigation(self) -> dict[str, str]:
        """Titles of the pages that every page leads to, by file."""
        there = {*self.about, *(self.pages if self.all_claims else self.made())}
        return navigation(there)

    @property
    def claims(self) -> list[str]:
        """Claims that the report shows: of the analyses at hand, and in a report of some of them what else is there."""
        others = [n for n, record in self.records.items() if findings_name(n) in record.files and not self.all_claims]
        return list(dict.fromkeys([*self.scripts, *others]))

    @property
    def names(self) -> set[str]:
        """Claims and pages that the report can have."""
        return {*self.scripts, *self.pages, *ABOUT}

    @cached_property
    def layout(self) -> Layout:
        """Where tables and analyses are, seen from the pages."""
        return Layout(self.out, self.data, tuple(self.scripts.values()))

    @cached_property
    def evidence(self) -> Evidence:
        """The tables as analyses see them."""
        from thermostats.claims.evidence import Evidence  # noqa: PLC0415 - while no file changed, no row is read

        return Evidence(self.data)

    @cached_property
    def tables(self) -> str:
        """SHA-256 over all files that rows may be read from; empty where a study from elsewhere reads its own."""
        if any(study.tables and not study.read_table.startswith(f"{PACKAGE}.") for study in studies().values()):
            return ""
        within = {folders.shipped("data"), *folders.layers(self.data)}
        files = [(path, folder) for folder in sorted(within) for kind in ROWS for path in folder.rglob(kind)]
        named_in = sorted((path.relative_to(folder).as_posix(), path) for path, folder in files)
        return sha_of([(name, sha(path.read_bytes())) for name, path in named_in if not name.startswith(f"{PRIVATE}/")])

    @cached_property
    def posteriors(self) -> Posteriors:
        """What the shipped snapshot has of posteriors that are not drawn."""
        return posteriors()

    def made_of(self, name: str) -> bytes:
        """What a claim's page, or a page about all claims, is made of, but for rows and the package."""
        if path := self.scripts.get(name):
            return b"\0".join([*(file.read_bytes() for file in with_words(path)), self._rates(name)])
        if module := self.pages.get(name):
            return b"" if module.startswith(f"{PACKAGE}.") else Path(str(named(module).__file__)).read_bytes()
        return sha_of(self._shown(name)).encode()

    def now(self, name: str) -> Record:
        """The record of a page if it were made now; without rows and files."""
        drawn = "" if self.draw or name not in self.scripts else self.posteriors.digest(name)
        return Record.of(self.made_of(name), self.navigation, self.tables, drawn)

    def stale_because(self, name: str) -> str:
        """Why a claim's page, or a page about all claims, is stale; empty where it is fresh."""
        return stale_because(self.records.get(name), self.now(name), lambda: self._rows(name), self.out)

    def checksums_stale(self) -> str:
        """Why the list of checksums is stale; empty where it is fresh, or where no page says how to verify it."""
        path = self.out / CHECKSUMS
        if DATA not in self.about:
            return ""
        if not path.is_file():
            return NEW
        return "" if path.read_bytes() == self.layout.checksums(self.records) else "files that it lists changed"

    def file_of(self, name: str) -> str:
        """HTML file of a claim or page."""
        return f"{folder_of(name)}/index.html" if name in self.claims else FILES.get(name, f"{name}.html")

    def made(self) -> list[str]:
        """Pages that take time to make and that the report has."""
        return [name for name in self.pages if name in self.records]

    def bundled(self) -> dict[str, str]:
        """SHA-256 of the pages that the bundle holds, in their order in it."""
        order = [INDEX, MEANS, *self.claims, *self.pages, METHODS, DATA]
        files = {self.file_of(name): self.records[name].files for name in order if name in self.records}
        return {file: digests.get(file, "") for file, digests in files.items() if (self.out / file).is_file()}

    def _rates(self, claim: str) -> bytes:
        """Lines of the table of simulated worlds that are of the claim's rules."""
        path = folders.shipped("data") / "worlds.csv"
        lines = path.read_bytes().splitlines() if path.is_file() else []
        return b"\n".join(line for line in lines if line.startswith(f"{claim}.".encode()))

    def _rows(self, name: str) -> str:
        """SHA-256 of the rows that a claim's findings, or a page, would be made of; loads the tables.

        Empty where some of them have to be made anew; of pages that show findings alone no rows are read.
        """
        if name in ABOUT:
            return ""
        from thermostats.claims.stored import Stored  # noqa: PLC0415 - as above

        return Stored(self.pages.get(name, name), self.now(name).digest).rows(self.evidence)

    def _shown(self, name: str) -> object:
        """Everything that a page about all claims shows, as far as its code does not say it."""
        if name == DATA:
            return [[file.name, file.sha] for file in (*self.layout.tables, *self.layout.analyses)]
        if name == BUNDLE:
            return self.bundled()
        if name == METHODS:
            return ""
        built = {claim: self.records[claim] for claim in self.claims if claim in self.records}
        findings = {claim: record.files.get(findings_name(claim)) for claim, record in built.items()}
        return [self.claims, findings, self.errors, self.made(), self.about, self.tables]


def counted(names: Iterable[str]) -> str:
    """Claims and pages about all of them, in words."""
    there = list(names)
    claims = sum(len(name) == 3 and name[1:].isdigit() for name in there)  # C04
    pages = len(there) - claims - (CHECKSUMS in there)
    counts = [plural(claims, "claim")] * bool(claims)
    counts += [f"{plural(pages, 'page')} about all claims"] * bool(pages)
    return listed([*counts, *["the list of checksums"] * (CHECKSUMS in there)])

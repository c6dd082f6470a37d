"""A report in the making: what its pages are made of, which of them are stale, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from thermostats.claims.evidence import Evidence
from thermostats.reporting import index_page, memory
from thermostats.reporting.bundle import bundle_files
from thermostats.reporting.claim_page import Entry, claim_files, findings_name, folder_of, read_entry
from thermostats.reporting.data_page import data_files
from thermostats.reporting.freshness import (
    Record,
    inputs_sha,
    page_sha,
    remove_files,
    sha,
    sha_of,
    stale_because,
    write_files,
    write_manifest,
)
from thermostats.reporting.imports import code_sha
from thermostats.reporting.layout import CHECKSUMS, Layout
from thermostats.reporting.methods import methods_files
from thermostats.reporting.rendering import BUNDLE, DATA, INDEX, METHODS, NAMES
from thermostats.reporting.runner import PAGES, Run

ABOUT = (METHODS, DATA, INDEX, BUNDLE)
"""Pages about all claims that are made at once, in this order."""
MODULES = {
    **PAGES,
    METHODS: "thermostats.reporting.methods",
    DATA: "thermostats.reporting.data_page",
    INDEX: "thermostats.reporting.index_page",
    BUNDLE: "thermostats.reporting.bundle",
}
"""Modules that render the pages about all claims."""


@dataclass
class Build:
    """A report in the making."""

    out: Path
    scripts: Mapping[str, Path]
    tables: Evidence
    records: dict[str, Record]
    failed: dict[str, Run] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @cached_property
    def layout(self) -> Layout:
        """Where tables and analyses are, seen from the pages."""
        return Layout(self.out, self.tables.data, tuple(self.scripts.values()))

    def now(self, name: str) -> Record:
        """What the pages of a claim, or a page about all claims, would be made of now; without selections and "
        "files."""
        if path := self.scripts.get(name):
            return Record(sha(path.read_bytes()), code_sha(path), page_sha("thermostats.reporting.claim_page"))
        told = {DATA: self._listed, INDEX: self._told, BUNDLE: self._pages}.get(name)
        return Record(sha_of(told()) if told else "", "", page_sha(MODULES[name]))

    def stale_because(self, name: str) -> str:
        """Why a claim's pages, or a page about all claims, are stale; empty where they are fresh."""
        return stale_because(self.records.get(name), self.now(name), self.tables, self.out)

    def take(self, name: str, run: Run) -> None:
        """Write the pages of an analysis that ran, or keep its error."""
        if run.error:
            self.failed[name] = run
            return
        now, path, files = self.now(name), self.scripts.get(name), run.files
        if path:
            hashes = {"inputs": inputs_sha(now.script, run.selections), "script": now.script, "code": now.code}
            files = claim_files(run, path.name, hashes)
        self._write(name, replace(now, selections=run.selections), files)

    def remembered(self, name: str) -> Run | None:
        """Result of an analysis of which nothing changed but the code of its page."""
        return memory.load(self.records[name]) if name in self.records and name not in PAGES else None

    def remember(self, name: str, run: Run) -> None:
        """Keep the result of an analysis for when only the code of its page changes."""
        if not run.error and name not in PAGES:
            memory.save(self.records[name], run)

    def finish(self, gone: Sequence[str]) -> None:
        """Remove what is no more, write the pages about all claims that are stale, then the lists of checksums."""
        for name in gone:
            self.removed += remove_files(self.out, self.records.pop(name).files)
        made = {METHODS: methods_files, DATA: self._data, INDEX: self._index, BUNDLE: self._bundle}
        for name in ABOUT:
            if self.stale_because(name):
                self._write(name, self.now(name), made[name]())
        write_manifest(self.out, self.records)
        self.written += write_files(self.out, {CHECKSUMS: self.layout.checksums(self.records)})

    def checksums_stale(self) -> str:
        """Why the list of checksums is stale; empty where it is fresh."""
        path = self.out / CHECKSUMS
        if not path.is_file():
            return "not built yet"
        return "" if path.read_bytes() == self.layout.checksums(self.records) else "files that it lists changed"

    def _write(self, name: str, record: Record, files: Mapping[str, bytes]) -> None:
        old = self.records.get(name)
        self.written += write_files(self.out, files)
        self.removed += remove_files(self.out, set(old.files if old else ()) - set(files))
        self.records[name] = replace(record, files={file: sha(content) for file, content in files.items()})

    def _data(self) -> dict[str, bytes]:
        return data_files(self.layout, self.tables.fork())

    def _index(self) -> dict[str, bytes]:
        entries = [self._entry(claim) for claim in self.scripts]
        return index_page.index_files(
            entries, self.tables.fork(), self._others(), page_sha("thermostats.reporting.index_page")
        )

    def _bundle(self) -> dict[str, bytes]:
        names = list(self._pages())
        pages = {name: (self.out / name).read_bytes() for name in names}
        titles = {
            f"{folder_of(claim)}/index.html": f"{claim} {entry.claim.title}"
            for claim in self.scripts
            if (entry := self._entry(claim)).claim
        }
        return bundle_files(pages, titles, lambda name: (self.out / name).read_bytes())

    def _entry(self, claim: str) -> Entry:
        if run := self.failed.get(claim):
            return Entry(claim, run.claim, error=run.error)
        path = self.out / findings_name(claim)
        known = claim in self.records and path.is_file()
        return read_entry(path.read_bytes()) if known else Entry(claim, None)

    def _others(self) -> list[str]:
        """Pages about all claims that the report has beside those that it always has."""
        return [name for name in PAGES if name in self.records]

    def _told(self) -> list[object]:
        """Everything that the index tells of."""
        listed = {claim: self.records[claim] for claim in self.scripts if claim in self.records}
        findings = {claim: record.files.get(findings_name(claim)) for claim, record in listed.items()}
        reader = self.tables.fork()
        index_page.read(reader)
        errors = {claim: run.error for claim, run in self.failed.items()}
        return [list(self.scripts), findings, errors, reader.selections, self._others()]

    def _listed(self) -> list[object]:
        """Everything that the data page lists."""
        return [[listed.name, listed.sha] for listed in (*self.layout.tables, *self.layout.analyses)]

    def _pages(self) -> dict[str, str]:
        """SHA-256 of the pages that the bundle holds, in their order in it."""
        order = [INDEX, *self.scripts, *PAGES, METHODS, DATA]
        names = {name: NAMES.get(name, f"{folder_of(name)}/index.html") for name in order if name in self.records}
        files = {file: self.records[name].files.get(file, "") for name, file in names.items()}
        return {file: digest for file, digest in files.items() if (self.out / file).is_file()}

"""Build the report: run the analyses whose inputs changed, write their pages, then the pages about all claims."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from thermostats.claims.evidence import Evidence
from thermostats.claims.run import Run, run_all
from thermostats.claims.scripts import chosen, scripts
from thermostats.claims.study import named, studies
from thermostats.reporting import snapshot as kept
from thermostats.reporting.pages import index as index_page
from thermostats.reporting.pages.bundle import bundle
from thermostats.reporting.pages.claim import Entry, claim_files, findings_name, folder_of, read_entry
from thermostats.reporting.pages.data import CHECKSUMS, Layout, data_text, with_words
from thermostats.reporting.pages.methods import methods_text
from thermostats.reporting.render import Page, html
from thermostats.reporting.stale import (
    OWN,
    PAGE_CODE,
    Record,
    closure,
    machine,
    module_file,
    read_manifest,
    read_seconds,
    record_now,
    remove_files,
    sha_of,
    stale_because,
    write_files,
    write_manifest,
    write_seconds,
)
from thermostats.tables import store
from thermostats.tables.atomic import only_writer
from thermostats.words import listed, plural

INDEX, METHODS, DATA, BUNDLE, ATLAS = "index", "methods", "data", "bundle", "atlas"
ABOUT = (METHODS, DATA, INDEX, BUNDLE)
"""Pages about all claims that are made at once, in this order."""
FILES = {BUNDLE: "thermostats-report.html"}
TITLES = {INDEX: "All claims", METHODS: "Methods", DATA: "Data", ATLAS: "Layer atlas", BUNDLE: "All in one file"}
NAVIGATION = {f"{name}.html": TITLES[name] for name in (INDEX, METHODS, DATA)}
STATES = {"built": "built", "fresh": "up to date", "stale": "stale", "broken": "failed"}


@dataclass(frozen=True)
class Outcome:
    """What became of one claim or page: `fresh`, `stale`, `built` or `broken`, and why."""

    claim: str
    status: str
    why: str = ""


@dataclass(frozen=True)
class Result:
    """What a report run did: outcomes by claim, then files written and removed, relative to the report's folder."""

    ok: bool
    """No analysis broke; with `check`, nothing is stale."""
    out: str
    outcomes: tuple[Outcome, ...]
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    seconds: float = 0.0
    differ: tuple[str, ...] = ()
    """Findings that differ from the folder's snapshot by more than chance explains, a line each."""

    def __str__(self) -> str:
        """Lines for a terminal: what is not as it was, then a summary."""
        width = max((len(o.claim) for o in self.outcomes), default=0) + 2
        lines = [f"{o.claim:<{width}}{o.status:<8}{o.why}".rstrip() for o in self.outcomes if o.status != "fresh"]
        lines += [f"differs from the snapshot: {line}" for line in self.differ]
        by_status = {status: [o.claim for o in self.outcomes if o.status == status] for status in STATES}
        states = "; ".join(f"{STATES[status]}: {_counted(names)}" for status, names in by_status.items() if names)
        lines.append(f"{states}; {plural(len(self.written), 'file')} written in {self.seconds:.1f} s")
        lines.append(f"{self.out}/index.html")
        return "\n".join(lines)


def report(
    claims: Sequence[str] | None = None,
    *,
    data: str | Path | None = None,
    out: str | Path = "reports",
    analyses: str | Path | None = None,
    check: bool = False,
    force: bool = False,
    snapshot: bool = False,
    processes: int | None = None,
) -> Result:
    """Run the analyses whose script, code or rows changed and write the report; with `check`, only say which are stale.

    claims: ids such as C04; None: all, and pages of claims that are no more are removed. force: run them all the same;
    draws made before still come from the cache. snapshot: write the files that are kept under version control, too.
    processes: analyses run side by side in so many; 1: in this one.

    Raises UsageError for an unknown claim or folder, DataError where a table is damaged or a file cannot be written.
    """
    started, folder = time.perf_counter(), Path(out)
    found = scripts(analyses if analyses is not None else store.shipped("analyses"))
    with nullcontext() if check else only_writer(folder):
        build = Build(folder, found, Evidence(data), read_manifest(folder))
        wanted = chosen(claims, found) + (list(build.pages) if claims is None else [])
        reasons = {name: build.stale_because(name) for name in wanted}
        gone = [name for name in build.records if name not in build.names] if claims is None else []
        if check:
            return _checked(build, reasons, gone, claims is None, started)
        reasons = {name: why or ("forced" if force else "") for name, why in reasons.items()}
        if snapshot:
            build.written += kept.begin(folder)
        _run(build, reasons, processes)
        build.finish(gone)
        if snapshot:
            build.snapshot()
    statuses = {name: ("built" if why else "fresh", why) for name, why in reasons.items() if name in found}
    statuses |= {name: ("broken", run.error) for name, run in build.failed.items()}
    outcomes = tuple(Outcome(name, *status) for name, status in statuses.items())
    written, removed = tuple(sorted(build.written)), tuple(sorted(build.removed))
    seconds = time.perf_counter() - started
    return Result(not build.failed, str(folder), outcomes, written, removed, seconds, build.differences())


def _checked(build: Build, reasons: dict[str, str], gone: Sequence[str], whole: bool, started: float) -> Result:
    reasons |= dict.fromkeys(gone, "its analysis is no more")
    if whole:
        reasons |= {name: build.stale_because(name) for name in ABOUT} | {CHECKSUMS: build.checksums_stale()}
    outcomes = tuple(Outcome(name, "stale" if why else "fresh", why) for name, why in reasons.items())
    return Result(not any(reasons.values()), str(build.out), outcomes, seconds=time.perf_counter() - started)


def _run(build: Build, reasons: Mapping[str, str], processes: int | None) -> None:
    """Run what is stale, those that take long first, and write each result as it comes."""
    seconds = read_seconds(build.out)
    jobs: dict[str, Path | str] = {}
    for name, why in reasons.items():
        if why == PAGE_CODE and name in build.scripts:
            build.render(name)
        elif why:
            jobs[name] = build.pages.get(name) or build.scripts[name]
    most = {name: len(closure(job)) if isinstance(job, Path) else 0 for name, job in jobs.items()}
    slowest_first = dict(sorted(jobs.items(), key=lambda job: (-seconds.get(job[0], 0.0), -most[job[0]])))
    begun = f"{build.out}: building {_counted(jobs)}; a line as each is done"
    runs = run_all(slowest_first, build.tables.data, processes) if jobs else ()
    for name, run in _shown(runs, len(jobs), begun):
        build.take(name, run)
        seconds[name] = round(run.seconds, 1)
        write_seconds(build.out, {name: took for name, took in seconds.items() if name in build.names})


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
    def pages(self) -> dict[str, str]:
        """Pages that take time to make, by name: modules with a function `files(tables)`."""
        own = {name: module for study in studies().values() for name, module in study.pages.items()}
        return {**own, ATLAS: "thermostats.reporting.pages.atlas"}

    @property
    def names(self) -> set[str]:
        """Claims and pages that the report can have."""
        return {*self.scripts, *self.pages, *ABOUT}

    @cached_property
    def layout(self) -> Layout:
        """Where tables and analyses are, seen from the pages."""
        return Layout(self.out, self.tables.data, tuple(self.scripts.values()))

    @cached_property
    def is_kept(self) -> bool:
        """True where the index's Markdown and the table of findings are a snapshot's."""
        return kept.is_kept(self.out)

    def now(self, name: str) -> Record:
        """What a claim's page, or a page about all claims, would be made of now; without rows and files."""
        if path := self.scripts.get(name):
            made_of = b"\0".join(file.read_bytes() for file in with_words(path))
            return record_now(made_of, path, OWN / "pages" / "claim.py")
        if module := self.pages.get(name):
            return record_now(b"", module_file(module) or Path(str(named(module).__file__)))
        shows, _ = self._about[name]
        return record_now(sha_of(shows()).encode(), OWN / "pages" / f"{name}.py")

    def stale_because(self, name: str) -> str:
        """Why a claim's page, or a page about all claims, is stale; empty where it is fresh."""
        return stale_because(self.records.get(name), self.now(name), self.tables, self.out)

    def take(self, name: str, run: Run) -> None:
        """Write the pages of an analysis that ran, or keep its error."""
        if run.error:
            self.failed[name] = run
            return
        now, files = replace(self.now(name), selections=run.selections), run.files
        if path := self.scripts.get(name):
            assert run.claim is not None  # noqa: S101
            made_of = {name: getattr(now, name) for name in ("inputs", "script", "code")}
            made_of |= {"selections": len(run.selections), "machine": machine()}
            files = claim_files(run.claim, run.findings, run.figures, run.panels, path.name, made_of)
        self._write(name, now, files)
        write_manifest(self.out, self.records)

    def render(self, name: str) -> None:
        """Make a page's HTML anew from the Markdown that is there."""
        record = self.records[name]
        files = {file: (self.out / file).read_bytes() for file in record.files if file != self._file(name)}
        self._write(name, replace(record, page=self.now(name).page), files)

    def finish(self, gone: Sequence[str]) -> None:
        """Remove what is no more, write the pages about all claims that are stale, then the lists of checksums."""
        for name in gone:
            self.removed += remove_files(self.out, self.records.pop(name).files)
        for name, (_, made) in self._about.items():
            if self.stale_because(name):
                self._write(name, self.now(name), made())
        write_manifest(self.out, self.records)
        self.written += write_files(self.out, {CHECKSUMS: self.layout.checksums(self.records)})

    def snapshot(self) -> None:
        """Write what is kept under version control."""
        index = index_page.index_text(self._entries(), {}, "{}.md")
        written, removed = kept.snapshot(self.out, list(self.scripts), index, self._findings())
        self.written += written
        self.removed += removed

    def differences(self) -> tuple[str, ...]:
        """Findings that differ from the folder's snapshot."""
        return kept.differences(self.out, index_page.findings_table(self._entries())) if self.is_kept else ()

    def checksums_stale(self) -> str:
        """Why the list of checksums is stale; empty where it is fresh."""
        path = self.out / CHECKSUMS
        if not path.is_file():
            return "not built yet"
        return "" if path.read_bytes() == self.layout.checksums(self.records) else "files that it lists changed"

    def _write(self, name: str, record: Record, files: Mapping[str, bytes]) -> None:
        """Write files of a claim or page, with the HTML of its Markdown."""
        file, old = self._file(name), self.records.get(name)
        source = file.replace(".html", ".md")
        if source in files and file not in files:
            page = Page(file, files[source].decode())
            scripts = ["claims.js"] if name == INDEX else []
            made = html(page, lambda n: files[n], scripts, pages=NAVIGATION, whole=False)
            files = {**files, file: made}
        if name == INDEX and self.is_kept:
            files = {kept.NOW if n == kept.TABLE else n: content for n, content in files.items() if n != kept.INDEX}
        self.written += write_files(self.out, files)
        theirs = {kept.TABLE, kept.INDEX} if self.is_kept else set()
        self.removed += remove_files(self.out, set(old.files if old else ()) - set(files) - theirs)
        self.records[name] = record.made(record.selections, files)

    def _file(self, name: str) -> str:
        """HTML file of a claim or page."""
        return f"{folder_of(name)}/index.html" if name in self.scripts else FILES.get(name, f"{name}.html")

    @cached_property
    def _about(self) -> dict[str, tuple[Callable[[], object], Callable[[], dict[str, bytes]]]]:
        """Pages about all claims that are made at once, in this order: what each shows, and its files."""
        return {
            METHODS: (str, lambda: {"methods.md": methods_text().encode()}),
            DATA: (
                lambda: [[listed.name, listed.sha] for listed in (*self.layout.tables, *self.layout.analyses)],
                lambda: {"data.md": data_text(self.layout, self.tables.fork()).encode(), **self.layout.copies()},
            ),
            INDEX: (self._indexed, lambda: {kept.INDEX: self._index_text().encode(), kept.TABLE: self._findings()}),
            BUNDLE: (self._bundled, self._bundle),
        }

    def _index_text(self) -> str:
        others = {name: TITLES.get(name) or name.capitalize() for name in (*self._made(), METHODS, DATA)}
        table = kept.NOW if self.is_kept else kept.TABLE
        return index_page.index_text(self._entries(), others, findings=table)

    def _findings(self) -> bytes:
        return store.to_csv(index_page.findings_table(self._entries()), "findings")

    def _bundle(self) -> dict[str, bytes]:
        sources = {file: self.out / file.replace(".html", ".md") for file in self._bundled() if file != "index.html"}
        pages = [Page("index.html", self._index_text())]
        pages += [Page(file, source.read_text(encoding="utf-8")) for file, source in sources.items()]
        return {FILES[BUNDLE]: bundle(pages, ["atlas.html"], lambda name: (self.out / name).read_bytes())}

    def _entries(self) -> list[Entry]:
        entries = []
        for claim in self.scripts:
            path, run = self.out / findings_name(claim), self.failed.get(claim)
            if run is not None:
                entries.append(Entry(claim, run.claim, error=run.error))
            elif claim in self.records and path.is_file():
                entries.append(read_entry(path.read_bytes()))
            else:
                entries.append(Entry(claim, None))
        return entries

    def _made(self) -> list[str]:
        """Pages about all claims that the report has besides those that it always has."""
        return [name for name in self.pages if name in self.records]

    def _indexed(self) -> list[object]:
        """Everything that the index shows."""
        listed = {claim: self.records[claim] for claim in self.scripts if claim in self.records}
        findings = {claim: record.files.get(findings_name(claim)) for claim, record in listed.items()}
        errors = {claim: run.error for claim, run in self.failed.items()}
        return [list(self.scripts), findings, errors, self._made(), self.is_kept]

    def _bundled(self) -> dict[str, str]:
        """SHA-256 of the pages that the bundle holds, in their order in it."""
        order = [INDEX, *self.scripts, *self.pages, METHODS, DATA]
        files = {self._file(name): self.records[name].files for name in order if name in self.records}
        return {file: digests.get(file, "") for file, digests in files.items() if (self.out / file).is_file()}


def _counted(names: Iterable[str]) -> str:
    """Claims and pages about all of them, in words."""
    there = list(names)
    claims = sum(len(name) == 3 and name[1:].isdigit() for name in there)  # C04
    pages = len(there) - claims - (CHECKSUMS in there)
    counts = [plural(claims, "claim")] * bool(claims)
    counts += [f"{plural(pages, 'page')} about all claims"] * bool(pages)
    return listed([*counts, *["the list of checksums"] * (CHECKSUMS in there)])


def _shown(runs: Iterable[tuple[str, Run]], total: int, begun: str) -> Iterator[tuple[str, Run]]:
    """The same results as they come, with a bar on a terminal, elsewhere a line at the start and for each."""
    console = Console(stderr=True)
    if not console.is_terminal:
        if total:
            print(begun, file=sys.stderr, flush=True)
        for number, (name, run) in enumerate(runs, 1):
            state = "failed" if run.error else "done"
            print(f"{name} {state} in {run.seconds:.1f} s ({number} of {total})", file=sys.stderr, flush=True)
            yield name, run
        return
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not total) as bar:
        task = bar.add_task("analysing", total=total)
        for name, run in runs:
            bar.update(task, advance=1, description=f"done: {name}")
            yield name, run

"""Make what is stale of a report: run analyses, write their pages, then the pages about all
claims."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from thermostats.claims.evidence import NAMES_FOLDER
from thermostats.claims.finding import Convergence, EarlierDraws, Undrawn, check_agreement
from thermostats.claims.run import Run, run_all
from thermostats.claims.stored import Made, hash_selections
from thermostats.claims.study import group_claims, load_named
from thermostats.reporting import pages as called
from thermostats.reporting import snapshot
from thermostats.reporting.articles import Articles
from thermostats.reporting.claim_page import Entry, build_claim_files, read_entry
from thermostats.reporting.pages import (
    CHECKSUMS,
    PAGES,
    SECONDS,
    SHIPPED_SECONDS,
    SNAPSHOT,
    read_origin,
)
from thermostats.reporting.pages import index as index_page
from thermostats.reporting.pages.data import render_data_page
from thermostats.reporting.pages.methods import build_methods_files
from thermostats.reporting.pages.sources import count_evidence
from thermostats.reporting.pages.worlds import render_worlds_page
from thermostats.reporting.render import Page, build_bundle, render_page
from thermostats.reporting.state import (
    BUNDLE,
    DATA,
    FIGURES,
    FILES,
    GROWTH,
    INDEX,
    LINKS,
    METHODS,
    WORLDS,
    Posteriors,
    Record,
    State,
    describe_machine,
    describe_pages,
    dump_json,
    hash_content,
    hash_inputs,
    hash_package,
    remove_files,
    write_files,
    write_manifest,
)
from thermostats.tables import store
from thermostats.tables.folders import find_shipped


def add_earlier_posterior(made: Made, posteriors: Posteriors, inputs: str) -> Made:
    """The finding with what the snapshot has of its posterior, or why it has nothing; others as
    they are.

    inputs: SHA-256 of what it is made of.
    """
    finding = made.finding
    posterior = finding.posterior
    if not isinstance(posterior, Undrawn):
        return made
    row = posteriors.find_row(finding.id, finding.sample.evidence, inputs)
    if isinstance(row, str):
        return replace(made, finding=replace(finding, posterior=replace(posterior, why=row)))
    number = {}
    for name in FIGURES:
        number[name] = float(row[name]) if row[name] else None
    probability = float(row["posterior"])
    earlier = EarlierDraws(probability=probability, error=number["mc_error"], drawn=row["drawn"])
    counted = number["divergences"]
    divergences = None if counted is None else int(counted)
    mixed = Convergence(
        rhat_max=number["rhat_max"], ess_min=number["ess_min"], divergences=divergences
    )
    posterior = replace(posterior, earlier=earlier)
    return replace(made, finding=replace(finding, posterior=posterior, convergence=mixed))


@dataclass(frozen=True)
class About:
    """What a report says of all claims."""

    state: State
    failed: Mapping[str, Run]
    """Analyses that gave nothing, by claim."""

    def check(self) -> None:
        """Raise DataError where two findings decide one statement both ways."""
        check_agreement(chain.from_iterable(entry.findings for entry in self._entries))

    def build_files(self, name: str) -> dict[str, bytes]:
        """Files of one of these pages."""
        state = self.state
        if name == GROWTH:
            answered = (entry.findings for entry in self._entries if not entry.error)
            findings = list(chain.from_iterable(answered))
            account = load_named(state.account)
            files: dict[str, bytes] = account.build_files(findings, state.evidence.fork())
            return files
        if name == METHODS:
            return build_methods_files()
        if name == WORLDS:
            page = render_worlds_page(self._entries, self._read_file)
            return {f"{WORLDS}.md": page.encode()}
        if name == DATA:
            page = render_data_page(state.layout, state.evidence.fork())
            return {"data.md": page.encode(), **state.layout.collect_copies()}
        if name == INDEX:
            texts = {called.INDEX: self._index_text().encode(), called.TABLE: self._dump_findings()}
            return texts | index_page.render_pictures(self._entries)
        if name == BUNDLE:
            return self._build_bundle()
        raise KeyError(name)

    def write_snapshot(self) -> tuple[list[str], list[str]]:
        """Write what is kept under version control; files written and removed."""
        claims = list(self.state.scripts)
        pictures = {index_page.GAIN: index_page.render_gain_picture()}
        index = index_page.index_text(
            self._entries, {}, "{}.md", sets=self._sets, illustrated=False
        )
        return snapshot.write_snapshot(
            self.state.out, claims, index, self._dump_findings(), pictures
        )

    def _index_text(self) -> str:
        state = self.state
        others = []
        for name in (GROWTH, WORLDS, METHODS, DATA):
            if name in state.about:
                others.append(name)
        titles = {}
        for name in (*others, *state.list_made_pages()):
            titles[name] = PAGES[name].title if name in PAGES else name.capitalize()
        return index_page.index_text(self._entries, titles, sets=self._sets, command=state.command)

    @cached_property
    def _sets(self) -> list[dict[str, Any]]:
        """Sets of evidence with their models and labs."""
        counts = count_evidence(self.state.evidence.fork())
        rows: list[dict[str, Any]] = counts.rename(columns=str).to_dict("records")
        return rows

    def _dump_findings(self) -> bytes:
        return store.encode_csv(index_page.build_findings_table(self._entries), "findings")

    def _build_bundle(self) -> dict[str, bytes]:
        out = self.state.out
        pages = [Page("index.html", self._index_text())]
        for file in self.state.hash_bundled():
            if file != "index.html":
                source = out / file.replace(".html", ".md")
                pages.append(Page(file, source.read_text(encoding="utf-8")))

        def read(name: str) -> bytes:
            return (out / name).read_bytes()

        articles = Articles([page.name for page in pages[1:]], read)
        return {FILES[BUNDLE]: build_bundle(pages, ["atlas.html"], read, articles.render)}

    def _read_file(self, name: str) -> bytes | None:
        """A file of the report; None where there is none."""
        path = self.state.out / name
        return path.read_bytes() if path.is_file() else None

    @cached_property
    def _entries(self) -> list[Entry]:
        """Every claim with its findings, as their files have them."""
        entries = []
        for claim in self.state.claims:
            path = self.state.out / called.name_findings_file(claim)
            run = self.failed.get(claim)
            if run is not None:
                entries.append(Entry(claim, run.claim, error=run.error))
            elif claim in self.state.records and path.is_file():
                entries.append(read_entry(path.read_bytes()))
            else:
                entries.append(Entry(claim, None))
        return entries


def load_shipped_seconds() -> dict[str, float]:
    """How long each took on another machine, so that a new one begins with those that take long."""
    return _read(find_shipped(f"reports/{SNAPSHOT}") / SHIPPED_SECONDS)


def read_seconds(out: Path) -> dict[str, float]:
    """How long each analysis took when it last ran; empty where that is not known."""
    return _read(out / SECONDS)


def _read(path: Path) -> dict[str, float]:
    try:
        seconds = json.loads(path.read_bytes())
        return {str(name): float(took) for name, took in seconds.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def write_seconds(out: Path, seconds: Mapping[str, float]) -> None:
    """Note how long each analysis took."""
    write_files(out, {SECONDS: dump_json(seconds)})


def track_progress(
    runs: Iterable[tuple[str, Run]], expected: Mapping[str, float], begun: str
) -> Iterator[tuple[str, Run]]:
    """The same results as they come, with a bar on a terminal, elsewhere a line at the start and
    for each.

    expected: seconds by job, or any numbers in proportion to them; each line says about how long
    the rest will take.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from _print_progress(runs, expected, begun)
        return
    total = len(expected)
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not total) as bar:
        task = bar.add_task("analysing", total=total)
        for name, run in runs:
            bar.update(task, advance=1, description=f"done: {name}")
            yield name, run


def _print_progress(
    runs: Iterable[tuple[str, Run]], expected: Mapping[str, float], begun: str
) -> Iterator[tuple[str, Run]]:
    """The same with a line for each."""
    if expected:
        print(begun, file=sys.stderr, flush=True)
    started = time.perf_counter()
    every = sum(expected.values())
    done = 0.0
    for number, (name, run) in enumerate(runs, 1):
        done += expected[name]
        passed = time.perf_counter() - started
        left = passed * (every - done) / max(done, 1e-9)
        state = "failed" if run.error else "done"
        last = f", about {left:.0f} s left" if number < len(expected) else ""
        place = f"{number} of {len(expected)}{last}"
        line = f"{name} {state} in {run.seconds:.1f} s ({place})"
        print(line, file=sys.stderr, flush=True)
        yield name, run


def build(
    state: State,
    reasons: Mapping[str, str],
    gone: Sequence[str],
    *,
    snapshot: bool,
    processes: int | None,
    anew: bool = False,
) -> tuple[list[str], list[str]]:
    """Make what has a reason, then what is about all claims; names of the files written and of
    those removed.

    anew: findings that are kept are not used.
    """
    made = Build(state)
    made.run(reasons, processes, anew=anew)
    made.write_remaining(reasons, gone)
    if snapshot:
        written, removed = About(state, made.failed).write_snapshot()
        return made.written + written, made.removed + removed
    return made.written, made.removed


@dataclass
class Build:
    """A report in the making."""

    state: State
    failed: dict[str, Run] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def run(self, reasons: Mapping[str, str], processes: int | None, *, anew: bool) -> None:
        """Run what is stale, those that take long first, and write each result as it comes."""
        state = self.state
        jobs: dict[str, Path | str] = {}
        for name, why in reasons.items():
            if why == LINKS and name in state.scripts:
                self.render(name)
            elif why:
                jobs[name] = state.pages.get(name) or state.scripts[name]
        if not jobs:
            return
        scripts = {}
        for name, job in jobs.items():
            if isinstance(job, Path):
                scripts[name] = job
        together = group_claims(scripts) if state.draw else []
        seconds = {**load_shipped_seconds(), **read_seconds(state.out)}
        lasts = {name: seconds.get(name, 0.0) for name in jobs}
        for names in together:
            lasts |= dict.fromkeys(names, sum(lasts[name] for name in names))
        longest_first = sorted(jobs, key=lambda name: -lasts[name])
        digests = {name: state.build_record(name).digest for name in jobs}
        ordered = {name: jobs[name] for name in longest_first}
        tables = state.evidence.fork()
        runs = run_all(
            ordered, state.data, processes, digests, anew=anew, together=together, tables=tables
        )
        usual = sum(seconds.values()) / len(seconds) if seconds else 1.0
        expected = {name: seconds.get(name, usual) for name in jobs}
        begun = f"{state.out}: building {describe_pages(jobs)}; a line as each is done"
        unkept = ""
        for name, run in track_progress(runs, expected, begun):
            self.take(name, run)
            unkept = unkept or run.unkept
            seconds[name] = round(run.seconds, 1)
            of_report = {name: took for name, took in seconds.items() if name in state.names}
            write_seconds(state.out, of_report)
        if unkept:
            store.warn_unkept(unkept)

    def take(self, name: str, run: Run) -> None:
        """Write the pages of an analysis that ran, or keep its error."""
        state = self.state
        if run.error:
            self.failed[name] = run
            state.errors[name] = run.error
            return
        rows = hash_selections(run.selections)
        folder = state.folder if NAMES_FOLDER in run.selections else ""
        now = replace(state.build_record(name), rows=rows, folder=folder)
        files = run.files
        if path := state.scripts.get(name):
            assert run.claim is not None  # noqa: S101
            script = hash_content(state.collect_inputs(name))
            made = []
            for each in run.made:
                inputs = hash_inputs(script, each.selections)
                made.append(add_earlier_posterior(each, state.posteriors, inputs))
            if not any(isinstance(each.finding.posterior, Undrawn) for each in made):
                now = replace(now, posteriors="")
            made_of = {
                "inputs": hash_inputs(script, run.selections),
                "script": script,
                "package": hash_package(),
                "selections": len(run.selections),
                "machine": describe_machine(),
            }
            files = build_claim_files(run.claim, made, path.name, made_of)
        self._write(name, now, files)
        write_manifest(self.state.out, self.state.records)

    def render(self, name: str) -> None:
        """Make a page's HTML anew from the Markdown that is there."""
        state = self.state
        record = state.records[name]
        sources = [file for file in record.files if file != state.name_file(name)]
        files = {file: (state.out / file).read_bytes() for file in sources}
        self._write(name, replace(record, links=state.build_record(name).links), files)

    def write_remaining(self, reasons: Mapping[str, str], gone: Sequence[str]) -> None:
        """Remove what is no more, write the pages about all claims that are stale, then the lists
        of checksums."""
        state = self.state
        about = About(state, self.failed)
        about.check()
        self._keep_earlier_findings()
        for name in gone:
            self.removed += remove_files(state.out, state.records.pop(name).files)
        for name in state.about:
            if state.find_stale_reason(name):
                self._write(name, state.build_record(name), about.build_files(name))
        asked = {*reasons, *state.about}
        fresh = asked & (set(state.records) - set(state.errors))
        for name in fresh:  # their rows are as they were
            state.records[name] = replace(state.records[name], tables=state.tables)
        write_manifest(state.out, state.records)
        if state.check_checksums():
            checksums = state.layout.list_checksums(state.records)
            self.written += write_files(state.out, {CHECKSUMS: checksums})

    def _keep_earlier_findings(self) -> None:
        """Keep the table of findings next to itself where the rows that it was made of changed."""
        state = self.state
        origin = read_origin(state.out)
        table = state.out / called.TABLE
        if table.is_file() and origin and origin["rows"] != state.read_files:
            self.written += write_files(state.out, {called.BEFORE: table.read_bytes()})
        state.note_origin()

    def _write(self, name: str, record: Record, files: Mapping[str, bytes]) -> None:
        """Write files of a claim or page, with the HTML of its Markdown."""
        state = self.state
        file = state.name_file(name)
        old = state.records.get(name)
        source = file.replace(".html", ".md")
        if source in files and file not in files:
            page = Page(file, files[source].decode())
            scripts = ["claims.js"] if name == INDEX else []
            html = render_page(
                page, files.__getitem__, scripts, pages=state.navigation, bundled=False
            )
            files = {**files, file: html}
        self.written += write_files(state.out, files)
        before = set(old.files) if old else set()
        self.removed += remove_files(state.out, before - set(files))
        state.records[name] = record.add_made(record.rows, files)

"""Make what is stale of a report: run analyses, write their pages, then the pages about all
claims."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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
from thermostats.reporting.pages import CHECKSUMS, PAGES, SECONDS, SHIPPED_SECONDS, SNAPSHOT
from thermostats.reporting.pages import index as index_page
from thermostats.reporting.pages.data import render_data_page
from thermostats.reporting.pages.methods import build_methods_files
from thermostats.reporting.pages.sources import count_evidence
from thermostats.reporting.pages.worlds import render_worlds_page
from thermostats.reporting.render import Page, build_bundle, render_page
from thermostats.reporting.state import (
    BUNDLE,
    DATA,
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
    hash_value,
    read_origin,
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
    finding, posterior = made.finding, made.finding.posterior
    if not isinstance(posterior, Undrawn):
        return made
    row = posteriors.find_row(finding.id, finding.sample.evidence, inputs)
    if isinstance(row, str):
        return replace(made, finding=replace(finding, posterior=replace(posterior, why=row)))
    number = {
        name: float(row[name]) if row[name] else None
        for name in ("mc_error", "rhat_max", "ess_min")
    }
    divergences = int(float(row["divergences"])) if row["divergences"] else None
    earlier = EarlierDraws(
        probability=float(row["posterior"]), error=number["mc_error"], drawn=row["drawn"]
    )
    mixed = Convergence(number["rhat_max"], number["ess_min"], divergences)
    return replace(
        made,
        finding=replace(finding, posterior=replace(posterior, earlier=earlier), convergence=mixed),
    )


@dataclass(frozen=True)
class About:
    """What a report says of all claims."""

    state: State
    failed: Mapping[str, Run]
    """Analyses that gave nothing, by claim."""

    def check(self) -> None:
        """Raise DataError where two findings decide one statement both ways."""
        check_agreement(finding for entry in self._entries for finding in entry.findings)

    def build_files(self, name: str) -> dict[str, bytes]:
        """Files of one of these pages."""
        state = self.state
        if name == GROWTH:
            findings = [
                finding for entry in self._entries if not entry.error for finding in entry.findings
            ]
            made: dict[str, bytes] = load_named(state.account).build_files(
                findings, state.evidence.fork()
            )
            return made
        if name == METHODS:
            return build_methods_files()
        if name == WORLDS:
            page = render_worlds_page(self._entries, self._read_file)
            return {f"{WORLDS}.md": page.encode()}
        if name == DATA:
            return {
                "data.md": render_data_page(state.layout, state.evidence.fork()).encode(),
                **state.layout.collect_copies(),
            }
        if name == INDEX:
            pictures = index_page.render_pictures(self._entries)
            return {
                called.INDEX: self._index_text().encode(),
                called.TABLE: self._dump_findings(),
                **pictures,
            }
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
        others = (
            *(name for name in (GROWTH, WORLDS, METHODS, DATA) if name in state.about),
            *state.list_made_pages(),
        )
        titles = {
            name: PAGES[name].title if name in PAGES else name.capitalize() for name in others
        }
        return index_page.index_text(self._entries, titles, sets=self._sets, command=state.command)

    @cached_property
    def _sets(self) -> list[dict[str, Any]]:
        """Sets of evidence with their models and labs."""
        rows = count_evidence(self.state.evidence.fork()).to_dict("records")
        return [{str(name): value for name, value in row.items()} for row in rows]

    def _dump_findings(self) -> bytes:
        return store.encode_csv(index_page.build_findings_table(self._entries), "findings")

    def _build_bundle(self) -> dict[str, bytes]:
        out = self.state.out
        sources = {
            file: out / file.replace(".html", ".md")
            for file in self.state.hash_bundled()
            if file != "index.html"
        }
        pages = [Page("index.html", self._index_text())]
        pages += [
            Page(file, source.read_text(encoding="utf-8")) for file, source in sources.items()
        ]

        def read(name: str) -> bytes:
            return (out / name).read_bytes()

        articles = Articles(sources, read)
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
        return {str(name): float(took) for name, took in json.loads(path.read_bytes()).items()}
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
    total = len(expected)
    started = time.perf_counter()
    rest = sum(expected.values())
    if not console.is_terminal:
        if total:
            print(begun, file=sys.stderr, flush=True)
        for number, (name, run) in enumerate(runs, 1):
            state = "failed" if run.error else "done"
            rest = rest - expected[name]
            left = (time.perf_counter() - started) * rest / max(sum(expected.values()) - rest, 1e-9)
            last = f", about {left:.0f} s left" if number < total else ""
            print(
                f"{name} {state} in {run.seconds:.1f} s ({number} of {total}{last})",
                file=sys.stderr,
                flush=True,
            )
            yield name, run
        return
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not total) as bar:
        task = bar.add_task("analysing", total=total)
        for name, run in runs:
            bar.update(task, advance=1, description=f"done: {name}")
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
    written, removed = About(state, made.failed).write_snapshot() if snapshot else ([], [])
    return made.written + written, made.removed + removed


@dataclass
class Build:
    """A report in the making."""

    state: State
    failed: dict[str, Run] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def run(self, reasons: Mapping[str, str], processes: int | None, *, anew: bool) -> None:
        """Run what is stale, those that take long first, and write each result as it comes."""
        state, seconds = self.state, {**load_shipped_seconds(), **read_seconds(self.state.out)}
        jobs: dict[str, Path | str] = {}
        for name, why in reasons.items():
            if why == LINKS and name in state.scripts:
                self.render(name)
            elif why:
                jobs[name] = state.pages.get(name) or state.scripts[name]
        together = (
            group_claims({name: job for name, job in jobs.items() if isinstance(job, Path)})
            if state.draw
            else []
        )
        lasts = {name: seconds.get(name, 0.0) for name in jobs}
        lasts |= {
            name: sum(lasts[other] for other in names) for names in together for name in names
        }
        slowest_first = dict(sorted(jobs.items(), key=lambda job: -lasts[job[0]]))
        begun = f"{state.out}: building {describe_pages(jobs)}; a line as each is done"
        keys = {name: state.build_record(name).digest for name in jobs}
        runs = (
            run_all(
                slowest_first,
                state.data,
                processes,
                keys,
                anew=anew,
                together=together,
                tables=state.evidence.fork(),
            )
            if jobs
            else ()
        )
        usual = sum(seconds.values()) / len(seconds) if seconds else 1.0
        unkept = ""
        for name, run in track_progress(
            runs, {name: seconds.get(name, usual) for name in jobs}, begun
        ):
            self.take(name, run)
            unkept = unkept or run.unkept
            seconds[name] = round(run.seconds, 1)
            write_seconds(
                state.out, {name: took for name, took in seconds.items() if name in state.names}
            )
        if unkept:
            store.warn_unkept(unkept)

    def take(self, name: str, run: Run) -> None:
        """Write the pages of an analysis that ran, or keep its error."""
        if run.error:
            self.failed[name], self.state.errors[name] = run, run.error
            return
        folder = self.state.folder if NAMES_FOLDER in run.selections else ""
        now = replace(
            self.state.build_record(name), rows=hash_selections(run.selections), folder=folder
        )
        files = run.files
        if path := self.state.scripts.get(name):
            assert run.claim is not None  # noqa: S101
            script = hash_content(self.state.collect_inputs(name))
            made = [
                add_earlier_posterior(
                    each, self.state.posteriors, hash_inputs(script, each.selections)
                )
                for each in run.made
            ]
            if not any(isinstance(each.finding.posterior, Undrawn) for each in made):
                now = replace(now, posteriors="")
            made_of: dict[str, Any] = {
                "inputs": hash_value([script, sorted(run.selections.items())]),
                "script": script,
            }
            made_of |= {
                "package": hash_package(),
                "selections": len(run.selections),
                "machine": describe_machine(),
            }
            files = build_claim_files(run.claim, made, path.name, made_of)
        self._write(name, now, files)
        write_manifest(self.state.out, self.state.records)

    def render(self, name: str) -> None:
        """Make a page's HTML anew from the Markdown that is there."""
        state, record = self.state, self.state.records[name]
        files = {
            file: (state.out / file).read_bytes()
            for file in record.files
            if file != state.name_file(name)
        }
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
        for name in {*reasons, *state.about} & set(state.records) - set(
            state.errors
        ):  # their rows are as they were
            state.records[name] = replace(state.records[name], tables=state.tables)
        write_manifest(state.out, state.records)
        if state.check_checksums():
            self.written += write_files(
                state.out, {CHECKSUMS: state.layout.list_checksums(state.records)}
            )

    def _keep_earlier_findings(self) -> None:
        """Keep the table of findings next to itself where the rows that it was made of changed."""
        state, origin = self.state, read_origin(self.state.out)
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
            made = render_page(
                page, lambda n: files[n], scripts, pages=state.navigation, bundled=False
            )
            files = {**files, file: made}
        self.written += write_files(state.out, files)
        self.removed += remove_files(state.out, set(old.files if old else ()) - set(files))
        state.records[name] = record.add_made(record.rows, files)

"""Make what is stale of a report: run analyses, write their pages, then the pages about all claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from thermostats.claims.posterior import Undrawn
from thermostats.claims.run import Run, run_all
from thermostats.claims.scripts import by_law
from thermostats.claims.stored import digest_of
from thermostats.reporting.digest import machine, package_sha, sha, sha_of
from thermostats.reporting.files import remove_files, write_files
from thermostats.reporting.names import CHECKSUMS
from thermostats.reporting.pages.claim import claim_files
from thermostats.reporting.pages.undrawn import with_earlier
from thermostats.reporting.pages_of_findings import About
from thermostats.reporting.posteriors import inputs_of
from thermostats.reporting.progress import read_seconds, shipped_seconds, with_progress, write_seconds
from thermostats.reporting.render import Page, html
from thermostats.reporting.stale import LINKS, Record, write_manifest
from thermostats.reporting.state import INDEX, State, counted


def build(
    state: State,
    reasons: Mapping[str, str],
    gone: Sequence[str],
    *,
    snapshot: bool,
    processes: int | None,
    anew: bool = False,
) -> tuple[list[str], list[str]]:
    """Make what has a reason, then what is about all claims; names of the files written and of those removed.

    anew: findings that are kept are not used.
    """
    made = Build(state)
    made.run(reasons, processes, anew=anew)
    made.finish(reasons, gone)
    written, removed = About(state, made.failed).snapshot() if snapshot else ([], [])
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
        state, seconds = self.state, {**shipped_seconds(), **read_seconds(self.state.out)}
        jobs: dict[str, Path | str] = {}
        for name, why in reasons.items():
            if why == LINKS and name in state.scripts:
                self.render(name)
            elif why:
                jobs[name] = state.pages.get(name) or state.scripts[name]
        together = by_law({name: job for name, job in jobs.items() if isinstance(job, Path)}) if state.draw else []
        lasts = {name: seconds.get(name, 0.0) for name in jobs}
        lasts |= {name: sum(lasts[other] for other in names) for names in together for name in names}
        slowest_first = dict(sorted(jobs.items(), key=lambda job: -lasts[job[0]]))
        begun = f"{state.out}: building {counted(jobs)}; a line as each is done"
        keys = {name: state.now(name).digest for name in jobs}
        runs = run_all(slowest_first, state.data, processes, keys, anew=anew, together=together) if jobs else ()
        usual = sum(seconds.values()) / len(seconds) if seconds else 1.0
        for name, run in with_progress(runs, {name: seconds.get(name, usual) for name in jobs}, begun):
            self.take(name, run)
            seconds[name] = round(run.seconds, 1)
            write_seconds(state.out, {name: took for name, took in seconds.items() if name in state.names})

    def take(self, name: str, run: Run) -> None:
        """Write the pages of an analysis that ran, or keep its error."""
        if run.error:
            self.failed[name], self.state.errors[name] = run, run.error
            return
        now, files = replace(self.state.now(name), rows=digest_of(run.selections)), run.files
        if path := self.state.scripts.get(name):
            assert run.claim is not None  # noqa: S101
            script = sha(self.state.made_of(name))
            made = [with_earlier(each, self.state.posteriors, inputs_of(script, each.selections)) for each in run.made]
            if not any(isinstance(each.finding.posterior, Undrawn) for each in made):
                now = replace(now, posteriors="")
            made_of: dict[str, Any] = {"inputs": sha_of([script, sorted(run.selections.items())]), "script": script}
            made_of |= {"package": package_sha(), "selections": len(run.selections), "machine": machine()}
            files = claim_files(run.claim, made, path.name, made_of)
        self._write(name, now, files)
        write_manifest(self.state.out, self.state.records)

    def render(self, name: str) -> None:
        """Make a page's HTML anew from the Markdown that is there."""
        state, record = self.state, self.state.records[name]
        files = {file: (state.out / file).read_bytes() for file in record.files if file != state.file_of(name)}
        self._write(name, replace(record, links=state.now(name).links), files)

    def finish(self, reasons: Mapping[str, str], gone: Sequence[str]) -> None:
        """Remove what is no more, write the pages about all claims that are stale, then the lists of checksums."""
        state = self.state
        About(state, self.failed).check()
        for name in gone:
            self.removed += remove_files(state.out, state.records.pop(name).files)
        for name in state.about:
            if state.stale_because(name):
                self._write(name, state.now(name), About(state, self.failed).files(name))
        for name in {*reasons, *state.about} & set(state.records) - set(state.errors):  # their rows are as they were
            state.records[name] = replace(state.records[name], tables=state.tables)
        write_manifest(state.out, state.records)
        if state.checksums_stale():
            self.written += write_files(state.out, {CHECKSUMS: state.layout.checksums(state.records)})

    def _write(self, name: str, record: Record, files: Mapping[str, bytes]) -> None:
        """Write files of a claim or page, with the HTML of its Markdown."""
        state = self.state
        file, old = state.file_of(name), state.records.get(name)
        source = file.replace(".html", ".md")
        if source in files and file not in files:
            page = Page(file, files[source].decode())
            scripts = ["claims.js"] if name == INDEX else []
            made = html(page, lambda n: files[n], scripts, pages=state.navigation, bundled=False)
            files = {**files, file: made}
        self.written += write_files(state.out, files)
        self.removed += remove_files(state.out, set(old.files if old else ()) - set(files))
        state.records[name] = record.made(record.rows, files)

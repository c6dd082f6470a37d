"""Build the report: find the analyses, run those whose inputs changed, write their pages and the index."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.progress import Progress, TaskID

from thermostats.errors import UsageError
from thermostats.reporting import pages
from thermostats.reporting.findings import Tables
from thermostats.reporting.freshness import (
    Record,
    changed_file,
    code_sha,
    inputs_sha,
    read_manifest,
    read_stamp,
    record_key,
    remove_files,
    sha,
    sha_of,
    stale_because,
    write_files,
    write_manifest,
    write_stamp,
)
from thermostats.reporting.runner import Run, run_all, scripts
from thermostats.tables import store

INDEX = "index"
STATES = {"built": "built", "fresh": "up to date", "stale": "stale", "broken": "failed"}
INDEX_TABLES = ("inconsistencies", "reconciliation", "sources")
"""Tables that the index tells of, beside the findings and the gains measured by this package."""
MEASURED = "thermostats"
"""Source of the runs that this package measured."""


@dataclass(frozen=True)
class Outcome:
    """What became of one claim: `fresh`, `stale`, `built` or `broken`, and why."""

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

    def __str__(self) -> str:
        """Lines for a terminal: what is not as it was, then a summary."""
        lines = [f"{o.claim:<6}{o.status:<8}{o.why}".rstrip() for o in self.outcomes if o.status != "fresh"]
        counts = Counter(o.status for o in self.outcomes)
        states = ", ".join(f"{counts[status]} {words}" for status, words in STATES.items() if counts[status])
        lines.append(f"{states}; {len(self.written)} files written in {self.seconds:.1f} s")
        lines.append(f"{self.out}/index.html")
        return "\n".join(lines)


def report(
    claims: Sequence[str] | None = None, *, data: str | Path | None = None, out: str | Path = "reports",
    analyses: str | Path | None = None, check: bool = False, force: bool = False, processes: int | None = None,
) -> Result:  # fmt: skip
    """Run the analyses whose script, code or rows changed and write the report; with `check`, only say which are stale.

    claims: ids such as C04; None: all, and pages of claims that are no more are removed. force: run them all the same.
    processes: analyses run side by side in so many; 1: in this one.

    Raises UsageError for an unknown claim or folder, DataError where a table is damaged or a file cannot be written.
    """
    started, folder = time.perf_counter(), Path(out)
    found = scripts(analyses if analyses is not None else store.shipped("analyses"))
    wanted = _wanted(claims, list(found))
    build = Build(folder, found, Tables(data), read_manifest(folder))
    reasons = {claim: build.stale_because(claim) for claim in wanted}
    gone = [name for name in build.records if name not in found and name != INDEX] if claims is None else []
    if check:
        reasons |= dict.fromkeys(gone, "its analysis is no more")
        reasons |= {INDEX: build.index_stale_because()} if claims is None else {}
        outcomes = tuple(Outcome(claim, "stale" if why else "fresh", why) for claim, why in reasons.items())
        return Result(not any(reasons.values()), str(out), outcomes, seconds=time.perf_counter() - started)

    built = read_stamp(folder)
    for claim, why in reasons.items():
        if not why and built.get(claim) != record_key(build.records[claim]):
            reasons[claim] = "not built on this machine"
        elif not why and force:
            reasons[claim] = "forced"
    for claim, run in _runs({claim: found[claim] for claim, why in reasons.items() if why}, build.tables, processes):
        build.take(claim, run)
        if not run.error:
            built[claim] = record_key(build.records[claim])
        write_manifest(folder, build.records)
        write_stamp(folder, built)
    build.remove(gone)
    build.write_index()
    write_manifest(folder, build.records)
    write_stamp(folder, {claim: key for claim, key in built.items() if claim in build.records})
    outcomes = tuple(_outcome(claim, why, build.failed.get(claim)) for claim, why in reasons.items())
    written, removed = tuple(sorted(build.written)), tuple(sorted(build.removed))
    return Result(not build.failed, str(out), outcomes, written, removed, time.perf_counter() - started)


@dataclass
class Build:
    """A report in the making."""

    out: Path
    scripts: Mapping[str, Path]
    tables: Tables
    records: dict[str, Record]
    failed: dict[str, Run] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def stale_because(self, claim: str) -> str:
        """Why a claim is stale; empty where it is fresh."""
        return stale_because(self.records.get(claim), self._script_sha(claim), self.tables, self.out)

    def take(self, claim: str, run: Run) -> None:
        """Write the pages of an analysis that ran, or keep its error."""
        if run.error:
            self.failed[claim] = run
            return
        script = self._script_sha(claim)
        files = pages.claim_files(run, self.scripts[claim].name, script, inputs_sha(script, run.selections))
        self._write(claim, script, run.selections, files)

    def remove(self, claims: Sequence[str]) -> None:
        """Remove the files that the manifest lists for claims that are no more."""
        for claim in claims:
            self.removed += remove_files(self.out, self.records.pop(claim).files)

    def index_stale_because(self) -> str:
        """Why the pages about all claims are stale; empty where they are fresh."""
        record = self.records.get(INDEX)
        if record is None:
            return "not built yet"
        changed = record.script != self._index_key()
        return "what it tells of changed" if changed else changed_file(record, self.out)

    def write_index(self) -> None:
        """Write the pages about all claims where they or anything they tell of changed."""
        if self.written or self.removed or self.index_stale_because():
            entries = [self._entry(claim) for claim in self.scripts]
            files = pages.index_files(entries, *index_tables(self.tables.fork()))
            self._write(INDEX, self._index_key(), {}, files)

    def _write(self, name: str, script: str, selections: dict[str, str], files: dict[str, bytes]) -> None:
        old = self.records.get(name)
        self.written += write_files(self.out, files)
        self.removed += remove_files(self.out, set(old.files if old else ()) - set(files))
        digests = {file: sha(content) for file, content in files.items()}
        self.records[name] = Record(script, code_sha(), selections, digests)

    def _entry(self, claim: str) -> pages.Entry:
        if run := self.failed.get(claim):
            return pages.Entry(claim, run.claim, error=run.error)
        path = self.out / pages.findings_name(claim)
        known = claim in self.records and path.is_file()
        return pages.read_entry(path.read_bytes()) if known else pages.Entry(claim, None)

    def _index_key(self) -> str:
        """SHA-256 over everything that the index tells of."""
        listed = {claim: self.records[claim] for claim in self.scripts if claim in self.records}
        findings = {claim: record.files.get(pages.findings_name(claim)) for claim, record in listed.items()}
        reader = self.tables.fork()
        index_tables(reader)
        errors = {claim: run.error for claim, run in self.failed.items()}
        return sha_of([code_sha(), list(self.scripts), findings, errors, reader.selections])

    def _script_sha(self, claim: str) -> str:
        return sha(self.scripts[claim].read_bytes())


def index_tables(tables: Tables) -> list[pd.DataFrame]:
    """What the index tells of beside the findings: gains measured by this package, then `INDEX_TABLES`."""
    return [tables.read("features", source=MEASURED), *map(tables.read, INDEX_TABLES)]


def _outcome(claim: str, why: str, failed: Run | None) -> Outcome:
    return Outcome(claim, "broken", failed.error) if failed else Outcome(claim, "built" if why else "fresh", why)


def _wanted(claims: Sequence[str] | None, found: list[str]) -> list[str]:
    if claims is None:
        return found
    wanted = [claim.upper() for claim in claims]
    if unknown := [claim for claim in wanted if claim not in found]:
        next_step = "thermostats ls claims"
        raise UsageError("no such claim", got=", ".join(unknown), allowed=", ".join(found), next_step=next_step)
    return list(dict.fromkeys(wanted))


def _runs(stale: dict[str, Path], tables: Tables, processes: int | None) -> Iterator[tuple[str, Run]]:
    """Results of the stale analyses as they come, with progress on standard error."""
    if not stale:
        return
    names = {path: claim for claim, path in stale.items()}
    with _progress(len(stale)) as (progress, task):
        for path, result in run_all(list(stale.values()), tables.data, processes):
            progress.update(task, advance=1, description=f"analysed {names[path]}")
            yield names[path], result


@contextmanager
def _progress(total: int) -> Iterator[tuple[Progress, TaskID]]:
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress, progress.add_task("analysing", total=total)

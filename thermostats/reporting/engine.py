"""Build the report: find the analyses, run those whose inputs changed, write their pages and those about all "
"claims."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from thermostats.claims.evidence import Evidence
from thermostats.claims.scripts import chosen, scripts
from thermostats.reporting import progress
from thermostats.reporting.build import ABOUT, Build
from thermostats.reporting.freshness import (
    PAGE_CODE,
    read_manifest,
    read_seconds,
    read_stamp,
    record_key,
    write_manifest,
    write_stamp,
)
from thermostats.reporting.layout import CHECKSUMS
from thermostats.reporting.runner import PAGES, Run, cores_there_are, run_all
from thermostats.tables import store
from thermostats.tables.atomic import only_writer

STATES = {"built": "built", "fresh": "up to date", "stale": "stale", "broken": "failed"}


LARGE_MODELS = {"thermostats.modelling.laws.ranking": 100.0, "thermostats.modelling.heritage.fit": 30.0}
"""Seconds that a fit of these models takes at least, with its compilation."""


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

    def __str__(self) -> str:
        """Lines for a terminal: what is not as it was, then a summary."""
        width = max((len(o.claim) for o in self.outcomes), default=0) + 2
        lines = [f"{o.claim:<{width}}{o.status:<8}{o.why}".rstrip() for o in self.outcomes if o.status != "fresh"]
        counts = {
            status: _counted([o.claim for o in self.outcomes if o.status == status])
            for status in STATES
            if any(o.status == status for o in self.outcomes)
        }
        states = "; ".join(f"{STATES[status]}: {counted}" for status, counted in counts.items())
        files = f"{len(self.written)} {'file' if len(self.written) == 1 else 'files'}"
        lines.append(f"{states}; {files} written in {self.seconds:.1f} s")
        lines.append(f"{self.out}/index.html")
        return "\n".join(lines)


def _counted(names: Iterable[str]) -> str:
    """Claims and pages about all of them, in words."""
    there = list(names)
    pages = sum(name in {*PAGES, *ABOUT} for name in there)
    claims = len(there) - pages - (CHECKSUMS in there)
    parts = [
        *[f"{claims} {'claim' if claims == 1 else 'claims'}"] * bool(claims),
        *[f"{pages} {'page' if pages == 1 else 'pages'} about all claims"] * bool(pages),
        *["the list of checksums"] * (CHECKSUMS in there),
    ]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _side_by_side(count: int, processes: int | None) -> str:
    """In how many processes `run_all` runs so many jobs."""
    if processes == 1:
        return "this process"
    several = min(processes or cores_there_are(), count)
    return f"{several} processes side by side" if several > 1 else "one process"


def expected_seconds(script: Path | None) -> float:
    """What an analysis that this machine has not run yet will take at least, by the largest model that it fits."""
    text = script.read_text(encoding="utf-8") if script is not None else ""
    return max((seconds for module, seconds in LARGE_MODELS.items() if module in text), default=0.0)


def report(
    claims: Sequence[str] | None = None,
    *,
    data: str | Path | None = None,
    out: str | Path = "reports",
    analyses: str | Path | None = None,
    check: bool = False,
    force: bool = False,
    processes: int | None = None,
) -> Result:
    """Run the analyses whose script, code or rows changed and write the report; with `check`, only say which are stale.

    claims: ids such as C04; None: all, and pages of claims that are no more are removed. force: run them all the same;
    draws made before still come from the cache. processes: analyses run side by side in so many; 1: in this one.

    Raises UsageError for an unknown claim or folder, DataError where a table is damaged or a file cannot be written.
    """
    started, folder = time.perf_counter(), Path(out)
    found = scripts(analyses if analyses is not None else store.shipped("analyses"))
    wanted = chosen(claims, found) + (list(PAGES) if claims is None else [])
    tables = Evidence(data)
    with nullcontext() if check else only_writer(folder):
        build = Build(folder, found, tables, read_manifest(folder))
        return _report(build, wanted, claims is None, check, force, processes, started)


def _report(
    build: Build, wanted: Sequence[str], whole: bool, check: bool, force: bool, processes: int | None, started: float
) -> Result:
    """`report` once it is known what it is about; `whole`: of all claims."""
    folder, found = build.out, build.scripts
    reasons = {name: build.stale_because(name) for name in wanted}
    gone = [name for name in build.records if name not in {*found, *PAGES, *ABOUT}] if whole else []
    if check:
        reasons |= dict.fromkeys(gone, "its analysis is no more")
        if whole:
            reasons |= {name: build.stale_because(name) for name in ABOUT} | {CHECKSUMS: build.checksums_stale()}
        outcomes = tuple(Outcome(name, "stale" if why else "fresh", why) for name, why in reasons.items())
        return Result(not any(reasons.values()), str(folder), outcomes, seconds=time.perf_counter() - started)

    built, seconds = read_stamp(folder), read_seconds(folder)
    for name, why in reasons.items():
        if not why and built.get(name) != record_key(build.records[name]):
            reasons[name] = "not built on this machine"
        elif not why and force:
            reasons[name] = "forced"

    def take(name: str, run: Run) -> None:
        build.take(name, run)
        seconds[name] = round(run.seconds, 1)
        if not run.error:
            built[name] = record_key(build.records[name])
        write_manifest(folder, build.records)
        write_stamp(folder, built, seconds)

    stale = [name for name, why in reasons.items() if why]
    known = {name: run for name in stale if reasons[name] == PAGE_CODE and (run := build.remembered(name))}
    for name, run in known.items():
        take(name, run)
    jobs = {name: found.get(name) for name in stale if name not in known}
    slowest_first = dict(sorted(jobs.items(), key=lambda job: -seconds.get(job[0], expected_seconds(job[1]))))
    begun = f"{folder}: building {_counted(jobs)}, {_side_by_side(len(jobs), processes)}; a line as each is done"
    runs = run_all(slowest_first, build.tables.data, processes) if jobs else ()
    for name, run in progress.shown(runs, len(jobs), begun):
        take(name, run)
        build.remember(name, run)
    build.finish(gone)
    write_stamp(folder, {name: key for name, key in built.items() if name in build.records}, seconds)
    outcomes = tuple(
        Outcome(name, "broken", build.failed[name].error)
        if name in build.failed
        else Outcome(name, "built" if why else "fresh", why)
        for name, why in reasons.items()
        if name in found or name in build.failed
    )
    written, removed = tuple(sorted(build.written)), tuple(sorted(build.removed))
    return Result(not build.failed, str(folder), outcomes, written, removed, time.perf_counter() - started)

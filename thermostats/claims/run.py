"""Run analyses and pages side by side and draw their figures; a failure becomes text that names the place."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing import active_children, get_context
from pathlib import Path
from types import ModuleType

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.scripts import ONE_THREAD, scripts
from thermostats.claims.stored import Made, Stored
from thermostats.errors import DataError, ThermostatsError, UsageError, did_you_mean
from thermostats.modelling.sampling import CORES_VARIABLE
from thermostats.settings import cores_there_are, variables
from thermostats.tables import folders

BEGIN = "a store created by thermostats includes them: name a new folder with --data to measure or join"


@dataclass(frozen=True)
class Run:
    """What running one analysis gave: its findings with their figures, and what it read."""

    claim: Claim | None
    made: tuple[Made, ...] = ()
    selections: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    """A page: its files by name within the report."""
    error: str = ""
    seconds: float = 0.0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings alone."""
        return tuple(each.finding for each in self.made)


def claims(analyses: str | Path) -> list[Claim]:
    """The claims that a folder of analyses puts to the test, in order; nothing is run."""
    return [claim_of(path).stated() for path in scripts(analyses).values()]


def claim_of(path: Path) -> Claim:
    """The claim of one script, with its questions.

    Raises DataError where it has none, or that of another name.
    """
    return _claim_of(_load(path), path)


def run_all(
    jobs: Mapping[str, Path | str],
    data: Path,
    processes: int | None = None,
    keys: Mapping[str, str] | None = None,
    *,
    anew: bool = False,
    together: Iterable[Sequence[str]] = (),
) -> Iterator[tuple[str, Run]]:
    """Run jobs side by side, each result as it comes; `processes=1` runs them here, one after the other.

    jobs: scripts by claim; for a page about all claims its module, which has a function `files(tables)`. keys: SHA-256
    by job of all that it depends on but rows; what has none is made anew and not kept. anew: so is all, and it is kept.
    together: jobs that one process runs after one another, since they compile the same; their results come together.
    """
    keys = keys or {}
    cores = cores_there_are()
    count = min(processes or cores, len(jobs))
    if processes == 1:
        tables = Evidence(data)
        for name, job in jobs.items():
            yield name, run_one(job, data, tables.fork(), keys.get(name, ""), anew=anew)
        return
    share = str(max(1, cores // count))
    with _shared(share), ProcessPoolExecutor(count, get_context("spawn"), _die_quietly) as pool:
        futures: dict[Future[list[Run]], Sequence[str]] = {
            pool.submit(_run_beside, [(jobs[name], keys.get(name, "")) for name in names], data, anew): names
            for names in _in_order(jobs, together)
        }
        try:
            for future in as_completed(futures):
                names = futures[future]
                try:
                    yield from zip(names, future.result(), strict=True)
                except BrokenProcessPool as error:
                    died = f"the process that ran it, or another process of the run, died: {error}"
                    yield from ((name, Run(None, error=died)) for name in names)
        except (KeyboardInterrupt, GeneratorExit):
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                child.terminate()
            raise


def _in_order(jobs: Iterable[str], together: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Jobs one by one, and those that belong together in the place of the first of them."""
    of = {name: tuple(n for n in jobs if n in set(names)) for names in together for name in names}
    return list(dict.fromkeys(of.get(name, (name,)) for name in jobs))


def _run_beside(jobs: Sequence[tuple[Path | str, str]], data: Path, anew: bool) -> list[Run]:
    """Run jobs, each with its key, in a process of the pool, which loads the tables once for all that it runs."""
    return [run_one(job, data, _tables(data).fork(), key, anew=anew) for job, key in jobs]


@cache
def _tables(data: Path) -> Evidence:
    return Evidence(data)


def _die_quietly() -> None:
    """What an interrupted process has to say its parent says."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_one(job: Path | str, data: Path, tables: Evidence | None = None, key: str = "", *, anew: bool = False) -> Run:
    """Run one analysis, or make one page; whatever it raises is in `error` of the result."""
    started = time.perf_counter()
    try:
        tables = tables or Evidence(data)
        run = _page(job, tables, key, anew) if isinstance(job, str) else _analysis(job, tables, data, key, anew)
    except (Exception, SystemExit) as error:
        file = sys.modules[job].__file__ if isinstance(job, str) and job in sys.modules else job
        run = Run(None, error=_words(error, Path(str(file))))
    return replace(run, seconds=time.perf_counter() - started)


def _page(module: str, tables: Evidence, key: str, anew: bool) -> Run:
    store = Stored(module, key, anew=anew)
    made = store.page(tables, importlib.import_module(module).files)
    store.write()
    return Run(None, files=made, selections=dict(sorted(tables.selections.items())))


def _analysis(path: Path, tables: Evidence, data: Path, key: str, anew: bool) -> Run:
    claim: Claim | None = None
    try:
        module = _load(path)
        claim = _claim_of(module, path)
        store = Stored(claim.id, key, anew=anew)
        findings = claim.judge(tables, store)
        if len({(finding.estimand, finding.sample.evidence) for finding in findings}) < len(findings):
            raise DataError("two findings of one claim have the same estimand", where=claim.id)
        store.write()
        made = tuple(store.made[finding.id, finding.sample.evidence] for finding in findings)
        return Run(claim.stated(), made, dict(sorted(tables.selections.items())))
    except (Exception, SystemExit) as error:
        published = any((layer / "published").is_dir() for layer in folders.layers(data))
        words, near = _words(error, path), _nearest(error, tables.columns())
        claim = claim.stated() if claim else None
        if not published and not near and not isinstance(error, ThermostatsError):
            return Run(claim, error=f"{words} {data} has no published tables; {BEGIN}")
        return Run(claim, error=words + near)


def _load(path: Path) -> ModuleType:
    """Script as a module; no compiled file is written."""
    name = f"thermostats_analysis_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError("not a Python file", where=path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


def _claim_of(module: ModuleType, path: Path) -> Claim:
    claim = getattr(module, "CLAIM", None)
    expected = path.name[:3].upper()
    if not isinstance(claim, Claim):
        raise DataError("an analysis must define CLAIM", where=path.name, allowed="CLAIM = Claim.read(__file__)")
    if claim.id != expected:
        raise DataError("an analysis is named after its claim", where=path.name, got=claim.id, allowed=expected)
    return claim


def _words(error: BaseException, path: Path) -> str:
    """An exception with the last line of the script that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    place = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__} in {path.name}{place}: {error}"


def _nearest(error: BaseException, columns: set[str]) -> str:
    """Where a column is asked for that no table has: which was meant."""
    column = re.search(r"'([^']+)'", str(error)) if isinstance(error, KeyError) else None
    meant = did_you_mean(column[1], sorted(columns)) if column and column[1] not in columns else ""
    return f". Next: {meant}" if meant else ""


def _shared(cores: str) -> AbstractContextManager[None]:
    """Processes started meanwhile compute in one thread each, fits in their share of the cores.

    They do not fight, and sums come in one order. What the user has set stays.
    """
    wanted = {**dict.fromkeys(ONE_THREAD, "1"), CORES_VARIABLE: cores}
    return variables({name: os.environ.get(name) or value for name, value in wanted.items()})

"""Load one analysis, run it and draw its figures; a failure becomes text that names the place."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

from matplotlib.figure import Figure

from thermostats.errors import DataError, ThermostatsError, UsageError
from thermostats.reporting.findings import Claim, Finding, Tables
from thermostats.reporting.plots import house_style
from thermostats.tables.vocabulary import VERDICTS

NAME = re.compile(r"([cn]\d\d)_\w+\.py")
BEGIN = "a new folder begins with them: name one with --data to measure, join or import"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Run:
    """What running one analysis gave: its findings, figures as SVG by number of the finding, and what it read."""

    claim: Claim | None
    findings: tuple[Finding, ...] = ()
    figures: dict[int, bytes] = field(default_factory=dict)
    selections: dict[str, str] = field(default_factory=dict)
    error: str = ""


def scripts(analyses: str | Path) -> dict[str, Path]:
    """Scripts `cNN_*.py` and `nNN_*.py` of a folder by the claim's id (`C01`), in order.

    Raises UsageError where there is no such folder or no analysis in it, DataError where two are of one claim.
    """
    folder = Path(analyses)
    if not folder.is_dir():
        raise UsageError("no such folder of analyses", where=folder, next_step="name one with --analyses")
    found: dict[str, Path] = {}
    for path in sorted(folder.glob("*.py")):
        if match := NAME.fullmatch(path.name):
            claim = match[1].upper()
            if claim in found:
                raise DataError(f"two analyses of claim {claim}", where=folder, got=f"{found[claim].name}, {path.name}")
            found[claim] = path
    if not found:
        raise UsageError("no analyses in this folder", where=folder, allowed="files named like c01_depth.py")
    return found


def claims(analyses: str | Path) -> list[Claim]:
    """The claims that a folder of analyses puts to the test, in order; nothing is run."""
    return [_claim_of(_load(path), path) for path in scripts(analyses).values()]


def run_all(paths: Sequence[Path], data: Path, processes: int | None = None) -> Iterator[tuple[Path, Run]]:
    """Run analyses side by side, each result as it comes; `processes=1` runs them here, one after the other."""
    count = min(processes or os.cpu_count() or 1, len(paths))
    if processes == 1:
        tables = Tables(data)
        yield from ((path, run_one(path, data, tables.fork())) for path in paths)
        return
    with _one_thread(), ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        futures: dict[Future[Run], Path] = {pool.submit(run_one, path, data): path for path in paths}
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except BrokenProcessPool as error:
                yield futures[future], Run(None, error=f"the process that ran it, or one beside it, died: {error}")


def run_one(path: Path, data: Path, tables: Tables | None = None) -> Run:
    """Run one analysis; whatever it raises is in `error` of the result."""
    claim: Claim | None = None
    try:
        tables = tables or Tables(data)
        module = _load(path)
        claim = _claim_of(module, path)
        findings = _findings_of(module, claim, tables)
        figures = {number: _draw(finding) for number, finding in enumerate(findings, 1) if finding.draw is not None}
        bare = tuple(replace(finding, draw=None) for finding in findings)
        return Run(claim, bare, figures, dict(sorted(tables.selections.items())))
    except (Exception, SystemExit) as error:
        if not (data / "published").is_dir() and not isinstance(error, ThermostatsError):
            return Run(claim, error=f"{_words(error, path)} {data} has no published tables; {BEGIN}")
        return Run(claim, error=_words(error, path))


def _load(path: Path) -> ModuleType:
    """Script as a module; nothing is written beside it."""
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
        raise DataError("an analysis must define CLAIM", where=path.name, allowed="CLAIM = Claim(...)")
    if claim.id != expected:
        raise DataError("an analysis is named after its claim", where=path.name, got=claim.id, allowed=expected)
    return claim


def _findings_of(module: ModuleType, claim: Claim, tables: Tables) -> list[Finding]:
    """What `analyse` returns, held against what a finding must be."""
    findings = list(module.analyse(tables))
    if not findings or not all(isinstance(finding, Finding) for finding in findings):
        raise DataError("analyse must return findings", where=claim.id, got=repr(findings)[:80])
    for finding in findings:
        if finding.claim != claim.id:
            raise DataError("a finding is of another claim", where=claim.id, got=finding.claim)
        if finding.verdict not in VERDICTS:
            raise DataError("no such verdict", where=claim.id, got=repr(finding.verdict), allowed=", ".join(VERDICTS))
    if len({finding.estimand for finding in findings}) < len(findings):
        raise DataError("two findings of one claim have the same estimand", where=claim.id)
    return findings


def _draw(finding: Finding) -> bytes:
    """Figure of a finding as SVG: the same bytes whenever it is drawn from the same numbers."""
    assert finding.draw is not None  # noqa: S101
    stream = io.BytesIO()
    with house_style():
        figure = Figure()
        finding.draw(figure.add_subplot())
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    lines = stream.getvalue().decode().splitlines()
    return ("\n".join(line.rstrip() for line in lines) + "\n").encode()


def _words(error: BaseException, path: Path) -> str:
    """An exception with the last line of the script that it came from."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    place = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__} in {path.name}{place}: {error}"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started meanwhile compute in one thread each: they do not fight, and sums come in one order."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update({name: before[name] or "1" for name in ONE_THREAD})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]

"""Run analyses and pages side by side and draw their figures; a failure becomes text that names the
place."""

from __future__ import annotations

import importlib
import importlib.util
import math
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
from functools import cache, partial
from multiprocessing import active_children, get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import MEASURED, PUBLISHED, Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.judge import repeat_question
from thermostats.claims.machine_speed import estimate_seconds
from thermostats.claims.question import TABLES, Question
from thermostats.claims.result import UNMEASURED
from thermostats.claims.stored import Made, Stored
from thermostats.claims.study import ONE_THREAD, list_scripts
from thermostats.claims.template import Template
from thermostats.errors import DataError, ThermostatsError, UsageError, suggest_nearest
from thermostats.modelling.sampling import CORES_VARIABLE
from thermostats.next_steps import write_command
from thermostats.settings import count_cores, set_variables, stop_with_parent
from thermostats.tables import folders
from thermostats.tables.folders import find_shipped
from thermostats.tables.invariants import BALANCED, READ, find_unread
from thermostats.tables.reading import keep_last_revision
from thermostats.tables.schemas import NURSERY, OURS

ARROW_POOL = "ARROW_DEFAULT_MEMORY_POOL"
"""The variable by which Arrow chooses who gives it memory. Its own pool keeps what is free, a
seventh of what a report holds."""
BEGIN = (
    "a store created by thermostats includes them: name a new folder with --data to measure or join"
)


@dataclass(frozen=True)
class Run:
    """What running one analysis gave: its findings with their figures, and what it read."""

    claim: Claim | None
    made: tuple[Made, ...] = ()
    selections: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    """A page: its files by name within the report."""
    error: str = ""
    unkept: str = ""
    """Why its findings, or the page, cannot be kept for the next run; empty where they are."""
    seconds: float = 0.0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings alone."""
        return tuple(each.finding for each in self.made)


def load_claims(analyses: str | Path) -> list[Claim]:
    """The claims that a folder of analyses puts to the test, in order; nothing is run."""
    return [load_claim(path).stated() for path in list_scripts(analyses).values()]


def load_claim(path: Path) -> Claim:
    """The claim of one script, with its questions.

    Raises DataError where it has none, or that of another name.
    """
    return _find_claim(_load(path), path)


def run_all(
    jobs: Mapping[str, Path | str],
    data: Path,
    processes: int | None = None,
    keys: Mapping[str, str] | None = None,
    *,
    anew: bool = False,
    together: Iterable[Sequence[str]] = (),
    tables: Evidence | None = None,
) -> Iterator[tuple[str, Run]]:
    """Run jobs side by side, each result as it comes; `processes=1` runs them here, one after the
    other.

    jobs: scripts by claim; for a page about all claims its module, which has a function
    `files(tables)`. keys: SHA-256 by job of all that it depends on but rows; what has none is made
    anew and not kept. anew: so is all, and it is kept. together: jobs that one process runs after
    one another, since they compile the same; their results come together. tables: those of the
    folder, as far as they are read.
    """
    keys = keys or {}
    cores = count_cores()
    count = min(processes or cores, len(jobs))
    tables = tables or Evidence(data)
    if processes == 1:
        for name, job in jobs.items():
            yield name, run_one(job, data, tables.fork(), keys.get(name, ""), anew=anew)
        return
    share = str(max(1, cores // count))
    with (
        _prepare_workers(share),
        ProcessPoolExecutor(count, get_context("spawn"), _ignore_interrupts) as pool,
    ):
        run = partial(_run_beside, data=data, anew=anew, digests=dict(tables.digests))
        futures: dict[Future[list[Run]], tuple[str, ...]] = {}
        for names in _order_jobs(jobs, together):
            with_keys = []
            for name in names:
                with_keys.append((jobs[name], keys.get(name, "")))
            futures[pool.submit(run, with_keys)] = names
        try:
            for future in as_completed(futures):
                names = futures[future]
                try:
                    yield from zip(names, future.result(), strict=True)
                except BrokenProcessPool as error:
                    died = f"the process that ran it, or another process of the run, died: {error}"
                    for name in names:
                        yield name, Run(None, error=died)
        except (KeyboardInterrupt, GeneratorExit):
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                child.terminate()
            raise


def _order_jobs(jobs: Iterable[str], together: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Jobs one by one, and those that belong together in the place of the first of them."""
    groups: dict[str, tuple[str, ...]] = {}
    for name in jobs:
        groups[name] = (name,)
    for names in together:
        group = tuple(name for name in jobs if name in names)
        groups |= dict.fromkeys(group, group)
    return list(dict.fromkeys(groups.values()))


def _run_beside(
    jobs: Sequence[tuple[Path | str, str]], data: Path, anew: bool, digests: Mapping[str, str]
) -> list[Run]:
    """Run jobs, each with its key, in a process of the pool, which loads the tables once for all
    that it runs.

    digests: what the report found when it asked what is stale.
    """
    tables = _load_tables(data)
    tables.tell(digests)
    finished: list[Run] = []
    for job, key in jobs:
        finished.append(run_one(job, data, tables.fork(), key, anew=anew))
    return finished


@cache
def _load_tables(data: Path) -> Evidence:
    return Evidence(data)


def _ignore_interrupts() -> None:
    """What an interrupted process has to say its parent says, and without a parent nobody takes its
    results."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    stop_with_parent()


def run_one(
    job: Path | str,
    data: Path,
    tables: Evidence | None = None,
    key: str = "",
    *,
    anew: bool = False,
) -> Run:
    """Run one analysis, or make one page; whatever it raises is in `error` of the result."""
    started = time.perf_counter()
    try:
        tables = tables or Evidence(data)
        if isinstance(job, str):
            run = _make_page(job, tables, key, anew)
        else:
            run = _run_analysis(job, tables, data, key, anew)
    except (Exception, SystemExit) as error:
        file: object = job
        if isinstance(job, str) and job in sys.modules:
            file = sys.modules[job].__file__
        run = Run(None, error=_describe_error(error, Path(str(file))))
    return replace(run, seconds=time.perf_counter() - started)


def _make_page(module: str, tables: Evidence, key: str, anew: bool) -> Run:
    store = Stored(module, key, anew=anew)
    made = store.page(tables, importlib.import_module(module).build_files)
    unkept = store.write()
    return Run(None, files=made, selections=dict(sorted(tables.selections.items())), unkept=unkept)


def _run_analysis(path: Path, tables: Evidence, data: Path, key: str, anew: bool) -> Run:
    claim: Claim | None = None
    try:
        module = _load(path)
        claim = _find_claim(module, path)
        store = Stored(claim.id, key, anew=anew)
        tables.keep_values(store)
        findings = claim.judge(tables, store)
        if len({(finding.estimand, finding.sample.evidence) for finding in findings}) < len(
            findings
        ):
            raise DataError("two findings of one claim have the same estimand", where=claim.id)
        unkept = store.write()
        made = tuple(store.made[finding.id, finding.sample.evidence] for finding in findings)
        return Run(claim.stated(), made, dict(sorted(tables.selections.items())), unkept=unkept)
    except (Exception, SystemExit) as error:
        published = any((layer / "published").is_dir() for layer in folders.list_layers(data))
        words = _describe_error(error, path)
        near = _suggest_column(error, tables.columns())
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
    written = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


def _find_claim(module: ModuleType, path: Path) -> Claim:
    claim = getattr(module, "CLAIM", None)
    expected = path.name[:3].upper()
    if not isinstance(claim, Claim):
        raise DataError(
            "an analysis must define CLAIM", where=path.name, allowed="CLAIM = Claim.read(__file__)"
        )
    if claim.id != expected:
        raise DataError(
            "an analysis is named after its claim", where=path.name, got=claim.id, allowed=expected
        )
    return claim


def _describe_error(error: BaseException, path: Path) -> str:
    """An exception with the last line of the script that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = []
    for frame in frames:
        if Path(frame.filename).resolve() == path.resolve():
            lines.append(frame.lineno)
    place = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__} in {path.name}{place}: {error}"


def _suggest_column(error: BaseException, columns: set[str]) -> str:
    """Where a column is asked for that no table has: which was meant."""
    column = re.search(r"'([^']+)'", str(error)) if isinstance(error, KeyError) else None
    meant = ""
    if column and column[1] not in columns:
        meant = suggest_nearest(column[1], sorted(columns))
    return f". Next: {meant}" if meant else ""


def _prepare_workers(cores: str) -> AbstractContextManager[None]:
    """Processes started meanwhile compute in one thread each, fits in their share of the cores, and
    give memory back that tables held.

    They do not fight, and sums come in one order. What the user has set stays.
    """
    wanted = {**dict.fromkeys(ONE_THREAD, "1"), CORES_VARIABLE: cores, ARROW_POOL: "system"}
    settings = {name: os.environ.get(name) or value for name, value in wanted.items()}
    return set_variables(settings)


COLUMNS = ("claim", "title", "said", "reads", "needs", "file")


def claims(analyses: str | Path | None = None) -> pd.DataFrame:
    """List every claim of a folder of analyses, by default those that ship.

    `thermostats.claims()` is this function. `thermostats.findings(id)` has the verdicts of the last
    report, `thermostats.report(id)` makes them.

    Parameters
    ----------
    analyses : str or Path
        A folder of analyses.

    Returns
    -------
    DataFrame
        A row each claim: id, title, what is said, rows it reads, what it needs, script.

    Raises
    ------
    UsageError
        Where the folder has no claims.

    Examples
    --------
    >>> import thermostats
    >>> thermostats.claims().set_index("claim").loc["C04", "title"]
    'Heritage > geometry > scale'
    """
    folder = find_shipped("analyses") if analyses is None else Path(analyses)
    rows = []
    for script in list_scripts(folder).values():
        words = Template.read(script.with_suffix(".md"))
        statement = words.text("Said") if "Said" in words.sections else ""
        facts = (words.facts.get("rows", ""), words.facts.get("needs", ""))
        rows.append((words.id, words.title, statement, *facts, str(script)))
    if not rows:
        raise UsageError("no claims in this folder", where=folder, next_step="thermostats.claims()")
    return pd.DataFrame(rows, columns=list(COLUMNS))


BYTES = 4
"""Bytes of a weight in float32."""
PROCESS = 600 * 2**20
"""Bytes of a process without its model."""
PROMPTS = "core"
"""Prompts that are measured where nothing else is asked for."""
LATER = {READ: "gains", BALANCED: "weights"}
"""What rows of older versions lack, so that the model is measured again, and the kind of
measurement that has it."""


@dataclass(frozen=True)
class Lacking:
    """A model that a claim could read and that lacks rows."""

    model_id: str
    lacks: tuple[str, ...]
    """What was not measured: of `TABLES`, or of `LATER`; `lab` where nobody said who trained it."""
    own: bool
    """Whether it lies in the user's folder."""
    disk: float
    """Bytes of its weights in float32, the most that it downloads."""
    memory: float
    """Bytes that a process takes with it in float32."""
    seconds: float
    """Forward passes over the core prompts at this machine's speed; loading comes on top."""


@dataclass(frozen=True)
class Needs:
    """What one claim still needs."""

    claim: str
    title: str
    sets: tuple[dict[str, Any], ...]
    """How far each set of evidence carries a question: finding, evidence, verdict, models, groups,
    and where it has no verdict what it `needs`, with how many models its rule has a power of
    0.8."""
    models: tuple[Lacking, ...]
    commands: tuple[str, ...]
    """Lines that bring the models in, the user's own first."""
    further: str = ""
    """The line that says which models not at hand to measure; empty where no question reads
    any."""


def find_needs(claim: Claim, data: str | Path | None = None) -> Needs:
    """What the questions of a claim still need, computed from the rows at hand; nothing is
    downloaded.

    Models are those of published rows, the user's own, and those that an older version measured
    without what the claim reads now. A claim of mathematics has none.
    """
    evidence = Evidence(data)
    sets = []
    for question in claim.questions:
        if question.views:
            views = map(evidence.named, question.views.sets)
            sets += [_summarise_finding(question, view) for view in views]
    models = _find_lacking(claim.basis.measures, evidence) if claim.basis.measures else ()
    commands = _suggest_commands(claim.basis.measures, models, data)
    grows = any(question.growing_set for question in claim.questions)
    further = write_command("next", claim.id, data=data) if grows else ""
    return Needs(claim.id, claim.title, tuple(sets), models, commands, further)


NEEDED = ("claim", "reads", "models", "download_gb", "next")
"""Columns of the table over claims."""


def needs_of_all(
    analyses: str | Path | None = None, data: str | Path | None = None
) -> list[dict[str, Any]]:
    """For every claim what it reads of a model, how many models at hand lack rows of it, their
    download, and which line says what to measure; nothing is tested."""
    evidence = Evidence(data)
    folder = find_shipped("analyses") if analyses is None else Path(analyses)
    known: dict[tuple[str, ...], tuple[Lacking, ...]] = {}
    rows = []
    for path in list_scripts(folder).values():
        claim = load_claim(path)
        measures = tuple(claim.basis.measures)
        if measures not in known:
            known[measures] = _find_lacking(measures, evidence) if measures else ()
        lacking = known[measures]
        grows = any(question.growing_set for question in claim.questions)
        sizes = sum(model.disk for model in lacking if not math.isnan(model.disk))
        facts = (claim.id, ", ".join(measures) or "nothing", len(lacking), sizes / 2e9)
        line = write_command("next", claim.id) if grows else write_command("needs", claim.id)
        rows.append(dict(zip(NEEDED, (*facts, line), strict=True)))
    return rows


def _summarise_finding(question: Question, evidence: Evidence) -> dict[str, Any]:
    finding = repeat_question(question, evidence)
    return {
        "finding": question.id,
        "evidence": evidence.name,
        "verdict": finding.verdict,
        "models": finding.sample.n_models,
        "groups": finding.sample.n_groups,
        "needs": finding.criterion.settles * (finding.verdict == UNMEASURED),
    }


def _find_lacking(measures: Sequence[str], evidence: Evidence) -> tuple[Lacking, ...]:
    published = set(evidence.named(PUBLISHED).table("runs")["model_id"])
    here = evidence.named(MEASURED)
    runs, layers, weights = (here.table(name) for name in ("runs", "layers", "weights"))
    yours = set(evidence.own_models()["model_id"]) & set(runs["model_id"]) - published
    models = keep_last_revision(evidence.table("models"), "model_id").drop_duplicates("model_id")
    older = find_unread(runs[runs["source"] == OURS], here.table("models"), layers, weights)
    older = older[older["lacks"].map(LATER).isin(measures)]
    again = older.groupby("model_id")["lacks"].agg(lambda lacks: tuple(lacks.unique())).to_dict()
    asked = models["model_id"].isin(published | yours | set(again))
    models = models[asked & (models["heritage"] != NURSERY)]
    has = {}
    for what in measures:
        has[what] = set(here.table(TABLES[what])["model_id"])
    prompts = len(evidence.table("prompts", prompt_set=PROMPTS))
    lacking = []
    for row in models.sort_values("n_params").itertuples():
        lacks = [what for what in measures if row.model_id not in has[what]]
        lacks += [] if row.heritage else ["lab"]
        lacks += again.get(row.model_id, ())
        n = float(row.n_params) if pd.notna(row.n_params) else np.nan
        if lacks:
            costs = (n * BYTES, n * BYTES + PROCESS, estimate_seconds(n, prompts))
            own = row.model_id in yours
            lacking.append(Lacking(str(row.model_id), tuple(lacks), own, *costs))
    return tuple(sorted(lacking, key=lambda each: not each.own))


def _suggest_commands(
    measures: Sequence[str], models: Sequence[Lacking], data: str | Path | None
) -> tuple[str, ...]:
    folder = "mine" if data is None else data
    labless = [model.model_id for model in models if "lab" in model.lacks]
    lines = [write_command("set", name, "heritage=LAB", data=folder) for name in labless]
    named = []
    for model in models:
        if set(model.lacks) - {"lab", *LATER}:
            named.append(model.model_id)
    if named:
        lines.append(write_command("measure", *named, what=",".join(measures), data=folder))
    if again := [model.model_id for model in models if not set(LATER).isdisjoint(model.lacks)]:
        lines.append(
            write_command("measure", *again, what="weights,gains", set="older=again", data=folder)
        )
    return tuple(lines)

"""Many specs, the largest first, on whatever engine: one that cannot be measured never stops the
others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from time import sleep
from typing import Any, TypeVar

import filelock
from huggingface_hub import scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from thermostats.errors import (
    DataError,
    ThermostatsError,
    TransientError,
    UsageError,
    build_install_error,
)
from thermostats.measurement import hub, session
from thermostats.measurement.checkpoint import open_checkpoint
from thermostats.measurement.engines import Engine, Inline, Job, Local
from thermostats.measurement.hub import ASKED_AT_ONCE, download_bytes, fetch_config_folder
from thermostats.measurement.lookup import is_eager_wrong, lookup
from thermostats.measurement.model_row import check_quantised, check_switches, find_stored_dtype
from thermostats.measurement.plan import fetch_folder, find_finished_runs, name_model, plan
from thermostats.measurement.prompts import load_prompts
from thermostats.measurement.resources import (
    Need,
    Place,
    count_devices,
    estimate,
    estimate_seconds,
    find_refusal,
    format_gib,
)
from thermostats.measurement.session import OnProgress as Progress
from thermostats.measurement.spec import (
    RETRIES,
    WHAT,
    Cost,
    EngineSettings,
    Outcome,
    Problem,
    RunSpec,
    build_failure,
)
from thermostats.measurement.spectra import read_config
from thermostats.tables import runs
from thermostats.tables.folders import find_lookup_folder, prepare_folder

PAUSES = (1.0, 5.0)
"""Seconds to wait before asking a hub again that could not be reached."""
Ready = tuple[Job, Exception | None]
"""A job whose model is here, or why it cannot be had."""


class Downloads:
    """Jobs in order, each handed over once its model is on this machine; `done` gives its place on
    the disk free."""

    def __init__(
        self, jobs: Sequence[Job], cache: Path | None = None, budget: int | None = None
    ) -> None:
        self.jobs, self.cache, self.budget = jobs, cache, budget
        self.needed = Counter((job.spec.model, job.spec.revision) for job in jobs)
        self.freed = threading.Condition()
        self.ready: Queue[Ready] = Queue()
        self.stopped = False
        self.lock: filelock.FileLock | None = None
        if cache is not None:
            cache.mkdir(parents=True, exist_ok=True)
            self.lock = filelock.FileLock(cache / ".lock")
            try:
                self.lock.acquire(timeout=0)
            except filelock.Timeout as error:
                what = "another command is downloading to this cache within a budget"
                raise UsageError(
                    what, where=cache, next_step="wait for it, or leave out --set disk_budget"
                ) from error
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def take(self, seconds: float) -> list[Ready]:
        """Jobs that have become ready, waiting so long for the first."""
        ready: list[Ready] = []
        with suppress(Empty):
            ready.append(self.ready.get(timeout=seconds) if seconds else self.ready.get_nowait())
            while True:
                ready.append(self.ready.get_nowait())
        return ready

    def release_model(self, job: Job) -> None:
        """A job needs its model no longer."""
        with self.freed:
            self.needed[job.spec.model, job.spec.revision] -= 1
            self.freed.notify()

    def close(self) -> None:
        with self.freed:
            self.stopped = True
            self.freed.notify()
        if self.lock is not None:
            self.lock.release()

    def _run(self) -> None:
        for job in self.jobs:
            error: Exception | None = None
            try:
                self._fetch(job.spec)
            except Exception as fault:  # handed over, and told as the job's outcome
                error = fault
            if self.stopped:
                return
            self.ready.put((job, error))

    def _fetch(self, spec: RunSpec) -> None:
        for pause in (*PAUSES, None):
            try:
                if self.budget is not None and spec.download and not Path(spec.model).is_dir():
                    self._make_room(spec, self.budget)
                if not self.stopped:
                    fetch_folder(spec)
                return
            except TransientError:
                if pause is None:
                    raise
                sleep(pause)

    def _make_room(self, spec: RunSpec, budget: int) -> None:
        """Wait until a model fits into the budget, deleting those that no job needs; raises where
        it never can."""
        try:
            options = {"download": False, "pickles": spec.pickles}
            hub.fetch_model_folder(spec.model, revision=spec.revision, cache=self.cache, **options)
            return
        except ThermostatsError:
            size = hub.download_bytes(spec.model, revision=spec.revision)
        if size > budget:
            step = "raise --set disk_budget"
            what = "the model is larger than the disk budget"
            raise UsageError(
                what,
                where=spec.model,
                got=format_gib(size),
                allowed=format_gib(budget),
                next_step=step,
            )
        with self.freed:
            while self._trim_cache(budget - size) > budget - size and not self.stopped:
                self.freed.wait()

    def _trim_cache(self, room: int) -> int:
        """Bytes in the own cache, once snapshots that no job needs were deleted, the oldest first,
        as far as needed."""
        try:
            cache = scan_cache_dir(self.cache)
        except CacheNotFound:
            return 0  # nothing was downloaded to it yet
        used = int(cache.size_on_disk)
        snapshots = [(revision, repo) for repo in cache.repos for revision in repo.revisions]
        snapshots.sort(key=lambda each: each[0].last_modified)
        for revision, repo in snapshots:
            names = {*revision.refs, revision.commit_hash}
            if used > room and not any(self.needed[repo.repo_id, name] > 0 for name in names):
                strategy = cache.delete_revisions(revision.commit_hash)
                strategy.execute()
                used -= int(strategy.expected_freed_size)
        return used


def plan_job(job: Job, texts: Sequence[str], data: Path, place: Place) -> Outcome:
    """The outcome `planned`, or `skipped`, or `failed` where nothing can be measured.

    Of what is planned `gigabytes` is memory, `disk` what is downloaded, `seconds` what the
    forward passes take at the rate of the place, `reason` what cannot be measured.
    """
    spec = job.spec
    try:
        if job.need is not None and (refused := find_refusal(spec, job.need, place)) is not None:
            raise refused
        folder = fetch_configuration(spec)
        cannot = find_missing_kinds(folder, spec)
        if set(cannot) == set(spec.what):
            raise ThermostatsError(
                "nothing of it can be measured", where=spec.model, got=_describe_missing(cannot)
            )
        kinds = tuple(name for name in spec.what if name not in cannot)
        left = replace(spec, what=kinds)
        outcome, disk = _plan_files(left, data)
    except Exception as error:  # told as an outcome, as when it is measured
        return build_failure(spec, error)
    if outcome.status == "skipped" or job.need is None:
        return replace(outcome, cost=Cost(disk=disk))
    passes = len({WHAT[name][0] for name in left.what} - {"weights"})
    took = estimate_seconds(job.need.n_params, texts, passes, place.kind)
    gigabytes = _round_gigabytes(job.need)
    cost = Cost(gigabytes, disk, float(f"{took:.2g}"))
    n_params = outcome.n_params or job.need.n_params
    return replace(
        outcome, n_params=n_params, cost=cost, problem=Problem(_describe_missing(cannot))
    )


def fetch_configuration(spec: RunSpec) -> Path:
    """A folder with the configuration of a spec's model, fetched where it may be."""
    cache = None if spec.cache is None else Path(spec.cache)
    return fetch_config_folder(
        spec.model, revision=spec.revision, download=spec.download, cache=cache
    )


def find_missing_kinds(folder: Path, spec: RunSpec) -> Mapping[str, str]:
    """Of the kinds of quantity asked for those that cannot be measured, each with the reason; from
    the configuration.

    Raises ThermostatsError for a class that is not measured, a setting that no entry describes, or
    a quantised model.
    """
    images = spec.prompts == "images" or Path(spec.prompts).is_dir()
    config = read_config(folder, "image" if images else "text")
    check_switches(spec, config, folder)
    entry = lookup(config)
    check_quantised(config, folder)
    try:
        find_stored_dtype(open_checkpoint(folder))
    except DataError as error:
        if "quantised" in str(error):  # weights that are not here are no reason
            raise
    reasons = {
        "outputs": "" if entry.has_head else "the model has no next-token distribution",
        "attention": "",
    }
    if entry.mixers:
        reasons["attention"] = (
            f"attention has another module in its place in some blocks: {', '.join(entry.mixers)}"
        )
    elif entry.depths:
        reasons["attention"] = (
            "the model attends within windows, whose graphs have no estimand here"
        )
    elif is_eager_wrong(entry, config):
        reasons["attention"] = (
            "eager attention is wrong for this model: it computes something else than the default"
        )
    return {name: reasons[name] for name in spec.what if reasons.get(name)}


def _plan_files(spec: RunSpec, data: Path) -> tuple[Outcome, float]:
    """What is planned, and GB to download, which is 0 for a model that is here."""
    try:
        fetch_folder(replace(spec, download=False))
    except ThermostatsError:
        if not spec.download:
            raise
        gigabytes = float(f"{download_bytes(spec.model, revision=spec.revision) / 1e9:.3g}")
        return Outcome(spec.model, "planned", spec.revision), gigabytes
    here = plan(spec, data)
    return here.build_outcome("skipped" if here.finished else "planned"), 0.0


def _describe_missing(cannot: Mapping[str, str]) -> str:
    return "; ".join(f"no {name}: {why}" for name, why in cannot.items())


Found = TypeVar("Found")


def run_specs(
    specs: Sequence[RunSpec],
    data: str | Path | None = None,
    *,
    dry_run: bool = False,
    engine: Engine | None = None,
    retries: int = RETRIES,
    budget: int | None = None,
    progress: Progress | None = None,
    prepare: Callable[[], None] | None = None,
) -> Iterator[Outcome]:
    """Measure specs, the largest first, and yield the outcome of each as soon as it is known.

    Without an engine they are measured in this process. `prepare` is called before the first that
    is not finished. What fails by the machine's or the network's fault is tried again so many
    times. `budget`: bytes that models downloaded to the specs' `cache` may take.
    """
    folder = find_lookup_folder(data) if dry_run else prepare_folder(data)
    engine = engine or Inline(EngineSettings(), folder, progress)
    try:
        asked = {spec.prompts for spec in specs}
        sets = {name: _try_call(load_prompts, name, folder) for name in asked}
        left = []
        for spec in specs:
            prompts = sets[spec.prompts]
            finished = None if prompts is None else find_finished_runs(spec, prompts, folder)
            if finished is None:
                left.append(spec)
                continue
            if not dry_run:
                runs.clear(folder, session.hash_spec(spec))
            yield Outcome(name_model(spec), "skipped", spec.revision, finished=finished)
        if not left:
            return
        if prepare is not None:
            prepare()
        texts: dict[str, list[str]] = {}
        for name, rows in sets.items():
            texts[name] = []
            if rows is not None:
                texts[name] = list(map(str, rows["text"]))
        jobs = order_jobs(left, texts, engine.place)
        if dry_run:
            for job in jobs:
                yield plan_job(job, texts[job.spec.prompts], folder, engine.place)
        else:
            yield from _measure_jobs(jobs, folder, engine, retries, budget)
    finally:
        engine.close()


def open_engine(settings: EngineSettings, data: Path, progress: Progress | None = None) -> Engine:
    """The engine that the settings name.

    Raises UsageError where its extra is not installed.
    """
    try:
        if settings.name == "ray":
            from thermostats.measurement.cluster import Ray  # noqa: PLC0415

            return Ray(settings, data)
        return Local(settings, data, progress)
    except ModuleNotFoundError as error:
        raise build_install_error(
            error, f"the engine {settings.name} is not installed", settings.name
        ) from error


def order_jobs(
    specs: Sequence[RunSpec], texts: Mapping[str, Sequence[str]], place: Place
) -> list[Job]:
    """Specs as jobs, the one that needs most memory first, those of unknown need last.

    `texts`: of each prompt set. One configuration is read for all revisions of a model: a family's
    checkpoints differ in weights alone.
    """
    alike = {_make_shape_key(spec): spec for spec in reversed(specs)}
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        folders = list(pool.map(partial(_try_call, fetch_configuration), alike.values()))
    needs: dict[tuple[Any, ...], Need | None] = dict.fromkeys(alike)
    for (shape, spec), folder in zip(alike.items(), folders, strict=True):
        if folder is not None and texts[spec.prompts]:
            read = texts[spec.prompts]
            needs[shape] = _try_call(estimate, folder, spec, read, place.kind)
    jobs = []
    for spec in specs:
        need = needs[_make_shape_key(spec)]
        devices = 1 if need is None else count_devices(need, place)
        spread = spec
        if devices > 1 and spec.device_map is None:
            spread = replace(spec, device_map="auto")
        jobs.append(Job(spread, need, devices))
    return sorted(jobs, key=lambda job: -1 if job.need is None else job.need.total, reverse=True)


def _measure_jobs(
    jobs: Sequence[Job], data: Path, engine: Engine, retries: int, budget: int | None
) -> Iterator[Outcome]:
    fitting = []
    for job in jobs:
        refused = None if job.need is None else find_refusal(job.spec, job.need, engine.place)
        if refused is None:
            fitting.append(job)
            session.write_state(data, job.spec, runs.WAITING)
        else:
            yield _record_failure(job, data, build_failure(job.spec, refused))
    caches = (Path(job.spec.cache) for job in jobs if job.spec.cache is not None)
    cache = next(caches, None)
    downloads = Downloads(fitting, cache, budget)
    waiting = len(fitting)
    running = 0
    try:
        while waiting or running:
            for job, error in downloads.take(0.0 if running else 1.0):
                waiting -= 1
                if error is None:
                    engine.submit(job)
                    running += 1
                else:
                    downloads.release_model(job)
                    yield _record_failure(job, data, build_failure(job.spec, error))
            for job, outcome in engine.wait(1.0):
                if outcome.problem.again and job.attempt <= retries:
                    reason = outcome.problem.reason
                    again = replace(job, attempt=job.attempt + 1)
                    with suppress(DataError):  # it is tried again though nothing can be written
                        session.write_state(data, job.spec, runs.WAITING, reason, again.attempt)
                    engine.submit(again)
                    continue
                running -= 1
                downloads.release_model(job)
                yield (
                    _record_failure(job, data, outcome)
                    if outcome.status == "failed"
                    else _add_need(job, outcome)
                )
    finally:
        downloads.close()


def _add_need(job: Job, outcome: Outcome) -> Outcome:
    gigabytes = None
    if job.need is not None and job.need.weights and outcome.status != "skipped":
        gigabytes = _round_gigabytes(job.need)
    return replace(outcome, cost=replace(outcome.cost, gigabytes=gigabytes), attempts=job.attempt)


def _round_gigabytes(need: Need) -> float:
    return float(f"{need.total / 1e9:.3g}")


def _record_failure(job: Job, data: Path, outcome: Outcome) -> Outcome:
    last = outcome.problem.reason
    reason = last if job.attempt == 1 else f"tried {job.attempt} times, at last: {last}"
    with suppress(DataError):  # where nothing can be written, the outcome says it
        session.write_state(data, job.spec, runs.FAILED, reason, job.attempt)
    return _add_need(job, outcome.replace_reason(reason))


def _try_call(call: Callable[..., Found], *arguments: Any) -> Found | None:
    """What a call finds, None where it refuses: why is said when the spec is measured, by what
    finds it out then."""
    with suppress(ThermostatsError):
        return call(*arguments)
    return None


def _make_shape_key(spec: RunSpec) -> tuple[Any, ...]:
    return (spec.model, spec.dtype, spec.prompts, spec.what, spec.token_budget)

"""Many specs, the largest first, on whatever engine: one that cannot be measured never stops the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from thermostats.errors import ThermostatsError, not_installed
from thermostats.measurement import session
from thermostats.measurement.downloads import Downloads
from thermostats.measurement.dry_run import configured, planned
from thermostats.measurement.engines import Engine, Job
from thermostats.measurement.engines.local import Inline, Local
from thermostats.measurement.estimate import Need, Place, devices_needed, estimate, refusal
from thermostats.measurement.hub import ASKED_AT_ONCE
from thermostats.measurement.outcome import Outcome, failed
from thermostats.measurement.plan import finished_runs, model_id
from thermostats.measurement.prompts import load_prompts
from thermostats.measurement.session import Progress
from thermostats.measurement.settings import RETRIES, EngineSettings
from thermostats.measurement.spec import RunSpec
from thermostats.tables import spec_states, store
from thermostats.tables.folders import writable_folder

Found = TypeVar("Found")


def execute(
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

    Without an engine they are measured in this process. `prepare` is called before the first that is not finished. What
    fails by the machine's or the network's fault is tried again so many times. `budget`: bytes that models downloaded
    to the specs' `cache` may take.
    """
    folder = store.data_folder(data) if dry_run else writable_folder(data)
    engine = engine or Inline(EngineSettings(), folder, progress)
    try:
        sets = {name: _unless_refused(load_prompts, name, folder) for name in {spec.prompts for spec in specs}}
        left = []
        for spec in specs:
            prompts = sets[spec.prompts]
            finished = None if prompts is None else finished_runs(spec, prompts, folder)
            if finished is None:
                left.append(spec)
                continue
            if not dry_run:
                spec_states.clear(folder, session.spec_id(spec))
            yield Outcome(model_id(spec), "skipped", spec.revision, finished=finished)
        if not left:
            return
        if prepare is not None:
            prepare()
        texts = {name: [] if rows is None else [str(text) for text in rows["text"]] for name, rows in sets.items()}
        jobs = largest_first(left, texts, engine.place)
        if dry_run:
            yield from (planned(job, texts[job.spec.prompts], folder, engine.place) for job in jobs)
        else:
            yield from _measured(jobs, folder, engine, retries, budget)
    finally:
        engine.close()


def open_engine(settings: EngineSettings, data: Path, progress: Progress | None = None) -> Engine:
    """The engine that the settings name.

    Raises UsageError where its extra is not installed.
    """
    try:
        if settings.name == "ray":
            from thermostats.measurement.engines.ray import Ray  # noqa: PLC0415 - an extra

            return Ray(settings, data)
        return Local(settings, data, progress)
    except ModuleNotFoundError as error:
        raise not_installed(error, f"the engine {settings.name} is not installed", settings.name) from error


def largest_first(specs: Sequence[RunSpec], texts: Mapping[str, Sequence[str]], place: Place) -> list[Job]:
    """Specs as jobs, the one that needs most memory first, those of unknown need last.

    `texts`: of each prompt set. One configuration is read for all revisions of a model: a family's checkpoints differ
    in weights alone.
    """
    alike = {_shape(spec): spec for spec in reversed(specs)}
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        folders = list(pool.map(partial(_unless_refused, configured), alike.values()))
    needs: dict[tuple[Any, ...], Need | None] = dict.fromkeys(alike)
    for (shape, spec), folder in zip(alike.items(), folders, strict=True):
        if folder is not None and texts[spec.prompts]:
            needs[shape] = _unless_refused(estimate, folder, spec, texts[spec.prompts], place.kind)
    jobs = []
    for spec in specs:
        need = needs[_shape(spec)]
        devices = 1 if need is None else devices_needed(need, place)
        spread = replace(spec, device_map="auto") if devices > 1 and spec.device_map is None else spec
        jobs.append(Job(spread, need, devices))
    return sorted(jobs, key=lambda job: -1 if job.need is None else job.need.total, reverse=True)


def _measured(jobs: Sequence[Job], data: Path, engine: Engine, retries: int, budget: int | None) -> Iterator[Outcome]:
    fitting = []
    for job in jobs:
        refused = None if job.need is None else refusal(job.spec, job.need, engine.place)
        if refused is None:
            fitting.append(job)
            session.write_state(data, job.spec, spec_states.WAITING)
        else:
            yield _failed(job, data, failed(job.spec, refused))
    cache = next((Path(job.spec.cache) for job in jobs if job.spec.cache is not None), None)
    downloads = Downloads(fitting, cache, budget)
    waiting, running = len(fitting), 0
    try:
        while waiting or running:
            for job, error in downloads.take(0.0 if running else 1.0):
                waiting -= 1
                if error is None:
                    engine.submit(job)
                    running += 1
                else:
                    downloads.done(job)
                    yield _failed(job, data, failed(job.spec, error))
            for job, outcome in engine.wait(1.0):
                if outcome.problem.again and job.attempt <= retries:
                    session.write_state(data, job.spec, spec_states.WAITING, outcome.problem.reason, job.attempt + 1)
                    engine.submit(replace(job, attempt=job.attempt + 1))
                    continue
                running -= 1
                downloads.done(job)
                yield _failed(job, data, outcome) if outcome.status == "failed" else _with_need(job, outcome)
    finally:
        downloads.close()


def _with_need(job: Job, outcome: Outcome) -> Outcome:
    loads = job.need is not None and job.need.weights and outcome.status != "skipped"
    gigabytes = float(f"{job.need.total / 1e9:.3g}") if job.need is not None and loads else None
    return replace(outcome, cost=replace(outcome.cost, gigabytes=gigabytes), attempts=job.attempt)


def _failed(job: Job, data: Path, outcome: Outcome) -> Outcome:
    last = outcome.problem.reason
    reason = last if job.attempt == 1 else f"tried {job.attempt} times, at last: {last}"
    session.write_state(data, job.spec, spec_states.FAILED, reason, job.attempt)
    return _with_need(job, outcome.because(reason))


def _unless_refused(call: Callable[..., Found], *arguments: Any) -> Found | None:
    """What a call finds, None where it refuses: why is said when the spec is measured, by what finds it out then."""
    with suppress(ThermostatsError):
        return call(*arguments)
    return None


def _shape(spec: RunSpec) -> tuple[Any, ...]:
    return (spec.model, spec.dtype, spec.prompts, spec.what, spec.token_budget)

"""Where specs are measured: this process, or processes of this machine, as many as GPUs, or cores
and memory, allow."""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from thermostats.measurement.resources import PROCESS, Need, Place
from thermostats.measurement.session import OnProgress as Progress
from thermostats.measurement.session import measure_one, set_quiet
from thermostats.measurement.spec import EngineSettings, Outcome, RunSpec, build_loss
from thermostats.settings import count_cores, set_variables, stop_with_parent

UNKNOWN = 2 * 2**30
"""Bytes reserved for a spec whose need cannot be estimated beforehand."""


@dataclass(frozen=True)
class Job:
    """A spec to be measured: what it needs, on how many devices, for which time it is tried."""

    spec: RunSpec
    need: Need | None = None
    devices: int = 1
    attempt: int = 1

    @property
    def n_bytes(self) -> int:
        """Bytes set aside for it: twice as many with every attempt, as the estimate may have been
        too low."""
        return (UNKNOWN if self.need is None else self.need.total) << (self.attempt - 1)


class Engine(Protocol):
    """What an engine does."""

    @property
    def place(self) -> Place:
        """The largest room that it has for one model."""

    def submit(self, job: Job) -> None:
        """Take a job; it begins when there is room."""

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Jobs that are through, with what became of them; none after so many seconds, or where
        none was taken."""

    def close(self) -> None:
        """Stop what still runs."""


CPUS = 4
"""Threads a model is measured with where nothing is said: products of matrices gain little from
more."""


class Inline:
    """Specs in this very process, one after the other; for a single one there is nothing to keep
    apart."""

    def __init__(
        self, settings: EngineSettings, data: Path, progress: Progress | None = None
    ) -> None:
        self.settings, self.data, self.progress = settings, data, progress
        self.jobs: list[Job] = []

    @cached_property
    def place(self) -> Place:
        """The room of this machine, looked at once something is to be measured."""
        return find_local_place(self.settings)

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        del seconds
        if not self.jobs:
            return []
        job = self.jobs.pop(0)
        return [(job, measure_one(job.spec, self.data, job.attempt, self.progress))]

    def close(self) -> None:
        """Nothing runs."""


class Worker:
    """A process with the variables of its slot, and the job it has."""

    def __init__(self, slot: int, environment: dict[str, str], data: Path) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_measure_jobs, args=(theirs, str(data)), daemon=True)
        with set_variables(environment):
            self.process.start()
        theirs.close()
        self.slot = slot
        self.job: Job | None = None


class Local(Inline):
    """The same in a pool of processes: one for each GPU, or one for each `cpus` cores; jobs wait
    for a free one."""

    def __init__(
        self, settings: EngineSettings, data: Path, progress: Progress | None = None
    ) -> None:
        super().__init__(settings, data, progress)
        self.workers: list[Worker] = []

    @cached_property
    def environments(self) -> list[dict[str, str]]:
        """Variables of each process that there may be at once."""
        return _build_environments(self.settings, self.place)

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Jobs that are through; progress is passed on meanwhile."""
        self._start()
        busy = {}
        for worker in self.workers:
            if worker.job is not None:
                busy[worker.connection] = (worker, worker.job)
        through = []
        for connection in wait(list(busy), seconds) if busy else []:
            worker, job = busy[connection]  # type: ignore[index]
            outcome = self._read_outcome(worker, job)
            if outcome is not None:
                worker.job = None
                through.append((job, outcome))
        return through

    def close(self) -> None:
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join()
        self.workers = []

    def _start(self) -> None:
        """Give jobs to processes that are free, as long as memory is."""
        room = self.place.each if self.place.kind == "cpu" else None
        for job in list(self.jobs):
            taken = [
                worker.job.n_bytes + PROCESS for worker in self.workers if worker.job is not None
            ]
            if len(taken) == len(self.environments):
                return
            if taken and room is not None and sum(taken) + job.n_bytes + PROCESS > room:
                continue
            idle = (worker for worker in self.workers if worker.job is None)
            worker = next(idle, None) or self._start_worker()
            self.jobs.remove(job)
            worker.job = job
            with suppress(OSError):  # it died while it was idle: `_read_outcome` says so
                worker.connection.send((job.spec, job.attempt))

    def _start_worker(self) -> Worker:
        used = {worker.slot for worker in self.workers}
        slot = min(set(range(len(self.environments))) - used)
        worker = Worker(slot, self.environments[slot], self.data)
        self.workers.append(worker)
        return worker

    def _read_outcome(self, worker: Worker, job: Job) -> Outcome | None:
        """What a process says: its outcome; None where it was progress. A process that died is
        taken out."""
        try:
            kind, content = worker.connection.recv()
        except (EOFError, OSError):
            self.workers.remove(worker)
            worker.process.join()
            return build_loss(
                job.spec, f"its process ended with {_describe_exit(worker.process.exitcode)}"
            )
        if kind == "outcome":
            outcome: Outcome = content
            return outcome
        if self.progress is not None:
            self.progress(*content)
        return None


def _measure_jobs(connection: Connection, data: str) -> None:
    """Measure what is sent, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    stop_with_parent()
    set_quiet()
    with suppress(EOFError, BrokenPipeError):
        while True:
            spec, attempt = connection.recv()

            def progress(*state: Any) -> None:
                connection.send(("progress", state))

            connection.send(("outcome", measure_one(spec, Path(data), attempt, progress)))


def _describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return f"{name}, as happens when memory runs out" if name == "SIGKILL" else name
    return f"status {code}"


def find_local_place(settings: EngineSettings) -> Place:
    """The room of this machine: its smallest GPU, or all where models are spread over them, else
    its free memory."""
    import torch  # noqa: PLC0415

    from thermostats.measurement.resources import find_free_memory  # noqa: PLC0415

    if settings.device == "cpu" or not torch.cuda.is_available():
        return Place("cpu", find_free_memory(torch.device("cpu")))
    count = torch.cuda.device_count()
    sizes = []
    for i in range(count):
        sizes.append(int(torch.cuda.get_device_properties(i).total_memory))
    return Place("accelerator", min(sizes), count if settings.spread else 1)


def _build_environments(settings: EngineSettings, place: Place) -> list[dict[str, str]]:
    """Variables of each process that there may be at once."""
    cores = count_cores()
    cpus = min(settings.cpus or CPUS, cores)
    threads = {"OMP_NUM_THREADS": str(cpus)}
    if place.kind == "cpu":
        return [threads] * max(1, cores // cpus)
    if settings.spread or settings.device != "auto":
        return [threads]
    return [{**threads, "CUDA_VISIBLE_DEVICES": gpu} for gpu in _list_visible_gpus()]


def _list_visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use, as CUDA_VISIBLE_DEVICES takes them."""
    import torch  # noqa: PLC0415

    stated = os.environ.get("CUDA_VISIBLE_DEVICES")
    return stated.split(",") if stated else [str(i) for i in range(torch.cuda.device_count())]

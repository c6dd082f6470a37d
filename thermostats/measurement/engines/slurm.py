"""Specs as job arrays of Slurm, through submitit; without Slurm on this machine submitit runs them as its processes.

Specs that need about as much memory make an array; the driver waits for the jobs, and cancels them when it is stopped.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, UncompletedJobError

from thermostats.errors import UsageError, first_line
from thermostats.measurement.engines import Job
from thermostats.measurement.engines.local import CPUS
from thermostats.measurement.estimate import PROCESS, Place
from thermostats.measurement.session import Outcome, lost, measure_quietly
from thermostats.measurement.settings import Settings
from thermostats.tables.spec_states import FOLDER

SPARE = 1.2
"""Memory that is asked for, over what the estimate says: Slurm ends a job that takes more."""
MINUTES = 240
"""Time limit of a job where nothing is said."""
PARALLEL = 256
"""Jobs of an array that run at once."""
ARRAY = 1000
"""Jobs of an array: the most that Slurm takes where its MaxArraySize was left alone."""


class Slurm:
    """Job arrays; the data folder and the models must be reachable from every node under the same path."""

    def __init__(self, settings: Settings, data: Path) -> None:
        self.settings, self.data = settings, data.resolve()
        self.executor = submitit.AutoExecutor(folder=self.data / FOLDER / "slurm")
        cores = max(1, (os.cpu_count() or 1) // (settings.cpus or CPUS))
        self.limit = ARRAY if self.executor.cluster == "slurm" else cores  # submitit starts all its processes at once
        on_gpus = Place("accelerator", settings.gpu_memory, settings.gpus)
        self.place = on_gpus if settings.on_gpus else Place("cpu", None)
        self.waiting: list[Job] = []
        self.running: dict[Any, Job] = {}
        self._set(1, 1)  # an option that sbatch does not have is named before anything waits

    def submit(self, job: Job) -> None:
        """Take a job; it is queued with the others of its size."""
        self.waiting.append(job)

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Jobs that are through."""
        self._queue()
        until = monotonic() + seconds
        while self.running:
            through = [handle for handle in self.running if handle.done()]
            found = [(job := self.running.pop(handle), _heard(handle, job)) for handle in through]
            if found or monotonic() >= until:
                return found
            sleep(0.1)
        return []

    def close(self) -> None:
        """Cancel what still waits or runs."""
        for handle in self.running:
            handle.cancel()
        self.running = {}

    def _queue(self) -> None:
        sizes: dict[tuple[int, int], list[Job]] = {}
        room = self.limit if self.executor.cluster == "slurm" else self.limit - len(self.running)
        taken, self.waiting = self.waiting[: max(room, 0)], self.waiting[max(room, 0) :]
        for job in taken:
            sizes.setdefault((gigabytes(job), job.devices), []).append(job)
        for (memory, devices), jobs in sorted(sizes.items(), reverse=True):
            self._set(memory, devices)
            specs, attempts = [job.spec for job in jobs], [job.attempt for job in jobs]
            handles = self.executor.map_array(measure_quietly, specs, [str(self.data)] * len(jobs), attempts)
            self.running |= dict(zip(handles, jobs, strict=True))

    def _set(self, memory: int, devices: int) -> None:
        try:
            given = {f"slurm_{name}": value for name, value in (each.split("=", 1) for each in self.settings.slurm)}
            self.executor.update_parameters(
                name="thermostats",
                mem_gb=memory,
                cpus_per_task=self.settings.cpus or CPUS,
                tasks_per_node=1,
                gpus_per_node=devices if self.settings.on_gpus else 0,
                timeout_min=MINUTES,
                slurm_array_parallelism=PARALLEL,
                **given,
            )
        except (NameError, TypeError, ValueError) as error:
            raise UsageError("no such option of a Slurm job", where="--slurm", got=str(error)[:200]) from error


def gigabytes(job: Job) -> int:
    """Memory of a job in GB, the next power of two: jobs of one array ask for the same."""
    return int(2 ** math.ceil(math.log2(SPARE * (job.n_bytes + PROCESS) / 1e9)))


def _heard(handle: Any, job: Job) -> Outcome:
    try:
        outcome: Outcome = handle.result()
    except (UncompletedJobError, FailedJobError) as error:
        return lost(job.spec, f"its job {handle.job_id} ended without a result: {first_line(error)}")
    return outcome

"""Train many models side by side, one process per core or one for a GPU; what is finished is skipped."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from thermostats.studies.nursery.factors import STEPS, TUNING
from thermostats.studies.nursery.records import Trained, read_record, tuned_name

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """One training: a row of the design, from initialisation or (`tuned`) on the other corpus."""

    row: Row
    tuned: bool
    budget: float

    @property
    def name(self) -> str:
        """Name of the model that comes of it."""
        return tuned_name(self.row["model"]) if self.tuned else str(self.row["model"])

    @property
    def steps(self) -> int:
        """Steps of the optimiser."""
        return max(1, round(STEPS * self.budget * (TUNING if self.tuned else 1)))

    @property
    def work(self) -> float:
        """About how long it takes, in layer-steps; the wider model counts half as much again."""
        return float(self.steps * (self.row["n_layers"] + 1) * (1.5 if self.row["d_model"] > 32 else 1.0))


@dataclass(frozen=True)
class Step:
    """Progress of a job: share done, and its record when it is through."""

    job: Job
    share: float
    trained: Trained | None = None


def jobs(rows: Sequence[Row], tuned: Sequence[Row], budget: float) -> list[Job]:
    """Every training of the rows, then fine-tuning of those in `tuned`."""
    return [Job(row, False, budget) for row in rows] + [Job(row, True, budget) for row in tuned]


def train_all(
    wanted: Sequence[Job], folder: Path, *, device: str = "cpu", processes: int | None = None
) -> Iterator[Step]:
    """Run jobs and tell their progress; fine-tuning waits until its model is trained.

    A finished job is told at once and not run again. An exception of one job is raised when the others are through.
    """
    workers = processes or (1 if device != "cpu" else os.cpu_count() or 1)
    first = [job for job in wanted if not job.tuned]
    for part in (first, [job for job in wanted if job.tuned]):
        open_jobs = []
        for job in part:
            known = read_record(folder, job.name)
            if known is not None and known.steps == job.steps:
                yield Step(job, 1.0, known)
            else:
                open_jobs.append(job)
        if open_jobs:
            yield from _side_by_side(open_jobs, folder, device, min(workers, len(open_jobs)))


def _side_by_side(wanted: Sequence[Job], folder: Path, device: str, workers: int) -> Iterator[Step]:
    context = get_context("spawn")
    with context.Manager() as manager:
        said = manager.Queue()
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare) as pool:
            running: dict[Future[Trained], Job] = {
                pool.submit(_train, i, job, folder, device, said): job for i, job in enumerate(wanted)
            }
            failed: BaseException | None = None
            try:
                while running:
                    yield from _told(said, wanted)
                    for future in [future for future in running if future.done()]:
                        job = running.pop(future)
                        if (error := future.exception()) is not None:
                            failed = error
                        else:
                            yield Step(job, 1.0, future.result())
            finally:
                pool.shutdown(wait=not running, cancel_futures=True)
            if failed is not None:
                raise failed


def _told(said: queue.Queue[tuple[int, float]], wanted: Sequence[Job]) -> Iterator[Step]:
    try:
        number, share = said.get(timeout=0.5)
        yield Step(wanted[number], share)
        while True:
            number, share = said.get_nowait()
            yield Step(wanted[number], share)
    except queue.Empty:
        return


def _prepare() -> None:
    import torch  # noqa: PLC0415 - in the worker only

    from thermostats.measurement.session import quiet  # noqa: PLC0415

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    quiet()


def _train(number: int, job: Job, folder: Path, device: str, said: queue.Queue[tuple[int, float]]) -> Trained:
    from thermostats.studies.nursery import training  # noqa: PLC0415 - torch, in the worker only

    def tell(done: int, total: int) -> None:
        if done % 10 == 0:
            said.put((number, done / total))

    run = training.tune if job.tuned else training.train
    return run(job.row, folder, budget=job.budget, device=device, progress=tell)

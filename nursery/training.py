"""Train packs side by side; what is trained is not trained again.

They run in processes of this machine or on a Ray cluster, where the folder must be reachable from
every node under the same path. The same command goes on with lost jobs.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import sleep
from typing import Any

import torch

from nursery.designs import Pack
from nursery.pack_training import run
from nursery.records import Trained
from thermostats.errors import ThermostatsError, build_install_error
from thermostats.measurement.session import set_quiet
from thermostats.measurement.spec import EngineSettings

Submit = Callable[..., Any]
"""Takes a function and what it is called with; returns a future."""


Shares = queue.Queue[tuple[int, float]]
"""Number of a pack and the share that is done."""


@dataclass(frozen=True)
class Step:
    """Progress of a pack: share done, and the records of its models when it is through."""

    pack: Pack
    share: float
    trained: Sequence[Trained] = ()


def train_all(
    packs: Sequence[Pack],
    folder: Path,
    *,
    device: str = "cpu",
    processes: int | None = None,
    engine: EngineSettings = EngineSettings(),  # noqa: B008
) -> Iterator[Step]:
    """Train packs side by side, one process a core or one for a GPU, and yield their progress; the
    longest begin.

    engine: this machine, or a cluster, which takes all packs at once.

    A finished pack is yielded at once and not trained again. An exception of one is raised when the
    others are through.
    """
    workers = processes or (1 if device != "cpu" else os.cpu_count() or 1)
    records = {pack.name: pack.records(folder) for pack in packs}
    yield from (Step(pack, 1.0, records[pack.name]) for pack in packs if records[pack.name])
    left = sorted((pack for pack in packs if not records[pack.name]), key=lambda pack: -pack.work)
    if left:
        with pool(engine, min(workers, len(left)), gpu=device != "cpu") as (submit, shares):
            yield from _side_by_side(left, folder.resolve(), device, submit, shares)


def _side_by_side(
    packs: Sequence[Pack], folder: Path, device: str, submit: Submit, shares: Shares | None
) -> Iterator[Step]:
    running = {
        pack.name: (submit(_train, i, pack, folder, device, shares), pack)
        for i, pack in enumerate(packs)
    }
    failed: BaseException | None = None
    while running:
        yield from (Step(packs[number], share) for number, share in _arrived(shares))
        for future, pack in [job for job in running.values() if job[0].done()]:
            del running[pack.name]
            if (error := future.exception()) is not None:
                failed = error
            else:
                yield Step(pack, 1.0, future.result())
    if failed is not None:
        raise failed


def _arrived(shares: Shares | None) -> Iterator[tuple[int, float]]:
    if shares is None:
        sleep(0.5)
        return
    try:
        yield shares.get(timeout=0.5)
        while True:
            yield shares.get_nowait()
    except queue.Empty:
        return


def _train(
    number: int, pack: Pack, folder: Path, device: str, shares: Shares | None
) -> list[Trained]:
    parent = multiprocessing.parent_process()

    def progress(done: int, total: int) -> None:
        if parent is not None and not parent.is_alive():
            raise SystemExit("the command that trains was killed")
        if shares is not None and done % 10 == 0:
            shares.put((number, done / total))

    return run(pack, folder, device=device, progress=progress)


@contextmanager
def pool(settings: EngineSettings, workers: int, *, gpu: bool) -> Iterator[tuple[Submit, Any]]:
    """Submit, and on this machine a queue on which jobs say how far they are; None elsewhere.

    Raises UsageError where the engine's extra is not installed.
    """
    if settings.name == "local":
        with _processes(workers) as here:
            yield here
        return
    try:
        library = import_module("ray")
    except ModuleNotFoundError as error:
        raise build_install_error(error, "the engine ray is not installed", "ray") from error
    with _ray(library, settings, gpu) as submit:
        yield submit, None


@contextmanager
def _processes(workers: int) -> Iterator[tuple[Submit, Any]]:
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        running = ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare)
        try:
            yield running.submit, manager.Queue()
            running.shutdown()
        finally:
            running.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _ray(ray: Any, settings: EngineSettings, gpu: bool) -> Iterator[Submit]:
    ours = not ray.is_initialized()
    if ours:
        try:
            ray.init(address=settings.cluster, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            step = (
                "check the address, as `ray start` printed it; without one Ray runs on this machine"
            )
            what = "the Ray cluster cannot be reached"
            where = settings.address or "this machine"
            raise ThermostatsError(
                what, where=where, got=str(error)[:160], next_step=step
            ) from error
    task: Any = ray.remote(_prepared).options(num_cpus=settings.cpus or 1, num_gpus=int(gpu))
    try:
        yield lambda *called: task.remote(*called).future()
    finally:
        if ours:
            ray.shutdown()


def _prepared(function: Callable[..., Any], *arguments: Any) -> Any:
    _prepare()
    return function(*arguments)


def _prepare() -> None:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    set_quiet()

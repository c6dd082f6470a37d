"""Where trainings run: processes of this machine, a Ray cluster, or jobs of Slurm through submitit.

On a cluster the folder must be reachable from every node under the same path. The same command goes on with lost jobs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from thermostats.errors import ThermostatsError, not_installed
from thermostats.measurement.session import quiet
from thermostats.measurement.settings import Settings

Submit = Callable[..., Any]
"""Takes a function and what it is called with; returns a future."""
MINUTES = 600
"""Time limit of a job of Slurm where nothing is said."""


@contextmanager
def pool(settings: Settings, folder: Path, workers: int, *, gpu: bool) -> Iterator[tuple[Submit, Any]]:
    """Submit, and on this machine a queue on which jobs say how far they are; None elsewhere.

    Raises UsageError where the engine's extra is not installed.
    """
    if settings.name == "local":
        with _processes(workers) as here:
            yield here
        return
    try:
        library = import_module({"ray": "ray", "slurm": "submitit"}[settings.name])
    except ModuleNotFoundError as error:
        raise not_installed(error, f"the engine {settings.name} is not installed", settings.name) from error
    with (_ray if settings.name == "ray" else _slurm)(library, settings, folder, gpu) as submit:
        yield submit, None


@contextmanager
def _processes(workers: int) -> Iterator[tuple[Submit, Any]]:
    context = get_context("spawn")
    with context.Manager() as manager:
        running = ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare)
        try:
            yield running.submit, manager.Queue()
            running.shutdown()
        finally:
            running.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _ray(ray: Any, settings: Settings, _folder: Path, gpu: bool) -> Iterator[Submit]:
    ours = not ray.is_initialized()
    if ours:
        try:
            ray.init(address=settings.address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            step = "check the address, as `ray start` printed it; without one Ray runs on this machine"
            what, where = "the Ray cluster cannot be reached", settings.address or "this machine"
            raise ThermostatsError(what, where=where, got=str(error)[:160], next_step=step) from error
    task: Any = ray.remote(_prepared).options(num_cpus=settings.cpus or 1, num_gpus=int(gpu))
    try:
        yield lambda *called: task.remote(*called).future()
    finally:
        if ours:
            ray.shutdown()


@contextmanager
def _slurm(submitit: Any, settings: Settings, folder: Path, gpu: bool) -> Iterator[Submit]:
    executor = submitit.AutoExecutor(folder=folder / "slurm")
    given = {f"slurm_{name}": value for name, value in (each.split("=", 1) for each in settings.slurm)}
    executor.update_parameters(
        name="nursery", cpus_per_task=settings.cpus or 1, gpus_per_node=int(gpu), timeout_min=MINUTES, **given
    )
    handles: list[Any] = []

    def submit(*called: Any) -> Any:
        handles.append(executor.submit(partial(_prepared, *called)))
        return handles[-1]

    try:
        yield submit
    finally:
        for handle in handles:
            if not handle.done():
                handle.cancel()


def _prepared(function: Callable[..., Any], *given: Any) -> Any:
    _prepare()
    return function(*given)


def _prepare() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    quiet()

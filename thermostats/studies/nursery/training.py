"""Train packs side by side, in processes of this machine or jobs of a cluster; what is trained is not trained again."""

from __future__ import annotations

import multiprocessing
import os
import queue
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from thermostats.measurement.settings import Settings
from thermostats.studies.nursery.pack_training import run
from thermostats.studies.nursery.packs import Pack
from thermostats.studies.nursery.plan import Trained
from thermostats.studies.nursery.pools import Submit, pool


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
    engine: Settings = Settings(),  # noqa: B008 - frozen
) -> Iterator[Step]:
    """Train packs side by side, one process a core or one for a GPU, and yield their progress; the longest begin.

    engine: this machine, or a cluster, which takes all packs at once.

    A finished pack is yielded at once and not trained again. An exception of one is raised when the others are through.
    """
    workers = processes or (1 if device != "cpu" else os.cpu_count() or 1)
    known = {pack.name: pack.records(folder) for pack in packs}
    yield from (Step(pack, 1.0, known[pack.name]) for pack in packs if known[pack.name])
    left = sorted((pack for pack in packs if not known[pack.name]), key=lambda pack: -pack.work)
    if left:
        with pool(engine, folder.resolve(), min(workers, len(left)), gpu=device != "cpu") as (submit, shares):
            yield from _side_by_side(left, folder.resolve(), device, submit, shares)


def _side_by_side(
    packs: Sequence[Pack], folder: Path, device: str, submit: Submit, shares: queue.Queue[tuple[int, float]] | None
) -> Iterator[Step]:
    running = [(submit(_train, i, pack, folder, device, shares), pack) for i, pack in enumerate(packs)]
    failed: BaseException | None = None
    while running:
        yield from (Step(packs[number], share) for number, share in _arrived(shares))
        through = [(future, pack) for future, pack in running if future.done()]
        running = [(future, pack) for future, pack in running if all(future is not other for other, _ in through)]
        for future, pack in through:
            if (error := future.exception()) is not None:
                failed = error
            else:
                yield Step(pack, 1.0, future.result())
    if failed is not None:
        raise failed


def _arrived(shares: queue.Queue[tuple[int, float]] | None) -> Iterator[tuple[int, float]]:
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
    number: int, pack: Pack, folder: Path, device: str, shares: queue.Queue[tuple[int, float]] | None
) -> list[Trained]:
    parent = multiprocessing.parent_process()

    def progress(done: int, total: int) -> None:
        if parent is not None and not parent.is_alive():
            raise SystemExit("the command that trains was killed")
        if shares is not None and done % 10 == 0:
            shares.put((number, done / total))

    return run(pack, folder, device=device, progress=progress)

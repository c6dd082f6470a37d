"""Models on their way to this machine while others are measured, within a budget of disk where one is given.

What is downloaded under a budget goes to a cache of this program's own, and only what lies there is ever deleted.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from time import sleep

import filelock
from huggingface_hub import scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from thermostats.errors import ThermostatsError, TransientError, UsageError
from thermostats.measurement import hub
from thermostats.measurement.engines import Job
from thermostats.measurement.estimate import gib
from thermostats.measurement.plan import folder_of
from thermostats.measurement.spec import RunSpec

PAUSES = (1.0, 5.0)
"""Seconds to wait before asking a hub again that could not be reached."""
Ready = tuple[Job, Exception | None]
"""A job whose model is here, or why it cannot be had."""


class Downloads:
    """Jobs in order, each handed over once its model is on this machine; `done` gives its place on the disk free."""

    def __init__(self, jobs: Sequence[Job], cache: Path | None = None, budget: int | None = None) -> None:
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
                raise UsageError(what, where=cache, next_step="wait for it, or leave out --set disk_budget") from error
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

    def done(self, job: Job) -> None:
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
                    folder_of(spec)
                return
            except TransientError:
                if pause is None:
                    raise
                sleep(pause)

    def _make_room(self, spec: RunSpec, budget: int) -> None:
        """Wait until a model fits into the budget, deleting those that no job needs; raises where it never can."""
        try:
            options = {"download": False, "pickles": spec.pickles}
            hub.model_folder(spec.model, revision=spec.revision, cache=self.cache, **options)
            return
        except ThermostatsError:
            size = hub.download_bytes(spec.model, revision=spec.revision)
        if size > budget:
            step = "raise --set disk_budget"
            what = "the model is larger than the disk budget"
            raise UsageError(what, where=spec.model, got=gib(size), allowed=gib(budget), next_step=step)
        with self.freed:
            while self._delete_until(budget - size) > budget - size and not self.stopped:
                self.freed.wait()

    def _delete_until(self, room: int) -> int:
        """Bytes in the own cache, once snapshots that no job needs were deleted, the oldest first, as far as needed."""
        try:
            cache = scan_cache_dir(self.cache)
        except CacheNotFound:
            return 0  # nothing was downloaded to it yet
        used = int(cache.size_on_disk)
        snapshots = sorted(
            ((revision.last_modified, repo.repo_id, revision) for repo in cache.repos for revision in repo.revisions),
            key=lambda each: each[0],
        )
        for _, model, revision in snapshots:
            names = {*revision.refs, revision.commit_hash}
            if used > room and not any(self.needed[model, name] > 0 for name in names):
                strategy = cache.delete_revisions(revision.commit_hash)
                strategy.execute()
                used -= int(strategy.expected_freed_size)
        return used

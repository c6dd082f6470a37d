"""Specs on a Ray cluster: a share of a GPU each, several GPUs for a model that one does not hold;
reports lost nodes.

Ray places tasks by what they say they need; whether a lost one is tried again is decided where all
engines' are.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import ray
import ray.exceptions

from thermostats.errors import ThermostatsError, take_first_line
from thermostats.measurement.engines import Job
from thermostats.measurement.resources import PROCESS, Place
from thermostats.measurement.session import measure_quietly
from thermostats.measurement.spec import EngineSettings, Outcome, build_loss

SPARE = 1.1
"""Share of a GPU that is asked for, over what the estimate says: allocators round up."""


class Ray:
    """Tasks of Ray; the data folder and the models must be reachable from every node under the same
    path."""

    def __init__(self, settings: EngineSettings, data: Path) -> None:
        self.settings, self.data = settings, data.resolve()
        self.ours = not ray.is_initialized()
        if self.ours:
            try:
                ray.init(address=settings.cluster, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, ValueError, RuntimeError, OSError) as error:
                raise ThermostatsError(
                    "the Ray cluster cannot be reached",
                    where=settings.address or "this machine",
                    got=take_first_line(error),
                    next_step="check the address, as `ray start` printed it; without one Ray runs "
                    "on this machine",
                ) from error
        self.task: Any = ray.remote(measure_quietly)
        self.nodes: Any = ray.nodes
        self.running: dict[Any, Job] = {}
        self.requests: dict[Any, dict[str, float]] = {}

    @property
    def place(self) -> Place:
        """The largest room that a node has now for one model."""
        nodes = [node["Resources"] for node in self.nodes() if node["Alive"]]
        if self.settings.is_on_gpus:
            most = max((int(node.get("GPU", 0)) for node in nodes), default=0)
            return Place("accelerator", self.settings.gpu_memory, min(most, self.settings.gpus))
        memory = (int(node.get("memory", 0)) for node in nodes if node.get("CPU"))
        return Place("cpu", max(memory, default=0))

    def submit(self, job: Job) -> None:
        resources = build_request(job, self.place)
        task = self.task.options(max_retries=0, num_cpus=self.settings.cpus or 1, **resources)
        reference = task.remote(job.spec, str(self.data), job.attempt)
        self.running[reference], self.requests[reference] = job, resources

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        if not self.running:
            return []
        through, _ = ray.wait(list(self.running), num_returns=1, timeout=seconds)
        outcomes = []
        for reference in through:
            outcomes.append((self.running[reference], self._read_outcome(reference)))
        for reference in through:
            del self.running[reference], self.requests[reference]
        return outcomes or self._reject_unplaceable()

    def close(self) -> None:
        """Stop what still runs, and leave the cluster."""
        for reference in self.running:
            ray.cancel(reference, force=True)
        self.running = {}
        if self.ours:
            ray.shutdown()

    def _read_outcome(self, reference: Any) -> Outcome:
        try:
            outcome: Outcome = ray.get(reference)
        except ray.exceptions.RayError as error:
            lost = f"{type(error).__name__}: {take_first_line(error, 200)}"
            return build_loss(self.running[reference].spec, lost)
        return outcome

    def _reject_unplaceable(self) -> list[tuple[Job, Outcome]]:
        """Jobs that no node which is left could take: Ray would wait for ever for one that can."""
        place = self.place
        if place.kind != "cpu" or place.each is None:
            return []
        outcomes = []
        for reference, job in list(self.running.items()):
            if self.requests[reference]["memory"] > place.each:
                ray.cancel(reference, force=True)
                del self.running[reference], self.requests[reference]
                outcomes.append((job, build_loss(job.spec, "no remaining node has enough memory")))
        return outcomes


def build_request(job: Job, place: Place) -> dict[str, float]:
    """What a task asks Ray for: bytes on a CPU; a share of a GPU, or so many whole ones."""
    needed = job.n_bytes + PROCESS
    if place.kind == "cpu":
        return {"memory": min(needed, place.each) if place.each else needed}
    if place.each is None or job.devices > 1:
        return {"num_gpus": job.devices}
    share = math.ceil(100 * SPARE * needed / place.each) / 100
    return {"num_gpus": min(1.0, share)}

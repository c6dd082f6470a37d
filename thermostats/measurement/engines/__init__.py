"""Where specs are measured: this process, processes of this machine, or a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from thermostats.measurement.plan import Need, Place
from thermostats.measurement.spec import Outcome, RunSpec

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
        """Bytes set aside for it: twice as many with every attempt, as the estimate may have been too low."""
        return (UNKNOWN if self.need is None else self.need.total) << (self.attempt - 1)


class Engine(Protocol):
    """What an engine does."""

    @property
    def place(self) -> Place:
        """The largest room that it has for one model."""

    def submit(self, job: Job) -> None:
        """Take a job; it begins when there is room."""

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Jobs that are through, with what became of them; none after so many seconds, or where none was taken."""

    def close(self) -> None:
        """Stop what still runs."""

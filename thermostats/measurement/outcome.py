"""What became of one spec."""

from __future__ import annotations

import traceback
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from thermostats.errors import ThermostatsError, TransientError, UsageError
from thermostats.measurement.spec import RunSpec


@dataclass(frozen=True)
class Cost:
    """What a spec takes of the machine."""

    gigabytes: float | None = None
    """Memory for weights and activations at the precision asked for, GB; empty where nothing is left to load."""
    disk: float | None = None
    """To be downloaded, GB; of a dry run."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Problem:
    """Why a spec failed, or what of a planned one cannot be measured."""

    reason: str = ""
    """What is wrong, with what to do next; empty where nothing is."""
    wrong_use: bool = False
    """It was asked for wrongly."""
    again: bool = False
    """The machine or the network is at fault, and it may be tried again."""
    options: tuple[str, ...] = ()
    """An option of `thermostats measure` and its value with which it would pass; empty where none is known."""


NO_COST, NO_PROBLEM = Cost(), Problem()


@dataclass(frozen=True)
class Outcome:
    """What became of one spec: `measured`, `skipped` (every run was finished), `planned` (dry run) or `failed`."""

    model: str
    status: str
    revision: str = ""
    runs: tuple[str, ...] = ()
    """Runs measured, or to be measured."""
    finished: tuple[str, ...] = ()
    """Runs that were finished before and are skipped."""
    rows: dict[str, int] | None = None
    n_params: int | None = None
    cost: Cost = NO_COST
    differences: str = ""
    """Where files, configuration and the model differ."""
    problem: Problem = NO_PROBLEM
    attempts: int = 1

    def because(self, reason: str) -> Outcome:
        """The outcome with its reason in other words."""
        return replace(self, problem=replace(self.problem, reason=reason))

    def row(self) -> dict[str, Any]:
        """The outcome as a row of `thermostats measure --json`."""
        row: dict[str, Any] = {}
        for name, value in asdict(self).items():
            row |= value if name in ("cost", "problem") else {name: value}
        del row["options"]
        return row


def failed(spec: RunSpec, error: BaseException) -> Outcome:
    """The outcome of a spec that could not be measured."""
    if isinstance(error, ThermostatsError):
        reason, again = str(error), isinstance(error, TransientError)
    else:
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"unexpected {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"
        again = isinstance(error, OSError | MemoryError)
    options = error.options if isinstance(error, ThermostatsError) else ()
    problem = Problem(reason, isinstance(error, UsageError), again, options)
    return Outcome(spec.model, "failed", spec.revision, problem=problem)


def lost(spec: RunSpec, reason: str) -> Outcome:
    """The outcome of a spec whose process is gone."""
    return Outcome(spec.model, "failed", spec.revision, problem=Problem(reason, again=True))

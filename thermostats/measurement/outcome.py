"""What became of one spec."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

from thermostats.errors import ThermostatsError, TransientError, UsageError
from thermostats.measurement.spec import RunSpec


@dataclass(frozen=True)
class Outcome:
    """What became of one spec: `measured`, `skipped` (every run was finished), `planned` (dry run) or `failed`.

    Its fields are a row of `thermostats measure --json`.
    """

    model: str
    status: str
    revision: str = ""
    runs: tuple[str, ...] = ()
    """Runs measured, or to be measured."""
    finished: tuple[str, ...] = ()
    """Runs that were finished before and are skipped."""
    rows: dict[str, int] | None = None
    n_params: int | None = None
    gigabytes: float | None = None
    """Memory for weights and activations at the precision asked for, GB; empty where nothing is left to load."""
    disk: float | None = None
    """To be downloaded, GB; of a dry run."""
    seconds: float = 0.0
    differences: str = ""
    """Where files, configuration and the model differ."""
    reason: str = ""
    """Why it failed, with what to do next."""
    wrong_use: bool = False
    """It failed because it was asked for wrongly."""
    again: bool = False
    """It failed by the machine's or the network's fault, and may be tried again."""
    attempts: int = 1


def failed(spec: RunSpec, error: BaseException) -> Outcome:
    """The outcome of a spec that could not be measured."""
    if isinstance(error, ThermostatsError):
        reason, again = str(error), isinstance(error, TransientError)
    else:
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"unexpected {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"
        again = isinstance(error, OSError | MemoryError)
    wrong_use = isinstance(error, UsageError)
    return Outcome(spec.model, "failed", spec.revision, reason=reason, wrong_use=wrong_use, again=again)


def lost(spec: RunSpec, reason: str) -> Outcome:
    """The outcome of a spec whose process is gone."""
    return Outcome(spec.model, "failed", spec.revision, reason=reason, again=True)

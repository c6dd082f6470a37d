"""The one way in which a spec is measured, whatever engine runs it: planned, measured, and told as an outcome."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thermostats.errors import DataError, ThermostatsError, TransientError, UsageError
from thermostats.measurement.session import Done, Plan, measure_plan, plan
from thermostats.measurement.spec import RunSpec
from thermostats.tables import states
from thermostats.tables.states import FAILED, RUNNING, State

Progress = Callable[[str, str, int, int], None]
"""Called with the model, what is being measured, prompts done and prompts in all."""


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
    gigabytes: float | None = None
    """Memory for weights and activations at the precision asked for, GB; empty where nothing is left to load."""
    seconds: float = 0.0
    reason: str = ""
    """Why it failed, with what to do next."""
    wrong_use: bool = False
    """It failed because it was asked for wrongly."""
    again: bool = False
    """It failed by the machine's or the network's fault, and may be tried again."""
    attempts: int = 1


def measure_one(spec: RunSpec, data: Path, attempt: int = 1, progress: Progress | None = None) -> Outcome:
    """Measure what is lacking of one spec into a data folder; a fault is told, never raised."""
    try:
        tell(data, spec, RUNNING, attempt=attempt)
        planned = plan(spec, data)
        if planned.finished:
            outcome = outcome_of(planned, "skipped")
        else:
            label = spec.model if spec.revision == "main" else f"{spec.model}@{spec.revision}"
            part = None if progress is None else lambda what, n, total: progress(label, what, n, total)
            outcome = outcome_of(planned, "measured", measure_plan(planned, data, part))
    except Exception as error:  # one model's fault must not take the others with it; it is told
        outcome = failed(spec, error)
        with suppress(DataError):  # where nothing can be written, the outcome tells it
            tell(data, spec, FAILED, outcome.reason, attempt)
        return outcome
    states.clear(data, spec_id(spec))
    return outcome


def failed(spec: RunSpec, error: BaseException) -> Outcome:
    """The outcome of a spec that could not be measured."""
    if isinstance(error, ThermostatsError):
        return Outcome(
            spec.model,
            "failed",
            spec.revision,
            reason=str(error),
            wrong_use=isinstance(error, UsageError),
            again=isinstance(error, TransientError),
        )
    place = traceback.extract_tb(error.__traceback__)[-1]
    reason = f"unexpected {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"
    return Outcome(spec.model, "failed", spec.revision, reason=reason, again=isinstance(error, OSError | MemoryError))


def lost(spec: RunSpec, reason: str) -> Outcome:
    """The outcome of a spec whose process is gone."""
    return Outcome(spec.model, "failed", spec.revision, reason=reason, again=True)


def outcome_of(planned: Plan, status: str, done: Done | None = None) -> Outcome:
    """The outcome of a spec that was planned, and measured where there is something done."""
    todo = [run for run in planned.runs if run.tables]
    return Outcome(
        planned.folder.model_id,
        status,
        planned.folder.revision,
        tuple(run.run["run_id"] for run in todo),
        tuple(run.run["run_id"] for run in planned.runs if not run.tables),
        None if done is None else done.rows,
        int(planned.model["n_params"]),
        seconds=0.0 if done is None else round(done.seconds, 1),
    )


def spec_id(spec: RunSpec) -> str:
    """Name of a spec's state: 16 hexadecimal digits of the SHA-256 of what is measured."""
    told = (spec.model, spec.name, spec.source, spec.revision, spec.dtype, spec.prompts, *sorted(spec.what))
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def tell(data: Path, spec: RunSpec, state: str, reason: str = "", attempt: int = 1) -> None:
    """Write down that a spec waits, runs or failed."""
    told = State(spec.model, spec.revision, spec.dtype, spec.prompts, state, reason, attempt)
    states.write(data, spec_id(spec), told)


def quiet() -> None:
    """No bars and no warnings of transformers in this process; what matters is told as an outcome."""
    import transformers  # noqa: PLC0415 - loaded only where something is measured

    logging: Any = transformers.utils.logging
    logging.disable_progress_bar()
    logging.set_verbosity_error()

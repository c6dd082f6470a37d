"""Many specs, one after the other: a model that cannot be measured never stops the others."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import ThermostatsError, UsageError
from thermostats.measurement.session import Done, Plan, RunSpec, measure_one, plan
from thermostats.tables import store
from thermostats.tables.begin import writable_folder


@dataclass(frozen=True)
class Outcome:
    """What became of one spec: `measured`, `skipped` (every run was finished), `planned` (dry run) or `failed`."""

    model: str
    status: str
    runs: tuple[str, ...] = ()
    """Runs measured, or to be measured."""
    finished: tuple[str, ...] = ()
    """Runs that were finished before and are skipped."""
    rows: dict[str, int] | None = None
    n_params: int | None = None
    gigabytes: float | None = None
    """Memory for the weights at the precision asked for, GB; empty where nothing is left to load."""
    seconds: float = 0.0
    reason: str = ""
    """Why it failed, with what to do next."""
    wrong_use: bool = False
    """It failed because it was asked for wrongly."""


def execute(
    specs: Sequence[RunSpec],
    data: str | Path | None = None,
    *,
    dry_run: bool = False,
    progress: Callable[[str, str, int, int], None] | None = None,
) -> Iterator[Outcome]:
    """Measure specs in order and yield what became of each as soon as it is known.

    `progress` is called with the model, what is being measured, prompts done and prompts in all.
    """
    folder = store.data_folder(data) if dry_run else writable_folder(data)
    for spec in specs:
        try:
            planned = plan(spec, folder)
            if dry_run:
                yield _outcome(planned, "skipped" if planned.finished else "planned")
            elif planned.finished:
                yield _outcome(planned, "skipped")
            else:
                yield _outcome(planned, "measured", measure_one(planned, folder, _named(spec.model, progress)))
        except ThermostatsError as error:
            yield Outcome(spec.model, "failed", reason=str(error), wrong_use=isinstance(error, UsageError))
        except Exception as error:  # one model's fault must not take the others with it; it is reported
            place = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"unexpected {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"
            yield Outcome(spec.model, "failed", reason=reason)


def measure(model: str, data: str | Path | None = None, **options: Any) -> pd.DataFrame:
    """Measure one model and return its rows of the table `layers`, with model_id.

    `options` are the fields of RunSpec: revision, dtype, prompts, what, device, device_map, token_budget, heritage,
    trust_remote_code, download. What was measured before is not measured again.

    Raises ThermostatsError where the model cannot be measured; nothing half-written is left.
    """
    folder = writable_folder(data)
    planned = plan(RunSpec(model, **options), folder)
    if not planned.finished:
        measure_one(planned, folder)
    runs = {run.run["run_id"] for run in planned.runs}
    layers = store.load("layers", folder)
    layers = layers[layers["run_id"].isin(runs)].reset_index(drop=True)
    return layers.assign(model_id=planned.folder.model_id)


def _outcome(planned: Plan, status: str, done: Done | None = None) -> Outcome:
    todo = [run for run in planned.runs if run.tables]
    width = 4 if planned.spec.dtype == "float32" else 2
    n_params = int(planned.model["n_params"])
    return Outcome(
        planned.folder.model_id,
        status,
        tuple(run.run["run_id"] for run in todo),
        tuple(run.run["run_id"] for run in planned.runs if not run.tables),
        None if done is None else done.rows,
        n_params,
        float(f"{n_params * width / 1e9:.3g}") if any(run.kind != "weights" for run in todo) else None,
        0.0 if done is None else round(done.seconds, 1),
    )


def _named(model: str, progress: Callable[[str, str, int, int], None] | None) -> Callable[[str, int, int], None] | None:
    return None if progress is None else lambda what, done, total: progress(model, what, done, total)

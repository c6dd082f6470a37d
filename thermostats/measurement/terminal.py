"""The verb `measure` on a terminal: bars with the time left, plain lines where nobody looks."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from thermostats.errors import UsageError, not_installed
from thermostats.measurement.settings import RETRIES, Settings, check_device, check_here, check_set
from thermostats.measurement.spec import RunSpec, specs
from thermostats.tables import folders

CACHE_VARIABLE = "THERMOSTATS_MODELS"


def measure_models(
    models: Sequence[str],
    options: Mapping[str, Any],
    data: str | Path | None,
    *,
    dry_run: bool,
    settings: Settings,
    retries: int = RETRIES,
    budget: int | None = None,
) -> list[Any]:
    """Outcomes of measuring models and files of specs, with progress on standard error.

    `options`: fields of `RunSpec`. `budget`: bytes that downloaded models may take. What can be said without torch is
    said before torch is loaded.

    Raises UsageError for options that do not exist, a GPU that is not there, where the extra that measuring needs is
    not installed, or none of the models is a model's folder or a hub id; DataError for a file of specs that cannot be
    read.
    """
    if options.get("name") and len(models) > 1:
        what, got = "a name can be given to only one model", ", ".join(models)
        raise UsageError(what, where="--name", got=got, next_step="measure it alone")
    tables = folders.begun_or_shipped(data)
    check_device(settings.device, options.get("device_map"))
    if settings.name == "local":
        check_here(settings.device)
    try:
        asked = specs(models, {**options, "cache": None if budget is None else str(own_cache())})
        sets = {spec.prompts for spec in asked}
        for prompts in sets:
            check_set(prompts, tables)
        _check_places([spec.model for spec in asked])
        from thermostats.measurement.prompts import load_prompts  # noqa: PLC0415 - loads pandas

        for prompts in sets:
            load_prompts(prompts, tables)
        import thermostats.measurement.execute  # noqa: F401, PLC0415 - needs the extra
        from thermostats.measurement.session import quiet  # noqa: PLC0415 - as above

        quiet()
    except ImportError as error:
        raise not_installed(error) from error
    folder = tables if dry_run else folders.writable_folder(data)
    return run_specs(asked, folder, settings, dry_run=dry_run, retries=retries, budget=budget)


def run_specs(
    asked: Sequence[RunSpec],
    folder: Path,
    settings: Settings,
    *,
    dry_run: bool = False,
    retries: int = RETRIES,
    budget: int | None = None,
) -> list[Any]:
    """Outcomes of specs, with progress on standard error; a single one on this machine needs no process of its own.

    budget: bytes that downloaded models may take.
    """
    from thermostats.measurement.engines.local import Inline  # noqa: PLC0415 - needs the extra
    from thermostats.measurement.execute import execute, open_engine  # noqa: PLC0415 - as above

    alone = len(asked) == 1 and settings.name == "local"
    print(f"data folder: {folder}", file=sys.stderr)
    outcomes = []
    shown = Bars() if sys.stderr.isatty() else Lines()
    with shown.bars:
        engine = (Inline if alone else open_engine)(settings, folder, shown.report)
        for outcome in execute(asked, folder, dry_run=dry_run, engine=engine, retries=retries, budget=budget):
            outcomes.append(outcome)
            shown.done(len(outcomes), len(asked), outcome)
    if len(outcomes) > 1:
        print(summary(outcomes), file=sys.stderr)
    return outcomes


def _check_places(models: Sequence[str]) -> None:
    """Raise UsageError where none of the models is a folder of one or may be a hub id; one of several is said later."""
    from thermostats.measurement.hub import local_folder  # noqa: PLC0415 - needs the extra

    wrong = []
    for model in models:
        try:
            local_folder(model)
        except UsageError as error:
            wrong.append(error)
    if wrong and len(wrong) == len(models):
        raise wrong[0]


def summary(outcomes: Sequence[Any]) -> str:
    """How many specs came to what, and how many were tried more than once."""
    counts = Counter(outcome.status for outcome in outcomes)
    again = sum(outcome.attempts > 1 for outcome in outcomes)
    parts = [f"{count} {status}" for status, count in sorted(counts.items())]
    return f"{len(outcomes)} specs: {', '.join(parts)}" + (f"; {again} tried more than once" if again else "")


def own_cache() -> Path:
    """Folder for models that are downloaded within a budget: only what lies here is deleted again."""
    from huggingface_hub import constants  # noqa: PLC0415 - comes with the extra

    stated = os.environ.get(CACHE_VARIABLE)
    return Path(stated) if stated else Path(constants.HF_HOME) / "thermostats"


class Lines:
    """Progress as lines: one where a part of a model begins, then one at most every so many seconds."""

    def __init__(self, every: float = 30.0) -> None:
        self.every = every
        self.parts: dict[tuple[str, str], tuple[float, float]] = {}
        self.bars: AbstractContextManager[Any] = nullcontext()

    def report(self, model: str, what: str, done: int, total: int) -> None:
        """Prompts done of one part of one model."""
        now = perf_counter()
        began, shown = self.parts.get((model, what), (now, None))
        if shown is None:
            self.show(f"{model}: {what}")
        elif now - shown >= self.every and 0 < done < total:
            left = (now - began) * (total - done) / done
            self.show(f"{model}: {what}, {done} of {total}, about {left:.0f} s left")
        else:
            return
        self.parts[model, what] = (began, now)

    def done(self, number: int, total: int, outcome: Any) -> None:
        """What became of a model."""
        rows = sum((outcome.rows or {}).values())
        more = {
            "measured": f"{len(outcome.runs)} runs, {rows} rows in {outcome.seconds:.0f} s",
            "planned": f"{len(outcome.runs)} runs to measure, {len(outcome.finished)} finished",
            "skipped": "every run is finished",
            "failed": outcome.reason,
        }
        model = outcome.model if outcome.revision in ("", "main") else f"{outcome.model}@{outcome.revision}"
        self.show(f"[{number}/{total}] {model} {outcome.status}: {more[outcome.status]}")
        if outcome.differences:
            self.show(f"{model}: {outcome.differences}")

    def show(self, line: str) -> None:
        """Print a line."""
        print(line, file=sys.stderr, flush=True)


class Bars(Lines):
    """One bar per part that is being measured."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bars: Progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self.tasks: dict[str, tuple[str, Any]] = {}

    def report(self, model: str, what: str, done: int, total: int) -> None:
        """Move the bar of one part of one model."""
        if self.tasks.get(model, ("",))[0] != what:
            self.forget(model)
            self.tasks[model] = (what, self.bars.add_task(f"{model} {what}", total=total))
        self.bars.update(self.tasks[model][1], completed=done, total=total)

    def done(self, number: int, total: int, outcome: Any) -> None:
        """Print the line of a model that is through."""
        for model in (outcome.model, f"{outcome.model}@{outcome.revision}"):
            self.forget(model)
        super().done(number, total, outcome)

    def show(self, line: str) -> None:
        """Print a line above the bars."""
        self.bars.console.print(line, markup=False)

    def forget(self, model: str) -> None:
        """Take the bar of a model away."""
        if model in self.tasks:
            self.bars.remove_task(self.tasks.pop(model)[1])

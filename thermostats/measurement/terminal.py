"""The verb `measure` on a terminal: bars with the time left, plain lines where nobody looks."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from thermostats.errors import UsageError
from thermostats.measurement.settings import RETRIES, Settings, check_device, check_here, check_set
from thermostats.measurement.spec import specs
from thermostats.tables import folders
from thermostats.tables.folders import writable_folder

CACHE_VARIABLE = "THERMOSTATS_MODELS"
Report = Callable[[str, str, int, int], None]


def measure_models(
    models: Sequence[str],
    options: Mapping[str, Any],
    data: str | Path | None,
    *,
    dry_run: bool,
    running: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Outcomes of measuring models and files of specs, with progress on standard error.

    `running` says how: fields of `settings.Settings`, `retries`, and `disk_budget` in GB.

    What can be told without torch is told before torch is loaded.

    Raises UsageError for options that do not exist, a GPU that is not there, where the extra that measuring needs is
    not installed, or none of the models is a model's folder or a hub id; DataError for a file of specs that cannot be
    read.
    """
    how = dict(running or {})
    budget = how.pop("disk_budget", None)
    there = folders.begun_or_shipped(data)
    retries = how.pop("retries", RETRIES)
    check_device(options["device"], options["device_map"])
    settings = Settings(**how, device=options["device"], spread=options["device_map"] is not None)
    if settings.name == "local":
        check_here(settings.device)
    try:
        asked = specs(models, {**options, "cache": None if budget is None else str(own_cache())})
        for prompts in {spec.prompts for spec in asked}:
            check_set(prompts, there)
        _check_places([spec.model for spec in asked])
        from thermostats.measurement.prompts import load_prompts  # noqa: PLC0415 - loads pandas

        for prompts in {spec.prompts for spec in asked}:
            load_prompts(prompts, there)
        from thermostats.measurement.engines.local import Inline  # noqa: PLC0415 - needs the extra
        from thermostats.measurement.execute import execute, open_engine  # noqa: PLC0415 - as above
        from thermostats.measurement.session import quiet  # noqa: PLC0415 - as above

        quiet()
    except ImportError as error:
        raise UsageError(
            "measuring needs torch and transformers", got=str(error), next_step="pip install 'thermostats[measure]'"
        ) from error
    folder = there if dry_run else writable_folder(data)
    print(f"data folder: {folder}", file=sys.stderr)
    outcomes = []
    with _progress() as (report, done):
        alone = len(asked) == 1 and settings.name == "local"
        engine = Inline(settings, folder, report) if alone else open_engine(settings, folder, report)
        limit = None if budget is None else int(budget * 1e9)
        for outcome in execute(asked, folder, dry_run=dry_run, engine=engine, retries=retries, budget=limit):
            outcomes.append(outcome)
            done(len(outcomes), len(asked), outcome)
    if len(outcomes) > 1:
        print(summary(outcomes), file=sys.stderr)
    return outcomes


def _check_places(models: Sequence[str]) -> None:
    """Raise UsageError where none of the models is a folder of one or may be a hub id; one of several is told later."""
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


def _progress() -> AbstractContextManager[tuple[Report, Callable[[int, int, Any], None]]]:
    return _Bars() if sys.stderr.isatty() else nullcontext((plain_report(), _line))


def plain_report(every: float = 30.0, clock: Callable[[], float] = perf_counter) -> Report:
    """Progress as lines: one where a part of a model begins, then one at most every so many seconds."""
    parts: dict[tuple[str, str], tuple[float, float | None]] = {}

    def report(model: str, what: str, done: int, total: int) -> None:
        now = clock()
        began, said = parts.get((model, what), (now, None))
        if said is None:
            print(f"{model}: {what}", file=sys.stderr, flush=True)
        elif now - said >= every and 0 < done < total:
            left = (now - began) * (total - done) / done
            print(f"{model}: {what}, {done} of {total}, about {left:.0f} s left", file=sys.stderr, flush=True)
        else:
            return
        parts[model, what] = (began, now)

    return report


def _line(number: int, total: int, outcome: Any) -> None:
    print(_said(number, total, outcome), file=sys.stderr, flush=True)


def _said(number: int, total: int, outcome: Any) -> str:
    more = {
        "measured": f"{len(outcome.runs)} runs, {sum((outcome.rows or {}).values())} rows in {outcome.seconds:.0f} s",
        "planned": f"{len(outcome.runs)} runs to measure, {len(outcome.finished)} finished",
        "skipped": "every run is finished",
        "failed": outcome.reason,
    }
    model = outcome.model if outcome.revision in ("", "main") else f"{outcome.model}@{outcome.revision}"
    return f"[{number}/{total}] {model} {outcome.status}: {more[outcome.status]}"


class _Bars(AbstractContextManager[tuple[Report, Callable[[int, int, Any], None]]]):
    """One bar a part that is being measured."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bars = Progress(*columns, console=Console(stderr=True), transient=True)
        self.tasks: dict[tuple[str, str], Any] = {}

    def __enter__(self) -> tuple[Report, Callable[[int, int, Any], None]]:
        self.bars.start()
        return self.report, self.done

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def report(self, model: str, what: str, done: int, total: int) -> None:
        """Move the bar of one part of one model."""
        if (model, what) not in self.tasks:
            self.forget(model)
            self.tasks[model, what] = self.bars.add_task(f"{model} {what}", total=total)
        self.bars.update(self.tasks[model, what], completed=done, total=total)

    def done(self, number: int, total: int, outcome: Any) -> None:
        """Print the line of a model that is through."""
        self.forget(outcome.model)
        self.forget(f"{outcome.model}@{outcome.revision}")
        self.bars.console.print(_said(number, total, outcome), markup=False)

    def forget(self, model: str) -> None:
        """Take the bars of a model away."""
        for part in [part for part in self.tasks if part[0] == model]:
            self.bars.remove_task(self.tasks.pop(part))

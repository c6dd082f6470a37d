"""The verb `measure` on a terminal: bars with the time left, plain lines where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from thermostats.errors import UsageError
from thermostats.measurement.prompts import load_prompts
from thermostats.tables import store
from thermostats.tables.begin import writable_folder

Report = Callable[[str, str, int, int], None]


def measure_models(
    models: Sequence[str], options: Mapping[str, Any], data: str | Path | None, *, dry_run: bool
) -> list[Any]:
    """Outcomes of measuring models one after the other, with progress on standard error.

    Raises UsageError where the extra that measuring needs is not installed.
    """
    try:
        import transformers  # noqa: PLC0415 - an extra

        from thermostats.measurement.execute import execute  # noqa: PLC0415 - needs the extra
        from thermostats.measurement.session import RunSpec  # noqa: PLC0415 - needs the extra
    except ImportError as error:
        raise UsageError(
            "measuring needs torch and transformers", got=str(error), next_step="pip install 'thermostats[measure]'"
        ) from error
    quiet: Any = transformers.utils.logging
    quiet.disable_progress_bar()
    quiet.set_verbosity_error()
    specs = [RunSpec(model, **options) for model in models]
    folder = store.data_folder(data) if dry_run else writable_folder(data)
    load_prompts(options["prompts"], folder)
    print(f"data folder: {folder}", file=sys.stderr)
    outcomes = []
    with _progress() as (report, done):
        for outcome in execute(specs, data, dry_run=dry_run, progress=report):
            outcomes.append(outcome)
            done(len(outcomes), len(specs), outcome)
    return outcomes


def _progress() -> AbstractContextManager[tuple[Report, Callable[[int, int, Any], None]]]:
    return _Bars() if sys.stderr.isatty() else nullcontext((plain_report(), _line))


def plain_report(every: float = 30.0, clock: Callable[[], float] = perf_counter) -> Report:
    """Progress as lines: one where a part of a model begins, then one at most every so many seconds."""
    part: dict[str, Any] = {"name": None, "began": 0.0, "said": 0.0}

    def report(model: str, what: str, done: int, total: int) -> None:
        now = clock()
        if part["name"] != (model, what):
            part.update(name=(model, what), began=now, said=now)
            print(f"{model}: {what}", file=sys.stderr, flush=True)
        elif now - part["said"] >= every and 0 < done < total:
            part["said"] = now
            left = (now - part["began"]) * (total - done) / done
            print(f"{model}: {what}, {done} of {total}, about {left:.0f} s left", file=sys.stderr, flush=True)

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
    return f"[{number}/{total}] {outcome.model} {outcome.status}: {more[outcome.status]}"


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
            self.tasks[model, what] = self.bars.add_task(f"{model} {what}", total=total)
        self.bars.update(self.tasks[model, what], completed=done, total=total)

    def done(self, number: int, total: int, outcome: Any) -> None:
        """Print the line of a model that is through."""
        self.bars.console.print(_said(number, total, outcome), markup=False)

"""The verb `measure` on a terminal: bars with the time left, plain lines where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
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
    return _Bars() if sys.stderr.isatty() else nullcontext((lambda *_: None, _line))


def _line(number: int, total: int, outcome: Any) -> None:
    print(f"[{number}/{total}] {outcome.model}: {outcome.status} {outcome.reason}".rstrip(), file=sys.stderr)


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
        self.bars.console.print(f"[{number}/{total}] {outcome.model}: {outcome.status} {outcome.reason}", markup=False)

"""How far measuring is: bars with the time left on a terminal, plain lines where nobody looks."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class ProgressLines:
    """Progress as lines: one where a part of a model begins, then one at most every so many seconds."""

    def __init__(self, every: float = 30.0) -> None:
        self.every = every
        self.parts: dict[tuple[str, str], tuple[float, float]] = {}
        self.bars: AbstractContextManager[Any] = nullcontext()

    def report(self, model: str, what: str, done: int, total: int) -> None:
        """Prompts done of one part of one model."""
        now = perf_counter()
        began, last = self.parts.get((model, what), (now, None))
        if last is None:
            self.show(f"{model}: {what}")
        elif now - last >= self.every and 0 < done < total:
            left = (now - began) * (total - done) / done
            self.show(f"{model}: {what}, {done} of {total}, about {left:.0f} s left")
        else:
            return
        self.parts[model, what] = (began, now)

    def done(self, number: int, total: int, outcome: Any) -> None:
        """What became of a model."""
        rows = sum((outcome.rows or {}).values())
        more = {
            "measured": f"{len(outcome.runs)} runs, {rows} rows in {outcome.cost.seconds:.0f} s",
            "planned": f"{len(outcome.runs)} runs to measure, {len(outcome.finished)} finished",
            "skipped": "every run is finished",
            "failed": outcome.problem.reason,
        }
        model = outcome.model if outcome.revision in ("", "main") else f"{outcome.model}@{outcome.revision}"
        self.show(f"[{number}/{total}] {model} {outcome.status}: {more[outcome.status]}")
        if outcome.differences:
            self.show(f"{model}: {outcome.differences}")

    def show(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Bars(ProgressLines):
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

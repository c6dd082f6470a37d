"""How far a report is, on standard error: a bar on a terminal, elsewhere one plain line for each job that is done."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from thermostats.reporting.runner import Run


def shown(runs: Iterable[tuple[str, Run]], total: int) -> Iterator[tuple[str, Run]]:
    """The same results as they come."""
    console = Console(stderr=True)
    terminal = console.is_terminal
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not terminal or not total) as bar:
        task = bar.add_task("analysing", total=total)
        for number, (name, run) in enumerate(runs, 1):
            bar.update(task, advance=1, description=f"done: {name}")
            if not terminal:
                state = "failed" if run.error else "done"
                print(f"{name} {state} in {run.seconds:.1f} s ({number} of {total})", file=sys.stderr, flush=True)
            yield name, run

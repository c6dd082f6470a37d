"""How far a report is, on standard error: a bar on a terminal, elsewhere plain lines at the start and for each job."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from thermostats.reporting.runner import Run


def shown(runs: Iterable[tuple[str, Run]], total: int, begun: str = "") -> Iterator[tuple[str, Run]]:
    """The same results as they come. begun: the line at the start, of what is done how and where."""
    console = Console(stderr=True)
    terminal = console.is_terminal
    if begun and total and not terminal:
        print(begun, file=sys.stderr, flush=True)
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not terminal or not total) as bar:
        task = bar.add_task("analysing", total=total)
        for number, (name, run) in enumerate(runs, 1):
            bar.update(task, advance=1, description=f"done: {name}")
            if not terminal:
                state = "failed" if run.error else "done"
                print(f"{name} {state} in {run.seconds:.1f} s ({number} of {total})", file=sys.stderr, flush=True)
            yield name, run

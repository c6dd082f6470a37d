"""How far a report is, and how long its analyses take."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from thermostats.claims.run import Run
from thermostats.reporting.files import as_json, write_files
from thermostats.reporting.names import SECONDS, SHIPPED_SECONDS, SNAPSHOT
from thermostats.tables.folders import shipped


def shipped_seconds() -> dict[str, float]:
    """How long each took on another machine, so that a new one begins with those that take long."""
    return _read(shipped(f"reports/{SNAPSHOT}") / SHIPPED_SECONDS)


def read_seconds(out: Path) -> dict[str, float]:
    """How long each analysis took when it last ran; empty where that is not known."""
    return _read(out / SECONDS)


def _read(path: Path) -> dict[str, float]:
    try:
        return {str(name): float(took) for name, took in json.loads(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def write_seconds(out: Path, seconds: Mapping[str, float]) -> None:
    """Note how long each analysis took."""
    write_files(out, {SECONDS: as_json(seconds)})


def with_progress(
    runs: Iterable[tuple[str, Run]], expected: Mapping[str, float], begun: str
) -> Iterator[tuple[str, Run]]:
    """The same results as they come, with a bar on a terminal, elsewhere a line at the start and for each.

    expected: seconds by job, or any numbers in proportion to them; each line says about how long the rest will take.
    """
    console, total, started, rest = Console(stderr=True), len(expected), time.perf_counter(), sum(expected.values())
    if not console.is_terminal:
        if total:
            print(begun, file=sys.stderr, flush=True)
        for number, (name, run) in enumerate(runs, 1):
            state, rest = "failed" if run.error else "done", rest - expected[name]
            left = (time.perf_counter() - started) * rest / max(sum(expected.values()) - rest, 1e-9)
            last = f", about {left:.0f} s left" if number < total else ""
            print(f"{name} {state} in {run.seconds:.1f} s ({number} of {total}{last})", file=sys.stderr, flush=True)
            yield name, run
        return
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not total) as bar:
        task = bar.add_task("analysing", total=total)
        for name, run in runs:
            bar.update(task, advance=1, description=f"done: {name}")
            yield name, run

"""The report and the commands of every day, each a process of its own: CPU and wall-clock seconds beside their goals.

    python benchmarks/report.py              # everything, the cold report last; some ten minutes
    python benchmarks/report.py commands     # what takes seconds: no cold report

Nothing else should run beside it; the load while a line was measured is written beside it. Results go to
results/report.csv and report.md; a line that is measured again replaces the old one.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd
from results import RESULTS, markdown

THERMOSTATS = (sys.executable, "-m", "thermostats")
LOAD = (
    "import time, thermostats\nfrom thermostats.tables.schemas import TABLES\n"
    "for _ in range(2):\n    start = time.process_time()\n"
    "    for name in TABLES: thermostats.load(name)\n"
    "    seconds = time.process_time() - start\nprint(seconds)"
)
LIGHT = (["--help"], ["ls", "claims"], ["ls", "models"], ["ls", "columns"], ["ls", "tables"], ["findings"], ["doctor"])
GOALS = {
    "report --all, cold": "≤ 200 CPU-s, ≤ 120 s wall",
    "report --all, nothing changed": "≤ 1.5 CPU-s",
    "report C17 into an empty folder": "≤ 10 s wall",
    "load every shipped table, second time": "≤ 0.4 s",
}
LIGHT_GOAL, REPEATS = "≤ 0.5 CPU-s", 5
WORDS = """# The report and the commands of every day

CPU-seconds of a command and all its processes, and wall-clock seconds. Caches of draws and of compiled code are empty
at first; of what takes less than some seconds the least of five runs. Made by `python benchmarks/report.py`."""


def timed(command: Sequence[str], cache: Path) -> tuple[float, float, str]:
    """CPU-seconds of a command and its processes, wall-clock seconds, what it printed. Raises where it fails."""
    own = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(cache)}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
    wall, after = perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, done.stdout


def row(what: str, goal: str, cpu: float, wall: float) -> dict[str, Any]:
    """A line of the table; prints it."""
    found = {"what": what, "goal": goal, "cpu seconds": cpu, "seconds": wall, "load": os.getloadavg()[0]}
    print(", ".join(f"{name} {value:.3g}" if isinstance(value, float) else str(value) for name, value in found.items()))
    return {**found, "measured": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"}


def least(command: Sequence[str], cache: Path) -> tuple[float, float]:
    """The least CPU-seconds of the repeats, with the wall-clock seconds of that one."""
    return min(timed(command, cache)[:2] for _ in range(REPEATS))


def measured(parts: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Every line that is asked for."""
    cache, out = folder / "cache", folder / "report"
    rows = [row(f"`{' '.join(words)}`", LIGHT_GOAL, *least([*THERMOSTATS, *words], cache)) for words in LIGHT]
    seconds = min(float(timed([sys.executable, "-c", LOAD], cache)[2]) for _ in range(REPEATS))
    names = iter(GOALS)
    cold, again, one, load = names
    rows.append(row(load, GOALS[load], seconds, seconds))
    command = [*THERMOSTATS, "report", "C17", "--out"]
    rows.append(row(one, GOALS[one], *timed([*command, str(folder / "one")], cache)[:2]))
    if "commands" not in parts:
        command = [*THERMOSTATS, "report", "--all", "--out", str(out)]
        rows.append(row(cold, GOALS[cold], *timed(command, cache)[:2]))
        rows.append(row(again, GOALS[again], *least(command, cache)))
    return rows


def main(parts: Sequence[str]) -> None:
    """Measure, and write the table."""
    with tempfile.TemporaryDirectory() as folder:
        found = pd.DataFrame(measured(parts, Path(folder)))
    path = RESULTS / "report.csv"
    kept = pd.read_csv(path) if path.is_file() else found.iloc[:0]
    table = pd.concat([kept[~kept["what"].isin(found["what"])], found], ignore_index=True)
    table.to_csv(path, index=False, float_format="%.3g")
    (RESULTS / "report.md").write_text(f"{WORDS}\n\n{markdown(table)}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

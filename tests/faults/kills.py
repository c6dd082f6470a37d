"""Kill measuring, joining, importing and reporting at random points, run the same command again, compare every byte.

`make kills` runs it. A kill is a real SIGKILL to a child process: half of them after a random part of the time that
the command takes, half at a random file operation (open, fsync, rename, remove, mkdir) of it. After every kill each
file must be, to the byte, what it was before or what it is at the end; after the next whole run all must be what an
uninterrupted run leaves. Children are forked from a process that has imported everything, so that a cycle takes the
command's own time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from jobs import JOBS, Job
from start_states import files_of

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}
"""Operations that the interpreter reports to audit hooks; fsync is wrapped."""


@dataclass
class Tally:
    """What became of the kills of one command."""

    job: str
    kills: int = 0
    by_time: int = 0
    by_operation: int = 0
    finished_before: int = 0
    """Children that were through before their time came: no kill, not counted."""
    torn: int = 0
    """Kills that left files changed: some new, others still old."""
    reruns: int = 0
    faults: list[str] = field(default_factory=list)


def run_forked(command: Callable[[], None], *, after: float | None = None, at: int | None = None) -> tuple[int, int]:
    """Run a command in a forked child; its wait status and the number of file operations that it came to.

    after: seconds after which it is killed. at: number of the file operation at which it kills itself.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _child(command, writer, at)
    os.close(writer)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reader) as stream:
        count = int(stream.read() or 0)
    return os.waitpid(child, 0)[1], count


def _child(command: Callable[[], None], writer: int, at: int | None) -> None:
    """What the child does; it never returns."""
    count = 0

    def operation() -> None:
        nonlocal count
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event != "open" or bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if event in EVENTS and writes:
            operation()

    def synced(descriptor: int, sync: Callable[[int], None] = os.fsync) -> None:
        operation()
        sync(descriptor)

    code = 1
    try:
        os.fsync = synced
        sys.addaudithook(heard)
        command()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os.write(writer, str(count).encode())
        os._exit(code)


def cycle(job: Job, start: Path, end: dict[str, bytes], work: Path, draw: random.Random, tally: Tally) -> None:
    """One start state, one to eight kills, each followed by a look at every file, then a whole run and a comparison."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(start, work)
    before = files_of(work)
    for _ in range(draw.choice((1, 2, 4, 8))):
        by_time = draw.random() < 0.5
        if by_time:
            status, _ = run_forked(partial(job.run, work), after=draw.uniform(0.0, 1.05) * job.seconds)
        else:
            status, _ = run_forked(partial(job.run, work), at=draw.randint(1, job.operations))
        if not os.WIFSIGNALED(status):
            tally.finished_before += 1
            if os.WEXITSTATUS(status):
                tally.faults.append(f"{job.name}: failed after a kill")
            continue
        tally.kills += 1
        tally.by_time += by_time
        tally.by_operation += not by_time
        now = files_of(work)
        tally.torn += now not in (before, end)
        tally.faults += [f"{job.name}: {fault}" for fault in half_files(job, before, now, end)]
    status, _ = run_forked(partial(job.run, work))
    tally.reruns += 1
    now = files_of(work, leftovers=True)
    if status or now != end:
        differing = sorted(name for name in now.keys() | end.keys() if now.get(name) != end.get(name))
        tally.faults.append(f"{job.name}: the same command again ended with {status}, differing: {differing[:5]}")


def half_files(job: Job, before: dict[str, bytes], now: dict[str, bytes], end: dict[str, bytes]) -> list[str]:
    """Files that are neither as before nor as at the end; those that it builds up must be whole JSON."""
    faults = []
    for name in before.keys() | now.keys():
        if now.get(name) in (before.get(name), end.get(name)):
            continue
        if not name.startswith(job.built_up):
            faults.append(f"{name} is neither as it was nor as it will be")
            continue
        try:
            json.loads(now[name] if name.endswith(".json") else "0")
        except (KeyError, ValueError):
            faults.append(f"{name} is no whole JSON")
    return faults


def harness(jobs: list[Job], kills: int, seed: int, seconds: float = float("inf")) -> list[Tally]:
    """So many kills of every job, or as many as the time allows."""
    tallies = []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        for number, job in enumerate(jobs, 1):
            draw, tally = random.Random(f"{seed} {job.name}"), Tally(job.name)  # noqa: S311
            start, work = Path(folder) / job.name, Path(folder) / "work"
            start.mkdir()
            job.prepare(start)
            shutil.copytree(start, work)
            tick = time.perf_counter()
            status, job.operations = run_forked(partial(job.run, work))
            job.seconds = time.perf_counter() - tick
            end = files_of(work, leftovers=True)
            if status or not job.operations or end == files_of(start):
                raise SystemExit(f"{job.name}: an uninterrupted run must succeed and write something")
            share = began + seconds * number / len(jobs)
            while tally.kills < kills and time.perf_counter() < share:
                cycle(job, start, end, work, draw, tally)
            shutil.rmtree(work)
            tallies.append(tally)
    return tallies


def main() -> None:
    """Run the harness and append what it found to a file of JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="of each command")
    parser.add_argument("--jobs", default=",".join(JOBS), help="commands, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many seconds")
    parser.add_argument("--results", type=Path, default=Path("build/kills.jsonl"))
    given = parser.parse_args()
    tallies = harness([JOBS[name]() for name in given.jobs.split(",")], given.kills, given.seed, given.seconds)
    given.results.parent.mkdir(parents=True, exist_ok=True)
    with given.results.open("a") as stream:
        for tally in tallies:
            line = json.dumps({"seed": given.seed, **asdict(tally)})
            print(line)
            stream.write(line + "\n")
    sys.exit(any(tally.faults for tally in tallies))


if __name__ == "__main__":
    main()

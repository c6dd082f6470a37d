"""Many processes that join into one store at once, some of them killed: every row is there once, as it was given.

`make writers` runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from pathlib import Path

from conftest import layer, make_store, model, run, table
from start_states import files_of

from thermostats.tables import store
from thermostats.tables.join import join


def rows(writer: int, number: int) -> list[object]:
    """What one writer joins at once: a model of its own, the run of all writers' model, and layers."""
    own = model(f"lab/{writer}-{number}")
    measured = run(str(own["model_id"]), prompt_set="", prompt_sha="")
    shared = run("lab/everyone", prompt_set="", prompt_sha="", source=f"round {number}")
    return [
        table("models", own, model("lab/everyone")),
        table("runs", measured, shared),
        table("layers", *(layer(measured, depth, 1 + writer / 8 + depth / 64) for depth in (1, 2, 3))),
    ]


def write(folder: Path, writer: int, joins: int) -> None:
    """All joins of one writer."""
    for number in range(joins):
        join(rows(writer, number), data=folder)


def together(folder: Path, writers: int, joins: int, kills: int = 0, seed: int = 1) -> int:
    """Let writers loose on one store, kill some, let those begin anew; how many were killed."""
    make_store(folder)
    draw = random.Random(seed)  # noqa: S311
    running = {_forked(folder, writer, joins): writer for writer in range(writers)}
    killed = 0
    while running:
        if killed < kills:
            time.sleep(draw.uniform(0.0, 0.2))
            os.kill(draw.choice(list(running)), signal.SIGKILL)
        child, status = os.wait()
        writer = running.pop(child)
        if os.WIFSIGNALED(status):
            killed += 1
            running[_forked(folder, writer, joins)] = writer
        elif status:
            raise SystemExit(f"writer {writer} ended with {status}")
    return killed


def _forked(folder: Path, writer: int, joins: int) -> int:
    child = os.fork()
    if not child:
        code = 1
        try:
            write(folder, writer, joins)
            code = 0
        finally:
            os._exit(code)
    return child


def faults(folder: Path, writers: int, joins: int) -> list[str]:
    """What is not as it would be had the writers written one after the other, into a store of their own."""
    with tempfile.TemporaryDirectory() as name:
        alone = Path(name) / "alone"
        make_store(alone)
        for writer in range(writers):
            write(alone, writer, joins)
        expected, found = files_of(alone), files_of(folder, leftovers=True)
    store.check(folder)
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


def main() -> None:
    """Run the writers and append what came of it to a file of JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--joins", type=int, default=5, help="of each writer")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("build/writers.jsonl"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="writers-") as folder:
        data = Path(folder) / "data"
        killed = together(data, given.writers, given.joins, given.kills, given.seed)
        wrong = faults(data, given.writers, given.joins)
    line = {
        "seed": given.seed,
        "writers": given.writers,
        "joins": given.writers * given.joins,
        "kills": killed,
        "wrong": wrong,
    }
    print(line)
    given.results.parent.mkdir(parents=True, exist_ok=True)
    with given.results.open("a") as stream:
        stream.write(json.dumps(line) + "\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()

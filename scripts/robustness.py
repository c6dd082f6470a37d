"""Write what `make kills`, `make writers` and `make clusters` found into benchmarks/results: `make robustness`."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

KILLS = {
    "job": "command",
    "kills": "kills",
    "by_time": "after a random time",
    "by_operation": "at a random file operation",
    "torn": "files left in between",
    "reruns": "whole runs after",
    "faults": "faults",
}
WRITERS = {"writers": "writers", "joins": "joins", "kills": "kills", "wrong": "files that differ"}
ENGINES = {
    "engine": "engine",
    "nodes": "nodes",
    "specs": "specs",
    "kills": "kills",
    "measured": "measured",
    "again": "of these tried again",
    "differ": "files that differ",
    "left": "states left",
    "seconds": "seconds",
}
FAULTS = """# Kills and writers

`make kills`, `make writers`, then `make robustness`. A kill is a SIGKILL to a forked child that runs the command on a
small input: half after a random part of the command's time, half at a random file operation of it. After each, every
file must be what it was before or what it is at the end, to the byte; after the next whole run all files must be those
of an uninterrupted run and nothing else. "Files left in between": kills after which some files were new and others old.

{kills}

Writers that join at once into one store, some of them killed and started again; the store must then hold, to the byte,
what writers one after the other leave.

{writers}
"""
CLUSTERS = """# Engines

`make clusters`, then `make robustness`. Small models are measured one after the other, then on every engine: processes
of this machine, a Ray cluster reached by its address (a head without cores and so many nodes, all on one machine), jobs
of submitit's local executor. Once every node is at work one of those is killed (a process, a node, a job) with SIGKILL.
Every spec must be measured all the same, and the files of gains be those of the uninterrupted run, to the byte.

{engines}
"""


def read(folder: Path, name: str, columns: dict[str, str], lists: str = "") -> pd.DataFrame:
    """What a harness noted, one row a line; nothing where it was not run. Of the column `lists` the lengths."""
    path = folder / f"{name}.jsonl"
    found = pd.read_json(path, lines=True) if path.is_file() else pd.DataFrame(columns=list(columns))
    return found.assign(**{lists: found[lists].str.len()} if lists else {})[list(columns)].rename(columns=columns)


def table(frame: pd.DataFrame) -> str:
    """Rows as a Markdown table."""
    cells = [list(frame.columns), ["---"] * frame.shape[1], *frame.astype(object).to_numpy().tolist()]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in cells).replace(" --- ", "---")


def main(folder: Path, out: Path) -> None:
    """Write the pages whose harness was run."""
    kills = read(folder, "kills", KILLS, "faults").groupby("command", sort=False).sum()
    if len(kills):
        kills.loc["all"] = kills.sum()
        writers = read(folder, "writers", WRITERS, "wrong")
        (out / "faults.md").write_text(FAULTS.format(kills=table(kills.reset_index()), writers=table(writers)))
    engines = read(folder, "clusters", ENGINES)
    if len(engines):
        (out / "clusters.md").write_text(CLUSTERS.format(engines=table(engines)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Files of millions of rows joined into a new folder, the same again, and what is made of them,
beside the goals.

    python benchmarks/joins.py FOLDER                 # 2,000 models of 40 layers and 25 prompts
    python benchmarks/joins.py FOLDER --models 200    # a tenth of these 2 million rows

Each step is a process of its own: CPU-seconds without imports, and the highest resident memory.
Results go to results/joins.csv and joins.md; a size that is run again replaces its own lines.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from results import RESULTS, markdown
from scale import model_row, run_row

from thermostats.tables import store
from thermostats.tables.features import build_features
from thermostats.tables.join import join
from thermostats.tables.store import CACHE_VARIABLE

LAYERS, PROMPTS, ALL = 40, 25, 2000
TABLES = ("models", "prompts", "runs", "layers")


class Goal(NamedTuple):
    """CPU-seconds and gigabytes that a step of `ALL` models may take, and what it took on 27
    November 2026."""

    seconds: float
    before: float
    gigabytes: float | None = None
    gigabytes_before: float | None = None


GOALS = {
    "join": Goal(15.0, 39.2, 1.2, 2.93),
    "join again": Goal(3.0, 51.5),
    "load": Goal(2.0, 4.8),
    "features": Goal(3.0, 9.1),
}


def make(folder: Path, models: int) -> None:
    """A file each of models, prompts, runs and layers, as another program writes them: gains alone,
    runs unsorted."""
    runs = pd.DataFrame([run_row(i) for i in range(models)])
    prompts = [f"p{i:03d}" for i in range(PROMPTS)]
    per_run = LAYERS * PROMPTS
    layers = pd.DataFrame(
        {
            "run_id": np.repeat(runs["run_id"].to_numpy(object), per_run),
            "layer": np.tile(np.repeat(np.arange(1, LAYERS + 1), PROMPTS), models),
            "prompt_id": np.tile(prompts, LAYERS * models),
            "position": "last",
            "gain_block": np.exp(np.random.default_rng(0).normal(0, 0.2, models * per_run)),
        }
    )
    frames = {
        "models": pd.DataFrame([{**model_row(i), "n_layers": LAYERS} for i in range(models)]),
        "prompts": pd.DataFrame(
            {
                "prompt_id": prompts,
                "text_sha256": [hashlib.sha256(each.encode()).hexdigest() for each in prompts],
            }
        ).assign(prompt_set="simulated", text="", category="", complexity=""),
        "runs": runs,
        "layers": layers,
    }
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)


def joined(folder: Path) -> int:
    files = [folder / f"{name}.csv" for name in TABLES]
    return sum(each.added + each.unchanged for each in join(files, data=folder / "mine"))


STEPS: dict[str, Callable[[Path], int]] = {
    "join": joined,
    "join again": joined,
    "load": lambda folder: len(store.load("layers", folder / "mine")),
    "features": lambda folder: len(build_features(folder / "mine")),
}


def run_step(name: str, folder: Path) -> None:
    """Do a step and print what it took."""
    began = process_time()
    rows = STEPS[name](folder)
    took = process_time() - began
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    print(json.dumps({"cpu_seconds": took, "gigabytes": peak / 1e9, "rows": rows}))


def timed(name: str, folder: Path) -> dict[str, Any]:
    """A step in a process of its own, with a cache of its own."""
    command = [sys.executable, __file__, str(folder), "--step", name]
    environment = {**os.environ, CACHE_VARIABLE: str(folder / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return dict(json.loads(done.stdout))


def study(folder: Path, models: int) -> None:
    """All steps at one size, into the results."""
    rows = []
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        make(Path(temporary), models)
        for name in STEPS:
            row = {
                "models": models,
                "step": name,
                **timed(name, Path(temporary)),
                "load": os.getloadavg()[0],
            }
            rows.append({**row, "measured": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"})
            print(rows[-1], file=sys.stderr, flush=True)
    write(pd.DataFrame(rows))


def write(table: pd.DataFrame) -> None:
    """results/joins.csv, and joins.md made from it."""
    path = RESULTS / "joins.csv"
    before = pd.read_csv(path) if path.is_file() else table[:0]
    table = pd.concat([before[~before["models"].isin(table["models"])], table])
    table.to_csv(path, index=False, float_format="%.4g", lineterminator="\n")
    full = table[table["models"] == ALL].set_index("step")
    lines = ["# Millions of rows", "", HEADING, "", markdown(table), ""]
    lines += [
        verdict(name, goal, full.loc[name]) for name, goal in GOALS.items() if name in full.index
    ]
    (RESULTS / "joins.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def verdict(name: str, goal: Goal, row: pd.Series) -> str:
    """A step beside its goal and what it took before."""
    parts = [f"{row['cpu_seconds']:.1f} CPU-s (goal {goal.seconds:g}, before {goal.before:g})"]
    good = row["cpu_seconds"] <= goal.seconds
    if goal.gigabytes is not None:
        parts.append(
            f"{row['gigabytes']:.2f} GB (goal {goal.gigabytes:g}, before {goal.gigabytes_before:g})"
        )
        good = good and row["gigabytes"] <= goal.gigabytes
    return f"- {name}, {ALL:,} models: {', '.join(parts)}: {'reached' if good else 'missed'}."


HEADING = f"""\
CSV files of models, prompts, runs and layers ({LAYERS} layers, {PROMPTS} prompts, the gain alone) are joined into a new
folder, and again; then the table layers is loaded and `build_features` made, with the rows that ship beneath. CPU-seconds
grow with the load of the machine, as first touches of memory do. Made by `python benchmarks/joins.py DIR`."""  # noqa: E501


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=int, default=ALL)
    parser.add_argument("--step", choices=list(STEPS))
    given = parser.parse_args()
    if given.step:
        run_step(given.step, given.folder)
    else:
        given.folder.mkdir(parents=True, exist_ok=True)
        study(given.folder, given.models)

"""Runs of many rows: joined, joined again, loaded, made features and exported, beside their goals.

    python benchmarks/rows.py FOLDER                     # 2 million rows, then 10 million
    python benchmarks/rows.py FOLDER --millions 2        # one of both sizes
    python benchmarks/rows.py FOLDER --as before         # under another name in the results
    python benchmarks/rows.py FOLDER --peers PYTHON      # with the duckdb or polars of PYTHON

The rows are made up: runs of 250,000 rows (40 layers, 6,250 prompts, the gain alone) in CSV files
of 2 million rows. Each step is a process of its own: seconds and CPU-seconds without imports, and
the highest resident memory. Results go to results/rows.csv and rows.md; lines of the same name and
size are replaced.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from results import RESULTS, markdown
from scale import model_row, run_row

from thermostats.tables import export, store
from thermostats.tables.features import build_features
from thermostats.tables.join import join
from thermostats.tables.store import CACHE_VARIABLE

LAYERS, PROMPTS = 40, 6250
RUNS = {2: 8, 10: 40}
"""Runs by millions of rows."""
OF_A_FILE = 8
"""Runs in a file of rows."""


class Goal(NamedTuple):
    """Seconds that a step may take, and gigabytes where they are limited."""

    seconds: float
    gigabytes: float | None = None


GOALS = {
    (2, "join"): Goal(10.0, 0.8),
    (2, "load"): Goal(0.5),
    (2, "features"): Goal(1.0),
    (10, "join"): Goal(60.0, 1.5),
    (10, "features"): Goal(4.0, 1.5),
}


def make(folder: Path, runs: int) -> None:
    """Files of models, prompts and runs, and of layers one for each `OF_A_FILE` runs."""
    frame = pd.DataFrame([run_row(i) for i in range(runs)])
    prompts = [f"p{i:04d}" for i in range(PROMPTS)]
    hashes = [hashlib.sha256(each.encode()).hexdigest() for each in prompts]
    texts = pd.DataFrame({"prompt_id": prompts, "text_sha256": hashes})
    frames = {
        "models": pd.DataFrame([{**model_row(i), "n_layers": LAYERS} for i in range(runs)]),
        "prompts": texts.assign(prompt_set="simulated", text="", category="", complexity=""),
        "runs": frame,
    }
    rng = np.random.default_rng(0)
    for first in range(0, runs, OF_A_FILE):
        names = frame["run_id"].to_numpy(object)[first : first + OF_A_FILE]
        frames[f"layers-{first // OF_A_FILE}"] = pd.DataFrame(
            {
                "run_id": np.repeat(names, LAYERS * PROMPTS),
                "layer": np.tile(np.repeat(np.arange(1, LAYERS + 1), PROMPTS), len(names)),
                "prompt_id": np.tile(prompts, LAYERS * len(names)),
                "position": "last",
                "gain_block": np.exp(rng.normal(0, 0.2, LAYERS * PROMPTS * len(names))),
            }
        )
    for name, rows in frames.items():
        rows.to_csv(folder / f"{name}.csv", index=False)


def joined(folder: Path) -> int:
    files = [folder / f"{name}.csv" for name in ("models", "prompts", "runs")]
    files += sorted(folder.glob("layers-*.csv"))
    return sum(each.added + each.unchanged for each in join(files, data=folder / "mine"))


def exported(folder: Path, form: str) -> int:
    out = folder / f"out-{form}"
    rows = sum(each.rows for each in export.export(out, data=folder / "mine", format=form))
    shutil.rmtree(out)
    return rows


STEPS: dict[str, Callable[[Path], int]] = {
    "join": joined,
    "join again": joined,
    "load": lambda folder: len(store.load("layers", folder / "mine")),
    "features": lambda folder: len(build_features(folder / "mine")),
    "export as CSV": lambda folder: exported(folder, "csv"),
    "export as Parquet": lambda folder: exported(folder, "parquet"),
}
TWO = "mean of log gain by run, two columns"
PEERS = {
    "pyarrow": """
import pyarrow.dataset as ds
import pyarrow.compute as pc
columns = {"run_id": ds.field("run_id"), "log": pc.ln(ds.field("gain_block"))}
table = ds.dataset(files).to_table(columns)
rows = len(table.group_by("run_id").aggregate([("log", "mean")]))
""",
    "duckdb": """
import duckdb
con = duckdb.connect(config={"threads": threads})
con.execute("set enable_progress_bar = false")
query = "select run_id, avg(ln(gain_block)) from read_parquet(?) group by run_id"
rows = len(con.execute(query, [files]).fetchall())
""",
    "polars": """
import polars as pl
mean = pl.col("gain_block").log().mean()
rows = len(pl.scan_parquet(files).group_by("run_id").agg(mean).collect())
""",
}
"""How each library answers `TWO` from the Parquet files of a folder; imports are not counted."""


def run_step(name: str, folder: Path) -> None:
    """Do a step and print what it took."""
    wall, cpu = perf_counter(), process_time()
    rows = STEPS[name](folder)
    took = {"seconds": perf_counter() - wall, "cpu_seconds": process_time() - cpu}
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    print(json.dumps({**took, "gigabytes": peak / 1e9, "rows": rows}))


def timed(command: list[str], folder: Path) -> dict[str, Any]:
    """A step in a process of its own, with a cache of its own."""
    environment = {**os.environ, CACHE_VARIABLE: str(folder / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        return {"note": done.stderr.strip().splitlines()[-1][:200]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def ask_peer(name: str, python: str, folder: Path) -> dict[str, Any]:
    """What a library takes for `TWO`, the second time that it is asked."""
    files = sorted(map(str, (folder / "mine" / "measured" / "layers").glob("*.parquet")))
    code = f"""
import json, time
files, threads = {files!r}, 1
def ask():
{"".join(f"    {line}" for line in PEERS[name].strip().splitlines(keepends=True))}
    return rows
ask()
wall, cpu = time.perf_counter(), time.process_time()
rows = ask()
took = {{"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}}
print(json.dumps({{**took, "rows": rows}}))
"""
    return timed([python, "-c", code], folder)


def study(folder: Path, millions: int, name: str, python: str) -> list[dict[str, Any]]:
    """All steps at one size, into the results."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        place = Path(temporary)
        make(place, RUNS[millions])
        for step in STEPS:
            took = timed([sys.executable, __file__, str(place), "--step", step], place)
            rows.append(describe(name, millions, step, took))
        for peer in PEERS:
            took = ask_peer(peer, python, place)
            if "note" not in took:
                rows.append(describe(name, millions, f"{TWO}: {peer}", took))
    return rows


def describe(name: str, millions: int, step: str, took: dict[str, Any]) -> dict[str, Any]:
    """A line of the results, printed as well."""
    row = {"as": name, "millions": millions, "step": step, **took, "load": os.getloadavg()[0]}
    row["measured"] = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
    print(row, file=sys.stderr, flush=True)
    return row


def write(table: pd.DataFrame) -> None:
    """results/rows.csv, and rows.md made from it."""
    path = RESULTS / "rows.csv"
    keys = ["as", "millions"]
    if path.is_file():
        before = pd.read_csv(path)
        same = pd.MultiIndex.from_frame(before[keys]).isin(pd.MultiIndex.from_frame(table[keys]))
        table = pd.concat([before[~same], table])
    table.to_csv(path, index=False, float_format="%.4g", lineterminator="\n")
    lines = ["# Runs of many rows", "", HEADING, "", markdown(table), ""]
    lines += [verdict(row) for row in table.to_dict("records") if find_goal(row)]
    (RESULTS / "rows.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def find_goal(row: dict[str, Any]) -> Goal | None:
    return GOALS.get((row["millions"], row["step"]))


def verdict(row: dict[str, Any]) -> str:
    """A step beside its goal."""
    goal = GOALS[row["millions"], row["step"]]
    there = f"- {row['step']}, {row['millions']} million rows, {row['as']}"
    if not row["cpu_seconds"] > 0:
        return f"{there}: {row['note']}"
    parts = [f"{row['cpu_seconds']:.2f} CPU-s (goal {goal.seconds:g})"]
    good = row["cpu_seconds"] <= goal.seconds
    if goal.gigabytes is not None:
        parts.append(f"{row['gigabytes']:.2f} GB (goal {goal.gigabytes:g})")
        good = good and row["gigabytes"] <= goal.gigabytes
    return f"{there}: {', '.join(parts)}: {'reached' if good else 'missed'}."


HEADING = f"""\
CSV files of models, prompts, runs and layers (runs of {LAYERS * PROMPTS:,} rows: {LAYERS} layers, {PROMPTS:,} prompts, the gain alone;
2 million rows a file) are joined into a new folder, and again; then the table layers is loaded, features are made and the own
rows are exported (`before`: those that ship too). Each step is a process of its own; its gigabytes are the highest resident memory. Goals
are held against CPU-seconds, as other programs ran on the machine meanwhile (`load`). Below, what pyarrow, duckdb and polars take,
each on one thread where that can be said, for the mean of log gain by run from the folder's own Parquet files, asked a second time.
Made by `python benchmarks/rows.py DIR --peers PYTHON`."""  # noqa: E501


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--millions", type=int, choices=list(RUNS), action="append")
    parser.add_argument("--as", dest="name", default="now")
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--step", choices=list(STEPS))
    given = parser.parse_args()
    if given.step:
        run_step(given.step, given.folder)
    else:
        given.folder.mkdir(parents=True, exist_ok=True)
        for size in given.millions or RUNS:
            write(pd.DataFrame(study(given.folder, size, given.name, given.peers)))

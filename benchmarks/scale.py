"""Tables of many runs: loading, checking, features and one run more, at 100, 1,000 and 10,000
simulated runs.

    python benchmarks/scale.py target FOLDER    # 2,000 runs of 32 layers and 25 prompts
    python benchmarks/scale.py growth FOLDER    # 100, 1,000 and 10,000 of 32 layers and 5 prompts

Every step is a process of its own, so that its highest resident memory is its own too. Results go
to results/scale.csv and scale.md; a part that is run again replaces its own lines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd
from results import RESULTS, markdown

from thermostats.tables import features, store
from thermostats.tables.join import join
from thermostats.tables.runs import run_id

SHA = "0" * 64
LAYERS, TEMPLATES, NAME = 32, 16, "RUN_ID_OF_16_HEX"
STEPS = ("load layers", "features", "check", "join one run")
STUDIES = {"target": [(2000, 25)], "growth": [(100, 5), (1000, 5), (10_000, 5)]}
SECONDS, GIGABYTES = 20.0, 3.0


def model_row(number: int) -> dict[str, Any]:
    """A checkpoint of one of sixteen made-up families."""
    return {
        "model_id": f"lab{number % 16}/family",
        "revision": f"step{number}",
        "heritage": f"Lab {number % 16}",
        "family": "family",
        "variant": "base",
        "parent": "",
        "architecture": "simulated",
        "n_layers": LAYERS,
        "d_model": 2048,
        "d_embed": 2048,
        "n_heads": 16,
        "n_kv_heads": 16,
        "d_head": 128,
        "d_ff": 8192,
        "vocab_size": 50304,
        "n_positions": 0,
        "tied_embeddings": False,
        "gated_mlp": False,
        "n_params": 1_800_000_000,
        "n_params_nonembedding": 1_600_000_000,
        "norm_kind": "LayerNorm",
        "norm_place": "pre",
        "position_scheme": "rotary",
        "parallel_block": True,
        "year": 2023,
        "source": "simulated",
    }


def run_row(number: int) -> dict[str, Any]:
    """The run of one checkpoint."""
    row = {
        "model_id": f"lab{number % 16}/family",
        "revision": f"step{number}",
        "dtype": "float32",
        "attention": "default",
        "prompt_set": "simulated",
        "prompt_sha": SHA,
        "measure_version": "1",
        "source": "simulated",
    }
    recorded = {
        "special_tokens": "",
        "versions": "",
        "device": "cpu",
        "seconds": 30.0,
        "measured_at": "2026-01-01",
    }
    return {"run_id": run_id(row), **row, **recorded}


def rows_of_run(seed: int, n_prompts: int) -> dict[str, pd.DataFrame]:
    """Rows of one run: layers and prompts in full, two summaries and two transition layers a
    prompt, 2 L norms."""
    rng = np.random.default_rng(seed)
    prompts = np.array([f"p{i:03d}" for i in range(n_prompts)], dtype=object)
    n = LAYERS * n_prompts
    gains = np.exp(rng.normal(0.0, 0.2, (LAYERS, n_prompts)))
    norms_in = 9.0 * np.vstack([np.ones(n_prompts), np.cumprod(gains, axis=0)[:-1]])
    ratios = {
        name: np.exp(rng.normal(0, 0.2, n))
        for name in ("gain_attention", "gain_mlp", "write_attention", "write_mlp")
    }
    layers = pd.DataFrame(
        {
            "layer": np.repeat(np.arange(1, LAYERS + 1), n_prompts),
            "prompt_id": np.tile(prompts, LAYERS),
        }
        | {"position": "last", "norm_in": norms_in.ravel(), "gain_block": gains.ravel(), **ratios}
        | {name: rng.uniform(-1, 1, n) for name in ("cosine", "anisotropy")}
        | {"n_tokens": np.tile(rng.integers(4, 40, n_prompts), LAYERS)}
    )
    named = ["normed_gain", "logit_scale"]
    summaries = pd.DataFrame(
        {"prompt_id": np.repeat(prompts, 2), "estimand": np.tile(named, n_prompts)}
    )
    at = rng.integers(1, LAYERS + 1, 2 * n_prompts).astype(float)
    transitions = pd.DataFrame(
        {"prompt_id": np.repeat(prompts, 2), "definition": np.tile(["peak", "minimum"], n_prompts)}
        | {"trace_variant": "exact", "layer": at, "relative_depth": at / LAYERS}
    )
    norms = np.exp(rng.normal(1.0, 0.2, 2 * LAYERS))
    weights = pd.DataFrame(
        {
            "layer": np.repeat(np.arange(1, LAYERS + 1), 2),
            "matrix": ["W_O", "W_V"] * LAYERS,
            "head": "",
        }
        | {"spectral_norm": norms, "frobenius_norm": 3 * norms, "stable_rank": 9.0}
    )
    summaries["value"] = np.exp(rng.normal(0, 0.2, 2 * n_prompts))
    tables = {
        "layers": layers,
        "summaries": summaries,
        "transitions": transitions,
        "weights": weights,
    }
    return {name: frame.assign(run_id=NAME, missing="") for name, frame in tables.items()}


def make(folder: Path, runs: int, n_prompts: int) -> None:
    """A data folder of simulated runs; their numbers are those of sixteen, as nothing here depends
    on them."""
    templates = [
        {
            name: store.encode_csv(frame, name)
            for name, frame in rows_of_run(seed, n_prompts).items()
        }
        for seed in range(TEMPLATES)
    ]
    prompt = {
        "prompt_set": "simulated",
        "text_sha256": SHA,
        "text": "",
        "category": "",
        "complexity": None,
    }
    prompts = [{**prompt, "prompt_id": f"p{i:03d}"} for i in range(n_prompts)]
    store.save(pd.DataFrame(prompts), "prompts", folder / "prompts.csv")
    store.save(
        pd.DataFrame([model_row(i) for i in range(runs + 1)]), "models", folder / "models.csv"
    )
    rows = pd.DataFrame([run_row(i) for i in range(runs)])
    header, *lines = store.encode_csv(rows, "runs").splitlines(keepends=True)
    places = {name: folder / "measured" / name for name in ("runs", *templates[0])}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    for number, line in enumerate(lines):
        run = line.split(b",", 1)[0]
        (places["runs"] / f"{run.decode()}.csv").write_bytes(header + line)
        for name, content in templates[number % TEMPLATES].items():
            (places[name] / f"{run.decode()}.csv").write_bytes(content.replace(NAME.encode(), run))


def step(name: str, folder: Path) -> int:
    """One step; rows that it came to."""
    if name == "load layers":
        return len(store.load("layers", folder))
    if name == "features":
        return len(features.build_features(folder))
    if name == "check":
        return sum(store.check(folder).values())
    runs = len(list((folder / "measured" / "runs").glob("*.csv")))
    row = run_row(runs)
    n_prompts = len(store.load("prompts", folder))
    frames = [frame.assign(run_id=row["run_id"]) for frame in rows_of_run(runs, n_prompts).values()]
    join([pd.DataFrame([row]), *frames], data=folder, accept=True)
    return sum(map(len, frames)) + 1


def timed(name: str, folder: Path) -> dict[str, Any]:
    """A step in a process of its own: wall and CPU seconds, highest resident memory, rows."""
    command = [sys.executable, __file__, "step", str(folder), name]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(ran.stderr[-2000:])
    return dict(json.loads(ran.stdout))


def run_step(name: str, folder: Path) -> None:
    """Do a step and print what it took."""
    wall, cpu = perf_counter(), process_time()
    rows = step(name, folder)
    took = {"seconds": perf_counter() - wall, "cpu_seconds": process_time() - cpu, "rows": rows}
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    print(json.dumps({**took, "gigabytes": peak / 1e9}))


def study(name: str, folder: Path) -> None:
    """Every step at every size of a study, into the results."""
    rows = []
    for runs, n_prompts in STUDIES[name]:
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            place = Path(temporary)
            began = perf_counter()
            make(place, runs, n_prompts)
            print(
                f"made {runs} runs in {perf_counter() - began:.0f} s", file=sys.stderr, flush=True
            )
            for each in STEPS:
                rows.append(
                    {
                        "study": name,
                        "step": each,
                        "runs": runs,
                        "prompts": n_prompts,
                        **timed(each, place),
                    }
                )
                rows[-1] |= {
                    "ms a run": 1000 * rows[-1]["seconds"] / runs,
                    "load": os.getloadavg()[0],
                }
                rows[-1]["measured"] = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
                print(rows[-1], file=sys.stderr, flush=True)
                write(rows)


def write(rows: list[dict[str, Any]]) -> None:
    """results/scale.csv, and scale.md made from it."""
    path = RESULTS / "scale.csv"
    table = pd.DataFrame(rows)
    before = pd.read_csv(path) if path.is_file() else table[:0]
    table = pd.concat([before[~before["study"].isin(set(table["study"]))], table])
    table.to_csv(path, index=False, float_format="%.4g", lineterminator="\n")
    lines = ["# Tables of many runs", "", HEADING, "", markdown(table), "", *verdicts(table)]
    (RESULTS / "scale.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


HEADING = f"""\
Simulated runs of {LAYERS} layers, each its own files. `load layers` reads and validates the table layers, `features`
loads and validates every table that it needs and makes one row a model; `join one run` joins a run more into the
folder, the making of its rows included. Each step is a fresh process: its seconds include imports where they are late,
its gigabytes are the highest resident memory of the process.
Made by `python benchmarks/scale.py target DIR` and `growth DIR`."""  # noqa: E501


def verdicts(table: pd.DataFrame) -> list[str]:
    """The target, how cost grows from the smallest to the largest size, and what follows for
    100,000 runs."""
    lines = []
    for row in table[
        (table["study"] == "target") & table["step"].isin(["load layers", "features"])
    ].to_dict("records"):
        good = row["seconds"] < SECONDS and row["gigabytes"] < GIGABYTES
        lines.append(
            f"- Target, {row['step']} of {row['runs']} runs × {LAYERS} layers × {row['prompts']} "
            f"prompts in under "
            f"{SECONDS:g} s and {GIGABYTES:g} GB: {row['seconds']:.1f} s, {row['gigabytes']:.2f} "
            f"GB, "
            f"{'reached' if good else 'missed'}."
        )
    growth = table[table["study"] == "growth"]
    for name, unordered in growth.groupby("step", sort=False):
        rows = unordered.sort_values("runs")
        if len(rows) < 2:
            continue
        small, large = rows.iloc[-2], rows.iloc[-1]
        runs, cost = large["runs"] / small["runs"], large["cpu_seconds"] / small["cpu_seconds"]
        further = large["runs"] - small["runs"]
        each = (large["cpu_seconds"] - small["cpu_seconds"]) / further
        memory = (large["gigabytes"] - small["gigabytes"]) / further
        ahead = 100_000 - large["runs"]
        lines.append(
            f"- {name}: from {small['runs']:,} to {large['runs']:,} runs, {runs:.0f} times as "
            f"many, "
            f"{small['cpu_seconds']:.2f} s become {large['cpu_seconds']:.2f} s, {cost:.1f} times "
            f"as many, the power "
            f"{np.log(cost) / np.log(runs):.2f} of the runs: {1000 * each:.2f} ms and "
            f"{1000 * memory:.2f} MB for each "
            f"further run. At that rate 100,000 runs of {large['prompts']} prompts would take "
            f"{large['cpu_seconds'] + each * ahead:.0f} s and "
            f"{large['gigabytes'] + memory * ahead:.1f} GB."
        )
    if len(lines) > 2:
        lines.append(
            "\nGrowth is told in seconds of CPU, as other programs ran on the machine meanwhile "
            "(`load`): a power of 1 "
            "is linear, less is a cost that is there once. The figures for 100,000 runs are "
            "reckoned, not measured."
        )
    return lines


if __name__ == "__main__":
    if sys.argv[1] == "step":
        run_step(sys.argv[3], Path(sys.argv[2]))
    else:
        Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
        study(sys.argv[1], Path(sys.argv[2]))

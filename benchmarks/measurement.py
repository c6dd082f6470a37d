"""The measurement layer side by side with other ways to the same numbers: speed, memory and
accuracy, one thread each.

    python benchmarks/measurement.py [--repeats 5] [--only norms,spectra,sheaf,file] [--tiny]
    [--cache DIR]

Every contender is a process of its own that has loaded its model before the clock starts; they work
in turns. Prints targets and what was reached, and writes them to benchmarks/results/ (see
benchmarks/README.md).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from peers import ONE_THREAD, PEERS, Contender, Environment, install, this_package

os.environ.update(ONE_THREAD)

import torch
import transformers
from results import Results, interleaved, ratio, worst
from shapes import DECAY, SHAPES, save_large_file, save_model

from thermostats.measurement.prompts import load_prompts

SGEMM = 2048
PROCESSES = 5
"""Fresh processes that the memory of this package is measured in."""
KINDS = ("flat", "decaying")
SECTIONS = ("norms", "spectra", "sheaf", "file")
MB = 1e6


def norms(
    folder: Path, shape: str, peers: dict[str, Environment], repeats: int, results: Results
) -> None:
    """Norms of every layer: against the notebook way, the other tools and the floor of arithmetic;
    memory."""
    results.start("norms")
    contenders = [
        Contender("thermostats", this_package(), "norms", folder),
        Contender("notebook way", this_package(), "norms_notebook", folder),
        Contender("TransformerLens", peers["TransformerLens"], "norms_transformer_lens", folder),
        Contender("nnsight", peers["nnsight"], "norms_nnsight", folder),
        Contender(f"sgemm {SGEMM}³", this_package(), "sgemm", folder),
    ]
    memory = {contender.name: [contender.ask("memory")] for contender in contenders[:-1]}
    for _ in range(PROCESSES - 1):
        another = Contender("thermostats", this_package(), "norms", folder)
        memory["thermostats"].append(another.ask("memory"))
        another.close()
    runs = interleaved(contenders, repeats, results)
    ours, sgemm = runs["thermostats"], runs[contenders[-1].name]
    missed = False
    for other in contenders[1:-1]:
        theirs = runs[other.name]
        same = f"same norms within {worst(ours, theirs):.0e}" if theirs else other.reason
        missed |= results.target(
            f"how many times faster than {other.name}",
            shape,
            "×",
            2.5 if other.name != "nnsight" else None,
            ratio(theirs, ours),
            ratio(theirs, ours, "cpu"),
            note=same,
        )
    flop, tokens = needed_flop(folder)
    floor = {
        clock: flop / (2 * SGEMM**3 / statistics.median(run[clock] for run in sgemm))
        for clock in ("seconds", "cpu")
    }
    shares = {
        clock: floor[clock] / statistics.median(run[clock] for run in ours) for clock in floor
    }
    rate = 2e-9 * SGEMM**3 / statistics.median(run["cpu"] for run in sgemm)
    missed |= results.target(
        "share of the floor",
        shape,
        "",
        0.8,
        shares["seconds"],
        shares["cpu"],
        note=f"floor: {flop / 1e9:.1f} GFLOP for {tokens} tokens at {rate:.0f} GFLOP/s of CPU time "
        f"(torch, {SGEMM}³)",
    )
    for name, answers in memory.items():
        later = [value / MB for answer in answers for value in answer.get("later", ())]
        first = [answer["first"] / MB for answer in answers if answer]
        if later:
            missed |= results.target(
                f"memory above the loaded model, {name}",
                shape,
                "MB",
                16 if name == "thermostats" else None,
                statistics.median(later),
                at_least=False,
                note=f"three passes in each of {len(answers)} fresh processes, {min(later):.1f} to "
                f"{max(later):.1f} MB;"
                f" first pass, which brings in the libraries' own code and tables, "
                f"{statistics.median(first):.1f} MB",
            )
    finish(shape, contenders, runs, results, missed)


def spectra(
    folder: Path,
    shape: str,
    kind: str,
    peers: dict[str, Environment],
    repeats: int,
    results: Results,
) -> None:
    """‖W_V‖₂ and ‖W_O‖₂ of every layer from disk: against the SVD without its model loading, and
    WeightWatcher."""
    results.start("spectra")
    contenders = [
        Contender("thermostats", this_package(), "spectra", folder),
        Contender("all singular values", this_package(), "svd", folder),
        Contender("full SVD", this_package(), "full_svd", folder),
        Contender("WeightWatcher, same matrices", peers["WeightWatcher"], "weightwatcher", folder),
        Contender(
            "WeightWatcher, the model's attention layers",
            peers["WeightWatcher"],
            "weightwatcher_model",
            folder,
        ),
    ]
    truth = Contender("float64", this_package(), "exact", folder)
    exact = [truth.ask("run")]
    truth.close()
    runs = interleaved(contenders, repeats, results)
    ours = runs["thermostats"]
    on, missed = f"{shape}, {kind}", False
    for other in contenders[1:]:
        theirs, tool = runs[other.name], other.name.split(",")[0] == "WeightWatcher"
        note = other.reason or (
            f"float32, off by {worst(theirs, exact):.0e}" if other in contenders[1:3] else ""
        )
        missed |= results.target(
            f"how many times faster than {other.name}",
            on,
            "×",
            30 if tool else {"flat": 20, "decaying": 60}[kind],
            ratio(theirs, ours),
            ratio(theirs, ours, "cpu"),
            note=note,
        )
    missed |= results.target(
        "largest relative error",
        on,
        "",
        1e-6,
        worst(ours, exact),
        at_least=False,
        note="against all singular values in float64",
    )
    finish(on, contenders, runs, results, missed)


def sheaf(folder: Path, shape: str, repeats: int, results: Results) -> None:
    """Sheaf features of all prompts against the eager forward pass that they are taken from."""
    results.start("sheaf")
    contenders = [
        Contender("thermostats", this_package(), "sheaf", folder),
        Contender("eager forward pass, same batches", this_package(), "eager_forward", folder),
        Contender(
            "eager forward pass, one prompt at a time", this_package(), "eager_notebook", folder
        ),
    ]
    runs = interleaved(contenders, repeats, results)
    ours = runs["thermostats"]
    missed = False
    for other in contenders[1:]:
        theirs = runs[other.name]
        missed |= results.target(
            f"time as a multiple of an {other.name}",
            shape,
            "×",
            1.5,
            ratio(ours, theirs),
            ratio(ours, theirs, "cpu"),
            at_least=False,
        )
    finish(shape, contenders, runs, results, missed)


def large_file(folder: Path, layers: int, repeats: int, results: Results) -> None:
    """Peak memory of all spectra of a file of 7B shapes, and reading speed where reading is all
    there is to do."""
    results.start("file")
    save_large_file(folder, layers)
    on = f"{(folder / 'model.safetensors').stat().st_size / 1e9:.1f} GB of 7B shapes, bfloat16"
    table = Contender("thermostats, whole table", this_package(), "every_spectrum", folder)
    answer = table.ask("peak")
    missed = results.target(
        "peak memory of the whole process",
        on,
        "MB",
        250,
        answer["peak"] / MB,
        at_least=False,
        note=f"{answer['imported'] / MB:.0f} MB once numpy, scipy and pandas are imported",
    )
    results.timing(on, table.name, [answer], "whole matrices, heads and embeddings; once")
    ours = Contender("thermostats, one pass", this_package(), "row_norms", folder)
    disk = Contender("plain read", this_package(), "plain_read", folder)
    runs: dict[str, list[dict[str, Any]]] = {ours.name: [], disk.name: []}
    for turn in range(repeats):
        results.loads.append(os.getloadavg()[0])
        for contender in (ours, disk) if turn % 2 else (disk, ours):
            runs[contender.name].append(contender.ask("cold"))
    size = runs[disk.name][0]["values"]
    speeds = {
        name: statistics.median(size / run["seconds"] for run in turns) / MB
        for name, turns in runs.items()
    }
    missed |= results.target(
        "share of the disk's own reading speed, one pass",
        on,
        "",
        0.8,
        ratio(runs[disk.name], runs[ours.name]),
        note=f"{size / MB:.0f} MB not in the page cache: {speeds[ours.name]:.0f} MB/s, plain "
        f"{speeds[disk.name]:.0f}",
    )
    table.close()
    finish(on, [ours, disk], runs, results, missed)


def finish(
    on: str, contenders: list[Contender], runs: dict[str, Any], results: Results, missed: bool
) -> None:
    """Note the timings, profile this package's part where a target was missed, end the
    processes."""
    if missed:
        answer = contenders[0].ask("profile")
        results.profile(on, answer["words"], answer["profile"])
    for contender in contenders:
        results.timing(on, contender.name, runs[contender.name], contender.reason)
        contender.close()


def needed_flop(folder: Path) -> tuple[float, int]:
    """2 × parameters of the blocks × tokens, and the tokens."""
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config)
    blocks = model.h if hasattr(model, "h") else model.layers
    tokens = sum(
        len(ids) for ids in json.loads((folder / "prompts.json").read_text(encoding="utf-8"))
    )
    return 2.0 * sum(weight.numel() for weight in blocks.parameters()) * tokens, tokens


def heading(environments: dict[str, Environment], repeats: int) -> list[str]:
    """Under what circumstances the run was made."""
    tools = [
        environment.version or f"{name}: not installed ({environment.reason})"
        for name, environment in environments.items()
    ]
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("torch", "transformers", "numpy", "scipy")
    )
    return [
        f"On {os.cpu_count()} cores of {_processor()}, shared with other work: every line has its "
        f"load average;",
        f"one thread each ({', '.join(f'{name}=1' for name in ONE_THREAD)}).",
        f"This package with {versions}. Peers: {'; '.join(tools)}.",
        "",
        f"Medians of {repeats} interleaved rounds. A ratio is the median of the rounds' ratios by "
        f"the wall clock; the",
        "same by CPU time, which other work on the machine disturbs less, stands beside it. Models "
        "are random, prompts",
        f"the 25 of the set `core` as whole words. A flat spectrum is Gaussian, a decaying one "
        f"i^-{DECAY:g}.",
    ]


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def main() -> None:
    """Run what is asked for and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default=",".join(SECTIONS), help="some of " + ", ".join(SECTIONS))
    parser.add_argument(
        "--tiny", action="store_true", help="models of two layers and a small file, to try this out"
    )
    parser.add_argument(
        "--layers", type=int, default=13, help="layers of the large file, 0.4 GB each"
    )
    parser.add_argument(
        "--cache", type=Path, default=Path.home() / ".cache" / "thermostats-benchmarks"
    )
    options = parser.parse_args()
    only = options.only.split(",")
    texts = list(load_prompts("core")["text"])
    environments = {name: install(name, options.cache.expanduser()) for name in PEERS}
    results = Results()
    with tempfile.TemporaryDirectory() as root:
        for shape in SHAPES:
            for kind in KINDS:
                folder = Path(root) / f"{shape}-{kind}"
                save_model(folder, shape, texts, tiny=options.tiny, decaying=kind == "decaying")
                if "spectra" in only:
                    spectra(folder, shape, kind, environments, options.repeats, results)
            folder = Path(root) / f"{shape}-flat"
            if "norms" in only:
                norms(folder, shape, environments, options.repeats, results)
            if "sheaf" in only:
                sheaf(folder, shape, options.repeats, results)
        if "file" in only:
            folder = Path(root) / "large"
            folder.mkdir()
            large_file(folder, 1 if options.tiny else options.layers, options.repeats, results)
    if options.tiny:
        sys.exit("tried out; nothing written")
    results.write(heading(environments, options.repeats))


if __name__ == "__main__":
    main()

"""The report and the commands of every day, each a process of its own: CPU and wall-clock seconds
beside their goals.

    python benchmarks/report.py                  # all but the tests; half an hour
    python benchmarks/report.py commands cold    # some of it
    python benchmarks/report.py tests            # `make test`, where it is set up
    python benchmarks/report.py cold --before OTHER/benchmarks/results/report.csv

Parts: `commands`, which take seconds; `cold`, the report from nothing, again and with rows joined;
`drawn`, with --draw; `many`, with 500 models; `memory`; `large`, millions of rows and large fits.
Nothing else should run beside it; the load while a line was measured is written beside it. Results
go to results/report.csv and report.md; a line that is measured again replaces the old one. The
lines of the sampler and of spectral norms are read from what modelling.py and measurement.py
wrote. `--before`: figures of another checkout, measured by its own script on the same machine just
before, stand beside ours.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pandas as pd
import psutil
from joins import ALL
from joins import GOALS as OF_JOINS
from results import RESULTS, markdown
from scale import model_row

import thermostats
from thermostats.tables.folders import list_shipped_models

THERMOSTATS = (sys.executable, "-m", "thermostats")
LOAD = (
    "import time, thermostats\nfrom thermostats.tables.schemas import TABLES\n"
    "for _ in range(2):\n    start = time.process_time()\n"
    "    for name in TABLES: thermostats.load(name)\n"
    "    seconds = time.process_time() - start\nprint(seconds)"
)
LIGHT = (
    ["--help"],
    ["ls", "claims"],
    ["ls", "models"],
    ["ls", "columns"],
    ["ls", "tables"],
    ["findings"],
    ["doctor"],
)
FIT = (
    "import time, thermostats\nfrom modelling import table\nrows = table(1, 2000, 100, 5)\n"
    "thermostats.fit_heritage(table(1), estimand='simulated')\nstart = time.process_time()\n"
    "thermostats.fit_heritage(rows, estimand='simulated')\nprint(time.process_time() - start)"
)
REPORT = (*THERMOSTATS, "report", "--all", "--out")
COLD, DRAWN, AGAIN, ONE, SCRIPT, JOINED, MANY, SINGLE, LOADED, MEASURED, HERITAGE, LINEAGE = (
    "report --all, cold",
    "report --all --draw, cold",
    "report --all, nothing changed",
    "report C04, rows of one model joined",
    "report C01, rows of one model joined",
    "report --all, rows of five models joined",
    "report --all, 500 own models",
    "report C17 into an empty folder",
    "load every shipped table, second time",
    "measure, nothing to do",
    "fit_heritage, 2,000 models on five prompts",
    "Pagel's λ of 1,000 models with a slope, their tree included",
)
GOALS = {
    COLD: "≤ 130 CPU-s, ≤ 75 s wall",
    DRAWN: "≤ 400 CPU-s",
    AGAIN: "≤ 1.1 CPU-s",
    ONE: "≤ 5 CPU-s",
    SCRIPT: "≤ 3 CPU-s",
    JOINED: "≤ 35 CPU-s",
    MANY: "≤ 180 s wall",
    SINGLE: "≤ 10 s wall",
    LOADED: "≤ 0.4 s",
    MEASURED: "≤ 1.5 CPU-s",
    HERITAGE: "≤ 8 CPU-s",
    LINEAGE: "≤ 10 CPU-s",
}
BEFORE = {
    "`--help`": ".20",
    "`ls claims`": ".43",
    "`ls models`": ".51",
    "`ls columns`": ".41",
    "`ls tables`": ".71",
    "`findings`": ".44",
    "`doctor`": "1.5",
    LOADED: ".27",
    SINGLE: "6.0",
    COLD: "141, 75 s wall",
    DRAWN: "188, 100 s wall",
    AGAIN: ".26",
    ONE: "14.4",
    JOINED: "85",
    MEASURED: ".94",
    HERITAGE: "5.0",
    LINEAGE: ".10",
}
"""CPU-seconds at 3b11c0bb, where known, on this kind of machine, which is not always as fast."""
LIGHT_GOAL, MEMORY_GOAL, TESTS_GOAL, REPEATS = ("≤ 1.2 CPU-s", "≤ 0.9 GB", "≤ 240 s wall", 5)
WORDS = """# The report and the commands of every day

CPU-seconds of a command and all its processes, and wall-clock seconds. Caches of draws and of compiled code are empty
at first; of what takes less than some seconds the least of five runs. Made by `python benchmarks/report.py`; where a
cold report goes is in [report-profile.md](report-profile.md). `before` is commit 3b11c0bb: of a cold report and of rows
joined to it measured within the same hour on the same machine (`--before`), else on an earlier day. On that day its cold
report took {cold} CPU-seconds, one joined model {one} and five {five}; this machine varies by a third within hours.""".format(  # noqa: E501
    cold=BEFORE[COLD].partition(",")[0], one=BEFORE[ONE], five=BEFORE[JOINED]
)


def alone(cache: Path) -> dict[str, str]:
    """The environment with caches of draws and of compiled code in a folder of their own."""
    compiled = {
        "PYTENSOR_FLAGS": f"base_compiledir={cache / 'pytensor'}",
        "NUMBA_CACHE_DIR": str(cache / "numba"),
    }
    return {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(cache), **compiled}


def largest(command: Sequence[str], cache: Path) -> float:
    """The most memory that a command and its processes hold together, in GB; what they share counts
    once."""
    process = psutil.Popen(
        command, env=alone(cache), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    most = 0
    while process.poll() is None:
        held = 0
        with suppress(psutil.Error):
            for part in (process, *process.children(recursive=True)):
                with suppress(psutil.Error):
                    held += part.memory_full_info().pss
        most = max(most, held)
        sleep(0.5)
    return most / 1e9


def timed(command: Sequence[str], cache: Path, **variables: str) -> tuple[float, float, str]:
    """CPU-seconds of a command and its processes, wall-clock seconds, what it printed. Raises where
    it fails."""
    environment = {**alone(cache), **variables}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    wall, after = perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, done.stdout


def row(what: str, goal: str, cpu: float, wall: float, before: str = "") -> dict[str, Any]:
    """A line of the table; prints it."""
    line = {
        "what": what,
        "goal": goal,
        "before": before or BEFORE.get(what, ""),
        "cpu seconds": cpu,
        "seconds": wall,
        "load": os.getloadavg()[0],
    }
    print(
        ", ".join(
            f"{name} {value:.3g}" if isinstance(value, float) else str(value)
            for name, value in line.items()
        )
    )
    return {**line, "measured": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"}


def least(command: Sequence[str], cache: Path) -> tuple[float, float]:
    """The least CPU-seconds of the repeats, with the wall-clock seconds of that one."""
    return min(timed(command, cache)[:2] for _ in range(REPEATS))


def own_rows(folder: Path, number: int = 5) -> Path:
    """A folder of one's own with gains of so many models, made up, on two prompts."""
    models = (
        thermostats.load("models")
        .query("family == 'pythia'")
        .drop_duplicates("model_id")
        .head(number)
    )
    rows = [
        {
            "layer": layer,
            "prompt_id": prompt,
            "position": "last",
            "gain_block": 1 + 0.3 / layer,
            "model_id": name,
        }
        for name, depth in zip(models["model_id"], models["n_layers"], strict=True)
        for layer in range(1, depth + 1)
        for prompt in ("a", "b")
    ]
    table = pd.DataFrame(rows).assign(source="made up")
    thermostats.join(table, table="layers", data=folder / f"mine-{number}")
    return folder / f"mine-{number}"


def own_models(folder: Path, models: int = 500) -> Path:
    """A folder of one's own with made-up models of forty labs and eighty families, and their gains
    on five prompts."""
    rng, facts, rows = np.random.default_rng(1), [], []
    for i in range(models):
        depth, heads = int(rng.choice([12, 16, 24, 32, 48])), int(rng.choice([8, 16, 32]))
        name = {
            "model_id": f"lab{i % 40}/model-{i}",
            "revision": "main",
            "heritage": f"Lab {i % 40}",
        }
        name["family"] = f"family {i % 80}"
        facts.append(
            model_row(i) | name | {"n_layers": depth, "n_heads": heads, "n_kv_heads": heads}
        )
        gains = np.exp(0.05 * rng.normal() + 0.1 * rng.normal(size=(depth, 5)))
        rows.append(
            pd.DataFrame(gains).melt(
                ignore_index=False, var_name="prompt_id", value_name="gain_block"
            )
        )
        rows[-1] = rows[-1].rename_axis("layer").reset_index().assign(model_id=name["model_id"])
    layers = pd.concat(rows).assign(position="last", source="made up")
    layers["layer"] += 1
    thermostats.join(pd.DataFrame(facts), table="models", data=folder / "many")
    thermostats.join(layers.astype({"prompt_id": str}), table="layers", data=folder / "many")
    return folder / "many"


def measured(parts: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Every line that is asked for."""
    wanted = [part for name, part in PARTS.items() if name in parts or not parts]
    return [line for part in wanted for line in part(folder)]


def commands(folder: Path) -> Iterator[dict[str, Any]]:
    """What takes seconds."""
    cache = folder / "cache"
    for words in LIGHT:
        yield row(f"`{' '.join(words)}`", LIGHT_GOAL, *least([*THERMOSTATS, *words], cache))
    seconds = min(float(timed([sys.executable, "-c", LOAD], cache)[2]) for _ in range(REPEATS))
    yield row(LOADED, GOALS[LOADED], seconds, seconds)
    yield row(
        SINGLE,
        GOALS[SINGLE],
        *timed([*THERMOSTATS, "report", "C17", "--out", str(folder / "one")], cache)[:2],
    )
    measure = [
        *THERMOSTATS,
        "measure",
        str(list_shipped_models()[0]),
        "--what",
        "gains",
        "--data",
        str(folder / "measured"),
    ]
    timed(measure, cache)
    yield row(MEASURED, GOALS[MEASURED], *least(measure, cache))


def cold(folder: Path) -> Iterator[dict[str, Any]]:
    """The report from nothing, again, and with rows of models joined; its seconds go to the
    snapshot's folder."""
    cache, command = folder / "cold", [*REPORT, str(folder / "report")]
    yield row(COLD, GOALS[COLD], *timed(command, cache)[:2])
    took = (folder / "report" / ".seconds.json").read_bytes()
    (Path(__file__).parents[1] / "reports" / "snapshot" / "seconds.json").write_bytes(took)
    yield row(AGAIN, GOALS[AGAIN], *least(command, cache))
    one = [
        *THERMOSTATS,
        "report",
        "C04",
        "--out",
        str(folder / "report"),
        "--data",
        str(own_rows(folder, 1)),
    ]
    yield row(ONE, GOALS[ONE], *timed(one, cache)[:2])
    script = [word if word != "C04" else "C01" for word in one]
    yield row(SCRIPT, GOALS[SCRIPT], *timed(script, cache)[:2])
    yield row(JOINED, GOALS[JOINED], *timed([*command, "--data", str(own_rows(folder))], cache)[:2])


def drawn(folder: Path) -> Iterator[dict[str, Any]]:
    """The report from nothing, with what PyMC alone can draw."""
    yield row(
        DRAWN,
        GOALS[DRAWN],
        *timed([*REPORT, str(folder / "drawn"), "--draw"], folder / "unused")[:2],
    )


def many(folder: Path) -> Iterator[dict[str, Any]]:
    """The report with 500 models of one's own, from nothing."""
    data = own_models(folder)
    yield row(
        MANY,
        GOALS[MANY],
        *timed([*REPORT, str(folder / "many-report"), "--data", str(data)], folder / "new")[:2],
    )


def memory(folder: Path) -> Iterator[dict[str, Any]]:
    """What the processes of a cold report hold together."""
    held = largest([*REPORT, str(folder / "again")], folder / "empty")
    yield row(
        f"memory of the cold report, all processes: {held:.2f} GB", MEMORY_GOAL, math.nan, math.nan
    )


def large(folder: Path) -> Iterator[dict[str, Any]]:
    """Millions of rows by joins.py, a fit of 2,000 models, and λ of 1,000 by lineage.py."""
    here = Path(__file__).parent
    timed([sys.executable, str(here / "joins.py"), str(folder)], folder / "joins")
    steps = pd.read_csv(RESULTS / "joins.csv").set_index(["models", "step"]).loc[ALL]
    for step, goal in OF_JOINS.items():
        seconds, held = (
            float(steps.loc[step, "cpu_seconds"]),
            f"{steps.loc[step, 'gigabytes']:.2f} GB",
        )
        memory = "" if goal.gigabytes is None else f", ≤ {goal.gigabytes:g} GB"
        before = f"{goal.before:g}" + (
            "" if goal.gigabytes_before is None else f", {goal.gigabytes_before:g} GB"
        )
        what = f"{step}, two million rows: {held}"
        yield row(what, f"≤ {goal.seconds:g} CPU-s{memory}", seconds, math.nan, before)
    seconds = float(timed([sys.executable, "-c", FIT], folder / "fits", PYTHONPATH=str(here))[2])
    yield row(HERITAGE, GOALS[HERITAGE], seconds, math.nan)
    timed([sys.executable, str(here / "lineage.py"), "--speed"], folder / "fits")
    first = pd.read_csv(RESULTS / "lineage-speed.csv").iloc[0]
    yield row(
        LINEAGE, GOALS[LINEAGE], float(first["CPU-s of the tree"] + first["CPU-s of λ"]), math.nan
    )


PARTS = {
    "commands": commands,
    "cold": cold,
    "drawn": drawn,
    "many": many,
    "memory": memory,
    "large": large,
}


def tests(folder: Path) -> list[dict[str, Any]]:
    """`make test` of this checkout."""
    return [
        row(
            "`make test`",
            TESTS_GOAL,
            *timed(["make", "-C", str(Path(__file__).parents[1]), "test"], folder)[:2],
        )
    ]


def elsewhere() -> list[dict[str, Any]]:
    """Lines of the results of modelling.py and measurement.py."""
    fits = (
        pd.read_csv(RESULTS / "modelling.csv")
        .query("what == 'nutpie, compilation included'")
        .iloc[-1]
    )
    figure = f"{fits['times']:.0f} ×, with its checks {fits['times_checks']:.0f} ×"
    rows = [
        {
            "what": f"exact heritage fit against nutpie: {figure}",
            "goal": "≥ 100 ×, ≥ 20 × with checks",
        }
    ]
    norms = pd.read_csv(RESULTS / "measurement.csv").query("what.str.endswith('full SVD')")
    for kind, of in norms.groupby(norms["on"].str.split(", ").str[1], sort=False):
        reached = f"{of['reached'].min():.1f} to {of['reached'].max():.1f} ×"
        rows.append(
            {
                "what": f"spectral norms against full SVD, {kind}: {reached}",
                "goal": of["target"].iloc[0],
            }
        )
    return rows


def read_before(path: Path) -> dict[str, str]:
    """What another checkout's results have, by line: CPU-seconds, or gigabytes of a line of
    memory."""
    figures = {}
    for line in pd.read_csv(path).to_dict("records"):
        what, _, held = line["what"].partition(": ")
        figures[what] = held or f"{line['cpu seconds']:.3g}, {line['seconds']:.3g} s wall"
    return figures


def main(parts: Sequence[str], before_file: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = tests(Path(folder)) if "tests" in parts else measured(parts, Path(folder))
    figures = read_before(before_file) if before_file else {}
    for line in made:
        line["before"] = figures.get(line["what"].partition(": ")[0], line["before"])
    rows = pd.DataFrame([*made, *elsewhere()])
    path = RESULTS / "report.csv"
    before = pd.read_csv(path) if path.is_file() else rows.iloc[:0]
    same = before["what"].str.split(":").str[0].isin(rows["what"].str.split(":").str[0])
    table = pd.concat([before[~same], rows], ignore_index=True)
    table.to_csv(path, index=False, float_format="%.3g")
    (RESULTS / "report.md").write_text(f"{WORDS}\n\n{markdown(table)}\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "tests"])
    parser.add_argument("--before", type=Path)
    given = parser.parse_args()
    main(given.parts, given.before)

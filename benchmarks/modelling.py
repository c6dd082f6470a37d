"""Effective draws per second of the heritage model, one run, side by side: this package, PyMC's own sampler, Bambi.

Data of the study's size and shape: 24 models in 8 labs, 25 prompts in 5 categories, Student-t, a scale per model; four
chains of 1000 draws at a target acceptance of 0.9 after the warmup that each sampler takes where it is not told, 400 of
nutpie and 1000 of PyMC's own, which has a row with 400 too. `python benchmarks/modelling.py --bambi PYTHON`, with the
interpreter of an environment that has Bambi (without it that row stays as it was), pins OMP_NUM_THREADS to 1 and leaves
the cache of draws unused. Bambi's formula has the same likelihood and groups, its own default priors, and no shares of
blocks. `ess_min` is over all quantities of each model. `start_s` holds the compilation, `sample_s` sampling alone,
warmup included. `steps` are gradients a kept draw, `us_a_step` the microseconds of one with all that goes with it, if
a draw of the warmup takes as many. `times` is ESS per second of the warm row over that of the row; of all data sets
together it is that of the sums. `fit` is `fit_heritage` as users call it, with its own settings, compilation and a
second attempt, if its gate asked for one, included; `calibration` is 200 refits, from the time of 20. Ratios carry over
to other machines, seconds do not.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["THERMOSTATS_CACHE"] = "off"

import numpy as np
from thermostats.modelling.heritage.calibration import sampled
from thermostats.modelling.heritage.model import arrays, heritage_model
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.calibration import calibrate
from thermostats.modelling.inference.draws import Settings

from thermostats.modelling.heritage.blocks import design
from thermostats.modelling.heritage.fit import fit_heritage
from thermostats.modelling.heritage.simulate import model_facts, simulate_heritage

RESULTS = Path(__file__).parent / "results"
COLUMNS = (
    "python",
    "pymc",
    "what",
    "compiled",
    "start_s",
    "sample_s",
    "ess_min",
    "ess_per_s",
    "rhat_max",
    "divergences",
    "steps",
    "us_a_step",
    "times",
    "note",
)
SHARES = {"heritage": 0.6, "geometry": 0.15, "scale": 0.05}
BAMBI = "Bambi's formula, nutpie"
VERSIONS = {"python": platform.python_version(), "pymc": sampling.versions()["pymc"]}
SEEDS = (2, 3, 4, 5, 6, 7)
"""Simulated studies on which the samplers are compared: the smallest ESS of one is itself uncertain by a quarter."""
PYMC_TUNE = 1000
"""Draws that PyMC's own sampler discards where it is not told."""
ALL = f"data {SEEDS[0]} to {SEEDS[-1]}"
CALIBRATIONS, REFITS = 20, 200


def table(seed: int) -> Any:
    """Gains of a simulated study."""
    facts = model_facts(24, 8, np.random.default_rng(seed))
    return simulate_heritage(facts, shares=SHARES, seed=seed).table


def row(what: str, compiled: str, start: float, sample: float, **found: Any) -> dict[str, Any]:
    """One line of the results."""
    numbers = {"start_s": round(start, 1), "sample_s": round(sample, 1)}
    if "ess_min" in found:
        numbers["ess_per_s"] = round(found["ess_min"] / sample, 1)
        found["ess_min"], found["rhat_max"] = round(found["ess_min"]), round(found["rhat_max"], 4)
    return {**VERSIONS, "what": what, "compiled": compiled, **numbers, **found}


def measure(sampler: str, tune: int, compiled: str, seed: int) -> dict[str, Any]:
    """One attempt by the seam."""
    data = arrays(design(table(seed), "simulated"))
    settings = Settings(sampler=sampler, tune=tune)
    traces: list[Any] = []
    read = sampling._values
    with mock.patch.object(sampling, "_values", lambda trace: traces.append(trace) or read(trace)):
        draws = sampling.fit(heritage_model, data, seed=1, settings=settings, retry=False, cache=False)
    found, steps = draws.diagnostics, float(traces[-1].sample_stats["n_steps"].mean())
    every = settings.chains * (settings.draws + tune) * steps
    cores = min(settings.chains, os.cpu_count() or 1)
    return row(
        ("this package, nutpie" if sampler == "nutpie" else "PyMC's own sampler") + f", {tune} + {settings.draws}",
        compiled,
        draws.compile_seconds,
        draws.sample_seconds,
        ess_min=min(found.ess_bulk_min, found.ess_tail_min),
        rhat_max=found.rhat_max,
        divergences=found.divergences,
        steps=round(steps, 1),
        us_a_step=round(1e6 * cores * draws.sample_seconds / every, 1),
        note=f"data {seed}",
    )


def together(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Smallest effective draws and seconds of several data sets, summed."""
    sums = {name: sum(r[name] for r in rows) for name in ("ess_min", "sample_s", "divergences")}
    return row(
        rows[0]["what"],
        rows[0]["compiled"],
        sum(r["start_s"] for r in rows),
        sums["sample_s"],
        note=ALL,
        ess_min=sums["ess_min"],
        rhat_max=max(r["rhat_max"] for r in rows),
        divergences=sums["divergences"],
        steps=round(float(np.mean([r["steps"] for r in rows])), 1),
        us_a_step=round(float(np.mean([r["us_a_step"] for r in rows])), 1),
    )


def formula(python: Path, seed: int) -> dict[str, Any]:
    """Bambi in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gains.csv"
        table(seed).to_csv(path, index=False)
        command = [str(python), "-W", "ignore", str(Path(__file__).with_name("formula.py")), str(path)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""})
    if ran.returncode:
        return {**VERSIONS, "what": BAMBI, "note": (ran.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    found = json.loads(ran.stdout.splitlines()[-1])
    note, start, sample = found.pop("version"), found.pop("start_s"), found.pop("sample_s")
    return row(BAMBI, "cold", start, sample, note=note, **found)


def whole_fit() -> dict[str, Any]:
    """`fit_heritage` with its own settings, in a process that has compiled nothing yet."""
    begin = time.perf_counter()
    fit = fit_heritage(table(1), estimand="simulated", seed=1, cache=False)
    seconds, found = time.perf_counter() - begin, fit.draws.diagnostics
    note = f"{fit.draws.attempts} attempts, {fit.status}; {seconds:.0f} s in all"
    return row(
        "fit",
        "cold",
        fit.draws.compile_seconds,
        fit.draws.sample_seconds,
        rhat_max=found.rhat_max,
        ess_min=min(found.ess_bulk_min, found.ess_tail_min),
        divergences=found.divergences,
        note=note,
    )


def refits() -> dict[str, Any]:
    """Seconds of 200 refits after the compilation."""
    ticks = [time.perf_counter()]
    facts = model_facts(24, 8, np.random.default_rng(1))
    laid_out = design(simulate_heritage(facts, shares={}, n_prompts=25, seed=1).table, "simulated")
    simulator = sampled(laid_out, arrays(laid_out))
    calibrate(simulator, CALIBRATIONS, seed=1, cache=False, progress=lambda *_: ticks.append(time.perf_counter()))
    each = (ticks[-1] - ticks[1]) / (CALIBRATIONS - 1)
    return row("calibration", "warm", ticks[1] - ticks[0], each * REFITS, note=f"{each:.2f} s a refit")


def main() -> None:
    """Measure, print and write the rows of this interpreter beside those of others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bambi", type=Path, help="interpreter of an environment that has Bambi")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def add(step: Callable[[], dict[str, Any]]) -> None:
        rows.append(step())
        print(rows[-1], file=sys.stderr, flush=True)

    def add_all(*how: Any) -> None:
        for seed in SEEDS:
            add(partial(measure, *how, seed))
        add(partial(together, rows[-len(SEEDS) :]))

    add(whole_fit)
    add_all("nutpie", Settings().tune, "warm")
    ours = {r["note"]: r["ess_per_s"] for r in rows[1:]}
    add(refits)
    add_all("pymc", PYMC_TUNE, "cold")
    add_all("pymc", Settings().tune, "cold")
    if asked.bambi is not None:
        add(partial(formula, asked.bambi, SEEDS[0]))
        ours[str(rows[-1]["note"])] = next(iter(ours.values()))  # Bambi has the first data set
    rows = [{**r, "times": round(ours[r["note"]] / r["ess_per_s"], 1)} if r["note"] in ours else r for r in rows]
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "modelling.csv"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    kept = {BAMBI} if asked.bambi is None else set()
    before = list(csv.DictReader(text.splitlines()))
    others = [r for r in before if r["python"] != platform.python_version() or r["what"] in kept]
    everything = sorted([*others, *rows], key=lambda r: str(r["python"]))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(everything)
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(str(r.get(name, "")) for name in COLUMNS) + " |" for r in everything]
    shown = "\n".join(lines) + "\n"
    (RESULTS / "modelling.md").write_text(f"{(__doc__ or '').strip()}\n\n{shown}", encoding="utf-8")
    sys.stdout.write(shown)


if __name__ == "__main__":
    main()

"""Effective draws per second of the heritage model: nutpie against PyMC's own sampler, one run, side by side.

Data of the study's size and shape: 24 models in 8 labs, 25 prompts in 5 categories, Student-t, a scale per model.
`python benchmarks/modelling.py` pins OMP_NUM_THREADS to 1 and leaves the cache of draws unused. Ratios carry over to
other machines, seconds do not. PyMC compiles inside its call, so its seconds of sampling hold its
compilation too and the ratio of ESS per second is kinder to nutpie than sampling alone would be; other load on the
machine counts as well.
"""

from __future__ import annotations

import csv
import os
import platform
import sys
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["THERMOSTATS_CACHE"] = "off"

import numpy as np

from thermostats.modelling import sampling
from thermostats.modelling.draws import Settings
from thermostats.modelling.heritage import arrays, heritage_model
from thermostats.modelling.heritage_design import design
from thermostats.modelling.simulate import model_facts, simulate_heritage

RESULTS = Path(__file__).parent / "results"
COLUMNS = ("python", "pymc", "sampler", "compiled", "start_s", "sample_s", "cpu_s", "ess_min", "ess_per_s", "rhat_max",
           "divergences", "ratio")  # fmt: skip
SHARES = {"heritage": 0.6, "geometry": 0.15, "scale": 0.05}


def study(seed: int) -> dict[str, object]:
    """Arrays of a simulated study."""
    facts = model_facts(24, 8, np.random.default_rng(seed))
    return arrays(design(simulate_heritage(facts, shares=SHARES, seed=seed).table, "simulated"))


def measure(sampler: str, data: dict[str, object], compiled: str) -> dict[str, object]:
    """One fit of 1000 + 1000 draws in four chains."""
    cpu = time.process_time()
    draws = sampling.fit(heritage_model, data, seed=1, settings=Settings(sampler=sampler), retry=False, cache=False)
    cpu = time.process_time() - cpu
    found = draws.diagnostics
    smallest = min(found.ess_bulk_min, found.ess_tail_min)
    return {
        "python": platform.python_version(),
        "pymc": draws.versions["pymc"],
        "sampler": sampler,
        "compiled": compiled,
        "start_s": round(draws.compile_seconds, 1),
        "sample_s": round(draws.sample_seconds, 1),
        "cpu_s": round(cpu, 1),
        "ess_min": round(smallest),
        "ess_per_s": round(smallest / draws.sample_seconds, 1),
        "rhat_max": round(found.rhat_max, 4),
        "divergences": found.divergences,
    }


def main() -> None:
    """Measure, print and write the rows of this interpreter beside those of others."""
    data = study(1)
    rows = [measure("nutpie", data, "cold"), measure("nutpie", study(2), "warm"), measure("pymc", data, "cold")]
    own = float(str(rows[2]["ess_per_s"]))
    rows = [{**row, "ratio": round(float(str(row["ess_per_s"])) / own, 1)} for row in rows]
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "modelling.csv"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    others = [row for row in csv.DictReader(text.splitlines()) if row["python"] != platform.python_version()]
    everything = sorted([*others, *rows], key=lambda row: str(row["python"]))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(everything)
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(str(row[name]) for name in COLUMNS) + " |" for row in everything]
    table = "\n".join(lines) + "\n"
    (RESULTS / "modelling.md").write_text(f"{(__doc__ or '').strip()}\n\n{table}", encoding="utf-8")
    sys.stdout.write(table)


if __name__ == "__main__":
    main()

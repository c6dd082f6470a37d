"""The heritage model's posterior: the exact engine against NUTS on the same model, in CPU-seconds
of one process each.

Data of the study's size and shape: 24 models in 8 labs, 25 prompts. `exact` is `fit_heritage` as
users call it, with `checks` all checks on its draws, and with `refits` also fits without each unit
and under other priors. `nutpie` and `pymc` are the same model (lab effects of 10,000 degrees of
freedom, which are normal, but not for the exact engine) by nutpie and by PyMC's own sampler, four
chains of 1000 draws and a second attempt where their gate asks for one, compilation included;
`warm` is the same again in that process. `times` is CPU-seconds over those of the exact fit, or
over those of the exact fit with checks. Below them 200 fits of new outcomes, and 2,000 models of
100 labs whose errors are not known. With `--bambi PYTHON`, the interpreter of an environment that
has Bambi, also a formula model with the same groups (without it that row stays as it was). Ratios
carry over to other machines, seconds do not. Imports are not counted.
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
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from thermostats.modelling.draws import Settings, list_versions, measure_convergence
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.heritage.simulated import simulate_facts, simulate_heritage

RESULTS = Path(__file__).parent / "results"
COLUMNS = ("python", "pymc", "what", "cpu_s", "wall_s", "ess_min", "times", "times_checks", "note")
SHARES = {"heritage": 0.6, "geometry": 0.15, "scale": 0.05}
NEARLY_NORMAL = 1e4
"""Degrees of freedom of lab effects."""
REFITS = 200
BAMBI = "Bambi's formula, nutpie"
ALONE = ("exact", "nutpie", "pymc", "refits", "large")
"""What is measured in a process of its own."""


def table(seed: int, n_models: int = 24, n_labs: int = 8, n_prompts: int = 25) -> Any:
    """Gains of a simulated study."""
    facts = simulate_facts(n_models, n_labs, np.random.default_rng(seed))
    return simulate_heritage(facts, shares=SHARES, seed=seed, n_prompts=n_prompts).table


def clocked(what: str, work: Callable[[], Fit | None], note: str = "") -> dict[str, Any]:
    """CPU-seconds and seconds of some work, and the smallest effective number of draws of what a
    fit reports."""
    cpu, wall = time.process_time(), time.perf_counter()
    fit = work()
    row = {
        "what": what,
        "cpu_s": round(time.process_time() - cpu, 3),
        "wall_s": round(time.perf_counter() - wall, 3),
    }
    if fit is None:
        return row | {"note": note}
    draws = np.stack([fit.reported[name] for name in fit.reported], axis=2)
    effective = (
        fit.draws.effective if fit.draws.exact else min(measure_convergence(draws)["ess_bulk"])
    )
    attempts = "" if fit.draws.exact else f"{fit.draws.attempts} attempts, "
    order = fit.probabilities["heritage > geometry > scale"]
    return row | {
        "ess_min": round(float(effective)),
        "note": f"{note}{attempts}{fit.status}, P(order) {order:.3f}",
    }


def measured(what: str) -> list[dict[str, Any]]:
    """Rows of one kind; the first fit of a process pays for imports that are made late, so one goes
    before."""
    rows = table(1)
    if what == "exact":
        fit = fit_heritage(rows, estimand="simulated", seed=2)
        fit.check(refits=False)
        return [
            clocked("exact", lambda: fit_heritage(rows, estimand="simulated")),
            clocked(
                "exact, with checks",
                lambda: _checked(fit_heritage(rows, estimand="simulated"), refits=False),
            ),
            clocked(
                "exact, with checks and refits",
                lambda: _checked(fit_heritage(rows, estimand="simulated")),
            ),
        ]
    if what in {"nutpie", "pymc"}:
        settings = Settings(sampler=what, tune=600 if what == "nutpie" else 1000)
        list_versions()

        def sampled() -> Fit:
            return fit_heritage(rows, estimand="simulated", lab_df=NEARLY_NORMAL, settings=settings)

        return [
            clocked(f"{what}, compilation included", sampled),
            clocked(f"{what}, warm", sampled),
        ]
    if what == "large":
        large = table(1, 2000, 100, 1)
        return [
            clocked(
                "2,000 models of 100 labs, exact", lambda: fit_heritage(large, estimand="simulated")
            )
        ]
    fit, rng = fit_heritage(rows, estimand="simulated"), np.random.default_rng(1)
    outcomes = fit.model.draw_prior(REFITS, rng)["y"]

    def again() -> None:
        for y in outcomes:
            replace(fit.model, y=y).sample(seed=1)

    return [clocked(f"{REFITS} refits, exact", again)]


def _checked(fit: Fit, *, refits: bool = True) -> Fit:
    fit.check(refits=refits)
    return fit


def formula(python: Path) -> dict[str, Any]:
    """Bambi in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gains.csv"
        table(1).to_csv(path, index=False)
        command = [
            str(python),
            "-W",
            "ignore",
            str(Path(__file__).with_name("formula.py")),
            str(path),
        ]
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": ""},
        )
    if ran.returncode:
        return {
            "what": BAMBI,
            "note": (ran.stderr.strip().splitlines() or ["no message"])[-1][:200],
        }
    times = json.loads(ran.stdout.splitlines()[-1])
    wall = round(times["start_s"] + times["sample_s"], 1)
    return {
        "what": BAMBI,
        "wall_s": wall,
        "ess_min": round(times["ess_min"]),
        "note": times["version"],
    }


def main() -> None:
    """Measure every kind in a process of its own, print, and write the rows of this interpreter
    beside others'."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bambi", type=Path, help="interpreter of an environment that has Bambi")
    parser.add_argument("--alone", choices=ALONE, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        print(json.dumps(measured(arguments.alone)))
        return
    rows: list[dict[str, Any]] = []
    for what in ALONE:
        command = [sys.executable, __file__, "--alone", what]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows += json.loads(ran.stdout.splitlines()[-1])
        print(rows[-1], file=sys.stderr, flush=True)
    if arguments.bambi is not None:
        rows.append(formula(arguments.bambi))
    exact, checks = rows[0]["cpu_s"], rows[1]["cpu_s"]
    for row in rows:
        if row["what"].startswith(("nutpie", "pymc")):
            row |= {
                "times": round(row["cpu_s"] / exact),
                "times_checks": round(row["cpu_s"] / checks, 1),
            }
    write(
        [
            {"python": platform.python_version(), "pymc": list_versions()["pymc"], **row}
            for row in rows
        ],
        arguments.bambi,
    )


def write(rows: list[dict[str, Any]], bambi: Path | None) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "modelling.csv"
    before = (
        list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        if path.is_file()
        else []
    )
    stays = {BAMBI} if bambi is None else set()
    others = [r for r in before if r["python"] != platform.python_version() or r["what"] in stays]
    every = sorted([*others, *rows], key=lambda row: str(row["python"]))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(every)
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(str(row.get(name, "")) for name in COLUMNS) + " |" for row in every]
    text = "\n".join(lines) + "\n"
    (RESULTS / "modelling.md").write_text(f"{(__doc__ or '').strip()}\n\n{text}", encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()

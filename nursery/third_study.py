"""The nursery's third study before its training: candidates compared, rules tried in simulated
worlds, predictions.

Writes `design.toml`, `design.sha256`, `candidates.csv` and `predictions.csv` into
`data/nursery/third`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from nursery import designs
from nursery.component_worlds import logs
from nursery.designs import Design
from nursery.recipes import CORPORA, drawn
from nursery.second_study import at_every_shape, ends
from thermostats.studies.delia2026.published_gains import LEVEL
from thermostats.studies.nursery import load_shipped_table
from thermostats.studies.nursery.crossed import (
    THRESHOLDS,
    Array,
    CrossedWorld,
    Interval,
    encode_shapes,
    estimate_ratios,
    fit_lines,
    list_worlds,
)
from thermostats.tables.folders import write_atomically

OUT = Path(__file__).resolve().parents[1] / "data" / "nursery" / "third"
SEED = 31
CONTEXT = 64
SHARES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
BUDGET = 16.0
"""Core-hours, measuring among them."""
SIMULATIONS = 400
CANDIDATES = {
    "12 recipes, two depths": (12, "L=4,15 rho=0.125,2 d=32,80"),
    "16 recipes, two depths": (16, "L=4,15 rho=0.125,2 d=32,80"),
    "20 recipes, two depths": (20, "L=4,15 rho=0.125,2 d=32,80"),
    "24 recipes, two depths": (24, "L=4,15 rho=0.125,2 d=32,80"),
    "14 recipes, three depths": (14, "L=4,8,16 rho=0.125,2 d=32,80"),
    "8 recipes, wide": (8, "L=4,16 rho=0.125,2 d=32,80,200"),
}
"""Recipes, each in all corpora at every shape. With widths 2.5 apart, depths of 3.75 = 2.5^√2 make
log L/d and log N uncorrelated: size over 23 times at the same mean shape."""


CHOSEN = "20 recipes, two depths"


def verdict(interval: Interval, threshold: float) -> str:
    """What a rule says."""
    return (
        "supported"
        if interval.lower > threshold
        else "not_supported"
        if interval.upper < threshold
        else "open"
    )


def rates(
    world: CrossedWorld, recipes: int, x: Array, simulations: int, seed: int
) -> list[dict[str, object]]:
    """How often each rule says what in studies of a world; one row a rule."""
    by_rule: dict[str, list[str]] = {name: [] for name in THRESHOLDS}
    for number in range(simulations):
        y = world.simulate_study(recipes, x, np.random.default_rng([SEED, seed, number]))
        for name, interval in estimate_ratios(y, x).items():
            by_rule[name].append(verdict(interval, THRESHOLDS[name]))
    return [
        {
            "world": world.name,
            "alike": world.alike,
            "rule": name,
            "holds": world.truth[name],
            "simulations": simulations,
        }
        | {word: verdicts.count(word) / simulations for word in ("supported", "not_supported")}
        for name, verdicts in by_rule.items()
    ]


def design_of(name: str, recipes: int, grid: str) -> Design:
    """A design with every recipe in every corpus."""
    taken = [
        replace(recipe, name=f"{recipe.name}-{corpus}", corpus=corpus)
        for recipe in drawn(recipes, SEED, CONTEXT)
        for corpus in CORPORA
    ]
    shapes = designs.parse_grid([grid])
    return Design(
        name,
        SEED,
        CONTEXT,
        BUDGET,
        16,
        shapes,
        tuple(taken),
        (),
        SHARES,
        "corpora",
        widest=64,
        bases=20,
    )


def candidates() -> pd.DataFrame:
    """Core-hours of training, and how often each rule says what in worlds; one row a candidate,
    world and rule."""
    rows = []
    for name, (recipes, grid) in CANDIDATES.items():
        design = design_of("candidate", recipes, grid)
        x = logs(design.grid)
        facts = {
            "candidate": name,
            "models": len(design.recipes) * len(x),
            "core_hours": round(design.hours, 1),
        }
        for place, world in enumerate(list_worlds()):
            rows += [facts | row for row in rates(world, recipes, x, SIMULATIONS, place)]
        print(facts, flush=True)
    return pd.DataFrame(rows)


def predictions() -> pd.DataFrame:
    """What the second study says of every corpus that it has, with 95% intervals."""
    models = ends(load_shipped_table("second/models"), load_shipped_table("second/gains"))
    rows = []
    for corpus, of_corpus in models.groupby("corpus"):
        y, x = at_every_shape(of_corpus)
        for name, interval in estimate_ratios(y[None], x).items():
            if np.isfinite(interval.estimate):
                rows.append({"corpus": corpus, "quantity": name} | vars(interval))
        recipes = len(y)
        slopes = fit_lines(y[None], encode_shapes(x))[0][0, :, 1:]
        half = stats.t.ppf((1 + LEVEL) / 2, recipes - 1) * stats.sem(slopes)
        for i, name in enumerate(("log L/d", "log rho", "log N")):
            mean = slopes[:, i].mean()
            rows.append(
                {"corpus": corpus, "quantity": f"slope on {name}"}
                | {"estimate": mean, "lower": mean - half[i], "upper": mean + half[i]}
            )
    return pd.DataFrame(rows).round(4)


if __name__ == "__main__":
    chosen = design_of("third", *CANDIDATES[CHOSEN])
    chosen.check()
    designs.write(chosen, OUT / "design.toml")
    write_atomically(OUT / "design.sha256", (designs.digest(OUT / "design.toml") + "\n").encode())
    for name, made in (("predictions", predictions), ("candidates", candidates)):
        made().round(4).to_csv(OUT / f"{name}.csv", index=False, lineterminator="\n")
        print(name, flush=True)

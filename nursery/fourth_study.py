"""The nursery's fourth study before its training: models to be steered, twelve recipes of the
third.

Writes `design.toml` and `design.sha256` into `data/nursery/fourth`; `protocol.md` there says why.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from nursery import designs
from nursery.designs import Design
from nursery.recipes import drawn
from nursery.third_study import SEED as THIRD_SEED
from thermostats.tables.folders import write_atomically

OUT = Path(__file__).resolve().parents[1] / "data" / "nursery" / "fourth"
SEED = 43
CONTEXT = 64
SHARES = (0.0, 1.0)
BUDGET = 0.5
"""Core-hours of training."""
SHAPE = "L=4 rho=0.125 d=32"
CORPORA = ("english", "code")
RECIPES = (
    *("c002", "c003", "c004", "c005", "c007", "c009"),
    *("c012", "c013", "c014", "c015", "c016", "c018"),
)
"""Of the third study; c003, c004, c013 and c018 dampened there at this shape in one gain or
more."""
SECOND_SEEDS = 8
"""Recipes trained with a second seed in both corpora, drawn at random."""
TUNED = 24
"""Models that are tuned in every kind: all that learned, first seeds."""


def draw_second_seeds() -> tuple[str, ...]:
    """Recipes that have a second seed, in their order."""
    rng = np.random.default_rng([SEED, 3])
    places = sorted(rng.choice(len(RECIPES), size=SECOND_SEEDS, replace=False).tolist())
    return tuple(RECIPES[place] for place in places)


def build_design() -> Design:
    """Twelve recipes in English and code at one shape, eight of them with a second seed."""
    recipes = {recipe.name: recipe for recipe in drawn(20, THIRD_SEED, CONTEXT)}
    crossed = [(name, corpus) for name in RECIPES for corpus in CORPORA]
    taken = tuple(
        replace(recipes[name], name=f"{name}-{corpus}", corpus=corpus) for name, corpus in crossed
    )
    twice = set(draw_second_seeds())
    again = tuple(f"{name}-{corpus}" for name, corpus in crossed if name in twice)
    return Design(
        name="fourth",
        seed=SEED,
        context=CONTEXT,
        core_hours=BUDGET,
        repeats=0,
        grid=designs.parse_grid([SHAPE]),
        recipes=taken,
        shares=SHARES,
        prompts=designs.OF_CORPORA,
        bases=TUNED,
        again=again,
    )


if __name__ == "__main__":
    design = build_design()
    design.check()
    designs.write(design, OUT / "design.toml")
    digest = designs.digest(OUT / "design.toml")
    write_atomically(OUT / "design.sha256", f"{digest}\n".encode())

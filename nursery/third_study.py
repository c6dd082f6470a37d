"""The nursery's third study before its training: candidates compared, rules tried in simulated worlds, predictions.

Writes `design.toml`, `design.sha256`, `candidates.csv` and `predictions.csv` into `data/nursery/third`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from nursery import designs
from nursery.crossed_study import AT_SIZE, COVARIANCE, LEVEL, SIZE, Array, Interval, coded, lines, ratios
from nursery.designs import Design
from nursery.recipes import CORPORA, drawn
from thermostats.claims.evidence import Evidence
from thermostats.studies.nursery.second import ends, whole
from thermostats.tables.atomic import write_atomically

OUT = Path(__file__).resolve().parents[1] / "data" / "nursery" / "third"
SEED, CONTEXT, SHARES = 31, 64, (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
BUDGET = 16.0
"""Core-hours, measuring among them."""
SIMULATIONS = 400
THRESHOLDS = {"recipe / architecture": 1.0, "shape / size": 1.0, "alike": 0.5}
"""Supported where an interval lies above, not supported where it lies below."""
CANDIDATES = {
    "12 recipes, two depths": (12, "L=4,15 rho=0.125,2 d=32,80"),
    "16 recipes, two depths": (16, "L=4,15 rho=0.125,2 d=32,80"),
    "20 recipes, two depths": (20, "L=4,15 rho=0.125,2 d=32,80"),
    "24 recipes, two depths": (24, "L=4,15 rho=0.125,2 d=32,80"),
    "14 recipes, three depths": (14, "L=4,8,16 rho=0.125,2 d=32,80"),
    "8 recipes, wide": (8, "L=4,16 rho=0.125,2 d=32,80,200"),
}
"""Recipes, each in all corpora at every shape. With widths 2.5 apart, depths of 3.75 = 2.5^√2 make log L/d and log N
uncorrelated: size over 23 times at the same mean shape."""


CHOSEN = "20 recipes, two depths"


def logs(grid: Mapping[str, Sequence[float]]) -> Array:
    """Logs of L, ρ and d of every shape of a grid, (shapes, 3)."""
    return np.log(np.array(list(itertools.product(*(grid[key] for key in designs.GRID))), dtype=np.float64))


@dataclass(frozen=True)
class World:
    """True standard deviations in every corpus, over the published models, as the second study found them in two."""

    name: str
    recipe: tuple[float, ...]
    shape: tuple[float, ...]
    size: tuple[float, ...]
    alike: float
    """Share of the variance between recipes that is the same in all corpora."""
    slopes: float = 0.033
    """Of recipe × depth."""
    residual: float = 0.05
    spread: float = 0.7
    """SD of the log of a recipe's errors."""
    t: float = np.inf
    """Degrees of freedom of what recipes do; infinite: normal."""

    @property
    def truth(self) -> dict[str, bool]:
        """Whether each claim holds."""
        recipe, shape, size = (float(np.mean(np.square(part))) for part in (self.recipe, self.shape, self.size))
        architecture = np.mean([slope @ COVARIANCE @ slope for slope in self.betas()])
        pairs = list(itertools.combinations(self.recipe, 2))
        return {
            "recipe / architecture": recipe > architecture,
            "shape / size": shape > size,
            "alike": self.alike * float(np.mean([a * b for a, b in pairs])) > THRESHOLDS["alike"] * recipe,
        }

    def betas(self) -> Array:
        """Slopes on (log L/d, log ρ, log N) in every corpus, depth against density as −5 to 1."""
        direction = np.array([-5.0, 1.0])
        direction /= np.sqrt(direction @ AT_SIZE @ direction)
        size = np.array(self.size) / np.sqrt(COVARIANCE[SIZE, SIZE])
        return np.column_stack([np.outer(self.shape, direction), size])

    def study(self, recipes: int, x: Array, rng: np.random.Generator) -> Array:
        """Log gains (corpora, recipes, shapes)."""
        z, corpora = coded(x), len(self.recipe)

        def effects(*shape: int) -> Array:
            if np.isinf(self.t):
                return rng.normal(size=shape)
            return np.asarray(rng.standard_t(self.t, size=shape) / np.sqrt(self.t / (self.t - 2)))

        common, apart = effects(1, recipes), effects(corpora, recipes)
        recipe = np.array(self.recipe)[:, None] * (np.sqrt(self.alike) * common + np.sqrt(1 - self.alike) * apart)
        tilt = self.slopes / np.sqrt(COVARIANCE[0, 0]) * rng.normal(size=(corpora, recipes))
        errors = self.residual * np.exp(rng.normal(scale=self.spread, size=recipes) - self.spread**2)
        level = rng.normal(scale=0.09, size=(corpora, 1, 1))
        lines = (self.betas() @ z.T)[:, None] + tilt[..., None] * z[:, 0]
        left = errors[:, None] * rng.normal(size=(corpora, recipes, len(z)))
        return np.asarray(level + recipe[..., None] + lines + left)


ENGLISH, SYNTHETIC = (0.035, 0.012, 0.017), (0.078, 0.082, 0.010)
"""Recipe, shape and size, as found within the corpora of the second study."""


def worlds() -> list[World]:
    """As found, code and shuffled English like either corpus; large effects; and the boundary of the claims."""
    like = {
        "all as English": [ENGLISH] * 4,
        "two as English, two as the synthetic": [ENGLISH, SYNTHETIC, SYNTHETIC, ENGLISH],
        "all as the synthetic": [SYNTHETIC] * 4,
        "recipe large": [(0.08, 0.03, 0.02)] * 4,
        "size large": [(0.05, 0.02, 0.06)] * 4,
    }
    made = []
    for name, parts in like.items():
        recipe, shape, size = zip(*parts, strict=True)
        made += [World(name, recipe, shape, size, alike) for alike in (0.2, 0.8)]
    edge = even(World("at the edge", (0.05,) * 4, (0.03,) * 4, (0.03,) * 4, alike=0.5))
    return [
        *made,
        edge,
        replace(edge, name="at the edge, heavy tails", t=4),
        replace(edge, name="at the edge, large errors", residual=0.1),
        replace(edge, name="at the edge, recipe × depth three times as large", slopes=0.1),
    ]


def even(world: World) -> World:
    """The world with recipes that do as much as architecture does."""
    architecture = [float(np.sqrt(slope @ COVARIANCE @ slope)) for slope in world.betas()]
    return replace(world, recipe=tuple(architecture))


def verdict(interval: Interval, threshold: float) -> str:
    """What a rule says."""
    return "supported" if interval.lower > threshold else "not_supported" if interval.upper < threshold else "open"


def rates(world: World, recipes: int, x: Array, simulations: int, seed: int) -> list[dict[str, object]]:
    """How often each rule says what in studies of a world; one row a rule."""
    by_rule: dict[str, list[str]] = {name: [] for name in THRESHOLDS}
    for number in range(simulations):
        y = world.study(recipes, x, np.random.default_rng([SEED, seed, number]))
        for name, interval in ratios(y, x).items():
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
    return Design(name, SEED, CONTEXT, BUDGET, 16, shapes, tuple(taken), (), SHARES, "corpora", widest=64, bases=20)


def candidates() -> pd.DataFrame:
    """Core-hours of training, and how often each rule says what in worlds; one row a candidate, world and rule."""
    rows = []
    for name, (recipes, grid) in CANDIDATES.items():
        design = design_of("candidate", recipes, grid)
        x = logs(design.grid)
        facts = {"candidate": name, "models": len(design.recipes) * len(x), "core_hours": round(design.hours, 1)}
        for place, world in enumerate(worlds()):
            rows += [facts | row for row in rates(world, recipes, x, SIMULATIONS, place)]
        print(facts, flush=True)
    return pd.DataFrame(rows)


def predictions() -> pd.DataFrame:
    """What the second study says of every corpus that it has, with 95% intervals."""
    models, rows = ends(Evidence(OUT.parents[1]).named("nursery")), []
    for corpus, of_corpus in models.groupby("corpus"):
        y, x = whole(of_corpus)
        for name, interval in ratios(y[None], x).items():
            if np.isfinite(interval.estimate):
                rows.append({"corpus": corpus, "quantity": name} | vars(interval))
        recipes = len(y)
        slopes = lines(y[None], coded(x))[0][0, :, 1:]
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

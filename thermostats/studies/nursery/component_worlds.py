"""Studies of known components, to judge the rules of N01 by, and how many recipes an answer would take."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from thermostats.claims import worlds
from thermostats.claims.noise import ERRORS, Errors, Noise
from thermostats.claims.result import Result
from thermostats.claims.rule import Above
from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, SURE
from thermostats.studies.nursery.components import (
    DEPTH,
    GEOMETRY,
    ORDERED,
    OVER,
    REFERENCE,
    SCALE,
    Array,
    Table,
    components,
    ratios,
)

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ComponentWorld:
    """True components of a simulated study, over the reference."""

    name: str
    recipe: float
    """Within a corpus."""
    geometry: float
    scale: float
    corpus: float = 0.0
    times: float = 1.0
    """How many times as large all others are in every other corpus; their mean squares are as named."""
    depth: float = 0.033
    residual: float = 0.05
    seed: float = 0.015
    t: float = np.inf
    """Degrees of freedom of the recipes' effects; infinite: normal."""

    @property
    def left_over(self) -> float:
        """Standard deviation of what neither recipe nor shape makes."""
        return float(np.hypot(self.residual, self.seed))

    @property
    def holds(self) -> bool:
        """Whether the order is as claimed."""
        return self.recipe > self.geometry > self.scale

    @property
    def words(self) -> str:
        """Its components, in plain words."""
        text = f"SDs of recipe, geometry and scale of {self.recipe:g}, {self.geometry:g} and {self.scale:g}"
        text += f", of corpus of {self.corpus:g}" if self.corpus else ""
        text += f", {self.times:g} times as large in one corpus as in the other" if self.times != 1 else ""
        return text + ("" if np.isinf(self.t) else f", recipes with the tails of t with {self.t:g} degrees of freedom")

    def factors(self) -> Array:
        """By which everything but the corpus is multiplied in the two corpora."""
        ratio = np.array([1.0, self.times])
        return np.asarray(ratio / np.sqrt(np.square(ratio).mean()))


ALIKE = ComponentWorld("all alike", 0.04, 0.04, 0.04)
AS_FOUND = {"corpus": 0.09, "times": 2.5, "residual": 0.09}
"""What else the second study has: its corpora lie 0.18 apart, and all is larger in the synthetic one."""
WORLDS = (
    ComponentWorld("as claimed", 0.053, 0.042, 0.019),
    ComponentWorld("as claimed, corpora as found", 0.053, 0.042, 0.019, **AS_FOUND),
    ComponentWorld("far apart", 0.15, 0.05, 0.015),
    ALIKE,
    replace(ALIKE, name="all alike, heavy tails", t=4),
    replace(ALIKE, name="all alike, corpora as found", **AS_FOUND),
    ComponentWorld("recipe = geometry, no scale", 0.05, 0.05, 0.005),
    ComponentWorld("recipe = geometry, no scale, corpora as found", 0.05, 0.05, 0.005, **AS_FOUND),
    ComponentWorld("geometry = scale, strong recipe", 0.1, 0.02, 0.02),
    ComponentWorld("geometry = scale, strong recipe, corpora as found", 0.1, 0.02, 0.02, **AS_FOUND),
    ComponentWorld("sizes as found", 0.047, 0.058, 0.016, **AS_FOUND),
    ComponentWorld("reversed", 0.019, 0.042, 0.053),
    ComponentWorld("shape alone", 0.0, 0.042, 0.019),
    ComponentWorld("recipe alone", 0.053, 0.0, 0.0),
)
"""As claimed: what the first study estimated, taken as over the reference. At the edges two of the three are alike."""
KINDS = ("t3", "lognormal", "heteroscedastic labs")
"""Errors other than normal ones: long tails, skew, and as large as the recipe has them."""
CLAIMED, FOUND = WORLDS[0], WORLDS[10]


def means(world: ComponentWorld, recipe: Codes, corpus: Codes, x: Array, rng: np.random.Generator) -> Array:
    """Log gains (n,) of a world without what is left over, of models of `recipe` and `corpus` (0, 1, …) at `x` (n, 3).

    Geometry acts through depth and density as the first study found, about −5 to 1 in slope.
    """
    direction = np.array([-5.0, 1.0])
    direction = direction / np.sqrt(direction @ REFERENCE[GEOMETRY, GEOMETRY] @ direction)
    slopes = np.array([*world.geometry * direction, -world.scale / np.sqrt(REFERENCE[SCALE, SCALE])])
    recipes, centred = int(recipe.max()) + 1, x - x.mean(axis=0)
    effects = rng.normal(size=recipes)
    if np.isfinite(world.t):
        effects = rng.standard_t(world.t, size=recipes) / np.sqrt(world.t / (world.t - 2))
    tilt = rng.normal(size=recipes) * world.depth / np.sqrt(REFERENCE[DEPTH, DEPTH])
    made = world.recipe * effects[recipe] + centred @ slopes + tilt[recipe] * centred[:, DEPTH]
    return np.asarray(made * world.factors()[corpus % 2] + world.corpus * np.array([-1.0, 1.0])[corpus % 2])


def simulated(world: ComponentWorld, recipes: Sequence[int], x: Array, rng: np.random.Generator) -> list[Table]:
    """Tables of a world, so many recipes of either corpus, errors as large as the recipe has them (SPREAD)."""
    corpus, count = np.repeat(np.arange(len(recipes)), recipes), sum(recipes)
    shape = (count, len(x))
    made = means(world, np.repeat(np.arange(count), len(x)), np.repeat(corpus, len(x)), np.tile(x, (count, 1)), rng)
    size = world.left_over * world.factors()[corpus % 2] * np.exp(rng.normal(scale=SPREAD, size=count) - SPREAD**2)
    y = made.reshape(shape) + size[:, None] * rng.normal(size=shape)
    return [(y[corpus == place], x) for place in range(len(recipes))]


SPREAD = 0.7
"""SD of the log of a recipe's errors, as in the second study."""


def logs(grid: Mapping[str, Sequence[float]]) -> Array:
    """Logs of depth, head density and width of every shape of a grid, (shapes, 3)."""
    return np.log(np.array(list(itertools.product(grid["L"], grid["rho"], grid["d"])), dtype=np.float64))


def operating(recipes: Sequence[int], x: Array, *, simulations: int = 400) -> list[dict[str, float | str]]:
    """How often the rules decide what in simulated studies with so many recipes of either corpus: one row per world.

    Columns: world, simulations, supported, not_supported (by the intervals of both ratios), p_order (share with
    P(order) ≥ 0.95), covered (share of the intervals of recipe over geometry that hold the true ratio, where it is
    neither 0 nor ∞).
    """
    return [rates(world, recipes, x, simulations=simulations, seed=place) for place, world in enumerate(WORLDS)]


def rates(
    world: ComponentWorld, recipes: Sequence[int], x: Array, *, simulations: int, seed: int = 0
) -> dict[str, float | str]:
    """One row of `operating`."""
    true = world.recipe / world.geometry if world.geometry else np.inf
    verdicts, in_order, inside = [], [], []
    for number in range(simulations):
        rng = np.random.default_rng([1, seed, number])
        posterior = components(simulated(world, recipes, x, rng), seed=number)
        result = Result(quantities=ratios(posterior))
        verdicts.append(ORDERED.verdict(result))
        in_order.append(posterior.in_order >= SURE)
        inside.append(Above(OVER, true).verdict(result) == OPEN)
    return {
        "world": world.name,
        "simulations": simulations,
        "supported": verdicts.count(SUPPORTED) / simulations,
        "not_supported": verdicts.count(AGAINST) / simulations,
        "p_order": float(np.mean(in_order)),
        "covered": float(np.mean(inside)) if 0 < true < np.inf else np.nan,
    }


def worlds_of_components() -> tuple[worlds.World, ...]:
    """The order as claimed, and worlds without it; one of either with every one of KINDS."""
    made = [(world, world.name, "normal") for world in WORLDS]
    made += [(world, f"{world.name}, {kind}", kind) for world in (CLAIMED, ALIKE) for kind in KINDS]
    return tuple(_tried(world, world.holds, name, kind, name == CLAIMED.name) for world, name, kind in made)


def _tried(world: ComponentWorld, holds: bool, name: str, kind: str, declared: bool = False) -> worlds.World:
    words = f"{world.words}, errors of SD {world.residual:g}: {ERRORS[kind]}"
    return worlds.World(name, words, holds, partial(_changed, world), Errors(kind), declared)


BOUNDS = {"least": (0.1, 0.9), "residual": (0.02, 0.12), "depth": (0.0, 0.12), "tails": (0.0, 0.3), "times": (1.0, 4.0)}
"""What is smaller than the two that are alike (or, where geometry is scale, these two over recipe), errors, recipe ×
depth, 1/degrees of freedom of recipes, how many times as large all is in one corpus."""


def searches_at_the_edge(*edges: str) -> tuple[worlds.Search, ...]:
    """Where a rule is looked at hardest: where two of what it compares are alike, on both sides of its claim."""
    return tuple(
        worlds.Search(
            f"worst, {side}",
            holds,
            partial(_at_the_edge, edges[0], holds),
            BOUNDS,
            ("normal", *KINDS),
            worlds.SPARE,
            edges if len(edges) > 1 else (),
        )
        for side, holds in (("not held at the boundary", False), ("held at the boundary", True))
    )


def _at_the_edge(
    first: str,
    holds: bool,
    *,
    kind: str,
    least: float,
    residual: float,
    depth: float,
    tails: float,
    times: float,
    like: str = "",
) -> worlds.World:
    corpus = 0.05 if (edge := like or first) == "corpus = geometry" else AS_FOUND["corpus"]
    recipe, geometry, scale = (
        (0.1, 0.1 * least, 0.1 * least) if edge == "geometry = scale" else (0.05, 0.05, 0.05 * least)
    )
    t = 1 / tails if tails else np.inf
    world = ComponentWorld(edge, recipe, geometry, scale, corpus, times, depth, residual, t=t)
    made = _tried(world, holds, "", kind)
    return replace(made, words=f"{edge}: {made.words}, recipe × depth {depth:.2g}")


BETWEEN_CORPORA = (
    ComponentWorld("as claimed", 0.053, 0.042, 0.019, corpus=0.084),
    ComponentWorld("as claimed, all larger in one", 0.053, 0.042, 0.019, **{**AS_FOUND, "corpus": 0.084}),
    ComponentWorld("corpus = geometry", 0.05, 0.05, 0.02, corpus=0.05),
    ComponentWorld("corpus = geometry, all larger in one", 0.05, 0.058, 0.016, **{**AS_FOUND, "corpus": 0.058}),
    ComponentWorld("strong recipe", 0.1, 0.05, 0.02, corpus=0.05),
    ComponentWorld("shape alone", 0.0, 0.05, 0.02),
)
"""As claimed: twice what shape does."""


def worlds_of_corpus() -> tuple[worlds.World, ...]:
    """Corpora twice as far apart as shape moves the gain, and as far or not at all."""
    null, first = BETWEEN_CORPORA[2], BETWEEN_CORPORA[0].name
    made = [(world, world.name, "normal") for world in BETWEEN_CORPORA]
    made += [(null, f"{null.name}, {kind}", kind) for kind in KINDS]
    return tuple(_tried(world, world.corpus > world.geometry, name, kind, name == first) for world, name, kind in made)


def _changed(world: ComponentWorld, rows: pd.DataFrame, noise: Noise, rng: np.random.Generator) -> pd.DataFrame:
    x = rows[["log_L", "log_rho", "log_d"]].to_numpy(np.float64)
    corpus = pd.factorize(rows["corpus"], sort=True)[0]
    made = means(world, pd.factorize(rows["recipe"])[0], corpus, x, rng)
    return rows.assign(log_gain=made + world.left_over * world.factors()[corpus % 2] * noise(rows))

"""Studies of known components: what the rules of the second study decide in them, and how many
recipes that takes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nursery.components import (
    DEPTH,
    GEOMETRY,
    ORDERED,
    OVER,
    SCALE,
    Array,
    Table,
    components,
    ratios,
)
from thermostats.claims.result import AGAINST, OPEN, SUPPORTED, SURE, Result
from thermostats.claims.rule import Above
from thermostats.studies.nursery.crossed import REFERENCE

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
    """How many times as large all others are in every other corpus; their mean squares are as
    named."""
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
        text = (
            f"SDs of recipe, geometry and scale of {self.recipe:g}, {self.geometry:g} and "
            f"{self.scale:g}"
        )
        text += f", of corpus of {self.corpus:g}" if self.corpus else ""
        text += (
            f", {self.times:g} times as large in one corpus as in the other"
            if self.times != 1
            else ""
        )
        return text + (
            ""
            if np.isinf(self.t)
            else f", recipes with the tails of t with {self.t:g} degrees of freedom"
        )

    def factors(self) -> Array:
        """By which everything but the corpus is multiplied in the two corpora."""
        ratio = np.array([1.0, self.times])
        return np.asarray(ratio / np.sqrt(np.square(ratio).mean()))


ALIKE = ComponentWorld("all alike", 0.04, 0.04, 0.04)
AS_FOUND = {"corpus": 0.09, "times": 2.5, "residual": 0.09}
"""What else the second study has: its corpora lie 0.18 apart, and all is larger in the synthetic
one."""
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
    ComponentWorld(
        "geometry = scale, strong recipe, corpora as found", 0.1, 0.02, 0.02, **AS_FOUND
    ),
    ComponentWorld("sizes as found", 0.047, 0.058, 0.016, **AS_FOUND),
    ComponentWorld("reversed", 0.019, 0.042, 0.053),
    ComponentWorld("shape alone", 0.0, 0.042, 0.019),
    ComponentWorld("recipe alone", 0.053, 0.0, 0.0),
)
"""As claimed: what the first study estimated, taken as over the reference. At the edges two of the
three are alike."""
CLAIMED = WORLDS[0]
FOUND = WORLDS[10]


def means(
    world: ComponentWorld, recipe: Codes, corpus: Codes, x: Array, rng: np.random.Generator
) -> Array:
    """Log gains (n,) of a world without what is left over, of models of `recipe` and `corpus` (0,
    1, …) at `x` (n, 3).

    Geometry acts through depth and density as the first study found, about −5 to 1 in slope.
    """
    direction = np.array([-5.0, 1.0])
    direction = direction / np.sqrt(direction @ REFERENCE[GEOMETRY, GEOMETRY] @ direction)
    slopes = np.array(
        [*world.geometry * direction, -world.scale / np.sqrt(REFERENCE[SCALE, SCALE])]
    )
    recipes = int(recipe.max()) + 1
    centred = x - x.mean(axis=0)
    effects = rng.normal(size=recipes)
    if np.isfinite(world.t):
        effects = rng.standard_t(world.t, size=recipes) / np.sqrt(world.t / (world.t - 2))
    tilt = rng.normal(size=recipes) * world.depth / np.sqrt(REFERENCE[DEPTH, DEPTH])
    made = world.recipe * effects[recipe] + centred @ slopes + tilt[recipe] * centred[:, DEPTH]
    return np.asarray(
        made * world.factors()[corpus % 2] + world.corpus * np.array([-1.0, 1.0])[corpus % 2]
    )


def simulated(
    world: ComponentWorld, recipes: Sequence[int], x: Array, rng: np.random.Generator
) -> list[Table]:
    """Tables of a world, so many recipes of either corpus, errors as large as the recipe has them
    (SPREAD)."""
    corpus = np.repeat(np.arange(len(recipes)), recipes)
    count = sum(recipes)
    shape = (count, len(x))
    made = means(
        world,
        np.repeat(np.arange(count), len(x)),
        np.repeat(corpus, len(x)),
        np.tile(x, (count, 1)),
        rng,
    )
    size = (
        world.left_over
        * world.factors()[corpus % 2]
        * np.exp(rng.normal(scale=SPREAD, size=count) - SPREAD**2)
    )
    y = made.reshape(shape) + size[:, None] * rng.normal(size=shape)
    return [(y[corpus == place], x) for place in range(len(recipes))]


SPREAD = 0.7
"""SD of the log of a recipe's errors, as in the second study."""


def logs(grid: Mapping[str, Sequence[float]]) -> Array:
    """Logs of depth, head density and width of every shape of a grid, (shapes, 3)."""
    return np.log(
        np.array(list(itertools.product(grid["L"], grid["rho"], grid["d"])), dtype=np.float64)
    )


def operating(
    recipes: Sequence[int], x: Array, *, simulations: int = 400
) -> list[dict[str, float | str]]:
    """How often the rules decide what in simulated studies with so many recipes of either corpus:
    one row per world.

    Columns: world, simulations, supported, not_supported (by the intervals of both ratios), p_order
    (share with P(order) ≥ 0.95), covered (share of the intervals of recipe over geometry that hold
    the true ratio, where it is neither 0 nor ∞).
    """
    return [
        rates(world, recipes, x, simulations=simulations, seed=place)
        for place, world in enumerate(WORLDS)
    ]


def rates(
    world: ComponentWorld, recipes: Sequence[int], x: Array, *, simulations: int, seed: int = 0
) -> dict[str, float | str]:
    """One row of `operating`."""
    true = world.recipe / world.geometry if world.geometry else np.inf
    verdicts = []
    in_order = []
    inside = []
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

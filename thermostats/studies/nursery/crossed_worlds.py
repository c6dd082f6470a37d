"""Worlds of a study whose recipes are crossed with corpora: simulated studies, and worlds that its rules are tried in.

Those of `worlds` were frozen with the third study's design; their nuisances are those of the boundary of each claim.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims import worlds as claims
from thermostats.claims.noise import ERRORS, Errors, Noise, Random
from thermostats.claims.result import Estimate, Result
from thermostats.claims.worlds.world import Outcomes
from thermostats.studies.nursery.crossed import AT_SIZE, COVARIANCE, SIZE, Array, coded, shapes

RECIPE, SHAPE, ALIKE = "recipe / architecture", "shape / size", "alike"
THRESHOLDS = {RECIPE: 1.0, SHAPE: 1.0, ALIKE: 0.5}
"""Supported where an interval lies above, not supported where it lies below."""


@dataclass(frozen=True)
class CrossedWorld:
    """True standard deviations in every corpus, over the published models, as the second study found them in two."""

    name: str
    recipe: tuple[float, ...]
    shape: tuple[float, ...]
    size: tuple[float, ...]
    alike: float
    """Share of the variance between recipes that is the same in all corpora."""
    slopes: float = 0.033
    """SD of the slopes on depth between recipes (recipe × depth)."""
    residual: float = 0.05
    spread: float = 0.7
    """SD of the log of a recipe's errors."""
    t: float = np.inf
    """Degrees of freedom of what recipes do; infinite: normal."""
    scaled: bool = False
    """Whether recipe × depth and errors are larger in a corpus as its recipes are."""

    @property
    def words(self) -> str:
        """What it is like, in plain words."""
        parts = {"recipe": self.recipe, "shape": self.shape, "size": self.size}
        sds = [f"{name} {np.sqrt(np.mean(np.square(part))):.2g}" for name, part in parts.items()]
        text = f"SDs of {', '.join(sds)}, of recipe × depth {self.slopes:g}, errors {self.residual:g}"
        unlike = max(max(part) / max(min(part), 1e-9) for part in parts.values())
        text += f", up to {unlike:.2g} times as large in one corpus as in another" if unlike > 1.01 else ""
        text += f", {self.alike:.0%} of what recipes do alike in all corpora"
        return text + (
            "" if np.isinf(self.t) else f", recipes with the tails of t with {self.t:.2g} degrees of freedom"
        )

    @property
    def values(self) -> dict[str, float]:
        """What each claim compares with its threshold: ratios of variances, and the share that is alike."""
        recipe, shape, size = (float(np.mean(np.square(part))) for part in (self.recipe, self.shape, self.size))
        architecture = float(np.mean([slope @ COVARIANCE @ slope for slope in self.betas()]))
        pairs = list(itertools.combinations(self.recipe, 2))
        both = float(np.mean([a * b for a, b in pairs]))
        return {RECIPE: recipe / architecture, SHAPE: shape / size, ALIKE: self.alike * both / recipe}

    @property
    def truth(self) -> dict[str, bool]:
        """Whether each claim holds."""
        return {name: value > THRESHOLDS[name] * (1 + 1e-9) for name, value in self.values.items()}

    def betas(self) -> Array:
        """Slopes on (log L/d, log ρ, log N) in every corpus, depth against density as −5 to 1."""
        direction = np.array([-5.0, 1.0])
        direction /= np.sqrt(direction @ AT_SIZE @ direction)
        size = np.array(self.size) / np.sqrt(COVARIANCE[SIZE, SIZE])
        return np.column_stack([np.outer(self.shape, direction), size])

    def study(self, recipes: int, x: Array, rng: np.random.Generator) -> Array:
        """Log gains (corpora, recipes, shapes)."""
        means, errors = self.parts(recipes, x, rng)
        return np.asarray(means + errors[..., None] * rng.normal(size=means.shape))

    def parts(self, recipes: int, x: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Log gains without what is left over (corpora, recipes, shapes), and the SD of that (corpora, recipes)."""
        z, corpora = coded(x), len(self.recipe)

        def effects(*shape: int) -> Array:
            if np.isinf(self.t):
                return rng.normal(size=shape)
            return np.asarray(rng.standard_t(self.t, size=shape) / np.sqrt(self.t / (self.t - 2)))

        common, apart = effects(1, recipes), effects(corpora, recipes)
        recipe = np.array(self.recipe)[:, None] * (np.sqrt(self.alike) * common + np.sqrt(1 - self.alike) * apart)
        tilt = self.times[:, None] * self.slopes / np.sqrt(COVARIANCE[0, 0]) * rng.normal(size=(corpora, recipes))
        errors = self.residual * np.exp(rng.normal(scale=self.spread, size=recipes) - self.spread**2)
        level = rng.normal(scale=0.09, size=(corpora, 1, 1))
        lines = (self.betas() @ z.T)[:, None] + tilt[..., None] * z[:, 0]
        return np.asarray(level + recipe[..., None] + lines), self.times[:, None] * errors

    @property
    def times(self) -> Array:
        """By which recipe × depth and errors are multiplied in every corpus."""
        ratio = np.array(self.recipe)
        return ratio / np.sqrt(np.square(ratio).mean()) if self.scaled else np.ones(len(ratio))


ENGLISH, SYNTHETIC = (0.035, 0.012, 0.017), (0.078, 0.082, 0.010)
"""Recipe, shape and size, as found within the corpora of the second study."""


def worlds() -> list[CrossedWorld]:
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
        made += [CrossedWorld(name, recipe, shape, size, alike) for alike in (0.2, 0.8)]
    edge = even(CrossedWorld("at the edge", (0.05,) * 4, (0.03,) * 4, (0.03,) * 4, alike=0.5))
    return [
        *made,
        edge,
        replace(edge, name="at the edge, heavy tails", t=4),
        replace(edge, name="at the edge, large errors", residual=0.1),
        replace(edge, name="at the edge, recipe × depth three times as large", slopes=0.1),
    ]


def even(world: CrossedWorld) -> CrossedWorld:
    """The world with recipes that do as much as architecture does."""
    architecture = [float(np.sqrt(slope @ COVARIANCE @ slope)) for slope in world.betas()]
    return replace(world, recipe=tuple(architecture))


DECLARED = {
    RECIPE: ("recipe large", 0.2),
    SHAPE: ("two as English, two as the synthetic", 0.2),
    ALIKE: ("all as the synthetic", 0.8),
}
"""World and `alike` whose rate is a rule's power: what the second study found, or where that is no support, large."""
KINDS = ("normal", "t3", "lognormal")
"""Errors of models beyond what their recipe makes of them."""
BOX = {
    "residual": (0.05, 0.12, 0.02),
    "slopes": (0.033, 0.12, 0.0),
    "tails": (0.0, 0.3),
    "unlike": (1.0, 4.0),
    "alike": (0.5, 1.0, 0.0),
}
"""At rest and at their bounds: errors, recipe × depth, 1/degrees of freedom of recipes, how many times as large all is
in half of the corpora, and the share that is alike."""
EDGE, AS_FOUND = "at the boundary", "at the boundary, corpora as found"
UNLIKE = (1.0, 1.0, 4.5, 1.3)
"""How many times as large all was in every corpus of the third study; found, so that these worlds came after it."""


def worlds_of(rule: str, quantity: str) -> claims.Worlds:
    """The frozen worlds, and the boundary of a claim with its nuisances; quantity: the name that its rule reads."""
    frozen = {f"{world.name}, alike {world.alike:g}": world for world in worlds()[:-4]}
    claimed = frozen.pop("{}, alike {:g}".format(*DECLARED[rule]))
    others = {**frozen, AS_FOUND: AS_FOUND}
    box = {name: ends for name, ends in BOX.items() if name != "alike" or rule != ALIKE}
    return claims.Worlds(partial(_made, rule, quantity), claimed, EDGE, box, KINDS, others)


def _made(
    rule: str,
    quantity: str,
    size: CrossedWorld | str,
    *,
    kind: str,
    residual: float,
    slopes: float,
    tails: float,
    unlike: float,
    alike: float | None = None,
) -> claims.World:
    if isinstance(size, str):
        corpora = np.array(UNLIKE) if size == AS_FOUND else np.array([1.0, unlike, unlike, 1.0])
        edge = _edge(rule, corpora, alike)
        t = 1 / tails if tails else np.inf
        world = replace(edge, name=size, slopes=slopes, residual=residual, t=t, scaled=size == AS_FOUND)
    else:
        world = size
    words = f"{world.name}: {world.words}" + (f", {ERRORS[kind]}" if kind != "normal" else "")
    at_bar = Result(quantities={quantity: Estimate(THRESHOLDS[rule])}) if isinstance(size, str) else None
    return claims.World(words, partial(placed, world), Errors(kind), at_bar)


def _edge(rule: str, corpora: Array, alike: float | None) -> CrossedWorld:
    """The boundary of every claim, all so many times as large in each corpus; alike: but that of the rule itself."""
    sizes = tuple(0.03 * corpora / np.sqrt(np.square(corpora).mean()))
    both = float(np.mean([a * b for a, b in itertools.combinations(sizes, 2)]))
    at = THRESHOLDS[ALIKE] * float(np.mean(np.square(sizes))) / both
    return even(CrossedWorld("", sizes, sizes, sizes, min(at, 1.0) if alike is None or rule == ALIKE else alike))


def placed(world: CrossedWorld, rows: pd.DataFrame, noise: Noise, random: Random) -> Outcomes:
    """Log gains of a world on rows; corpora beyond its own begin anew."""
    corpus, recipe = (pd.factorize(rows[name], sort=True)[0] for name in ("trained_on", "recipe"))
    corpus, (x, shape) = corpus % len(world.recipe), shapes(rows)
    errors = noise(rows)
    for study in range(random.studies):
        means, sds = world.parts(int(recipe.max()) + 1, x, random.rng)
        errors[study] = means[corpus, recipe, shape] + sds[corpus, recipe] * errors[study]
    return {"log_gain": errors}

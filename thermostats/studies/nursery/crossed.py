"""What recipes, shape and size do to a log gain in a study whose recipes are crossed with corpora
and shapes.

y_crs = μ_c + a_cr + (β_c + b_cr)·z_s + e_crs for corpus c, recipe r and shape s, with z = (log L/d,
log ρ, log N) off their means; N ∝ L d², the weights of the blocks. Least squares give ĉ_cr = (â,
b̂) of every recipe in every corpus. With K the covariance of z over the published models and K_g·N
that of (log L/d, log ρ) at a given N, over corpora:

- corpus √(var_c mean_r a); recipe √(var_r a); architecture √(β' K β); shape √(β_g' K_g·N β_g); size
  √(β_N² K_NN);
- alike: cov_r(a_c, a_c') over all pairs of corpora / var_r(a), the share of what recipes do that is
  the same in all.

Each is what the estimates give less what their errors add. Intervals of logs of ratios, of `alike`
and of variances are by a jackknife over recipes, t with R − 1 degrees of freedom: a recipe is the
unit, whatever the number of its models.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from thermostats.claims import worlds as claims
from thermostats.claims.noise import Errors, Noise, Random
from thermostats.claims.result import Estimate, Result
from thermostats.claims.worlds import Outcomes
from thermostats.errors import UsageError
from thermostats.modelling.classical.many import measure_margin

Array = npt.NDArray[np.float64]
REFERENCE: Array = np.array(
    [[0.2040, 0.1245, 0.2371], [0.1245, 0.5442, 0.1165], [0.2371, 0.1165, 0.4490]], dtype=np.float64
)
"""Covariance of log L, log rho and log d over the 22 published models that can be compared: the
reference."""
TO_CODING: Array = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 2.0]])
"""From (log L, log ρ, log d) to (log L/d, log ρ, log N)."""
COVARIANCE: Array = TO_CODING @ REFERENCE @ TO_CODING.T
SHAPE = slice(0, 2)
SIZE = 2
_SHAPE_ON_SIZE = np.outer(COVARIANCE[SHAPE, SIZE], COVARIANCE[SIZE, SHAPE])
AT_SIZE: Array = COVARIANCE[SHAPE, SHAPE] - _SHAPE_ON_SIZE / COVARIANCE[SIZE, SIZE]
LEAST = 1e-6
"""Variances below are taken as so large, so that ratios have logs."""
LOGS = ["log_L", "log_rho", "log_d"]
FEWEST = 6
"""Recipes below which there is no answer."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% interval; of many studies at once arrays."""

    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True)
class CrossedVariances:
    """Variances of the log gain over the published models, and `alike`, the share of recipes' that
    corpora share.

    Each has the leading axes of the coefficients that it is of.
    """

    corpus: Array
    recipe: Array
    architecture: Array
    shape: Array
    size: Array
    alike: Array


def build_table(rows: pd.DataFrame, outcome: str = "log_gain") -> tuple[Array, Array, list[str]]:
    """Outcomes (corpora, recipes, shapes) of recipes seen in every corpus at every shape; logs of
    shapes; corpora.

    rows: `trained_on`, `recipe`, LOGS and the outcome. Raises UsageError for fewer than FEWEST such
    recipes.
    """
    corpus, corpora = pd.factorize(rows["trained_on"], sort=True)
    recipe, names = pd.factorize(rows["recipe"], sort=True)
    x, shape = index_shapes(rows)
    size = (len(corpora), len(names), len(x))
    y = np.full(size, np.nan)
    y[corpus, recipe, shape] = rows[outcome]
    complete = np.isfinite(y).all(axis=(0, 2))
    y = y[:, complete]
    if y.shape[1] < FEWEST:
        raise UsageError(
            "too few recipes in every corpus at every shape",
            got=y.shape[1],
            allowed=f"{FEWEST} or more",
        )
    return y, x, list(corpora)


def index_shapes(rows: pd.DataFrame) -> tuple[Array, npt.NDArray[np.int64]]:
    """The distinct logs of L, ρ and d of rows, (S, 3), in order, and the place of every row's."""
    values = rows[LOGS].to_numpy(float)
    codes = [np.unique(column, return_inverse=True)[1] for column in values.T]
    sizes = [code.max() + 1 for code in codes]
    numbers = np.ravel_multi_index(codes, sizes)
    _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    return values[first], place


def encode_shapes(x: Array) -> Array:
    """(log L, log ρ, log d) of shapes, (S, 3), as (log L/d, log ρ, log N) off their means."""
    z = x @ TO_CODING.T
    return np.asarray(z - z.mean(axis=0))


def estimate_ratios(y: Array, x: Array) -> dict[str, Interval]:
    """Recipe over architecture and shape over size as ratios of standard deviations, and `alike`.

    y: log gains (…, corpora, recipes, shapes); x: logs of L, ρ and d of the shapes, (S, 3).
    """
    effects, noise = fit_lines(y, encode_shapes(x))
    every = measure_statistics(effects, noise)
    parts = measure_statistics(*drop_each_recipe(effects, noise))
    ends = build_jackknife_intervals(every, parts)
    log_ratios = ends[..., :2]
    ends[..., :2] = np.exp(log_ratios)
    return _name_intervals(ends, ("recipe / architecture", "shape / size", "alike"))


def _name_intervals(ends: Array, names: Sequence[str]) -> dict[str, Interval]:
    """Figures with the ends of their intervals (3, …, figures) by their names."""
    intervals = {}
    for place, name in enumerate(names):
        intervals[name] = Interval(*ends[..., place])
    return intervals


def estimate_mean_ratios(y: Array, x: Array) -> tuple[dict[str, Interval], Array]:
    """Geometric means over corpora of the same two ratios of standard deviations, and the corpora's
    weights.

    log θ = Σ_c w_c log θ_c with w_c ∝ 1/s_c², s_c the jackknife error of log θ_c over recipes; the
    interval is by a jackknife of log θ over recipes with w held fixed, since all corpora share
    their recipes. y: log gains (…, corpora, recipes, shapes); weights: (…, corpora, 2), each column
    of sum 1.
    """
    effects, noise = fit_lines(y, encode_shapes(x))
    every = _measure_corpus_ratios(effects, noise)
    left = _measure_corpus_ratios(*drop_each_recipe(effects, noise))
    off = left - left.mean(axis=0)
    spread = np.square(off).sum(axis=0)
    weights = 1 / np.maximum(spread, LEAST)
    weights /= weights.sum(axis=-2, keepdims=True)
    whole = (weights * every).sum(axis=-2)
    parts = (weights * left).sum(axis=-2)
    ends = np.exp(build_jackknife_intervals(whole, parts))
    return _name_intervals(ends, ("recipe / architecture", "shape / size")), weights


def _measure_corpus_ratios(effects: Array, noise: Array) -> Array:
    """Half the logs of both ratios of variances of every corpus by itself, (…, corpora, 2)."""
    corpora = range(effects.shape[-3])
    alone = []
    for c in corpora:
        of_one = effects[..., c : c + 1, :, :]
        ratios = measure_statistics(of_one, noise[..., c : c + 1, :, :, :])
        alone.append(ratios[..., :2])
    return np.stack(alone, axis=-2)


def estimate_spreads(y: Array, x: Array) -> dict[str, Interval]:
    """Standard deviations of the log gain that corpus, recipe, architecture, shape and size make; 0
    where below it."""
    effects, noise = fit_lines(y, encode_shapes(x))
    names = [field.name for field in fields(CrossedVariances) if field.name != "alike"]
    every = estimate_variances(effects, noise)
    left = estimate_variances(*drop_each_recipe(effects, noise))
    estimate = np.stack([getattr(every, name) for name in names], axis=-1)
    parts = np.stack([getattr(left, name) for name in names], axis=-1)
    ends = build_jackknife_intervals(estimate, parts)
    spreads = np.sqrt(np.maximum(ends, 0.0))
    return _name_intervals(spreads, names)


def drop_each_recipe(effects: Array, noise: Array) -> tuple[Array, Array]:
    """Coefficients and their covariances without each recipe in turn, (recipes, …, corpora, recipes
    − 1, …)."""
    recipes = effects.shape[-2]
    effects_left = []
    noise_left = []
    for r in range(recipes):
        others = np.delete(np.arange(recipes), r)
        effects_left.append(effects[..., others, :])
        noise_left.append(noise[..., others, :, :])
    return np.stack(effects_left), np.stack(noise_left)


def build_jackknife_intervals(estimate: Array, parts: Array) -> Array:
    """Figures and the ends of their t intervals, (3, …, figures); parts: those without each recipe
    in turn."""
    recipes = len(parts)
    off = parts - parts.mean(axis=0)
    squares = np.square(off).sum(axis=0)
    sd = np.sqrt((recipes - 1) / recipes * squares)
    half = measure_margin(sd, recipes - 1)
    return np.stack([estimate, estimate - half, estimate + half])


def fit_lines(y: Array, z: Array) -> tuple[Array, Array]:
    """Coefficients (…, corpora, recipes, 4) of every recipe's line, and their error covariances (…,
    4, 4)."""
    intercept = np.ones(len(z))
    X = np.column_stack([intercept, z])
    inverse = np.linalg.inv(X.T @ X)
    effects = y @ X @ inverse
    left = y - effects @ X.T
    common = left.mean(axis=-2, keepdims=True)
    recipes = y.shape[-2]
    free = len(z) - X.shape[1]
    df = free * (recipes - 1) / recipes
    off = left - common
    squares = np.square(off).sum(axis=-1) / df
    return effects, squares[..., None, None] * inverse


def measure_statistics(effects: Array, noise: Array) -> Array:
    """Half the log of both ratios of variances, and `alike`, (…, 3)."""
    parts = estimate_variances(effects, noise)
    variances = [parts.recipe, parts.architecture, parts.shape, parts.size]
    recipe, architecture, shape, size = np.log(np.maximum(variances, LEAST))
    ratios = [(recipe - architecture) / 2, (shape - size) / 2]
    return np.stack([*ratios, parts.alike], axis=-1)


def estimate_variances(effects: Array, noise: Array) -> CrossedVariances:
    """The variances of coefficients (…, corpora, recipes, 4) whose errors have the covariances
    `noise`."""
    corpora, recipes = effects.shape[-3:-1]
    mean = effects.mean(axis=-2)
    centred = effects - mean[..., None, :]
    slopes = mean[..., 1:]
    off = centred[..., 1:]
    of_mean = np.einsum("...ri,...rj->...ij", off, off) / (recipes - 1) / recipes
    products = slopes[..., :, None] * slopes[..., None, :]
    squares = products - of_mean
    levels = centred[..., 0]
    within = np.einsum("...cr,...dr->...cd", levels, levels) / (recipes - 1)
    of_one = np.trace(within, axis1=-2, axis2=-1)
    every = within.sum(axis=(-2, -1))
    of_errors = noise[..., 0, 0].mean(axis=(-2, -1))
    recipe = of_one / corpora - of_errors
    between = corpus = np.full_like(recipe, np.nan)
    if corpora > 1:
        between = (every - of_one) / (corpora * (corpora - 1))
        apart = (of_one / corpora - between) / recipes
        spread = mean[..., 0].var(axis=-1, ddof=1)
        corpus = spread - apart
    architecture = np.einsum("...cij,ij->...c", squares, COVARIANCE)
    of_shape = squares[..., SHAPE, SHAPE]
    shape = np.einsum("...cij,ij->...c", of_shape, AT_SIZE)
    of_size = squares[..., SIZE, SIZE].mean(axis=-1)
    size = of_size * COVARIANCE[SIZE, SIZE]
    alike = between / np.maximum(recipe, LEAST)
    return CrossedVariances(
        corpus=corpus,
        recipe=recipe,
        architecture=architecture.mean(axis=-1),
        shape=shape.mean(axis=-1),
        size=size,
        alike=alike,
    )


RECIPE = "recipe / architecture"
SHAPE_OF_WORLDS = "shape / size"
ALIKE = "alike"
THRESHOLDS = {RECIPE: 1.0, SHAPE_OF_WORLDS: 1.0, ALIKE: 0.5}
"""Supported where an interval lies above, not supported where it lies below."""


@dataclass(frozen=True)
class CrossedWorld:
    """True standard deviations in every corpus, over the published models, as the second study
    found them in two."""

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
        sds = []
        for name, part in parts.items():
            mean_square = np.mean(np.square(part))
            sd = np.sqrt(mean_square)
            sds.append(f"{name} {sd:.2g}")
        text = (
            f"SDs of {', '.join(sds)}, of recipe × depth {self.slopes:g}, errors {self.residual:g}"
        )
        unlike = max(max(part) / max(min(part), 1e-9) for part in parts.values())
        if unlike > 1.01:
            text += f", up to {unlike:.2g} times as large in one corpus as in another"
        text += f", {self.alike:.0%} of what recipes do alike in all corpora"
        if np.isinf(self.t):
            return text
        return f"{text}, recipes with the tails of t with {self.t:.2g} degrees of freedom"

    @property
    def values(self) -> dict[str, float]:
        """What each claim compares with its threshold: ratios of variances, and the share that is
        alike."""
        parts = (self.recipe, self.shape, self.size)
        recipe, shape, size = (float(np.mean(np.square(part))) for part in parts)
        variances = [slope @ COVARIANCE @ slope for slope in self.build_betas()]
        both = _multiply_pairs(self.recipe)
        return {
            RECIPE: recipe / float(np.mean(variances)),
            SHAPE_OF_WORLDS: shape / size,
            ALIKE: self.alike * both / recipe,
        }

    @property
    def truth(self) -> dict[str, bool]:
        """Whether each claim holds."""
        truth = {}
        for name, value in self.values.items():
            truth[name] = value > THRESHOLDS[name] * (1 + 1e-9)
        return truth

    def build_betas(self) -> Array:
        """Slopes on (log L/d, log ρ, log N) in every corpus, depth against density as −5 to 1."""
        direction = np.array([-5.0, 1.0])
        variance = direction @ AT_SIZE @ direction
        direction /= np.sqrt(variance)
        unit = np.sqrt(COVARIANCE[SIZE, SIZE])
        size = np.array(self.size) / unit
        of_shape = np.outer(self.shape, direction)
        return np.column_stack([of_shape, size])

    def simulate_study(self, recipes: int, x: Array, rng: np.random.Generator) -> Array:
        """Log gains (corpora, recipes, shapes)."""
        means, errors = self.simulate_parts(recipes, x, rng)
        left = rng.normal(size=means.shape)
        error = errors[..., None] * left
        return np.asarray(means + error)

    def simulate_parts(
        self, recipes: int, x: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Log gains without what is left over (corpora, recipes, shapes), and the SD of that
        (corpora, recipes)."""
        z = encode_shapes(x)
        corpora = len(self.recipe)

        def draw_effects(*shape: int) -> Array:
            if np.isinf(self.t):
                return rng.normal(size=shape)
            variance = self.t / (self.t - 2)
            drawn = rng.standard_t(self.t, size=shape)
            return np.asarray(drawn / np.sqrt(variance))

        common = draw_effects(1, recipes)
        apart = draw_effects(corpora, recipes)
        alone = np.sqrt(1 - self.alike) * apart
        effects = np.sqrt(self.alike) * common + alone
        sds = np.array(self.recipe)[:, None]
        recipe = sds * effects
        times = self.times[:, None]
        slope_sd = times * self.slopes / np.sqrt(COVARIANCE[0, 0])
        tilt = slope_sd * rng.normal(size=(corpora, recipes))
        log_errors = rng.normal(scale=self.spread, size=recipes) - self.spread**2
        errors = self.residual * np.exp(log_errors)
        level = rng.normal(scale=0.09, size=(corpora, 1, 1))
        of_shape = self.build_betas() @ z.T
        of_depth = tilt[..., None] * z[:, 0]
        lines = of_shape[:, None] + of_depth
        means = level + recipe[..., None] + lines
        return np.asarray(means), times * errors

    @property
    def times(self) -> Array:
        """By which recipe × depth and errors are multiplied in every corpus."""
        ratio = np.array(self.recipe)
        if not self.scaled:
            return np.ones(len(ratio))
        size = np.sqrt(np.square(ratio).mean())
        return np.asarray(ratio / size)


def _multiply_pairs(sds: Sequence[float]) -> float:
    """Mean product of two corpora's standard deviations."""
    products = [a * b for a, b in itertools.combinations(sds, 2)]
    return float(np.mean(products))


ENGLISH = (0.035, 0.012, 0.017)
SYNTHETIC = (0.078, 0.082, 0.010)
"""Recipe, shape and size, as found within the corpora of the second study."""


def list_worlds() -> list[CrossedWorld]:
    """As found, code and shuffled English like either corpus; large effects; and the boundary of
    the claims."""
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
    even = (0.03,) * 4
    edge = make_even(CrossedWorld("at the edge", (0.05,) * 4, even, even, alike=0.5))
    return [
        *made,
        edge,
        replace(edge, name="at the edge, heavy tails", t=4),
        replace(edge, name="at the edge, large errors", residual=0.1),
        replace(edge, name="at the edge, recipe × depth three times as large", slopes=0.1),
    ]


def make_even(world: CrossedWorld) -> CrossedWorld:
    """The world with recipes that do as much as architecture does."""
    architecture = []
    for slope in world.build_betas():
        variance = slope @ COVARIANCE @ slope
        architecture.append(float(np.sqrt(variance)))
    return replace(world, recipe=tuple(architecture))


DECLARED = {
    RECIPE: ("recipe large", 0.2),
    SHAPE_OF_WORLDS: ("two as English, two as the synthetic", 0.2),
    ALIKE: ("all as the synthetic", 0.8),
}
"""World and `alike` whose rate is a rule's power: what the second study found, or where that is no
support, large."""
KINDS = ("normal", "t3", "lognormal")
"""Errors of models beyond what their recipe makes of them."""
LIMITS = claims.build_errors(measured="third_gain")[0].limits
"""How far their shapes go by the residuals of the gains of single models."""
BOX = {
    "residual": (0.05, 0.12, 0.02),
    "slopes": (0.033, 0.12, 0.0),
    "tails": (0.0, 0.3),
    "unlike": (1.0, 4.0),
    "alike": (0.5, 1.0, 0.0),
}
"""At rest and at their bounds: errors, recipe × depth, 1/degrees of freedom of recipes, how many
times as large all is in half of the corpora, and the share that is alike."""
NUISANCES = {
    "residual": "errors of models have an SD of {value}",
    "slopes": "recipes' slopes on depth have an SD of {value}",
    "tails": "recipes have the tails of t with 1/{value} degrees of freedom",
    "unlike": "all is {value} times as large in half of the corpora",
    "alike": "{value} of what recipes do is alike in all corpora",
}
"""The same in words."""
EDGE = "at the boundary"
AS_FOUND = "at the boundary, corpora as found"
LANGUAGE = (0, 1, 3)
"""Places of the corpora that have language among code, English, shuffled English and the synthetic
language."""
UNLIKE = (1.0, 1.0, 4.5, 1.3)
"""How many times as large all was in every corpus of the third study; found, so that these worlds
came after it."""


def build_worlds(rule: str, quantity: str) -> claims.Worlds:
    """The frozen worlds, and the boundary of a claim with its nuisances; quantity: the name that
    its rule reads."""
    frozen = {}
    for world in list_worlds()[:-4]:
        frozen[f"{world.name}, alike {world.alike:g}"] = world
    name, alike = DECLARED[rule]
    claimed = frozen.pop(f"{name}, alike {alike:g}")
    others = {**frozen, AS_FOUND: AS_FOUND}
    box = {}
    for name, ends in BOX.items():
        if name != "alike" or rule != ALIKE:
            box[name] = ends
    kinds = LIMITS.choose_kinds(KINDS, "")
    make = partial(_make_world, rule, quantity)
    return claims.Worlds(make, claimed, EDGE, box, kinds, others, NUISANCES)


def _make_world(
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
    wide: float = 0.0,
) -> claims.World:
    at_bar = None
    if isinstance(size, str):
        as_found = size == AS_FOUND
        corpora = np.array(UNLIKE if as_found else (1.0, unlike, unlike, 1.0))
        edge = _find_edge(rule, corpora, alike)
        t = 1 / tails if tails else np.inf
        world = replace(edge, name=size, slopes=slopes, residual=residual, t=t, scaled=as_found)
        at_threshold = Estimate(THRESHOLDS[rule])
        at_bar = Result(quantities={quantity: at_threshold})
    else:
        world = size
    limits = LIMITS.widen() if wide else LIMITS
    errors = Errors(kind, limits=limits)
    words = f"{world.name}: {world.words}"
    if kind != "normal":
        words += f", {errors.kind_words}"
    outcomes = partial(draw_outcomes, world)
    return claims.World(words, outcomes, errors, at_bar)


def _find_edge(rule: str, corpora: Array, alike: float | None) -> CrossedWorld:
    """The boundary of every claim, all so many times as large in each corpus; alike: but that of
    the rule itself."""
    size = np.sqrt(np.square(corpora).mean())
    sizes = tuple(0.03 * corpora / size)
    averaged = [sizes[place] for place in LANGUAGE]
    if alike is None or rule == ALIKE:
        square = float(np.mean(np.square(averaged)))
        at = THRESHOLDS[ALIKE] * square / _multiply_pairs(averaged)
        alike = min(at, 1.0)
    return make_even(CrossedWorld("", sizes, sizes, sizes, alike))


def draw_outcomes(
    world: CrossedWorld, rows: pd.DataFrame, noise: Noise, random: Random
) -> Outcomes:
    """Log gains of a world on rows; corpora beyond its own begin anew."""
    corpus, _ = pd.factorize(rows["trained_on"], sort=True)
    corpus = corpus % len(world.recipe)
    recipe = pd.factorize(rows["recipe"], sort=True)[0]
    recipes = int(recipe.max()) + 1
    x, shape = index_shapes(rows)
    errors = noise(rows)
    for study in range(random.studies):
        means, sds = world.simulate_parts(recipes, x, random.rng)
        expected = means[corpus, recipe, shape]
        sd = sds[corpus, recipe]
        errors[study] = expected + sd * errors[study]
    return {"log_gain": errors}

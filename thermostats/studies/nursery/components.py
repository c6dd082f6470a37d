"""How much recipe, geometry, scale and recipe × depth do to a log gain: standard deviations over a reference of shapes.

y_rs = a_r + b_r·x_s + e_rs for recipe r at shape s, x the centred logs of L, rho and d. A recipe's coefficients c_r =
(a_r, b_r) are drawn from N(m, W); least squares give ĉ_r ~ N(m, W + σ² (X'X)⁻¹). With K the covariance of x over the
reference:

- recipe √W_aa; recipe × depth √(W_LL K_LL); geometry √(m_g' K_gg m_g) with g = (L, rho); scale √(m_d² K_dd).

Draws by Jeffreys' prior of the ĉ_r, exact: inverse Wishart, normal, σ² by the residuals; a variance below 0 is 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from thermostats.claims import worlds
from thermostats.claims.noise import ERRORS, Errors, Noise
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Above
from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, SURE
from thermostats.errors import UsageError
from thermostats.studies.delia2026.gains import LEVEL

Array = npt.NDArray[np.float64]
REFERENCE: Array = np.array(
    [[0.2040, 0.1245, 0.2371], [0.1245, 0.5442, 0.1165], [0.2371, 0.1165, 0.4490]], dtype=np.float64
)
"""Covariance of log L, log rho and log d over the 22 published models that can be compared: the reference."""
GEOMETRY, SCALE, DEPTH = slice(0, 2), 2, 0


@dataclass(frozen=True)
class Components:
    """Standard deviations of the log gain, draws or single numbers."""

    recipe: Array
    geometry: Array
    scale: Array
    depth: Array
    """Recipe × depth."""
    residual: Array

    @property
    def in_order(self) -> float:
        """Share of the draws in which recipe > geometry > scale."""
        return float(np.mean((self.recipe > self.geometry) & (self.geometry > self.scale)))


def components(y: Array, x: Array, *, draws: int = 2000, seed: int = 1) -> Components:
    """Draws of the components of a whole table: y (recipes, shapes), x (shapes, 3).

    Raises UsageError for fewer than six recipes, or shapes that do not tell the slopes apart.
    """
    recipes, shapes = y.shape
    X = np.column_stack([np.ones(shapes), x - x.mean(axis=0)])
    used = [i for i in range(4) if np.ptp(X[:, i]) > 0 or i == 0]
    X = X[:, used]
    if recipes < 6 or np.linalg.matrix_rank(X) < X.shape[1] or shapes <= X.shape[1]:
        raise UsageError("too few rows to separate the components", got=f"{recipes} recipes at {shapes} shapes")
    inverse = np.linalg.inv(X.T @ X)
    c = y @ X @ inverse
    left = y - c @ X.T
    left = left - left.mean(axis=0)
    df = (recipes - 1) * (shapes - X.shape[1])
    rng = np.random.default_rng(seed)
    noise = np.square(left).sum() / rng.chisquare(df, draws)
    spread = np.cov(c.T) * (recipes - 1)
    W = stats.invwishart(recipes - 1, spread).rvs(draws, random_state=rng).reshape(draws, len(used), len(used))
    m = c.mean(axis=0) + np.einsum("nij,nj->ni", np.linalg.cholesky(W / recipes), rng.normal(size=(draws, len(used))))
    own = np.zeros((draws, 4))
    own[:, used] = m
    variance = np.zeros((draws, 4))
    variance[:, used] = np.einsum("nii->ni", W) - noise[:, None] * np.diag(inverse)
    depth = root(variance[:, 1 + DEPTH] * REFERENCE[DEPTH, DEPTH])
    return Components(root(variance[:, 0]), *over_reference(own[:, 1:]), depth, np.sqrt(noise))


def over_reference(slopes: Array) -> tuple[Array, Array]:
    """Standard deviations of geometry and scale over the reference; slopes: draws of those on log L, rho and d."""
    shape = np.einsum("ni,ij,nj->n", slopes[:, GEOMETRY], REFERENCE[GEOMETRY, GEOMETRY], slopes[:, GEOMETRY])
    return root(shape), root(np.square(slopes[:, SCALE]) * REFERENCE[SCALE, SCALE])


OVER, ABOVE = "SD of recipe / SD of geometry", "SD of geometry / SD of scale"
ORDERED = Above(OVER, 1) & Above(ABOVE, 1)
"""Recipe does more than geometry, and geometry more than scale."""


def ratios(found: Components) -> dict[str, Estimate]:
    """Median and 95% interval of both ratios."""
    with np.errstate(divide="ignore", invalid="ignore"):
        of = {OVER: found.recipe / found.geometry, ABOVE: found.geometry / found.scale}
    ends, quantities = [0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2], {}
    for name, ratio in of.items():
        value, lower, upper = np.quantile(np.nan_to_num(ratio, nan=1.0), ends).tolist()
        quantities[name] = Estimate(value, lower, upper, "95% interval of draws, recipes as the unit")
    return quantities


@dataclass(frozen=True)
class World:
    """True components of a simulated study, over the reference, and how recipes are spread."""

    name: str
    recipe: float
    geometry: float
    scale: float
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
    def words(self) -> str:
        """Its components, in plain words."""
        tails = "" if np.isinf(self.t) else f", recipes with the tails of t with {self.t:g} degrees of freedom"
        return f"SDs of recipe, geometry and scale of {self.recipe:g}, {self.geometry:g} and {self.scale:g}{tails}"


WORLDS = (
    World("as claimed", 0.053, 0.042, 0.019),
    World("all alike", 0.04, 0.04, 0.04),
    World("all alike, heavy tails", 0.04, 0.04, 0.04, t=4),
    World("reversed", 0.019, 0.042, 0.053),
    World("shape alone", 0.0, 0.042, 0.019),
    World("recipe alone", 0.053, 0.0, 0.0),
)
"""As claimed: what the first study estimated, taken as over the reference. In all others the order is not so."""


def means(world: World, recipe: npt.NDArray[np.int64], x: Array, rng: np.random.Generator) -> Array:
    """Log gains (n,) of a world without what is left over, of models of `recipe` (0, 1, …) at `x` (n, 3).

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
    return np.asarray(world.recipe * effects[recipe] + centred @ slopes + tilt[recipe] * centred[:, DEPTH])


def simulated(world: World, recipes: int, x: Array, rng: np.random.Generator) -> Array:
    """A table of log gains (recipes, shapes) from a world."""
    recipe = np.repeat(np.arange(recipes), len(x))
    made = means(world, recipe, np.tile(x, (recipes, 1)), rng).reshape(recipes, len(x))
    return np.asarray(made + rng.normal(size=made.shape) * world.left_over)


def logs(grid: Mapping[str, Sequence[float]]) -> Array:
    """Logs of depth, head density and width of every shape of a grid, (shapes, 3)."""
    return np.log(np.array(list(itertools.product(grid["L"], grid["rho"], grid["d"])), dtype=np.float64))


def operating(recipes: int, x: Array, *, simulations: int = 400) -> list[dict[str, float | str]]:
    """How often the rules decide what in simulated studies: one row per world.

    Columns: world, simulations, supported, not_supported (by the intervals of both ratios), p_order (share with
    P(order) ≥ 0.95), covered (share of the intervals of recipe over geometry that hold the true ratio, where it is
    neither 0 nor ∞).
    """
    rows: list[dict[str, float | str]] = []
    for place, world in enumerate(WORLDS):
        true = world.recipe / world.geometry if world.geometry else np.inf
        verdicts, in_order, inside = [], [], []
        for number in range(simulations):
            rng = np.random.default_rng([1, place, number])
            found = components(simulated(world, recipes, x, rng), x, draws=1000, seed=number)
            result = Result(quantities=ratios(found))
            verdicts.append(ORDERED.verdict(result))
            in_order.append(found.in_order >= SURE)
            inside.append(Above(OVER, true).verdict(result) == OPEN)
        rows.append(
            {
                "world": world.name,
                "simulations": simulations,
                "supported": verdicts.count(SUPPORTED) / simulations,
                "not_supported": verdicts.count(AGAINST) / simulations,
                "p_order": float(np.mean(in_order)),
                "covered": float(np.mean(inside)) if 0 < true < np.inf else np.nan,
            }
        )
    return rows


def worlds_of_components() -> tuple[worlds.World, ...]:
    """The order as claimed, and worlds without it; of those in which all are alike one with every kind of error."""
    claimed, alike, *_ = WORLDS
    made = [(world, world.name, "normal") for world in WORLDS]
    made += [(alike, f"{alike.name}, {kind}", kind) for kind in ERRORS if kind != "normal"]
    return tuple(
        worlds.World(
            name, f"{own.words}, {ERRORS[kind]}", own is claimed, partial(_changed, own), Errors(kind), own is claimed
        )
        for own, name, kind in made
    )


def _changed(own: World, rows: pd.DataFrame, noise: Noise, rng: np.random.Generator) -> pd.DataFrame:
    x = rows[["log_L", "log_rho", "log_d"]].to_numpy(np.float64)
    made = means(own, pd.factorize(rows["recipe"])[0], x, rng)
    return rows.assign(log_gain=made + own.left_over * noise(rows))


def root(variance: Array) -> Array:
    """Standard deviation of a variance that an estimate may put below 0."""
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

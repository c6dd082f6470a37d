"""Worlds of components have the components that they say, found by least squares in simulated studies."""

import itertools

import numpy as np
import pandas as pd
import pytest

from thermostats.studies.nursery.components import worlds_of_components

WORLDS = {world.id: world for world in worlds_of_components()}
SHAPES = np.log(list(itertools.product((4.0, 8.0, 16.0), (0.125, 0.5, 2.0), (32.0, 80.0))))
REFERENCE = np.array([[0.2040, 0.1245, 0.2371], [0.1245, 0.5442, 0.1165], [0.2371, 0.1165, 0.4490]])
"""Covariance of log L, log rho and log d over the published models that can be compared."""
RECIPES, STUDIES = 40, 30


def study() -> pd.DataFrame:
    """Every recipe at every shape; rows of a recipe do not stand together."""
    rows = pd.DataFrame(np.repeat(SHAPES, RECIPES, axis=0), columns=["log_L", "log_rho", "log_d"])
    return rows.assign(recipe=[f"r{i % RECIPES:02d}" for i in range(len(rows))]).assign(heritage=lambda own: own.recipe)


def found(world: str) -> np.ndarray:
    """Standard deviations by recipe, geometry and scale: roots of the mean variances over simulated studies."""
    X = np.column_stack([np.ones(len(SHAPES)), SHAPES - SHAPES.mean(axis=0)])
    variances = []
    for seed in range(STUDIES):
        made = WORLDS[world].change(study(), np.random.default_rng(seed))
        y = made["log_gain"].to_numpy().reshape(len(SHAPES), RECIPES)
        each = np.linalg.lstsq(X, y, rcond=None)[0]
        noise = np.square(y - X @ each).sum() / (RECIPES * (len(SHAPES) - X.shape[1]))
        slopes = each[1:].mean(axis=1)
        geometry, scale = slopes[:2] @ REFERENCE[:2, :2] @ slopes[:2], slopes[2] ** 2 * REFERENCE[2, 2]
        variances.append([each[0].var(ddof=1) - noise / len(SHAPES), geometry, scale])
    return np.sqrt(np.mean(variances, axis=0))


@pytest.mark.parametrize(
    ("world", "sds"),
    [
        ("as claimed", (0.053, 0.042, 0.019)),
        ("reversed", (0.019, 0.042, 0.053)),
        ("all alike, heteroscedastic labs", (0.04, 0.04, 0.04)),
    ],
)
def test_a_world_has_the_components_that_it_says(world: str, sds: tuple[float, ...]) -> None:
    assert found(world) == pytest.approx(sds, abs=0.002)
    said = "SDs of recipe, geometry and scale of {:g}, {:g} and {:g}"
    assert WORLDS[world].words.startswith(said.format(*sds))


def test_the_order_holds_as_claimed_alone() -> None:
    assert [world.id for world in WORLDS.values() if world.holds] == ["as claimed"]
    assert [world.id for world in WORLDS.values() if world.declared] == ["as claimed"]

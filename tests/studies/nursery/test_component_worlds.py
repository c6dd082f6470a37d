"""Worlds of components have the components that they say, found by least squares in simulated studies."""

import itertools

import numpy as np
import pandas as pd
import pytest

from thermostats.studies.nursery.component_worlds import worlds_of_components, worlds_of_corpus

WORLDS = {world.id: world for world in worlds_of_components()}
BETWEEN = {world.id: world for world in worlds_of_corpus()}
SHAPES = np.log(list(itertools.product((4.0, 8.0, 16.0), (0.125, 0.5, 2.0), (32.0, 80.0))))
REFERENCE = np.array([[0.2040, 0.1245, 0.2371], [0.1245, 0.5442, 0.1165], [0.2371, 0.1165, 0.4490]])
"""Covariance of log L, log rho and log d over the published models that can be compared."""
RECIPES, STUDIES = 40, 40


def study() -> pd.DataFrame:
    """Every recipe at every shape, half of the recipes of either corpus; rows of a recipe do not stand together."""
    rows = pd.DataFrame(np.repeat(SHAPES, RECIPES, axis=0), columns=["log_L", "log_rho", "log_d"])
    number = np.arange(len(rows)) % RECIPES
    corpus = np.where(number < RECIPES // 2, "english", "synthetic")
    return rows.assign(recipe=[f"r{i:02d}" for i in number], corpus=corpus).assign(heritage=lambda own: own.recipe)


def found(world: str, worlds: dict[str, object] = WORLDS) -> np.ndarray:
    """Standard deviations by recipe, geometry, scale and corpus: roots of mean variances over studies and corpora."""
    X = np.column_stack([np.ones(len(SHAPES)), SHAPES - SHAPES.mean(axis=0)])
    variances = []
    for seed in range(STUDIES):
        made = worlds[world].change(study(), np.random.default_rng(seed))
        y = made["log_gain"].to_numpy().reshape(len(SHAPES), RECIPES)
        each = np.linalg.lstsq(X, y, rcond=None)[0]
        halves = [each[:, : RECIPES // 2], each[:, RECIPES // 2 :]]
        left = np.split(np.square(y - X @ each).sum(axis=0), 2)
        for own, squares in zip(halves, left, strict=True):
            noise = squares.sum() / (RECIPES / 2 * (len(SHAPES) - X.shape[1]))
            slopes = own[1:].mean(axis=1)
            geometry, scale = slopes[:2] @ REFERENCE[:2, :2] @ slopes[:2], slopes[2] ** 2 * REFERENCE[2, 2]
            apart = (halves[0][0].mean() - halves[1][0].mean()) ** 2 / 4
            error = (halves[0][0].var(ddof=1) + halves[1][0].var(ddof=1)) / (RECIPES / 2) / 4
            variances.append([own[0].var(ddof=1) - noise / len(SHAPES), geometry, scale, apart - error])
    return np.sqrt(np.maximum(np.mean(variances, axis=0), 0))


@pytest.mark.parametrize(
    ("world", "sds"),
    [
        ("as claimed", (0.053, 0.042, 0.019, 0)),
        ("reversed", (0.019, 0.042, 0.053, 0)),
        ("as claimed, corpora as found", (0.053, 0.042, 0.019, 0.09)),
    ],
)
def test_a_world_has_the_components_that_it_says(world: str, sds: tuple[float, ...]) -> None:
    assert found(world) == pytest.approx(sds, abs=0.006)
    said = "SDs of recipe, geometry and scale of {:g}, {:g} and {:g}"
    assert WORLDS[world].words.startswith(said.format(*sds[:3]))


def test_corpora_lie_as_far_apart_as_their_world_says() -> None:
    assert found("as claimed", BETWEEN)[3] == pytest.approx(0.084, abs=0.006)
    assert {name for name, world in BETWEEN.items() if world.holds} == {"as claimed", "as claimed, all larger in one"}


def test_worlds_hold_where_the_order_is_as_claimed() -> None:
    true = {world.id for world in WORLDS.values() if world.holds}
    assert {"as claimed", "as claimed, corpora as found", "far apart", "as claimed, t3"} <= true
    assert not {name for name in true if "alike" in name or "=" in name or name in {"reversed", "sizes as found"}}
    assert [world.id for world in WORLDS.values() if world.declared] == ["as claimed"]

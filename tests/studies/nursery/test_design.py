"""The design: what it identifies, what is orthogonal, what is aliased, and that the shipped file is this design."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from thermostats.studies.nursery.design import N_LAYERS, RECIPE, SHAPES, blocks, model_matrix
from thermostats.studies.nursery.shipped import shipped_table


@pytest.fixture(scope="module")
def shipped() -> pd.DataFrame:
    return shipped_table()


def test_sixteen_recipes_of_five_models_and_one_second_seed(shipped):
    assert len(shipped) == 96 and shipped["model"].is_unique and shipped["seed"].is_unique
    assert set(shipped["recipe"].value_counts()) == {6} and shipped["recipe"].nunique() == 16
    again = shipped[shipped["replicate_of"] != ""].set_index("replicate_of")
    first = shipped.set_index("model").loc[again.index]
    same = [name for name in shipped if name not in ("model", "seed", "replicate_of")]
    assert len(again) == 16 and again["recipe"].is_unique and again[same].equals(first[same])
    assert (again["seed"] != first["seed"]).all()


def test_depths_and_densities_are_crossed_evenly_and_every_recipe_has_all(shipped):
    distinct = shipped[shipped["replicate_of"] == ""]
    cells = pd.crosstab(distinct["n_layers"], distinct["rho"])
    assert cells.shape == (len(N_LAYERS), 3) and set(cells.to_numpy().ravel()) == {6, 7}
    by_recipe = distinct.groupby("recipe")
    assert (by_recipe["n_layers"].nunique() == 4).all() and (by_recipe["rho"].nunique() == 3).all()
    assert set(distinct["d_model"]) == {d for d, _ in SHAPES}


def test_main_effects_recipe_by_geometry_and_curvature_are_identified(shipped):
    x = model_matrix(shipped).to_numpy()
    assert np.linalg.matrix_rank(x) == x.shape[1] == 1 + sum(len(names) for names in blocks().values())
    centred = ((x - x.mean(axis=0)) ** 2).sum(axis=0)
    inflation = np.diag(np.linalg.inv(x.T @ x)) * centred
    assert ((inflation[1:] > 1 - 1e-9) & (inflation[1:] < 4)).all()
    one_recipe = model_matrix(shipped[shipped["recipe"] == "r01"]).to_numpy()
    assert np.linalg.matrix_rank(one_recipe) < one_recipe.shape[1]


def levels(frame: pd.DataFrame, factor: str) -> pd.DataFrame:
    dummies = pd.get_dummies(frame[factor]).astype(float)
    return dummies - dummies.mean()


def test_main_effects_of_the_recipe_are_orthogonal_but_for_the_decay_that_adam_lacks(shipped):
    frame = shipped.drop_duplicates("recipe")
    assert frame["recipe"].is_unique and len(frame) == 16
    for name in ("optimiser", "init"):
        assert set(frame[name].value_counts()) == {4} and set(frame[name]) == set(RECIPE[name])
    for name in ("schedule", "peak", "dropout", "corpus"):
        assert set(frame[name].value_counts()) == {8}
    for a, b in combinations([name for name in RECIPE if name != "decay"], 2):
        assert np.allclose(levels(frame, a).T.to_numpy() @ levels(frame, b).to_numpy(), 0), (a, b)
    assert (frame.loc[frame["optimiser"] == "adam", "decay"] == "none").all()
    x = model_matrix(frame)
    recipe = x[blocks()["recipe"]]
    r = recipe.corr()["decay"].drop("decay")
    assert (r.drop(["init=normal", "init=depth_scaled"]).abs() < 1e-9).all()
    assert (r[["init=normal", "init=depth_scaled"]].abs() < 0.25).all()

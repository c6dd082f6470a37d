"""The design: what it identifies, what is orthogonal, what is aliased, and that the shipped file is this design."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from thermostats.studies.nursery.design import (
    DISTINCT,
    TWO_LEVEL,
    _exchange,
    blocks,
    candidates,
    design,
    model_matrix,
    recipes,
)
from thermostats.studies.nursery.factors import BUILDS, N_LAYERS, RECIPE, SHAPES
from thermostats.studies.nursery.plan import shipped_table


@pytest.fixture(scope="module")
def shipped() -> pd.DataFrame:
    return shipped_table()


@pytest.mark.slow
def test_the_shipped_design_is_what_the_script_draws(shipped):
    drawn = design()
    pd.testing.assert_frame_equal(drawn, shipped, check_dtype=False, check_exact=False)


def test_sixteen_recipes_of_five_models_and_one_second_seed(shipped):
    assert len(shipped) == 96 and shipped["model"].is_unique and shipped["seed"].is_unique
    assert set(shipped["recipe"].value_counts()) == {DISTINCT + 1} and shipped["recipe"].nunique() == 16
    again = shipped[shipped["replicate_of"] != ""].set_index("replicate_of")
    first = shipped.set_index("model").loc[again.index]
    same = [name for name in shipped if name not in ("model", "seed", "replicate_of")]
    assert len(again) == 16 and again["recipe"].is_unique and again[same].equals(first[same])
    assert (again["seed"] != first["seed"]).all()


def test_every_model_is_one_of_the_candidates_of_its_recipe(shipped):
    known = shipped.merge(recipes()).merge(candidates())
    assert len(known) == len(shipped)
    assert np.allclose(shipped["rho"], shipped["n_heads"] / shipped["d_head"])
    assert (shipped["n_heads"] * shipped["d_head"] == shipped["d_model"]).all()
    assert {(b.architecture, b.norm, b.position) for b in BUILDS} == set(
        zip(shipped["architecture"], shipped["norm"], shipped["position"], strict=True)
    )


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


def test_depth_density_and_width_hardly_go_together(shipped):
    r = model_matrix(shipped)[["log_L", "log_rho", "log_d"]].corr()
    assert abs(r.loc["log_L", "log_rho"]) < 0.05
    assert abs(r.loc["log_rho", "log_d"]) < 0.05
    assert abs(r.loc["log_L", "log_d"]) < 0.15


def levels(frame: pd.DataFrame, factor: str) -> pd.DataFrame:
    dummies = pd.get_dummies(frame[factor]).astype(float)
    return dummies - dummies.mean()


def test_main_effects_of_the_recipe_are_orthogonal_but_for_the_decay_that_adam_lacks():
    frame = recipes()
    assert frame["recipe"].is_unique and len(frame) == 16
    for name in ("optimiser", "init"):
        assert set(frame[name].value_counts()) == {4} and set(frame[name]) == set(RECIPE[name])
    for name in ("schedule", "peak", "dropout", "corpus"):
        assert set(frame[name].value_counts()) == {8}
    for a, b in combinations([name for name in RECIPE if name != "decay"], 2):
        assert np.allclose(levels(frame, a).T.to_numpy() @ levels(frame, b).to_numpy(), 0), (a, b)
    assert (frame.loc[frame["optimiser"] == "adam", "decay"] == "none").all()
    x = model_matrix(candidates().iloc[:1].merge(frame, how="cross"))
    recipe = x[blocks()["recipe"]]
    r = recipe.corr()["decay"].drop("decay")
    assert (r.drop(["init=normal", "init=depth_scaled"]).abs() < 1e-9).all()
    assert (r[["init=normal", "init=depth_scaled"]].abs() < 0.25).all()


def test_each_two_level_factor_is_aliased_with_one_interaction_of_optimiser_and_initialisation():
    frame = recipes()
    points = np.array([[(i >> bit) & 1 for bit in (3, 2, 1, 0)] for i in range(16)])
    assert len(set(TWO_LEVEL.values())) == len(TWO_LEVEL)
    for name, coordinates in TWO_LEVEL.items():
        assert set(coordinates) & {0, 1} and set(coordinates) & {2, 3}
        level = points[:, list(coordinates)].sum(axis=1) % 2
        exists = (frame[name] != "none").to_numpy()
        assert (frame[name] == np.array(RECIPE[name])[level])[exists].all()


def test_another_seed_draws_another_design_of_the_same_kind(monkeypatch):
    """One start of the exchange in the place of eight."""
    monkeypatch.setattr("thermostats.studies.nursery.design.STARTS", 1)
    drawn = design(3)
    pd.testing.assert_frame_equal(drawn, design(3))
    assert len(drawn) == 96 and drawn["model"].is_unique and drawn["seed"].is_unique
    distinct = drawn[drawn["replicate_of"] == ""]
    cells = distinct.groupby(["n_layers", "rho"]).size()
    assert len(cells) == 12 and cells.min() >= 6 and cells.max() <= 7
    assert np.linalg.matrix_rank(model_matrix(drawn)) == model_matrix(drawn).shape[1]
    assert not drawn["model"].equals(shipped_table()["model"])
    again = drawn[drawn["replicate_of"] != ""].set_index("replicate_of")
    first = drawn.set_index("model").loc[again.index]
    same = list(candidates().columns)
    assert len(again) == 16 and (again[same] == first[same]).all(axis=None) and (again["seed"] != first["seed"]).all()


def test_the_exchange_raises_the_determinant_above_that_of_random_choices():
    rng = np.random.default_rng(1)
    reached, frame = _exchange(np.random.default_rng(1))
    pool, menu = recipes(), candidates()
    assert len(frame) == len(pool) * DISTINCT
    for _ in range(5):
        picked = menu.iloc[rng.integers(len(menu), size=len(frame))].reset_index(drop=True)
        x = model_matrix(picked.assign(**{c: np.repeat(pool[c].to_numpy(), DISTINCT) for c in pool})).to_numpy()
        assert np.linalg.slogdet(x.T @ x)[1] < reached

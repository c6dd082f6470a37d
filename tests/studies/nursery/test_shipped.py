"""The trained models that ship: small, of different recipes, and giving the gains that the shipped
tables say."""

import numpy as np
import pandas as pd
import pytest

from thermostats.studies.nursery import load_shipped_table
from thermostats.tables import store
from thermostats.tables.folders import list_shipped_models

LIMIT = 2_000_000
CHECKPOINTS = 6


@pytest.fixture(scope="module")
def layers():
    runs = store.load("runs")
    return store.load("layers").merge(
        runs[["run_id", "model_id", "revision", "source"]], on="run_id"
    )


def test_three_models_of_different_recipes_each_under_two_megabytes():
    paths = list_shipped_models()
    design = load_shipped_table().set_index("model").loc[[path.name for path in paths]]
    assert len(paths) == 3
    assert (
        design["optimiser"].is_unique
        and design["architecture"].is_unique
        and design["recipe"].is_unique
    )
    assert all((path / "model.safetensors").stat().st_size < LIMIT for path in paths)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name, marks=[pytest.mark.slow] * (k > 0))
        for k, path in enumerate(list_shipped_models())
    ],
)
def test_a_shipped_model_has_the_gains_of_the_tables(path, layers, tmp_path):
    pytest.importorskip("torch")
    from thermostats.measurement.from_python import measure

    again = measure(
        str(path),
        tmp_path / "mine",
        prompts="nursery",
        what=("gains",),
        device="cpu",
        download=False,
    )
    steps = load_shipped_table("training").set_index("model").loc[path.name, "steps"]
    shipped = layers[
        (layers["model_id"] == f"nursery/{path.name}") & (layers["revision"] == f"step{steps:05d}")
    ]
    key = ["layer", "prompt_id", "position"]
    both = again.merge(shipped, on=key, suffixes=("", "_shipped"))
    assert len(both) == len(shipped) == len(again)
    np.testing.assert_allclose(both["gain_block"], both["gain_block_shipped"], rtol=1e-4)


def test_sixteen_recipes_of_five_models_and_one_second_seed():
    shipped = load_shipped_table()
    assert len(shipped) == 96 and shipped["model"].is_unique and shipped["seed"].is_unique
    assert set(shipped["recipe"].value_counts()) == {6} and shipped["recipe"].nunique() == 16
    again = shipped[shipped["replicate_of"] != ""].set_index("replicate_of")
    first = shipped.set_index("model").loc[again.index]
    same = [name for name in shipped if name not in ("model", "seed", "replicate_of")]
    assert len(again) == 16 and again["recipe"].is_unique and again[same].equals(first[same])
    assert (again["seed"] != first["seed"]).all()


def test_every_model_of_the_design_is_measured_at_six_checkpoints(layers):
    design = load_shipped_table()
    nursery = layers[layers["source"] == "nursery"]
    counts = nursery.drop_duplicates(["model_id", "revision"])["model_id"].value_counts()
    assert len(design) >= 96
    assert (counts[["nursery/" + model for model in design["model"]]] == CHECKPOINTS).all()


def test_records_say_what_was_learned():
    training = load_shipped_table("training")
    finite = training["loss"].notna()
    assert (training["learned"] == (finite & (training["loss"] < training["loss_unigram"]))).all()
    trained = training[training["parent"].isna()]
    assert set(trained["model"]) == set(load_shipped_table()["model"])
    tuned = training[training["parent"].notna()]
    assert (
        tuned["model"].str.removesuffix("-tuned").map(lambda name: name.split("-")[0]).nunique()
        == 16
    )
    losses = load_shipped_table("losses")
    ends = losses[losses["part"] == "heldout"].groupby("model")["loss"].last()
    known = training.dropna(subset="loss").set_index("model")["loss"]
    pd.testing.assert_series_equal(ends[known.index], known, check_names=False, atol=1e-4)

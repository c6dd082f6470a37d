"""Trained models put into the tables, and the verbs of the nursery from end to end."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

from nursery import designs, measuring
from nursery.__main__ import app
from nursery.designs import Design, Member, Pack
from nursery.pack_training import run as run_pack
from nursery.recipes import drawn, shape_of
from thermostats.errors import DataError, UsageError
from thermostats.tables import store
from thermostats.tables.folders import find_shipped

RECIPE = replace(drawn(1, 3, 128)[0], name="small", steps=6, batch=2)
PACK = Pack("small", shape_of(2, 0.125, 32), (Member("small-1", RECIPE, 7),), 128, (0.0, 1.0))


def test_a_trained_model_is_measured_once(made, tmp_path):
    run_pack(PACK, made)
    shutil.copy(find_shipped("data") / "prompts.csv", tmp_path)
    for status in ("measured", "skipped"):
        assert [
            outcome.status for _, outcome in measuring.measure_all(PACK.members, made, tmp_path)
        ] == [status]
    models = store.load("models", tmp_path)
    (row,) = models[models["model_id"] == "nursery/small-1"].to_dict("records")
    facts = {"revision": "step00006", "variant": "base", "heritage": "nursery", "family": "small"}
    facts |= {"position_scheme": "rotary", "norm_place": "pre", "seed_of": "", "parent": ""}
    assert {name: row[name] for name in facts} == facts
    layers = store.load("layers", tmp_path)
    assert (layers["gain_block"].dropna() > 0).all() and set(layers["layer"]) >= {1, 2}


def test_nothing_to_compare_is_an_error(made):
    run_pack(PACK, made)
    with pytest.raises(DataError, match="nothing to compare"):
        measuring.compare(PACK.members, made)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_recipes_of_the_design_that_ships_are_printed():
    result = run("design", "--json")
    recipes = json.loads(result.stdout)
    assert result.exit_code == 0 and len(recipes) == 36 and recipes[0]["name"] == "c001"
    assert "440 models in" in result.stderr


@pytest.mark.slow
def test_a_design_file_from_end_to_end(small_corpora, tmp_path):
    folder = shutil.copytree(small_corpora, tmp_path / "nursery")
    path = tmp_path / "own.toml"
    recipes = [replace(recipe, steps=6, batch=2) for recipe in drawn(2, 3, 128)]
    designs.write(
        Design("own", 3, 128, 1.0, 1, designs.parse_grid(["L=2 rho=0.125 d=32"]), tuple(recipes)),
        path,
    )
    arguments = (path, "--folder", folder, "--json")
    result = run("train", *arguments, "--processes", 1)
    assert result.exit_code == 0, result.exception
    names = {line["model"] for line in json.loads(result.stdout)}
    tuned = {name for name in names if name.endswith(("-corpus", "-optimiser", "-decay"))}
    trained = names - tuned
    assert (
        len(tuned) % 3 == 0
        and len(trained) == 3
        and len([name for name in trained if name.endswith("-again")]) == 1
    )
    measured = run("measure", *arguments, "--data", tmp_path / "mine")
    assert measured.exit_code == 0, measured.exception
    assert {line["model"] for line in json.loads(measured.stdout)} == names
    models = store.load("models", tmp_path / "mine").set_index("model_id")
    assert set(models.loc[[f"nursery/{name}" for name in tuned], "variant"]) <= {"instruct"}
    again = next(name for name in names if name.endswith("-again"))
    assert models.loc[f"nursery/{again}", "seed_of"] == f"nursery/{again.removesuffix('-again')}"
    path.write_text(path.read_text().replace("seed = 3", "seed = 4"))
    result = run("train", *arguments)
    assert isinstance(result.exception, UsageError) and "another design" in str(result.exception)

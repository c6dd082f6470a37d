"""A model trained again held against the shipped tables, and the verbs of the nursery from end to end."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_corpora import BUDGET, row, small_corpora

from thermostats.errors import DataError, UsageError
from thermostats.studies.nursery import designs, measuring, training
from thermostats.studies.nursery.cli import app
from thermostats.studies.nursery.designs import Design
from thermostats.studies.nursery.plan import read_record
from thermostats.studies.nursery.recipes import drawn
from thermostats.tables import store
from thermostats.tables.folders import shipped

OWN = row("small-1")
"""Under a name that no shipped model has."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = small_corpora(tmp_path_factory.mktemp("corpora"))
    training.train(OWN, folder, budget=BUDGET)
    return folder


@pytest.fixture(scope="module")
def measured(made, tmp_path_factory):
    """A data folder with the prompts and what was measured of the trained model."""
    data = tmp_path_factory.mktemp("data")
    shutil.copy(shipped("data") / "prompts.csv", data)
    done = read_record(made, OWN["model"])
    store.save(measuring.rows_of_models(OWN, made, done), "models", data / "models.csv")
    outcomes = [outcome for _, outcome in measuring.measure_all([OWN], made, data)]
    assert [outcome.status for outcome in outcomes].count("failed") == 0
    return data


def with_shipped(monkeypatch, data):
    monkeypatch.setattr(measuring, "shipped", lambda name: data)


def test_the_same_training_has_the_same_gains(made, measured, monkeypatch):
    with_shipped(monkeypatch, measured)
    found = measuring.compare([OWN], made)
    assert set(found["checkpoint"]) == {"step00000", "step00001", "step00004", "step00012"}
    assert found["same"].all() and found["largest"].max() < 1e-6 and found["difference"].abs().max() < 1e-6
    assert set(found["rows"]) == {2 * 6}


def test_other_gains_are_told_apart_by_the_stated_tolerance(made, measured, tmp_path, monkeypatch):
    other = shutil.copytree(measured, tmp_path / "other")
    for path in (other / "measured" / "layers").glob("*.csv"):
        layers = pd.read_csv(path, keep_default_na=False)
        layers["gain_block"] = pd.to_numeric(layers["gain_block"]) * 1.1
        layers.to_csv(path, index=False)
    with_shipped(monkeypatch, other)
    found = measuring.compare([OWN], made)
    assert not found["same"].any()
    assert found["difference"].to_numpy() == pytest.approx([-0.0953102] * len(found), abs=1e-4)


def test_nothing_to_compare_is_an_error(made, measured, monkeypatch, tmp_path):
    with_shipped(monkeypatch, measured)
    with pytest.raises(DataError, match="nothing to compare"):
        measuring.compare([row("r07-1")], made)


def test_a_second_measurement_finds_everything_finished(made, measured):
    statuses = {outcome.status for _, outcome in measuring.measure_all([OWN], made, measured)}
    assert statuses == {"skipped"}
    models = store.load("models", measured)
    own = models[models["model_id"] == "nursery/small-1"].set_index("revision")
    assert list(own.sort_index()["variant"]) == ["", "", "", "base"]
    assert set(own["heritage"]) == {"nursery"} and set(own["family"]) == {"small"}


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_first_design_is_printed():
    said = run("design", "--json")
    assert said.exit_code == 0 and len(json.loads(said.stdout)) == 96


@pytest.mark.slow
def test_a_design_file_from_end_to_end(made, tmp_path):
    folder = shutil.copytree(made, tmp_path / "nursery", ignore=shutil.ignore_patterns("models"))
    own = tmp_path / "own.toml"
    recipes = [replace(recipe, steps=6, batch=2) for recipe in drawn(2, 3, 128)]
    designs.write(Design("own", 3, 128, 1.0, 1, designs.parse_grid(["L=2 rho=0.125 d=32"]), tuple(recipes)), own)
    told = ("--folder", folder, "--design", own, "--json")
    said = run("train", *told, "--processes", 1)
    assert said.exit_code == 0, said.exception
    found = {line["model"] for line in json.loads(said.stdout)}
    tuned = {name for name in found if name.endswith(("-corpus", "-optimiser", "-decay"))}
    trained = found - tuned
    assert len(tuned) % 3 == 0 and len(trained) == 3 and len([name for name in trained if name.endswith("-again")]) == 1
    measured = run("measure", *told, "--data", tmp_path / "mine")
    assert measured.exit_code == 0, measured.exception
    assert {line["model"] for line in json.loads(measured.stdout)} == found
    models = store.load("models", tmp_path / "mine").set_index("model_id")
    assert set(models.loc[[f"nursery/{name}" for name in tuned], "variant"]) <= {"instruct"}
    again = next(name for name in found if name.endswith("-again"))
    assert models.loc[f"nursery/{again}", "seed_of"] == f"nursery/{again.removesuffix('-again')}"
    own.write_text(own.read_text().replace("seed = 3", "seed = 4"))
    said = run("train", *told)
    assert isinstance(said.exception, UsageError) and "another design" in str(said.exception)

"""Which models are tuned and how, and that a tuned one begins where its base ended."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from nursery import designs, measuring, second_study, tables, tuning
from nursery.designs import Design
from nursery.pack_training import run as run_pack
from nursery.recipes import OPTIMISERS, Recipe
from nursery.records import GAINS, RECORD, model_folder, read_record
from thermostats.errors import DataError

PLAIN = Recipe("a", "english", "adamw", 3e-3, 0.5, "cosine", 0.1, 2, 10, 0.5, 0.5, 0.1, 0.0, 1.0)
RECIPES = tuple(
    replace(PLAIN, name=name, optimiser=kind) for name, kind in zip("abcd", OPTIMISERS, strict=True)
)
DESIGN = Design(
    "own", 1, 128, 1.0, 2, {"L": [2], "rho": [0.125, 2.0], "d": [32]}, RECIPES, shares=(0.0, 1.0)
)


@pytest.fixture(scope="module")
def trained(made):
    """Trained models that are all said to have learned; of recipes a and b all dampen."""
    assert tuning.tuned_packs(DESIGN, made) == []
    for pack in DESIGN.packs():
        for record in run_pack(pack, made):
            place = model_folder(made, record.model)
            (place / RECORD).write_text(
                json.dumps(vars(record) | {"learned": record.model != "d-L02d32h8"})
            )
            rows = pd.read_csv(place / GAINS)
            sign = -1 if record.model[0] in "ab" else 1
            rows.assign(log_gain=sign * rows["log_gain"].abs()).to_csv(place / GAINS, index=False)
    return made


def test_bases_are_of_both_sides_learned_and_first_seeds(trained):
    bases = tuning.bases(DESIGN.packs(), trained, DESIGN.bases)
    assert sorted(name[0] for name in bases) == ["a", "a", "b", "b", "c", "c", "d"]
    assert not [name for name in bases if name.endswith("-again")] and "d-L02d32h8" not in bases


def test_every_base_is_tuned_in_three_ways_from_where_it_ended(trained):
    packs = tuning.tuned_packs(DESIGN, trained)
    members = {member.model: member for pack in packs for member in pack.members}
    assert len(members) == 7 * 3 and {member.recipe.steps for member in members.values()} == {3}
    run_pack(packs[0], trained)
    for member in packs[0].members:
        base = member.parent.partition("/")[0]
        before, after = (
            pd.read_csv(model_folder(trained, name) / GAINS) for name in (base, member.model)
        )
        ended = before[before["step"] == 10]["wv_norm"].to_numpy()
        assert after[after["step"] == 0]["wv_norm"].to_numpy() == pytest.approx(ended, rel=1e-5)
        assert after[after["step"] == 3]["wv_norm"].to_numpy() != pytest.approx(ended, rel=1e-5)
        assert read_record(trained, member.model).parent == member.parent


def test_tables_of_a_folder_are_what_findings_read(trained, tmp_path):
    designs.write(DESIGN, tmp_path / "own.toml")
    with pytest.raises(DataError, match="models are not trained, such as"):
        tables.write(tmp_path / "own.toml", trained, tmp_path)
    for pack in tuning.tuned_packs(DESIGN, trained):
        run_pack(pack, trained)
    tables.write(tmp_path / "own.toml", trained, tmp_path)
    models = pd.read_csv(tmp_path / "models.csv")
    written = pd.read_parquet(tmp_path / "gains.parquet")
    rows = second_study.along(models, written)
    members = [member for pack in DESIGN.packs() for member in pack.members]
    assert set(models["model"]) >= {member.model for member in members}
    of_model = rows[rows["model"] == "c-L02d32h8"].set_index("step")
    gains = pd.read_csv(model_folder(trained, "c-L02d32h8") / GAINS)
    first = gains[(gains["step"] == 10) & (gains["layer"] == 1)].iloc[0]
    assert of_model.loc[10, "log_gain"] == pytest.approx(first["log_gain"])
    assert (
        of_model.loc[10, "log_rho"] == pytest.approx(np.log(2.0))
        and of_model.loc[10, "share"] == 1.0
    )
    end = gains[gains["step"] == 10]
    assert of_model.loc[10, "log_wv"] == pytest.approx(np.log(end["wv_norm"]).mean())
    last = second_study.ends(models, written)
    assert len(last) == 8 and not last["model"].str.endswith("-again").any()
    y, x = second_study.at_every_shape(last)
    assert y.shape == (4, 2) and np.allclose(sorted(np.exp(x[:, 1])), [0.125, 2.0])


def shipped(trained, members, monkeypatch, changed=lambda rows: rows):
    """Let the gains of trained models, or what is made of them, be those that ship."""
    gains = [
        pd.read_csv(model_folder(trained, m.model) / GAINS).assign(model=m.model) for m in members
    ]
    monkeypatch.setattr(
        measuring, "load_shipped_table", {"second/gains": changed(pd.concat(gains))}.get
    )


@pytest.mark.parametrize("factor, same", [(1.0, True), (1.1, False)])
def test_a_training_is_compared_with_the_shipped_gains(trained, monkeypatch, factor, same):
    members = DESIGN.packs()[0].members
    shipped(
        trained,
        members,
        monkeypatch,
        lambda rows: rows.assign(log_gain=rows["log_gain"] + np.log(factor)),
    )
    compared = measuring.compare(members, trained)
    assert set(compared["checkpoint"]) == {"step00000", "step00010"} and len(compared) == 2 * len(
        members
    )
    assert compared["difference"].to_numpy() == pytest.approx([-np.log(factor)] * len(compared))
    assert compared["same"].all() == same


def test_layers_that_differ_in_turn_are_not_the_same(trained, monkeypatch):
    members = DESIGN.packs()[0].members[:1]
    shipped(
        trained,
        members,
        monkeypatch,
        lambda rows: rows.assign(log_gain=rows["log_gain"] + [0.2, -0.2, 0.2, -0.2]),
    )
    compared = measuring.compare(members, trained)
    assert compared["largest"].to_numpy() == pytest.approx([0.2, 0.2])
    assert compared["difference"].to_numpy() == pytest.approx([0, 0]) and not compared["same"].any()


@pytest.mark.parametrize("gone", ["nan", "inf", "", None])
def test_a_gain_that_is_not_finite_or_not_there_is_not_the_same(
    trained, tmp_path, monkeypatch, gone
):
    members = DESIGN.packs()[0].members[:1]
    shipped(trained, members, monkeypatch)
    place = model_folder(tmp_path, members[0].model)
    shutil.copytree(model_folder(trained, members[0].model), place)
    rows = pd.read_csv(place / GAINS, dtype=str)
    if gone is None:
        rows = rows[rows["step"] == "0"]
    else:
        rows.loc[rows["step"] == "10", "log_gain"] = gone
    rows.to_csv(place / GAINS, index=False)
    compared = measuring.compare(members, tmp_path)
    assert compared["checkpoint"].tolist() == ["step00000", "step00010"] and compared[
        "same"
    ].tolist() == [True, False]


def test_a_model_that_does_not_ship_is_not_compared(trained, monkeypatch):
    members = DESIGN.packs()[0].members
    shipped(trained, members[:1], monkeypatch)
    assert set(measuring.compare(members, trained)["model"]) == {members[0].model}


@pytest.mark.parametrize("decay, more", [(0.5, 5.0), (0.0, 1 / (3e-3 * 3))])
def test_what_a_recipe_becomes(decay, more):
    recipe = replace(PLAIN, decay=decay)
    assert tuning.tuned(recipe, "corpus") == replace(recipe, corpus="synthetic", steps=3)
    assert tuning.tuned(recipe, "decay").decay == pytest.approx(more)
    other = tuning.tuned(recipe, "optimiser")
    assert other.optimiser == "lion" and other.rate * other.decay == pytest.approx(
        recipe.rate * recipe.decay
    )
    assert tuning.tuned(replace(recipe, optimiser="sgd"), "optimiser").optimiser == "adamw"

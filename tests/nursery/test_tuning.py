"""Which models are tuned and how, and that a tuned one begins where its base ended."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_corpora import small_corpora

from thermostats.studies.nursery import tuning
from thermostats.studies.nursery.designs import Design
from thermostats.studies.nursery.plan import GAINS, RECORD, model_folder, read_record
from thermostats.studies.nursery.recipes import OPTIMISERS, Recipe

PLAIN = Recipe("a", "english", "adamw", 3e-3, 0.5, "cosine", 0.1, 2, 10, 0.5, 0.5, 0.1, 0.0, 1.0)
RECIPES = tuple(replace(PLAIN, name=name, optimiser=kind) for name, kind in zip("abcd", OPTIMISERS, strict=True))
DESIGN = Design("own", 1, 128, 1.0, 2, {"L": [2], "rho": [0.125, 2.0], "d": [32]}, RECIPES, shares=(0.0, 1.0))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trained models that are all said to have learned; of recipes a and b all dampen."""
    folder = small_corpora(tmp_path_factory.mktemp("corpora"))
    packs = DESIGN.packs()
    assert tuning.tuned_packs(DESIGN, packs, folder) == []
    for pack in packs:
        for record in pack.run(folder):
            own = model_folder(folder, record.model)
            (own / RECORD).write_text(json.dumps(vars(record) | {"learned": record.model != "d-L02d32h8"}))
            rows = pd.read_csv(own / GAINS)
            sign = -1 if record.model[0] in "ab" else 1
            rows.assign(log_gain=sign * rows["log_gain"].abs()).to_csv(own / GAINS, index=False)
    return folder


def test_bases_are_of_both_sides_learned_and_first_seeds(trained):
    found = tuning.bases(DESIGN.packs(), trained)
    assert sorted(name[0] for name in found) == ["a", "a", "b", "b", "c", "c", "d"]
    assert not [name for name in found if name.endswith("-again")] and "d-L02d32h8" not in found


def test_every_base_is_tuned_in_three_ways_from_where_it_ended(trained):
    packs = tuning.tuned_packs(DESIGN, DESIGN.packs(), trained)
    members = {member.model: member for pack in packs for member in pack.members}
    assert len(members) == 7 * 3 and {member.recipe.steps for member in members.values()} == {3}
    packs[0].run(trained)
    for member in packs[0].members:
        base = member.parent.partition("/")[0]
        before, after = (pd.read_csv(model_folder(trained, name) / GAINS) for name in (base, member.model))
        ended = before[before["step"] == 10]["wv_norm"].to_numpy()
        assert after[after["step"] == 0]["wv_norm"].to_numpy() == pytest.approx(ended, rel=1e-5)
        assert after[after["step"] == 3]["wv_norm"].to_numpy() != pytest.approx(ended, rel=1e-5)
        assert read_record(trained, member.model).parent == member.parent


@pytest.mark.parametrize("decay, more", [(0.5, 5.0), (0.0, 1 / (3e-3 * 3))])
def test_what_a_recipe_becomes(decay, more):
    recipe = replace(PLAIN, decay=decay)
    assert tuning.tuned(recipe, "corpus") == replace(recipe, corpus="synthetic", steps=3)
    assert tuning.tuned(recipe, "decay").decay == pytest.approx(more)
    other = tuning.tuned(recipe, "optimiser")
    assert other.optimiser == "lion" and other.rate * other.decay == pytest.approx(recipe.rate * recipe.decay)
    assert tuning.tuned(replace(recipe, optimiser="sgd"), "optimiser").optimiser == "adamw"

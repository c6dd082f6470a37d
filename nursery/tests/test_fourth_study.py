"""The fourth study: its frozen design is what it says, and the models of its tables are those of
the design."""

from __future__ import annotations

from collections import Counter

import pytest

from nursery import designs, fourth_study, third_study
from nursery.fourth_study import CORPORA, OUT, RECIPES
from nursery.tests.test_designs import design
from thermostats.errors import UsageError
from thermostats.studies.nursery import load_shipped_table

DESIGN = designs.read(OUT / "design.toml")


def test_the_frozen_design_is_what_its_digest_says_and_what_the_code_makes(tmp_path):
    stated = (OUT / "design.sha256").read_text().strip()
    assert stated == designs.digest(OUT / "design.toml")
    designs.write(fourth_study.build_design(), tmp_path / "again.toml")
    assert (tmp_path / "again.toml").read_bytes() == (OUT / "design.toml").read_bytes()


def test_recipes_are_those_of_the_third_study_in_both_corpora():
    third = {
        recipe.name: recipe for recipe in designs.read(third_study.OUT / "design.toml").recipes
    }
    assert len(DESIGN.recipes) == len(RECIPES) * len(CORPORA) == 24
    for recipe in DESIGN.recipes:
        assert recipe == third[recipe.name]


def test_eight_recipes_have_a_second_seed_in_both_corpora():
    models = [member for pack in DESIGN.packs() for member in pack.members]
    again = [member for member in models if member.replicate_of]
    per_recipe = Counter(member.recipe.name.partition("-")[0] for member in again)
    assert len(models) == 40
    assert set(per_recipe.values()) == {2}
    assert len(per_recipe) == fourth_study.SECOND_SEEDS
    seeds = {member.model: member.seed for member in models}
    assert all(seeds[member.model] != seeds[member.replicate_of] for member in again)


def test_the_tables_hold_the_models_of_the_design_and_three_tuned_from_each_that_learned():
    rows = load_shipped_table("fourth/models")
    trained = rows[rows["parent"].isna()]
    assert set(trained["model"]) == {m.model for pack in DESIGN.packs() for m in pack.members}
    bases = trained[trained["replicate_of"].isna() & trained["learned"]]
    tuned = rows[rows["parent"].notna()]
    assert Counter(tuned["parent"].str.partition("/")[0]) == dict.fromkeys(bases["model"], 3)


def test_a_second_seed_of_a_recipe_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match=r"no such recipe in the design.*c009"):
        design(again=("c009",)).check()

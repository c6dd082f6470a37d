"""The script that makes the shipped interventions: models, targets, texts; and the rows that
ship."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from nursery import corpora, designs, fourth_study
from nursery.prompts import WINDOW
from scripts import steer_nursery
from scripts.steer_nursery import CROSSED, CURVE, MARGIN, SEEDS, SETTINGS, Study, list_goals
from thermostats.measurement.steering_spec import FACTORS
from thermostats.tables import store
from thermostats.tables.choices import of_interventions

STARTS = {"penultimate_gain": 1.2, "last_gain": 0.9, "geometric_gain": 1.1}
SUBJECT = SimpleNamespace(start=STARTS.get)


def study(*, crosses: bool) -> Study:
    return Study(Path("model"), "nursery/fourth/m", crosses)


def test_a_first_seed_has_a_curve_and_crossings_with_mirrors_under_two_seeds() -> None:
    first, second = (list(list_goals(study(crosses=True), SUBJECT, seed)) for seed in SEEDS)
    assert [goal.target for goal in first if goal.target is None] == [None]
    curve = [goal.target for goal in first[1:7]]
    assert curve == pytest.approx([1.2 * factor for factor in FACTORS])
    assert {goal.gain for goal in first[1:7]} == {CURVE}
    assert first[7:] == second[1:]
    pairs = {}
    for goal in first[7:]:
        pairs.setdefault(goal.gain, []).append(goal.target)
    assert set(pairs) == set(CROSSED)
    for gain, (target, mirrored) in pairs.items():
        assert target == pytest.approx(1 / MARGIN if STARTS[gain] > 1 else MARGIN)
        assert np.log(target / STARTS[gain]) == pytest.approx(-np.log(mirrored / STARTS[gain]))


def test_a_second_seed_of_a_recipe_has_its_curve_alone() -> None:
    goals = list(list_goals(study(crosses=False), SUBJECT, SEEDS[0]))
    assert len(goals) == 1 + len(FACTORS)


@pytest.mark.parametrize("crosses", [True, False])
def test_a_model_is_complete_with_all_its_goals_and_tunings(crosses: bool) -> None:
    seeds = SEEDS if crosses else SEEDS[:1]
    goals = [goal for seed in seeds for goal in list_goals(study(crosses=crosses), SUBJECT, seed)]
    tuned = tuple((f"corpus {place}", Path("tuned"), 200) for place in range(3))
    assert steer_nursery.count_rows(study(crosses=crosses)) == len(goals)
    whole = replace(study(crosses=crosses), tuned=tuned)
    assert steer_nursery.count_rows(whole) == len(goals) + 3


def test_real_texts_are_the_windows_of_the_held_out_loss(monkeypatch, tmp_path) -> None:
    tokens = np.arange(5000, dtype=np.uint16) % 1000
    monkeypatch.setattr(corpora, "load", lambda *_: SimpleNamespace(heldout=tokens))
    prompts = {"english": np.ones((25, WINDOW), dtype=np.uint16)}
    monkeypatch.setattr(corpora, "prompt_sets", lambda *_: prompts)
    real = steer_nursery.cut_texts(tmp_path, "english")
    context = designs.read(fourth_study.OUT / "design.toml").context
    assert real.texts.ids.shape == (64, context + 1)
    assert real.texts.ids[0].tolist() == tokens[: context + 1].tolist()
    assert len(real.prompts) == 25
    assert steer_nursery.cut_texts(tmp_path, "") is None


def test_the_shipped_rows_are_those_of_the_design() -> None:
    rows = store.load("interventions")
    runs = store.load("runs")
    runs = runs[of_interventions(runs)]
    rows = rows.merge(runs[["run_id", "model_id"]], on="run_id")
    design = designs.read(fourth_study.OUT / "design.toml")
    for pack in design.packs():
        for member in pack.members:
            here = rows[rows["model_id"] == steer_nursery.name_model(member.model)]
            counts = here["operation"].value_counts().to_dict()
            again = bool(member.replicate_of)
            expected = {"steer": 6, "floor": 1} if again else {"steer": 18, "floor": 2, "tune": 3}
            assert counts == expected, member.model
    steered = rows[rows["operation"] == "steer"]
    assert set(steered["steps"]) == {SETTINGS.steps}
    assert (steered["kl_lower"] <= steered["kl"]).all()

"""Packs side by side: what is through, what failed, what is skipped, and what an engine without its
library says."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from nursery.designs import Member, Pack
from nursery.pack_training import run as run_pack
from nursery.recipes import Recipe, shape_of
from nursery.records import read_record
from nursery.training import train_all
from thermostats.errors import UsageError
from thermostats.measurement.spec import EngineSettings

PLAIN = Recipe("a", "english", "adamw", 3e-3, 0.5, "cosine", 0.1, 2, 6, 0.5, 0.5, 0.1, 0.0, 1.0)
SHAPE = shape_of(2, 0.125, 32)


def pack(name, **changed):
    recipe = replace(PLAIN, name=name, **changed)
    return Pack(name, SHAPE, (Member(f"{name}-small", recipe, 7),), 128, (0.0, 1.0))


def through(steps):
    return [trained.model for step in steps for trained in step.trained]


@pytest.mark.slow
def test_the_longest_begin_and_nothing_is_trained_a_second_time(made):
    wanted = [pack("short", steps=3), pack("long")]
    steps = list(train_all(wanted, made, processes=1))
    assert through(steps) == ["long-small", "short-small"]
    assert all(0 <= step.share <= 1 for step in steps)
    again = list(train_all(wanted, made, processes=1))
    assert through(again) == ["short-small", "long-small"] and len(again) == 2
    assert [list(step.trained) for step in again] == [
        [read_record(made, f"{p.name}-small")] for p in wanted
    ]


def test_a_failed_training_is_raised_when_the_others_are_through(made):
    done = []
    with pytest.raises(UsageError, match="no-such-corpus"):
        for step in train_all(
            [pack("bad", corpus="no-such-corpus", steps=9), pack("good")], made, processes=1
        ):
            done.append(step)
    assert through(done) == ["good-small"] and read_record(made, "bad-small") is None


@pytest.mark.slow
def test_a_cluster_trains_to_the_same_bits(made, small_corpora, tmp_path):
    pytest.importorskip("ray")
    folder = shutil.copytree(small_corpora, tmp_path / "nursery")
    here = pack("there")
    losses = [model.loss for model in run_pack(here, made)]
    steps = list(train_all([here], folder, engine=EngineSettings("ray")))
    assert [model.loss for step in steps for model in step.trained] == losses
    assert (
        list(train_all([here], folder, engine=EngineSettings("ray")))[-1].share == 1.0
    )  # nothing is begun again


def test_without_its_library_a_cluster_says_what_to_install(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"\[ray\]"):
        list(train_all([pack("elsewhere")], made, engine=EngineSettings("ray")))

"""What a user says of a model: into rows of their own, of models that are theirs, checked before it
is written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import model, snapshot, table

from thermostats.errors import ThermostatsError, UsageError
from thermostats.measurement.spec import RunSpec
from thermostats.tables import store
from thermostats.tables.choices import PLACEHOLDERS, refuse_placeholder
from thermostats.tables.folders import prepare_folder
from thermostats.tables.join import join
from thermostats.tables.model_rows import check_lab, read_own_models, set_facts


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A store of two revisions of one model whose lab nobody named."""
    folder = prepare_folder(tmp_path / "mine")
    rows = [{**model("my-model", heritage=""), "revision": name} for name in ("main", "step1")]
    join(table("models", *rows), data=folder)
    return folder


def named(folder: Path, column: str) -> list[object]:
    return list(read_own_models(folder)[column])


def test_a_lab_is_written_into_every_revision_or_one(mine: Path) -> None:
    shipped = len(store.load("models"))
    (done,) = set_facts("my-model", {"heritage": "Karpathy"}, data=mine)
    assert (done.replaced, done.added, named(mine, "heritage")) == (2, 0, ["Karpathy"] * 2)
    set_facts("my-model", {"year": "2024", "family": "own"}, revision="step1", data=mine)
    assert named(mine, "year") == [2020, 2024]
    assert len(store.load("models", mine)) == shipped + 2


@pytest.mark.parametrize(
    ("model_id", "facts", "message"),
    [
        ("my-model", {"year": "last"}, "'last' is not a whole number"),
        ("my-model", {"variant": "strange"}, "'strange' is not allowed"),
        ("my-modell", {"heritage": "Us"}, "did you mean my-model?"),
        ("EleutherAI/pythia-160m", {"heritage": "Us"}, "no such model among your own rows"),
        ("my-model", {"heritag": "Us"}, "Next: thermostats set my-model heritage=Us"),
        ("my-model", {"n_layers": "4"}, "not a fact to set: got n_layers"),
    ],
)
def test_what_cannot_be_set_is_said(
    mine: Path, model_id: str, facts: dict[str, str], message: str
) -> None:
    before = snapshot(mine)
    with pytest.raises(ThermostatsError, match=re.escape(message)):
        set_facts(model_id, facts, data=mine)
    assert snapshot(mine) == before


@pytest.mark.parametrize(
    ("fact", "word"),
    [("heritage", "LAB"), ("lab", "LAB"), ("heritage", "VALUE"), ("family", "FAMILY")],
)
def test_a_word_in_capitals_pasted_as_it_was_printed_is_no_fact(
    mine: Path, fact: str, word: str
) -> None:
    before = snapshot(mine)
    with pytest.raises(UsageError, match=f"pasted as it was printed.*{word}"):
        set_facts("my-model", {fact: word}, data=mine)
    assert snapshot(mine) == before
    set_facts("my-model", {fact: f"{word} of ours"}, data=mine)


def test_rows_or_a_run_of_the_lab_in_capitals_are_refused(mine: Path) -> None:
    before = snapshot(mine)
    for accept in (False, True):
        with pytest.raises(UsageError, match=r"pasted as it was printed.*\(heritage\): got LAB"):
            join(table("models", model("own/one", heritage="LAB")), data=mine, accept=accept)
    with pytest.raises(UsageError, match="pasted as it was printed"):
        RunSpec("own/one", heritage="LAB")
    assert snapshot(mine) == before


@pytest.mark.parametrize("nothing", [None, pd.NA, np.nan, ""])
def test_a_fact_that_is_missing_is_no_word_in_capitals(nothing: object) -> None:
    for fact in PLACEHOLDERS:
        refuse_placeholder(fact, nothing)


@pytest.mark.parametrize("fact", [*PLACEHOLDERS, "variant"])
def test_every_fact_has_its_words_in_one_table(fact: str) -> None:
    for word in {PLACEHOLDERS.get(fact, "VALUE"), "VALUE", fact.upper()}:
        with pytest.raises(UsageError, match=rf"pasted as it was printed.*\({fact}\): got {word}"):
            refuse_placeholder(fact, word)
    refuse_placeholder(fact, "Mine")


def test_a_lab_that_is_new_but_spelt_like_another_is_asked_about(mine: Path) -> None:
    for lab in ("eleutherai", "EleutherAI ", "Eleuther-AI"):
        with pytest.raises(UsageError, match="spell this lab otherwise") as caught:
            check_lab(lab, "me/x", mine)
        assert (
            caught.value.allowed == "EleutherAI"
            and "thermostats set me/x" in caught.value.next_step
        )
    for lab in ("EleutherAI", "A new lab", ""):
        check_lab(lab, "me/x", mine)

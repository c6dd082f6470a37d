"""Rows that can hardly be what they say are asked about, by row and cause; whoever insists may join them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import model, snapshot, table

from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.join import join
from thermostats.tables.schemas import key

PYTHIA = "EleutherAI/pythia-160m"
"""A model that ships: 12 layers of 12 heads."""


def layers(*gains: float, **columns: Any) -> pd.DataFrame:
    at = range(13 - len(gains), 13)
    named = {"model_id": PYTHIA, "source": "mine", "prompt_id": "", "position": "last", **columns}
    return pd.DataFrame({"layer": at, "gain_block": gains, **named})


def summary(estimand: str, value: float) -> pd.DataFrame:
    return pd.DataFrame({"model_id": [PYTHIA], "source": "mine", "prompt_id": "", "estimand": estimand, "value": value})


def doubts(frame: pd.DataFrame, name: str, data: Path) -> tuple[str, ...]:
    """What is asked about rows; nothing is written, and insisting joins them."""
    before = snapshot(data) if data.exists() else {}
    with pytest.raises(DataError, match="hardly what they say") as caught:
        join(frame, table=name, data=data)
    assert "--accept" in caught.value.next_step
    assert (snapshot(data) if data.exists() else {}) == before
    assert sum(done.added for done in join(frame, table=name, data=data, accept=True)) >= len(frame)
    assert sum(done.added + done.replaced for done in join(frame, table=name, data=data)) == 0  # it is not asked again
    return caught.value.rows


USUAL = (1.12, 1.04, 0.97)


@pytest.mark.parametrize(
    ("gains", "cause"),
    [
        ([100 * gain for gain in USUAL], "per cent"),
        ([abs(math.log(gain)) for gain in USUAL], "a logarithm"),
        ([1000 * gain for gain in USUAL], "another unit"),
    ],
)
def test_gains_in_another_unit(gains: list[float], cause: str, tmp_path: Path) -> None:
    (doubt, *_) = doubts(layers(*gains), "layers", tmp_path / "mine")
    assert PYTHIA in doubt and cause in doubt and "times" in doubt
    join(layers(*USUAL), table="layers", data=tmp_path / "fair")
    assert len(store.load("layers", tmp_path / "fair")) == len(store.load("layers")) + 3


@pytest.mark.parametrize("estimand", ["penultimate_gain", "penultimate_gain_mean", "last_gain"])
def test_summaries_in_another_unit_or_below_zero(estimand: str, tmp_path: Path) -> None:
    for number, (value, cause) in enumerate(((112.0, "per cent"), (-5.0, "above 0"), (0.0, "above 0"))):
        (doubt,) = doubts(summary(estimand, value), "summaries", tmp_path / str(number))
        assert cause in doubt and PYTHIA in doubt
    assert join(summary(estimand, 1.2), table="summaries", data=tmp_path / "fair")[1].added == 1


def test_a_name_that_nothing_reads_and_a_spread_below_zero(tmp_path: Path) -> None:
    (doubt,) = doubts(summary("gain", 1.1), "summaries", tmp_path / "mine")
    assert "nothing reads it" in doubt and "gain" in doubt
    (doubt,) = doubts(summary("penultimate_gain_sd", -0.1), "summaries", tmp_path / "other")
    assert "standard deviation" in doubt


SHAPES = {
    "key/value heads": {"n_heads": 12, "n_kv_heads": 8, "d_head": 1},
    "d_embed": {"d_embed": 4},
    "n_params 0": {},
    "in thousands or millions": {"n_params": 3, "n_params_nonembedding": 2},
}


@pytest.mark.parametrize("words", SHAPES)
def test_columns_of_a_model_that_contradict_each_other(words: str, tmp_path: Path) -> None:
    row = {**model("me/x"), "architecture": "mine", "heritage": "Me", **SHAPES[words]}
    if not SHAPES[words]:  # as it is, it is plausible
        assert join(table("models", row), data=tmp_path / "mine")[0].added == 1
        return
    assert any(words in doubt for doubt in doubts(table("models", row), "models", tmp_path / "mine"))


@pytest.mark.parametrize("lab", ["EleutherAI ", "eleutherai", "Eleuther AI", "\u00a0EleutherAI"])
def test_a_lab_that_is_spelt_otherwise(lab: str, tmp_path: Path) -> None:
    row = table("models", {**model("me/x"), "architecture": "mine"}).assign(heritage=lab)
    assert any("'EleutherAI'" in doubt for doubt in doubts(row, "models", tmp_path / "mine"))


def test_a_spectral_norm_above_the_frobenius_norm_entropy_in_bits_and_a_depth_in_per_cent(tmp_path: Path) -> None:
    run = {"model_id": PYTHIA, "source": "mine"}
    norms = {"layer": [1], "matrix": "W_V", "head": "", "spectral_norm": 3.0, "frobenius_norm": 2.0, **run}
    (doubt,) = doubts(pd.DataFrame(norms), "weights", tmp_path / "a")
    assert "Frobenius" in doubt
    bits = math.log2(50304)
    (doubt,) = doubts(pd.DataFrame({"prompt_id": ["a"], "entropy": bits, **run}), "outputs", tmp_path / "b")
    assert "in bits" in doubt
    row = {"prompt_id": ["a"], "definition": "peak", "trace_variant": "unstated", "layer": 6.0, **run}
    (doubt,) = doubts(pd.DataFrame({**row, "relative_depth": 50.0}), "transitions", tmp_path / "c")
    assert "per cent" in doubt
    assert join(pd.DataFrame({**row, "relative_depth": 0.5}), table="transitions", data=tmp_path / "d")[1].added == 1


@pytest.mark.parametrize("name", ["layers", "summaries"])
def test_figures_of_a_study_joined_as_a_users_are_plausible(name: str, tmp_path: Path) -> None:
    runs = store.load("runs")
    theirs = runs[runs["source"].isin(store.load("sources")["file"])][["run_id", "model_id"]]
    rows = store.load(name).merge(theirs, on="run_id").drop(columns="run_id").assign(source="theirs")
    rows = rows.drop_duplicates(["model_id", *(label for label in key(name) if label not in ("run_id", "prompt_id"))])
    done = join(rows.assign(prompt_id=""), table=name, data=tmp_path / "mine", dry_run=True)
    assert done[1].added > 20


def test_a_dry_run_counts_and_writes_nothing(tmp_path: Path) -> None:
    done = join(layers(*USUAL), table="layers", data=tmp_path / "mine", dry_run=True)
    assert [(each.table, each.added) for each in done] == [("runs", 1), ("layers", 3)]
    assert not (tmp_path / "mine").exists()
    with pytest.raises(DataError, match="hardly"):
        join(layers(120.0), table="layers", data=tmp_path / "mine", dry_run=True)

"""Rows of interventions: read, joined, exported and forgotten as others; no measurement is made of
them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from conftest import model, run, table

import thermostats
from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.choices import (
    EXTERNAL,
    MEASURED,
    NURSERY,
    POOLED,
    PUBLISHED,
    SETS,
    mark_set,
)
from thermostats.tables.features import build_features
from thermostats.tables.join import forget, join
from thermostats.tables.schemas import INTERVENED

CHANGED = {
    "prompt_set": "",
    "prompt_sha": "",
    "measure_version": f"{INTERVENED} 1",
    "attention": "default",
}
ROW = {"operation": "steer", "gain": "penultimate_gain", "target": 0.95, "seed": 1, "steps": 400}
ROW |= {"every": "text", "n_train": 512, "n_held_out": 32, "n_tokens": 97, "kl": 0.012}


def rows(
    source: str = "tests", model_id: str = "lab/small"
) -> tuple[dict, pd.DataFrame, pd.DataFrame]:
    changed = run(model_id, source=source, **CHANGED)
    frame = table(
        "interventions",
        {**ROW, "run_id": changed["run_id"], "intervention": "penultimate_gain to 0.95"},
    )
    return changed, table("runs", changed), frame


def test_they_are_joined_and_add_nothing_to_features(small_store: Path) -> None:
    before = build_features(small_store)
    changed, runs, frame = rows()
    done = join([runs, frame], data=small_store)
    assert {each.table: each.added for each in done} == {"runs": 1, "interventions": 1}
    assert {each.added for each in join([runs, frame], data=small_store)} == {0}
    pd.testing.assert_frame_equal(build_features(small_store), before)
    assert store.check(small_store)["interventions"] >= 1
    place = small_store / "measured" / "interventions" / f"{changed['run_id']}.csv"
    assert place.is_file()


def test_a_model_with_interventions_alone_has_no_row_of_features(small_store: Path) -> None:
    _, runs, frame = rows(model_id="lab/other")
    join([table("models", model("lab/other")), runs, frame], data=small_store)
    assert "lab/other" not in set(build_features(small_store)["model_id"])
    with_models = thermostats.load("interventions", data=small_store, models=True)
    assert set(with_models.loc[with_models["model_id"] == "lab/other", "n_layers"]) == {3}


def test_an_intervention_of_a_run_that_is_not_there_is_refused(small_store: Path) -> None:
    _, _, frame = rows("nobody")
    with pytest.raises(DataError, match="runs does not have"):
        join([frame], data=small_store)


@pytest.mark.parametrize(
    "value", [{"target": -1.0}, {"operation": "push"}, {"kl": -0.5}, {"beyond": 1.5}]
)
def test_what_cannot_be_is_refused(small_store: Path, value: dict[str, object]) -> None:
    changed, runs, _ = rows()
    with pytest.raises(DataError):
        frame = table(
            "interventions", {**ROW, **value, "run_id": changed["run_id"], "intervention": "x"}
        )
        join([runs, frame], data=small_store)


def test_they_are_exported_described_and_forgotten(small_store: Path, tmp_path: Path) -> None:
    _, runs, frame = rows("my steering")
    join([runs, frame], data=small_store)
    thermostats.export(tmp_path / "out", ["interventions"], data=small_store)
    written = pd.read_csv(tmp_path / "out" / "interventions.csv")
    assert 0.95 in set(written["target"])
    codebook = (tmp_path / "out" / "CODEBOOK.md").read_text()
    assert "nat per token" in codebook
    assert forget("my steering", data=small_store)["interventions"] == 1
    held = store.load("interventions", small_store)
    assert "my steering" not in set(store.load("runs", small_store)["source"])
    assert held.empty


def test_they_are_a_set_of_their_own() -> None:
    frames = [rows(source)[:2] for source in ("thermostats", NURSERY)]
    measured = run(source="thermostats")
    runs = pd.concat([*(frame for _, frame in frames), table("runs", measured)], ignore_index=True)
    changed = {row["run_id"] for row, _ in frames}
    chosen = {name: set(runs.loc[mark_set(name, runs, set(), runs), "run_id"]) for name in SETS}
    assert chosen[INTERVENED] == changed
    assert chosen[MEASURED] == chosen[POOLED] == {measured["run_id"]}
    assert not (chosen[NURSERY] | chosen[PUBLISHED] | chosen[EXTERNAL])

"""Tables and features as one asks for them: with their models, of the models that one means,
refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import layer, model, run, table

import thermostats
from thermostats.errors import UsageError
from thermostats.tables import features as feature_table
from thermostats.tables import store
from thermostats.tables.reading import features, load, number_revisions


@pytest.fixture(scope="module")
def shipped() -> pd.DataFrame:
    return features()


def test_features_are_of_the_models_one_means(shipped: pd.DataFrame) -> None:
    assert "nursery" not in set(shipped["heritage"]) | set(shipped["source"])
    assert not shipped.duplicated(["model_id", "source"]).any()
    every = features(every=True)
    built = feature_table.build_features()
    by_run = [rows.sort_values("run_id", ignore_index=True) for rows in (every, built)]
    pd.testing.assert_frame_equal(*by_run)
    assert every["model_id"].is_monotonic_increasing
    steps = number_revisions(every["revision"]).groupby(every["model_id"])
    assert all(numbers.is_monotonic_increasing for _, numbers in steps)
    assert set(shipped["model_id"]) == set(every.loc[every["source"] != "nursery", "model_id"])


def test_revisions_stand_by_their_steps_and_main_is_the_last() -> None:
    names = pd.Series(["main", "step10000", "first", "step5000", "step-00600"])
    order = number_revisions(names).sort_values().index
    assert names[order].tolist() == ["first", "step-00600", "step5000", "step10000", "main"]


def test_features_are_filtered_in_words(shipped: pd.DataFrame) -> None:
    pythia = features(lab="eleutherai", family="pythia")
    expected = shipped[(shipped["heritage"] == "EleutherAI") & (shipped["family"] == "pythia")]
    pd.testing.assert_frame_equal(pythia, expected.reset_index(drop=True))
    assert len(features(source="pythia_family")) == 8
    both = features(model=["gpt2", "EleutherAI/pythia-70m"])
    assert set(both["model_id"]) == {"openai-community/gpt2", "EleutherAI/pythia-70m"}


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"lab": "Eleuther"}, "did you mean EleutherAI?"),
        ({"family": "pithia"}, 'Next: thermostats.features(family="pythia")'),
        ({"lab": 3}, "not a name or a list of names (lab)"),
        ({"lab": ["EleutherAI", None]}, "not a name (lab)"),
        ({"position": "lats"}, "no such token position"),
        ({"data": 3}, "give the path of the data folder"),
    ],
)
def test_wrong_filters_are_refused(filters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        features(**filters)
    assert message in str(refused.value)


def test_of_checkpoints_the_last_counts_and_of_runs_the_one_with_most_prompts(
    tmp_path: Path,
) -> None:
    folder = tmp_path
    steps = ["step2", "step10"]
    runs = [run(revision=step, source="mine") for step in steps]
    wide = run(revision="step10", source="mine", dtype="bfloat16")
    rows = [layer(each, number, 2.0) for each in runs for number in (1, 2, 3)]
    rows += [layer(wide, number, 3.0, prompt) for number in (1, 2, 3) for prompt in ("a", "b")]
    for name, frame in {
        "models": table("models", *({**model(), "revision": step} for step in steps)),
        "runs": table("runs", *runs, wide),
        "layers": table("layers", *rows),
    }.items():
        store.save(frame, name, folder / f"{name}.csv")
    (row,) = features(folder, source="mine").to_dict("records")
    assert (row["revision"], row["dtype"], row["last_gain"]) == ("step10", "bfloat16", 3.0)
    assert len(features(folder, source="mine", every=True)) == 3


def test_tables_come_with_lab_family_and_geometry() -> None:
    rows = load("layers", models=True)
    assert len(rows) == len(load("layers"))
    runs, models = (
        load("runs", models=True),
        store.load("models").drop_duplicates("model_id").set_index("model_id"),
    )
    labs = runs.set_index("run_id")["model_id"].map(models["heritage"])
    assert (rows["heritage"].to_numpy() == rows["run_id"].map(labs).to_numpy()).all()
    assert {"family", "n_layers", "n_heads", "d_head", "d_model", "n_params"} <= set(rows)
    assert {"heritage", "n_layers"} <= set(runs)
    with pytest.raises(UsageError, match="belong to no run or model"):
        load("prompts", models=True)
    for name in (3, ["layers"], "layer"):
        with pytest.raises(UsageError, match="no such table"):
            load(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sources", [3, {"a": [1]}, ["nothing.csv"], [pd.DataFrame({"a": [1]})], [None]]
)
def test_a_refused_join_leaves_nothing(tmp_path: Path, sources: Any) -> None:
    with pytest.raises(UsageError):
        thermostats.join(sources, data=tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("there", [False, True])
def test_a_join_that_refers_to_nothing_leaves_and_says_nothing(
    there: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if there:
        (tmp_path / "mine").mkdir()
    rows = pd.DataFrame(
        {"model_id": ["no/model"], "source": ["mine"], "layer": [1], "prompt_id": ["a"]}
    )
    rows = rows.assign(position="last", gain_block=1.0)
    with pytest.raises(thermostats.errors.DataError):
        thermostats.join(rows, table="layers", data=tmp_path / "mine")
    assert (tmp_path / "mine").exists() == there
    assert not (tmp_path / "mine" / "store.toml").exists()
    assert capsys.readouterr().err == ""

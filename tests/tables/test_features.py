"""Features per model against values worked out by hand on a small store."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import make_empty_store, model, run
from hypothesis import given
from hypothesis import strategies as st

from thermostats.errors import DataError, UsageError
from thermostats.tables import store
from thermostats.tables.features import FEATURES, TRANSITION, Groups, build_features, combine
from thermostats.tables.schemas import FLAG, GAINS

DEFAULTS: dict[str, dict[str, Any]] = {
    "models": {
        **model(n_layers=4),
        "n_kv_heads": 1,
        "n_params": 1000,
        "n_params_nonembedding": 100,
    },
    "runs": run(prompt_sha="", source="here"),
    "layers": {"position": "last"},
    "transitions": {"trace_variant": "unstated"},
}


def table(name: str, *rows: dict[str, Any]) -> pd.DataFrame:
    filled = pd.DataFrame([{**DEFAULTS.get(name, {}), **row} for row in rows])
    return store.validate(filled.reindex(columns=list(store.list_dtypes(name))), name)


def gains(
    run: str, prompt: str, values: dict[int, float], position: str = "last"
) -> list[dict[str, Any]]:
    keys = {"run_id": run, "prompt_id": prompt, "position": position}
    return [{**keys, "layer": layer, "gain_block": value} for layer, value in values.items()]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    tables = {
        "models": table("models", {}, {"model_id": "lab/post", "norm_place": "post"}),
        "runs": table(
            "runs",
            {"run_id": "measured"},
            {"run_id": "weights", "prompt_set": ""},
            {"run_id": "averaged", "source": "file", "prompt_set": "five"},
            {"run_id": "alone", "model_id": "lab/post", "source": "spectra", "prompt_set": ""},
        ),
        "layers": table(
            "layers",
            *gains("measured", "p1", {1: 10.0, 2: 2.0, 3: 1.0, 4: 0.5}),
            *gains("measured", "p2", {1: 20.0, 2: 2.0, 3: 2.0, 4: 2.0}),
            *gains("measured", "p3", {1: 5.0, 2: math.nan, 3: 4.0, 4: 4.0}),
            *gains("measured", "p1", dict.fromkeys(range(1, 5), 100.0), "mean"),
            *gains("averaged", "", {1: 30.0, 2: 4.0, 3: 1.0}),
            *gains("averaged", "", {4: 50.0}, "all"),
            *gains("averaged", "q1", {3: 0.5}),
            *gains("averaged", "q2", {3: 2.0}),
        ),
        "summaries": table(
            "summaries",
            {"run_id": "averaged", "estimand": "normed_gain_mean", "value": 3.0},
            {"run_id": "averaged", "estimand": "normed_gain_sd", "value": 0.25},
            {"run_id": "averaged", "estimand": "penultimate_gain_sd", "value": 99.0},
            {
                "run_id": "averaged",
                "estimand": "total_amplification",
                "prompt_id": "q1",
                "value": 4.0,
            },
            {
                "run_id": "averaged",
                "estimand": "total_amplification",
                "prompt_id": "q2",
                "value": 9.0,
            },
        ),
        "transitions": table(
            "transitions",
            {"run_id": "averaged", "definition": "peak", "layer": 9.0},
            {"run_id": "averaged", "definition": "peak", "prompt_id": "q1", "layer": 2.0},
            {"run_id": "averaged", "definition": "peak", "prompt_id": "q2", "layer": 3.0},
            {
                "run_id": "averaged",
                "definition": "peak",
                "trace_variant": "multi_head",
                "layer": 4.0,
            },
        ),
        "weights": table(
            "weights",
            *[
                {"run_id": "weights", "layer": n, "matrix": "W_V", "spectral_norm": 2.0 * n}
                for n in (1, 2, 3, 4)
            ],
            *[
                {"run_id": "weights", "layer": n, "matrix": "W_O", "spectral_norm": 2.5}
                for n in (1, 2, 3, 4)
            ],
            {
                "run_id": "weights",
                "layer": 1,
                "matrix": "W_V",
                "head": "1",
                "spectral_norm": 1000.0,
            },
            {"run_id": "alone", "layer": 1, "matrix": "W_V", "spectral_norm": 7.0},
        ),
    }
    for name, frame in tables.items():
        store.save(frame, name, folder / f"{name}.csv")
    return folder


@pytest.fixture(scope="module")
def rows(data: Path) -> pd.DataFrame:
    return build_features(data).set_index("run_id")


def test_one_row_per_model_and_source(rows: pd.DataFrame) -> None:
    assert list(rows.index) == ["alone", "averaged", "measured"]
    assert not rows.duplicated(["model_id", "revision", "source"]).any()


@pytest.mark.parametrize(
    ("gain", "mean", "geometric", "sd", "n"),
    [
        ("last_gain", 6.5 / 3, 4.0 ** (1 / 3), np.std([0.5, 2.0, 4.0], ddof=1), 3),
        ("penultimate_gain", 7.0 / 3, 2.0, np.std([1.0, 2.0, 4.0], ddof=1), 3),
        ("geometric_gain", 1.5, math.sqrt(2.0), math.sqrt(0.5), 2),
        ("max_gain", 2.0, 2.0, 0.0, 2),
        (
            "geometric_gain_to_penultimate",
            (math.sqrt(2.0) + 2.0) / 2,
            2.0**0.75,
            (2 - math.sqrt(2)) / math.sqrt(2),
            2,
        ),
        ("max_gain_to_penultimate", 2.0, 2.0, 0.0, 2),
        ("total_amplification", 4.5, math.sqrt(8.0), 7.0 / math.sqrt(2.0), 2),
        ("total_amplification_from_input", 85.0, 40.0, 150.0 / math.sqrt(2.0), 2),
    ],
)
def test_gains_at_the_last_token(
    rows: pd.DataFrame, gain: str, mean: float, geometric: float, sd: float, n: int
) -> None:
    row = rows.loc["measured"]
    got = [row[gain], row[f"{gain}_geometric"], row[f"{gain}_sd"], row[f"{gain}_n"]]
    assert got == pytest.approx([mean, geometric, sd, n])
    assert row["n_prompts"] == 3


def test_gains_at_another_token_have_its_name_and_no_summaries(
    data: Path, rows: pd.DataFrame
) -> None:
    assert set(rows["token_position"]) == {"last"}
    pooled = build_features(data, position="mean").set_index("run_id")
    assert set(pooled["token_position"]) == {"mean"} and list(pooled.index) == list(rows.index)
    assert (
        pooled.loc["measured", "penultimate_gain"] == 100.0
        and pooled.loc["measured", "n_prompts"] == 1
    )
    assert pooled.loc["averaged", "normed_gain":"normed_gain_sd"].isna().all()
    assert pooled.loc["measured", "wv_norm"] == rows.loc["measured", "wv_norm"]
    with pytest.raises(UsageError, match="no such token position"):
        build_features(data, position="lats")


def test_averages_of_a_file_stand_where_there_are_no_prompts(rows: pd.DataFrame) -> None:
    row = rows.loc["averaged"]
    assert row["geometric_gain_to_penultimate"] == pytest.approx(2.0)
    assert row["max_gain_to_penultimate"] == 4.0
    assert [row["normed_gain"], row["normed_gain_sd"], row["normed_gain_n"]] == [3.0, 0.25, 0]
    assert pd.isna(row["normed_gain_geometric"])
    assert pd.isna(row["geometric_gain_to_penultimate_geometric"])


def test_prompts_come_before_averages(rows: pd.DataFrame) -> None:
    row = rows.loc["averaged"]
    got = [row["penultimate_gain"], row["penultimate_gain_geometric"], row["penultimate_gain_sd"]]
    assert got == pytest.approx([1.25, 1.0, 1.5 / math.sqrt(2.0)])
    assert [row["total_amplification"], row["total_amplification_geometric"]] == pytest.approx(
        [6.5, 6.0]
    )


@pytest.mark.parametrize(
    "gain", ["last_gain", "geometric_gain", "max_gain", "total_amplification_from_input"]
)
def test_no_summary_where_the_last_layer_is_not_given_at_the_last_token(
    rows: pd.DataFrame, gain: str
) -> None:
    assert pd.isna(rows.loc["averaged", gain])
    assert rows.loc["averaged", f"{gain}_n"] is pd.NA or rows.loc["averaged", f"{gain}_n"] == 0


def test_geometry(rows: pd.DataFrame) -> None:
    row = rows.loc["measured"]
    labels = [
        "rho",
        "aspect",
        "kv_ratio",
        "ff_ratio",
        "log10_n_params",
        "log10_n_params_nonembedding",
    ]
    assert [row[label] for label in labels] == pytest.approx([0.5, 2.0, 0.5, 4.0, 3.0, 2.0])
    assert rows["comparable"].to_dict() == {"measured": True, "averaged": True, "alone": False}


def test_transition_layers_by_definition_and_curve(rows: pd.DataFrame) -> None:
    row = rows.loc["averaged"]
    assert [row["L_star_peak"], row["L_star_peak_sd"]] == pytest.approx([2.5, math.sqrt(0.5)])
    assert row["L_star_peak_multi_head"] == 4.0
    assert pd.isna(row["L_star_peak_multi_head_sd"])
    assert pd.isna(rows.loc["measured", "L_star_peak"])


def test_spectral_norms_of_the_weights_run_stand_beside_the_gains(rows: pd.DataFrame) -> None:
    assert list(rows.loc["measured", ["wv_norm", "wo_norm", "wv_wo_ratio"]]) == [5.0, 2.5, 2.0]
    assert rows.loc["alone", "wv_norm"] == 7.0
    assert pd.isna(rows.loc["alone", "wv_wo_ratio"])
    assert pd.isna(rows.loc["averaged", "wv_norm"])


def test_rows_of_an_unknown_model_or_run_are_refused(tmp_path: Path) -> None:
    store.save(table("runs", {"run_id": "measured"}), "runs", tmp_path / "runs.csv")
    with pytest.raises(DataError, match="lab/small"):
        build_features(tmp_path)
    store.save(table("models", {}), "models", tmp_path / "models.csv")
    store.save(
        table("layers", *gains("nowhere", "p1", {1: 2.0})), "layers", tmp_path / "layers.csv"
    )
    with pytest.raises(DataError, match="nowhere"):
        build_features(tmp_path)


def test_every_column_is_described_in_its_order_with_its_type() -> None:
    table, stars = build_features(), (TRANSITION, f"{TRANSITION}_sd")
    stated = [stars[0] if label.startswith("L_star_") else label for label in table]
    assert list(dict.fromkeys(stated)) == [label for label in FEATURES if label != stars[1]]
    for label, column in FEATURES.items():
        assert column.description and "{" not in column.description
        if label not in stars:
            kind = str(table[label].dtype)
            assert kind == column.dtype or (column.dtype == FLAG and kind == "bool"), label


def test_of_one_block_the_total_is_one_and_from_the_input_its_gain() -> None:
    row = combine(
        table("runs", {"run_id": "r"}),
        table("models", {"n_layers": 1}),
        table("layers", *gains("r", "p1", {1: 3.0}), *gains("r", "p2", {1: 5.0})),
        *(table(name) for name in ("summaries", "transitions", "weights")),
    ).iloc[0]
    assert (row["total_amplification"], row["total_amplification_from_input"]) == (1.0, 4.0)
    assert (row["total_amplification_n"], row["last_gain"]) == (2, 4.0)
    assert np.isnan(row["geometric_gain"]) and np.isnan(row["penultimate_gain"])


def test_tables_without_rows_give_none_and_the_same_columns(
    tmp_path: Path, rows: pd.DataFrame
) -> None:
    empty = build_features(make_empty_store(tmp_path))
    assert empty.empty
    assert {f"{gain}{part}" for gain in GAINS for part in ("", "_geometric", "_sd", "_n")} <= set(
        empty.columns
    )
    assert set(rows.columns) - set(empty.columns) == {
        label for label in rows.columns if label.startswith("L_star_")
    }


@pytest.mark.skipif(
    not (store.find_shipped("data") / "published" / "runs.csv").is_file(),
    reason="no published tables",
)
@pytest.mark.parametrize(
    ("source", "model_id", "gain", "mean"),
    [
        ("pythia_family", "EleutherAI/pythia-70m", "penultimate_gain", 1.2011314482026154),
        ("high_rho_hunt", "tiiuae/falcon-7b", "penultimate_gain", 1.0274902759980347),
        ("twin_test", "mistralai/Mistral-7B-v0.1", "last_gain", 1.1060267134438262),
        ("twin_test", "google/gemma-7b-it", "last_gain", 1.153106714521428),
    ],
)
def test_published_means_come_back(source: str, model_id: str, gain: str, mean: float) -> None:
    shipped = build_features(store.find_shipped("data"))
    row = shipped[shipped["source"].str.startswith(source) & (shipped["model_id"] == model_id)]
    assert list(row[gain]) == pytest.approx([mean], rel=1e-6)


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-1e6, 1e6)), max_size=40))
def test_groups_are_summed_as_if_they_were_alone(rows: list[tuple[int, float]]) -> None:
    number = np.array([group for group, _ in rows], dtype=np.int64)
    values = np.array([value for _, value in rows], dtype=np.float64)
    groups = Groups.build(number)
    assert groups.numbers.tolist() == sorted(set(number.tolist()))
    for at, group in enumerate(groups.numbers):
        members = values[number == group]
        alone = Groups.build(np.zeros(len(members), dtype=np.int64))
        for grouped, by_itself, expected in (
            (groups.sum(values), alone.sum(members), members.sum()),
            (groups.mean(values), alone.mean(members), members.mean()),
            (groups.max(values), alone.max(members), members.max()),
            (
                groups.std(values),
                alone.std(members),
                np.std(members, ddof=1) if len(members) > 1 else np.nan,
            ),
        ):
            assert grouped[at : at + 1].tobytes() == by_itself.tobytes()
            assert grouped[at] == pytest.approx(expected, rel=1e-9, abs=1e-6, nan_ok=True)

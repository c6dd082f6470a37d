"""Models in which something else stands in attention's place: rows from end to end, and what they
have none of."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
import tiny

from thermostats.measurement.execute import run_specs
from thermostats.measurement.spec import RunSpec
from thermostats.tables import store
from thermostats.tables.features import build_features


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(store.find_shipped("data") / "models.csv", folder)
    return folder


def saved(name: str, folder: Path) -> Path:
    """A tiny model of an entry with the tokenizer of `small`."""
    small.save_model(folder)
    for path in [*folder.glob("*.safetensors"), folder / "config.json"]:
        path.unlink()
    tiny.build(name).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("name", "attending"),
    [
        ("jamba", (2,)),
        *(pytest.param(name, (), marks=pytest.mark.slow) for name in ("mamba", "qwen3_next")),
    ],
)
def test_a_model_is_measured_whole_and_a_second_call_does_nothing(
    name: str, attending: tuple[int, ...], tmp_path: Path, data: Path
) -> None:
    spec = RunSpec(
        str(saved(name, tmp_path / name)), prompts=str(small.save_prompts(tmp_path)), heritage="Us"
    )
    (first,) = run_specs([spec], data)
    assert first.status == "measured", first.problem.reason
    assert store.check(data)["runs"] == 2
    assert store.check(data)["layers"] == 3 * 3 * 3
    assert store.load("outputs", data)["entropy"].notna().all()
    rows = store.load("weights", data)
    assert set(rows["layer"]) == {0, *attending}
    layers = store.load("layers", data)
    assert layers[["gain_block", "gain_attention", "write_attention"]].notna().all(axis=None)
    assert layers["gain_mlp"].isna().all() == (name == "mamba")
    (again,) = run_specs([spec], data)
    assert again.status == "skipped"


def test_a_model_without_attention_has_no_heads_and_no_shape_of_them(
    tmp_path: Path, data: Path
) -> None:
    folder = saved("mamba", tmp_path / "mamba")
    (done,) = run_specs(
        [RunSpec(str(folder), prompts=str(small.save_prompts(tmp_path)), what=("gains",))], data
    )
    assert done.status == "measured", done.problem.reason
    row = store.load("models", data).set_index("model_id").loc["mamba"]
    assert (row[["n_heads", "n_kv_heads", "d_head", "d_ff"]] == 0).all()
    assert row["n_params"] == sum(p.numel() for p in tiny.build("mamba").parameters())
    gains = build_features(data).set_index("model_id").loc["mamba"]
    assert np.isnan(gains["rho"]) and np.isnan(gains["kv_ratio"])
    assert gains["last_gain"] > 0

"""Two models compared: against numpy on the files themselves, a change of known rank, and gains of
both measured."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
from safetensors.numpy import load_file, save_file

import thermostats
from thermostats.errors import UsageError
from thermostats.measurement.compare import measure_effective_rank

CHANGED = "transformer.h.1.mlp.c_fc.weight"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.save_model(tmp_path_factory.mktemp("models") / "base")


@pytest.fixture(scope="module")
def tuned(base: Path) -> Path:
    """The base with a change of rank 2 in one matrix, and another bias."""
    folder, rng = small.save_model(base.parent / "tuned"), np.random.default_rng(1)
    tensors = load_file(folder / "model.safetensors")
    rows, columns = tensors[CHANGED].shape
    low = rng.standard_normal((rows, 2)) @ rng.standard_normal((2, columns))
    tensors[CHANGED] = tensors[CHANGED] + (0.01 * low).astype(np.float32)
    tensors["transformer.ln_f.bias"] = tensors["transformer.ln_f.bias"] + np.float32(0.5)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_tensors_that_changed_by_how_much_and_in_what_rank(base: Path, tuned: Path) -> None:
    found = thermostats.compare(base, tuned)
    a, b = (load_file(folder / "model.safetensors") for folder in (base, tuned))
    assert set(found.tensors["tensor"]) == {name for name in a if not name.endswith(".attn.bias")}
    assert list(found.changed["tensor"]) == ["transformer.ln_f.bias", CHANGED]
    row = found.tensors.set_index("tensor").loc[CHANGED]
    change = b[CHANGED].astype(np.float64) - a[CHANGED]
    sigma = np.linalg.svd(change, compute_uv=False)
    assert row["distance"] == pytest.approx(
        np.linalg.norm(change) / np.linalg.norm(a[CHANGED].astype(np.float64))
    )
    assert row["rank"] == pytest.approx(np.square(sigma).sum() ** 2 / (sigma**4).sum())
    assert 1 < row["rank"] <= 2.001 and row["full_rank"] == min(change.shape)
    assert found.changed["distance"].iloc[0] == math.inf  # the bias was all zeros
    moved = sum(np.square(b[name].astype(np.float64) - a[name]).sum() for name in a)
    assert found.distance == pytest.approx(
        math.sqrt(moved / sum(np.square(x.astype(np.float64)).sum() for x in a.values()))
    )


@pytest.mark.slow
def test_a_model_is_at_no_distance_from_itself_and_gains_stand_beside(
    base: Path, tuned: Path, tmp_path: Path
) -> None:
    same = thermostats.compare(base, base)
    assert same.function < 1e-12 and same.function_notes == ()
    assert (
        same.distance == 0
        and same.changed.empty
        and same.tensors["rank"].isna().all()
        and same.gains.empty
    )
    prompts, data = str(small.save_prompts(tmp_path)), tmp_path / "data"
    for folder in (base, tuned):
        thermostats.measure(folder, data=data, prompts=prompts, what="gains", heritage="Us")
    gains = thermostats.compare(base, tuned, data=data).gains.set_index("gain")
    rows = thermostats.features(data, source="thermostats", every=True).set_index("model_id")
    first, second = (
        rows.loc[next(name for name in rows.index if name.endswith(end))]
        for end in ("base", "tuned")
    )
    assert (
        gains.loc["last_gain", "first"] == first["last_gain"]
        and gains.loc["last_gain", "second"] == second["last_gain"]
    )
    assert gains.loc["last_gain", "ratio"] == pytest.approx(
        second["last_gain"] / first["last_gain"]
    )


def test_models_of_other_shapes_are_refused_by_name(base: Path, tmp_path: Path) -> None:
    other = small.save_model(tmp_path / "other", n_layer=2)
    with pytest.raises(UsageError, match="not the same tensors") as refused:
        thermostats.compare(base, other)
    assert "transformer.h.2" in str(refused.value) and "and 7 more" in str(refused.value)
    wider = small.save_model(tmp_path / "wider", n_positions=10)
    with pytest.raises(UsageError, match=r"wpe\.weight"):
        thermostats.compare(base, wider)


def test_the_command_prints_what_changed(
    base: Path, tuned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from thermostats.cli.tools import compare

    compare(base, tuned)
    said = capsys.readouterr().out
    assert said.startswith("As functions: ") and "it says only how far" in said
    assert "As stored: 2 of " in said and CHANGED in said and "no gains of both" in said
    assert (
        max(len(digits) for digits in re.findall(r"\d+", said.partition("tensor\tshape")[2])) <= 6
    )
    compare(base, tuned, as_json=True)
    assert json.loads(capsys.readouterr().out)["tensors"][0].keys() >= {
        "tensor",
        "distance",
        "rank",
    }


def test_effective_rank_of_changes_that_are_known() -> None:
    q, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((9, 9)))
    assert measure_effective_rank(q[:, :4]) == pytest.approx(4)  # four singular values of 1
    assert measure_effective_rank(np.outer(q[0], q[1, :5])) == pytest.approx(1)
    assert measure_effective_rank(1e-200 * q) == pytest.approx(9) and math.isnan(
        measure_effective_rank(np.zeros((3, 2)))
    )

"""Changes without training: exact ones cost nothing, others move what they say, and what is none is
refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
import tiny
import torch
from typer.testing import CliRunner

import thermostats
from thermostats.cli.app import app
from thermostats.errors import UsageError
from thermostats.measurement.actions import Action, change_model, parse_actions
from thermostats.measurement.forward import extract_input, extract_tensor
from thermostats.measurement.prices import measure_matrices, read_texts
from thermostats.measurement.sampled_texts import pad_texts
from thermostats.measurement.stream_logs import read_stream
from thermostats.tables import store
from thermostats.tables.folders import find_shipped

ROWS = [[1, 5, 9, 11, 3], [1, 7, 2], [1, 4, 4, 8, 30, 21, 17]]
FEW: dict[str, Any] = {"held_out": 4, "tokens": 10}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models") / "tiny-gpt2"
    return small.save_model(place, bos_token_id=1, eos_token_id=2)


def changed(family: str, text: str) -> tuple[Any, Any]:
    base = tiny.opened(family)
    return base, change_model(base, parse_actions(text, len(base.blocks)))


@pytest.mark.parametrize(
    "family",
    ["llama", "gpt2", "gpt_neox", "opt", "bloom", "codegen", "qwen2", "gpt_bigcode", "deepseek_v2"],
)
def test_values_and_output_by_the_same_number_give_one_function_and_their_ratio_differs(
    family: str,
) -> None:
    texts = pad_texts(ROWS)
    base, by_values = changed(family, "W_V * 2")
    _, by_output = changed(family, "W_O * 2")
    _, by_both = changed(family, "W_V * 2, W_O / 2")
    with torch.no_grad():
        first, second = (read_stream(each, texts).logits for each in (by_values, by_output))
    assert torch.allclose(first, second, atol=1e-5)
    assert read_texts(by_both, texts, base).price == pytest.approx(0, abs=1e-6)
    assert read_texts(by_values, texts, base).price > 1e-6
    ratios = [
        measure_matrices(each)["wv_wo_ratio"] for each in (base, by_values, by_output, by_both)
    ]
    assert np.array(ratios) / ratios[0] == pytest.approx([1, 2, 0.5, 4], rel=1e-5)


def test_of_a_norm_that_subtracts_the_mean_a_constant_costs_nothing_and_moves_the_gain() -> None:
    texts = pad_texts(ROWS)
    base, moved = changed("gpt_neox", "stream 2 + 64")
    before, after = read_texts(base, texts), read_texts(moved, texts, base)
    assert after.price == pytest.approx(0, abs=1e-6)
    assert after.gain("block 2") > 1.5 * before.gain("block 2")
    assert after.gain("penultimate_read_gain") == pytest.approx(
        before.gain("penultimate_read_gain"), rel=1e-4
    )
    base, moved = changed("llama", "stream 2 + 64")
    assert read_texts(moved, texts, base).price > 1e-3


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2"])
def test_a_block_that_is_left_out_hands_on_what_it_reads(family: str) -> None:
    texts = pad_texts(ROWS)
    base, without = changed(family, "without block 2")
    reading = read_texts(without, texts, base)
    assert reading.gain("block 2") == pytest.approx(1, abs=1e-6)
    states: list[Any] = []
    block = base.blocks[1]
    handle = block.register_forward_hook(
        lambda _module, args, kwargs, out: states.append(
            (extract_input(args, kwargs), extract_tensor(out))
        ),
        with_kwargs=True,
    )
    halved = change_model(base, [Action("block", (2,), 0.5)])
    seen: list[Any] = []
    halved.blocks[2].register_forward_pre_hook(
        lambda _module, args, kwargs: seen.append(extract_input(args, kwargs)), with_kwargs=True
    )
    with torch.no_grad():
        read_stream(base, texts)
        read_stream(halved, texts)
    handle.remove()
    before, after = states[0]
    assert torch.allclose(seen[0], before + 0.5 * (after - before), atol=1e-5)


def test_the_model_itself_is_not_changed() -> None:
    base = tiny.opened("llama")
    before = {name: weight.clone() for name, weight in base.model.state_dict().items()}
    hooks = [len(block._forward_hooks) for block in base.blocks]
    change_model(base, parse_actions("W_V * 2, block 1 * 3, stream + 1", len(base.blocks)))
    assert all(torch.equal(w, before[name]) for name, w in base.model.state_dict().items())
    assert [len(block._forward_hooks) for block in base.blocks] == hooks


def test_words_and_what_they_mean() -> None:
    assert parse_actions("W_V * 2", 3) == [Action("W_V", (1, 2, 3), 2.0)]
    assert parse_actions("W_O 2-3 / 4,without block 1", 3) == [
        Action("W_O", (2, 3), 0.25),
        Action("block", (1,), 0.0),
    ]
    assert parse_actions("stream - .5, block 3*1e-2", 3) == [
        Action("stream", (0,), -0.5),
        Action("block", (3,), 0.01),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("W_Q * 2", "no such change"),
        ("W_V", "no such change"),
        ("W_V * two", "no such change"),
        ("block * 2", "named by its number"),
        ("block 4 * 2", "no such block"),
        ("without block 0", "no such block"),
        ("W_O / 0", "divided by 0"),
        ("", "no such change"),
    ],
)
def test_what_is_no_change_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_actions(text, 3)


def test_a_block_without_values_has_no_ratio_to_change() -> None:
    base = tiny.opened("mamba")
    with pytest.raises(UsageError, match=r"no W_V.*without block 1"):
        change_model(base, parse_actions("W_V * 2", len(base.blocks)))
    assert measure_matrices(base) == {}


def test_each_block_in_turn_and_rows_in_a_folder(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "mine"
    rows = thermostats.do(folder, ["without every block", "W_V * 2, W_O / 2"], data=data, **FEW)
    assert rows["what"].tolist() == [
        *(f"without block {number}" for number in (1, 2, 3)),
        "W_V * 2, W_O / 2",
    ]
    assert (rows["kl"].iloc[:3] > 0).all()
    assert rows["kl"].iloc[3] == pytest.approx(0, abs=1e-6)
    assert (rows["steps"] == 0).all()
    held = store.load("interventions", data)
    assert set(rows["intervention"]) <= set(held["intervention"])
    store.check(data)
    again = thermostats.do(folder, "W_V * 2, W_O / 2", data=data, **FEW)
    assert len(again) == 1
    assert len(store.load("interventions", data)) == len(held)


def test_a_change_of_weights_can_be_saved_and_others_cannot(folder: Path, tmp_path: Path) -> None:
    thermostats.do(folder, "W_V * 2", save=tmp_path / "twice", **FEW)
    assert thermostats.do(tmp_path / "twice", "W_V / 2", **FEW)["ce_after"].iloc[0] > 0
    with pytest.raises(UsageError, match="can be saved"):
        thermostats.do(folder, "without block 1", save=tmp_path / "less", **FEW)


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_commands_print_rows_and_json(folder: Path, tmp_path: Path) -> None:
    few = [word for name, value in FEW.items() for word in ("--set", f"{name}={value}")]
    done = run("do", folder, "W_V * 2", *few)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split("\t")[:3] == ["what", "kl", "kl_lower"]
    assert any(line.startswith("W_V * 2\twv_wo_ratio\t") for line in lines)
    assert "kept nowhere" in done.stderr
    drawn = tmp_path / "prices.svg"
    words = ("--to", 1.1, "--steps", 3, "--set", "texts=8", "--set", "batch=4")
    steered = run("steer", folder, *words, *few, "--figure", drawn)
    assert steered.exit_code == 0, steered.output
    assert "at most" in steered.stdout
    assert drawn.is_file()
    assert "floor" in steered.stdout
    assert "3 trainings of 3 steps" in steered.stderr
    as_json = run("do", folder, "W_V * 2, W_O / 2", *few, "--json", "--data", tmp_path / "mine")
    (row,) = json.loads(as_json.stdout)
    assert row["kl"] == pytest.approx(0, abs=1e-6)
    assert row["gains_after"]["wv_wo_ratio"] == pytest.approx(
        4 * row["gains_before"]["wv_wo_ratio"]
    )
    assert len(row["kl_texts"]) == FEW["held_out"]
    refused = run("steer", folder, "--to", "0.9", "--set", "speed=3")
    assert refused.exit_code != 0


def test_on_a_packaged_layer_norm_model_the_side_of_one_is_free() -> None:
    path = find_shipped("data") / "nursery" / "models" / "r07-5"
    if not path.is_dir():
        pytest.skip("trained models are in the repository alone")
    rows = thermostats.do(
        path, "stream 7 + 64, stream 8 - 64", name="nursery/r07-5", held_out=4, tokens=20
    )
    (row,) = rows.to_dict("records")
    assert row["kl"] == pytest.approx(0, abs=1e-6)
    assert row["gain_before"] > 1 > row["gain_after"]
    assert row["beyond"] == 1

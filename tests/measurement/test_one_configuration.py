"""One reading of a configuration, as transformers has it: what is left at the default of its class
may be left out, and what acts in a forward pass is compared, however it is spelt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch
import transformers

from thermostats.errors import DataError
from thermostats.measurement import spectra
from thermostats.measurement.compare import compare
from thermostats.measurement.forward import Decoder
from thermostats.measurement.model_row import build_model_row
from thermostats.measurement.same_function import ACTING, CLASSES, measure_function_distance
from thermostats.measurement.spectra import read_config

KNOWN = pd.DataFrame({"model_id": [], "heritage": []}, dtype="str")
KEPT = {"model_type", "architectures", "id2label", "label2id"}
"""Keys that say which class it is, and names of classes, of which no stream knows."""
SMALL: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
}


@pytest.fixture(params=tiny.in_turn(), scope="module")
def model(request: pytest.FixtureRequest) -> Decoder:
    return tiny.opened(request.param)


def stated(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))


def state(folder: Path, config: dict[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def read(folder: Path, reads: str) -> dict[str, Any]:
    """What is read of a folder's configuration, but for names of classes."""
    config = read_config(folder, reads)
    return {name: value for name, value in config.items() if name not in KEPT}


def defaults(config: dict[str, Any], of: Any) -> list[str]:
    """Keys whose values are the defaults of their class."""
    plain = json.loads(json.dumps(type(of)().to_dict(), default=str))
    return [k for k in config if k not in KEPT and k in plain and plain[k] == config[k]]


def test_what_is_at_its_default_may_be_left_out(model: Decoder, tmp_path: Path) -> None:
    whole: Any = model.model
    whole.save_pretrained(tmp_path)
    config = json.loads(json.dumps(whole.config.to_dict(), default=str))
    config = {**stated(tmp_path), **config, "architectures": stated(tmp_path)["architectures"]}
    state(tmp_path, config)
    reads = model.entry.reads
    wanted = read(tmp_path, reads)
    spare = defaults(config, whole.config)
    assert spare
    for key in spare:
        state(tmp_path, {name: value for name, value in config.items() if name != key})
        assert read(tmp_path, reads) == wanted, key
    try:
        state(tmp_path, config)
        rows = spectra.measure_weights(tmp_path, reads=reads)
        facts = build_model_row(
            tmp_path, model_id="a/b", revision="main", models=KNOWN, reads=reads
        )
    except DataError:
        pytest.skip("files hold the whole model, of which this stack is a part")
    state(tmp_path, {name: value for name, value in config.items() if name not in spare})
    assert read(tmp_path, reads) == wanted
    pd.testing.assert_frame_equal(spectra.measure_weights(tmp_path, reads=reads), rows)
    again = build_model_row(tmp_path, model_id="a/b", revision="main", models=KNOWN, reads=reads)
    assert again == facts


def llama(folder: Path, **changes: Any) -> Path:
    torch.manual_seed(1)
    shape: dict[str, Any] = {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
    }
    made = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, **shape))
    made.save_pretrained(folder)
    state(folder, {**stated(folder), **changes})
    return folder


NO_FUNCTION = {
    "attention_dropout": 0.1,
    "max_position_embeddings": 128,
    "use_cache": False,
    "pretraining_tp": 2,
    "initializer_range": 0.5,
    "bos_token_id": 7,
    "torch_dtype": "float16",
    "transformers_version": "4.40.0",
    "id2label": {"0": "a"},
    "my_own_note": "x",
}
FUNCTION = {
    "rms_norm_eps": 1e-3,
    "hidden_act": "gelu",
    "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    "is_causal": False,
}


@pytest.mark.parametrize("key", NO_FUNCTION)
def test_what_does_not_act_in_a_forward_pass_makes_no_other_function(
    key: str, tmp_path: Path
) -> None:
    apart = measure_function_distance(
        llama(tmp_path / "a"), llama(tmp_path / "b", **{key: NO_FUNCTION[key]})
    )
    assert apart.distance < 1e-9
    assert not apart.notes


@pytest.mark.parametrize("key", FUNCTION)
def test_what_acts_in_a_forward_pass_is_named(key: str, tmp_path: Path) -> None:
    apart = measure_function_distance(
        llama(tmp_path / "a"), llama(tmp_path / "b", **{key: FUNCTION[key]})
    )
    assert any(key in note for note in apart.notes)


def test_every_class_says_which_keys_act() -> None:
    assert set(ACTING) == set(CLASSES)


def test_two_spellings_of_one_rotation_are_one_function(tmp_path: Path) -> None:
    new = llama(tmp_path / "new", rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    old = llama(tmp_path / "old")
    config = stated(old)
    config.pop("rope_parameters", None)
    state(old, {**config, "rope_theta": 5e5})
    apart = measure_function_distance(new, old)
    assert apart.distance < 1e-9
    assert not apart.notes


def test_weights_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        llama(tmp_path / name)
    made = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "b")
    with torch.no_grad():
        made.model.layers[1].input_layernorm.weight[3] = float("inf")
    made.save_pretrained(tmp_path / "b")
    with pytest.raises(DataError, match=r"no finite number.*layers\.1\.input_layernorm\.weight"):
        compare(tmp_path / "a", tmp_path / "b")
    with torch.no_grad():
        made.model.layers[1].input_layernorm.weight[3] = 0.0
    made.save_pretrained(tmp_path / "b")
    made.save_pretrained(tmp_path / "a")
    assert compare(tmp_path / "a", tmp_path / "b").function < 1e-9


def test_a_model_without_its_head_is_compared_over_what_both_have(tmp_path: Path) -> None:
    whole = llama(tmp_path / "a")
    transformers.LlamaForCausalLM.from_pretrained(whole).model.save_pretrained(tmp_path / "b")
    apart = measure_function_distance(whole, tmp_path / "b")
    assert apart.distance < 1e-9
    assert any("head" in note for note in apart.notes)

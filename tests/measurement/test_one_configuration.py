"""One reading of a configuration, as transformers has it: what is left at the default of its class
may be left out, and what acts in a forward pass is compared, however it is spelt."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch
import transformers
from safetensors.torch import load_file, save_file

from thermostats.errors import DataError, ThermostatsError, UsageError
from thermostats.measurement import spectra
from thermostats.measurement.checkpoint import list_load_errors
from thermostats.measurement.compare import compare
from thermostats.measurement.empty_models import count_parameters
from thermostats.measurement.forward import Decoder
from thermostats.measurement.gauge import extract_weights
from thermostats.measurement.hub import fetch_model_folder
from thermostats.measurement.loading import load
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


NO_PART = {"architectures", "model_type", "transformers_version", "_name_or_path"}
"""Keys that say which class it is."""
CHANGED: dict[str, Any] = {
    "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4},
    "sliding_window": 3,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "final_logit_softcapping": 0.5,
    "attn_logit_softcapping": 0.5,
    "query_pre_attn_scalar": 99,
    "attention_multiplier": 3.0,
    "use_bidirectional_attention": True,
    "is_causal": False,
    "hidden_act": "relu2",
    "hidden_activation": "relu",
    "activation_function": "silu",
    "dtype": "bfloat16",
}
"""Another value of a key, of classes that have it and of those that have not."""


def change(key: str, value: Any) -> Any:
    """Another value, of the same kind as far as there is one."""
    if key in CHANGED:
        return CHANGED[key]
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return 2 * value + 0.1
    return value + 1 if isinstance(value, int) else "another"


def log_probabilities(folder: Path) -> Any:
    """What transformers makes of a folder; None where it makes nothing of it."""
    kind: Any = transformers.AutoModelForCausalLM
    try:
        made = kind.from_pretrained(folder, dtype=torch.float32).eval()
        with torch.no_grad():
            return torch.log_softmax(made(TOKENS).logits, -1)
    except list_load_errors():  # another shape, or no configuration
        return None


REFUSED = (
    "not of the model that the configuration describes",
    "not of one shape",
    "no canonical form in common",
)
"""Refusals, which name weights, shapes or classes in the place of keys."""


def read_difference(first: Path, second: Path) -> str:
    """How two folders are told apart; empty where they are the same function."""
    try:
        apart = measure_function_distance(first, second)
    except UsageError as error:
        assert any(words in str(error) for words in REFUSED), error
        return str(error)
    return "; ".join(apart.notes) or ("" if apart.distance < 1e-9 else f"{apart.distance} apart")


TOKENS = torch.randint(3, 61, (1, 30), generator=torch.Generator().manual_seed(4))
QUICK = ("llama", "qwen2", "gemma", "gpt2", "gpt_neox")


@pytest.mark.parametrize(
    "name", [pytest.param(e, marks=() if e in QUICK else pytest.mark.slow) for e in CLASSES]
)
def test_keys_are_named_where_they_change_an_output_and_nowhere_else(
    name: str, tmp_path: Path
) -> None:
    whole: Any = tiny.opened(name).model
    whole.save_pretrained(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    config = {**json.loads(json.dumps(whole.config.to_dict(), default=str))}
    config = {**config, **stated(tmp_path / "a")}
    before = log_probabilities(tmp_path / "a")
    tried = 0
    for key in sorted({*config, *CHANGED} - NO_PART):
        state(tmp_path / "b", {**config, key: change(key, config.get(key))})
        after = log_probabilities(tmp_path / "b")
        if after is None:
            continue
        tried += 1
        moved = bool((after - before).abs().max() > 1e-5)
        said = read_difference(tmp_path / "a", tmp_path / "b")
        assert bool(said) == (moved or key in FURTHER), (key, said)
        assert not said or f" {key}" in said or any(words in said for words in REFUSED), (key, said)
    assert tried > 20


FURTHER = {"attention_bias", "mlp_bias", "add_cross_attention"}
"""With them a class has weights that no file holds: a refusal, though they be zeros or unused."""


@pytest.mark.parametrize("changes", [{"factor": 1.0, "rope_type": "linear"}, {}])
def test_a_rotation_as_it_is_may_be_spelt_out(changes: dict[str, Any], tmp_path: Path) -> None:
    rope = {"rope_type": "default", "rope_theta": 1e4}
    plain = llama(tmp_path / "a", rope_parameters=rope)
    spelt = llama(tmp_path / "b", rope_parameters={**rope, "partial_rotary_factor": 1.0, **changes})
    apart = measure_function_distance(plain, spelt)
    assert apart.distance < 1e-9 and not apart.notes


def test_files_that_are_not_of_the_class_with_its_configuration_are_refused(tmp_path: Path) -> None:
    for name, words in (("gpt_neox", "not read.*bias"), ("gpt2", "missing.*lm_head")):
        a, b = tmp_path / name / "a", tmp_path / name / "b"
        whole: Any = tiny.opened(name).model
        whole.save_pretrained(a)
        shutil.copytree(a, b)
        state(b, {**stated(b), "attention_bias": False, "tie_word_embeddings": False})
        if name == "gpt_neox":
            state(b, {**stated(b), "tie_word_embeddings": True})
        with pytest.raises(UsageError, match=words):
            measure_function_distance(a, b)
        both = compare(a, b)
        assert np.isnan(both.function) and "not compared as functions" in both.function_notes[0]


def test_a_note_says_of_which_model_it_is(tmp_path: Path) -> None:
    """What is wrong is in the second folder's files alone."""
    for name in "ab":
        tiny.opened("gpt2").model.save_pretrained(tmp_path / name)  # type: ignore[operator]
    state(tmp_path / "b", {**stated(tmp_path / "b"), "tie_word_embeddings": False})
    (note,) = compare(tmp_path / "a", tmp_path / "b").function_notes
    assert f"{tmp_path / 'b'}" in note and f"{tmp_path / 'a'}" not in note and "lm_head" in note


def test_a_weight_that_is_no_number_is_named_with_its_model(tmp_path: Path) -> None:
    pair = [extract_weights(tiny.opened("gpt2")) for _ in range(2)]
    name = next(iter(pair[1].tensors))
    spoilt = pair[1].replace_tensors({name: pair[1].tensors[name] * np.nan})
    with pytest.raises(UsageError, match=f"{re.escape(name)} of the second model"):
        measure_function_distance(pair[0], spoilt)


def test_a_configuration_that_divides_by_zero_is_refused_with_its_path(tmp_path: Path) -> None:
    """Heads that are none: Python's error for it is neither one of values nor of types."""
    llama(tmp_path)
    state(tmp_path, {**stated(tmp_path), "num_attention_heads": 0, "head_dim": None})
    path = re.escape(str(tmp_path / "config.json"))
    with pytest.raises(DataError, match=rf"cannot read the configuration \({path}\)"):
        spectra.measure_weights(tmp_path)
    with pytest.raises(DataError, match=rf"cannot read the configuration \({path}\)"):
        load(fetch_model_folder(str(tmp_path)), tokenizer=False)
    with pytest.raises(ThermostatsError, match="cannot build the model"):
        count_parameters(tmp_path)


@pytest.mark.parametrize(
    "value", [{"attention_dropout": "x"}, {"initializer_range": 1}, {"bos_token_id": 1.5}]
)
def test_defaults_are_not_lost_where_another_value_is_refused(
    value: dict[str, Any], tmp_path: Path
) -> None:
    """Without them an RMSNorm would be taken for one that centres."""
    llama(tmp_path)
    state(tmp_path, {**{k: v for k, v in stated(tmp_path).items() if k != "rms_norm_eps"}, **value})
    with pytest.raises(DataError, match=f"cannot read the configuration.*{next(iter(value))}"):
        spectra.measure_weights(tmp_path)


def test_numbers_that_json_lacks_are_read(tmp_path: Path) -> None:
    """transformers writes an infinite limit of Mamba's steps as {"__float__": "Infinity"}."""
    whole: Any = tiny.opened("granitemoehybrid_dense").model
    whole.save_pretrained(tmp_path)
    stored = stated(tmp_path)
    assert stored["time_step_limit"][1] == {"__float__": "Infinity"}
    assert read_config(tmp_path)["time_step_limit"] == [0.0, float("inf")]
    state(tmp_path, {k: v for k, v in stored.items() if k != "rms_norm_eps"})
    assert read_config(tmp_path)["rms_norm_eps"] == type(whole.config)().rms_norm_eps


def test_a_tied_matrix_may_be_stored_under_the_name_of_the_head(tmp_path: Path) -> None:
    whole = llama(tmp_path / "a", tie_word_embeddings=True)
    tensors = load_file(whole / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, whole / "model.safetensors", metadata={"format": "pt"})
    shutil.copytree(whole, tmp_path / "b")
    tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")
    save_file(tensors, tmp_path / "b" / "model.safetensors", metadata={"format": "pt"})
    assert torch.equal(log_probabilities(whole), log_probabilities(tmp_path / "b"))
    assert measure_function_distance(whole, tmp_path / "b").distance < 1e-9


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

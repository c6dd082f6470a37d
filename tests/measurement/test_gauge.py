"""Changes that leave a model's function as it is: every one on every class, in float64, where clips
and caps bite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch
import wide

from thermostats.errors import UsageError
from thermostats.measurement import gauge
from thermostats.measurement.architectures import ARCHITECTURES
from thermostats.measurement.gauge import extract_weights, replace_weights
from thermostats.measurement.gguf_files import RECORD

ROUNDING = 1000
"""An output may move by so many ε of the narrowest type that a class computes in: 2e-13 in float64,
1e-4 in float32."""
MOVED = 0.001
"""What does not leave an output moves it by more."""
OTHERS = [entry.name for entry in ARCHITECTURES if entry.name not in tiny.FIRST]
PARTS = [pytest.param(list(tiny.FIRST), id="first of each kind")]
PARTS += [
    pytest.param(OTHERS[i::4], id=f"others {i + 1}", marks=pytest.mark.slow) for i in range(4)
]


def off(name: str, **changes: Any) -> list[str]:
    """Changes of which an entry says something else than its class, each with what was seen."""
    places = wide.opened(name, **changes)
    prompt = tiny.inputs(places, 9)[0]
    with wide.Narrowest() as narrowest:
        before = wide.outputs(places, prompt)
    tolerance = ROUNDING * torch.finfo(narrowest.dtype).eps
    weights, wrong = extract_weights(places), []
    for change, changed in gauge.CHANGES.items():
        why = gauge.find_obstacle(change, weights)
        try:
            after = changed(weights)
        except (IndexError, KeyError) as error:  # the change is of modules that the class has not
            wrong += [] if why else [f"{name} {change}: {error!r}"]
            continue
        same = all(after.tensors[key] is weights.tensors[key] for key in weights.tensors)
        moved = float(
            (wide.outputs(replace_weights(places, after), prompt) - before).norm() / before.norm()
        )
        assert moved < tolerance or moved > MOVED, (
            f"{name} {change}: {moved:.1e} is neither rounding nor a change"
        )
        if (moved < tolerance and not same) == bool(why):
            wrong.append(
                f"{name} {change} {changes}: moved by {moved:.1e}, entry: {why or 'allowed'}"
            )
    return wrong


@pytest.mark.parametrize("names", PARTS)
def test_changes_leave_the_outputs_exactly_where_entries_allow_them(names: list[str]) -> None:
    assert [each for name in names for each in off(name)] == []


def test_clips_clamps_and_softcaps_bite_and_entries_know_of_them() -> None:
    capped = {name: changes for name in tiny.CONFIGURATIONS if (changes := wide.bites(name))}
    assert {"olmo", "olmoe", "mpt", "gemma2", "gpt_oss", "vaultgemma", "minimax_m3_vl_text"} <= set(
        capped
    )
    del (
        capped["gemma3"],
        capped["gemma3_text"],
    )  # their configuration has caps, and their class none
    for name, changes in capped.items():
        plain, bitten = wide.opened(name), wide.opened(name, **changes)
        prompt = tiny.inputs(plain, 9)[0]
        first, second = wide.outputs(plain, prompt), wide.outputs(bitten, prompt)
        assert (second - first).norm() > MOVED * first.norm(), name
        assert off(name, **changes) == []


@pytest.mark.parametrize(
    ("name", "changes", "change", "why"),
    [
        ("olmo", {"clip_qkv": 8.0}, "heads", "values are clipped"),
        ("mpt", {"attn_config": {"clip_qkv": 8.0}}, "heads", "values are clipped"),
        ("llama", {}, "ones", "the norms do not subtract the mean"),
        (
            "gptj",
            {},
            "readers",
            "the norm has a bias, and the values have none that could take it back",
        ),
        ("gpt2", {}, "post-norm", "no norm stands behind the residual sum"),
        ("olmo", {}, "fold", "no norm with weights stands in front of readers"),
        ("qwen3_next", {}, "heads", "no block has W_V and W_O"),
        ("albert", {}, "post-norm", "all blocks are one, and the last one's norm gives the output"),
        ("clip_vision_model", {}, "ones", "the stream itself is an output"),
        ("gemma2", {}, "logits", "logits are capped, each by itself"),
    ],
)
def test_what_a_class_does_not_allow_is_refused_with_its_reason(
    name: str, changes: dict[str, Any], change: str, why: str
) -> None:
    weights = extract_weights(tiny.opened(name, **changes))
    with pytest.raises(UsageError, match="does not allow") as refused:
        gauge.apply(change, weights)
    assert gauge.find_obstacle(change, weights) == why
    assert why in str(refused.value) and "changes that it allows" in str(refused.value)


def test_a_change_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="no such change"):
        gauge.apply("twist", extract_weights(tiny.opened("llama")))


def test_query_heads_of_one_group_share_the_matrix_of_their_values() -> None:
    places = wide.opened("llama")
    weights = extract_weights(places)
    after = gauge.turn_heads(weights, gauge.make_scaling_turn(8.0, layer=1))
    value, output = (weights.name(path, 1) for path in (places.entry.value, places.entry.output))
    np.testing.assert_array_equal(after.tensors[value], 8 * weights.tensors[value])
    np.testing.assert_array_equal(after.tensors[output], weights.tensors[output] / 8)
    elsewhere = set(weights.tensors) - {value, output}
    assert all(np.array_equal(after.tensors[name], weights.tensors[name]) for name in elsewhere)


def test_folding_unties_in_memory_alone(tmp_path: Path) -> None:
    places = tiny.opened("gpt2")
    assert places.model.get_output_embeddings().weight is places.model.get_input_embeddings().weight
    places.model.save_pretrained(tmp_path)
    stored = (tmp_path / "model.safetensors").read_bytes()
    folded = gauge.fold_norms(gauge.read_weights(tmp_path))
    gamma = places.final_norm.weight.detach().double().numpy()
    embedding = folded.tensors["transformer.wte.weight"]
    np.testing.assert_allclose(folded.tensors["lm_head.weight"], embedding * gamma, rtol=1e-15)
    assert (tmp_path / "model.safetensors").read_bytes() == stored


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_exactly(tmp_path: Path, dtype: torch.dtype) -> None:
    places = tiny.opened("qwen2")
    places.model.to(dtype).save_pretrained(tmp_path)
    held, read = extract_weights(places), gauge.read_weights(tmp_path)
    assert all(np.array_equal(read.tensors[name], held.tensors[name]) for name in read.tensors)
    assert gauge.find_obstacle("heads", read) == ""


def test_a_dequantised_copy_is_named_as_one(tmp_path: Path) -> None:
    tiny.opened("llama").model.save_pretrained(tmp_path)
    assert gauge.read_weights(tmp_path).notes == ()
    (tmp_path / RECORD).write_text(json.dumps({"scheme": "Q4_K_M"}))
    assert gauge.read_weights(tmp_path).notes == (
        f"{tmp_path}: weights are a dequantised copy of Q4_K_M",
    )

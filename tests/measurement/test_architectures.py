"""Lookup of entries and layouts of fused matrices; no torch is needed to read weights."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from thermostats.errors import DataError
from thermostats.measurement.architectures import (
    ARCHITECTURES,
    UnknownArchitectureError,
    UnsupportedArchitectureError,
    eager_is_wrong,
    lookup,
)
from thermostats.measurement.layouts import geometry, query_to_kv_head, split, stored_rows, value_rows

SHAPE = {"num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 3}


def labelled(name: str) -> tuple[list[tuple[str, int, int]], dict[str, Any]]:
    """(what, head, place) of every row of the fused matrix, spelt out as the model's own code orders it."""
    config = {"model_type": name, **SHAPE}
    q = [[("q", h, i) for i in range(3)] for h in range(8)]
    k = [[("k", h, i) for i in range(3)] for h in range(8)]
    v = [[("v", h, i) for i in range(3)] for h in range(8)]
    if name == "gpt_neox":
        order = [part[h] for h, part in product(range(8), (q, k, v))]
    elif name == "gpt2":
        order = [*q, *k, *v]
    elif name == "phi3":
        order = [*q, *k[:2], *v[:2]]
    elif name == "gpt_bigcode":
        order = [*q, k[0], v[0]]
    elif name == "falcon":
        config |= {"new_decoder_architecture": True, "num_kv_heads": 2}
        order = [*q[:4], k[0], v[0], *q[4:], k[1], v[1]]
    else:
        order = [part[2 * p + i] for p in range(4) for part in (q, v, k) for i in range(2)]
    return [row for head in order for row in head], config


@pytest.mark.parametrize("name", ["gpt_neox", "gpt2", "phi3", "gpt_bigcode", "falcon", "codegen"])
def test_value_rows_pick_the_values_head_by_head(name: str) -> None:
    rows, config = labelled(name)
    entry = lookup(config)
    n_kv_heads = geometry(entry, config).n_kv_heads
    assert stored_rows(entry, config) == len(rows)
    picked = [[rows[i] for i in head] for head in value_rows(entry, config)]
    assert picked == [[("v", h, i) for i in range(3)] for h in range(n_kv_heads)]
    assert query_to_kv_head(entry, config).tolist() == [h * n_kv_heads // 8 for h in range(8)]


def test_latent_values_stand_behind_each_heads_keys() -> None:
    config = {"model_type": "deepseek_v3", **SHAPE, "kv_lora_rank": 5, "qk_nope_head_dim": 4, "v_head_dim": 3}
    entry = lookup(config)
    rows = value_rows(entry, config)
    assert rows.shape == (8, 3)
    assert rows[0].tolist() == [4, 5, 6]
    assert rows[2].tolist() == [18, 19, 20]
    assert geometry(entry, config).d_value_in == 5


def test_split_turns_conv1d_and_refuses_other_shapes() -> None:
    config = {"model_type": "gpt2", "n_layer": 1, "n_embd": 6, "n_head": 2}
    entry = lookup(config)
    fused: NDArray[np.float64] = np.arange(18.0 * 6).reshape(18, 6)
    output: NDArray[np.float64] = np.arange(36.0).reshape(6, 6)
    parts = split(entry, config, fused.T, output.T)
    assert np.array_equal(parts.w_v, fused[12:])
    w_v, w_o = parts.head(1)
    assert np.array_equal(w_v, fused[15:])
    assert np.array_equal(w_o, output[:, 3:])
    with pytest.raises(DataError, match=r"attn\.c_attn, architecture gpt2.*got \(6, 18\)"):
        split(entry, config, fused, output.T)


def test_tensor_names_with_and_without_prefix() -> None:
    neox = lookup({"model_type": "gpt_neox"})
    assert neox.tensor_names(neox.value, 3) == (
        "gpt_neox.layers.3.attention.query_key_value.weight",
        "layers.3.attention.query_key_value.weight",
    )
    assert neox.tensor_names("lm_head") == ("lm_head.weight", "embed_out.weight")


def test_variants_are_chosen_by_configuration() -> None:
    names = {
        "opt": {"model_type": "opt"},
        "opt_post_norm": {"model_type": "opt", "do_layer_norm_before": False},
        "falcon": {"model_type": "falcon", "multi_query": True, "parallel_attn": True},
        "falcon_new": {"model_type": "falcon", "new_decoder_architecture": True},
        "gpt_neox_sequential": {"model_type": "gpt_neox", "use_parallel_residual": False},
        "gemma3": {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}},
        "gemma3_text": {"model_type": "gemma3_text"},
    }
    assert {name: lookup(config).name for name, config in names.items()} == {name: name for name in names}


def test_eager_attention_is_wrong_for_falcon_with_alibi_alone() -> None:
    config = {"model_type": "falcon", "alibi": True, "multi_query": False, "parallel_attn": False}
    assert eager_is_wrong(lookup(config), config)
    assert not eager_is_wrong(lookup(config), {**config, "alibi": False})
    assert not any(eager_is_wrong(e, config) for e in ARCHITECTURES if e.model_type != "falcon")


@pytest.mark.parametrize("model_type", ["zamba", "zamba2", "falcon_h1", "nemotron_h"])
def test_hybrids_are_refused_by_name(model_type: str) -> None:
    with pytest.raises(UnsupportedArchitectureError, match=f"type {model_type} are not measured, .*state-space"):
        lookup({"model_type": model_type})


def test_unknown_class_says_how_to_add_an_entry_and_what_is_near() -> None:
    with pytest.raises(
        UnknownArchitectureError, match=r"did you mean .*gpt_neox.*got 'gpt_neoxx'.*architectures\.py"
    ) as caught:
        lookup({"model_type": "gpt_neoxx"})
    assert caught.value.exit_code == 2


def test_configuration_without_heads_is_named() -> None:
    with pytest.raises(DataError, match=r"n_heads.*num_attention_heads"):
        geometry(lookup({"model_type": "llama"}), {"hidden_size": 8})


def test_no_torch_is_loaded() -> None:
    code = (
        "import sys, thermostats.measurement.architectures, thermostats.measurement.layouts, "
        "thermostats.measurement.batching; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

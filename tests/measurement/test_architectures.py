"""Lookup of entries and layouts of fused matrices; no torch is needed to read weights."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from thermostats.errors import DataError
from thermostats.measurement.architectures import ARCHITECTURES, UnknownArchitectureError, eager_is_wrong, lookup
from thermostats.measurement.layouts import geometry, split


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

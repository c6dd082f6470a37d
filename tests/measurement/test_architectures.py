"""Lookup of entries and layouts of fused matrices; no torch is needed to read weights."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from thermostats.errors import DataError
from thermostats.measurement.checkpoint import split
from thermostats.measurement.lookup import lookup
from thermostats.measurement.model_class import UnknownArchitectureError


def test_split_turns_conv1d_and_refuses_other_shapes() -> None:
    config = {"model_type": "gpt2", "n_layer": 1, "n_embd": 6, "n_head": 2}
    entry = lookup(config)
    fused: NDArray[np.float64] = np.arange(18.0 * 6).reshape(18, 6)
    output: NDArray[np.float64] = np.arange(36.0).reshape(6, 6)
    parts = split(entry, config, fused.T, output.T)
    assert np.array_equal(parts.w_v, fused[12:])
    w_v, w_o = parts.get_head(1)
    assert np.array_equal(w_v, fused[15:])
    assert np.array_equal(w_o, output[:, 3:])
    with pytest.raises(DataError, match=r"attn\.c_attn, architecture gpt2.*got \(6, 18\)"):
        split(entry, config, fused, output.T)


def test_unknown_class_says_how_to_add_an_entry_and_what_is_near() -> None:
    with pytest.raises(
        UnknownArchitectureError,
        match=r"did you mean .*gpt_neox.*got 'gpt_neoxx'.*architectures\.py",
    ) as caught:
        lookup({"model_type": "gpt_neoxx"})
    assert caught.value.exit_code == 2


def test_no_torch_is_loaded() -> None:
    code = (
        "import sys, thermostats.measurement.architectures, thermostats.measurement.checkpoint, "
        "thermostats.measurement.batching; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

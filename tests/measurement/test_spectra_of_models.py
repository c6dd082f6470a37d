"""Spectra read from the files that transformers itself writes, against the matrices of the model in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny

from thermostats.measurement.architectures import lookup
from thermostats.measurement.forward import configuration, decoder, submodule
from thermostats.measurement.layouts import split
from thermostats.measurement.spectra import weights


@pytest.mark.parametrize("name", tiny.CONFIGURATIONS)
def test_a_saved_model_gives_the_spectra_of_its_modules(name: str, tmp_path: Any) -> None:
    model: Any = tiny.build(name)
    model.save_pretrained(tmp_path)
    found = weights(tmp_path).set_index(["layer", "matrix", "head"])["spectral_norm"]
    opened = decoder(model, lookup(configuration(model)))
    for layer, block in enumerate(opened.blocks, 1):
        value, output = (
            submodule(block, path, opened.entry).weight.detach().double().numpy()
            for path in (opened.entry.value, opened.entry.output)
        )
        parts = split(opened.entry, opened.config, value, output)
        assert found[layer, "W_V", ""] == pytest.approx(np.linalg.norm(parts.w_v, 2), rel=1e-6)
        assert found[layer, "W_O", ""] == pytest.approx(np.linalg.norm(parts.w_o, 2), rel=1e-6)
        for h in range(len(parts.kv_head)):
            W_V, W_O = parts.head(h)
            assert found[layer, "OV", str(h + 1)] == pytest.approx(np.linalg.norm(W_O @ W_V, 2), rel=1e-6)
    for matrix, module in (("embedding", model.get_input_embeddings()), ("unembedding", model.get_output_embeddings())):
        exact = np.linalg.norm(module.weight.detach().double().numpy(), 2)
        assert found[0, matrix, ""] == pytest.approx(exact, rel=1e-6)

"""Gains on a GPU are those of the processor, for every architecture; skipped on a machine without
one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch

from thermostats.measurement.forward import Decoder
from thermostats.measurement.gains import measure_gains

NUMBERS = ["norm_in", "gain_block", "gain_attention", "gain_mlp", "write_attention", "write_mlp"]


def gains(decoder: Decoder) -> pd.DataFrame:
    """Rows of four prompts, or images."""
    return measure_gains(decoder, tiny.inputs(decoder, 2, 9, 6, 5)).layers


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("name", tiny.in_turn())
def test_gains_are_those_of_the_processor(name: str) -> None:
    model = tiny.build(name)
    here = gains(tiny.places(model))
    there = gains(tiny.places(model.to("cuda")))
    np.testing.assert_allclose(there[NUMBERS], here[NUMBERS], rtol=1e-4)
    np.testing.assert_allclose(
        there[["cosine", "anisotropy"]], here[["cosine", "anisotropy"]], atol=1e-4
    )
    assert there.missing.equals(here.missing)

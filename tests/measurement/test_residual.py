"""The record of one pass: what is in it, in which precision, and that nothing of it stays at the
model."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import numpy as np
import tiny
import torch

from thermostats.measurement import gains


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float64, torch.float64),
        *((x, torch.float32) for x in (torch.float32, torch.bfloat16, torch.float16)),
    ],
)
def test_norms_are_in_float32_or_wider(dtype: torch.dtype, expected: torch.dtype) -> None:
    x = torch.full((1, 3, 4), 300.0, dtype=dtype)
    norms = gains.measure_norms(x, 3)
    assert (norms.dtype, tuple(norms.shape)) == (expected, (3, 1))
    assert norms.flatten().tolist() == [600.0] * 3
    with gains.record_batch(
        tiny.places(tiny.build("gpt2").to(dtype)), torch.ones(1, 1, 3)
    ) as record:
        assert {tensor.dtype for tensor in record.values()} == {expected}


def test_anisotropy_is_the_mean_cosine_of_all_pairs() -> None:
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((2, 5, 3)))
    weights = torch.tensor(
        [[[1, 1, 1, 0, 0], [0, 0, 0, 1, 1]], [[0, 1, 1, 1, 0], [1, 0, 0, 0, 1]]], dtype=x.dtype
    )
    cosine = gains.measure_mean_cosine(x, gains.measure_norms(x, 2), weights)
    for row in range(2):
        for prompt in range(2):
            vectors = x[row][weights[row, prompt] == 1].numpy()
            unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            pairs = [unit[i] @ unit[j] for i in range(len(vectors)) for j in range(i)]
            assert cosine[row, prompt].item() == pytest.approx(np.mean(pairs), rel=1e-9)

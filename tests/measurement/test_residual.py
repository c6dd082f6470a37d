"""The record of one pass: what is in it, in which precision, and that nothing of it stays at the model."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch

from thermostats.measurement import residual


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.float64, torch.float64), *((x, torch.float32) for x in (torch.float32, torch.bfloat16, torch.float16))],
)
def test_norms_are_in_float32_or_wider(dtype: torch.dtype, expected: torch.dtype) -> None:
    x = torch.full((1, 3, 4), 300.0, dtype=dtype)
    norms = residual.norms(x, 3)
    assert (norms.dtype, tuple(norms.shape)) == (expected, (3, 1))
    assert norms.flatten().tolist() == [600.0] * 3
    with residual.recording(tiny.places(tiny.build("gpt2").to(dtype)), torch.ones(1, 1, 3)) as record:
        assert {tensor.dtype for tensor in record.values()} == {expected}


def test_anisotropy_is_the_mean_cosine_of_all_pairs() -> None:
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((2, 5, 3)))
    weights = torch.tensor([[[1, 1, 1, 0, 0], [0, 0, 0, 1, 1]], [[0, 1, 1, 1, 0], [1, 0, 0, 0, 1]]], dtype=x.dtype)
    cosine = residual.mean_cosine(x, residual.norms(x, 2), weights)
    for row in range(2):
        for prompt in range(2):
            vectors = x[row][weights[row, prompt] == 1].numpy()
            unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            pairs = [unit[i] @ unit[j] for i in range(len(vectors)) for j in range(i)]
            assert cosine[row, prompt].item() == pytest.approx(np.mean(pairs), rel=1e-9)


@pytest.mark.parametrize("name", ["gpt2", "gptj", "llama", "gemma2"])
def test_what_is_recorded_is_what_hidden_states_say(name: str) -> None:
    decoder = tiny.places(tiny.build(name).to(torch.float64))
    ids = torch.tensor(tiny.prompt_ids(6))
    members = torch.ones(1, 1, ids.shape[1], dtype=torch.float64)
    members[..., 0] = 0
    with torch.no_grad(), residual.recording(decoder, members) as record:
        states = decoder.model(ids, output_hidden_states=True).hidden_states
    assert set(record) == {*residual.PER_TOKEN, "spread", "final_norm"}
    length = ids.shape[1]
    for layer in range(len(decoder.blocks)):
        before = states[layer][0]
        np.testing.assert_allclose(record["norm_in"][layer][0], before.norm(dim=-1), rtol=1e-12)
        if layer + 1 < len(decoder.blocks):  # the last of them is normed
            after = states[layer + 1][0]
            np.testing.assert_allclose(record["norm_out"][layer][0], after.norm(dim=-1), rtol=1e-12)
            np.testing.assert_allclose(record["product"][layer][0], (before * after).sum(-1), rtol=1e-10)
            unit = after[1:] / after[1:].norm(dim=-1, keepdim=True)
            mean = ((unit @ unit.T).sum() - (length - 1)) / ((length - 1) * (length - 2))
            assert record["spread"][layer].item() == pytest.approx(mean.item(), rel=1e-9)
    np.testing.assert_allclose(record["final_norm"][0], states[-1][0].norm(dim=-1), rtol=1e-12)
    assert torch.isfinite(record["attention_in"]).all() and torch.isfinite(record["mlp_out"]).all()
    for module in decoder.model.modules():
        left = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
        assert not [hook for hook in left if hook.__module__ == residual.__name__]  # others are of transformers

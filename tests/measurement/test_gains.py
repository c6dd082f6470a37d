"""Measuring residual gains: padding, precision, missing values, the model left as it was, and a
real model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch

from thermostats.errors import ThermostatsError
from thermostats.measurement.batching import tokenise
from thermostats.measurement.forward import make_batches
from thermostats.measurement.gains import measure_gains
from thermostats.measurement.hub import fetch_model_folder
from thermostats.measurement.loading import load
from thermostats.tables import store

STORIES = Path(__file__).parents[3] / "shared" / "models" / "stories260k"


def valid(table: str, frame: Any) -> None:
    """The frame passes the schema once its run is named."""
    store.validate(frame.assign(run_id="r"), table)


@pytest.mark.parametrize(
    "name",
    ["gpt2", "llama", "bloom", "opt", "deepseek_v3", "gpt_neo", "falcon_multi_head_sequential"],
)
def test_other_prompts_of_a_batch_change_nothing(name: str) -> None:
    model, prompts = tiny.opened(name), tiny.prompts(1, 12, 4, 7, 2, 3)
    alone = measure_gains(model, prompts, token_budget=1, decode=str)
    together = measure_gains(model, prompts, token_budget=1000, decode=str)
    numbers = [
        "norm_in",
        "gain_block",
        "gain_attention",
        "gain_mlp",
        "write_attention",
        "write_mlp",
    ]
    np.testing.assert_allclose(alone.layers[numbers], together.layers[numbers], rtol=2e-6)
    np.testing.assert_allclose(
        alone.layers[["cosine", "anisotropy"]], together.layers[["cosine", "anisotropy"]], atol=5e-6
    )
    assert alone.layers.missing.equals(together.layers.missing)
    assert alone.outputs is not None
    assert together.outputs is not None
    np.testing.assert_allclose(alone.outputs.entropy, together.outputs.entropy, rtol=1e-5)
    assert alone.outputs.top_token.equals(together.outputs.top_token)


def test_entries_say_whether_prompts_can_be_packed() -> None:
    prompts = tiny.prompts(2, 9, 6, 5)
    for name in ("gpt2", "gpt_neo", "mixtral", "opt", "bloom"):
        model = tiny.opened(name)
        packed = make_batches(model, prompts, 24, packed=True)
        assert (packed[0].positions is not None) == model.entry.packs
        assert not model.entry.packs or [batch.lengths for batch in packed] == [(9, 6, 5, 2)]
        forced = replace(model, entry=replace(model.entry, packs=True))
        alone, together = (
            measure_gains(forced, prompts, token_budget=n).layers["norm_in"] for n in (1, 24)
        )
        assert np.allclose(alone, together, rtol=2e-6, equal_nan=True) == model.entry.packs


def test_a_prompt_that_overflows_spoils_no_other_of_its_pack() -> None:
    model, prompts = tiny.opened("llama"), tiny.prompts(5, 4)
    token = prompts[1].token_ids[2]
    assert token not in prompts[0].token_ids
    model.base.embed_tokens.weight.data[token] = torch.inf
    rows = measure_gains(model, prompts, decode=str).layers.set_index("prompt_id")
    assert (rows.loc["p0", "missing"] == "").all()
    assert (rows.loc["p1", "missing"] != "").any()
    alone = measure_gains(model, prompts[:1]).layers
    np.testing.assert_allclose(rows.loc["p0", "gain_block"], alone.gain_block, rtol=2e-6)


def test_overflow_is_missing_with_its_reason_in_half_precision() -> None:
    model = tiny.build("llama")
    model.model.layers[1].mlp.down_proj.weight.data.mul_(1e5)
    wide = measure_gains(tiny.places(model), tiny.prompts(5), decode=str)
    assert (wide.layers.missing == "").all()
    half = model.half()
    measured = measure_gains(tiny.places(half), tiny.prompts(5), decode=str)
    valid("layers", measured.layers)
    rows = measured.layers.set_index(["layer", "position"])
    assert rows.loc[(1, "last"), "missing"] == ""
    assert rows.loc[(2, "last"), "missing"].startswith("norm not finite in float16: gain_block")
    assert np.isnan(rows.loc[(2, "last"), "gain_block"])
    assert np.isfinite(rows.loc[(2, "last"), "norm_in"])
    assert np.isnan(rows.loc[(3, "last"), "norm_in"])
    assert measured.outputs is not None
    assert measured.outputs.missing.item() == "logits not finite in float16"
    assert measured.outputs.top_token.item() == ""
    assert measured.summaries.missing.item() == "norm not finite in float16"


def test_the_model_is_left_as_it_was() -> None:
    opened = tiny.opened("gpt2", resid_pdrop=0.5)
    opened.model.train()
    first = measure_gains(opened, tiny.prompts(5), decode=str)
    assert opened.model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in opened.model.modules())
    assert first.layers.equals(measure_gains(opened, tiny.prompts(5)).layers)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_out_of_memory_is_named_with_what_to_try(error: Exception) -> None:
    opened = tiny.opened("gpt2")

    def fail(*_: object) -> None:
        raise error

    handle = opened.blocks[1].register_forward_pre_hook(fail)
    with pytest.raises(
        ThermostatsError,
        match=r"out of memory during .*2 prompts, 1 × 18 tokens.*--set token_budget",
    ):
        measure_gains(opened, tiny.prompts(9, 9))
    handle.remove()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in opened.model.modules())


@pytest.mark.skipif(not STORIES.is_dir(), reason="the folder with the real model is not here")
def test_real_model_agrees_with_output_hidden_states_except_for_the_normed_last() -> None:
    loaded = load(fetch_model_folder(str(STORIES)), device="cpu")
    texts = [("a", "Once upon a time"), ("b", "The little dog was happy because"), ("c", "Lily")]
    prompts, _ = tokenise(loaded.tokenizer, texts)
    measured = measure_gains(
        loaded.decoder, prompts, decode=lambda token: loaded.tokenizer.decode([token])
    )
    valid("layers", measured.layers)
    valid("outputs", measured.outputs)
    rows = measured.layers.set_index(["prompt_id", "layer", "position"])
    normed = measured.summaries.set_index("prompt_id")["value"]
    assert measured.outputs is not None
    outputs = measured.outputs.set_index("prompt_id")
    for prompt in prompts:
        with torch.no_grad():
            out = loaded.decoder.model(torch.tensor([prompt.token_ids]), output_hidden_states=True)
        norms = [float(h[0, -1].norm()) for h in out.hidden_states]
        L = len(norms) - 1
        for layer in range(1, L + 1):
            gain = rows.loc[(prompt.prompt_id, layer, "last"), "gain_block"]
            if layer < L:
                assert gain == pytest.approx(norms[layer] / norms[layer - 1], rel=2e-6)
            else:
                assert gain != pytest.approx(norms[layer] / norms[layer - 1], rel=0.01)
                assert normed[prompt.prompt_id] == pytest.approx(
                    norms[layer] / norms[layer - 1], rel=2e-6
                )
        log_p = out.logits[0, -1].double().log_softmax(-1)
        assert outputs.loc[prompt.prompt_id, "entropy"] == pytest.approx(
            float(-(log_p.exp() * log_p).sum()), rel=1e-5
        )


def test_norms_are_accumulated_in_float32_whatever_the_weights() -> None:
    model = tiny.build("llama").to(torch.bfloat16)
    places = tiny.places(model)
    prompts = tiny.prompts(6)
    outputs = []
    handle = places.blocks[0].register_forward_hook(
        lambda _m, _a, out: outputs.append(out.double())
    )
    measured = measure_gains(places, prompts)
    handle.remove()
    norm = measured.layers.set_index(["layer", "position"]).loc[(2, "last"), "norm_in"]
    assert norm == pytest.approx(float(outputs[0][0, -1].norm()), rel=1e-6)


def test_head_reads_one_token_of_each_prompt() -> None:
    opened, seen = tiny.opened("gpt2"), []
    handle = opened.model.lm_head.register_forward_pre_hook(
        lambda _m, args: seen.append(args[0].shape)
    )
    measure_gains(opened, tiny.prompts(9, 9), decode=str)
    measure_gains(opened, tiny.prompts(9, 9))
    handle.remove()
    assert [tuple(shape) for shape in seen] == [(2, 1, 32)]

"""Collected weights against the model's own arithmetic, and the rows against a plain loop over
single prompts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch

from thermostats.errors import ThermostatsError
from thermostats.measurement import attention, sheaf
from thermostats.measurement.architectures import ARCHITECTURES
from thermostats.measurement.checkpoint import split
from thermostats.measurement.forward import Decoder, extract_input, find_submodule, track_layers
from thermostats.tables.store import validate

EAGER_IS_WRONG = "falcon_multi_head_sequential"


def matrix(x: Any) -> Any:
    """One prompt's vectors (n × ·), whatever stands before them for the batch."""
    return x.reshape(-1, x.shape[-1]).double().numpy()


def seen_by(decoder: Decoder, prompt: Any, layer: int) -> tuple[Any, Any, Any]:
    """Attention weights (H × n × n), what the values are computed from (n × ·), what W_O receives
    (n × H·d_h)."""
    seen: dict[Any, Any] = {}

    def keep(name: str) -> Any:
        def hook(_module: Any, args: Any, kwargs: Any) -> None:
            if now() == layer:
                seen[name] = matrix(extract_input(args, kwargs))

        return hook

    handles = [
        find_submodule(decoder.blocks[layer], path, decoder.entry).register_forward_pre_hook(
            keep(path), with_kwargs=True
        )
        for path in (decoder.entry.value, decoder.entry.output)
    ]
    collected = attention.collect_attention(
        decoder, lambda at, A: seen.update({at: A[0].double().numpy()})
    )
    with track_layers(decoder.blocks) as now, collected, torch.inference_mode():
        decoder.base(**tiny.arguments(prompt))
    for handle in handles:
        handle.remove()
    return seen[layer], seen[decoder.entry.value], seen[decoder.entry.output]


WINDOWED = "swin"


ATTENDING = [
    e.name for e in ARCHITECTURES if e.attends and e.name not in (EAGER_IS_WRONG, WINDOWED)
]


@pytest.mark.parametrize("name", ATTENDING)
def test_weights_and_values_are_those_the_model_multiplies(name: str) -> None:
    decoder, layer = tiny.opened(name, "eager"), 1
    A, x, received = seen_by(decoder, tiny.inputs(decoder, 7)[0], layer)
    block = decoder.blocks[layer]
    value, output = (
        find_submodule(block, path, decoder.entry).weight.detach().double().numpy()
        for path in (decoder.entry.value, decoder.entry.output)
    )
    parts = split(decoder.entry, decoder.config, value, output)
    expected = np.concatenate([A[h] @ x @ parts.get_head(h)[0].T for h in range(len(A))], axis=1)
    # what is left is the bias of the values, the same for every token, times the sum of its row
    sums = np.repeat(A.sum(axis=2), parts.d_head, axis=0).T
    bias = (received - expected) / sums
    assert np.abs(bias - bias[0]).max() < 1e-4 * np.abs(received).max()
    assert np.allclose(np.triu(A, 1), 0) == decoder.entry.causal
    assert decoder.entry.sinks or np.allclose(A.sum(axis=2), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "llama", "gpt_oss", "bert", "albert", "vit"])
def test_rows_are_those_of_a_plain_loop_and_padding_changes_nothing(name: str) -> None:
    decoder = tiny.opened(name, "eager")
    prompts = tiny.inputs(decoder, 1, 9, 4, 6)
    table = validate(
        attention.measure_attention(decoder, prompts, token_budget=1000).assign(run_id="r"),
        "attention",
    )
    rows = []
    for prompt in prompts:
        for layer in range(len(decoder.blocks)):
            A, _, _ = seen_by(decoder, prompt, layer)
            values = attention.measure_layer_values(decoder, layer)
            rows += sheaf.build_attention_rows(
                A,
                values.exact,
                layer=layer + 1,
                prompt_id=prompt.prompt_id,
                published=values.published,
            )
    norms = [
        attention.measure_layer_values(decoder, layer).spectral_norm
        for layer in range(len(decoder.blocks))
    ]
    rows += [sheaf.build_proxy_row(layer, norm) for layer, norm in enumerate(norms, 1)]
    plain = validate(pd.DataFrame(rows).assign(run_id="r"), "attention")
    assert table["missing"].equals(plain["missing"])
    np.testing.assert_allclose(
        table[list(sheaf.MEASURES)].to_numpy(float),
        plain[list(sheaf.MEASURES)].to_numpy(float),
        rtol=2e-4,
        atol=2e-5,
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in tiny.FIRST else pytest.mark.slow)
        for name in ATTENDING
    ],
)
def test_rows_are_those_of_the_dense_operator_of_the_weights_that_the_model_returns(
    name: str,
) -> None:
    """The operator itself, n·d squared, of `output_attentions` and of the W_V that
    `check_conformance` proves."""
    decoder, prompt = tiny.opened(name, "eager"), tiny.inputs(tiny.opened(name, "eager"), 4)[0]
    table = (
        attention.measure_attention(decoder, [prompt])
        .query("variant == 'exact'")
        .set_index(["layer", "head"])
    )
    with torch.inference_mode():
        returned = decoder.base(**tiny.arguments(prompt), output_attentions=True).attentions
    assert len(returned) == len(decoder.blocks)
    for layer, block in enumerate(decoder.blocks):
        A = returned[layer][0].double().numpy()
        value, output = (
            find_submodule(block, path, decoder.entry).weight.detach().double().numpy()
            for path in (decoder.entry.value, decoder.entry.output)
        )
        parts = split(decoder.entry, decoder.config, value, output)
        for h in range(len(A)):
            rows = A[h] / A[h].sum(axis=1, keepdims=True)
            eigenvalues = np.linalg.eigvalsh(
                sheaf.build_dense_operator(A[h : h + 1], parts.get_head(h)[0][None])
            )
            expected = {
                "trace": eigenvalues.sum(),
                "laplacian_max": eigenvalues[-1],
                "self_attention": np.diag(A[h]).mean(),
                "entropy": np.mean([-sum(p * np.log(p) for p in row if p > 0) for row in rows]),
            }
            row = table.loc[(layer + 1, str(h + 1))]
            assert {key: row[key] for key in expected} == pytest.approx(
                expected, rel=2e-4, abs=2e-5
            ), (layer, h)


def test_one_layer_of_weights_is_reduced_before_the_next_is_computed() -> None:
    decoder, order = tiny.opened("llama", "eager"), []
    for layer, block in enumerate(decoder.blocks):
        block.register_forward_pre_hook(lambda *_args, at=layer: order.append(("enter", at)))
    with (
        attention.collect_attention(decoder, lambda at, _A: order.append(("reduced", at))),
        torch.inference_mode(),
    ):
        decoder.base(input_ids=torch.tensor([[3, 4, 5]]))
    assert order == [(step, at) for at in range(3) for step in ("enter", "reduced")]
    assert not any(m._forward_hooks for block in decoder.blocks for m in block.modules())


def test_attention_that_is_not_eager_is_refused() -> None:
    with pytest.raises(ThermostatsError, match="shows no weights"):
        attention.measure_attention(tiny.opened("llama"), tiny.prompts(3))

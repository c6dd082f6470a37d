"""Many models of one shape as one: every weight has the model as its first axis, a matrix is
applied as x @ W.

The architecture is pre-norm, rotary and gated, Llama's with heads whose total width need not be
that of the stream; `export` writes each model as a Hugging Face model folder (class Mistral without
a window, which is this).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, silu
from transformers import AutoModelForCausalLM, MistralConfig, PreTrainedModel

from nursery.recipes import Recipe, Shape

Weights = dict[str, Tensor]
"""embed (m, V, d), head (m, d, V), norm (m, d); by layer, second axis l: norm1, norm2 (m, L, d) and
the matrices."""
EPS = 1e-6
BASE = 10000.0
WRITES = ("o", "down")
"""Matrices that write into the stream."""
_LAYER = {
    "norm1": "input_layernorm",
    "norm2": "post_attention_layernorm",
    **{name: f"self_attn.{name}_proj" for name in "qkvo"},
    **{name: f"mlp.{name}_proj" for name in ("gate", "up", "down")},
}
_WHOLE = {"embed": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"}


def matrices(shape: Shape) -> dict[str, tuple[int, int]]:
    """Matrices of a layer, (inputs, outputs)."""
    d = shape.d_model
    inner = shape.inner
    f = shape.d_ff
    return dict.fromkeys("qkv", (d, inner)) | {
        "o": (inner, d),
        "gate": (d, f),
        "up": (d, f),
        "down": (f, d),
    }


def initial(shape: Shape, recipe: Recipe, vocab_size: int, seed: int) -> Weights:
    """Weights of one model, m = 1: matrices N(0, s²/inputs) with s the recipe's, those that write
    (2 L)^-power of that.

    Embeddings are N(0, embed²), the head N(0, s²/d), norms 1. Drawn matrix by matrix from the seed
    alone.
    """
    draw = torch.Generator().manual_seed(seed)
    d = shape.d_model
    depth = shape.n_layers
    down = (2 * depth) ** -recipe.depth_power
    made = {"embed": recipe.embed * torch.randn(1, vocab_size, d, generator=draw)}
    for name, (inputs, outputs) in matrices(shape).items():
        scale = recipe.init / math.sqrt(inputs) * (down if name in WRITES else 1.0)
        made[name] = scale * torch.randn(1, depth, inputs, outputs, generator=draw)
    made["head"] = recipe.init / math.sqrt(d) * torch.randn(1, d, vocab_size, generator=draw)
    return made | {
        "norm1": torch.ones(1, depth, d),
        "norm2": torch.ones(1, depth, d),
        "norm": torch.ones(1, d),
    }


def stack(models: Sequence[Weights]) -> Weights:
    """Models of one shape as one stack."""
    return {name: torch.cat([weights[name] for weights in models]) for name in models[0]}


@dataclass(frozen=True)
class Stream:
    """What a forward pass hands out: logits (m, b, t, V), norms of the stream (m, b, t) before and
    after blocks."""

    logits: Tensor
    norms: list[Tensor]


def forward(
    weights: Weights,
    tokens: Tensor,
    shape: Shape,
    dropped: Tensor | None = None,
    *,
    norms: bool = False,
) -> Stream:
    """Logits of tokens (m, b, t), every model reading its own.

    dropped: what outputs of attention and MLP are multiplied by, (L, 2, m, b t, d); None: nothing
    is dropped.
    """
    m, b, t = tokens.shape
    flat = tokens.reshape(m, b * t)
    x = weights["embed"].gather(1, flat[..., None].expand(-1, -1, shape.d_model))
    turn = _rotation(t, shape.d_head, x)
    mask = torch.full((t, t), -torch.inf, dtype=x.dtype, device=x.device).triu(1)
    lengths = [x.norm(dim=-1).view(m, b, t)] if norms else []
    layers = {name: weights[name].unbind(1) for name in _LAYER}
    for i in range(shape.n_layers):
        layer = {name: parts[i] for name, parts in layers.items()}
        mixed = _attention(layer, _normed(x, layer["norm1"]), shape, (m, b, t), turn, mask)
        x = x + (mixed if dropped is None else mixed * dropped[i, 0])
        inside = _normed(x, layer["norm2"])
        inside = (silu(inside @ layer["gate"]) * (inside @ layer["up"])) @ layer["down"]
        x = x + (inside if dropped is None else inside * dropped[i, 1])
        if norms:
            lengths.append(x.norm(dim=-1).view(m, b, t))
    logits = _normed(x, weights["norm"]) @ weights["head"]
    return Stream(logits.view(m, b, t, -1), lengths)


def export(weights: Weights, number: int, shape: Shape, context: int) -> PreTrainedModel:
    """One model of a stack as a model of transformers."""
    config = MistralConfig(
        vocab_size=weights["embed"].shape[1],
        hidden_size=shape.d_model,
        intermediate_size=shape.d_ff,
        num_hidden_layers=shape.n_layers,
        num_attention_heads=shape.n_heads,
        num_key_value_heads=shape.n_heads,
        head_dim=shape.d_head,
        max_position_embeddings=context,
        rms_norm_eps=EPS,
        sliding_window=None,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    auto: Any = AutoModelForCausalLM
    model: PreTrainedModel = auto.from_config(config, dtype=torch.float32)
    model.load_state_dict(
        {name: tensor.contiguous() for name, tensor in named(weights, number).items()}
    )
    return model


def named(weights: Weights, number: int) -> Mapping[str, Tensor]:
    """Weights of one model of a stack by their names in transformers, where matrices are (outputs,
    inputs)."""
    tensors = {f"{name}.weight": weights[key][number] for key, name in _WHOLE.items()}
    tensors["lm_head.weight"] = tensors["lm_head.weight"].T
    for key, name in _LAYER.items():
        for i, part in enumerate(weights[key][number]):
            tensors[f"model.layers.{i}.{name}.weight"] = part.T if part.ndim == 2 else part
    return tensors


def restored(folder: Path) -> Weights:
    """Weights, m = 1, of a folder that an exported model was saved to."""
    from safetensors.torch import load_file  # noqa: PLC0415

    stored = load_file(folder / "model.safetensors")
    depth = sum(name.endswith("q_proj.weight") for name in stored)
    tensors = {key: stored[f"{name}.weight"] for key, name in _WHOLE.items()}
    tensors["head"] = tensors["head"].T
    for key, name in _LAYER.items():
        parts = [stored[f"model.layers.{i}.{name}.weight"] for i in range(depth)]
        tensors[key] = torch.stack([part.T if part.ndim == 2 else part for part in parts])
    return {name: tensor[None].contiguous() for name, tensor in tensors.items()}


def _normed(x: Tensor, scale: Tensor) -> Tensor:
    return rms_norm(x, (x.shape[-1],), eps=EPS) * scale[:, None]


def _rotation(t: int, width: int, like: Tensor) -> tuple[Tensor, Tensor]:
    rates = BASE ** -(torch.arange(0, width, 2, device=like.device, dtype=torch.float32) / width)
    angles = torch.outer(torch.arange(t, device=like.device, dtype=torch.float32), rates).repeat(
        1, 2
    )[:, None]
    return angles.cos(), angles.sin()


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * turn[0] + torch.cat((-second, first), dim=-1) * turn[1]


def _attention(
    layer: Weights,
    x: Tensor,
    shape: Shape,
    size: tuple[int, int, int],
    turn: tuple[Tensor, Tensor],
    mask: Tensor,
) -> Tensor:
    m, b, t = size
    heads = (x @ layer[name] for name in "qkv")
    q, k, v = (part.view(m * b, t, shape.n_heads, shape.d_head) for part in heads)
    flat = (
        part.transpose(1, 2).reshape(-1, t, shape.d_head)
        for part in (_turned(q, turn), _turned(k, turn), v)
    )
    q, k, v = flat
    a = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=shape.d_head**-0.5).softmax(dim=-1)
    mixed = (a @ v).view(m * b, shape.n_heads, t, shape.d_head).transpose(1, 2)
    return mixed.reshape(m, b * t, shape.inner) @ layer["o"]

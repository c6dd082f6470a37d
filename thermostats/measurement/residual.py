"""Residual stream: hooks on blocks that keep one number per token, and the tables made of them.

    G_l(t) = n_l(t) / n_(l-1)(t),   n_l(t) = ‖x_l(t)‖₂,   x_l: what leaves block l, before the final norm

Everything is reduced inside the hook, in float32 or wider, because some blocks write into their tensors afterwards and
because the stream of a whole model does not fit where its norms do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import EllipsisType
from typing import Any

import torch
from torch import Tensor

from thermostats.measurement.forward import Decoder, on_entry, on_exit, submodule

Record = dict[str, Tensor]
"""Per quantity one tensor: norms and products (L × rows × tokens), `spread` (L × rows × prompts in the row) and
`final_norm` (rows × tokens); NaN where the module was not called."""

SUBBLOCKS = ("attention_in", "attention_out", "attention_write", "mlp_in", "mlp_out", "mlp_write")
PER_TOKEN = ("norm_in", "norm_out", "product", *SUBBLOCKS)


def _wide(x: Tensor) -> Tensor:
    """float32 at least."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def norms(x: Tensor, shape: tuple[int, int]) -> Tensor:
    """‖x(t)‖₂ over the last axis, accumulated in float32 or wider, as (batch × tokens)."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    found: Tensor = torch.linalg.vector_norm(x, dim=-1, dtype=wide)
    return found.reshape(shape)


def mean_cosine(x: Tensor, norm: Tensor, weights: Tensor) -> Tensor:
    """Mean pairwise cosine of the token vectors that have weight 1: (‖Σ x/‖x‖‖² − m) / (m(m − 1)).

    `x` (rows × tokens × d), `norm` (rows × tokens), `weights` (rows × prompts × tokens); one number a row and prompt.
    """
    m = weights.sum(-1)
    total = torch.bmm((weights / norm.unsqueeze(1)).to(norm.dtype), _wide(x).reshape(*norm.shape, -1))
    return (total.square().sum(-1) - m) / (m * (m - 1))


@contextmanager
def recording(decoder: Decoder, members: Tensor) -> Iterator[Record]:
    """Record, while open, the forward pass of one batch.

    `members` (rows × prompts in the row × tokens) is 1 on the tokens of each prompt but its first.

    The record holds norm_in, norm_out, product (⟨x_(l-1), x_l⟩), spread (anisotropy of x_l without the first token),
    the norms of `SUBBLOCKS`, and final_norm (‖norm_f(x_L)‖). It is made before the pass, so that nothing small that
    stays lies between the large tensors that come and go, and their memory can be used again.
    """
    L, shape = len(decoder.blocks), (members.shape[0], members.shape[2])
    wide = torch.float64 if decoder.dtype == torch.float64 else torch.float32
    kept: dict[str, Any] = {"dtype": wide, "device": members.device}
    record = {name: torch.full((L, *shape), torch.nan, **kept) for name in PER_TOKEN}
    record |= {"spread": torch.full((L, *members.shape[:2]), torch.nan, **kept)}
    record |= {"final_norm": torch.full(shape, torch.nan, **kept)}
    weights: dict[torch.device, Tensor] = {}
    stream: dict[str, Any] = {"tensor": None}

    def weights_on(device: torch.device) -> Tensor:
        if device not in weights:
            weights[device] = members.to(device)
        return weights[device]

    def enter(layer: int, x: Tensor) -> None:
        known = x is stream["tensor"]
        record["norm_in"][layer] = record["norm_out"][layer - 1] if known else norms(x, shape)
        stream["tensor"] = x

    def leave(layer: int, x: Tensor) -> None:
        before, norm = stream["tensor"].to(x.device), norms(x, shape)
        record["norm_out"][layer] = norm
        record["product"][layer] = torch.einsum("btd,btd->bt", _wide(before), _wide(x))
        record["spread"][layer] = mean_cosine(x, norm, weights_on(x.device))
        stream["tensor"] = x

    def keep(name: str, layer: int | EllipsisType, x: Tensor) -> None:
        record[name][layer] = norms(x, shape)

    entry = decoder.entry
    with ExitStack() as stack:
        for layer, block in enumerate(decoder.blocks):
            on_entry(stack, block, partial(enter, layer))
            for part, place, out, write in (
                ("attention", entry.attention, entry.attention_out, entry.attention_write),
                ("mlp", entry.mlp, entry.mlp_out, entry.mlp_write),
            ):
                on_entry(stack, submodule(block, place, entry), partial(keep, f"{part}_in", layer))
                on_exit(stack, submodule(block, out or place, entry), partial(keep, f"{part}_out", layer))
                if write:
                    on_exit(stack, submodule(block, write, entry), partial(keep, f"{part}_write", layer))
            on_exit(stack, block, partial(leave, layer))
        if decoder.final_norm is not None:
            on_exit(stack, decoder.final_norm, partial(keep, "final_norm", ...))
        yield record

"""Residual stream: hooks on blocks that keep one number per token, and the tables made of them.

    G_l(t) = n_l(t) / n_(l-1)(t),   n_l(t) = ‖x_l(t)‖₂,   x_l: what leaves block l, before the final norm

Everything is reduced inside the hook, in float32 or wider, because some blocks write into their tensors afterwards and
because the stream of a whole model does not fit where its norms do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from thermostats.measurement.architectures import Architecture
from thermostats.measurement.forward import Decoder, in_turn, mixing, on_entry, on_exit, submodule
from thermostats.measurement.readings import reads_centred

Record = dict[str, Tensor]
"""Per quantity one tensor: norms and products (L × rows × tokens), `spread` (L × rows × prompts in the row) and
`final_norm` (rows × tokens); NaN where the module was not called, and beyond the patches of a later stage."""

SUBBLOCKS = ("attention_in", "attention_out", "attention_write", "mlp_in", "mlp_out", "mlp_write")
SUMS = ("attention_sum", "mlp_sum")
"""Of post-norm blocks: what the norm behind a sub-block reads, x + f(x)."""
CENTRED = ("norm_in_centred", "norm_out_centred", "attention_write_centred", "mlp_write_centred")
"""Of models whose norms subtract the mean: norms of P x_(l-1), P x_l and of P times what is written, P = I − 11ᵀ/d."""
PER_TOKEN = ("norm_in", "norm_out", "product", *SUBBLOCKS, *SUMS, *CENTRED)


def _wide(x: Tensor) -> Tensor:
    """float32 at least."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def norms(x: Tensor, rows: int) -> Tensor:
    """‖x(t)‖₂ over the last axis, accumulated in float32 or wider, as (rows × tokens); windows one behind the other."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    lengths: Tensor = torch.linalg.vector_norm(x, dim=-1, dtype=wide)
    return lengths.reshape(rows, -1)


def centred(x: Tensor) -> Tensor:
    """P x = x − mean(x) over the last axis, in float32 or wider."""
    wide = _wide(x)
    return wide - wide.mean(-1, keepdim=True)


def mean_cosine(x: Tensor, norm: Tensor, weights: Tensor) -> Tensor:
    """Mean pairwise cosine of the token vectors that have weight 1: (‖Σ x/‖x‖‖² − m) / (m(m − 1)).

    `x` (rows × tokens × d), `norm` (rows × tokens), `weights` (rows × prompts × tokens); one number per row and prompt.
    """
    m = weights.sum(-1)
    total = torch.bmm((weights / norm.unsqueeze(1)).to(norm.dtype), _wide(x).reshape(*norm.shape, -1))
    return (total.square().sum(-1) - m) / (m * (m - 1))


def _subblocks(block: nn.Module, entry: Architecture) -> list[tuple[str, str, str, str, str]]:
    """Name of each sub-block that a block has, its module, and the modules and scale of its output."""
    mixer = (mixing(block, entry), entry.attention_out, entry.attention_write, entry.attention_scale)
    both = {"attention": mixer, "mlp": (entry.mlp, entry.mlp_out, entry.mlp_write, entry.mlp_scale)}
    return [(part, *modules) for part, modules in both.items() if modules[0]]


def _on_subblocks(
    stack: ExitStack, block: nn.Module, entry: Architecture, keep: Callable[..., None], *, centring: bool
) -> None:
    """Until the stack is closed, keep (name, tensor) of what the sub-blocks of a block read and write."""
    for part, place, out, write, scale in _subblocks(block, entry):
        read, written = submodule(block, place, entry), submodule(block, out or place, entry)
        factor = attrgetter(scale)(block) if scale else None
        on_entry(stack, read, partial(keep, f"{part}_in"))
        on_exit(stack, written, partial(keep, f"{part}_out"))
        if write:
            on_exit(stack, submodule(block, write, entry), partial(keep, f"{part}_write"))
        if scale:
            on_exit(stack, written, partial(keep, f"{part}_write", scale=factor))
        if centring:
            of_write = partial(keep, f"{part}_write_centred", scale=factor, of=centred)
            on_exit(stack, submodule(block, write, entry) if write else written, of_write)
    for name, norm in zip(SUMS, entry.norm_after, strict=False):
        on_entry(stack, submodule(block, norm, entry), partial(keep, name))


@contextmanager
def recording(decoder: Decoder, members: Tensor) -> Iterator[Record]:
    """Record, while open, the forward pass of one batch.

    `members` (rows × prompts in the row × tokens) is 1 on the tokens of each prompt but its first.

    What a sub-block reads and writes is taken call by call, one behind the other where it is called on a part of the
    tokens; where the calls of a block are not all of its tokens once, its place is NaN.

    The record holds norm_in, norm_out, product (⟨x_(l-1), x_l⟩), spread (anisotropy of x_l without the first token),
    the norms of `SUBBLOCKS`, and final_norm (‖norm_f(x_L)‖). It is made before the pass, so that nothing small that
    stays lies between the large tensors that come and go, and their memory can be used again.
    """
    L, rows, shape = len(decoder.blocks), members.shape[0], (members.shape[0], members.shape[2])
    wide = torch.float64 if decoder.dtype == torch.float64 else torch.float32
    options: dict[str, Any] = {"dtype": wide, "device": members.device}
    record = {name: torch.full((L, *shape), torch.nan, **options) for name in PER_TOKEN}
    record |= {"spread": torch.full((L, *members.shape[:2]), torch.nan, **options)}
    record |= {"final_norm": torch.full(shape, torch.nan, **options)}
    weights: dict[torch.device, Tensor] = {}
    stream: dict[str, Any] = {"tensor": None}
    tokens: dict[str, int] = {}
    entry = decoder.entry
    centring = reads_centred(entry, decoder.config)

    def weights_on(device: torch.device) -> Tensor:
        if device not in weights:
            weights[device] = members.to(device)
        return weights[device]

    def put(name: str, values: Tensor) -> None:
        place = record[name] if name == "final_norm" else record[name][now()]
        place[:, : values.shape[1]] = values

    def keep(
        name: str, x: Tensor, scale: Tensor | None = None, *, of: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        x = x if scale is None else scale * x
        norm, first = norms(x if of is None else of(x), rows), tokens.get(name, 0)
        tokens[name] = first + norm.shape[1]
        place = record[name][now()][:, first : tokens[name]]
        place[:] = norm[:, : place.shape[1]]

    def enter(x: Tensor) -> None:
        same_tensor = x is stream["tensor"]
        put("norm_in", record["norm_out"][now() - 1] if same_tensor else norms(x, rows))
        if centring:
            name = "norm_out_centred"
            put("norm_in_centred", record[name][now() - 1] if same_tensor else norms(centred(x), rows))
        stream["tensor"] = x
        tokens.clear()

    def leave(x: Tensor) -> None:
        before, norm = stream["tensor"].to(x.device), norms(x, rows)
        put("norm_out", norm)
        if centring:
            put("norm_out_centred", norms(centred(x), rows))
        put("product", torch.einsum("btd,btd->bt", _wide(before), _wide(x)))
        record["spread"][now()] = mean_cosine(x, norm, weights_on(x.device)[..., : norm.shape[1]])
        stream["tensor"] = x
        for name, n in tokens.items():
            if n != norm.shape[1]:
                record[name][now()] = torch.nan

    with in_turn(decoder.blocks) as now, ExitStack() as stack:
        for block in dict.fromkeys(decoder.blocks):
            on_entry(stack, block, enter)
            _on_subblocks(stack, block, entry, keep, centring=centring)
            on_exit(stack, block, leave)
        if decoder.final_norm is not None:
            on_exit(stack, decoder.final_norm, lambda x: put("final_norm", norms(x, rows)))
        yield record

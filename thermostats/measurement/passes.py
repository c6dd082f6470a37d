"""Prompts or images in batches, and one forward pass a batch."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from thermostats.errors import TransientError, UsageError, first_line
from thermostats.measurement.architectures import Architecture, Config, config_of
from thermostats.measurement.batching import BUDGET, TokenisedPrompt, batches, check_prompts, packs
from thermostats.measurement.forward import Decoder, of_memory, running, submodule, without_cache
from thermostats.measurement.layouts import context, rope_type, ropes

OVERHEAD = {"cpu": 16, "accelerator": 256}
"""Cost of one more padded batch in tokens: reading the weights takes as long as this many tokens' arithmetic."""
BY_LENGTH = ("dynamic", "longrope", "su")
"""Rotary embeddings whose frequencies follow from the longest input of a batch."""
PACK = 176
"""Tokens of a pack: products of matrices are about as fast as they get, what is held at a time still is small."""
FEW = 2
"""Patches on a side of the smallest image, where a model resizes its positions."""


@dataclass(frozen=True)
class Batch:
    """Token ids (rows × tokens) or images (rows × channels × height × width), the mask (rows × tokens), and the places
    of the prompts in their list.

    Either each row holds one prompt, padded on the right, or a single row holds all of them one after the other. Then
    `positions` (1 × tokens) restart with each prompt, and prompt k begins at `starts[k]`.
    """

    indices: tuple[int, ...]
    lengths: tuple[int, ...]
    spans: tuple[slice, ...]
    """Tokens of each prompt that means are over."""
    input_ids: Tensor
    mask: Tensor
    positions: Tensor | None = None

    @property
    def starts(self) -> tuple[int, ...]:
        """Where each prompt begins in its row."""
        if self.positions is None:
            return (0,) * len(self.lengths)
        return tuple(sum(self.lengths[:k]) for k in range(len(self.lengths)))

    @property
    def rows(self) -> tuple[int, ...]:
        """Row of each prompt."""
        return tuple(range(len(self.indices))) if self.positions is None else (0,) * len(self.indices)

    def members(self) -> Tensor:
        """1 for the tokens of each prompt that means are over (rows × prompts in the row × tokens)."""
        rows, tokens = self.mask.shape
        ones = torch.zeros(rows, len(self.indices) // rows, tokens)
        for k, (start, span) in enumerate(zip(self.starts, self.spans, strict=True)):
            ones[(k, 0) if self.positions is None else (0, k)][start + span.start : start + span.stop] = 1
        return ones.to(self.input_ids.device)


def make_batches(
    decoder: Decoder, prompts: Sequence[TokenisedPrompt], budget: int | None = None, *, packed: bool = False
) -> list[Batch]:
    """The prompts in batches on the model's device. Raises UsageError for prompts that cannot be measured.

    Packed where that is asked for and the model can: on a CPU, where padding costs more than attention over a few
    prompts' tokens. Each alone where one would change another; see `keeps_apart`.
    """
    if decoder.entry.reads == "image":
        return _images(decoder, prompts, budget)
    vocabulary = config_of(decoder.config).get("vocab_size")
    check_prompts(prompts, vocabulary=vocabulary, context=context(decoder.entry, decoder.config))
    kind = "cpu" if decoder.device.type == "cpu" else "accelerator"
    lengths = [len(prompt.token_ids) for prompt in prompts]
    alone = not keeps_apart(decoder)
    if packed and kind == "cpu" and decoder.entry.packs and not alone:
        return [_packed(decoder, prompts, indices) for indices in packs(lengths, budget=budget or PACK)]
    parts = batches(lengths, budget=1 if alone else budget or BUDGET[kind], overhead=OVERHEAD[kind])
    return [padded(decoder, prompts, indices) for indices in parts]


def keeps_apart(decoder: Decoder) -> bool:
    """Whether what a model does with an input does not depend on the others of a batch, as far as its class tells.

    It may where the class is not transformers' own, whose masks are known; where there is no mask and tokens read those
    behind them, padding too; and where the rotary frequencies follow the longest input.
    """
    accepted = inspect.signature(decoder.base.forward).parameters
    masked = decoder.entry.reads == "image" or decoder.entry.causal or "attention_mask" in accepted
    of_transformers = type(decoder.base).__module__.startswith("transformers.")
    kinds = set(map(rope_type, ropes(decoder.config)))
    return of_transformers and masked and not decoder.entry.alone and kinds.isdisjoint(BY_LENGTH)


def padded(decoder: Decoder, prompts: Sequence[TokenisedPrompt], indices: Sequence[int]) -> Batch:
    """These prompts in a batch, a row each."""
    tokens = [torch.tensor(prompts[i].token_ids) for i in indices]
    ids, mask = (
        nn.utils.rnn.pad_sequence(rows, batch_first=True).to(decoder.device)
        for rows in (tokens, [torch.ones_like(row) for row in tokens])
    )
    return Batch(tuple(indices), tuple(map(len, tokens)), tuple(prompts[i].span for i in indices), ids, mask)


def _packed(decoder: Decoder, prompts: Sequence[TokenisedPrompt], indices: Sequence[int]) -> Batch:
    tokens = [torch.tensor(prompts[i].token_ids) for i in indices]
    ids, positions = (
        torch.cat(rows).unsqueeze(0).to(decoder.device) for rows in (tokens, [torch.arange(len(row)) for row in tokens])
    )
    spans = tuple(prompts[i].span for i in indices)
    return Batch(tuple(indices), tuple(map(len, tokens)), spans, ids, torch.ones_like(ids), positions)


def patches(decoder: Decoder, image: Tensor) -> tuple[int, slice]:
    """Tokens that an image (channels × height × width) comes to, and which of them are patches.

    Raises UsageError for an image that is not of the size that the model reads.
    """
    entry, config = decoder.entry, config_of(decoder.config)
    channels, sides, each = config.get("num_channels"), _sides(config, "image_size"), _sides(config, "patch_size")
    shape, allowed = tuple(image.shape), f"{channels} channels of {sides[0]} × {sides[1]}"
    if entry.any_size and len(shape) == 3:
        sides, allowed = shape[1:], f"{channels} channels, sides that are multiples of {each[0]} and {each[1]}"
    if shape != (channels, *sides) or sides[0] % each[0] or sides[1] % each[1]:
        raise UsageError("not an image as the model reads it", got=str(shape), allowed=allowed)
    grid = (sides[0] // each[0], sides[1] // each[1])
    _check_windows(entry, config, grid)
    leading = entry.leading + (int(config[entry.registers]) if entry.registers else 0)
    n = leading + grid[0] * grid[1]
    return n, slice(leading, n)


def _sides(config: Config, key: str) -> tuple[int, int]:
    """Height and width that a configuration states, as two numbers or one."""
    stated = config[key]
    return (stated[0], stated[1]) if isinstance(stated, list | tuple) else (stated, stated)


def _check_windows(entry: Architecture, config: Config, grid: tuple[int, int]) -> None:
    """Raise UsageError where a stage's patches do not fill its windows, or four of them the next stage's patch."""
    window = int(config.get("window_size") or 1)
    for stage in range(len(entry.depths)):
        wide = min(window, *grid)
        last = stage == len(entry.depths) - 1
        if any(side % wide or (not last and side % 2) for side in grid):
            what, allowed = "the image's patches do not divide into windows", f"whole windows of {wide} in every stage"
            got = f"{grid[0]} × {grid[1]} patches in stage {stage + 1}"
            raise UsageError(what, got=got, allowed=allowed, next_step="padding has no estimand here")
        grid = (grid[0] // 2, grid[1] // 2)


def _images(decoder: Decoder, images: Sequence[Any], budget: int | None) -> list[Batch]:
    """Images in batches of at most the budget's tokens."""
    kind = "cpu" if decoder.device.type == "cpu" else "accelerator"
    n, span = patches(decoder, images[0].pixels)
    each = max(1, (budget or BUDGET[kind]) // n) if keeps_apart(decoder) else 1
    for image in images:
        patches(decoder, image.pixels)
    parts = []
    for first in range(0, len(images), each):
        part = images[first : first + each]
        pixels = torch.stack([image.pixels for image in part]).to(decoder.device, decoder.dtype)
        mask = torch.ones(len(part), n, dtype=torch.long, device=decoder.device)
        indices = tuple(range(first, first + len(part)))
        parts.append(Batch(indices, (n,) * len(part), (span,) * len(part), pixels, mask))
    return parts


def example(decoder: Decoder) -> dict[str, Any]:
    """The smallest input of a model: one token, or one image of noise."""
    if decoder.entry.reads == "text":
        return {"input_ids": torch.tensor([[1]], device=decoder.device)}
    config = config_of(decoder.config)
    resizes = "interpolate_pos_encoding" in inspect.signature(decoder.base.forward).parameters
    few = (decoder.entry.any_size or resizes) and not decoder.entry.depths
    sides = [FEW * n for n in _sides(config, "patch_size")] if few else _sides(config, "image_size")
    shape = (1, int(config.get("num_channels", 3)), *sides)
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(decoder.device, decoder.dtype)
    return {"pixel_values": noise, **({"interpolate_pos_encoding": True} if few and not decoder.entry.any_size else {})}


def call(module: nn.Module, batch: Batch, **more: Any) -> Any:
    """Run the model (with or without its head) on a batch; no cache of keys and values is kept."""
    accepted = inspect.signature(module.forward).parameters
    more |= without_cache(module)
    if batch.positions is not None:
        more["position_ids"] = batch.positions
    elif min(batch.lengths) < batch.mask.shape[1] and "attention_mask" in accepted:
        more["attention_mask"] = batch.mask
    name = "pixel_values" if batch.input_ids.is_floating_point() else "input_ids"
    try:
        with running(module):
            return module(**{name: batch.input_ids}, **more)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not of_memory(error):
            raise
        rows, columns = batch.mask.shape
        tokens = f"a batch of {len(batch.indices)} prompts, {rows} × {columns} tokens"
        raise TransientError(
            "out of memory during the forward pass",
            where=str(batch.input_ids.device),
            got=f"{tokens} ({first_line(error, 120)})",
            next_step="try a smaller --set token_budget=N, --dtype bfloat16, shorter prompts, or --set device_map=auto",
        ) from error


@contextmanager
def head_on_last_token(decoder: Decoder, batch: Batch) -> Iterator[None]:
    """While open, the head sees the last real token of each prompt alone: logits are (prompts × 1 × vocabulary)."""
    rows, last = torch.tensor(batch.rows), torch.tensor(batch.starts) + torch.tensor(batch.lengths) - 1

    def keep_last(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:
        hidden = output.last_hidden_state
        output.last_hidden_state = hidden[rows.to(hidden.device), last.to(hidden.device)].unsqueeze(1)
        return output

    stack = submodule(decoder.base, decoder.entry.blocks.rpartition(".")[0], decoder.entry)
    handle = stack.register_forward_hook(keep_last)
    try:
        yield
    finally:
        handle.remove()

"""One forward pass per batch over all prompts: what the residual hooks and the head on the last token leave behind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from thermostats.errors import ThermostatsError
from thermostats.measurement.architectures import config_of
from thermostats.measurement.batching import TokenisedPrompt, batches, check_prompts
from thermostats.measurement.layouts import config_value
from thermostats.measurement.modules import Decoder, submodule

BUDGET = {"cpu": 256, "accelerator": 16384}
"""Tokens of a batch, padding included: beyond it a batch is no faster, only larger."""
OVERHEAD = {"cpu": 16, "accelerator": 256}
"""Cost of one more batch in tokens: reading the weights takes as long as this many tokens' arithmetic."""


@dataclass(frozen=True)
class Batch:
    """Right-padded token ids and mask (batch × tokens), the lengths, and the places of the prompts in their list."""

    indices: tuple[int, ...]
    lengths: tuple[int, ...]
    input_ids: Tensor
    mask: Tensor


@contextmanager
def as_measured(model: nn.Module) -> Iterator[None]:
    """Without dropout and without gradients; the model's mode is put back afterwards."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


def make_batches(decoder: Decoder, prompts: Sequence[TokenisedPrompt], budget: int | None = None) -> list[Batch]:
    """The prompts in batches on the model's device. Raises UsageError for prompts that cannot be measured."""
    vocabulary = config_of(decoder.config).get("vocab_size")
    check_prompts(prompts, vocabulary=vocabulary, context=config_value(decoder.config, "n_positions"))
    kind = "cpu" if decoder.device.type == "cpu" else "accelerator"
    lengths = [len(prompt.token_ids) for prompt in prompts]
    found = []
    for indices in batches(lengths, budget=budget or BUDGET[kind], overhead=OVERHEAD[kind]):
        longest = max(lengths[i] for i in indices)
        ids = torch.zeros(len(indices), longest, dtype=torch.long)
        mask = torch.zeros(len(indices), longest, dtype=torch.long)
        for row, i in enumerate(indices):
            ids[row, : lengths[i]] = torch.tensor(prompts[i].token_ids)
            mask[row, : lengths[i]] = 1
        batch_lengths = tuple(lengths[i] for i in indices)
        found.append(Batch(tuple(indices), batch_lengths, ids.to(decoder.device), mask.to(decoder.device)))
    return found


def call(module: nn.Module, batch: Batch, **more: Any) -> Any:
    """Run the model (with or without its head) on a batch; no cache of keys and values is kept."""
    accepted = inspect.signature(module.forward).parameters
    if "use_cache" in accepted:
        more["use_cache"] = False
    padded = min(batch.lengths) < batch.input_ids.shape[1]
    try:
        return module(input_ids=batch.input_ids, attention_mask=batch.mask if padded else None, **more)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise out_of_memory(error, batch) from error
    except RuntimeError as error:
        if "can't allocate memory" in str(error) or "not enough memory" in str(error):
            raise out_of_memory(error, batch) from error
        raise


def out_of_memory(error: BaseException, batch: Batch) -> ThermostatsError:
    """The error to show for a batch that did not fit."""
    rows, columns = batch.input_ids.shape
    return ThermostatsError(
        "out of memory during the forward pass", where=str(batch.input_ids.device),
        got=f"a batch of {rows} prompts × {columns} tokens ({str(error).splitlines()[0][:120]})",
        next_step="try a smaller --token-budget, --dtype bfloat16, shorter prompts, or --device-map auto over several "
        "devices",
    )  # fmt: skip


@contextmanager
def head_on_last_token(decoder: Decoder, lengths: Sequence[int]) -> Iterator[None]:
    """While open, the head sees the last real token of each prompt alone: logits are (batch × 1 × vocabulary)."""
    last = torch.tensor(lengths) - 1

    def keep_last(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:
        hidden = output.last_hidden_state
        at = last.to(hidden.device)
        output.last_hidden_state = hidden[torch.arange(len(at), device=hidden.device), at].unsqueeze(1)
        return output

    stack = submodule(decoder.base, decoder.entry.blocks.rpartition(".")[0], decoder.entry)
    handle = stack.register_forward_hook(keep_last)
    try:
        yield
    finally:
        handle.remove()


Progress = Callable[[int, int], None]
"""Called with prompts done and prompts in all."""

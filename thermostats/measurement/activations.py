"""What a tool hands out of one pass through a model, and our own reading of it: all blocks, all
tokens."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from thermostats.measurement.forward import (
    Decoder,
    extract_input,
    extract_tensor,
    find_mixer,
    find_submodule,
    has_attention,
    hook_entry,
    prepare_model,
    run_forward_pass,
    track_layers,
    turn_cache_off,
)
from thermostats.measurement.proof import Probe, detach_vectors

Array = NDArray[np.float64]
Vectors = dict[str, Array]
"""Name of a place in a block → vectors of all tokens there (tokens × d)."""


@dataclass(frozen=True)
class Activations:
    """What a tool hands out of one pass over one input.

    Names in a block: x_in and x_out, the stream before and after it; attention_read and mlp_read,
    what its sub-blocks read; attention, what attention puts out; attention_write and mlp_write,
    what is added to the stream but for scales that the entry names; heads, what W_O reads;
    attention_sum, mlp_sum and their `_normed` of post-norm blocks.
    """

    blocks: tuple[Vectors, ...]
    hidden: tuple[Array | None, ...]
    """The states that the model itself returns (tokens × d), by the blocks before them; None: not
    returned."""
    final: Array
    """The last hidden state that the model returns (tokens × d)."""
    moved: tuple[Array | None, ...] = ()
    """Of each block how far every token's attention output moves where the first token's input
    changes (tokens)."""


@dataclass(eq=False)
class Watch(Probe):
    """Hooks that keep the vectors of all tokens, and of attention how far a change of the first
    token reaches."""

    moved: dict[int, Array] = field(default_factory=dict)

    def reduce_tokens(self, tokens: Array) -> Array:
        """All tokens, in the order in which the module has them."""
        return tokens

    def track_block(self, stack: ExitStack, block: nn.Module) -> None:
        """Keep what a block passes on and what its sub-blocks read, until the stack is closed."""
        super().track_block(stack, block)
        entry = self.decoder.entry
        mixer = find_submodule(block, find_mixer(block, entry), entry)
        hook_entry(stack, mixer, partial(self.keep, "attention_read"))
        if entry.mlp:
            hook_entry(
                stack, find_submodule(block, entry.mlp, entry), partial(self.keep, "mlp_read")
            )
        if has_attention(block, entry) and entry.reads == "text":
            stack.callback(mixer.register_forward_hook(self.move, with_kwargs=True).remove)

    def move(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        """Run attention once more with another first token, as long as the one that is there."""
        if self.again or self.now() in self.moved:
            return
        x = extract_input(args, kwargs)
        generator = torch.Generator().manual_seed(self.now())
        other = torch.randn(x.shape[-1], generator=generator, dtype=torch.float64)
        changed = x.clone()
        first = changed.reshape(-1, x.shape[-1])[0]
        size = float(first.double().norm()) / float(other.norm())
        first += (other * size).to(x.device, x.dtype)
        positional = (changed, *args[1:]) if args else ()
        named = kwargs if args else {**kwargs, "hidden_states": changed}
        before = detach_vectors(extract_tensor(output))
        self.again = True
        after = detach_vectors(extract_tensor(module.forward(*positional, **named)))
        self.again = False
        length = np.linalg.norm(before, axis=-1)
        if length.all():
            change = np.linalg.norm(after - before, axis=-1)
            self.moved[self.now()] = change / length


SHIFTED_STATES = ("mamba", "mamba2", "falcon_mamba")
"""Classes whose returned states begin behind block 1 and end with the last normed."""


def read_activations(decoder: Decoder, inputs: Mapping[str, Any]) -> Activations:
    """The activations of one pass at the places that the model's entry names.

    inputs: what the model is called with. Raises ThermostatsError where its code fails on them.
    """
    depth = len(decoder.blocks)
    with track_layers(decoder.blocks) as now, ExitStack() as stack:
        watch = Watch(decoder, now, {layer: {} for layer in range(depth)})
        stack.enter_context(prepare_model(decoder.model))
        for block in dict.fromkeys(decoder.blocks):
            watch.track_block(stack, block)
        options = {**turn_cache_off(decoder.base), "output_hidden_states": True}
        with run_forward_pass(decoder.model):
            output = decoder.base(**inputs, **options)
    states = getattr(output, "hidden_states", None) or ()
    hidden: tuple[Array | None, ...] = tuple(map(detach_vectors, states))
    if decoder.entry.model_type in SHIFTED_STATES:
        hidden = (None, *hidden[:-1])
    blocks = tuple(watch.vectors[layer] for layer in range(depth))
    moved = tuple(watch.moved.get(layer) for layer in range(depth))
    return Activations(
        blocks, hidden, detach_vectors(getattr(output, "last_hidden_state", output)), moved
    )


def apply_module(module: nn.Module, x: Array, decoder: Decoder) -> Array:
    """What a module makes of vectors (tokens × d), at its own precision and place."""
    weight = next(module.parameters(), None)
    device = decoder.device if weight is None else weight.device
    dtype = decoder.dtype if weight is None else weight.dtype
    with torch.inference_mode():
        batch = torch.from_numpy(np.ascontiguousarray(x)).to(device, dtype).unsqueeze(0)
        return detach_vectors(extract_tensor(module(batch)))

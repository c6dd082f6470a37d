"""A loaded model's modules by its entry, hooks on them, and a forward pass as it is measured."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from traceback import walk_tb
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import NewGELUActivation

from thermostats.errors import ThermostatsError, TransientError, UsageError, take_first_line
from thermostats.measurement.batching import (
    BUDGET,
    TokenisedPrompt,
    check_prompts,
    plan_batches,
    plan_packs,
)
from thermostats.measurement.checkpoint import (
    find_context_limit,
    list_ropes,
    name_rope_type,
    read_geometry,
)
from thermostats.measurement.lookup import is_direction_open, select_decoder_config
from thermostats.measurement.model_class import Architecture, Config

FEW_NUMBERS = 2**16
"""A buffer of so many may be written to in a forward pass, as rotary frequencies are; larger ones
are replaced."""
CHUNK = "chunk_size_feed_forward"
"""How many tokens a feed-forward layer is run on at a time, which changes no number."""
AHEAD = 1e-3
"""What another last token changes at the first of a causal model, over what it changes at the last:
rounding."""


@dataclass(frozen=True)
class Decoder:
    """A loaded model with the places that are hooked; `blocks` in order, `final_norm` None
    where there is none."""

    model: nn.Module
    entry: Architecture
    config: Config
    base: nn.Module
    blocks: tuple[nn.Module, ...]
    final_norm: nn.Module | None

    @property
    def dtype(self) -> torch.dtype:
        """dtype of the weights of the blocks."""
        return next(self.blocks[0].parameters()).dtype

    @property
    def device(self) -> torch.device:
        """Where token ids go: the device of the embedding; the CPU where it was offloaded, from
        which it is moved."""
        embedding = find_submodule(self.base, self.entry.embedding, self.entry)
        device = next(embedding.parameters()).device
        return torch.device("cpu") if device.type == "meta" else device


def convert_to_array(x: Tensor) -> NDArray[np.float64]:
    """The numbers of a tensor in float64."""
    numbers: NDArray[np.float64] = x.detach().double().cpu().numpy()
    return numbers


def read_configuration(model: nn.Module) -> Config:
    """The configuration of a loaded model as the mapping its config.json holds."""
    return dict(model.config.to_dict())  # type: ignore[union-attr, operator]


def find_submodule(parent: nn.Module, path: str, entry: Architecture) -> nn.Module:
    """The module at a dotted path; ThermostatsError where the entry names one that is not there."""
    try:
        return parent.get_submodule(path)
    except AttributeError as error:
        step = (
            "correct the entry in thermostats/measurement/architectures.py, or report the model "
            "and the "
            "version of transformers"
        )
        what = f"the entry {entry.name} does not fit the model"
        raise ThermostatsError(
            what, where=type(parent).__name__, got=f"no module {path}", next_step=step
        ) from error


def find_optional_submodule(parent: nn.Module, path: str, entry: Architecture) -> nn.Module | None:
    """The module at a dotted path; None where there is no path, or the model has None there."""
    place, _, name = path.rpartition(".")
    if not path or getattr(find_submodule(parent, place, entry), name, parent) is None:
        return None
    return find_submodule(parent, path, entry)


def has_attention(block: nn.Module, entry: Architecture) -> bool:
    """Whether a block has attention with W_V and W_O; see `Architecture.mixers`."""
    if entry.attends:
        return True
    return bool(entry.value) and entry.value in dict(block.named_modules())


def find_mixer(block: nn.Module, entry: Architecture) -> str:
    """Path of what mixes tokens in a block: attention, or what stands in its place."""
    if has_attention(block, entry):
        return entry.attention
    there = dict(block.named_modules())
    return next((name for name in entry.mixers if name in there), entry.mixers[0])


def build_decoder(model: nn.Module, entry: Architecture, config: Config | None = None) -> Decoder:
    """The places of `entry` in a model with or without its head. Raises ThermostatsError where they
    are not there."""
    config = read_configuration(model) if config is None else config
    base = getattr(model, "base_model", model) if entry.has_head else model
    places = []
    for stage in range(len(entry.depths) or 1):
        places.append(entry.blocks.format(stage=stage))
    stacks = [find_submodule(base, place, entry) for place in places]
    blocks = tuple(block for stack in stacks for block in stack.children())
    if entry.shared:
        blocks *= read_geometry(entry, config).n_layers
    final_norm = find_optional_submodule(base, entry.final_norm, entry)
    find_submodule(base, entry.embedding, entry)
    for block in blocks if entry.mixers else blocks[:1]:
        paths = [find_mixer(block, entry), entry.mlp]
        if has_attention(block, entry):
            paths += [entry.value, entry.output]
        for path in paths:
            find_submodule(block, path, entry)
    parts = Decoder(model, entry, config, base, blocks, final_norm)
    if is_direction_open(entry, config) and not all(weight.is_meta for weight in base.parameters()):
        parts = replace(parts, entry=replace(entry, causal=is_causal(parts)))
    return parts


def is_causal(decoder: Decoder) -> bool:
    """Whether the stream at a token is the same whatever stands behind it."""
    seen: list[Tensor] = []
    with ExitStack() as stack, prepare_model(decoder.model):
        hook_exit(stack, decoder.blocks[-1], seen.append)
        for last in (3, 4):
            with run_forward_pass(decoder.model):
                tokens = torch.tensor([[1, 2, last]], device=decoder.device)
                decoder.base(input_ids=tokens)
    change = seen[len(seen) // 2 - 1] - seen[-1]
    moved = change[0].float().norm(dim=-1)
    return bool(moved[0] < AHEAD * moved[-1])


@contextmanager
def track_layers(blocks: Sequence[nn.Module]) -> Iterator[Callable[[], int]]:
    """While open, say which layer (from 0) is being computed: a block that several layers share is
    each in turn."""
    layers: dict[nn.Module, list[int]] = {}
    for layer, block in enumerate(blocks):
        layers.setdefault(block, []).append(layer)
    now = {"layer": -1}

    def hook(module: nn.Module, _args: Any) -> None:
        turns = layers[module]
        later = (layer for layer in turns if layer > now["layer"])
        now["layer"] = next(later, turns[0])

    with ExitStack() as stack:
        for block in layers:
            stack.callback(block.register_forward_pre_hook(hook, prepend=True).remove)
        yield lambda: now["layer"]


def extract_tensor(value: Any) -> torch.Tensor:
    """The hidden states in what a module returned: a tensor, or the first item of a tuple."""
    return value if isinstance(value, torch.Tensor) else value[0]


def extract_input(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor:
    """The hidden states among what a module was called with."""
    x: torch.Tensor = args[0] if args else kwargs["hidden_states"]
    return x


def hook_entry(stack: ExitStack, module: nn.Module, keep: Callable[[Tensor], None]) -> None:
    """Until the stack is closed, hand over the hidden states that a module is called with."""

    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        keep(extract_input(args, kwargs))

    stack.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)


def hook_exit(stack: ExitStack, module: nn.Module, keep: Callable[[Tensor], None]) -> None:
    """Until the stack is closed, hand over the hidden states that a module returns."""

    def hook(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        keep(extract_tensor(output))

    stack.callback(module.register_forward_hook(hook).remove)


def turn_cache_off(module: nn.Module) -> dict[str, bool]:
    """``use_cache`` switched off, where a module takes it or hands it on to a text tower inside."""
    if "use_cache" in (takes := inspect.signature(module.forward).parameters):
        return {"use_cache": False}
    hands_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values())
    if not hands_on:
        return {}
    for part in module.modules():
        if part is module or not isinstance(part, PreTrainedModel):
            continue
        if "use_cache" in inspect.signature(part.forward).parameters:
            return {"use_cache": False}
    return {}


@contextmanager
def prepare_model(model: nn.Module) -> Iterator[None]:
    """Without dropout and without gradients, GELU in one step, feed-forward layers on all tokens at
    once; the model is put back as it was afterwards."""
    training = model.training
    model.eval()
    spelled_out: list[Any] = []
    for module in model.modules():
        if type(module) is NewGELUActivation:
            spelled_out.append(module)
    for module in spelled_out:
        module.__dict__["forward"] = partial(_apply_gelu, module)
    chunks = {}
    for module in model.modules():
        if module.__dict__.get(CHUNK):
            chunks[module] = module.__dict__[CHUNK]
    for module in chunks:
        module.__dict__[CHUNK] = 0
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)
        for module in spelled_out:
            del module.__dict__["forward"]
        for module, size in chunks.items():
            module.__dict__[CHUNK] = size


@contextmanager
def run_forward_pass(model: nn.Module) -> Iterator[None]:
    """While open, a forward pass. Afterwards modules hold what they held before: what a pass leaves
    behind, as rotary frequencies that grew with its length, is not there for the next.

    Raises ThermostatsError for what the model's own code raises; of memory that does not suffice
    see `call`.
    """
    buffers = []
    for module in model.modules():
        for name, x in module.named_buffers(recurse=False):
            buffers.append((module, name, x))
    copies = []
    for _, _, x in buffers:
        is_written = x.is_floating_point() and x.numel() <= FEW_NUMBERS
        copies.append(x.clone() if is_written else None)
    states = [(module, _state(module)) for module in model.modules()]
    try:
        yield
    except (ThermostatsError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if is_memory_error(error) or _is_own_error(error):
            raise
        what = "the model's own code fails on an input"
        step = (
            "hold config.json against the class's documentation; --what weights reads only the "
            "files"
        )
        got = f"{type(error).__name__}: {take_first_line(error, 160)}"
        raise ThermostatsError(what, where=type(model).__name__, got=got, next_step=step) from error
    finally:
        for module, state in states:
            for name in _state(module).keys() - state.keys():
                delattr(module, name)
            module.__dict__.update(state)
        for (module, name, x), copy in zip(buffers, copies, strict=True):
            module._buffers[name] = x if copy is None else x.copy_(copy)


def _state(module: nn.Module) -> dict[str, Any]:
    """What a module holds that is no weight, buffer or module."""
    kinds = bool | int | float | str | Tensor | None
    state: dict[str, Any] = {}
    for name, x in vars(module).items():
        if name[0] != "_" and isinstance(x, kinds):
            state[name] = x
    return state


def is_memory_error(error: Exception) -> bool:
    """Whether an error of torch says that memory does not suffice."""
    return any(words in str(error) for words in ("can't allocate memory", "not enough memory"))


def _is_own_error(error: Exception) -> bool:
    *_, (frame, _) = walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).startswith("thermostats.")


def _apply_gelu(module: NewGELUActivation, x: Tensor) -> Tensor:
    """½x(1 + tanh(√(2/π)(x + 0.044715 x³))), which transformers' NewGELUActivation takes eight
    tensors for."""
    if x.dtype in (torch.float32, torch.float64):
        return nn.functional.gelu(x, approximate="tanh")
    return NewGELUActivation.forward(
        module, x
    )  # in half precision every step rounds, and is part of the model


OVERHEAD = {"cpu": 16, "accelerator": 256}
"""Cost of one more padded batch in tokens: reading the weights takes as long as this many tokens'
arithmetic."""
BY_LENGTH = ("dynamic", "longrope", "su")
"""Rotary embeddings whose frequencies follow from the longest input of a batch."""
PACK = 176
"""Tokens of a pack: products of matrices are about as fast as they get, what is held at a time
still is small."""
FEW = 2
"""Patches on a side of the smallest image, where a model resizes its positions."""


@dataclass(frozen=True)
class Batch:
    """Token ids (rows × tokens) or images (rows × channels × height × width), the mask (rows ×
    tokens), and the places of the prompts in their list.

    Either each row holds one prompt, padded on the right, or a single row holds all of them one
    after the other. Then `positions` (1 × tokens) restart with each prompt, and prompt k begins at
    `starts[k]`.
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
        starts: list[int] = []
        for k in range(len(self.lengths)):
            starts.append(sum(self.lengths[:k]))
        return tuple(starts)

    @property
    def rows(self) -> tuple[int, ...]:
        """Row of each prompt."""
        n = len(self.indices)
        return tuple(range(n)) if self.positions is None else (0,) * n

    def mark_members(self) -> Tensor:
        """1 for the tokens of each prompt that means are over (rows × prompts in the row ×
        tokens)."""
        rows, tokens = self.mask.shape
        ones = torch.zeros(rows, len(self.indices) // rows, tokens)
        for k, (start, span) in enumerate(zip(self.starts, self.spans, strict=True)):
            place = (k, 0) if self.positions is None else (0, k)
            ones[place][start + span.start : start + span.stop] = 1
        return ones.to(self.input_ids.device)


def make_batches(
    decoder: Decoder,
    prompts: Sequence[TokenisedPrompt],
    budget: int | None = None,
    *,
    packed: bool = False,
) -> list[Batch]:
    """The prompts in batches on the model's device. Raises UsageError for prompts that cannot be
    measured.

    Packed where that is asked for and the model can: on a CPU, where padding costs more than
    attention over a few prompts' tokens. Each alone where one would change another; see
    `is_batch_independent`.
    """
    if decoder.entry.reads == "image":
        return _group_images(decoder, prompts, budget)
    vocabulary = select_decoder_config(decoder.config).get("vocab_size")
    context = find_context_limit(decoder.entry, decoder.config)
    check_prompts(prompts, vocabulary=vocabulary, context=context)
    kind = "cpu" if decoder.device.type == "cpu" else "accelerator"
    lengths = [len(prompt.token_ids) for prompt in prompts]
    alone = not is_batch_independent(decoder)
    if packed and kind == "cpu" and decoder.entry.packs and not alone:
        batches: list[Batch] = []
        for indices in plan_packs(lengths, budget=budget or PACK):
            batches.append(_pack_prompts(decoder, prompts, indices))
        return batches
    most = 1 if alone else budget or BUDGET[kind]
    parts = plan_batches(lengths, budget=most, overhead=OVERHEAD[kind])
    return [pad_prompts(decoder, prompts, indices) for indices in parts]


def is_batch_independent(decoder: Decoder) -> bool:
    """Whether what a model does with an input does not depend on the others of a batch, as far as
    its class tells.

    It may where the class is not transformers' own, whose masks are known; where there is no mask
    and tokens read those behind them, padding too; and where the rotary frequencies follow the
    longest input.
    """
    accepted = inspect.signature(decoder.base.forward).parameters
    masked = decoder.entry.reads == "image" or decoder.entry.causal or "attention_mask" in accepted
    of_transformers = type(decoder.base).__module__.startswith("transformers.")
    kinds = set(map(name_rope_type, list_ropes(decoder.config)))
    return of_transformers and masked and not decoder.entry.alone and kinds.isdisjoint(BY_LENGTH)


def pad_prompts(
    decoder: Decoder, prompts: Sequence[TokenisedPrompt], indices: Sequence[int]
) -> Batch:
    """These prompts in a batch, a row each."""
    tokens = [torch.tensor(prompts[i].token_ids) for i in indices]
    real = [torch.ones_like(row) for row in tokens]
    ids = nn.utils.rnn.pad_sequence(tokens, batch_first=True).to(decoder.device)
    mask = nn.utils.rnn.pad_sequence(real, batch_first=True).to(decoder.device)
    spans = tuple(prompts[i].span for i in indices)
    return Batch(tuple(indices), tuple(map(len, tokens)), spans, ids, mask)


def _pack_prompts(
    decoder: Decoder, prompts: Sequence[TokenisedPrompt], indices: Sequence[int]
) -> Batch:
    tokens = [torch.tensor(prompts[i].token_ids) for i in indices]
    places = [torch.arange(len(row)) for row in tokens]
    ids = torch.cat(tokens).unsqueeze(0).to(decoder.device)
    positions = torch.cat(places).unsqueeze(0).to(decoder.device)
    spans = tuple(prompts[i].span for i in indices)
    lengths = tuple(map(len, tokens))
    return Batch(tuple(indices), lengths, spans, ids, torch.ones_like(ids), positions)


def count_patches(decoder: Decoder, image: Tensor) -> tuple[int, slice]:
    """Tokens that an image (channels × height × width) comes to, and which of them are patches.

    Raises UsageError for an image that is not of the size that the model reads.
    """
    entry = decoder.entry
    config = select_decoder_config(decoder.config)
    channels, height, width = read_image_shape(decoder)
    sides = (height, width)
    each = _read_sides(config, "patch_size")
    shape = tuple(image.shape)
    allowed = f"{channels} channels of {sides[0]} × {sides[1]}"
    if entry.any_size and len(shape) == 3:
        sides = shape[1:]
        allowed = f"{channels} channels, sides that are multiples of {each[0]} and {each[1]}"
    if shape != (channels, *sides) or sides[0] % each[0] or sides[1] % each[1]:
        raise UsageError("not an image as the model reads it", got=str(shape), allowed=allowed)
    grid = sides[0] // each[0], sides[1] // each[1]
    _check_windows(entry, config, grid)
    leading = entry.leading + (int(config[entry.registers]) if entry.registers else 0)
    n = leading + grid[0] * grid[1]
    return n, slice(leading, n)


def read_image_shape(decoder: Decoder) -> tuple[int, int, int]:
    """Channels, height and width of the images that a configuration states."""
    config = select_decoder_config(decoder.config)
    return (config.get("num_channels", 3), *_read_sides(config, "image_size"))


def _read_sides(config: Config, key: str) -> tuple[int, int]:
    """Height and width that a configuration states, as two numbers or one."""
    stated = config[key]
    if not isinstance(stated, list | tuple):
        return stated, stated
    return stated[0], stated[1]


def _check_windows(entry: Architecture, config: Config, grid: tuple[int, int]) -> None:
    """Raise UsageError where a stage's patches do not fill its windows, or four of them the next
    stage's patch."""
    window = int(config.get("window_size") or 1)
    for stage in range(len(entry.depths)):
        wide = min(window, *grid)
        last = stage == len(entry.depths) - 1
        if any(side % wide or (not last and side % 2) for side in grid):
            what = "the image's patches do not divide into windows"
            allowed = f"whole windows of {wide} in every stage"
            got = f"{grid[0]} × {grid[1]} patches in stage {stage + 1}"
            raise UsageError(
                what, got=got, allowed=allowed, next_step="padding has no estimand here"
            )
        grid = (grid[0] // 2, grid[1] // 2)


def _group_images(decoder: Decoder, images: Sequence[Any], budget: int | None) -> list[Batch]:
    """Images in batches of at most the budget's tokens."""
    kind = "cpu" if decoder.device.type == "cpu" else "accelerator"
    n, span = count_patches(decoder, images[0].pixels)
    each = 1
    if is_batch_independent(decoder):
        each = max(1, (budget or BUDGET[kind]) // n)
    for image in images:
        count_patches(decoder, image.pixels)
    parts = []
    for first in range(0, len(images), each):
        part = images[first : first + each]
        size = len(part)
        pixels = torch.stack([image.pixels for image in part])
        pixels = pixels.to(decoder.device, decoder.dtype)
        mask = torch.ones(size, n, dtype=torch.long, device=decoder.device)
        indices = tuple(range(first, first + size))
        parts.append(Batch(indices, (n,) * size, (span,) * size, pixels, mask))
    return parts


def build_example(decoder: Decoder) -> dict[str, Any]:
    """The smallest input of a model: one token, or one image of noise."""
    if decoder.entry.reads == "text":
        return {"input_ids": torch.tensor([[1]], device=decoder.device)}
    config = select_decoder_config(decoder.config)
    resizes = "interpolate_pos_encoding" in inspect.signature(decoder.base.forward).parameters
    few = (decoder.entry.any_size or resizes) and not decoder.entry.depths
    sides = (
        [FEW * n for n in _read_sides(config, "patch_size")]
        if few
        else _read_sides(config, "image_size")
    )
    shape = (1, int(config.get("num_channels", 3)), *sides)
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(shape, generator=generator).to(decoder.device, decoder.dtype)
    return {
        "pixel_values": noise,
        **({"interpolate_pos_encoding": True} if few and not decoder.entry.any_size else {}),
    }


def call(module: nn.Module, batch: Batch, **more: Any) -> Any:
    """Run the model (with or without its head) on a batch; no cache of keys and values is kept."""
    accepted = inspect.signature(module.forward).parameters
    more |= turn_cache_off(module)
    if batch.positions is not None:
        more["position_ids"] = batch.positions
    elif min(batch.lengths) < batch.mask.shape[1] and "attention_mask" in accepted:
        more["attention_mask"] = batch.mask
    name = "pixel_values" if batch.input_ids.is_floating_point() else "input_ids"
    try:
        with run_forward_pass(module):
            return module(**{name: batch.input_ids}, **more)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not is_memory_error(
            error
        ):
            raise
        rows, columns = batch.mask.shape
        what = "out of memory during the forward pass"
        tokens = f"a batch of {len(batch.indices)} prompts, {rows} × {columns} tokens"
        step = (
            "try a smaller --set token_budget=N, --dtype bfloat16, shorter prompts, or "
            "--set device_map=auto"
        )
        got = f"{tokens} ({take_first_line(error, 120)})"
        where = str(batch.input_ids.device)
        raise TransientError(what, where=where, got=got, next_step=step) from error


@contextmanager
def trim_head_input(decoder: Decoder, batch: Batch) -> Iterator[None]:
    """While open, the head sees the last real token of each prompt alone: logits are (prompts × 1 ×
    vocabulary)."""
    rows = torch.tensor(batch.rows)
    last = torch.tensor(batch.starts) + torch.tensor(batch.lengths) - 1

    def keep_last(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:
        hidden = output.last_hidden_state
        places = rows.to(hidden.device), last.to(hidden.device)
        output.last_hidden_state = hidden[places].unsqueeze(1)
        return output

    path = decoder.entry.blocks.rpartition(".")[0]
    stack = find_submodule(decoder.base, path, decoder.entry)
    handle = stack.register_forward_hook(keep_last)
    try:
        yield
    finally:
        handle.remove()

"""A loaded model's modules by its entry, hooks on them, and a forward pass as it is measured."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import NewGELUActivation

from thermostats.errors import ThermostatsError, first_line
from thermostats.measurement.architectures import Architecture, Config, direction_is_open
from thermostats.measurement.layouts import geometry

FEW_NUMBERS = 2**16
"""A buffer of so many may be written to in a forward pass, as rotary frequencies are; larger ones are replaced."""
CHUNK = "chunk_size_feed_forward"
"""How many tokens a feed-forward layer is run on at a time, which changes no number."""
AHEAD = 1e-3
"""What another last token changes at the first of a causal model, over what it changes at the last: rounding."""


@dataclass(frozen=True)
class Decoder:
    """A loaded model with the places that are hooked; `blocks` in order, `final_norm` None where there is none."""

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
        """Where token ids go: the device of the embedding; the CPU where it was offloaded, from which it is moved."""
        device = next(submodule(self.base, self.entry.embedding, self.entry).parameters()).device
        return torch.device("cpu") if device.type == "meta" else device


def configuration(model: nn.Module) -> Config:
    """The configuration of a loaded model as the mapping its config.json holds."""
    return dict(model.config.to_dict())  # type: ignore[union-attr, operator]


def submodule(parent: nn.Module, path: str, entry: Architecture) -> nn.Module:
    """The module at a dotted path; ThermostatsError where the entry names one that is not there."""
    try:
        return parent.get_submodule(path)
    except AttributeError as error:
        step = (
            "correct the entry in thermostats/measurement/architectures.py, or report the model and the "
            "version of transformers"
        )
        what = f"the entry {entry.name} does not fit the model"
        raise ThermostatsError(what, where=type(parent).__name__, got=f"no module {path}", next_step=step) from error


def optional(parent: nn.Module, path: str, entry: Architecture) -> nn.Module | None:
    """The module at a dotted path; None where there is no path, or the model has None there."""
    place, _, name = path.rpartition(".")
    if not path or getattr(submodule(parent, place, entry), name, parent) is None:
        return None
    return submodule(parent, path, entry)


def attends(block: nn.Module, entry: Architecture) -> bool:
    """Whether a block has attention with W_V and W_O; see `Architecture.mixers`."""
    return entry.attends or (bool(entry.value) and entry.value in dict(block.named_modules()))


def mixing(block: nn.Module, entry: Architecture) -> str:
    """Path of what mixes tokens in a block: attention, or what stands in its place."""
    there = dict(block.named_modules())
    return entry.attention if attends(block, entry) else next((m for m in entry.mixers if m in there), entry.mixers[0])


def decoder(model: nn.Module, entry: Architecture, config: Config | None = None) -> Decoder:
    """The places of `entry` in a model with or without its head. Raises ThermostatsError where they are not there."""
    config = configuration(model) if config is None else config
    base = getattr(model, "base_model", model) if entry.has_head else model
    places = [entry.blocks.format(stage=stage) for stage in range(len(entry.depths) or 1)]
    blocks = tuple(block for place in places for block in submodule(base, place, entry).children())
    if entry.shared:
        blocks *= geometry(entry, config).n_layers
    final_norm = optional(base, entry.final_norm, entry)
    submodule(base, entry.embedding, entry)
    for block in blocks if entry.mixers else blocks[:1]:
        paths = (mixing(block, entry), entry.mlp, *((entry.value, entry.output) if attends(block, entry) else ()))
        for path in paths:
            submodule(block, path, entry)
    parts = Decoder(model, entry, config, base, blocks, final_norm)
    if direction_is_open(entry, config) and not all(weight.is_meta for weight in base.parameters()):
        parts = replace(parts, entry=replace(entry, causal=is_causal(parts)))
    return parts


def is_causal(decoder: Decoder) -> bool:
    """Whether the stream at a token is the same whatever stands behind it."""
    seen: list[Tensor] = []
    with ExitStack() as stack, as_measured(decoder.model):
        on_exit(stack, decoder.blocks[-1], seen.append)
        for last in (3, 4):
            with running(decoder.model):
                decoder.base(input_ids=torch.tensor([[1, 2, last]], device=decoder.device))
    moved = (seen[len(seen) // 2 - 1] - seen[-1])[0].float().norm(dim=-1)
    return bool(moved[0] < AHEAD * moved[-1])


@contextmanager
def in_turn(blocks: Sequence[nn.Module]) -> Iterator[Callable[[], int]]:
    """While open, say which layer (from 0) is being computed: a block that several layers share is each in turn."""
    layers = {block: [layer for layer, other in enumerate(blocks) if other is block] for block in blocks}
    now = {"layer": -1}

    def hook(module: nn.Module, _args: Any) -> None:
        turns = layers[module]
        now["layer"] = next((layer for layer in turns if layer > now["layer"]), turns[0])

    with ExitStack() as stack:
        for block in layers:
            stack.callback(block.register_forward_pre_hook(hook, prepend=True).remove)
        yield lambda: now["layer"]


def tensor_of(value: Any) -> torch.Tensor:
    """The hidden states in what a module returned: a tensor, or the first item of a tuple."""
    return value if isinstance(value, torch.Tensor) else value[0]


def input_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor:
    """The hidden states among what a module was called with."""
    x: torch.Tensor = args[0] if args else kwargs["hidden_states"]
    return x


def on_entry(stack: ExitStack, module: nn.Module, keep: Callable[[Tensor], None]) -> None:
    """Until the stack is closed, hand over the hidden states that a module is called with."""

    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        keep(input_of(args, kwargs))

    stack.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)


def on_exit(stack: ExitStack, module: nn.Module, keep: Callable[[Tensor], None]) -> None:
    """Until the stack is closed, hand over the hidden states that a module returns."""

    def hook(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        keep(tensor_of(output))

    stack.callback(module.register_forward_hook(hook).remove)


def without_cache(module: nn.Module) -> dict[str, bool]:
    """``use_cache`` switched off, where a module takes it or hands it on to a text tower inside."""
    if "use_cache" in (takes := inspect.signature(module.forward).parameters):
        return {"use_cache": False}
    hands_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values())
    towers = (part for part in module.modules() if part is not module and isinstance(part, PreTrainedModel))
    cached = hands_on and any("use_cache" in inspect.signature(tower.forward).parameters for tower in towers)
    return {"use_cache": False} if cached else {}


@contextmanager
def as_measured(model: nn.Module) -> Iterator[None]:
    """Without dropout and without gradients, GELU in one step, feed-forward layers on all tokens at once; the model is
    put back as it was afterwards."""
    training = model.training
    model.eval()
    spelled_out: list[Any] = [module for module in model.modules() if type(module) is NewGELUActivation]
    for module in spelled_out:
        module.__dict__["forward"] = partial(_gelu, module)
    chunks = {module: module.__dict__[CHUNK] for module in model.modules() if module.__dict__.get(CHUNK)}
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
def running(model: nn.Module) -> Iterator[None]:
    """While open, a forward pass. Afterwards modules hold what they held before: what a pass leaves behind, as rotary
    frequencies that grew with its length, is not there for the next.

    Raises ThermostatsError for what the model's own code raises; of memory that does not suffice see `call`.
    """
    buffers = [(module, name, x) for module in model.modules() for name, x in module.named_buffers(recurse=False)]
    copies = [x.clone() if x.is_floating_point() and x.numel() <= FEW_NUMBERS else None for _, _, x in buffers]
    states = [(module, _state(module)) for module in model.modules()]
    try:
        yield
    except (ThermostatsError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if of_memory(error) or _of_this_package(error):
            raise
        what = "the model's own code fails on an input"
        step = "hold config.json against the class's documentation; --what weights reads only the files"
        got = f"{type(error).__name__}: {first_line(error, 160)}"
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
    return {name: x for name, x in vars(module).items() if name[0] != "_" and isinstance(x, kinds)}


def of_memory(error: Exception) -> bool:
    """Whether an error of torch says that memory does not suffice."""
    return any(words in str(error) for words in ("can't allocate memory", "not enough memory"))


def _of_this_package(error: Exception) -> bool:
    *_, (frame, _) = walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).startswith("thermostats.")


def _gelu(module: NewGELUActivation, x: Tensor) -> Tensor:
    """½x(1 + tanh(√(2/π)(x + 0.044715 x³))), which transformers' NewGELUActivation takes eight tensors for."""
    if x.dtype in (torch.float32, torch.float64):
        return nn.functional.gelu(x, approximate="tanh")
    return NewGELUActivation.forward(module, x)  # in half precision every step rounds, and is part of the model

"""The modules of a loaded model that an architecture's entry names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from thermostats.errors import ThermostatsError
from thermostats.measurement.architectures import Architecture, Config


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
        raise ThermostatsError(
            f"the entry {entry.name} does not fit the model",
            where=type(parent).__name__,
            got=f"no module {path}",
            next_step="correct the entry in thermostats/measurement/registry.py, or report the model and the "
            "version of transformers",
        ) from error


def decoder(model: nn.Module, entry: Architecture, config: Config | None = None) -> Decoder:
    """The places of `entry` in a model with or without its head. Raises ThermostatsError where they are not there."""
    base = getattr(model, "base_model", model)
    blocks = tuple(submodule(base, entry.blocks, entry).children())
    final_norm = submodule(base, entry.final_norm, entry) if entry.final_norm else None
    submodule(base, entry.embedding, entry)
    for path in {entry.attention, entry.value, entry.output, entry.mlp}:
        submodule(blocks[0], path, entry)
    return Decoder(model, entry, configuration(model) if config is None else config, base, blocks, final_norm)


def tensor_of(value: Any) -> torch.Tensor:
    """The hidden states in what a module returned: a tensor, or the first item of a tuple."""
    return value if isinstance(value, torch.Tensor) else value[0]


def input_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor:
    """The hidden states among what a module was called with."""
    x: torch.Tensor = args[0] if args else kwargs["hidden_states"]
    return x

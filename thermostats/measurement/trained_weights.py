"""Which weights steering may change: all, those of some blocks or parts, or adapters of a small
rank (LoRA)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from thermostats.errors import UsageError, build_install_error, build_unknown_error
from thermostats.measurement.checkpoint import index_value_rows
from thermostats.measurement.forward import Decoder, find_mixer, find_submodule, has_attention
from thermostats.measurement.lookup import select_layer_config
from thermostats.measurement.model_class import Architecture

PARTS = ("W_V", "W_O", "attention", "mlp", "norms", "embedding", "unembedding")
"""Parts of a model that may be named; the last two belong to no block."""
BLOCKS = re.compile(r"(?:block )?(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class TrainedWeights:
    """Weights that are trained, by name, and of those of which only some rows are, these rows as 1
    and 0."""

    weights: dict[str, nn.Parameter]
    rows: dict[str, Tensor] = field(default_factory=dict)

    def mask_gradients(self) -> None:
        """Take away gradients of rows that are not trained."""
        for name, mask in self.rows.items():
            gradient = self.weights[name].grad
            if gradient is not None:
                gradient.mul_(mask)


def select_weights(decoder: Decoder, only: Sequence[str] = ()) -> TrainedWeights:
    """Weights of a model that may change, and its others frozen.

    only: numbers of blocks (`3`, `2-4`) and parts of `PARTS`; of both, those parts of those blocks.
    Empty: all.

    Raises UsageError for a block or part that the model has not.
    """
    blocks, parts = _parse_words(only, len(decoder.blocks))
    placed = _place_weights(decoder)
    chosen: dict[str, nn.Parameter] = {}
    rows: dict[str, Tensor] = {}
    for name, parameter in decoder.model.named_parameters():
        block, of = placed.get(name, (None, {"other"}))
        if only and not _is_chosen(block, of, blocks, parts):
            parameter.requires_grad_(False)
            continue
        parameter.requires_grad_(parameter.is_floating_point())
        chosen[name] = parameter
        if "W_V" in of and "W_V" in parts and "attention" not in parts:
            rows[name] = _mask_values(decoder, block or 0, parameter)
    if not chosen:
        what = "the model has no such weights"
        raise UsageError(what, where="only", got=", ".join(only), allowed=", ".join(PARTS))
    return TrainedWeights(chosen, rows)


def _parse_words(only: Sequence[str], depth: int) -> tuple[set[int], set[str]]:
    """Blocks (from 0) and parts that are named."""
    blocks: set[int] = set()
    parts: set[str] = set()
    for word in only:
        found = BLOCKS.fullmatch(word.strip())
        if found is None:
            if word not in PARTS:
                raise build_unknown_error(
                    "no such part of a model", word, [*PARTS, "3", "2-4"], where="only"
                )
            parts.add(word)
            continue
        first = int(found[1])
        last = int(found[2] or found[1])
        if not 1 <= first <= last <= depth:
            what = "the model has no such block"
            raise UsageError(what, where="only", got=word, allowed=f"1 to {depth}")
        blocks |= set(range(first - 1, last))
    return blocks, parts


def _is_chosen(block: int | None, of: set[str], blocks: set[int], parts: set[str]) -> bool:
    """Whether a weight of a block (None: of no block) and some parts was asked for."""
    if block is None:
        return bool(of & parts)
    here = not blocks or block in blocks
    inner = parts - {"embedding", "unembedding"}
    if not inner:
        return bool(blocks) and here
    return here and bool(of & inner)


def _place_weights(decoder: Decoder) -> dict[str, tuple[int | None, set[str]]]:
    """Every weight's block (from 0, None: of no block) and its parts, by the weight's name."""
    names = {}
    for name, parameter in decoder.model.named_parameters():
        names[id(parameter)] = name
    placed: dict[str, tuple[int | None, set[str]]] = {}
    embedding = find_submodule(decoder.base, decoder.entry.embedding, decoder.entry)
    head: Any = decoder.model.get_output_embeddings()  # type: ignore[operator]
    final = decoder.final_norm
    for part, module in (("embedding", embedding), ("unembedding", head), ("norms", final)):
        for parameter in () if module is None else module.parameters():
            _, there = placed.setdefault(names[id(parameter)], (None, set()))
            there.add(part)
    for number, block in enumerate(decoder.blocks):
        for path, parameter in block.named_parameters():
            place = placed.setdefault(names[id(parameter)], (number, set()))
            place[1].update(_find_parts(path, block, decoder.entry))
    return placed


def _find_parts(path: str, block: nn.Module, entry: Architecture) -> set[str]:
    """Parts that a weight of a block belongs to, by its path below the block."""
    module, _, _ = path.rpartition(".")
    owner = block.get_submodule(module)
    if "norm" in type(owner).__name__.casefold():
        return {"norms"}
    if not f"{path}.".startswith(f"{find_mixer(block, entry)}."):
        return {"mlp"}
    parts = {"attention"}
    if has_attention(block, entry):
        parts |= {"W_V"} if module == entry.value or path == entry.value_bias else set()
        parts |= {"W_O"} if module == entry.output else set()
    return parts


def _mask_values(decoder: Decoder, block: int, parameter: nn.Parameter) -> Tensor:
    """1 on the rows of a stored matrix, or bias, that hold values, else 0, as wide as it is."""
    entry = decoder.entry
    rows = index_value_rows(entry, select_layer_config(entry, decoder.config, block)).ravel()
    mask = torch.zeros_like(parameter)
    turned = entry.transposed and parameter.ndim == 2
    of_matrix = mask.T if turned else mask
    if parameter.ndim == 1 and len(parameter) == len(rows):
        rows = rows - rows.min()
    of_matrix[torch.from_numpy(rows).to(mask.device)] = 1
    return mask


def add_adapters(decoder: Decoder, rank: int, only: Sequence[str] = ()) -> Callable[[], nn.Module]:
    """Add adapters of a rank to a model's chosen matrices, which alone are trained (Hu et al.
    2021, LoRA).

    W becomes W + B A with A (rank × inputs) random and B (outputs × rank) zero. Returned is what
    takes them into the weights, which gives back the model without adapters.

    Raises UsageError where peft is not installed, or no matrix of the chosen weights can have
    adapters.
    """
    try:
        peft: Any = import_module("peft")
    except ModuleNotFoundError as error:
        refused = build_install_error(error, "adapters need peft", "measure")
        raise refused.replace_next_step("pip install peft, or leave out --rank") from error
    chosen = select_weights(decoder, only).weights
    of_modules = {name.removesuffix(".weight") for name in chosen if name.endswith(".weight")}
    linear = []
    for name, module in decoder.model.named_modules():
        if name in of_modules and type(module).__name__ in ("Linear", "Conv1D"):
            linear.append(name)
    if not linear:
        what = "none of these weights is a matrix that can have adapters"
        raise UsageError(
            what, where="only", got=", ".join(only), allowed="attention, mlp, W_V, W_O, …"
        )
    settings = peft.LoraConfig(
        r=rank, lora_alpha=rank, lora_dropout=0.0, target_modules=linear, bias="none"
    )
    wrapped = peft.get_peft_model(decoder.model, settings)

    def merge() -> nn.Module:
        merged: nn.Module = wrapped.merge_and_unload()
        return merged

    return merge

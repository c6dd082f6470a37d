"""Facts of a model from its class: transformers builds it, and what its modules are decides, not
what files are called.

A model's row follows from configuration and headers (`model_row.py`) without torch. Here it is held
against the class, built without memory, and later against the loaded model; where they differ the
model's own answer counts, and the difference is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from thermostats.errors import DataError
from thermostats.measurement.checkpoint import STORAGE, StoredTensor, decode, open_checkpoint
from thermostats.measurement.forward import Decoder, build_decoder, find_submodule, has_attention
from thermostats.measurement.lookup import select_decoder_config
from thermostats.measurement.model_class import Architecture, Config
from thermostats.measurement.model_row import (
    POSITION_TABLES,
    has_learned_positions,
    measure_feed_forward,
)
from thermostats.measurement.readings import RMS_NORMS
from thermostats.measurement.spectra import find, find_embedding, find_unembedding


def collect_facts(
    model: nn.Module, entry: Architecture, config: Config, *, tied: bool
) -> dict[str, Any]:
    """Facts of a built or loaded model that its row of `models` states, by column.

    tied: whether the unembedding is the embedding; a model that was only built cannot tell, as the
    files decide.
    """
    places = build_decoder(model, entry, config)
    parameters = dict(model.named_parameters())
    counted = entry.filter_stack_names(parameters)
    inside = {}
    for name, parameter in parameters.items():
        if name in counted:
            inside[name] = parameter
    ends = find_ends(places)
    embedding = 0 if ends is None else ends.embedding.numel()
    bias = 0 if ends is None or ends.bias is None else ends.bias.numel()
    total = sum(parameter.numel() for parameter in inside.values())
    if ends is not None and entry.has_head:  # as the files decide, not as the model was built
        total -= 0 if ends.head is ends.embedding else embedding
        total += 0 if tied else embedding
    learned = has_learned_positions(entry, config)
    tables = (each for name, each in inside.items() if learned and _is_table(name, each))
    table = next(tables, None)
    of_positions = 0 if table is None else table.numel()
    outer = embedding * (1 if tied else 2) + bias + of_positions
    shapes = []
    for block in (places.blocks[0], places.blocks[-1]):
        shapes.append({name: tuple(p.shape) for name, p in block.named_parameters()})
    width = measure_feed_forward(entry, config, shapes)
    of_embedding: dict[str, int] = {}
    if ends is not None:
        vocab_size, d_embed = ends.embedding.shape
        of_embedding = {"vocab_size": vocab_size, "d_embed": d_embed}
    of_mlp: dict[str, Any] = {}
    if width is not None:
        d_ff, is_gated = width
        of_mlp = {"d_ff": d_ff, "gated_mlp": is_gated}
    return {
        "n_layers": len(places.blocks),
        **of_embedding,
        **of_mlp,
        "n_positions": 0 if table is None else table.shape[-2],
        "tied_embeddings": tied,
        "n_params": total,
        "n_params_nonembedding": total - outer,
        "norm_kind": _name_norm_kind(places),
        **_read_heads(places),
    }


class Ends(NamedTuple):
    """Matrices at both ends of a model of text, and the bias of the unembedding; no head: the
    embedding twice."""

    embedding: Tensor
    head: Tensor
    bias: Tensor | None


def find_ends(places: Decoder) -> Ends | None:
    """What is at the ends of a model of text; None of one that reads images."""
    if places.entry.reads != "text":
        return None
    embedding: Any = find_submodule(places.base, places.entry.embedding, places.entry).weight
    if not places.entry.has_head:
        return Ends(embedding, embedding, None)
    model: Any = places.model
    head = model.get_output_embeddings()
    return Ends(embedding, head.weight, getattr(head, "bias", None))


def _is_table(name: str, parameter: nn.Parameter) -> bool:
    return (
        name.removesuffix(".weight").rpartition(".")[2] in POSITION_TABLES
        and parameter.requires_grad
    )


def _name_norm_kind(places: Decoder) -> str:
    """Kind of the norms of a block, as their class is called."""
    entry = places.entry
    block = places.blocks[0]
    named = (entry.attention_norm, entry.mlp_norm, entry.attention_write, *entry.norm_after)
    norm = find_submodule(block, next(filter(None, named)), entry)
    return (
        "RMSNorm"
        if "rms" in type(norm).__name__.lower() or entry.model_type in RMS_NORMS
        else "LayerNorm"
    )


def _read_heads(places: Decoder) -> dict[str, int]:
    """Width of a head and number of key/value heads, as far as the attention module states them."""
    entry = places.entry
    if entry.layout == "latent" or entry.depths:
        return {}
    block = next((block for block in places.blocks if has_attention(block, entry)), None)
    if block is None:
        return {}
    module = find_submodule(block, entry.attention, entry)
    width = next(
        (getattr(module, name, None) for name in ("head_dim", "attention_head_size")), None
    )
    groups = getattr(module, "num_key_value_groups", None)
    heads = select_decoder_config(places.config).get("num_attention_heads")
    stated = {"d_head": width} if type(width) is int else {}
    if type(groups) is int and type(heads) is int and groups > 0 and entry.n_kv_heads == "config":
        stated["n_kv_heads"] = heads // groups
    return stated


def find_differences(row: Mapping[str, Any], facts: Mapping[str, Any], of: str) -> list[str]:
    """Facts in which a row is not what a model is, a few words each."""
    differences: list[str] = []
    for name, fact in facts.items():
        if row[name] != fact:
            differences.append(f"{name}: {row[name]} stated, {fact} {of}")
    return differences


def check_loaded(places: Decoder, folder: Path, config: Config) -> bool:
    """Whether a loaded model's unembedding is its embedding, once its matrices were held against
    those of the files.

    Compared are embedding, unembedding, and of each block the tensors that spectra are computed
    from, where files and modules lay them out alike and they are not offloaded.

    Raises DataError where a tensor that was measured in the files is not what the model computes
    with.
    """
    entry = places.entry
    tensors = open_checkpoint(folder)
    pairs: list[tuple[StoredTensor, Any]] = []
    for layer, block in enumerate(places.blocks[: 1 if entry.shared else None]):
        for path in (entry.value, entry.output) if has_attention(block, entry) else ():
            of_file = find(tensors, entry.list_tensor_names(path, layer))
            pairs.append((of_file, find_submodule(block, path, entry).weight))
    ends = find_ends(places)
    if ends is not None:
        pairs.append((find_embedding(entry, config, tensors), ends.embedding))
        head = find_unembedding(entry, config, tensors) if entry.has_head else None
        pairs += [] if head is None else [(head, ends.head)]
    for stored, weight in pairs:
        plain = stored.dtype in STORAGE and weight.is_floating_point()
        if plain and weight.device.type != "meta" and tuple(weight.shape) == tuple(stored.shape):
            _check_same(stored, weight)
    return ends is None or ends.head is ends.embedding


def _check_same(stored: StoredTensor, weight: Tensor) -> None:
    held = torch.from_numpy(np.array(decode(stored.read_raw()))).to(weight.dtype)
    loaded = weight.detach().cpu()
    if torch.equal(held.nan_to_num(), loaded.nan_to_num()):
        return
    what = "a tensor of the files is not the one that the loaded model computes with"
    step = "save the model anew with save_pretrained, so that its files hold each tensor once"
    largest = float((held.double() - loaded.double()).abs().max())
    got = f"{stored.name}, largest difference {largest:.3g}"
    raise DataError(what, where=stored.path, got=got, allowed="the same numbers", next_step=step)

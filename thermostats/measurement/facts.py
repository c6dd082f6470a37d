"""Facts of a model from its class: transformers builds it, and what its modules are decides, not what files are called.

A model's row follows from configuration and headers (`model_row.py`) without torch. Here it is held against the class,
built without memory, and later against the loaded model; where they differ the model's own answer counts, and the
difference is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from thermostats.errors import DataError
from thermostats.measurement.architectures import Architecture, Config, config_of
from thermostats.measurement.checkpoint import decode, open_checkpoint
from thermostats.measurement.forward import Decoder, decoder, submodule
from thermostats.measurement.model_row import POSITION_TABLES, feed_forward, learns_positions
from thermostats.measurement.spectra import embedding_of, find, unembedding


def facts_of(model: nn.Module, entry: Architecture, config: Config, *, tied: bool) -> dict[str, Any]:
    """Facts of a built or loaded model that its row of `models` states, by column.

    tied: whether the unembedding is the embedding; a model that was only built cannot tell, as the files decide.
    """
    places = decoder(model, entry, config)
    inside = {
        name: parameter
        for name, parameter in model.named_parameters()
        if set(name.split(".")).isdisjoint(entry.outside)
    }
    embedding = submodule(places.base, entry.embedding, entry)
    vocabulary, d_embed = embedding.weight.shape if entry.reads == "text" else (0, None)
    head = model.get_output_embeddings() if entry.has_head else None  # type: ignore[operator]
    ends = {} if head is None else dict(head.named_parameters())
    ends.pop("weight", None)
    weights = sum(p.numel() for p in inside.values())
    one_matrix = head is None or head.weight is embedding.weight
    weights += (not tied) * one_matrix * vocabulary * (d_embed or 0)
    weights -= tied * (not one_matrix) * vocabulary * (d_embed or 0)
    table = next((p for name, p in inside.items() if learns_positions(entry, config) and _is_table(name, p)), None)
    outer = vocabulary * (d_embed or 0) * (1 if tied else 2) + sum(p.numel() for p in ends.values())
    block = {name: tuple(p.shape) for name, p in places.blocks[-1].named_parameters()}
    first = {name: tuple(p.shape) for name, p in places.blocks[0].named_parameters()}
    width = feed_forward(entry, config, [first, block])
    return {
        "n_layers": len(places.blocks),
        **({} if d_embed is None else {"vocab_size": vocabulary, "d_embed": d_embed}),
        **({} if width is None else {"d_ff": width[0], "gated_mlp": width[1]}),
        "n_positions": 0 if table is None else table.shape[-2],
        "tied_embeddings": tied,
        "n_params": weights,
        "n_params_nonembedding": weights - outer - (0 if table is None else table.numel()),
        "norm_kind": _norm_kind(places),
        **_heads(places),
    }


def _is_table(name: str, parameter: nn.Parameter) -> bool:
    return name.removesuffix(".weight").rpartition(".")[2] in POSITION_TABLES and parameter.requires_grad


def _norm_kind(places: Decoder) -> str:
    """Kind of the norms of a block, as their class is called."""
    entry, block = places.entry, places.blocks[0]
    named = (entry.attention_norm, entry.mlp_norm, entry.attention_write, *entry.norm_after)
    norm = submodule(block, next(filter(None, named)), entry)
    return "RMSNorm" if "rms" in type(norm).__name__.lower() else "LayerNorm"


def _heads(places: Decoder) -> dict[str, int]:
    """Width of a head and number of key/value heads, as far as the attention module states them."""
    entry = places.entry
    if entry.layout == "latent" or entry.depths:
        return {}
    module = submodule(places.blocks[0], entry.attention, entry)
    width = next((getattr(module, name, None) for name in ("head_dim", "attention_head_size")), None)
    groups = getattr(module, "num_key_value_groups", None)
    heads = config_of(places.config).get("num_attention_heads")
    stated = {"d_head": width} if type(width) is int else {}
    if type(groups) is int and type(heads) is int and groups > 0 and entry.n_kv_heads == "config":
        stated["n_kv_heads"] = heads // groups
    return stated


def differing(row: Mapping[str, Any], facts: Mapping[str, Any], of: str) -> list[str]:
    """Facts in which a row is not what a model is, a few words each."""
    return [f"{name}: {row[name]} stated, {fact} {of}" for name, fact in facts.items() if row[name] != fact]


def check_loaded(places: Decoder, folder: Path, config: Config) -> bool:
    """Whether a loaded model's unembedding is its embedding, once its matrices were held against those of the files.

    Compared are embedding, unembedding, and of each block the tensors that spectra are computed from, where files and
    modules lay them out alike and they are not offloaded.

    Raises DataError where a tensor that was measured in the files is not what the model computes with.
    """
    entry, tensors = places.entry, open_checkpoint(folder)
    pairs = []
    for layer, block in enumerate(places.blocks[: 1 if entry.shared else None]):
        for module in (entry.value, entry.output):
            stored = find(tensors, entry.tensor_names(module, layer))
            pairs.append((stored, submodule(block, module, entry)))
    tied = not entry.has_head
    if entry.reads == "text":
        embedding = submodule(places.base, entry.embedding, entry)
        pairs.append((embedding_of(entry, config, tensors), embedding))
        if entry.has_head:
            head = places.model.get_output_embeddings()  # type: ignore[operator]
            tied = head.weight is embedding.weight
            own = unembedding(entry, config, tensors)
            pairs += [] if own is None else [(own, head)]
    for stored, module in pairs:
        weight = module.weight
        if not isinstance(weight, torch.Tensor) or weight.device.type == "meta" or tuple(weight.shape) != stored.shape:
            continue
        held = torch.from_numpy(np.array(decode(stored.raw()))).to(weight.dtype)
        if not torch.equal(held.nan_to_num(), weight.detach().cpu().nan_to_num()):
            gap = float((held.double() - weight.detach().cpu().double()).abs().max())
            what = "a tensor of the files is not the one that the loaded model computes with"
            step = "save the model anew with save_pretrained, so that its files hold each tensor once"
            got = f"{stored.name}, largest difference {gap:.3g}"
            raise DataError(what, where=stored.path, got=got, allowed="the same numbers", next_step=step)
    return tied

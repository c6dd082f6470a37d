"""A model's row of the table `models`, from its configuration and the headers of its checkpoint. No torch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import DataError
from thermostats.measurement.architectures import Architecture, Config, config_of, lookup
from thermostats.measurement.checkpoint import BUFFERS, NO_NUMBERS, PRECISION, StoredTensor, open_checkpoint
from thermostats.measurement.gguf_files import UNROUNDED, record
from thermostats.measurement.layouts import geometry, stated_count
from thermostats.measurement.readings import norm_kind
from thermostats.measurement.spectra import Tensors, embedding_of, find, read_config, unembedding
from thermostats.tables.parameters import COUNTED

POSITION_TABLES = ("wpe", "embed_positions", "positions_embed", "position_embeddings", "position_embedding")
LEARNED = ("openai-gpt", "gpt2", "gpt_neo", "gpt_bigcode", "opt", "biogpt")
SCHEMES = {**dict.fromkeys(LEARNED, "learned"), "xglm": "sinusoidal", "bloom": "alibi", "mpt": "alibi"}
SCHEMES |= dict.fromkeys(("deberta", "deberta-v2", "mpnet", "swin", "t5", "mt5", "umt5"), "relative")
SCHEMES |= dict.fromkeys(("marian", "pegasus", "m2m_100"), "sinusoidal")
SCHEMES |= dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "jamba"), "none")
SCHEMES |= {"roformer": "rotary"}
ROTATES_IF_SAID = ("granitemoehybrid",)
"""Classes without positions, unless their configuration's `position_embedding_type` is ``rope``."""
FEED_FORWARD = ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "ffn_hidden_dim", "hidden_dim")
ROUTERS = {"gate", "router", "wg", "shared_expert_gate", "moe_statics"}
"""Modules of a block that choose experts."""
COUNTS = tuple(f"{of}.e_score_correction_bias" for of in ("gate", "mlp", "block_sparse_moe"))
NEVER_LEARNED = (*BUFFERS, "act_fn.beta", "act_fn.eps", "expert_bias", *COUNTS)
"""Tensors of checkpoints that are no parameters of the model: masks, frequencies, constants, routers' counts."""


def model_row(
    path: Path, *, model_id: str, revision: str, models: pd.DataFrame, heritage: str = "", reads: str = "text"
) -> dict[str, Any]:
    """Row of the table `models` for the model in a folder.

    Where no heritage is given, it is that of the rows in `models`, rows of the same table, that share the hub
    organisation, if they share one; else it stays empty. Family, parent and year are not in a model's files.
    `reads`: of several stacks the one that reads ``text`` or ``image``.

    Raises DataError where configuration or checkpoint are missing or damaged, UsageError for unknown architectures.
    """
    config = read_config(path, reads)
    entry, decoder = lookup(config), config_of(config)
    tensors = open_checkpoint(path)
    g = geometry(entry, config)
    vocabulary, d_embed = 0, g.d_model
    if entry.reads == "text":
        vocabulary, d_embed = embedding_of(entry, config, tensors).shape
    head = unembedding(entry, config, tensors) if entry.has_head else None
    table = _position_table(entry, config, tensors)
    origin = record(path)
    total = _count(entry, tensors, tied=head is None, n_layers=g.n_layers)
    bias = _head_bias(entry, tensors)
    outside = [(vocabulary, d_embed), *(each.shape for each in (head, table, bias) if each is not None)]
    stated = next((stated_count(decoder, key) for key in FEED_FORWARD if decoder.get(key)), 4 * g.d_model)
    width, gated = feed_forward(entry, config, _block_shapes(entry, tensors, g.n_layers)) or (stated, False)
    return {
        "model_id": model_id,
        "revision": revision,
        "heritage": heritage or _heritage_of(model_id, models),
        "family": "",
        "variant": "",
        "parent": "",
        "seed_of": "",
        "architecture": entry.model_type,
        "n_layers": g.n_layers,
        "d_model": g.d_model,
        "d_embed": d_embed,
        "n_heads": g.n_heads,
        "n_kv_heads": g.n_kv_heads,
        "d_head": g.d_head,
        "d_ff": width if entry.mlp else 0,
        "vocab_size": vocabulary,
        "n_positions": table.shape[-2] if table else 0,
        "tied_embeddings": head is None,
        "gated_mlp": gated,
        "n_params": total,
        "n_params_nonembedding": total - sum(math.prod(shape) for shape in outside),
        "norm_kind": norm_kind(entry, decoder),
        "norm_place": _norm_place(entry),
        "position_scheme": _scheme(entry, config, learned=table is not None),
        "parallel_block": entry.parallel,
        "year": None,
        "modality": "vision"
        if entry.reads == "image"
        else "decoder"
        if entry.has_head or entry.headless
        else "encoder",
        "stages": len(entry.depths) or 1,
        "source": COUNTED,
        "quantised": "" if origin.get("scheme") in (None, *UNROUNDED) else origin["scheme"],
        "package": "",
        "model_licence": origin.get("licence", ""),
    }


def stored_dtype(tensors: Tensors) -> str:
    """Precision of a checkpoint's matrices, as the table `runs` names it; mixed where they differ."""
    matrices = (x for name, x in tensors.items() if len(x.shape) == 2 and not name.endswith(BUFFERS))
    precisions = {PRECISION.get(tensor.dtype, tensor.dtype) for tensor in matrices if tensor.dtype not in NO_NUMBERS}
    if unknown := precisions - set(PRECISION.values()):
        got, allowed = ", ".join(sorted(unknown)), ", ".join(PRECISION.values())
        raise DataError("the checkpoint is quantised", got=got, allowed=allowed)
    return precisions.pop() if len(precisions) == 1 else "mixed"


def feed_forward(
    entry: Architecture, config: Config, blocks: Sequence[Mapping[str, tuple[int, ...]]]
) -> tuple[int, bool] | None:
    """Width of the feed-forward layer, and whether it is gated, from the shapes in its first and last block.

    Of an ungated layer one matrix leads from d to d_ff and one back; a gate is one more of d × d_ff, stored alone or
    with the other. Of experts one is looked at. Where blocks differ in width, the one that the configuration states
    counts, else that of the last. blocks: shapes by name within the block. None where the shapes are no such layer's.
    """
    widths = [each for each in (_width(entry, config, shapes) for shapes in blocks) if each is not None]
    decoder = config_of(config)
    stated = [decoder.get(key) for key in FEED_FORWARD]
    return next((each for each in widths if each[0] in stated), widths[-1] if widths else None)


def _width(entry: Architecture, config: Config, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, bool] | None:
    mixing = (entry.attention, entry.value, entry.output, *entry.mixers)
    attention = {path.partition(".")[0] for path in mixing} - {entry.mlp.partition(".")[0]}
    parts = {name: name.split(".") for name in shapes if not name.endswith("bias")}
    matrices = {
        name: shapes[name]
        for name, words in parts.items()
        if words[0] not in attention
        and not name.startswith(f"{entry.attention}.")
        and ROUTERS.isdisjoint(words)
        and len(shapes[name]) > 1
    }
    experts = {name: shape for name, shape in matrices.items() if "experts" in parts[name]}
    if experts:
        matrices = {name: shape for name, shape in experts.items() if {"0"} >= set(filter(str.isdigit, parts[name]))}
    d = geometry(entry, config).d_model
    sides = [shape[-2:] for shape in matrices.values() if d in shape[-2:]]
    if not sides:
        return None
    others = [a if b == d else b for a, b in sides]
    narrow = min(others)
    gated = {2: False, 3: True}.get(sum(others) // narrow) if sum(others) % narrow == 0 else None
    return None if gated is None else (narrow, gated)


def _block_shapes(entry: Architecture, tensors: Tensors, n_layers: int) -> list[dict[str, tuple[int, ...]]]:
    """Shapes of the tensors of the first and the last block, by their names within it."""
    blocks = []
    for layer in dict.fromkeys((0, 0 if entry.shared else n_layers - 1)):
        if entry.attends:
            name = find(tensors, entry.tensor_names(entry.value, layer)).name
        else:
            name = next((each for each in tensors if re.match(rf"(.*\.)?{entry.blocks}\.{layer}\.", each)), "")
        place = re.match(rf"(.*\.)?{entry.stage(layer)[1]}\.", name)
        start = place.group() if place else ""
        blocks.append(
            {each.removeprefix(start): tuple(tensors[each].shape) for each in tensors if each.startswith(start)}
        )
    return blocks


def unused(entry: Architecture, tensors: Tensors, n_layers: int) -> list[str]:
    """Tensors of layers that the model does not have: beyond its last block, or for predicting several tokens."""
    if entry.depths or entry.shared:
        return []
    place = re.compile(rf"(?:^|\.){re.escape(entry.blocks)}\.(\d+)\.")
    beyond = {name for name in tensors for each in [place.search(name)] if each and int(each.group(1)) >= n_layers}
    return [n for n in tensors if n in beyond or any(part.startswith("mtp") for part in n.split("."))]


def learns_positions(entry: Architecture, config: Config) -> bool:
    """Whether a table of positions in the files is one that the model adds and learned."""
    kind = str(config_of(config).get("position_embedding_type") or "absolute")
    return entry.model_type != "roformer" and kind == "absolute"


def _count(entry: Architecture, tensors: Tensors, *, tied: bool, n_layers: int) -> int:
    copies = [name for name in entry.tensor_names(entry.embedding) if name in tensors][1:]
    aside = {*unused(entry, tensors, n_layers), *copies}
    names = set(entry.tensor_names(entry.embedding))
    if tied and not names.isdisjoint(tensors):  # else the head's is the one matrix of both
        aside |= set(entry.tensor_names(entry.unembedding[0]))
    aside |= {name for name, tensor in tensors.items() if name.endswith(NEVER_LEARNED) or tensor.dtype in NO_NUMBERS}
    counted = (name for name in tensors if name not in aside)
    return sum(math.prod(tensors[name].shape) for name in entry.of_the_stack(counted))


def _head_bias(entry: Architecture, tensors: Tensors) -> StoredTensor | None:
    names = entry.tensor_names(entry.unembedding[0], kind="bias") if entry.has_head else ()
    return next((tensors[name] for name in names if name in tensors), None)


def _position_table(entry: Architecture, config: Config, tensors: Tensors) -> StoredTensor | None:
    if not learns_positions(entry, config):
        return None
    counted = entry.of_the_stack(tensors)
    inside = {name: tensor for name, tensor in tensors.items() if name in counted}
    named = ((name.removesuffix(".weight").rpartition(".")[2], tensor) for name, tensor in inside.items())
    return next((tensor for name, tensor in named if name in POSITION_TABLES), None)


def _scheme(entry: Architecture, config: Config, *, learned: bool) -> str:
    """How positions enter, by the class, its switches and whether there is a table of them."""
    decoder = config_of(config)
    if entry.model_type in SCHEMES:
        return SCHEMES[entry.model_type]
    kind = str(decoder.get("position_embedding_type") or "")
    if kind.startswith("relative"):
        return "relative"
    if kind == "nope" or (entry.model_type in ROTATES_IF_SAID and kind != "rope"):
        return "none"
    if not entry.has_head and learned:
        return "learned"
    if entry.model_type == "beit":
        biased = decoder.get("use_relative_position_bias") or decoder.get("use_shared_relative_position_bias")
        return "relative" if biased else "none"
    return "alibi" if decoder.get("alibi") is True else "rotary"


def _norm_place(entry: Architecture) -> str:
    if not entry.additive:
        return "post"
    if entry.attention_write:
        return "sandwich" if entry.attention_norm else "output"
    return "pre"


def _heritage_of(model_id: str, models: pd.DataFrame) -> str:
    organisation = model_id.partition("/")[0] + "/"
    heritages = set(models.loc[models["model_id"].str.startswith(organisation), "heritage"]) - {""}
    return heritages.pop() if len(heritages) == 1 and "/" in model_id else ""

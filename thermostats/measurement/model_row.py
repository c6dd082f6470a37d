"""A model's row of the table `models`, from its configuration and the headers of its checkpoint. No torch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import DataError
from thermostats.measurement.architectures import Architecture, config_of, lookup
from thermostats.measurement.checkpoint import BUFFERS, PRECISION, StoredTensor, open_checkpoint
from thermostats.measurement.gguf_files import UNROUNDED, record
from thermostats.measurement.layouts import geometry, stated_count
from thermostats.measurement.spectra import Tensors, find, read_config, unembedding
from thermostats.tables.parameters import COUNTED

POSITION_TABLES = ("wpe", "embed_positions", "positions_embed", "position_embeddings", "position_embedding")
LEARNED = ("openai-gpt", "gpt2", "gpt_neo", "gpt_bigcode", "opt", "biogpt")
SCHEMES = {**dict.fromkeys(LEARNED, "learned"), "xglm": "sinusoidal", "bloom": "alibi", "mpt": "alibi"}
SCHEMES |= dict.fromkeys(("deberta", "deberta-v2", "mpnet", "t5", "mt5", "umt5"), "relative")
SCHEMES |= dict.fromkeys(("marian", "pegasus", "m2m_100"), "sinusoidal")
SCHEMES |= dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "jamba"), "none")
RMS = ("t5", "mt5", "umt5", "mamba", "mamba2", "falcon_mamba", "lfm2", "lfm2_moe")
"""Model types with RMSNorm whose configurations do not call its ε so."""
FEED_FORWARD = ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "ffn_hidden_dim", "hidden_dim")
GATES = ("gate_proj", "gate_up_proj", "w3", "up_gate_proj")


def model_row(
    path: Path, *, model_id: str, revision: str, known: pd.DataFrame, heritage: str = "", reads: str = "text"
) -> dict[str, Any]:
    """Row of the table `models` for the model in a folder.

    Where no heritage is given, it is that of the models in `known` (the table `models`) that share the hub
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
        vocabulary, d_embed = find(tensors, entry.tensor_names(entry.embedding)).shape
    head = unembedding(entry, config, tensors) if entry.has_head else None
    table = _position_table(tensors)
    origin = record(path)
    total = _count(entry, tensors, tied=head is None)
    outside = [(vocabulary, d_embed), *([head.shape] if head else []), *([table.shape] if table else [])]
    usual = "learned" if not entry.has_head and table else "alibi" if decoder.get("alibi") is True else "rotary"
    return {
        "model_id": model_id,
        "revision": revision,
        "heritage": heritage or _heritage_of(model_id, known),
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
        "d_ff": next((stated_count(decoder, key) for key in FEED_FORWARD if decoder.get(key)), 4 * g.d_model)
        if entry.mlp
        else 0,
        "vocab_size": vocabulary,
        "n_positions": table.shape[-2] if table else 0,
        "tied_embeddings": head is None,
        "gated_mlp": any(name.rpartition(".")[0].rpartition(".")[2] in GATES for name in tensors),
        "n_params": total,
        "n_params_nonembedding": total - sum(math.prod(shape) for shape in outside),
        "norm_kind": "RMSNorm" if "rms_norm_eps" in decoder or entry.model_type in RMS else "LayerNorm",
        "norm_place": _norm_place(entry),
        "position_scheme": SCHEMES.get(entry.model_type, usual),
        "parallel_block": entry.parallel,
        "year": None,
        "modality": "vision" if entry.reads == "image" else "decoder" if entry.has_head else "encoder",
        "stages": len(entry.depths) or 1,
        "source": COUNTED,
        "quantised": "" if origin.get("scheme") in (None, *UNROUNDED) else origin["scheme"],
        "package": "",
        "model_licence": origin.get("licence", ""),
    }


def stored_dtype(tensors: Tensors) -> str:
    """Precision of a checkpoint's matrices, as the table `runs` names it; mixed where they differ."""
    matrices = (x for name, x in tensors.items() if len(x.shape) == 2 and not name.endswith(BUFFERS))
    found = {PRECISION.get(tensor.dtype, tensor.dtype) for tensor in matrices}
    if unknown := found - set(PRECISION.values()):
        got, allowed = ", ".join(sorted(unknown)), ", ".join(PRECISION.values())
        raise DataError("the checkpoint is quantised", got=got, allowed=allowed)
    return found.pop() if len(found) == 1 else "mixed"


def _count(entry: Architecture, tensors: Tensors, *, tied: bool) -> int:
    copies = [name for name in entry.tensor_names(entry.embedding) if name in tensors][1:]
    twice = {*copies, *(entry.tensor_names(entry.unembedding[0]) if tied else ())}
    parts = {name: set(name.split(".")) for name in tensors if not name.endswith(BUFFERS) and name not in twice}
    counted = (tensors[name] for name, modules in parts.items() if modules.isdisjoint(entry.outside))
    return sum(math.prod(tensor.shape) for tensor in counted)


def _position_table(tensors: Tensors) -> StoredTensor | None:
    named = ((name.removesuffix(".weight").rpartition(".")[2], tensor) for name, tensor in tensors.items())
    return next((tensor for name, tensor in named if name in POSITION_TABLES), None)


def _norm_place(entry: Architecture) -> str:
    if not entry.additive:
        return "post"
    if entry.attention_write:
        return "sandwich" if entry.attention_norm else "output"
    return "pre"


def _heritage_of(model_id: str, known: pd.DataFrame) -> str:
    organisation = model_id.partition("/")[0] + "/"
    heritages = set(known.loc[known["model_id"].str.startswith(organisation), "heritage"]) - {""}
    return heritages.pop() if len(heritages) == 1 and "/" in model_id else ""

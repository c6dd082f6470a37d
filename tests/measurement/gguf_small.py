"""Small Llama models written as GGUF the way llama.cpp's converter does: its names, its order of
query and key rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from numpy.typing import NDArray

SHAPE = {
    **{
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
    },
    **{"num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": 32, "head_dim": 8},
}
WORDS = ["<unk>", "<s>", "</s>", *(chr(ord("a") + i) for i in range(26)), "ab", "Ġ", "Ċ"]
NAMES = {
    **{"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v"},
    **{"self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up"},
    **{
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    },
}
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
Tensors = dict[str, tuple[NDArray[Any], Any]]


def model(*, tied: bool, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        **SHAPE, tie_word_embeddings=tied, bos_token_id=1, eos_token_id=2
    )
    made = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return made


def rotated(weights: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows of queries or keys in the order of llama.cpp, in which the two halves of a head
    alternate."""
    halves = weights.reshape(heads, 2, len(weights) // heads // 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weights.shape))


def tensors(made: Any, kind: str = "F32") -> Tensors:
    """Tensors of a model under the names of GGUF, matrices stored as `kind`."""
    held_tensors: Tensors = {}
    for name, parameter in made.named_parameters():
        module = name.removesuffix(".weight")
        weights = parameter.detach().numpy()
        if module in OUTSIDE:
            held_tensors[f"{OUTSIDE[module]}.weight"] = stored(weights, kind)
            continue
        _, _, layer, rest = module.split(".", 3)
        if rest.endswith(("q_proj", "k_proj")):
            key = "num_attention_heads" if rest.endswith("q_proj") else "num_key_value_heads"
            weights = rotated(weights, SHAPE[key])
        held_tensors[f"blk.{layer}.{NAMES[rest]}.weight"] = stored(weights, kind)
    return held_tensors


def stored(weights: NDArray[Any], kind: str) -> tuple[NDArray[Any], Any]:
    scheme = gguf.GGMLQuantizationType[kind if weights.ndim == 2 else "F32"]
    return gguf.quantize(np.ascontiguousarray(weights, np.float32), scheme), scheme


def write(
    path: Path,
    held: Tensors,
    *,
    part: tuple[int, int, int] | None = None,
    file_type: int = 0,
    stating: Mapping[str, Any] | None = None,
) -> Path:
    """A GGUF file of these tensors. part: its number from 0, how many there are, tensors of all of
    them. stating: metadata that it has besides, or in the place of its own."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("small")
    writer.add_license("mit")
    writer.add_file_type(file_type)
    writer.add_block_count(SHAPE["num_hidden_layers"])
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(SHAPE["hidden_size"])
    writer.add_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_head_count(SHAPE["num_attention_heads"])
    writer.add_head_count_kv(SHAPE["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(SHAPE["head_dim"])
    writer.add_vocab_size(SHAPE["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_types([2, 3, 3, *[1] * (len(WORDS) - 3)])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    if part is not None:
        writer.add_uint16("split.no", part[0])
        writer.add_uint16("split.count", part[1])
        writer.add_int32("split.tensors.count", part[2])
    add = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
    }
    for key, value in (stating or {}).items():
        writer.kv_data[0].pop(key, None)
        add.get(type(value), writer.add_array)(key, value)
    for name, (data, scheme) in held.items():
        writer.add_tensor(name, data, raw_dtype=scheme)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_split(folder: Path, held: Tensors, cuts: Sequence[int]) -> list[Path]:
    """The same in parts as gguf-split makes them, cut before these tensors."""
    names, count = list(held), len(cuts) + 1
    bounds = [0, *cuts, len(names)]
    paths = []
    for i in range(count):
        part_tensors = {name: held[name] for name in names[bounds[i] : bounds[i + 1]]}
        path = folder / f"small-{i + 1:05d}-of-{count:05d}.gguf"
        paths.append(write(path, part_tensors, part=(i, count, len(names))))
    return paths

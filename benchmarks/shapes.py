"""Random models of known shapes, saved as Hugging Face folders: what every contender of the
benchmark reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor

TINY_NEOX = {
    "hidden_size": 128,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
PYTHIA = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
}
SHAPES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "GPT-2-small": ("GPT2Config", {}, {"n_layer": 2, "n_embd": 128, "n_head": 2}),
    "Pythia-160m": (
        "GPTNeoXConfig",
        {**PYTHIA, "vocab_size": 50304},
        {**TINY_NEOX, "vocab_size": 50304},
    ),
}
"""Shape: configuration class, its arguments, and those of a tiny stand-in for trying the benchmark
out."""
DECAY = 0.7
"""A decaying W_V or W_O has singular values i^-0.7; a flat one is Gaussian, as models are
initialised."""
SEVEN_B = {"q_proj": 4096, "k_proj": 4096, "v_proj": 4096, "o_proj": 4096}
SEVEN_B_MLP = {"gate_proj": 11008, "up_proj": 11008, "down_proj": 11008}
WIDTH = 4096
SHARDED = {
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}
UNKNOWN = "[UNK]"


def save_model(
    folder: Path, shape: str, texts: Sequence[str], *, tiny: bool, decaying: bool = False
) -> None:
    """A random model with a tokenizer of whole words, and what every contender is given: token ids
    in prompts.json, and W_V and W_O of every layer in matrices.npy (for those that do not read a
    model's files).
    """
    kind, full, small = SHAPES[shape]
    torch.manual_seed(0)
    config = getattr(transformers, kind)(**(small if tiny else full))
    model = transformers.AutoModelForCausalLM.from_config(config)
    if decaying:
        with torch.no_grad():
            for value, output in value_and_output(model):
                value.copy_(with_decay(output.shape[0]).reshape(value.shape))
                output.copy_(with_decay(output.shape[0]))
    model.save_pretrained(folder)
    with torch.no_grad():
        pairs = [
            W
            for value, output in value_and_output(model)
            for W in (value.reshape(output.shape), output)
        ]
    np.save(folder / "matrices.npy", torch.stack(pairs).detach().numpy())
    words = save_tokenizer(folder, texts)
    (folder / "prompts.json").write_text(
        json.dumps([words.encode(text).ids for text in texts]), encoding="utf-8"
    )


def save_tokenizer(folder: Path, texts: Sequence[str]) -> Tokenizer:
    """A tokenizer of the texts' whole words."""
    words = Tokenizer(models.WordLevel({UNKNOWN: 0}, unk_token=UNKNOWN))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces = {word for text in texts for word, _ in words.pre_tokenizer.pre_tokenize_str(text)}
    words.model = models.WordLevel(
        {word: i for i, word in enumerate([UNKNOWN, *sorted(pieces)])}, unk_token=UNKNOWN
    )
    special = dict.fromkeys(("unk_token", "pad_token", "eos_token"), UNKNOWN)
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    return words


def save_small_model(folder: Path, texts: Sequence[str], seed: int) -> None:
    """A GPT-2 of two layers with 160,000 random weights."""
    torch.manual_seed(seed)
    special = {"bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=1024, **special)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    save_tokenizer(folder, texts)


def save_shards(folder: Path, texts: Sequence[str], dtype: str) -> int:
    """A LLaMA of 1.57 billion random weights in shards of 1 GB; their bytes."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SHARDED)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    model.save_pretrained(folder, max_shard_size="1GB")
    save_tokenizer(folder, texts)
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def value_and_output(model: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Views of W_V (H × d_h × d) and W_O (d × d) of every block; GPT-2 stores them transposed, in
    one fused matrix."""
    if hasattr(model, "transformer"):
        for block in model.transformer.h:
            d, heads = block.attn.embed_dim, block.attn.num_heads
            yield (
                block.attn.c_attn.weight[:, 2 * d :].T.unflatten(0, (heads, -1)),
                block.attn.c_proj.weight.T,
            )
        return
    for block in model.gpt_neox.layers:
        attention = block.attention
        fused = attention.query_key_value.weight.view(
            -1, 3, attention.head_size, attention.dense.weight.shape[0]
        )
        yield fused[:, 2], attention.dense.weight


def with_decay(d: int) -> Tensor:
    """A random matrix with singular values i^-0.7."""
    left, right = (torch.linalg.qr(torch.randn(d, d))[0] for _ in range(2))
    return left * torch.arange(1, d + 1) ** -DECAY @ right


def save_large_file(folder: Path, layers: int) -> None:
    """A LLaMA folder of 7B shapes in bfloat16 with Gaussian weights: 32.4 MB a matrix; 13 layers
    are 5.8 GB."""
    rng = np.random.default_rng(0)
    square = (rng.standard_normal((WIDTH, WIDTH), np.float32).view(np.uint32) >> 16).astype(
        np.uint16
    )
    shapes = {"model.embed_tokens.weight": 32000, "lm_head.weight": 32000}
    for layer in range(layers):
        shapes |= {
            f"model.layers.{layer}.self_attn.{name}.weight": rows for name, rows in SEVEN_B.items()
        }
        shapes |= {
            f"model.layers.{layer}.mlp.{name}.weight": rows for name, rows in SEVEN_B_MLP.items()
        }
    header: dict[str, Any] = {}
    end = 0
    for name, rows in shapes.items():
        start, end = end, end + rows * WIDTH * 2
        shape = [WIDTH, rows] if "down" in name else [rows, WIDTH]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    raw = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as stream:
        stream.write(len(raw).to_bytes(8, "little") + raw)
        for number, rows in enumerate(shapes.values()):
            rolled = np.roll(square, 37 * number, axis=0)
            for first in range(0, rows, WIDTH):
                stream.write(rolled[: rows - first].tobytes())
        stream.flush()
        os.fsync(stream.fileno())
    config = {
        "model_type": "llama",
        "hidden_size": WIDTH,
        "num_hidden_layers": layers,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 32000,
        "intermediate_size": 11008,
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")

"""A row of the design → a model: a configuration class of transformers, freshly initialised as its recipe says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from thermostats.studies.nursery.factors import CONTEXT, DROPOUT

Row = Mapping[str, Any]
WRITES = ("c_proj", "o_proj", "out_proj", "attention.dense", "dense_4h_to_h", "down_proj", "fc2")
"""Endings of the names of matrices that write into the residual stream."""
POSITION_TABLES = ("wpe", "positions_embed", "embed_positions")


def config(row: Row, vocab_size: int) -> PretrainedConfig:
    """Configuration of a row of the design; feed-forward width 4 d, or 8/3 d where it is gated."""
    d, depth, heads, p = row["d_model"], row["n_layers"], row["n_heads"], DROPOUT[row["dropout"]]
    gpt2 = {"n_embd": d, "n_layer": depth, "n_head": heads, "n_positions": CONTEXT}
    gpt2 |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), p)
    others = {"hidden_size": d, "num_hidden_layers": depth, "num_attention_heads": heads}
    others |= {"max_position_embeddings": CONTEXT, "attention_dropout": p}
    llama = others | {"intermediate_size": 8 * d // 3, "num_key_value_heads": heads}
    rotation = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
    neox = {"intermediate_size": 4 * d, "use_parallel_residual": True, "rope_parameters": rotation, "hidden_dropout": p}
    opt = {"word_embed_proj_dim": d, "ffn_dim": 4 * d, "do_layer_norm_before": row["norm"] == "pre", "dropout": p}
    options: dict[str, Any] = {
        "gpt2": gpt2,
        "openai-gpt": gpt2,
        "opt": others | opt,
        "gpt_neox": others | neox,
        "llama": llama,
        "olmo2": llama,
        "smollm3": llama | {"no_rope_layers": [0] * depth},
    }[row["model_type"]]
    tokens = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    shared = {"vocab_size": vocab_size, "tie_word_embeddings": bool(row["tied"])}
    return AutoConfig.for_model(row["model_type"], **shared, **tokens, **options)


def build(row: Row, vocab_size: int) -> PreTrainedModel:
    """The row's model, float32 on the CPU, initialised from torch's global generator, seeded with the row's seed."""
    torch.manual_seed(int(row["seed"]))
    auto: Any = AutoModelForCausalLM
    model: PreTrainedModel = auto.from_config(config(row, vocab_size), dtype=torch.float32)
    initialise(model, row["init"])
    if row["position"] == "none":
        hold_positions(model)
    return model


def initialise(model: PreTrainedModel, scheme: str) -> None:
    """Draw every matrix anew: N(0, s^2) with s by the scheme; norms stay at 1, biases at 0, embeddings at N(0, 0.02^2).

    - normal: s = 0.02.
    - depth_scaled: 0.02, and 0.02/sqrt(2 L) for what writes into the stream (Radford et al. 2019).
    - small_wang: sqrt(2/(5 d)), and 2/(L sqrt(d)) for what writes (Nguyen and Salazar 2019, doi 10.5281/zenodo.3525484;
      GPT-NeoX, Black et al. 2022).
    - fan_in: 1/sqrt(fan-in) (LeCun et al. 1998, doi 10.1007/3-540-49430-8_2).
    """
    d, depth = model.config.hidden_size, model.config.num_hidden_layers
    scales: dict[str, Callable[[int, bool], float]] = {
        "normal": lambda _fan_in, _writes: 0.02,
        "depth_scaled": lambda _fan_in, writes: 0.02 / math.sqrt(2 * depth) if writes else 0.02,
        "small_wang": lambda _fan_in, writes: 2 / (depth * math.sqrt(d)) if writes else math.sqrt(2 / (5 * d)),
        "fan_in": lambda fan_in, _writes: 1 / math.sqrt(fan_in),
    }
    head: nn.Module = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, nn.Linear | Conv1D):
            if module is head and model.config.tie_word_embeddings:
                continue
            fan_in = module.weight.shape[0] if isinstance(module, Conv1D) else module.weight.shape[1]
            std = 0.02 if module is head else scales[scheme](fan_in, name.endswith(WRITES))
            nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def hold_positions(model: PreTrainedModel) -> None:
    """Hold a learned position table at zero; models without one (no rotating layer) are left as they are."""
    for name, parameter in model.named_parameters():
        if any(table in name for table in POSITION_TABLES):
            nn.init.zeros_(parameter)
            parameter.requires_grad_(False)

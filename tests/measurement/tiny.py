"""Tiny models of every architecture, built from their configuration classes with random weights.

Heads, key/value heads, head width and layers differ, and norms and biases are random too, so that
no wrong layout fits.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest
import torch
import transformers

from thermostats.measurement.architectures import ARCHITECTURES
from thermostats.measurement.batching import ImagePrompt, TokenisedPrompt
from thermostats.measurement.forward import Decoder, build_decoder, read_configuration
from thermostats.measurement.lookup import lookup
from thermostats.measurement.model_class import Architecture

torch.set_num_threads(1)  # matrices this small are slower on more

VOCABULARY = 61

LLAMA: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
WIDE = {**LLAMA, "head_dim": 6}
GPT2: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_embd": 32,
    "n_head": 4,
    "n_layer": 3,
    "n_positions": 64,
}
NEOX = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
OPT: dict[str, Any] = {**NEOX, "ffn_dim": 40, "word_embed_proj_dim": 32}
FALCON: dict[str, Any] = {**NEOX, "bias": True}
MOE: dict[str, Any] = {"num_local_experts": 4, "num_experts_per_tok": 2}
QWEN_MOE: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
DEEPSEEK: dict[str, Any] = {
    **NEOX,
    **{
        "num_key_value_heads": 4,
        "moe_intermediate_size": 24,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
    },
    **{"num_experts_per_tok": 2, "first_k_dense_replace": 1, "kv_lora_rank": 10, "q_lora_rank": 12},
    **{
        "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 4,
        "v_head_dim": 5,
        "n_group": 2,
        "topk_group": 1,
    },
}
VISION: dict[str, Any] = {
    "vision_config": {
        **{
            "hidden_size": 8,
            "intermediate_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
        },
        **{"image_size": 28, "patch_size": 14},
    },
    "mm_tokens_per_image": 4,
}

CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai-gpt": ("OpenAIGPTConfig", GPT2),
    "gpt2": ("GPT2Config", GPT2),
    "gpt_neo": (
        "GPTNeoConfig",
        {
            **{
                "vocab_size": VOCABULARY,
                "hidden_size": 32,
                "num_heads": 4,
                "num_layers": 3,
                "window_size": 4,
            },
            **{
                "attention_types": [[["global", "local", "global"], 1]],
                "max_position_embeddings": 64,
            },
        },
    ),
    "gptj": ("GPTJConfig", {**GPT2, "rotary_dim": 4}),
    "gpt_neox_sequential": ("GPTNeoXConfig", {**NEOX, "use_parallel_residual": False}),
    "gpt_neox": ("GPTNeoXConfig", NEOX),
    "gpt_bigcode_multi_head": ("GPTBigCodeConfig", {**GPT2, "multi_query": False}),
    "gpt_bigcode": ("GPTBigCodeConfig", GPT2),
    "codegen": ("CodeGenConfig", {**GPT2, "n_head": 8, "rotary_dim": 2}),
    "opt_post_norm": (
        "OPTConfig",
        {**OPT, "word_embed_proj_dim": 16, "do_layer_norm_before": False},
    ),
    "opt": ("OPTConfig", OPT),
    "bloom": (
        "BloomConfig",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 3, "n_head": 4},
    ),
    "falcon_new_one_norm": (
        "FalconConfig",
        {
            **FALCON,
            "num_kv_heads": 2,
            "new_decoder_architecture": True,
            "num_ln_in_parallel_attn": 1,
        },
    ),
    "falcon_new": ("FalconConfig", {**FALCON, "num_kv_heads": 2, "new_decoder_architecture": True}),
    "falcon_multi_head_sequential": (
        "FalconConfig",
        {**FALCON, "multi_query": False, "parallel_attn": False, "alibi": True},
    ),
    "falcon_multi_head": ("FalconConfig", {**FALCON, "multi_query": False}),
    "falcon_sequential": ("FalconConfig", {**FALCON, "parallel_attn": False}),
    "falcon": ("FalconConfig", {**FALCON, "bias": False}),
    "mpt": (
        "MptConfig",
        {"vocab_size": VOCABULARY, "d_model": 32, "n_heads": 4, "n_layers": 3, "max_seq_len": 64},
    ),
    "xglm": (
        "XGLMConfig",
        {
            **{
                "vocab_size": VOCABULARY,
                "d_model": 32,
                "ffn_dim": 40,
                "num_layers": 3,
                "attention_heads": 4,
            },
            **{"max_position_embeddings": 64},
        },
    ),
    "biogpt": ("BioGptConfig", NEOX),
    "persimmon": ("PersimmonConfig", NEOX),
    "llama": ("LlamaConfig", WIDE),
    "mistral": ("MistralConfig", WIDE),
    "mixtral": ("MixtralConfig", {**WIDE, **MOE}),
    "gemma": ("GemmaConfig", WIDE),
    "qwen2_moe": ("Qwen2MoeConfig", {**LLAMA, **QWEN_MOE, "shared_expert_intermediate_size": 24}),
    "qwen3": ("Qwen3Config", WIDE),
    "qwen3_moe": ("Qwen3MoeConfig", {**WIDE, **QWEN_MOE}),
    "gemma2": ("Gemma2Config", {**WIDE, "query_pre_attn_scalar": 6}),
    "gemma3_text": ("Gemma3TextConfig", {**WIDE, "query_pre_attn_scalar": 6}),
    "gemma3": ("Gemma3Config", {"text_config": {**WIDE, "query_pre_attn_scalar": 6}, **VISION}),
    "stablelm_parallel": (
        "StableLmConfig",
        {**LLAMA, "use_parallel_residual": True, "qk_layernorm": True},
    ),
    "granite": (
        "GraniteConfig",
        {
            **LLAMA,
            "residual_multiplier": 0.22,
            "embedding_multiplier": 3.0,
            "attention_multiplier": 0.3,
        },
    ),
    "glm4": ("Glm4Config", WIDE),
    "deepseek_v2": ("DeepseekV2Config", DEEPSEEK),
    "swin": (
        "SwinConfig",
        {
            **{
                "image_size": 32,
                "patch_size": 2,
                "embed_dim": 12,
                "depths": [2, 2, 1],
                "num_heads": [2, 4, 4],
            },
            "window_size": 4,
        },
    ),
    "deepseek_v3": ("DeepseekV3Config", DEEPSEEK),
    "sarvam_mla": ("SarvamMLAConfig", DEEPSEEK),
    "gpt_oss": ("GptOssConfig", {**WIDE, **MOE}),
}
"""Name of the entry: configuration class and its arguments."""
EXPERTS = {
    **{
        "num_experts": 4,
        "num_local_experts": 4,
        "n_routed_experts": 4,
        "moe_num_experts": 4,
        "num_experts_per_tok": 2,
    },
    **{
        "moe_intermediate_size": 24,
        "moe_k": 2,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "n_group": 1,
    },
    **{"topk_group": 1},
}
SMALL: dict[str, Any] = {
    **{
        **WIDE,
        **EXPERTS,
        "head_dim": 8,
        "embedding_size": 24,
        "dim": 32,
        "hidden_dim": 40,
        "n_layers": 3,
        "n_heads": 4,
    },
    **{
        "image_size": 12,
        "patch_size": 4,
        "num_register_tokens": 2,
        "window_size": 2,
        "is_decoder": False,
    },
}
"""What any configuration class may want, as far as it has it; shapes that differ wherever the class
lets them."""
SIDES = {
    **{
        "d_model": 32,
        "encoder_layers": 3,
        "decoder_layers": 1,
        "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 24,
    },
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 2},
}
STATE = {"state_size": 5, "time_step_rank": 3, "head_dim": 8}
STATE2 = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 5,
    "mamba_n_groups": 2,
    "mamba_chunk_size": 4,
}
LINEAR = {
    **{"layer_types": ["linear_attention", "full_attention", "linear_attention"], "head_dim": 8},
    **{
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 6,
        "linear_value_head_dim": 5,
    },
    **{"shared_expert_intermediate_size": 24},
}
OWN: dict[str, dict[str, Any]] = {
    "luke": {"entity_vocab_size": 7, "entity_emb_size": 8},  # its default reads 500,000 entities
    "beit": {"layer_scale_init_value": 0.5, "use_relative_position_bias": True},
    **{
        name: {"layerscale_value": 0.5}
        for name in ("dinov2", "dinov2_with_registers", "dinov3_vit")
    },
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
    },
    "deberta": {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "max_relative_positions": 16,
    },
    "modernbert": {"local_attention": 4},
    **{
        name: {
            "num_layers": 3,
            "num_heads": 4,
            "d_kv": 6,
            "d_ff": 40,
            "relative_attention_num_buckets": 8,
        }
        for name in ("t5", "mt5", "umt5")
    },
    **{
        name: {**SIDES, "max_position_embeddings": 64, "scale_embedding": True}
        for name in (
            "mbart",
            "pegasus",
            "blenderbot",
            "m2m_100",
            "bart",
            "plbart",
            "mvp",
            "marian",
            "blenderbot-small",
        )
    },
    "mamba": {**STATE, "intermediate_size": 64},
    "falcon_mamba": {**STATE, "intermediate_size": 64},
    "mamba2": {**STATE, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 4},
    "jamba": {
        "attn_layer_period": 3,
        "attn_layer_offset": 1,
        "mamba_d_state": 5,
        "mamba_dt_rank": 3,
    },
    "bamba": {"attn_layer_indices": [1], **STATE2},
    "granitemoehybrid_dense": {
        **{
            "num_local_experts": 0,
            "layer_types": ["mamba", "attention", "mamba"],
            "residual_multiplier": 0.3,
        },
        **{"shared_intermediate_size": 40, **STATE2},
    },
    **{name: {"layer_types": ["conv", "full_attention", "conv"]} for name in ("lfm2", "lfm2_moe")},
    "recurrent_gemma": {"lru_width": 32, "attention_window_size": 64},
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), LINEAR),
}
UNSTATED: set[str] = set()
"""Entries whose configuration states no key/value heads by default: a wrong number of them would
pass unseen."""
for _entry in ARCHITECTURES:
    if (
        _entry.name not in CONFIGURATIONS and _entry.model_type in transformers.CONFIG_MAPPING
    ):  # older ones lack some
        _kind = transformers.CONFIG_MAPPING[_entry.model_type]
        _known = _kind().to_dict()
        _fits = {
            key: value
            for key, value in SMALL.items()
            if key in _known or key in _kind.attribute_map
        }
        if _known.get("num_key_value_heads") is None and _fits.pop("num_key_value_heads", None):
            UNSTATED.add(_entry.name)
        CONFIGURATIONS[_entry.name] = (_kind.__name__, {**_fits, **OWN.get(_entry.name, {})})


KIND = attrgetter(
    "layout", "n_kv_heads", "transposed", "parallel", "causal", "reads", "sinks", "shared"
)
"""What makes a model's code another one; of entries that are alike in it the first is tried by
default."""
FIRST = {
    (KIND(entry), bool(entry.norm_after)): entry.name for entry in reversed(ARCHITECTURES)
}.values()


def in_turn(mark: Any = pytest.mark.slow) -> list[Any]:
    """Names of the entries; all but the first of a kind are slow."""
    return [pytest.param(e.name, marks=() if e.name in FIRST else mark) for e in ARCHITECTURES]


def build(
    name: str, attention: str | None = None, *, head: bool = True, **changes: Any
) -> torch.nn.Module:
    """The tiny model of an entry, float32, in evaluation mode, the same every time."""
    kind, arguments = CONFIGURATIONS[name]
    assert name not in UNSTATED or "num_key_value_heads" in arguments, (
        f"{name}: {kind} has no key/value heads by default; put num_key_value_heads into OWN in "
        "tests/measurement/tiny.py, 2 where the class groups its 4 heads, else 4"
    )
    config = getattr(transformers, kind)(**{**arguments, **changes})
    if attention is not None:
        config._attn_implementation = attention
    return from_config(config, head=head)


def from_config(config: Any, *, head: bool = True) -> torch.nn.Module:
    """A model with random weights, norms and biases; of one with several parts the stack that is
    measured."""
    made, listed = build_whole(config, head=head), first_entry(config)
    return made.get_submodule(listed.part) if listed and head else made


def build_whole(config: Any, *, head: bool = True) -> torch.nn.Module:
    """A model with random weights, norms and biases, with all its parts, as it is saved."""
    listed = first_entry(config)
    kind = getattr(
        transformers,
        listed.loader if listed and head else "AutoModelForCausalLM" if head else "AutoModel",
    )
    return noisy(kind.from_config(config) if hasattr(kind, "from_config") else kind(config))


def first_entry(config: Any) -> Architecture | None:
    """The first entry of a configuration's model type."""
    return next((entry for entry in ARCHITECTURES if entry.model_type == config.model_type), None)


DRAWN = ("sinks", "router.bias", "class_embedding", "cls_token")
"""Vectors that classes leave as they happen to be in memory, or draw."""


def noisy(model: torch.nn.Module) -> torch.nn.Module:
    """The model with random weights, norms and biases, in evaluation mode."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim > 1:
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)
            elif path.endswith(DRAWN):
                parameter.copy_(noise)
            else:
                parameter.add_(0.3 * noise)
    return model.eval()


def opened(name: str, attention: str | None = None, **changes: Any) -> Decoder:
    """The tiny model of an entry with its places; `attention`: the implementation it is built
    with."""
    return places(build(name, attention, **changes))


def places(model: torch.nn.Module) -> Decoder:
    """A model with the places that its own entry names."""
    return build_decoder(model, lookup(read_configuration(model)))


def inputs(decoder: Decoder, *lengths: int) -> list[Any]:
    """Prompts of these lengths for a model of text, as many images for one of images."""
    if decoder.entry.reads == "text":
        return (
            prompts(*lengths)
            if decoder.entry.causal
            else prompts(*(n + 1 for n in lengths), after=1)
        )
    generator = torch.Generator().manual_seed(5)
    side = decoder.config["image_size"]
    return [
        ImagePrompt(f"p{i}", torch.randn((3, side, side), generator=generator))
        for i in range(len(lengths))
    ]


def arguments(prompt: Any) -> dict[str, torch.Tensor]:
    """What the model is called with for one prompt alone."""
    if isinstance(prompt, ImagePrompt):
        return {"pixel_values": prompt.pixels.unsqueeze(0)}
    return {"input_ids": torch.tensor([prompt.token_ids])}


def prompts(*lengths: int, after: int = 0) -> list[TokenisedPrompt]:
    """Prompts of these lengths, called p0, p1, …, so many tokens at the end of each not its own."""
    return [TokenisedPrompt(f"p{i}", ids, 1, after) for i, ids in enumerate(prompt_ids(*lengths))]


def prompt_ids(*lengths: int) -> list[tuple[int, ...]]:
    """Token ids of prompts of these lengths, without the ids that configurations use as special
    tokens."""
    generator = torch.Generator().manual_seed(3)
    return [
        tuple(torch.randint(3, VOCABULARY, (n,), generator=generator).tolist()) for n in lengths
    ]

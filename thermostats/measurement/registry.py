"""ARCHITECTURES: one entry per model class or variant. Adding a family means adding an entry and a tiny test model.

Every entry is held to `tests/measurement/test_conformance.py`, which asks the model itself.
"""

from __future__ import annotations

from dataclasses import replace

from thermostats.measurement.architectures import Architecture

LLAMA = Architecture(name="llama", model_type="llama")
"""Norm, attention, norm, gated feed-forward layer, each added to the stream; most later models share its names."""

GPT2 = Architecture(
    name="gpt2",
    model_type="gpt2",
    prefix="transformer",
    blocks="h",
    final_norm="ln_f",
    embedding="wte",
    attention="attn",
    attention_norm="ln_1",
    value="attn.c_attn",
    output="attn.c_proj",
    layout="stacked",
    transposed=True,
    n_kv_heads="all",
    mlp="mlp",
    mlp_norm="ln_2",
)

GPT_NEOX = Architecture(
    name="gpt_neox",
    model_type="gpt_neox",
    prefix="gpt_neox",
    final_norm="final_layer_norm",
    embedding="embed_in",
    unembedding=("lm_head", "embed_out"),
    attention="attention",
    value="attention.query_key_value",
    output="attention.dense",
    layout="grouped",
    n_kv_heads="all",
    parallel=True,
)

OPT = Architecture(
    name="opt",
    model_type="opt",
    blocks="decoder.layers",
    final_norm="decoder.final_layer_norm",
    embedding="decoder.embed_tokens",
    attention_norm="self_attn_layer_norm",
    output="self_attn.out_proj",
    n_kv_heads="all",
    mlp="fc1",
    mlp_out="fc2",
    mlp_norm="final_layer_norm",
    packs=False,
)

BLOOM = Architecture(
    name="bloom",
    model_type="bloom",
    prefix="transformer",
    blocks="h",
    final_norm="ln_f",
    embedding="word_embeddings",
    attention="self_attention",
    attention_out="self_attention.dense",
    value="self_attention.query_key_value",
    output="self_attention.dense",
    layout="grouped",
    n_kv_heads="all",
    mlp_out="mlp.dense_4h_to_h",
    packs=False,
)

GPTJ = replace(
    GPT2,
    name="gptj",
    model_type="gptj",
    value="attn.v_proj",
    output="attn.out_proj",
    layout="separate",
    transposed=False,
    mlp_norm="ln_1",
    parallel=True,
)

BIGCODE = replace(GPT2, name="gpt_bigcode", model_type="gpt_bigcode", transposed=False, n_kv_heads="one")

FALCON = replace(
    BLOOM,
    name="falcon",
    model_type="falcon",
    attention_out="",
    mlp_out="",
    n_kv_heads="one",
    mlp_norm="input_layernorm",
    parallel=True,
    eager_wrong=(("alibi", True),),
)

XGLM = replace(OPT, name="xglm", model_type="xglm", blocks="layers", final_norm="layer_norm", embedding="embed_tokens")

GEMMA2 = replace(
    LLAMA,
    name="gemma2",
    model_type="gemma2",
    mlp_norm="pre_feedforward_layernorm",
    attention_write="post_attention_layernorm",
    mlp_write="post_feedforward_layernorm",
)

STABLELM = replace(LLAMA, name="stablelm", model_type="stablelm")

DEEPSEEK = replace(
    LLAMA, name="deepseek_v2", model_type="deepseek_v2", value="self_attn.kv_b_proj", layout="latent", n_kv_heads="all"
)


def _like(entry: Architecture, *model_types: str) -> tuple[Architecture, ...]:
    return tuple(replace(entry, name=model_type, model_type=model_type) for model_type in model_types)


ARCHITECTURES: tuple[Architecture, ...] = (
    replace(
        GPT2,
        name="openai-gpt",
        model_type="openai-gpt",
        final_norm="",
        embedding="tokens_embed",
        attention_norm="",
        mlp_norm="ln_1",
        additive=False,
        packs=False,
    ),
    GPT2,
    replace(
        GPTJ,
        name="gpt_neo",
        model_type="gpt_neo",
        value="attn.attention.v_proj",
        output="attn.attention.out_proj",
        mlp_norm="ln_2",
        parallel=False,
    ),
    GPTJ,
    replace(GPT_NEOX, name="gpt_neox_sequential", when=(("use_parallel_residual", False),), parallel=False),
    GPT_NEOX,
    replace(BIGCODE, name="gpt_bigcode_multi_head", when=(("multi_query", False),), n_kv_heads="all", layout="grouped"),
    BIGCODE,
    replace(GPTJ, name="codegen", model_type="codegen", value="attn.qkv_proj", layout="partitioned"),
    replace(
        OPT,
        name="opt_post_norm",
        when=(("do_layer_norm_before", False),),
        final_norm="",
        attention_norm="",
        mlp_norm="self_attn_layer_norm",
        additive=False,
    ),
    OPT,
    BLOOM,
    replace(
        FALCON,
        name="falcon_new_one_norm",
        when=(("new_decoder_architecture", True), ("num_ln_in_parallel_attn", 1)),
        n_kv_heads="config",
    ),
    replace(
        FALCON,
        name="falcon_new",
        when=(("new_decoder_architecture", True),),
        n_kv_heads="config",
        attention_norm="ln_attn",
        mlp_norm="ln_mlp",
    ),
    replace(
        FALCON,
        name="falcon_multi_head_sequential",
        when=(("multi_query", False), ("parallel_attn", False)),
        n_kv_heads="all",
        mlp_norm="post_attention_layernorm",
        parallel=False,
    ),
    replace(FALCON, name="falcon_multi_head", when=(("multi_query", False),), n_kv_heads="all"),
    replace(
        FALCON,
        name="falcon_sequential",
        when=(("parallel_attn", False),),
        mlp_norm="post_attention_layernorm",
        parallel=False,
    ),
    FALCON,
    replace(
        GPT2,
        name="mpt",
        model_type="mpt",
        blocks="blocks",
        final_norm="norm_f",
        attention_norm="norm_1",
        value="attn.Wqkv",
        output="attn.out_proj",
        transposed=False,
        mlp="ffn",
        mlp_out="ffn.down_proj",
        mlp_norm="norm_2",
        packs=False,
    ),
    XGLM,
    replace(XGLM, name="biogpt", model_type="biogpt", prefix="biogpt", unembedding=("output_projection",)),
    replace(
        LLAMA,
        name="persimmon",
        model_type="persimmon",
        final_norm="final_layernorm",
        value="self_attn.query_key_value",
        output="self_attn.dense",
        layout="grouped",
        n_kv_heads="all",
    ),
    LLAMA,
    *_like(
        LLAMA,
        "mistral",
        "mixtral",
        "gemma",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "olmo",
        "starcoder2",
        "smollm3",
    ),
    GEMMA2,
    *_like(GEMMA2, "gemma3_text"),
    replace(
        GEMMA2,
        name="gemma3",
        model_type="gemma3",
        blocks="language_model.layers",
        final_norm="language_model.norm",
        embedding="language_model.embed_tokens",
        unembedding=("lm_head", "language_model.lm_head"),
        moved=("model.language_model", "language_model.model"),
        outside=("vision_tower", "multi_modal_projector"),
    ),
    replace(
        LLAMA,
        name="phi",
        model_type="phi",
        final_norm="final_layernorm",
        output="self_attn.dense",
        mlp_norm="input_layernorm",
        parallel=True,
    ),
    replace(LLAMA, name="phi3", model_type="phi3", value="self_attn.qkv_proj", layout="stacked"),
    replace(
        STABLELM,
        name="stablelm_parallel",
        when=(("use_parallel_residual", True),),
        mlp_norm="input_layernorm",
        parallel=True,
    ),
    STABLELM,
    replace(GEMMA2, name="olmo2", model_type="olmo2", attention_norm="", mlp_norm=""),
    replace(LLAMA, name="cohere", model_type="cohere", mlp_norm="input_layernorm", parallel=True),
    replace(LLAMA, name="granite", model_type="granite", residual_multiplier="residual_multiplier"),
    replace(
        LLAMA,
        name="glm4",
        model_type="glm4",
        attention_write="post_self_attn_layernorm",
        mlp_write="post_mlp_layernorm",
    ),
    replace(
        LLAMA,
        name="apertus",
        model_type="apertus",
        attention_norm="attention_layernorm",
        mlp_norm="feedforward_layernorm",
    ),
    DEEPSEEK,
    *_like(DEEPSEEK, "deepseek_v3"),
    replace(LLAMA, name="gpt_oss", model_type="gpt_oss", sinks=True, packs=False),
)

_STATE_SPACE = "its state-space blocks have no attention matrix, W_V or W_O"
_RECURRENT = "its recurrent or linear-attention blocks have no attention matrix that sums to 1"
_ENCODER = "it is not a decoder: its blocks do not read left to right"

UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(
        (
            "jamba",
            "bamba",
            "zamba",
            "zamba2",
            "falcon_h1",
            "nemotron_h",
            "granitemoehybrid",
            "mamba",
            "mamba2",
            "falcon_mamba",
        ),
        _STATE_SPACE,
    ),
    **dict.fromkeys(("recurrent_gemma", "rwkv", "xlstm", "qwen3_next", "minimax", "lfm2", "kimi_linear"), _RECURRENT),
    **dict.fromkeys(
        ("bert", "roberta", "distilbert", "electra", "deberta", "deberta-v2", "t5", "mt5", "bart"), _ENCODER
    ),
}
"""Model types that are refused, each with the reason."""

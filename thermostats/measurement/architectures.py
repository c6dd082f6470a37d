"""What the package knows of a model class: one small frozen entry each, looked up by the
configuration's model type.

Plain Python: reading weights from disk needs no torch. A class is added by an entry of
`ARCHITECTURES`, or a word in `LIKE_LLAMA`; every one is held to
`tests/measurement/test_conformance.py`, which asks the model itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from thermostats.measurement.model_class import Architecture


def _copy_entry(entry: Architecture, model_type: str, **changes: Any) -> Architecture:
    """Another model type, which differs from an entry in these fields."""
    return replace(entry, name=model_type, model_type=model_type, **changes)


def _make_variant(
    entry: Architecture, name: str, conditions: dict[str, object], **changes: Any
) -> Architecture:
    """A variant of an entry's model type, chosen by configuration values."""
    return replace(entry, name=name, when=tuple(conditions.items()), **changes)


def _name_trunk(prefix: str, blocks: str, final_norm: str, embedding: str) -> dict[str, str]:
    return {"prefix": prefix, "blocks": blocks, "final_norm": final_norm, "embedding": embedding}


def _name_reads(attention: str, attention_norm: str, mlp_norm: str) -> dict[str, str]:
    return {"attention": attention, "attention_norm": attention_norm, "mlp_norm": mlp_norm}


def _name_matrices(value: str, output: str, layout: str = "separate") -> dict[str, str]:
    return {"value": value, "output": output, "layout": layout, "n_kv_heads": "all"}


LLAMA = Architecture(name="llama", model_type="llama")
"""Norm, attention, norm, gated feed-forward layer, each added to the stream; most later models
share its names."""

GPT2 = _copy_entry(
    LLAMA,
    "gpt2",
    **_name_trunk("transformer", "h", "ln_f", "wte"),
    **_name_reads("attn", "ln_1", "ln_2"),
    **_name_matrices("attn.c_attn", "attn.c_proj", "stacked"),
    transposed=True,
)
GPTJ = _copy_entry(
    GPT2,
    "gptj",
    **_name_matrices("attn.v_proj", "attn.out_proj"),
    transposed=False,
    mlp_norm="ln_1",
    parallel=True,
)
BIGCODE = _copy_entry(GPT2, "gpt_bigcode", transposed=False, n_kv_heads="one")
GPT_NEOX = _copy_entry(
    LLAMA,
    "gpt_neox",
    **_name_trunk("gpt_neox", "layers", "final_layer_norm", "embed_in"),
    **_name_matrices("attention.query_key_value", "attention.dense", "grouped"),
    unembedding=("lm_head", "embed_out"),
    attention="attention",
    parallel=True,
)
OPT = _copy_entry(
    LLAMA,
    "opt",
    **_name_trunk("model", "decoder.layers", "decoder.final_layer_norm", "decoder.embed_tokens"),
    **_name_reads("self_attn", "self_attn_layer_norm", "final_layer_norm"),
    **_name_matrices("self_attn.v_proj", "self_attn.out_proj"),
    mlp="fc1",
    mlp_out="fc2",
    behind_norm="decoder.project_out",
    packs=False,
)
XGLM = _copy_entry(
    OPT, "xglm", behind_norm="", **_name_trunk("model", "layers", "layer_norm", "embed_tokens")
)
BLOOM = _copy_entry(
    LLAMA,
    "bloom",
    **_name_trunk("transformer", "h", "ln_f", "word_embeddings"),
    **_name_matrices("self_attention.query_key_value", "self_attention.dense", "grouped"),
    attention="self_attention",
    attention_out="self_attention.dense",
    mlp_out="mlp.dense_4h_to_h",
    packs=False,
)
FALCON = _copy_entry(
    BLOOM,
    "falcon",
    **{"attention_out": "", "mlp_out": "", "n_kv_heads": "one", "mlp_norm": "input_layernorm"},
    parallel=True,
    eager_wrong=(("alibi", True),),
)
_NEW: dict[str, object] = {"new_decoder_architecture": True}
_SEQUENTIAL: dict[str, Any] = {"mlp_norm": "post_attention_layernorm", "parallel": False}
GEMMA2 = _copy_entry(
    LLAMA,
    "gemma2",
    unit_offset=True,
    mlp_norm="pre_feedforward_layernorm",
    attention_write="post_attention_layernorm",
    mlp_write="post_feedforward_layernorm",
)
OLMO2 = _copy_entry(GEMMA2, "olmo2", attention_norm="", mlp_norm="", unit_offset=False)
STABLELM = _copy_entry(LLAMA, "stablelm", eager_wrong=(("is_causal", False),))
DEEPSEEK = _copy_entry(
    LLAMA, "deepseek_v2", value="self_attn.kv_b_proj", layout="latent", n_kv_heads="all"
)
HEADS = (
    *(
        "cls",
        "lm_head",
        "lm_projection",
        "vocab_transform",
        "vocab_layer_norm",
        "vocab_projector",
        "predictions",
    ),
    *(
        "discriminator_predictions",
        "generator_predictions",
        "generator_lm_head",
        "classifier",
        "cls_classifier",
    ),
    *(
        "distillation_classifier",
        "pooler",
        "pre_classifier",
        "contact_head",
        "mask_token",
        "head",
        "decoder",
    ),
    *(
        "visual_projection",
        "text_projection",
        "logit_scale",
        "logit_bias",
        "qa_outputs",
        "classification_head",
    ),
    "position_ids",
)
BERT = _copy_entry(
    LLAMA,
    "bert",
    **_name_trunk("bert", "encoder.layer", "", "embeddings.word_embeddings"),
    **_name_reads("attention.self", "", "attention.output.LayerNorm"),
    **_name_matrices("attention.self.value", "attention.output.dense"),
    attention_out="attention.output.dense",
    mlp="intermediate",
    mlp_out="output.dense",
    norm_after=("attention.output.LayerNorm", "output.LayerNorm"),
    loader="AutoModel",
    causal=False,
    packs=False,
    outside=HEADS,
)
"""Post-norm encoder: each sub-block's output is added to the stream, and the sum is normed."""
BEHIND_PADDING = ("roberta", "xlm-roberta", "camembert", "data2vec-text", "luke")
"""Encoders whose position ids begin behind that of the padding token."""
ESM = _copy_entry(
    BERT,
    "esm",
    first_position="pad",
    prefix="esm",
    final_norm="encoder.emb_layer_norm_after",
    attention_norm="attention.LayerNorm",
    mlp_norm="LayerNorm",
    norm_after=(),
)
"""ESM: BERT with the norms in front of the sub-blocks."""
VIT = _copy_entry(
    LLAMA,
    "vit",
    **_name_trunk("vit", "layers", "layernorm", "embeddings.patch_embeddings.projection"),
    **_name_reads("attention", "layernorm_before", "layernorm_after"),
    **_name_matrices("attention.v_proj", "attention.o_proj"),
    moved=(
        ("layers", "encoder.layer"),
        ("attention.v_proj", "attention.attention.value"),
        ("attention.o_proj", "attention.output.dense"),
    ),
    loader="AutoModel",
    causal=False,
    reads="image",
    packs=False,
    outside=HEADS,
)
"""Pre-norm blocks over the patches of an image, a class token in front."""
SWIN = _copy_entry(
    VIT,
    "swin",
    prefix="swin",
    blocks="encoder.layers.{stage}.blocks",
    moved=(
        ("attention.v_proj", "attention.self.value"),
        ("attention.o_proj", "attention.output.dense"),
    ),
    leading=0,
    stages="depths",
)
"""Attention within windows; between stages four patches become one, and the width doubles."""
DINOV2 = _copy_entry(
    VIT,
    "dinov2",
    prefix="dinov2",
    blocks="encoder.layer",
    **_name_reads("attention", "norm1", "norm2"),
    attention_scale="layer_scale1.lambda1",
    mlp_scale="layer_scale2.lambda1",
    moved=VIT.moved[1:],
    any_size=True,
)
CLIP_VISION = _copy_entry(
    VIT,
    "clip_vision_model",
    **_name_trunk("vision_model", "encoder.layers", "", "embeddings.patch_embedding"),
    **_name_reads("self_attn", "layer_norm1", "layer_norm2"),
    **_name_matrices("self_attn.v_proj", "self_attn.out_proj"),
    moved=(),
    loader="CLIPVisionModel",
    outside=(*HEADS, "text_model"),
)
CLIP_TEXT = _copy_entry(
    CLIP_VISION,
    "clip_text_model",
    **_name_trunk("text_model", "encoder.layers", "final_layer_norm", "embeddings.token_embedding"),
    causal=True,
    reads="text",
    loader="CLIPTextModel",
    eager_wrong=(("is_causal", False),),
    outside=(*HEADS, "vision_model"),
)
T5 = _copy_entry(
    LLAMA,
    "t5",
    **_name_trunk("encoder", "block", "final_layer_norm", "embed_tokens"),
    **_name_reads("layer.0.SelfAttention", "layer.0.layer_norm", "layer.1.layer_norm"),
    **_name_matrices("layer.0.SelfAttention.v", "layer.0.SelfAttention.o"),
    mlp="layer.1.DenseReluDense",
    moved=(("encoder.embed_tokens", "shared"),),
    **{"loader": "T5EncoderModel", "part": "encoder", "stack": "encoder"},
    causal=False,
    packs=False,
    outside=HEADS,
)
"""The encoder of an encoder–decoder; its decoder has cross-attention, which has no estimand
here."""
MBART = _copy_entry(
    T5,
    "mbart",
    **_name_trunk("model.encoder", "layers", "layer_norm", "embed_tokens"),
    **_name_reads("self_attn", "self_attn_layer_norm", "final_layer_norm"),
    **_name_matrices("self_attn.v_proj", "self_attn.out_proj"),
    mlp="fc1",
    mlp_out="fc2",
    moved=(("model.encoder.embed_tokens", "shared"), ("model.encoder", "encoder")),
    outside=(*HEADS, "final_logits_bias"),
    loader="MBartModel",
)
BART = _copy_entry(
    MBART,
    "bart",
    **{
        "final_norm": "",
        "attention_norm": "",
        "mlp_norm": "self_attn_layer_norm",
        "loader": "BartModel",
    },
    norm_after=("self_attn_layer_norm", "final_layer_norm"),
)
"""BART: mBART with its norms behind the sums."""
MAMBA = _copy_entry(
    LLAMA,
    "mamba",
    **_name_trunk("backbone", "layers", "norm_f", "embeddings"),
    **_name_reads("", "norm", ""),
    **{"value": "", "output": "", "mlp": ""},
    mixers=("mixer",),
    packs=False,
)
"""Norm and state space, added to the stream: there is neither attention nor a feed-forward
layer."""
JAMBA = _copy_entry(
    LLAMA,
    "jamba",
    **{"final_norm": "final_layernorm", "mlp": "feed_forward", "mlp_norm": "pre_ff_layernorm"},
    mixers=("mamba",),
    packs=False,
)
"""A state space in the place of attention in most blocks."""
LFM2 = _copy_entry(
    JAMBA,
    "lfm2",
    **{"final_norm": "embedding_norm", "attention_norm": "operator_norm", "mlp_norm": "ffn_norm"},
    output="self_attn.out_proj",
    mixers=("conv",),
)
QWEN3_NEXT = _copy_entry(
    LLAMA,
    "qwen3_next",
    **{"attention": "", "value": "", "output": ""},
    mixers=("linear_attn", "self_attn"),
    packs=False,
    unit_offset=True,
)
"""Linear attention in most blocks, in the others attention whose heads are gated: neither has W_V
and W_O."""
_PARALLEL: dict[str, Any] = {"mlp_norm": "input_layernorm", "parallel": True}

LIKE_LLAMA = (
    "arcee cwm dots1 ernie4_5 ernie4_5_moe exaone_moe glm glm4_moe helium hunyuan_v1_dense "
    "hunyuan_v1_moe hy_v3 internlm3 iquestcoder jais2 mellum minimax_m2 ministral ministral3 "
    "nanochat olmoe phimoe seed_oss solar_open"
)
ENCODERS_LIKE_BERT = {
    **{
        name: name
        for name in (
            "roberta",
            "electra",
            "ernie",
            "roc_bert",
            "layoutlm",
            "rembert",
            "roformer",
            "luke",
        )
    },
    **{
        "splinter": "splinter",
        "xlm-roberta": "roberta",
        "camembert": "roberta",
        "data2vec-text": "data2vec_text",
        "bert-generation": "bert",
    },
}
"""Model type → the name of its base model in the model with a head."""

ARCHITECTURES: tuple[Architecture, ...] = (
    _copy_entry(
        GPT2,
        "openai-gpt",
        **{"final_norm": "", "embedding": "tokens_embed", "attention_norm": "", "mlp_norm": "ln_1"},
        norm_after=("ln_1", "ln_2"),
        packs=False,
    ),
    GPT2,
    _copy_entry(
        GPTJ,
        "gpt_neo",
        value="attn.attention.v_proj",
        output="attn.attention.out_proj",
        mlp_norm="ln_2",
        parallel=False,
    ),
    GPTJ,
    _make_variant(
        GPT_NEOX, "gpt_neox_sequential", {"use_parallel_residual": False}, parallel=False
    ),
    GPT_NEOX,
    _make_variant(
        BIGCODE,
        "gpt_bigcode_multi_head",
        {"multi_query": False},
        n_kv_heads="all",
        layout="grouped",
    ),
    BIGCODE,
    _copy_entry(GPTJ, "codegen", value="attn.qkv_proj", layout="partitioned"),
    _make_variant(
        OPT,
        "opt_post_norm",
        {"do_layer_norm_before": False},
        **{"final_norm": "", "attention_norm": "", "mlp_norm": "self_attn_layer_norm"},
        norm_after=("self_attn_layer_norm", "final_layer_norm"),
    ),
    OPT,
    BLOOM,
    _make_variant(
        FALCON, "falcon_new_one_norm", {**_NEW, "num_ln_in_parallel_attn": 1}, n_kv_heads="config"
    ),
    _make_variant(
        FALCON, "falcon_new", _NEW, n_kv_heads="config", attention_norm="ln_attn", mlp_norm="ln_mlp"
    ),
    _make_variant(
        FALCON,
        "falcon_multi_head_sequential",
        {"multi_query": False, "parallel_attn": False},
        n_kv_heads="all",
        **_SEQUENTIAL,
    ),
    _make_variant(FALCON, "falcon_multi_head", {"multi_query": False}, n_kv_heads="all"),
    _make_variant(FALCON, "falcon_sequential", {"parallel_attn": False}, **_SEQUENTIAL),
    FALCON,
    _copy_entry(
        GPT2,
        "mpt",
        **_name_trunk("transformer", "blocks", "norm_f", "wte"),
        **_name_reads("attn", "norm_1", "norm_2"),
        **_name_matrices("attn.Wqkv", "attn.out_proj", "stacked"),
        transposed=False,
        mlp="ffn",
        mlp_out="ffn.down_proj",
        packs=False,
    ),
    XGLM,
    _copy_entry(XGLM, "biogpt", prefix="biogpt", unembedding=("output_projection",)),
    _copy_entry(
        LLAMA,
        "persimmon",
        final_norm="final_layernorm",
        **_name_matrices("self_attn.query_key_value", "self_attn.dense", "grouped"),
    ),
    LLAMA,
    *(
        _copy_entry(LLAMA, name)
        for name in ("mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe")
    ),
    *(_copy_entry(LLAMA, name) for name in ("olmo", "starcoder2", "smollm3")),
    _copy_entry(
        LLAMA, "gemma", eager_wrong=(("use_bidirectional_attention", True),), unit_offset=True
    ),
    GEMMA2,
    _copy_entry(GEMMA2, "gemma3_text"),
    _copy_entry(LLAMA, "vaultgemma", mlp_norm="pre_feedforward_layernorm", unit_offset=True),
    _copy_entry(
        GEMMA2,
        "gemma3",
        **_name_trunk(
            "model", "language_model.layers", "language_model.norm", "language_model.embed_tokens"
        ),
        unembedding=("lm_head", "language_model.lm_head"),
        moved=(("model.language_model", "language_model.model"),),
        outside=("vision_tower", "multi_modal_projector"),
    ),
    _copy_entry(LLAMA, "phi", final_norm="final_layernorm", output="self_attn.dense", **_PARALLEL),
    *(_copy_entry(LLAMA, name) for name in LIKE_LLAMA.split()),
    _copy_entry(LLAMA, "aria_text", experts_transposed=True),
    _copy_entry(LLAMA, "minimax_m3_vl_text", unit_offset=True),
    *(_copy_entry(LLAMA, name, **_PARALLEL) for name in ("cohere2", "cohere2_moe")),
    *(_copy_entry(OLMO2, name) for name in ("olmo3", "flex_olmo", "exaone4")),
    _copy_entry(LLAMA, "phi3", value="self_attn.qkv_proj", layout="stacked"),
    _make_variant(STABLELM, "stablelm_parallel", {"use_parallel_residual": True}, **_PARALLEL),
    STABLELM,
    OLMO2,
    _copy_entry(LLAMA, "cohere", **_PARALLEL),
    _copy_entry(LLAMA, "granite", residual_multiplier="residual_multiplier"),
    *(
        _copy_entry(
            LLAMA, name, attention_write="post_self_attn_layernorm", mlp_write="post_mlp_layernorm"
        )
        for name in ("glm4", "kolibri1")
    ),
    *(
        _copy_entry(
            LLAMA, name, attention_norm="attention_layernorm", mlp_norm="feedforward_layernorm"
        )
        for name in ("apertus", "apertus1p5_text")
    ),
    DEEPSEEK,
    *(_copy_entry(DEEPSEEK, name) for name in ("deepseek_v3", "sarvam_mla")),
    _copy_entry(LLAMA, "gpt_oss", sinks=True, packs=False, experts_transposed=True),
    _copy_entry(LLAMA, "flint", sinks=True, packs=False),
    T5,
    _copy_entry(T5, "mt5", loader="MT5EncoderModel"),
    _copy_entry(T5, "umt5", loader="UMT5EncoderModel"),
    MBART,
    _copy_entry(MBART, "pegasus", loader="PegasusModel"),
    _copy_entry(MBART, "blenderbot", loader="BlenderbotModel"),
    _copy_entry(MBART, "m2m_100", loader="M2M100Model"),
    BART,
    _copy_entry(BART, "plbart", loader="PLBartModel"),
    _copy_entry(BART, "mvp", loader="MvpModel"),
    _copy_entry(BART, "marian", loader="MarianModel"),
    _copy_entry(BART, "blenderbot-small", loader="BlenderbotSmallModel"),
    MAMBA,
    _copy_entry(MAMBA, "mamba2"),
    _copy_entry(MAMBA, "falcon_mamba"),
    JAMBA,
    _copy_entry(JAMBA, "bamba"),
    _make_variant(
        _copy_entry(
            JAMBA, "granitemoehybrid", final_norm="norm", mlp_norm="post_attention_layernorm"
        ),
        "granitemoehybrid_dense",
        {"num_local_experts": 0},
        mlp="shared_mlp",
        residual_multiplier="residual_multiplier",
    ),
    LFM2,
    _copy_entry(LFM2, "lfm2_moe"),
    _copy_entry(
        JAMBA,
        "recurrent_gemma",
        final_norm="final_norm",
        **_name_reads("temporal_block", "temporal_pre_norm", "channel_pre_norm"),
        **{"value": "temporal_block.v_proj", "output": "temporal_block.o_proj", "mlp": "mlp_block"},
        mixers=("temporal_block",),
        unit_offset=True,
    ),
    QWEN3_NEXT,
    *(_copy_entry(QWEN3_NEXT, name) for name in ("qwen3_5_text", "qwen3_5_moe_text")),
    BERT,
    *(
        _copy_entry(
            BERT, name, prefix=prefix, first_position="pad" if name in BEHIND_PADDING else 0
        )
        for name, prefix in ENCODERS_LIKE_BERT.items()
    ),
    _copy_entry(BERT, "tapas", prefix="tapas"),
    _copy_entry(
        BERT,
        "deberta",
        **_name_matrices("attention.self.in_proj", "attention.output.dense", "grouped"),
        value_bias="attention.self.v_bias",
    ),
    _copy_entry(
        BERT,
        "deberta-v2",
        prefix="deberta",
        **_name_matrices("attention.self.value_proj", "attention.output.dense"),
    ),
    _copy_entry(
        BERT,
        "mpnet",
        prefix="mpnet",
        first_position=2,
        **_name_reads("attention.attn", "", "attention.LayerNorm"),
        **_name_matrices("attention.attn.v", "attention.attn.o"),
        attention_out="",
        norm_after=("attention.LayerNorm", "output.LayerNorm"),
    ),
    _copy_entry(
        BERT,
        "distilbert",
        **_name_trunk("distilbert", "transformer.layer", "", "embeddings.word_embeddings"),
        **_name_reads("attention", "", "sa_layer_norm"),
        **_name_matrices("attention.v_lin", "attention.out_lin"),
        attention_out="",
        mlp="ffn",
        mlp_out="",
        norm_after=("sa_layer_norm", "output_layer_norm"),
    ),
    _make_variant(
        replace(BERT, model_type="albert", prefix="albert"),
        "albert",
        {"num_hidden_groups": 1, "inner_group_num": 1},
        blocks="encoder.albert_layer_groups.0.albert_layers",
        **_name_reads("attention", "", "attention.LayerNorm"),
        **_name_matrices("attention.value", "attention.dense"),
        attention_out="attention.dense",
        mlp="ffn",
        mlp_out="ffn_output",
        norm_after=("attention.LayerNorm", "full_layer_layer_norm"),
        shared=True,
    ),
    ESM,
    _copy_entry(
        ESM,
        "roberta-prelayernorm",
        prefix="roberta_prelayernorm",
        final_norm="LayerNorm",
        mlp="intermediate.dense",
        mlp_norm="intermediate.LayerNorm",
    ),
    _copy_entry(
        ESM,
        "megatron-bert",
        first_position=0,
        prefix="bert",
        final_norm="encoder.ln",
        attention_norm="attention.ln",
        mlp_norm="ln",
    ),
    _copy_entry(
        BERT,
        "modernbert",
        **_name_trunk("model", "layers", "final_norm", "embeddings.tok_embeddings"),
        **_name_reads("attn", "attn_norm", "mlp_norm"),
        **_name_matrices("attn.Wqkv", "attn.Wo", "stacked"),
        attention_out="",
        mlp="mlp",
        mlp_out="",
        norm_after=(),
    ),
    *(
        _copy_entry(LLAMA, name, loader="AutoModel", causal=False, packs=False, outside=HEADS)
        for name in ("ultrabert", "eurobert")
    ),
    CLIP_TEXT,
    _copy_entry(CLIP_TEXT, "metaclip_2_text_model", loader="MetaClip2TextModel"),
    _copy_entry(CLIP_TEXT, "siglip_text_model", loader="SiglipTextModel", causal=False),
    VIT,
    _copy_entry(VIT, "vit_msn"),
    _copy_entry(VIT, "ijepa", prefix="ijepa", leading=0),
    _copy_entry(VIT, "deit", prefix="deit", leading=2),
    _copy_entry(VIT, "pixio", prefix="pixio", leading=0, registers="n_cls_tokens"),
    _copy_entry(
        VIT,
        "beit",
        prefix="beit",
        attention_scale="lambda_1",
        mlp_scale="lambda_2",
        bare_end=(("use_mean_pooling", True),),
    ),
    DINOV2,
    _copy_entry(
        DINOV2,
        "dinov2_with_registers",
        prefix="dinov2_with_registers",
        registers="num_register_tokens",
    ),
    _copy_entry(
        DINOV2,
        "dinov3_vit",
        prefix="model",
        blocks="model.layer",
        final_norm="norm",
        embedding="embeddings.patch_embeddings",
        moved=(("model.layer", "layer"),),
        registers="num_register_tokens",
    ),
    CLIP_VISION,
    _copy_entry(CLIP_VISION, "mlcd_vision_model"),
    _copy_entry(CLIP_VISION, "metaclip_2_vision_model", loader="MetaClip2VisionModel"),
    _copy_entry(
        CLIP_VISION,
        "siglip_vision_model",
        final_norm="post_layernorm",
        leading=0,
        loader="SiglipVisionModel",
    ),
    SWIN,
)
STACKS = {
    name: {"text": f"{name}_text_model", "image": f"{name}_vision_model"}
    for name in ("clip", "metaclip_2", "siglip")
}
"""Model type of several stacks → what each reads and its own model type; each is measured as a
model of its own."""

_WITH_TEXT_TOWER = {
    "language_model": "aria aya_vision cohere2_vision deepseek_vl deepseek_vl_hybrid exaone4_5 "
    "fuyu "
    "glm46v glm4v glm_ocr glmasr glmga got_ocr2 internvl janus lfm2_vl lighton_ocr llava "
    "llava_next llava_next_video "
    "llava_onevision minicpm_ocr minicpmv4_6 minicpmv4_7 minimax_m3_vl mistral3 "
    "moss_transcribe_diarize "
    "omniasr ovis2 paddleocr_vl paligemma pp_chart2table qwen2_5_vl qwen2_audio qwen2_vl qwen3_5 "
    "qwen3_5_moe qwen3_asr "
    "qwen3_vl qwen3_vl_moe video_llama_3 video_llava vipllava voxtral",
    "text_model": "granite_docling idefics2 idefics3 smolvlm",
}
TEXT_TOWERS = {name: place for place, names in _WITH_TEXT_TOWER.items() for name in names.split()}
"""Model types that read images or sound too → where their text tower is below the base model."""
LIKE_TOWERS = {
    **{
        "qwen2_vl_text": "qwen2",
        "qwen2_5_vl_text": "qwen2",
        "qwen3_vl_text": "qwen3",
        "qwen3_vl_moe_text": "qwen3_moe",
    },
    **{
        "glm4v_text": "glm4",
        "glm_ocr_text": "glm4",
        "paddleocr_vl_text": "ernie4_5",
        "granite_docling_text": "granite",
    },
}
"""Model types that are text towers alone → the model type whose entry describes their modules."""

"""What the package knows of a model class: one small frozen entry each, looked up by the configuration's model type.

Plain Python: reading weights from disk needs no torch. A class is added by an entry of `ARCHITECTURES`, or a word in
`LIKE_LLAMA`; every one is held to `tests/measurement/test_conformance.py`, which asks the model itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from thermostats.errors import DataError, UsageError
from thermostats.measurement.refused import UNSUPPORTED

Config = Mapping[str, Any]
"""A model's configuration as in its config.json."""


HEADLESS = "files_without_head"
"""Key that `spectra.read_config` adds to a configuration: its class is one without a head of next tokens, as embedding
and reward models are, and its files hold none."""
OTHER_HEADS = ("score", "classifier", "qa_outputs", "v_head", "value_head", "reward_head", "regression_head", "summary")
"""Modules of such classes that are no part of the decoder."""


class UnknownArchitectureError(UsageError):
    """No entry describes this model class."""


class UnsupportedArchitectureError(UsageError):
    """The model class is known, and known not to be what the estimands describe."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Where things are in one Hugging Face model class, and how its weights are laid out.

    Paths of blocks, final norm and embedding are relative to the base model, all others to a block; an empty path means
    that there is no such module. Layouts of the matrix that holds the values (rows are outputs; see `layouts`):

    - ``separate``: a matrix of its own, K·d_h rows;
    - ``stacked``: queries, keys, values one below the other, H·d_h + K·d_h + K·d_h rows;
    - ``grouped``: for each key/value head its H/K queries, its key, its value; with K = H this is q, k, v per head;
    - ``partitioned``: four partitions, in each queries, values, keys of a fourth of the heads (CodeGen);
    - ``latent``: for each head its key and its value part of the up-projection from the normed latent (DeepSeek).
    """

    name: str
    model_type: str
    when: tuple[tuple[str, object], ...] = ()
    """Configuration values that choose this variant of the model type; the variant without any is the rest."""

    prefix: str = "model"
    """Name of the base model in the model with a head, and before tensor names (which may also come without)."""
    blocks: str = "layers"
    final_norm: str = "norm"
    embedding: str = "embed_tokens"
    unembedding: tuple[str, ...] = ("lm_head",)
    """Name of the head in the model, then older names of it in checkpoints."""

    attention: str = "self_attn"
    attention_norm: str = "input_layernorm"
    value: str = "self_attn.v_proj"
    output: str = "self_attn.o_proj"
    layout: str = "separate"
    transposed: bool = False
    """Stored (inputs × outputs), as GPT-2's Conv1D does."""
    n_kv_heads: str = "config"
    """``config``: as the configuration says; ``one``: multi-query; ``all``: as many as query heads."""

    mixers: tuple[str, ...] = ()
    """What stands in attention's place in some blocks, or in all where `attention` is empty: state spaces, linear and
    gated attention, convolutions. It is measured as a sub-block; it has no W_V or W_O, and no attention weights."""

    mlp: str = "mlp"
    """Empty where a block has no feed-forward layer."""
    mlp_norm: str = "post_attention_layernorm"

    attention_out: str = ""
    """Module whose output is attention's own, where the attention module adds the residual; else empty."""
    mlp_out: str = ""
    """Module whose output is the feed-forward layer's own, where `mlp` is not one module or adds the residual."""
    attention_write: str = ""
    """Module whose output is added to the stream, where attention's output is normed first."""
    mlp_write: str = ""
    """The same for the feed-forward layer."""
    behind_norm: str = ""
    """Module between the final norm and the last hidden state, where the model has it; relative to the base model."""
    residual_multiplier: str = ""
    """Configuration key of a factor on both writes."""

    parallel: bool = False
    """Attention and feed-forward layer read the same stream: there is no stream between them."""
    norm_after: tuple[str, ...] = ()
    """Post-norm blocks: the norms of the sums x + f(x) behind attention and feed-forward layer. They pin the gain near
    1; in other blocks x_l − x_(l−1) is the sum of the two writes."""
    eager_wrong: tuple[tuple[str, object], ...] = ()
    """Configuration values under which transformers' eager attention computes something else than its default one."""
    sinks: bool = False
    """Attention rows do not sum to 1."""
    moved: tuple[tuple[str, str], ...] = ()
    """Parts of a tensor's name, and what other checkpoints have in their place."""
    outside: tuple[str, ...] = ()
    """Modules of the class that are no part of the stack: heads, poolers, other towers."""
    towers: tuple[str, ...] = ()
    """How names of the stack's tensors begin where files hold other stacks too; the first that is there counts."""
    packs: bool = True
    """Prompts may stand one after the other in one row: position ids that begin anew keep their attention apart."""
    alone: bool = False
    """Each input is measured by itself: masks do not keep the inputs of a batch apart."""

    unit_offset: bool = False
    """Norms multiply by 1 + weight."""
    value_bias: str = ""
    """Parameter below the block that is the values' bias, where it is none of the module `value`."""
    experts_transposed: bool = False
    """Matrices of all experts in one tensor are stored (experts × inputs × outputs)."""
    bare_end: tuple[tuple[str, object], ...] = ()
    """Configuration values under which the class leaves its final norm out."""

    loader: str = "AutoModelForCausalLM"
    """transformers' class that is loaded; any other has no head that gives a next token's distribution."""
    part: str = ""
    """Module of the loaded model that is the stack, where there are others that it needs not."""
    stack: str = ""
    """What stands behind a model's name, where the entry is of one of its stacks."""
    first_position: int | str = 0
    """Where position ids begin: a number, or ``pad``: behind that of the padding token. So many fewer tokens fit."""
    causal: bool = True
    """Tokens attend to themselves and to those before them alone."""
    reads: str = "text"
    """``text`` or ``image``."""
    leading: int = 1
    """Tokens of an image in front of its patches, registers aside: a class token, a distillation token; or none."""
    registers: str = ""
    """Configuration key of how many register tokens stand behind those."""
    attention_scale: str = ""
    """Parameter below the block that attention's output is multiplied by to be what it writes."""
    mlp_scale: str = ""
    """The same for the feed-forward layer."""
    headless: bool = False
    """The files hold a decoder without the head that its class would have; see `HEADLESS`."""
    shared: bool = False
    """One block is run L times (ALBERT): its weights are there once, its gains L times."""
    any_size: bool = False
    """Images of any size whose sides are whole multiples of the patch; else of the configuration's size alone."""
    stages: str = ""
    """Configuration key of how many blocks each stage has, where patches are merged and widths change between stages;
    ``{stage}`` stands in `blocks`."""
    depths: tuple[int, ...] = ()
    """What stands there in a model's configuration; see `lookup`."""

    @property
    def attends(self) -> bool:
        """Every block has attention whose rows sum over all tokens, with W_V and W_O."""
        return not self.mixers

    @property
    def additive(self) -> bool:
        """x_l − x_(l−1) is the sum of the two writes."""
        return not self.norm_after

    def stage(self, layer: int) -> tuple[int, int]:
        """Stage of a block (from 0), and its place in it."""
        before = [sum(self.depths[:s]) for s in range(len(self.depths))] or [0]
        stage = max(s for s, first in enumerate(before) if first <= layer)
        return stage, layer - before[stage]

    @property
    def set_values(self) -> dict[str, bool]:
        """Configuration values that loading sets: a whole model's may say that it decodes, its encoder never does."""
        return {"is_decoder": False} if self.stack else {}

    @property
    def has_head(self) -> bool:
        """There is a next-token distribution, and an unembedding it comes from."""
        return self.loader in ("AutoModelForCausalLM", "AutoModelForMultimodalLM")

    def of_the_stack(self, names: Iterable[str]) -> set[str]:
        """Of the names of a model's tensors those of this stack and its head."""
        inside = {name for name in names if set(name.split(".")).isdisjoint(self.outside)}
        start = next((start for start in self.towers if any(name.startswith(start) for name in inside)), "")
        return {name for name in inside if name.startswith(start) or name.rpartition(".")[0] in self.unembedding}

    def tensor_names(self, module: str, layer: int | None = None, *, kind: str = "weight") -> tuple[str, ...]:
        """Names a module's tensor may have in a checkpoint, the usual one first; `layer` from 0, None: no block."""
        if module in self.unembedding:
            return tuple(f"{name}.{kind}" for name in self.unembedding)
        stage, place = self.stage(layer or 0)
        block = "" if layer is None else f"{self.blocks.format(stage=stage)}.{place}."
        inner = f"{block}{module}.{kind}"
        full = f"{self.prefix}.{inner}"
        other = reduce(lambda name, pair: name.replace(*pair), self.moved, full)
        return tuple(dict.fromkeys((full, inner, other, other.removeprefix(f"{self.prefix}."))))


def _of(entry: Architecture, model_type: str, **changes: Any) -> Architecture:
    """Another model type, which differs from an entry in these fields."""
    return replace(entry, name=model_type, model_type=model_type, **changes)


def _if(entry: Architecture, name: str, conditions: dict[str, object], **changes: Any) -> Architecture:
    """A variant of an entry's model type, chosen by configuration values."""
    return replace(entry, name=name, when=tuple(conditions.items()), **changes)


def _trunk(prefix: str, blocks: str, final_norm: str, embedding: str) -> dict[str, str]:
    return {"prefix": prefix, "blocks": blocks, "final_norm": final_norm, "embedding": embedding}


def _reads(attention: str, attention_norm: str, mlp_norm: str) -> dict[str, str]:
    return {"attention": attention, "attention_norm": attention_norm, "mlp_norm": mlp_norm}


def _matrices(value: str, output: str, layout: str = "separate") -> dict[str, str]:
    return {"value": value, "output": output, "layout": layout, "n_kv_heads": "all"}


LLAMA = Architecture(name="llama", model_type="llama")
"""Norm, attention, norm, gated feed-forward layer, each added to the stream; most later models share its names."""

GPT2 = _of(
    LLAMA,
    "gpt2",
    **_trunk("transformer", "h", "ln_f", "wte"),
    **_reads("attn", "ln_1", "ln_2"),
    **_matrices("attn.c_attn", "attn.c_proj", "stacked"),
    transposed=True,
)
GPTJ = _of(GPT2, "gptj", **_matrices("attn.v_proj", "attn.out_proj"), transposed=False, mlp_norm="ln_1", parallel=True)
BIGCODE = _of(GPT2, "gpt_bigcode", transposed=False, n_kv_heads="one")
GPT_NEOX = _of(
    LLAMA,
    "gpt_neox",
    **_trunk("gpt_neox", "layers", "final_layer_norm", "embed_in"),
    **_matrices("attention.query_key_value", "attention.dense", "grouped"),
    unembedding=("lm_head", "embed_out"),
    attention="attention",
    parallel=True,
)
OPT = _of(
    LLAMA,
    "opt",
    **_trunk("model", "decoder.layers", "decoder.final_layer_norm", "decoder.embed_tokens"),
    **_reads("self_attn", "self_attn_layer_norm", "final_layer_norm"),
    **_matrices("self_attn.v_proj", "self_attn.out_proj"),
    mlp="fc1",
    mlp_out="fc2",
    behind_norm="decoder.project_out",
    packs=False,
)
XGLM = _of(OPT, "xglm", behind_norm="", **_trunk("model", "layers", "layer_norm", "embed_tokens"))
BLOOM = _of(
    LLAMA,
    "bloom",
    **_trunk("transformer", "h", "ln_f", "word_embeddings"),
    **_matrices("self_attention.query_key_value", "self_attention.dense", "grouped"),
    attention="self_attention",
    attention_out="self_attention.dense",
    mlp_out="mlp.dense_4h_to_h",
    packs=False,
)
FALCON = _of(
    BLOOM,
    "falcon",
    **{"attention_out": "", "mlp_out": "", "n_kv_heads": "one", "mlp_norm": "input_layernorm"},
    parallel=True,
    eager_wrong=(("alibi", True),),
)
_NEW: dict[str, object] = {"new_decoder_architecture": True}
_SEQUENTIAL: dict[str, Any] = {"mlp_norm": "post_attention_layernorm", "parallel": False}
GEMMA2 = _of(
    LLAMA,
    "gemma2",
    unit_offset=True,
    mlp_norm="pre_feedforward_layernorm",
    attention_write="post_attention_layernorm",
    mlp_write="post_feedforward_layernorm",
)
OLMO2 = _of(GEMMA2, "olmo2", attention_norm="", mlp_norm="", unit_offset=False)
STABLELM = _of(LLAMA, "stablelm", eager_wrong=(("is_causal", False),))
DEEPSEEK = _of(LLAMA, "deepseek_v2", value="self_attn.kv_b_proj", layout="latent", n_kv_heads="all")
HEADS = (
    *("cls", "lm_head", "lm_projection", "vocab_transform", "vocab_layer_norm", "vocab_projector", "predictions"),
    *("discriminator_predictions", "generator_predictions", "generator_lm_head", "classifier", "cls_classifier"),
    *("distillation_classifier", "pooler", "pre_classifier", "contact_head", "mask_token", "head", "decoder"),
    *("visual_projection", "text_projection", "logit_scale", "logit_bias", "qa_outputs", "classification_head"),
    "position_ids",
)
BERT = _of(
    LLAMA,
    "bert",
    **_trunk("bert", "encoder.layer", "", "embeddings.word_embeddings"),
    **_reads("attention.self", "", "attention.output.LayerNorm"),
    **_matrices("attention.self.value", "attention.output.dense"),
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
ESM = _of(
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
VIT = _of(
    LLAMA,
    "vit",
    **_trunk("vit", "layers", "layernorm", "embeddings.patch_embeddings.projection"),
    **_reads("attention", "layernorm_before", "layernorm_after"),
    **_matrices("attention.v_proj", "attention.o_proj"),
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
SWIN = _of(
    VIT,
    "swin",
    prefix="swin",
    blocks="encoder.layers.{stage}.blocks",
    moved=(("attention.v_proj", "attention.self.value"), ("attention.o_proj", "attention.output.dense")),
    leading=0,
    stages="depths",
)
"""Attention within windows; between stages four patches become one, and the width doubles."""
DINOV2 = _of(
    VIT,
    "dinov2",
    prefix="dinov2",
    blocks="encoder.layer",
    **_reads("attention", "norm1", "norm2"),
    attention_scale="layer_scale1.lambda1",
    mlp_scale="layer_scale2.lambda1",
    moved=VIT.moved[1:],
    any_size=True,
)
CLIP_VISION = _of(
    VIT,
    "clip_vision_model",
    **_trunk("vision_model", "encoder.layers", "", "embeddings.patch_embedding"),
    **_reads("self_attn", "layer_norm1", "layer_norm2"),
    **_matrices("self_attn.v_proj", "self_attn.out_proj"),
    moved=(),
    loader="CLIPVisionModel",
    outside=(*HEADS, "text_model"),
)
CLIP_TEXT = _of(
    CLIP_VISION,
    "clip_text_model",
    **_trunk("text_model", "encoder.layers", "final_layer_norm", "embeddings.token_embedding"),
    causal=True,
    reads="text",
    loader="CLIPTextModel",
    eager_wrong=(("is_causal", False),),
    outside=(*HEADS, "vision_model"),
)
T5 = _of(
    LLAMA,
    "t5",
    **_trunk("encoder", "block", "final_layer_norm", "embed_tokens"),
    **_reads("layer.0.SelfAttention", "layer.0.layer_norm", "layer.1.layer_norm"),
    **_matrices("layer.0.SelfAttention.v", "layer.0.SelfAttention.o"),
    mlp="layer.1.DenseReluDense",
    moved=(("encoder.embed_tokens", "shared"),),
    **{"loader": "T5EncoderModel", "part": "encoder", "stack": "encoder"},
    causal=False,
    packs=False,
    outside=HEADS,
)
"""The encoder of an encoder–decoder; its decoder has cross-attention, which has no estimand here."""
MBART = _of(
    T5,
    "mbart",
    **_trunk("model.encoder", "layers", "layer_norm", "embed_tokens"),
    **_reads("self_attn", "self_attn_layer_norm", "final_layer_norm"),
    **_matrices("self_attn.v_proj", "self_attn.out_proj"),
    mlp="fc1",
    mlp_out="fc2",
    moved=(("model.encoder.embed_tokens", "shared"), ("model.encoder", "encoder")),
    outside=(*HEADS, "final_logits_bias"),
    loader="MBartModel",
)
BART = _of(
    MBART,
    "bart",
    **{"final_norm": "", "attention_norm": "", "mlp_norm": "self_attn_layer_norm", "loader": "BartModel"},
    norm_after=("self_attn_layer_norm", "final_layer_norm"),
)
"""BART: mBART with its norms behind the sums."""
MAMBA = _of(
    LLAMA,
    "mamba",
    **_trunk("backbone", "layers", "norm_f", "embeddings"),
    **_reads("", "norm", ""),
    **{"value": "", "output": "", "mlp": ""},
    mixers=("mixer",),
    packs=False,
)
"""Norm and state space, added to the stream: there is neither attention nor a feed-forward layer."""
JAMBA = _of(
    LLAMA,
    "jamba",
    **{"final_norm": "final_layernorm", "mlp": "feed_forward", "mlp_norm": "pre_ff_layernorm"},
    mixers=("mamba",),
    packs=False,
)
"""A state space in the place of attention in most blocks."""
LFM2 = _of(
    JAMBA,
    "lfm2",
    **{"final_norm": "embedding_norm", "attention_norm": "operator_norm", "mlp_norm": "ffn_norm"},
    output="self_attn.out_proj",
    mixers=("conv",),
)
QWEN3_NEXT = _of(
    LLAMA,
    "qwen3_next",
    **{"attention": "", "value": "", "output": ""},
    mixers=("linear_attn", "self_attn"),
    packs=False,
    unit_offset=True,
)
"""Linear attention in most blocks, in the others attention whose heads are gated: neither has W_V and W_O."""
_PARALLEL: dict[str, Any] = {"mlp_norm": "input_layernorm", "parallel": True}

LIKE_LLAMA = (
    "arcee cwm dots1 ernie4_5 ernie4_5_moe exaone_moe glm glm4_moe helium hunyuan_v1_dense "
    "hunyuan_v1_moe hy_v3 internlm3 iquestcoder jais2 mellum minimax_m2 ministral ministral3 "
    "nanochat olmoe phimoe seed_oss solar_open"
)
ENCODERS_LIKE_BERT = {
    **{name: name for name in ("roberta", "electra", "ernie", "roc_bert", "layoutlm", "rembert", "roformer", "luke")},
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
    _of(
        GPT2,
        "openai-gpt",
        **{"final_norm": "", "embedding": "tokens_embed", "attention_norm": "", "mlp_norm": "ln_1"},
        norm_after=("ln_1", "ln_2"),
        packs=False,
    ),
    GPT2,
    _of(
        GPTJ,
        "gpt_neo",
        value="attn.attention.v_proj",
        output="attn.attention.out_proj",
        mlp_norm="ln_2",
        parallel=False,
    ),
    GPTJ,
    _if(GPT_NEOX, "gpt_neox_sequential", {"use_parallel_residual": False}, parallel=False),
    GPT_NEOX,
    _if(BIGCODE, "gpt_bigcode_multi_head", {"multi_query": False}, n_kv_heads="all", layout="grouped"),
    BIGCODE,
    _of(GPTJ, "codegen", value="attn.qkv_proj", layout="partitioned"),
    _if(
        OPT,
        "opt_post_norm",
        {"do_layer_norm_before": False},
        **{"final_norm": "", "attention_norm": "", "mlp_norm": "self_attn_layer_norm"},
        norm_after=("self_attn_layer_norm", "final_layer_norm"),
    ),
    OPT,
    BLOOM,
    _if(FALCON, "falcon_new_one_norm", {**_NEW, "num_ln_in_parallel_attn": 1}, n_kv_heads="config"),
    _if(FALCON, "falcon_new", _NEW, n_kv_heads="config", attention_norm="ln_attn", mlp_norm="ln_mlp"),
    _if(
        FALCON,
        "falcon_multi_head_sequential",
        {"multi_query": False, "parallel_attn": False},
        n_kv_heads="all",
        **_SEQUENTIAL,
    ),
    _if(FALCON, "falcon_multi_head", {"multi_query": False}, n_kv_heads="all"),
    _if(FALCON, "falcon_sequential", {"parallel_attn": False}, **_SEQUENTIAL),
    FALCON,
    _of(
        GPT2,
        "mpt",
        **_trunk("transformer", "blocks", "norm_f", "wte"),
        **_reads("attn", "norm_1", "norm_2"),
        **_matrices("attn.Wqkv", "attn.out_proj", "stacked"),
        transposed=False,
        mlp="ffn",
        mlp_out="ffn.down_proj",
        packs=False,
    ),
    XGLM,
    _of(XGLM, "biogpt", prefix="biogpt", unembedding=("output_projection",)),
    _of(
        LLAMA,
        "persimmon",
        final_norm="final_layernorm",
        **_matrices("self_attn.query_key_value", "self_attn.dense", "grouped"),
    ),
    LLAMA,
    *(_of(LLAMA, name) for name in ("mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe")),
    *(_of(LLAMA, name) for name in ("olmo", "starcoder2", "smollm3")),
    _of(LLAMA, "gemma", eager_wrong=(("use_bidirectional_attention", True),), unit_offset=True),
    GEMMA2,
    _of(GEMMA2, "gemma3_text"),
    _of(LLAMA, "vaultgemma", mlp_norm="pre_feedforward_layernorm", unit_offset=True),
    _of(
        GEMMA2,
        "gemma3",
        **_trunk("model", "language_model.layers", "language_model.norm", "language_model.embed_tokens"),
        unembedding=("lm_head", "language_model.lm_head"),
        moved=(("model.language_model", "language_model.model"),),
        outside=("vision_tower", "multi_modal_projector"),
    ),
    _of(LLAMA, "phi", final_norm="final_layernorm", output="self_attn.dense", **_PARALLEL),
    *(_of(LLAMA, name) for name in LIKE_LLAMA.split()),
    _of(LLAMA, "aria_text", experts_transposed=True),
    _of(LLAMA, "minimax_m3_vl_text", unit_offset=True),
    *(_of(LLAMA, name, **_PARALLEL) for name in ("cohere2", "cohere2_moe")),
    *(_of(OLMO2, name) for name in ("olmo3", "flex_olmo", "exaone4")),
    _of(LLAMA, "phi3", value="self_attn.qkv_proj", layout="stacked"),
    _if(STABLELM, "stablelm_parallel", {"use_parallel_residual": True}, **_PARALLEL),
    STABLELM,
    OLMO2,
    _of(LLAMA, "cohere", **_PARALLEL),
    _of(LLAMA, "granite", residual_multiplier="residual_multiplier"),
    *(
        _of(LLAMA, name, attention_write="post_self_attn_layernorm", mlp_write="post_mlp_layernorm")
        for name in ("glm4", "kolibri1")
    ),
    *(
        _of(LLAMA, name, attention_norm="attention_layernorm", mlp_norm="feedforward_layernorm")
        for name in ("apertus", "apertus1p5_text")
    ),
    DEEPSEEK,
    *(_of(DEEPSEEK, name) for name in ("deepseek_v3", "sarvam_mla")),
    _of(LLAMA, "gpt_oss", sinks=True, packs=False, experts_transposed=True),
    _of(LLAMA, "flint", sinks=True, packs=False),
    T5,
    _of(T5, "mt5", loader="MT5EncoderModel"),
    _of(T5, "umt5", loader="UMT5EncoderModel"),
    MBART,
    _of(MBART, "pegasus", loader="PegasusModel"),
    _of(MBART, "blenderbot", loader="BlenderbotModel"),
    _of(MBART, "m2m_100", loader="M2M100Model"),
    BART,
    _of(BART, "plbart", loader="PLBartModel"),
    _of(BART, "mvp", loader="MvpModel"),
    _of(BART, "marian", loader="MarianModel"),
    _of(BART, "blenderbot-small", loader="BlenderbotSmallModel"),
    MAMBA,
    _of(MAMBA, "mamba2"),
    _of(MAMBA, "falcon_mamba"),
    JAMBA,
    _of(JAMBA, "bamba"),
    _if(
        _of(JAMBA, "granitemoehybrid", final_norm="norm", mlp_norm="post_attention_layernorm"),
        "granitemoehybrid_dense",
        {"num_local_experts": 0},
        mlp="shared_mlp",
        residual_multiplier="residual_multiplier",
    ),
    LFM2,
    _of(LFM2, "lfm2_moe"),
    _of(
        JAMBA,
        "recurrent_gemma",
        final_norm="final_norm",
        **_reads("temporal_block", "temporal_pre_norm", "channel_pre_norm"),
        **{"value": "temporal_block.v_proj", "output": "temporal_block.o_proj", "mlp": "mlp_block"},
        mixers=("temporal_block",),
        unit_offset=True,
    ),
    QWEN3_NEXT,
    *(_of(QWEN3_NEXT, name) for name in ("qwen3_5_text", "qwen3_5_moe_text")),
    BERT,
    *(
        _of(BERT, name, prefix=prefix, first_position="pad" if name in BEHIND_PADDING else 0)
        for name, prefix in ENCODERS_LIKE_BERT.items()
    ),
    _of(BERT, "tapas", prefix="tapas"),
    _of(
        BERT,
        "deberta",
        **_matrices("attention.self.in_proj", "attention.output.dense", "grouped"),
        value_bias="attention.self.v_bias",
    ),
    _of(BERT, "deberta-v2", prefix="deberta", **_matrices("attention.self.value_proj", "attention.output.dense")),
    _of(
        BERT,
        "mpnet",
        prefix="mpnet",
        first_position=2,
        **_reads("attention.attn", "", "attention.LayerNorm"),
        **_matrices("attention.attn.v", "attention.attn.o"),
        attention_out="",
        norm_after=("attention.LayerNorm", "output.LayerNorm"),
    ),
    _of(
        BERT,
        "distilbert",
        **_trunk("distilbert", "transformer.layer", "", "embeddings.word_embeddings"),
        **_reads("attention", "", "sa_layer_norm"),
        **_matrices("attention.v_lin", "attention.out_lin"),
        attention_out="",
        mlp="ffn",
        mlp_out="",
        norm_after=("sa_layer_norm", "output_layer_norm"),
    ),
    _if(
        replace(BERT, model_type="albert", prefix="albert"),
        "albert",
        {"num_hidden_groups": 1, "inner_group_num": 1},
        blocks="encoder.albert_layer_groups.0.albert_layers",
        **_reads("attention", "", "attention.LayerNorm"),
        **_matrices("attention.value", "attention.dense"),
        attention_out="attention.dense",
        mlp="ffn",
        mlp_out="ffn_output",
        norm_after=("attention.LayerNorm", "full_layer_layer_norm"),
        shared=True,
    ),
    ESM,
    _of(
        ESM,
        "roberta-prelayernorm",
        prefix="roberta_prelayernorm",
        final_norm="LayerNorm",
        mlp="intermediate.dense",
        mlp_norm="intermediate.LayerNorm",
    ),
    _of(
        ESM,
        "megatron-bert",
        first_position=0,
        prefix="bert",
        final_norm="encoder.ln",
        attention_norm="attention.ln",
        mlp_norm="ln",
    ),
    _of(
        BERT,
        "modernbert",
        **_trunk("model", "layers", "final_norm", "embeddings.tok_embeddings"),
        **_reads("attn", "attn_norm", "mlp_norm"),
        **_matrices("attn.Wqkv", "attn.Wo", "stacked"),
        attention_out="",
        mlp="mlp",
        mlp_out="",
        norm_after=(),
    ),
    *(
        _of(LLAMA, name, loader="AutoModel", causal=False, packs=False, outside=HEADS)
        for name in ("ultrabert", "eurobert")
    ),
    CLIP_TEXT,
    _of(CLIP_TEXT, "metaclip_2_text_model", loader="MetaClip2TextModel"),
    _of(CLIP_TEXT, "siglip_text_model", loader="SiglipTextModel", causal=False),
    VIT,
    _of(VIT, "vit_msn"),
    _of(VIT, "ijepa", prefix="ijepa", leading=0),
    _of(VIT, "deit", prefix="deit", leading=2),
    _of(VIT, "pixio", prefix="pixio", leading=0, registers="n_cls_tokens"),
    _of(
        VIT,
        "beit",
        prefix="beit",
        attention_scale="lambda_1",
        mlp_scale="lambda_2",
        bare_end=(("use_mean_pooling", True),),
    ),
    DINOV2,
    _of(DINOV2, "dinov2_with_registers", prefix="dinov2_with_registers", registers="num_register_tokens"),
    _of(
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
    _of(CLIP_VISION, "mlcd_vision_model"),
    _of(CLIP_VISION, "metaclip_2_vision_model", loader="MetaClip2VisionModel"),
    _of(CLIP_VISION, "siglip_vision_model", final_norm="post_layernorm", leading=0, loader="SiglipVisionModel"),
    SWIN,
)
STACKS = {
    name: {"text": f"{name}_text_model", "image": f"{name}_vision_model"} for name in ("clip", "metaclip_2", "siglip")
}
"""Model type of several stacks → what each reads and its own model type; each is measured as a model of its own."""

_WITH_TEXT_TOWER = {
    "language_model": "aria aya_vision cohere2_vision deepseek_vl deepseek_vl_hybrid exaone4_5 fuyu "
    "glm46v glm4v glm_ocr glmasr glmga got_ocr2 internvl janus lfm2_vl lighton_ocr llava llava_next llava_next_video "
    "llava_onevision minicpm_ocr minicpmv4_6 minicpmv4_7 minimax_m3_vl mistral3 moss_transcribe_diarize "
    "omniasr ovis2 paddleocr_vl paligemma pp_chart2table qwen2_5_vl qwen2_audio qwen2_vl qwen3_5 qwen3_5_moe qwen3_asr "
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


def stack_of(model: Config, reads: str) -> Config:
    """The configuration of the stack that reads ``text`` or ``image``; the whole where there is one stack."""
    model_type = STACKS.get(str(model.get("model_type")), {}).get(reads)
    nested = model.get(f"{'vision' if reads == 'image' else 'text'}_config")
    if model_type is None:
        return model
    return {**(nested if isinstance(nested, Mapping) else {}), "model_type": model_type}


def of_layer(entry: Architecture, config: Config, layer: int) -> Config:
    """The configuration as one block (from 0) has it: of a hierarchical model width and heads are those of its stage.

    Raises DataError where the configuration does not state them.
    """
    if not entry.depths:
        return config
    stage, _ = entry.stage(layer)
    heads, width = config.get("num_heads"), config.get("embed_dim")
    if not isinstance(heads, list | tuple) or len(heads) != len(entry.depths) or not isinstance(width, int):
        got, allowed = f"embed_dim {width!r}, num_heads {heads!r}", "a width, and heads for each of the stages"
        raise DataError("the configuration does not describe its stages", where="config.json", got=got, allowed=allowed)
    of_stage = {"hidden_size": width * 2**stage, "num_attention_heads": heads[stage], "num_heads": heads[stage]}
    return {**config, **of_stage, "num_hidden_layers": sum(entry.depths)}


def config_of(model: Config) -> Config:
    """The part of a configuration that describes the decoder (multi-modal models nest it in ``text_config``)."""
    nested = model.get("text_config")
    return nested if isinstance(nested, Mapping) else model


def _matches(config: Config, conditions: tuple[tuple[str, object], ...]) -> bool:
    return all(config.get(key) == value for key, value in conditions)


def eager_is_wrong(entry: Architecture, config: Config) -> bool:
    """Whether eager attention must not be used for this model (it would apply Falcon's ALiBi twice)."""
    return bool(entry.eager_wrong) and _matches(config_of(config), entry.eager_wrong)


def _depths(config: Config, key: str) -> tuple[int, ...]:
    depths = config.get(key)
    if not isinstance(depths, list | tuple) or not depths or not all(type(n) is int and 0 < n < 1000 for n in depths):
        what, allowed = f"the configuration's {key} are none", "how many blocks each stage has"
        raise DataError(what, where="config.json", got=repr(depths)[:60], allowed=allowed)
    return tuple(depths)


BOTH_WAYS = {"is_causal": False, "use_bidirectional_attention": True}
"""Configuration values that let a decoder's tokens attend to those behind them, in some classes only with a mask or
only without one."""


def direction_is_open(entry: Architecture, config: Config) -> bool:
    """Whether the direction of attention is not that of the class, but for the model itself to say."""
    inner = config_of(config)
    return entry.alone or (entry.reads == "text" and not entry.causal and bool(inner.get("is_decoder")))


def _as_configured(entry: Architecture, config: Config) -> Architecture:
    """An entry with what a model's configuration says of its stages, and of attention in both directions."""
    both = any(config_of(config).get(key) is value for key, value in BOTH_WAYS.items())
    entry = replace(entry, alone=True) if entry.causal and both else entry
    return replace(entry, depths=_depths(config, entry.stages)) if entry.stages else entry


def _without_head(entry: Architecture, config: Config) -> Architecture:
    """The entry of the decoder alone, where the files hold no head for it."""
    if not config.get(HEADLESS) or entry.loader != LLAMA.loader:
        return entry
    return replace(entry, loader="AutoModel", headless=True, outside=(*entry.outside, *OTHER_HEADS))


def _inside(tower: Architecture, model_type: str, of_tower: str) -> Architecture:
    """The entry of a text tower where it is a part of a model that reads images or sound too.

    Such a model numbers positions by itself, so prompts are not packed.
    """
    place = TEXT_TOWERS[model_type]
    changed = ("blocks", "final_norm", "embedding", "behind_norm")
    paths: dict[str, Any] = {name: f"{place}.{path}" for name in changed if (path := getattr(tower, name))}
    older = "model" if model_type in ("qwen2_vl", "qwen2_5_vl", "paddleocr_vl") else f"{place}.model"
    return replace(
        tower,
        **paths,
        name=model_type,
        model_type=of_tower,
        prefix="model",
        loader="AutoModelForMultimodalLM",
        unembedding=("lm_head", f"{place}.lm_head"),
        moved=((f"model.{place}", older),),
        towers=(f"model.{place}.", f"{place}.", "model."),
        packs=False,
    )


def _no_variant(config: Config, variants: Sequence[Architecture]) -> UnsupportedArchitectureError:
    """The error for a model type that has entries, none of them for this configuration."""
    wanted = " or ".join(", ".join(f"{key}={value}" for key, value in entry.when) for entry in variants)
    keys = dict.fromkeys(key for entry in variants for key, _ in entry.when)
    got = ", ".join(f"{key}={config.get(key)}" for key in keys)
    what = f"models of type {variants[0].model_type} are measured under other settings alone, neither gains nor weights"
    step = "gains from hooks of your own can be joined: thermostats join --help"
    return UnsupportedArchitectureError(what, where="config.json", got=got, allowed=wanted, next_step=step)


def lookup(config: Config) -> Architecture:
    """The entry for a configuration (a config.json as a mapping).

    Raises UnsupportedArchitectureError for model types known not to fit, UnknownArchitectureError for the others.
    """
    stated = str(config.get("model_type") or "")
    by_itself = stated in UNSUPPORTED or any(entry.model_type == stated for entry in ARCHITECTURES)
    model_type = stated if by_itself else str(config_of(config).get("model_type") or stated)
    if model_type in UNSUPPORTED:
        step = "see `thermostats ls architectures`; gains from hooks of your own can be joined: thermostats join --help"
        what = f"models of type {model_type} are not measured, neither gains nor weights"
        allowed = "stacks in which every block is attention plus a feed-forward layer"
        raise UnsupportedArchitectureError(what, where=UNSUPPORTED[model_type], allowed=allowed, next_step=step)
    described = LIKE_TOWERS.get(model_type, model_type)
    variants = [entry for entry in ARCHITECTURES if entry.model_type == described]
    for entry in variants:
        if _matches(config_of(config), entry.when):
            tower = _without_head(_as_configured(entry, config), config)
            return tower if by_itself or stated not in TEXT_TOWERS else _inside(tower, stated, model_type)
    if variants:
        raise _no_variant(config_of(config), variants)
    model_types = sorted({entry.model_type for entry in ARCHITECTURES})
    near = difflib.get_close_matches(model_type, model_types, n=3)
    raise UnknownArchitectureError(
        f"unknown architecture{' (did you mean ' + ', '.join(near) + '?)' if near else ''}",
        where="model_type of config.json",
        got=repr(model_type),
        allowed="see `thermostats ls architectures`",
        next_step="add an entry to thermostats/measurement/architectures.py: docs/how-to/architecture.md says how, "
        "and the conformance tests whether it is right",
    )

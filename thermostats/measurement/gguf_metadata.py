"""What a GGUF file says of its model and tokenizer, held against what transformers made of it.

transformers reads some keys and passes over the others in silence; a soft cap or a scaled rotary embedding that it did
not read would be another model. So each key of the architecture is one whose value the configuration has, too, one of a
short list that changes no number, or it is refused by its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thermostats.errors import DataError, UsageError
from thermostats.measurement.architectures import Architecture, Config
from thermostats.measurement.layouts import ORIGINAL, geometry, ropes

HARMLESS = (
    *("vocab_size", "embedding_length", "feed_forward_length", "expert_count"),
    *("expert_feed_forward_length", "expert_shared_feed_forward_length", "ssm.inner_size"),
    *("context_length", "rope.scaling.finetuned", "decoder_start_token_id"),
)
"""Keys of an architecture that need not be read: widths, which the shapes of the tensors state once more and are held
against; how far a model was trained; how its output begins."""
ROUNDED = 1e-6
"""Largest relative difference of a number that GGUF stores in 32 bits."""
AHEAD = "nextn_predict_layers"
"""Key of how many of the blocks predict tokens further ahead; they are counted among the others and not loaded."""
DATA_LAYOUT = "Meta AI original pth"
"""Order of query and key rows that the loader undoes."""
GATES = {1: "softmax", 2: "sigmoid"}
"""How GGUF numbers what makes weights of a router's scores."""
SPLIT_LIKE_GPT2 = ("gpt-2", "phi-2", "mpt", "jina-es", "jina-de", "gigachat")
"""Names of splits of a text before its merges that are GPT-2's, which transformers takes where it knows no other."""
SPACE = "▁"
"""How a vocabulary of sentencepiece writes a space."""


@dataclass(frozen=True)
class Converted:
    """What transformers made of a file: the entry of its class and its configuration."""

    entry: Architecture
    config: Config

    def first(self, *names: str) -> Any:
        """The first of some values that the configuration states; None: it states none of them."""
        return next((self.config[name] for name in names if self.config.get(name) is not None), None)

    def rope(self, *names: str, kind: str = "full_attention") -> Any:
        """The same of its rotary embedding, of that for a kind of block where they differ."""
        stated: Config = self.first("rope_parameters", "rope_scaling") or {}
        rope: Config = stated[kind] if isinstance(stated.get(kind), Mapping) else ropes(self.config)[0]
        return next((rope[name] for name in names if rope.get(name) is not None), None)


def _rope_type(made: Converted) -> str:
    kind = made.rope("rope_type", "type")
    return "none" if kind in (None, "default") else str(kind)


def _rotated(made: Converted) -> int:
    share = made.rope("partial_rotary_factor") or made.first("partial_rotary_factor", "rotary_pct") or 1.0
    return round(geometry(made.entry, made.config).d_head * share)


def _scale(made: Converted) -> float:
    width = made.first("query_pre_attn_scalar") or geometry(made.entry, made.config).d_head
    return 1 / math.sqrt(width)


def _windows(made: Converted) -> list[bool]:
    return [kind == "sliding_attention" for kind in made.first("layer_types") or ()]


def _blocks(made: Converted) -> int:
    return geometry(made.entry, made.config).n_layers


HELD: dict[str, Callable[[Converted], Any]] = {
    "block_count": _blocks,
    "attention.head_count": lambda made: geometry(made.entry, made.config).n_heads,
    "attention.head_count_kv": lambda made: geometry(made.entry, made.config).n_kv_heads,
    "attention.key_length": lambda made: geometry(made.entry, made.config).d_head,
    "attention.value_length": lambda made: geometry(made.entry, made.config).d_head,
    "attention.layer_norm_rms_epsilon": lambda made: made.first("rms_norm_eps", "layer_norm_epsilon", "norm_eps"),
    "attention.layer_norm_epsilon": lambda made: made.first("layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"),
    "attention.causal": lambda made: made.entry.causal,
    "attention.scale": _scale,
    "attention.sliding_window": lambda made: made.first("sliding_window"),
    "attention.sliding_window_pattern": _windows,
    "attention.relative_buckets_count": lambda made: made.first("relative_attention_num_buckets"),
    "attn_logit_softcapping": lambda made: made.first("attn_logit_softcapping"),
    "final_logit_softcapping": lambda made: made.first("final_logit_softcapping"),
    "rope.dimension_count": _rotated,
    "rope.dimension_sections": lambda made: made.rope("mrope_section"),
    "rope.freq_base": lambda made: made.rope("rope_theta"),
    "rope.freq_base_swa": lambda made: made.rope("rope_theta", kind="sliding_attention"),
    "rope.scaling.type": _rope_type,
    "rope.scaling.factor": lambda made: made.rope("factor") or 1.0,
    "rope.scaling.attn_factor": lambda made: made.rope("attention_factor") or 1.0,
    "rope.scaling.original_context_length": lambda made: (
        made.rope(ORIGINAL) or made.first(ORIGINAL, "max_position_embeddings")
    ),
    "use_parallel_residual": lambda made: made.first("use_parallel_residual"),
    "tensor_data_layout": lambda made: DATA_LAYOUT if made.entry.model_type in ("llama", "mistral") else None,
    "expert_used_count": lambda made: made.first("num_experts_per_tok"),
    "expert_weights_norm": lambda made: made.first("norm_topk_prob"),
    "expert_weights_scale": lambda made: made.first("routed_scaling_factor"),
    "expert_gating_func": lambda made: {name: n for n, name in GATES.items()}.get(made.first("scoring_func")),
    "full_attention_interval": lambda made: made.first("full_attention_interval"),
    "shortconv.l_cache": lambda made: made.first("conv_L_cache"),
    "ssm.conv_kernel": lambda made: made.first("conv_kernel", "linear_conv_kernel_dim"),
    "ssm.state_size": lambda made: made.first("state_size", "linear_key_head_dim"),
    "ssm.time_step_rank": lambda made: made.first("time_step_rank", "linear_num_value_heads"),
    "ssm.group_count": lambda made: made.first("linear_num_key_heads"),
    "ssm.dt_b_c_rms": lambda made: made.entry.model_type == "falcon_mamba",
}
"""Key of an architecture → its value by the configuration that transformers made."""


def check_metadata(stated: Mapping[str, Any], made: Converted, file: Path) -> None:
    """Raise UsageError by name for keys of the architecture that transformers did not read.

    stated: what the file holds, by the key's whole name.
    """
    start = f"{stated.get('general.architecture')}."
    keys = {name.removeprefix(start): value for name, value in stated.items() if name.startswith(start)}
    if keys.get("block_count", 0) - keys.get(AHEAD, 0) == _blocks(made):
        keys.pop(AHEAD, None)
        keys["block_count"] = _blocks(made)
    passed_over = [
        f"{start}{key} = {str(value)[:40]}"
        for key, value in keys.items()
        if key not in HARMLESS and not (key in HELD and same(value, HELD[key](made)))
    ]
    if passed_over:
        raise UsageError(
            "transformers would compute another model than the file describes: it does not read all of its metadata",
            where=file,
            got="; ".join(passed_over),
            next_step="measure the model in safetensors instead, whose config.json states them",
        )


def same(value: Any, made: Any) -> bool:
    """Whether a value of a file is the one that was made of it: a number to rounding; of one number a block those that
    are not 0, as a block without attention has no heads."""
    if isinstance(value, list) and isinstance(made, list):
        return [each for each in value if each or isinstance(each, bool)] == made
    if isinstance(value, list):
        return all(same(each, made) for each in value if each)
    if isinstance(value, (int, float)) and isinstance(made, (int, float)):
        return math.isclose(value, made, rel_tol=ROUNDED)
    return bool(value == made)


def check_tokenizer(stated: Mapping[str, Any], tokenizer: Any, file: Path) -> None:
    """Raise DataError where a tokenizer splits a text otherwise, or puts another token first, than its file says."""
    from transformers.integrations import gguf as reading  # noqa: PLC0415 - loads torch

    splits: Any = getattr(reading, "gguf_tokenizer_mapping", None)
    names = (*SPLIT_LIKE_GPT2, *getattr(splits, "GGUF_PRE_TOKENIZER_SPLITS", ()))
    split = stated.get("tokenizer.ggml.pre", SPLIT_LIKE_GPT2[0])
    ids, bare = (tokenizer("a", add_special_tokens=special)["input_ids"] for special in (True, False))
    words = tokenizer.convert_ids_to_tokens(bare)
    does = {"tokenizer.ggml.add_bos_token": bool(ids) and ids[0] == tokenizer.bos_token_id}
    if stated.get("tokenizer.ggml.model") == "llama":
        does["tokenizer.ggml.add_space_prefix"] = bool(words) and str(words[0]).startswith(SPACE)
    wrong = [f"{key} = {stated[key]}" for key, here in does.items() if stated.get(key, here) != here]
    if stated.get("tokenizer.ggml.model") == "gpt2" and split not in names:
        wrong.append(f"tokenizer.ggml.pre = {split}")
    if wrong:
        what = "transformers would read a text as other tokens than the file's tokenizer"
        step = "measure the model in safetensors with its tokenizer.json instead"
        raise DataError(what, where=file, got="; ".join(wrong), next_step=step)

"""What llama.cpp takes for a key of a GGUF file that the file leaves out.

Read from llama.cpp at commit 0c1e57098 (1 October 2026): `src/llama-model.cpp` has what holds for
every architecture, `src/models/` what one of them has of its own, `src/llama-vocab.cpp` tokenizers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Keys = Mapping[str, Any]
"""What a file states of its architecture, by the key without the architecture."""
Default = Callable[[str, Keys], Any]
"""Architecture and keys → the value; None where there is none."""
ROPE_BASE = 10_000.0
WINDOWS = {"gemma2": 4096}
"""Tokens that a block sees where a file does not say it; of other architectures all."""
WINDOW_PATTERNS = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2}
"""Every so many blocks one sees all tokens."""
LARGEST = {"gemma2": 46, "gemma3": 62}
"""Blocks of those models whose attention is scaled by d/H instead of by the width of a head."""
CAPS = {"gemma2": (50.0, 30.0)}
"""Largest scores of attention and of the head."""
NORMED = {"qwen2moe": False, "qwen3moe": True}
"""Whether the weights of the experts that were chosen are made to add to one."""
ENCODERS = ("t5", "t5encoder")
"""Architectures whose scores are not scaled, and whose encoder looks both ways."""
NEEDED = {
    ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"): "*",
    ("attention.head_count",): "attention",
    ("expert_used_count",): "experts",
    ("expert_gating_func",): "scores",
}
"""Keys of which llama.cpp needs one, without a default, and of which models."""


def read_first(value: Any) -> Any:
    """A value of the blocks, of one number a block the first that is not 0."""
    if not isinstance(value, list):
        return value
    return next((each for each in value if each), None)


def divide_width(_architecture: str, keys: Keys) -> int | None:
    """d/H."""
    heads = read_first(keys.get("attention.head_count"))
    width = keys.get("embedding_length")
    return width // heads if heads and width else None


def find_key_length(architecture: str, keys: Keys) -> int | None:
    """Width of a head."""
    return keys.get("attention.key_length") or divide_width(architecture, keys)


def find_scale(architecture: str, keys: Keys) -> float | None:
    """What scores of attention are multiplied by."""
    if architecture in ENCODERS:
        return None
    large = keys.get("block_count") == LARGEST.get(architecture)
    width = (divide_width if large else find_key_length)(architecture, keys)
    return 1 / math.sqrt(width) if width else None


def find_window(architecture: str, keys: Keys) -> int | None:
    """Tokens that blocks with a window see; 0 where no block has one."""
    return int(keys.get("attention.sliding_window", WINDOWS.get(architecture, 0)))


def find_window_pattern(architecture: str, keys: Keys) -> list[bool] | None:
    """Whether each block has a window."""
    every = WINDOW_PATTERNS.get(architecture)
    blocks = keys.get("block_count")
    if every is None or blocks is None or not find_window(architecture, keys):
        return None
    return [i % every < every - 1 for i in range(blocks)]


def find_window_rope_base(architecture: str, keys: Keys) -> float | None:
    """θ of blocks with a window; None where no block has one."""
    if not find_window(architecture, keys):
        return None
    return ROPE_BASE if architecture == "gemma3" else keys.get("rope.freq_base", ROPE_BASE)


def find_rope_type(_architecture: str, keys: Keys) -> str:
    """How positions are stretched."""
    return "none" if keys.get("rope.scaling.factor", 1.0) in (0.0, 1.0) else "linear"


LEFT_OUT: dict[str, Default] = {
    "attention.head_count_kv": lambda _, keys: keys.get("attention.head_count"),
    "attention.key_length": divide_width,
    "attention.value_length": divide_width,
    "attention.scale": find_scale,
    "attention.causal": lambda architecture, _: architecture not in ENCODERS,
    "attention.sliding_window": find_window,
    "attention.sliding_window_pattern": find_window_pattern,
    "attn_logit_softcapping": lambda architecture, _: CAPS.get(architecture, (None, None))[0],
    "final_logit_softcapping": lambda architecture, _: CAPS.get(architecture, (0.0, 0.0))[1],
    "rope.dimension_count": find_key_length,
    "rope.freq_base": lambda *_: ROPE_BASE,
    "rope.freq_base_swa": find_window_rope_base,
    "rope.scaling.type": find_rope_type,
    "rope.scaling.factor": lambda *_: 1.0,
    "rope.scaling.attn_factor": lambda *_: 1.0,
    "expert_weights_norm": lambda architecture, _: NORMED.get(architecture),
    "full_attention_interval": lambda *_: 4,
    "ssm.dt_b_c_rms": lambda *_: False,
}
"""Key → what it is where a file lacks it."""

"""What the package knows of a model class: one small frozen entry each, looked up by the configuration's model type.

This module and its data (`registry`) are plain Python: reading weights from disk needs no torch.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thermostats.errors import UsageError

Config = Mapping[str, Any]
"""A model's configuration as in its config.json."""


class UnknownArchitectureError(UsageError):
    """No entry describes this model class."""


class RemoteCodeError(UsageError):
    """The model class is the model's own code, which nobody allowed to run."""

    def __init__(self, model_id: str) -> None:
        """Name the model."""
        super().__init__(
            "the model comes with code of its own, which would have to be run",
            where=model_id,
            next_step="read that code, then add --trust-remote-code if you want to run it",
        )


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

    mlp: str = "mlp"
    mlp_norm: str = "post_attention_layernorm"

    attention_out: str = ""
    """Module whose output is attention's own, where the attention module adds the residual; else empty."""
    mlp_out: str = ""
    """Module whose output is the feed-forward layer's own, where `mlp` is not one module or adds the residual."""
    attention_write: str = ""
    """Module whose output is added to the stream, where attention's output is normed first."""
    mlp_write: str = ""
    """The same for the feed-forward layer."""
    residual_multiplier: str = ""
    """Configuration key of a factor on both writes."""

    parallel: bool = False
    """Attention and feed-forward layer read the same stream: there is no stream between them."""
    additive: bool = True
    """x_l − x_(l−1) is the sum of the two writes; false where the block ends in a norm, which pins its gain near 1."""
    eager_wrong: tuple[tuple[str, object], ...] = ()
    """Configuration values under which transformers' eager attention computes something else than the model."""
    sinks: bool = False
    """Attention rows do not sum to 1."""
    moved: tuple[str, str] | None = None
    """Part of a tensor's name, and what other checkpoints have in its place."""
    outside: tuple[str, ...] = ()
    """Modules of a multi-modal class that are no part of its decoder."""
    packs: bool = True
    """Prompts may stand one after the other in one row: position ids that begin anew keep their attention apart."""

    def tensor_names(self, module: str, layer: int | None = None, *, kind: str = "weight") -> tuple[str, ...]:
        """Names a module's tensor may have in a checkpoint, the usual one first; `layer` from 0, None: no block."""
        if module in self.unembedding:
            return tuple(f"{name}.{kind}" for name in self.unembedding)
        inner = f"{module}.{kind}" if layer is None else f"{self.blocks}.{layer}.{module}.{kind}"
        names = (f"{self.prefix}.{inner}", inner)
        return names if self.moved is None else (*names, names[0].replace(*self.moved))


def config_of(model: Config) -> Config:
    """The part of a configuration that describes the decoder (multi-modal models nest it in ``text_config``)."""
    nested = model.get("text_config")
    return nested if isinstance(nested, Mapping) else model


def _matches(config: Config, conditions: tuple[tuple[str, object], ...]) -> bool:
    return all(config.get(key) == value for key, value in conditions)


def eager_is_wrong(entry: Architecture, config: Config) -> bool:
    """Whether eager attention must not be used for this model (it would apply Falcon's ALiBi twice)."""
    return bool(entry.eager_wrong) and _matches(config, entry.eager_wrong)


def lookup(config: Config) -> Architecture:
    """The entry for a configuration (a config.json as a mapping).

    Raises UnsupportedArchitectureError for model types known not to fit, UnknownArchitectureError for the others.
    """
    from thermostats.measurement.registry import ARCHITECTURES, UNSUPPORTED  # noqa: PLC0415  (it imports this module)

    whole = str(config.get("model_type") or "")
    own = any(entry.model_type == whole for entry in ARCHITECTURES)
    model_type = whole if own else str(config_of(config).get("model_type") or whole)
    if model_type in UNSUPPORTED:
        raise UnsupportedArchitectureError(
            f"models of type {model_type} are not measured",
            where=UNSUPPORTED[model_type],
            allowed="decoders in which every block is attention plus a feed-forward layer",
            next_step="see `thermostats ls architectures`",
        )
    for entry in ARCHITECTURES:
        if entry.model_type == model_type and _matches(config_of(config), entry.when):
            return entry
    known = sorted({entry.model_type for entry in ARCHITECTURES})
    near = difflib.get_close_matches(model_type, known, n=3)
    raise UnknownArchitectureError(
        f"unknown architecture{' (did you mean ' + ', '.join(near) + '?)' if near else ''}",
        where="model_type of config.json",
        got=repr(model_type),
        allowed="see `thermostats ls architectures`",
        next_step="add an Architecture entry to thermostats/measurement/registry.py and a tiny configuration of the "
        "class to tests/measurement/tiny.py; the conformance tests say whether it is right",
    )

"""A model class: where its modules are, how its weights are laid out; and the errors for classes
without an entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any

from thermostats.errors import UsageError

Config = Mapping[str, Any]
"""A model's configuration as in its config.json."""


class UnknownArchitectureError(UsageError):
    """No entry describes this model class."""


class UnsupportedArchitectureError(UsageError):
    """The model class is known, and known not to be what the estimands describe."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Where things are in one Hugging Face model class, and how its weights are laid out.

    Paths of blocks, final norm and embedding are relative to the base model, all others to a block;
    an empty path means that there is no such module. Layouts of the matrix that holds the values
    (rows are outputs; `checkpoint.split` takes it apart):

    - ``separate``: a matrix of its own, K·d_h rows;
    - ``stacked``: queries, keys, values one below the other, H·d_h + K·d_h + K·d_h rows;
    - ``grouped``: for each key/value head its H/K queries, its key, its value; with K = H this is
      q, k, v per head;
    - ``partitioned``: four partitions, in each queries, values, keys of a fourth of the heads
      (CodeGen);
    - ``latent``: for each head its key and its value part of the up-projection from the normed
      latent (DeepSeek).
    """

    name: str
    model_type: str
    when: tuple[tuple[str, object], ...] = ()
    """Configuration values that choose this variant of the model type; the variant without any is
    the rest."""

    prefix: str = "model"
    """Name of the base model in the model with a head, and before tensor names (which may also come
    without)."""
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
    """``config``: as the configuration says; ``one``: multi-query; ``all``: as many as query
    heads."""

    mixers: tuple[str, ...] = ()
    """What stands in attention's place in some blocks, or in all where `attention` is empty: state
    spaces, linear and gated attention, convolutions. It is measured as a sub-block; it has no W_V
    or W_O, and no attention weights."""

    mlp: str = "mlp"
    """Empty where a block has no feed-forward layer."""
    mlp_norm: str = "post_attention_layernorm"

    attention_out: str = ""
    """Module whose output is attention's own, where the attention module adds the residual; else
    empty."""
    mlp_out: str = ""
    """Module whose output is the feed-forward layer's own, where `mlp` is not one module or adds
    the residual."""
    attention_write: str = ""
    """Module whose output is added to the stream, where attention's output is normed first."""
    mlp_write: str = ""
    """The same for the feed-forward layer."""
    behind_norm: str = ""
    """Module between the final norm and the last hidden state, where the model has it; relative to
    the base model."""
    residual_multiplier: str = ""
    """Configuration key of a factor on both writes."""

    parallel: bool = False
    """Attention and feed-forward layer read the same stream: there is no stream between them."""
    norm_after: tuple[str, ...] = ()
    """Post-norm blocks: the norms of the sums x + f(x) behind attention and feed-forward layer.
    They pin the gain near 1; in other blocks x_l − x_(l−1) is the sum of the two writes."""
    eager_wrong: tuple[tuple[str, object], ...] = ()
    """Configuration values under which transformers' eager attention computes something else than
    its default one."""
    sinks: bool = False
    """Attention rows do not sum to 1."""
    moved: tuple[tuple[str, str], ...] = ()
    """Parts of a tensor's name, and what other checkpoints have in their place."""
    outside: tuple[str, ...] = ()
    """Modules of the class that are no part of the stack: heads, poolers, other towers."""
    towers: tuple[str, ...] = ()
    """How names of the stack's tensors begin where files hold other stacks too; the first that is
    there counts."""
    packs: bool = True
    """Prompts may stand one after the other in one row: position ids that begin anew keep their
    attention apart."""
    alone: bool = False
    """Each input is measured by itself: masks do not keep the inputs of a batch apart."""

    unit_offset: bool = False
    """Norms multiply by 1 + weight."""
    value_bias: str = ""
    """Parameter below the block that is the values' bias, where it is none of the module
    `value`."""
    experts_transposed: bool = False
    """Matrices of all experts in one tensor are stored (experts × inputs × outputs)."""
    bare_end: tuple[tuple[str, object], ...] = ()
    """Configuration values under which the class leaves its final norm out."""

    loader: str = "AutoModelForCausalLM"
    """transformers' class that is loaded; any other has no head that gives a next token's
    distribution."""
    part: str = ""
    """Module of the loaded model that is the stack, where there are others that it needs not."""
    stack: str = ""
    """What stands behind a model's name, where the entry is of one of its stacks."""
    first_position: int | str = 0
    """Where position ids begin: a number, or ``pad``: behind that of the padding token. So many
    fewer tokens fit."""
    causal: bool = True
    """Tokens attend to themselves and to those before them alone."""
    reads: str = "text"
    """``text`` or ``image``."""
    leading: int = 1
    """Tokens of an image in front of its patches, registers aside: a class token, a distillation
    token; or none."""
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
    """Images of any size whose sides are whole multiples of the patch; else of the configuration's
    size alone."""
    stages: str = ""
    """Configuration key of how many blocks each stage has, where patches are merged and widths
    change between stages; ``{stage}`` stands in `blocks`."""
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

    def find_stage(self, layer: int) -> tuple[int, int]:
        """Stage of a block (from 0), and its place in it."""
        before = [0, *accumulate(self.depths[:-1])]
        stage = max(s for s, first in enumerate(before) if first <= layer)
        return stage, layer - before[stage]

    @property
    def set_values(self) -> dict[str, bool]:
        """Configuration values that loading sets: a whole model's may say that it decodes, its
        encoder never does."""
        return {"is_decoder": False} if self.stack else {}

    @property
    def has_head(self) -> bool:
        """There is a next-token distribution, and an unembedding it comes from."""
        return self.loader in ("AutoModelForCausalLM", "AutoModelForMultimodalLM")

    def filter_stack_names(self, names: Iterable[str]) -> set[str]:
        """Of the names of a model's tensors those of this stack and its head."""
        inside = {name for name in names if set(name.split(".")).isdisjoint(self.outside)}
        for start in self.towers:
            of_tower = {name for name in inside if name.startswith(start)}
            if of_tower:
                head = {name for name in inside if name.rpartition(".")[0] in self.unembedding}
                return of_tower | head
        return inside

    def list_tensor_names(
        self, module: str, layer: int | None = None, *, kind: str = "weight"
    ) -> tuple[str, ...]:
        """Names a module's tensor may have in a checkpoint, the usual one first; `layer` from 0,
        None: no block."""
        if module in self.unembedding:
            return tuple(f"{name}.{kind}" for name in self.unembedding)
        stage, place = self.find_stage(layer or 0)
        block = "" if layer is None else f"{self.blocks.format(stage=stage)}.{place}."
        inner = f"{block}{module}.{kind}"
        full = f"{self.prefix}.{inner}"
        other = reduce(lambda name, pair: name.replace(*pair), self.moved, full)
        bare = other.removeprefix(f"{self.prefix}.")
        return tuple(dict.fromkeys((full, inner, other, bare)))

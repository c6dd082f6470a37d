"""What other tools read of the same model and tokens: a short adapter each; only nnsight's borrows
our places.

An adapter is given a loaded model with its places and token ids (1 × tokens), and hands out of each
block the tensors that the tool's accessors give, by the names of `identities.Activations`. None of
these tools comes with the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from thermostats.errors import UsageError, build_unknown_error, take_first_line
from thermostats.measurement.forward import Decoder, find_mixer, has_attention
from thermostats.measurement.lookup import select_decoder_config
from thermostats.measurement.proof import detach_vectors

Read = dict[str, Tensor]
"""Name of a place in a block → vectors of all tokens there (1 × tokens × d)."""


def read_nnterp(places: Decoder, ids: Tensor) -> list[Read]:
    """By nnterp's `layers_input`, `attentions_output` and their like, which carry the same names
    for every class."""
    from nnterp import StandardizedTransformer  # noqa: PLC0415

    tool = StandardizedTransformer(places.model, device_map=None)
    seen: list[Any] = []
    with torch.no_grad(), tool.trace({"input_ids": ids}):
        for layer in range(tool.num_layers):
            read = {"x_in": tool.layers_input[layer].save()}
            read["attention_read"] = tool.attentions_input[layer].save()
            read["attention_write"] = tool.attentions_output[layer].save()
            read["mlp_read"] = tool.mlps_input[layer].save()
            read["mlp_write"] = tool.mlps_output[layer].save()
            read["x_out"] = tool.layers_output[layer].save()
            seen.append(read)
    return seen


HOOKS = {
    "x_in": "hook_resid_pre",
    "attention_read": "attn.hook_in",
    "heads": "attn.hook_z",
    "attention": "attn.o.hook_out",
    "attention_write": "hook_attn_out",
    "mlp_read": "mlp.hook_in",
    "mlp_write": "hook_mlp_out",
    "x_out": "hook_resid_post",
}
"""Name of a place → TransformerLens' hook in a block."""


def read_transformer_lens(places: Decoder, ids: Tensor) -> list[Read]:
    """By TransformerLens' hooks on its bridge over the model; no weight is folded or centred."""
    from transformer_lens.model_bridge import TransformerBridge  # noqa: PLC0415

    how = {"dtype": places.dtype, "device": places.device}
    how["hf_config_overrides"] = {"architectures": [type(places.model).__name__]}
    with TemporaryDirectory() as words:
        save_tokenizer(int(select_decoder_config(places.config)["vocab_size"]), words)
        tool = TransformerBridge.boot_transformers(words, hf_model=places.model, **how)
    with torch.no_grad():
        _, cache = tool.run_with_cache(ids)
    seen = []
    for layer in range(len(places.blocks)):
        named = {}
        for name, hook in HOOKS.items():
            place = f"blocks.{layer}.{hook}"
            if place in cache:
                named[name] = cache[place]
        seen.append(named)
    return seen


def save_tokenizer(size: int, folder: str) -> None:
    """Write a tokenizer of so many words that are their own numbers, for a tool that asks for one
    and is given ids."""
    import tokenizers  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    words = tokenizers.models.WordLevel({str(i): i for i in range(size)}, unk_token="0")  # noqa: S106
    made: Any = tokenizers.Tokenizer(words)
    special = {"bos_token": "0", "eos_token": "0", "pad_token": "0", "unk_token": "0"}
    kind: Any = transformers.PreTrainedTokenizerFast
    kind(tokenizer_object=made, **special).save_pretrained(folder)


def read_nnsight(places: Decoder, ids: Tensor) -> list[Read]:
    """By nnsight's `.input` and `.output` of the modules that our entry names: it knows no place by
    itself."""
    from nnsight import NNsight  # noqa: PLC0415

    entry = places.entry
    names = {module: name for name, module in places.model.named_modules()}
    tool = NNsight(places.model)
    seen: list[Read] = []
    with torch.no_grad(), tool.trace(input_ids=ids, use_cache=False):
        for block in places.blocks:
            mixer = find_mixer(block, entry)
            mlp = entry.mlp
            output = entry.attention_write or entry.attention_out or mixer
            steps = [("x_in", "", "input"), ("attention_read", mixer, "input")]
            steps += [("heads", entry.output, "input")] * has_attention(block, entry)
            steps += [("attention", entry.attention_out or mixer, "output")]
            steps += [("attention_write", output, "output"), ("mlp_read", mlp, "input")]
            steps += [
                ("mlp_write", entry.mlp_write or entry.mlp_out or mlp, "output"),
                ("x_out", "", "output"),
            ]
            read: Any = {}
            for name, path, side in steps:
                module = tool.get(f"{names[block]}.{path}".rstrip("."))
                read[name] = getattr(module, side).save()
            seen.append(read)
    return seen


@dataclass(frozen=True)
class Tool:
    """Another tool: what it and its package are called, its adapter."""

    name: str
    package: str
    read: Callable[[Decoder, Tensor], list[Read]]
    borrows_places: bool = False
    """It names no place: factors of our entries apply to what it reads."""
    needs: str = ""
    """What must be installed with it, as pip takes it, where pip alone picks what does not fit."""

    @property
    def install_line(self) -> str:
        """The line that installs it."""
        return " ".join(filter(None, ("pip install", self.package, self.needs)))


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("nnterp", "nnterp", read_nnterp, needs="'nnsight<0.8'"),
        Tool("transformer-lens", "transformer-lens", read_transformer_lens),
        Tool("nnsight", "nnsight", read_nnsight, borrows_places=True),
    )
}


def find_tool(name: str) -> tuple[Tool, str]:
    """A tool by its name, and its version.

    Raises UsageError where there is no adapter of that name, or the tool is not installed.
    """
    if name not in TOOLS:
        raise build_unknown_error("no adapter for such a tool", name, TOOLS, where="--tool")
    tool = TOOLS[name]
    try:
        return tool, version(tool.package)
    except PackageNotFoundError as error:
        what = f"{name} is not installed"
        raise UsageError(
            what, where="--tool", got=str(error), next_step=tool.install_line
        ) from error


def read_tool(tool: Tool, places: Decoder, ids: Tensor) -> tuple[dict[str, Any], ...]:
    """What a tool hands out of each block (tokens × d), by name.

    Raises UsageError where it cannot be loaded, does not know the class or fails on the model.
    """
    try:
        return tuple(map(copy_vectors, tool.read(places, ids)))
    except ImportError as error:
        what = f"{tool.name} does not load with the other packages installed here"
        got = take_first_line(error)
        raise UsageError(what, where="--tool", got=got, next_step=tool.install_line) from error
    except Exception as error:  # whatever another tool raises
        what = f"{tool.name} cannot read a model of this class"
        got = f"{type(error).__name__}: {take_first_line(error)}"
        step = "leave out --tool: the identities are proved without it"
        raise UsageError(
            what, where=type(places.model).__name__, got=got, next_step=step
        ) from error


def copy_vectors(read: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool read of a block, as plain vectors (tokens × d)."""
    return {name: detach_vectors(get_tensor(x)) for name, x in read.items()}


def get_tensor(value: Any) -> Tensor:
    """The vectors among what an accessor gives: a tensor, or the first of a tuple; heads one behind
    the other."""
    x: Tensor = value if isinstance(value, Tensor) else value[0]
    return x.flatten(2) if x.ndim == 4 else x

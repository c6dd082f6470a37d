"""Attention weights of a loaded model, layer by layer, to rows of the table `attention`.

Hooks on the attention modules reduce the weights of one layer (batch × H × n × n) before the next
layer computes its own. Only eager attention has weights to show.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor, nn

from thermostats.errors import ThermostatsError
from thermostats.measurement.batching import Progress, TokenisedPrompt
from thermostats.measurement.checkpoint import read_geometry, split, take_published_heads
from thermostats.measurement.forward import (
    Decoder,
    call,
    find_submodule,
    make_batches,
    prepare_model,
    track_layers,
)
from thermostats.measurement.lookup import is_eager_wrong
from thermostats.measurement.resources import check_batches
from thermostats.measurement.sheaf import (
    MEASURES,
    Row,
    ValueSpectra,
    build_attention_rows,
    build_proxy_row,
    measure_value_spectra,
)
from thermostats.measurement.spectra import measure_norms
from thermostats.tables.schemas import TABLES


@dataclass(frozen=True)
class LayerValues:
    """Spectra of W_V per head of one layer, of W_V as the study cut it, and ‖W_V‖₂ of the whole."""

    exact: ValueSpectra
    published: ValueSpectra
    spectral_norm: float


def measure_attention(
    decoder: Decoder,
    prompts: Sequence[TokenisedPrompt],
    *,
    token_budget: int | None = None,
    progress: Progress | None = None,
    values: Sequence[LayerValues] = (),
) -> pd.DataFrame:
    """Table `attention`, without run_id, of every layer, head and prompt and of the published
    variants.

    `values`: spectra of every block's W_V, where they are known already.

    Raises UsageError for prompts that cannot be measured; ThermostatsError where attention is not
    eager, so that it has no weights to show, where eager attention is wrong for the model, or
    memory does not suffice.
    """
    if is_eager_wrong(decoder.entry, decoder.config):
        what = (
            "eager attention is wrong for this model: it computes something else than its default "
            "one"
        )
        raise ThermostatsError(
            what, where=decoder.entry.name, next_step="leave out --what attention"
        )
    values = values or measure_block_values(decoder)
    rows: list[Row] = []
    for layer, spectra in enumerate(values, 1):
        rows.append(build_proxy_row(layer, spectra.spectral_norm))
    done = 0
    with prepare_model(decoder.model):
        batches = make_batches(decoder, prompts, token_budget)
        check_batches(decoder, batches)
        for batch in batches:

            def reduce(layer: int, weights: Tensor, batch: Any = batch) -> None:
                attention = weights.detach().float().cpu().numpy()
                spectra = values[layer].exact, values[layer].published
                for row, (i, n) in enumerate(zip(batch.indices, batch.lengths, strict=True)):
                    key: Any = {"layer": layer + 1, "prompt_id": prompts[i].prompt_id}
                    of_prompt = attention[row, :, :n, :n]
                    rows.extend(build_attention_rows(of_prompt, *spectra, **key))

            with collect_attention(decoder, reduce):
                call(decoder.base, batch)
            done += len(batch.indices)
            if progress is not None:
                progress(done, len(prompts))
    columns = [label for label in TABLES["attention"].columns if label != "run_id"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(MEASURES, "float64"))


@contextmanager
def collect_attention(decoder: Decoder, on_layer: Callable[[int, Tensor], None]) -> Iterator[None]:
    """While open, hand each block's number (from 0) and attention weights (batch × H × n × n) to
    `on_layer`, as soon as they are computed."""
    heads = read_geometry(decoder.entry, decoder.config).n_heads

    def ask(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if "output_attentions" in kwargs:
            return args, {**kwargs, "output_attentions": True}
        names = [*inspect.signature(module.forward).parameters, "output_attentions"]
        place = names.index("output_attentions")
        if place >= len(args):
            return None
        return (*args[:place], True, *args[place + 1 :]), kwargs

    with track_layers(decoder.blocks) as now, ExitStack() as stack:

        def hand_over(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
            on_layer(now(), _find_weights(output, heads, decoder))

        for block in dict.fromkeys(decoder.blocks):
            module = find_submodule(block, decoder.entry.attention, decoder.entry)
            stack.callback(module.register_forward_pre_hook(ask, with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(hand_over).remove)
        yield


def measure_block_values(decoder: Decoder) -> list[LayerValues]:
    """Spectra of W_V of every block."""
    return [measure_layer_values(decoder, layer) for layer in range(len(decoder.blocks))]


def measure_layer_values(decoder: Decoder, layer: int) -> LayerValues:
    """What the sheaf of one block (from 0) needs of its W_V, in numbers; nothing of the size of a
    weight is kept."""
    entry = decoder.entry
    config = decoder.config
    block = decoder.blocks[layer]
    value = _read_weights(find_submodule(block, entry.value, entry))
    output = _read_weights(find_submodule(block, entry.output, entry))
    parts = split(entry, config, value, output)
    heads = parts.w_v.reshape(-1, parts.d_head, parts.w_v.shape[1])
    exact = measure_value_spectra(heads).squared[parts.kv_head]
    published = measure_value_spectra(take_published_heads(entry, config, value))
    return LayerValues(ValueSpectra(exact), published, measure_norms(parts.w_v).spectral)


def _read_weights(module: nn.Module) -> NDArray[np.float32]:
    weight = module.weight
    if not isinstance(weight, Tensor) or weight.is_meta:
        step = "load the model without offloading to disk"
        raise ThermostatsError(
            "a projection's weights are not in memory", where=type(module).__name__, next_step=step
        )
    return weight.detach().float().cpu().numpy()


def _find_weights(output: Any, heads: int, decoder: Decoder) -> Tensor:
    """Attention weights among what a module returned, behind a bias of positions where there is
    one."""
    for item in reversed(output) if isinstance(output, tuple | list) else ():
        if (
            isinstance(item, Tensor)
            and item.ndim == 4
            and item.shape[1] == heads
            and item.shape[2] == item.shape[3]
        ):
            return item
    step = "leave out --what attention, or report the version of transformers"
    allowed = f"a tensor batch × {heads} × n × n among its outputs"
    where = f"{decoder.entry.attention} of {type(decoder.model).__name__}"
    raise ThermostatsError(
        "the attention module shows no weights", where=where, allowed=allowed, next_step=step
    )

"""Is a model in memory what its weights are when they are loaded again?

A model whose activation, forward method or attribute was replaced computes something else than its files, in which none
of that stands, and rows of the files would be another model's. So one small input is run through both.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from thermostats.errors import ThermostatsError, UsageError
from thermostats.measurement.architectures import Architecture, lookup
from thermostats.measurement.forward import Decoder, as_measured, decoder, example, on_exit, running, without_cache
from thermostats.measurement.loading import load
from thermostats.measurement.plan import MeasurementPlan
from thermostats.measurement.proof import TOLERANCES, relative_difference
from thermostats.measurement.spectra import read_config

TOKENS = ((1, 2, 3),)
"""Three tokens, so that attention has something to weigh."""
Passed = dict[str, NDArray[np.float64]]
"""Name of a place → what left it."""


def check_same(model: Any, tokenizer: Any, planned: MeasurementPlan) -> None:
    """Raise UsageError where a model in memory and its written weights, loaded again, give different numbers, or where
    its tokenizer reads a prompt as other tokens.

    Compared are what each block leaves and the logits, of three tokens or a small image, at the model's own precision.
    """
    folder, spec = planned.folder, planned.spec
    entry = lookup(read_config(folder.path, folder.reads))
    before = _place(model, entry)
    first = _pass(before)
    options: dict[str, Any] = {"device_map": spec.device_map, "trust_remote_code": spec.trust_remote_code}
    loaded = load(folder, dtype=str(before.dtype).removeprefix("torch."), device=str(before.device), **options)
    if entry.reads == "text":
        _check_tokens(tokenizer, loaded.tokenizer, planned)
    second = _pass(loaded.decoder)
    tolerance = TOLERANCES[before.dtype]
    for name, x in second.items():
        off = relative_difference([first[name]], x) if first[name].shape == x.shape else np.inf
        if off > tolerance:
            raise UsageError(
                "the model in memory computes something else than its weights do once they are loaded again",
                where=name,
                got=f"off by {off:.2g}",
                allowed=f"at most {tolerance:g}",
                next_step="undo what replaces its activation, forward method or attributes, or write it into the "
                "weights or the configuration: rows are those of the weights alone",
            )


def _check_tokens(given: Any, loaded: Any, planned: MeasurementPlan) -> None:
    for prompt in planned.prompts.itertuples():
        before, after = (list(each(str(prompt.text))["input_ids"]) for each in (given, loaded))
        if before != after:
            raise UsageError(
                "the tokenizer in memory reads a prompt as other tokens than it does once it is loaded again",
                where=f"prompt {prompt.prompt_id}",
                got=f"tokens {str(after)[:60]}",
                allowed=f"{str(before)[:60]}",
                next_step="save it with save_pretrained, and give AutoTokenizer.from_pretrained of that folder",
            )


def _place(model: Any, entry: Architecture) -> Decoder:
    """The stack that is measured, in a model with whatever heads."""
    inner: nn.Module = model if entry.has_head else getattr(model, "base_model", model)
    try:
        return decoder(inner.get_submodule(entry.part) if entry.part else inner, entry)
    except (ThermostatsError, AttributeError) as error:
        what, step = "the model in memory is not built as its class is", "save it with save_pretrained, name the folder"
        raise UsageError(what, got=f"{type(model).__name__}: {error}", next_step=step) from error


def _pass(places: Decoder) -> Passed:
    left: Passed = {}

    def keep(x: Tensor) -> None:
        left[f"block {len(left) + 1}"] = x.detach().double().cpu().numpy().copy()

    inputs = example(places)
    if places.entry.reads == "text":
        inputs = {"input_ids": torch.tensor(TOKENS, device=places.device)}
    module = places.model if places.entry.has_head else places.base
    with ExitStack() as stack, as_measured(places.model):
        for block in dict.fromkeys(places.blocks):
            on_exit(stack, block, keep)
        with running(places.model):
            output = module(**inputs, **without_cache(module))
    if places.entry.has_head:
        left["the logits"] = output.logits.detach().double().cpu().numpy()
    return left

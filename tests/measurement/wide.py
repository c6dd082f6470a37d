"""Models that compute in float64 throughout: classes name float32 in norms, softmax and routers,
and there mean it."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tiny
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode

from thermostats.measurement.forward import Decoder, prepare_model


class _Torch(types.ModuleType):
    """torch, but for float32, which is float64."""

    def __getattr__(self, name: str) -> Any:
        return torch.float64 if name in ("float32", "float") else getattr(torch, name)


@contextmanager
def float64() -> Iterator[None]:
    """While open, transformers' classes compute in float64 where they name float32."""
    stand_in = _Torch("torch")
    modules = [
        m
        for name, m in sys.modules.items()
        if name.startswith("transformers.") and vars(m).get("torch") is torch
    ]
    plain, default = torch.Tensor.float, torch.get_default_dtype()
    for module in modules:
        vars(module)["torch"] = stand_in
    torch.Tensor.float = lambda self, *_args, **_kwargs: self.double()  # type: ignore[method-assign, assignment]
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(default)
        torch.Tensor.float = plain  # type: ignore[method-assign]
        for module in modules:
            vars(module)["torch"] = torch


class Narrowest(TorchDispatchMode):
    """While open, keep the narrowest floating type that an operation gave."""

    def __init__(self) -> None:
        super().__init__()
        self.dtype = torch.float64

    def __torch_dispatch__(
        self, function: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for each in result if isinstance(result, (tuple, list)) else (result,):
            if (
                isinstance(each, torch.Tensor)
                and each.is_floating_point()
                and each.dtype.itemsize < 8
            ):
                self.dtype = min(self.dtype, each.dtype, key=lambda dtype: dtype.itemsize)
        return result


BITES = {
    **dict.fromkeys(("clip_qkv", "swiglu_limit"), 0.3),
    **dict.fromkeys(("final_logit_softcapping", "attn_logit_softcapping", "logits_soft_cap"), 0.5),
}
"""Configuration values under which clips, clamps and softcaps act on the numbers of a tiny
model."""


def bites(name: str) -> dict[str, Any]:
    """Of those values the ones that an entry's class has, as changes of its tiny model's
    configuration."""
    kind, arguments = tiny.CONFIGURATIONS[name]
    config = getattr(transformers, kind)().to_dict()
    changes = {key: value for key, value in BITES.items() if key in config}
    for part in ("text_config", "attn_config"):
        inner = {key: value for key, value in BITES.items() if key in (config.get(part) or {})}
        changes |= {part: {**arguments.get(part, {}), **inner}} if inner else {}
    return changes


def opened(name: str, **changes: Any) -> Decoder:
    """The tiny model of an entry in float64; experts one after the other, as their joint product
    has no float64."""
    places = tiny.opened(name, **changes)
    for module in places.model.double().modules():
        if hasattr(module, "config"):
            module.config._experts_implementation = "eager"
    return places


def outputs(places: Decoder, prompt: Any) -> torch.Tensor:
    """Logits of every token, or without a head the last hidden states, computed in float64; a
    number of its own for all logits of a token counts for nothing."""
    given = {
        key: x.double() if x.is_floating_point() else x for key, x in tiny.arguments(prompt).items()
    }
    with float64(), prepare_model(places.model):
        output = places.model(**given)
    result: torch.Tensor = (
        output.logits.log_softmax(-1) if places.entry.has_head else output.last_hidden_state
    )
    return result

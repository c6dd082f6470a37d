"""Does an entry describe a model? Asked of the model itself, on one token, where attention weights are 1.

W_V: a change Δ of the attention's input moves the input of the output projection, head by head, by W_V^(k(h)) Δ.
W_O: it moves the attention's own output by Σ_h W_O^h W_V^(k(h)) Δ.
Blocks: x_l − x_(l-1) = m·(attention write + feed-forward write), where the entry calls the block additive.

The multi-head latent attention of DeepSeek norms between the down- and the up-projection; there Δ is a change of the
normed latent.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from thermostats.errors import DataError, ThermostatsError
from thermostats.measurement.architectures import Architecture, UnknownArchitectureError
from thermostats.measurement.forward import Decoder, as_measured, decoder, input_of, on_entry, on_exit, submodule
from thermostats.measurement.layouts import geometry, split

TOLERANCES = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Largest relative difference that still is rounding at a precision; a wrong layout is wrong by about 1."""


@dataclass(frozen=True)
class Conformance:
    """Largest relative differences between what an entry says and what the model does, over layers."""

    value: float
    circuit: float
    residual: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether all are within the tolerance of the model's precision; what cannot be compared fails."""
        return all(difference <= self.tolerance for difference in (self.value, self.circuit, self.residual))


def conformance(found: Decoder, *, layers: Collection[int] | None = None, token: int = 1) -> Conformance:
    """Hold an entry against its model with one random Δ of the size of the input it is added to.

    `layers` (from 0) restricts it to some; two forward passes of one token each.

    Raises DataError where a matrix has another shape than the entry implies.
    """
    value = circuit = residual = 0.0
    for layer in range(len(found.blocks)) if layers is None else layers:
        before, after, delta = _moved(found, layer, token)
        parts = _weights(found, layer)
        expected = np.concatenate([parts.head(h)[0] @ delta for h in range(len(parts.kv_head))])
        moved = after["heads"] - before["heads"]
        value = max(value, _difference(moved, expected))
        circuit = max(circuit, _difference(after["attention"] - before["attention"], parts.w_o @ expected))
        if found.entry.additive:
            residual = max(residual, _difference(before["step"], before["writes"]))
    return Conformance(value, circuit, residual, TOLERANCES[found.dtype])


def fallback(model: nn.Module, entries: tuple[Architecture, ...]) -> Architecture:
    """The first entry made for another class that fits this model, by the oracle on its first, middle and last block.

    Raises UnknownArchitectureError where none does.
    """
    tried = []
    for entry in entries:
        try:
            found = decoder(model, entry)
            if conformance(found, layers={0, len(found.blocks) // 2, len(found.blocks) - 1}).passed:
                return replace(entry, packs=False)
            tried.append(entry.name)
        except (ThermostatsError, RuntimeError, LookupError, TypeError):
            continue  # another class's names or shapes: not this entry
    raise UnknownArchitectureError(
        "no entry fits this model",
        where=type(model).__name__,
        got=f"names fit but not the arithmetic: {', '.join(tried)}" if tried else "no entry whose modules are there",
        next_step="add an entry to thermostats/measurement/architectures.py",
    )


def _difference(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    scale = float(np.linalg.norm(expected))
    difference = float(np.linalg.norm(got - expected)) / scale if scale > 0 else np.inf
    return difference if np.isfinite(difference) else np.inf


def _weights(found: Decoder, layer: int) -> Any:
    entry, block = found.entry, found.blocks[layer]
    value, output = (submodule(block, path, entry).weight for path in (entry.value, entry.output))
    if not isinstance(value, Tensor) or not isinstance(output, Tensor):
        raise DataError("projection without a weight matrix", where=entry.name)
    return split(entry, found.config, value.detach().double().cpu().numpy(), output.detach().double().cpu().numpy())


def _moved(found: Decoder, layer: int, token: int) -> tuple[dict[str, Any], dict[str, Any], np.ndarray[Any, Any]]:
    """What one layer does with one token, without and with a change Δ of what its values are read from."""
    g = geometry(found.entry, found.config)
    generator = torch.Generator().manual_seed(layer)
    delta = torch.randn(g.d_value_in, generator=generator, dtype=torch.float64)
    before = _run(found, layer, token, None)
    delta *= float(before["size"]) / float(delta.norm())
    after = _run(found, layer, token, delta.to(found.dtype))
    return before, after, delta.to(found.dtype).double().numpy()


def _run(found: Decoder, layer: int, token: int, delta: Tensor | None) -> dict[str, Any]:
    entry, block = found.entry, found.blocks[layer]
    kept: dict[str, Any] = {}
    changed = entry.value if entry.layout == "latent" else entry.attention

    def change(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x = input_of(args, kwargs)
        kept["size"] = x.double().norm()
        if delta is None:
            return None
        x = x + delta.to(x.device)
        return ((x, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": x})

    def keep(name: str, x: Tensor) -> None:
        kept[name] = x.detach().double().cpu().numpy().ravel().copy()

    with ExitStack() as stack, as_measured(found.model):
        module = submodule(block, changed, entry)
        stack.callback(module.register_forward_pre_hook(change, with_kwargs=True).remove)
        on_entry(stack, block, partial(keep, "x_in"))
        on_entry(stack, submodule(block, entry.output, entry), partial(keep, "heads"))
        for path, name in (
            ("", "x_out"),
            (entry.attention_out or entry.attention, "attention"),
            (entry.attention_write or entry.attention_out or entry.attention, "attention_write"),
            (entry.mlp_write or entry.mlp_out or entry.mlp, "mlp_write"),
        ):
            on_exit(stack, submodule(block, path, entry), partial(keep, name))
        found.base(input_ids=torch.tensor([[token]], device=found.device))
    multiplier = float(found.config[entry.residual_multiplier]) if entry.residual_multiplier else 1.0
    kept["step"] = kept["x_out"] - kept["x_in"]
    kept["writes"] = multiplier * (kept["attention_write"] + kept["mlp_write"])
    return kept

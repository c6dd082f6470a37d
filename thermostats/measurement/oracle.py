"""Does an entry describe a model? Asked of the model itself, on one token, where attention weights are 1.

W_V: a change Δ of the attention's input moves the input of the output projection, head by head, by W_V^(k(h)) Δ.
W_O: it moves the attention's own output by Σ_h W_O^h W_V^(k(h)) Δ.
Blocks: x_l − x_(l-1) = m·(attention write + feed-forward write). Of post-norm blocks the same holds of the two sums
before the norms: s_a − x_(l-1) and s_m − norm(s_a), and x_l = norm(s_m).

Where there are more tokens than one, as in an image, all are given the same attention input, so that whatever the
attention weights are, their rows sum to 1 and leave it as it is.

The multi-head latent attention of DeepSeek norms between the down- and the up-projection; there Δ is a change of the
normed latent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from thermostats.errors import DataError, ThermostatsError
from thermostats.measurement.architectures import of_layer
from thermostats.measurement.forward import (
    Decoder,
    as_measured,
    example,
    in_turn,
    input_of,
    on_entry,
    on_exit,
    submodule,
)
from thermostats.measurement.layouts import geometry, split

TOLERANCES = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Largest relative difference that still is rounding at a precision; a wrong layout is wrong by about 1."""


PROOF = {
    "value": "W_V is not the matrix from which the attention's heads are computed",
    "circuit": "W_O W_V is not the matrix from which the attention's output is computed",
    "residual": "the writes do not add up to the step of the stream",
    "final": "the last hidden state is not the final norm of what the last block left",
}
"""What is held against the model → what is wrong where it is off."""
COMPARED = ("norm_in", "gain_block", "trace", "entropy")
"""Columns that a second pass is held against the first in."""


@dataclass(frozen=True)
class Conformance:
    """Largest relative differences between what an entry says and what the model does, over layers."""

    value: float
    circuit: float
    residual: float
    final: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether all are within the tolerance of the model's precision; what cannot be compared fails."""
        return all(getattr(self, name) <= self.tolerance for name in PROOF)


def conformance(found: Decoder, *, layers: Collection[int] | None = None) -> Conformance:
    """Hold an entry against its model with one random Δ of the size of the input it is added to.

    `layers` (from 0) restricts it to some; one forward pass of one token or image; these once more with Δ.

    Raises DataError where a matrix has another shape than the entry implies.
    """
    value = circuit = residual = 0.0
    chosen = tuple(range(len(found.blocks)) if layers is None else layers)
    kept, final = _pass(found, chosen)
    for layer, seen in kept.items():
        parts = _weights(found, layer)
        expected = np.concatenate([parts.head(h)[0] @ seen["changed delta"] for h in range(len(parts.kv_head))])
        value = max(value, _difference(seen["changed heads"] - seen["heads"], expected))
        circuit = max(circuit, _difference(seen["changed attention"] - seen["attention"], parts.w_o @ expected))
        residual = max(residual, *(_difference(*pair) for pair in _sums(found, layer, seen)))
    return Conformance(value, circuit, residual, final, TOLERANCES[found.dtype])


def second_pass(found: Decoder, inputs: Sequence[Any], measure: Callable[..., pd.DataFrame], rows: pd.DataFrame) -> str:
    """Measure two inputs once more, by themselves, over the first quarter of the blocks; what `runs` keeps of it.

    `measure` (inputs, depth) gives rows as `rows`, those of the run, in which they stood among others; of two inputs in
    all each is measured alone. Compared are all numbers that are positive in both; of texts the shortest are taken, of
    images the last, which begin no batch.

    Raises ThermostatsError where they differ by more than rounding.
    """
    depth = -(-len(found.blocks) // 4)
    two = sorted(inputs, key=lambda each: -len(getattr(each, "token_ids", ())))[-2:]
    parts = [two] if len(inputs) > len(two) else [[one] for one in two]
    once = pd.concat([measure(part, depth=depth) for part in parts])
    if "variant" in rows:
        once = once[once["variant"] == "exact"]  # others are zero but for rounding
    key = [name for name in ("layer", "head", "variant", "prompt_id", "position") if name in rows]
    both = once.merge(rows, on=key, suffixes=("", "_run"))
    pairs = [(both[name], both[f"{name}_run"]) for name in COMPARED if name in rows]
    logs = np.concatenate([np.log(one.where(one > 0) / other.where(other > 0)) for one, other in pairs])
    off, allowed = float(np.abs(logs[np.isfinite(logs)]).max(initial=0.0)), TOLERANCES[found.dtype]
    if off > allowed:
        what = "the measurement failed its own check: two inputs measured again by themselves give different numbers"
        step = "report the model and the versions: inputs in one row or batch are not kept separate"
        raise ThermostatsError(what, got=f"off by {off:.2g}", allowed=f"at most {allowed:g}", next_step=step)
    return f"again={off:.1e}"


def check_proof(found: Decoder) -> str:
    """What a run proves of itself on its first, middle and last block, as `runs` keeps it.

    Raises ThermostatsError by the name of what does not hold.
    """
    proof = conformance(found, layers={0, len(found.blocks) // 2, len(found.blocks) - 1})
    for name, what in PROOF.items():
        if not getattr(proof, name) <= proof.tolerance:
            got, allowed = f"{name} is off by {getattr(proof, name):.2g}", f"at most {proof.tolerance:g}"
            step = "check the weights for numbers that are not finite, then report the model and the versions"
            raise ThermostatsError(
                f"the measurement failed its own check: {what}", got=got, allowed=allowed, next_step=step
            )
    return " ".join(f"{name}={getattr(proof, name):.1e}" for name in PROOF)


def _difference(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    scale = float(np.linalg.norm(expected))
    difference = float(np.linalg.norm(got - expected)) / scale if scale > 0 else np.inf
    return difference if np.isfinite(difference) else np.inf


def _weights(found: Decoder, layer: int) -> Any:
    entry, block = found.entry, found.blocks[layer]
    value, output = (submodule(block, path, entry).weight for path in (entry.value, entry.output))
    if not isinstance(value, Tensor) or not isinstance(output, Tensor):
        raise DataError("projection without a weight matrix", where=entry.name)
    config = of_layer(entry, found.config, layer)
    return split(entry, config, value.detach().double().cpu().numpy(), output.detach().double().cpu().numpy())


def _delta(found: Decoder, layer: int, read: Tensor) -> Tensor:
    g = geometry(found.entry, of_layer(found.entry, found.config, layer))
    delta = torch.randn(g.d_value_in, generator=torch.Generator().manual_seed(layer), dtype=torch.float64)
    return (delta * (float(read.double().norm()) / float(delta.norm()))).to(read.device, read.dtype)


def _sums(found: Decoder, layer: int, kept: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Pairs that must be equal: what the stream gained in one block, and what was written to it."""
    entry, block = found.entry, found.blocks[layer]
    multiplier = float(found.config[entry.residual_multiplier]) if entry.residual_multiplier else 1.0
    scales = [attrgetter(name)(block) if name else 1.0 for name in (entry.attention_scale, entry.mlp_scale)]
    factors = [x.detach().double().cpu().numpy() if isinstance(x, Tensor) else x for x in scales]
    attention, mlp = factors[0] * kept["attention_write"], factors[1] * kept["mlp_write"]
    if not entry.norm_after:
        return [(kept["x_out"] - kept["x_in"], multiplier * (attention + mlp))]
    middle = kept["attention_sum_normed"]
    sums = [(kept["attention_sum"] - kept["x_in"], attention), (kept["mlp_sum"] - middle, mlp)]
    return [*sums, (kept["x_out"], kept["mlp_sum_normed"])]


def _pass(found: Decoder, layers: Collection[int]) -> tuple[dict[int, dict[str, Any]], float]:
    """What some layers do with one input, and once more with a change Δ of what their values are read from.

    Per layer the vectors (d) of the first token by name, of tokens in windows their mean, after Δ with "changed" before
    the name; and how far the last hidden state is from the final norm of what the last block left.
    """
    entry = found.entry
    kept: dict[int, dict[str, Any]] = {layer: {} for layer in layers}
    normed: list[Tensor] = []
    again: list[int] = []
    with in_turn(found.blocks) as now, ExitStack() as stack, as_measured(found.model):

        def keep(name: str, x: Tensor) -> None:
            if now() in kept:
                tokens = x.detach().double().reshape(-1, x.shape[-1])
                first = tokens.mean(0) if entry.depths else tokens[0]
                kept[now()].setdefault(f"changed {name}" if again else name, first.cpu().numpy())

        def change(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if now() not in kept:
                return None
            x = input_of(args, kwargs)
            read = x.reshape(-1, x.shape[-1])[0]
            new = read + _delta(found, now(), read) if again else read
            keep("delta", new - read)
            x = new.expand(x.shape)
            return ((x, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": x})

        def repeat(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], _output: Any) -> None:
            if now() in kept:
                again.append(now())
                block.forward(*args, **kwargs)
                again.clear()

        for block in dict.fromkeys(found.blocks[layer] for layer in layers):
            module = submodule(block, entry.value if entry.layout == "latent" else entry.attention, entry)
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
            for norm, name in zip(entry.norm_after, ("attention_sum", "mlp_sum"), strict=False):
                on_entry(stack, submodule(block, norm, entry), partial(keep, name))
                on_exit(stack, submodule(block, norm, entry), partial(keep, f"{name}_normed"))
            stack.callback(block.register_forward_hook(repeat, with_kwargs=True).remove)
        if found.final_norm is not None:
            on_exit(stack, found.final_norm, normed.append)
        accepted = inspect.signature(found.base.forward).parameters
        left = found.base(**example(found), **({"use_cache": False} if "use_cache" in accepted else {}))
        last = getattr(left, "last_hidden_state", left)
    if not normed:
        return kept, 0.0
    return kept, _difference(last.double().cpu().numpy(), normed[-1].double().cpu().numpy())

"""Configuration values that make another computation of a class than its entry describes, and what they leave of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from thermostats.measurement.architectures import Config, UnsupportedArchitectureError, config_of
from thermostats.measurement.checkpoint import open_checkpoint
from thermostats.measurement.model_row import stored_dtype
from thermostats.measurement.spec import WHAT, RunSpec

OF_MODEL = ("gains", "outputs", "attention")
"""Quantities for which the model is loaded; `weights` reads its files alone."""


@dataclass(frozen=True)
class Switch:
    """A configuration value of a model type, why it is not supported, and the quantities that it takes away."""

    model_type: str
    key: str
    why: str
    lost: tuple[str, ...] = OF_MODEL
    harmless: tuple[object, ...] = (None, False, 0)


SWITCHES = (
    Switch(
        "bloom",
        "apply_residual_connection_post_layernorm",
        "the stream goes on from what each norm leaves, so that the writes are not its step",
    ),
    *(
        Switch(
            model_type,
            "conv_kernel_size",
            "a convolution changes the stream between the first and the second block, outside both",
        )
        for model_type in ("deberta", "deberta-v2")
    ),
    Switch(
        "roformer",
        "rotary_value",
        "values are rotated by their position, so that W_V is not what the heads' values are",
        lost=("weights", "attention"),
    ),
)


def unsupported(config: Config, folder: Path) -> dict[str, str]:
    """Quantities that a model's configuration takes away, each with the value that does and the reason.

    Raises DataError where the weights are quantised.
    """
    inner, found = config_of(config), {}
    for switch in SWITCHES:
        value = inner.get(switch.key)
        if inner.get("model_type") == switch.model_type and value not in switch.harmless:
            found |= dict.fromkeys(switch.lost, f"{switch.key}={value} is not supported: {switch.why}")
    if config.get("quantization_config") or inner.get("quantization_config"):
        stored_dtype(open_checkpoint(folder))
        why = "config.json has a quantization_config, and the weights are not quantised"
        found |= dict.fromkeys(OF_MODEL, why)
    return found


def check_switches(spec: RunSpec, config: Config, folder: Path) -> None:
    """Raise UnsupportedArchitectureError where a quantity of a spec is taken away; the next step is what is left."""
    lost = unsupported(config, folder)
    refused = [name for name in spec.what if name in lost]
    if not refused:
        return
    left = [name for name in WHAT if name not in lost]
    line = f"thermostats measure {shlex.quote(spec.model)} --what {','.join(left)}"
    step = f"remove quantization_config from config.json, or {line}" if "quantization" in lost[refused[0]] else line
    got, allowed = ", ".join(refused), f"{', '.join(left)} can be measured"
    raise UnsupportedArchitectureError(lost[refused[0]], where=folder.name, got=got, allowed=allowed, next_step=step)

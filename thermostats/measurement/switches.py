"""Configuration values that make another computation of a class than its entry describes, and what they leave of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from thermostats.measurement.architectures import Config, UnsupportedArchitectureError, config_of
from thermostats.measurement.quantised import check_quantised
from thermostats.measurement.spec import WHAT, RunSpec
from thermostats.next_steps import command

OF_MODEL = ("gains", "outputs", "attention")
"""Quantities for which the model is loaded; `weights` reads its files alone."""

QUANTISED = "quantization_config"


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


def unsupported(config: Config) -> dict[str, str]:
    """Quantities that a model's configuration takes away, each with the value that does and the reason."""
    inner = config_of(config)
    reasons: dict[str, str] = {}
    for switch in SWITCHES:
        value = inner.get(switch.key)
        if inner.get("model_type") == switch.model_type and value not in switch.harmless:
            reasons |= dict.fromkeys(switch.lost, f"{switch.key}={value} is not supported: {switch.why}")
    if config.get(QUANTISED) or inner.get(QUANTISED):
        why = f"config.json has a {QUANTISED}, but the weights are not quantised"
        reasons |= dict.fromkeys(OF_MODEL, why)
    return reasons


def check_switches(spec: RunSpec, config: Config, folder: Path) -> None:
    """Raise UnsupportedArchitectureError where a quantity of a spec is taken away; the next step is what is left.

    Raises DataError where the weights are quantised.
    """
    lost = unsupported(config)
    refused = [name for name in spec.what if name in lost]
    if not refused:
        return
    check_quantised(config, folder)
    why, left = lost[refused[0]], [name for name in WHAT if name not in lost]
    revision = "" if spec.revision == "main" else spec.revision
    line = command("measure", spec.model, revision=revision, what=",".join(left))
    step = f"remove {QUANTISED} from config.json, or {line}" if QUANTISED in why else line
    got, allowed = ", ".join(refused), f"{', '.join(left)} can be measured"
    raise UnsupportedArchitectureError(why, where=folder.name, got=got, allowed=allowed, next_step=step)

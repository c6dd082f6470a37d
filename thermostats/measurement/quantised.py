"""Checkpoints whose weights are integers or eight-bit numbers with scales: refused by the name of their method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thermostats.errors import DataError
from thermostats.measurement.architectures import Config, config_of
from thermostats.measurement.checkpoint import open_checkpoint
from thermostats.measurement.model_row import stored_dtype

KEY = "quantization_config"
LOADED = (
    "AutoModelForCausalLM.from_pretrained(FOLDER, {}).save_pretrained(OTHER) multiplies the weights out; measure OTHER"
)
STEPS = {
    "fp8": LOADED.format("quantization_config=FineGrainedFP8Config(dequantize=True)"),
    "mxfp4": LOADED.format("quantization_config=Mxfp4Config(dequantize=True)"),
    "compressed-tensors": LOADED.format("quantization_config=CompressedTensorsConfig(run_compressed=False)"),
    "bitsandbytes": "AutoModelForCausalLM.from_pretrained(FOLDER).dequantize().save_pretrained(OTHER); measure OTHER",
}
"""Method of transformers → how to have its weights as numbers."""
OTHERWISE = "measure the model that it was made from, or a file of it in GGUF, which is dequantised"


def check_quantised(config: Config, folder: Path) -> None:
    """Raise DataError by the method's name where a configuration states one and the weights are stored by it."""
    stated = config.get(KEY) or config_of(config).get(KEY)
    if not stated:
        return
    try:
        stored_dtype(open_checkpoint(folder))
    except DataError as error:
        method = _method(stated)
        what = f"the checkpoint is quantised by {method}"
        step = STEPS.get(method, OTHERWISE)
        raise DataError(what, where=folder, got=error.got, allowed=error.allowed, next_step=step) from error


def _method(stated: Any) -> str:
    """Name of the method in a configuration, of bitsandbytes' two the package's."""
    name = (
        str(stated.get("quant_method") or "an unnamed method") if isinstance(stated, Mapping) else "an unnamed method"
    )
    return "bitsandbytes" if name.startswith("bitsandbytes") else name

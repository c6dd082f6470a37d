"""A quantised checkpoint is refused by the name of its method, with what to do instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
import torch
from conftest import make_empty_store
from safetensors.torch import load_file, save_file

from thermostats.errors import DataError
from thermostats.measurement.execute import find_missing_kinds
from thermostats.measurement.model_row import OTHERWISE
from thermostats.measurement.plan import plan
from thermostats.measurement.spec import RunSpec


def quantised(folder: Path, method: str, dtype: torch.dtype) -> Path:
    """A small model whose matrices are stored as another type, as a method's own loader would find
    them."""
    small.save_model(folder)
    held = load_file(folder / "model.safetensors")
    packed = {name: x.to(dtype) if x.ndim == 2 else x for name, x in held.items()}
    save_file(packed, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("method", "dtype", "step"),
    [
        ("gptq", torch.int32, OTHERWISE),
        ("awq", torch.int32, OTHERWISE),
        ("fp8", torch.float8_e4m3fn, "FineGrainedFP8Config(dequantize=True)"),
        ("bitsandbytes_4bit", torch.uint8, "dequantize()"),
    ],
)
def test_a_method_is_named_and_the_next_step_is_its_own(
    method: str, dtype: torch.dtype, step: str, tmp_path: Path
) -> None:
    folder = quantised(tmp_path / "packed", method, dtype)
    spec = RunSpec(str(folder), prompts=str(small.save_prompts(tmp_path)), heritage="Us")
    with pytest.raises(DataError) as caught:
        plan(spec, make_empty_store(tmp_path))
    assert f"quantised by {method.removesuffix('_4bit')}" in caught.value.what
    assert step in caught.value.next_step
    with pytest.raises(DataError, match=f"quantised by {method.removesuffix('_4bit')}"):
        find_missing_kinds(folder, spec)

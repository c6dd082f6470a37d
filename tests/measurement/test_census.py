"""Every causal, masked and image class of the installed transformers is supported, or refused with what is missing."""

from __future__ import annotations

import importlib

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from thermostats.measurement.architectures import ARCHITECTURES, UNSUPPORTED, UnsupportedArchitectureError, lookup

modeling_auto = importlib.import_module("transformers.models.auto.modeling_auto")

ALIASES = {"gpt-sw3": "gpt2", "mlcd": "mlcd_vision_model"}
"""Names that transformers lists for classes whose configuration says another model type."""
MAPPINGS = ("CAUSAL_LM", "MASKED_LM", "IMAGE_CLASSIFICATION", "IMAGE")
CLASSES = sorted(
    {ALIASES.get(name, name) for each in MAPPINGS for name in getattr(modeling_auto, f"MODEL_FOR_{each}_MAPPING_NAMES")}
)
SUPPORTED = {entry.model_type for entry in ARCHITECTURES}


@pytest.mark.parametrize("name", [name for name in CLASSES if name not in SUPPORTED])
def test_a_class_that_is_not_measured_says_what_is_missing(name: str) -> None:
    with pytest.raises(UnsupportedArchitectureError) as caught:
        lookup({"model_type": name})
    assert caught.value.where == UNSUPPORTED[name]


def test_at_least_eighty_classes_are_supported() -> None:
    assert len(SUPPORTED & set(CLASSES)) >= 100
    assert not SUPPORTED & set(UNSUPPORTED)

"""Every class of transformers is supported, or refused with what is missing.

A class that came with a later release than the census is unknown, and the error says how to add it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch
import transformers
from packaging.version import Version

from thermostats.errors import ThermostatsError
from thermostats.measurement.architectures import ARCHITECTURES, LIKE_TOWERS, STACKS, TEXT_TOWERS
from thermostats.measurement.forward import build_decoder
from thermostats.measurement.lookup import UNSUPPORTED, lookup
from thermostats.measurement.model_class import (
    Architecture,
    UnknownArchitectureError,
    UnsupportedArchitectureError,
)
from thermostats.measurement.proof import check_conformance

modeling_auto = importlib.import_module("transformers.models.auto.modeling_auto")

ALIASES = {"gpt-sw3": "gpt2", "mlcd": "mlcd_vision_model"}
"""Names that transformers lists for classes whose configuration says another model type."""
MAPPINGS = ("CAUSAL_LM", "MASKED_LM", "IMAGE_CLASSIFICATION", "IMAGE")
"""Of text and images: their classes are held against their reasons more often than those of other
kinds."""
CAUSAL = set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
OFTEN = {
    ALIASES.get(name, name)
    for each in MAPPINGS
    for name in getattr(modeling_auto, f"MODEL_FOR_{each}_MAPPING_NAMES")
}
CLASSES = sorted(OFTEN | {ALIASES.get(name, name) for name in transformers.CONFIG_MAPPING})
CENSUS = Version("5.24.0")
"""Release of transformers whose classes were all looked at."""
SUPPORTED = (
    {entry.model_type for entry in ARCHITECTURES}
    | set(STACKS)
    | set(TEXT_TOWERS)
    | set(LIKE_TOWERS)
)


def missing(name: str) -> str | None:
    """What `lookup` says is missing for a class to be measured; None where it says nothing, or not
    in its own words."""
    try:
        lookup({"model_type": name})
    except UnsupportedArchitectureError as error:
        return error.where
    except UnknownArchitectureError as error:
        return "an entry" if "Next: add an entry" in str(error) else None
    return None


def test_a_class_that_is_not_measured_says_what_is_missing() -> None:
    later = Version(transformers.__version__) > CENSUS
    asked = [name for name in CLASSES if name not in SUPPORTED]
    assert len(asked) > 500
    reasons = {
        name: UNSUPPORTED.get(name, "an entry" if later else "not in the census") for name in asked
    }
    assert {name: got for name in asked if (got := missing(name)) != reasons[name]} == {}


def test_two_hundred_classes_are_supported() -> None:
    assert len(SUPPORTED & set(CLASSES)) >= 200
    assert not SUPPORTED & set(UNSUPPORTED)


def named(model: torch.nn.Module, *parts: str) -> bool:
    """Whether the class or the name of any module holds one of these."""
    names = {f"{path} {type(module).__name__}".lower() for path, module in model.named_modules()}
    return any(part in name for name in names for part in parts)


def lists(model: Any, *keys: str) -> bool:
    """Whether the configuration gives a list for one of these."""
    return any(isinstance(getattr(model.config, key, None), list | tuple) for key in keys)


VIDEOS = "pixel_values_videos"


def reads(model: Any, *names: str) -> bool:
    """Whether a model's main input has one of these names."""
    return getattr(model, "main_input_name", "") in names


SHOWN: dict[str, Callable[[Any], bool]] = {
    "its state-space blocks": lambda m: named(m, "mamba", "mixer", "ssm"),
    "its recurrent or linear-attention": lambda m: (
        named(m, "recurrent", "rglru", "rwkv", "lstm", "deltanet", "conv", "hrm")
        or (named(m, "linearattention", "lightning", "kda") or hasattr(m.config, "conv_L_cache"))
    ),
    "it is an encoder-decoder": lambda m: (
        m.config.is_encoder_decoder or named(m, "encoder_attn", "crossattention", "cross_attn")
    ),
    "it has several stacks": lambda m: (
        len(m.kind.sub_configs) > 0 or named(m, "vision", "audio", "cross", "vis")
    ),
    "it reads or makes sound": lambda m: (
        reads(m, "input_features", "input_values", "audio_mel", "latents")
        or named(
            m, "audio", "speech", "codec", "hifigan", "wav", "acoustic", "music", "mel", "speaker"
        )
        or any(hasattr(m.config, key) for key in ("num_mel_bins", "delay_pattern"))
    ),
    "it reads series": lambda m: reads(m, "past_values", "states", "state"),
    "it turns images into codes": lambda m: named(m, "quantize"),
    "it is the vision tower": lambda m: named(m, "patch", "vision", "image", "visual"),
    "it reads words together": lambda m: named(m, "position", "xpath", "bbox", "vis", "patch"),
    "its blocks are convolutions": lambda m: named(m, "conv"),
    "its width changes": lambda m: lists(m, "hidden_sizes", "embed_dims", "depths"),
    "it reads videos": lambda m: (
        hasattr(m.config, "num_frames") or hasattr(m.config, "tubelet_size") or reads(m, VIDEOS)
    ),
    "it leaves out patches at random": lambda m: 0 < m.config.mask_ratio < 1,
    "its modules pass on quantised": lambda m: named(m, "quant"),
    "it reads an image as a row": lambda m: (
        m.config.vocab_size > 0 and not hasattr(m.config, "patch_size")
    ),
    "its heads are scaled": lambda m: any(
        path.endswith(("g_proj.weight", "sinks")) for path, _ in m.named_parameters()
    ),
}
"""Beginning of a reason → what shows it in the model itself."""
FITS = ("longformer", "imagegpt", "vit_mae", "ibert", "tipsv2_vision_model", "exaone", "sarvam_moe")
FITS += (
    "granite_swa",
    "laguna",
    "chinese_clip_vision_model",
    "higgs_audio_v2",
    "idefics3_vision",
    "markuplm",
)
FITS += (
    "molmo2_text",
    "openai_privacy_filter",
    "smolvlm_vision",
    "tipsv2_text_model",
    "visual_bert",
)
"""Refused though an entry's modules and matrices fit: for what else the model does, or how its
files store it."""


def built(name: str, *, tiny_one: bool) -> Any:
    """A model of a refused class, as its configuration is by default and without memory, or a tiny
    one.

    None where the packages at hand cannot build it, or not small.
    """
    try:
        kind = transformers.CONFIG_MAPPING[name]
        fields = kind().to_dict()
        fits = {
            key: x for key, x in tiny.SMALL.items() if key in fields or key in kind.attribute_map
        }
        if fields.get("num_key_value_heads") is None:
            fits.pop("num_key_value_heads", None)
        auto = transformers.AutoModelForCausalLM if name in CAUSAL else transformers.AutoModel
        with torch.device("meta"):
            model = auto.from_config(kind(**(fits if tiny_one else {})))
        if tiny_one and sum(parameter.numel() for parameter in model.parameters()) > 2e7:
            return None
        if tiny_one:
            model = tiny.noisy(auto.from_config(kind(**fits)))
        model.__dict__["kind"] = kind
        return model
    except (
        Exception
    ):  # whatever a class demands of its configuration, or of packages that are not installed
        return None


def fits(entry: Architecture, model: torch.nn.Module) -> bool:
    """Whether an entry made for another class has this model's modules, and its arithmetic."""
    try:
        return check_conformance(build_decoder(model, entry)).passed
    except (
        ThermostatsError,
        RuntimeError,
        LookupError,
        TypeError,
        ValueError,
        NotImplementedError,
        AttributeError,
    ):
        return False  # another class's names or shapes


LONG = {"kimi_linear"}
"""Whose own forward pass takes minutes on a CPU, however small the model."""


def contradiction(name: str) -> str:
    """What speaks against the reason for which a class is refused, in the class itself; empty where
    nothing does."""
    full, small, reason = built(name, tiny_one=False), built(name, tiny_one=True), UNSUPPORTED[name]
    if full is None and small is None:
        return CANNOT
    for start, holds in SHOWN.items():
        if (
            full is not None
            and reason.startswith(start)
            and not (holds(full) or (small is not None and holds(small)))
        ):
            return reason
    if small is None or name in FITS:
        return ""
    return " ".join(entry.name for entry in ARCHITECTURES if entry.attends and fits(entry, small))


CANNOT = "cannot be built here"
SELDOM = pytest.param(
    sorted(name for name in UNSUPPORTED if name in LONG or name not in OFTEN),
    marks=pytest.mark.long,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [sorted(OFTEN & UNSUPPORTED.keys() - LONG), SELDOM], ids=["often", "seldom"]
)
def test_what_a_refusal_says_is_so(names: list[str]) -> None:
    against = {name: words for name in names if (words := contradiction(name))}
    unbuilt = [name for name, words in against.items() if words == CANNOT]
    assert {name: words for name, words in against.items() if words != CANNOT} == {}
    assert len(unbuilt) < len(names) / 2, unbuilt

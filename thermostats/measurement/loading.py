"""A model's folder to a model in memory that holds exactly the weights of its files, or an error
that says why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn

from thermostats.errors import DataError, TransientError, UsageError, take_first_line
from thermostats.measurement.checkpoint import BUFFERS, list_load_errors, open_checkpoint
from thermostats.measurement.empty_models import load_class_config
from thermostats.measurement.forward import Decoder, build_decoder
from thermostats.measurement.hub import ModelFolder
from thermostats.measurement.lookup import is_eager_wrong, lookup
from thermostats.measurement.model_class import Architecture
from thermostats.measurement.resources import check_memory
from thermostats.measurement.spectra import build_config_error, read_config


@dataclass(frozen=True)
class Loaded:
    """A model ready to be measured: its places, its tokenizer or image processor (None where not
    asked for), and the devices that it is on."""

    decoder: Decoder
    tokenizer: Any
    device: str


def load(
    folder: ModelFolder,
    *,
    dtype: str = "float32",
    device: str = "auto",
    device_map: str | Mapping[str, Any] | None = None,
    attention: str = "default",
    tokenizer: bool = True,
    trust_remote_code: bool = False,
) -> Loaded:
    """Load a model for measuring. `attention`: eager is needed where attention weights are read.

    `device_map` spreads a model over several devices (``auto``) and overrides `device`.

    Raises UsageError for a device that is not there, eager attention that is wrong for the model
    and an architecture that is unknown or not measured; DataError where files are missing, damaged,
    or weights and configuration disagree; ThermostatsError where memory does not suffice or
    transformers cannot load the model.
    """
    config = read_config(folder.path, folder.reads)
    entry = lookup(config)
    if attention == "eager" and is_eager_wrong(entry, config):
        step = "leave out what needs attention weights"
        what = (
            "eager attention is wrong for this model: it computes something else than its default "
            "one"
        )
        raise UsageError(what, where=folder.model_id, allowed="sdpa", next_step=step)
    target = pick_device(device)
    if device_map is None:
        check_memory(folder.path, dtype, target)
    config_of_class = _read_class_config(folder, entry, trust_remote_code)
    words = _load_reader(folder, entry.reads, trust_remote_code) if tokenizer else None
    spread = {"": str(target)} if device_map is None and target.type != "cpu" else device_map
    options = {
        "dtype": getattr(torch, dtype),
        "device_map": spread,
        "trust_remote_code": trust_remote_code,
    }
    model = _load_module(folder, entry, attention, config=config_of_class, **options)
    places = str(target)
    if device_map is not None and (used := getattr(model, "hf_device_map", None)):
        places = ", ".join(sorted({str(place) for place in used.values()}))
    return Loaded(build_decoder(model, entry), words, places)


def pick_device(device: str) -> torch.device:
    """The device asked for; ``auto`` is the first GPU where there is one. Raises UsageError where
    it is not there."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        wanted = torch.device(device)
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        got = f"{device} ({take_first_line(error, 120)})"
        allowed = "auto, cpu, cuda, …"
        raise UsageError(
            "no such device here", where="--set device", got=got, allowed=allowed
        ) from error
    return wanted


def _load_reader(folder: ModelFolder, reads: str, trust_remote_code: bool) -> Any:
    """The tokenizer of a model that reads ``text``, the image processor of one that reads
    ``image``."""
    name, file = (
        ("tokenizer", "tokenizer.json")
        if reads == "text"
        else ("image processor", "preprocessor_config.json")
    )
    what = f"the folder has no usable {name}"
    step = f"put {file} next to the weights, or measure --what weights, which needs none"
    auto: Any = transformers.AutoTokenizer if reads == "text" else transformers.AutoImageProcessor
    try:
        reader = auto.from_pretrained(
            folder.path, local_files_only=True, trust_remote_code=trust_remote_code
        )
    except list_load_errors() as error:
        raise DataError(
            what, where=folder.path, got=_describe_error(error), next_step=step
        ) from error
    if reads == "text" and (len(reader) == 0 or not reader("a")["input_ids"]):
        raise DataError(
            what, where=folder.path, got="a tokenizer without vocabulary", next_step=step
        )
    return reader


def _read_class_config(folder: ModelFolder, entry: Architecture, trust_remote_code: bool) -> Any:
    """The configuration as the model's class has it; DataError for values that it refuses."""
    values = {"trust_remote_code": trust_remote_code, **entry.set_values}
    try:
        return load_class_config(folder.path, entry.loader, **values)
    except list_load_errors() as error:
        raise build_config_error(folder.path / "config.json", error) from error


def _load_module(
    folder: ModelFolder, entry: Architecture, attention: str, **options: Any
) -> nn.Module:
    open_checkpoint(folder.path)  # says precisely what is missing or damaged
    if attention != "default":
        options["attn_implementation"] = attention
    options |= {"local_files_only": True, "weights_only": True, "ignore_mismatched_sizes": True}
    try:
        auto: Any = getattr(transformers, entry.loader)
        model, info = auto.from_pretrained(folder.path, output_loading_info=True, **options)
    except (torch.OutOfMemoryError, MemoryError) as error:
        step = "try --dtype bfloat16 or --set device_map=auto"
        what = "out of memory while loading the model"
        raise TransientError(
            what, where=folder.model_id, got=_describe_error(error), next_step=step
        ) from error
    except list_load_errors() as error:
        step = "download it again, or check that config.json and weights belong together"
        what = "transformers cannot load the model"
        allowed = "weights that its configuration describes"
        raise DataError(
            what, where=folder.path, got=_describe_error(error), allowed=allowed, next_step=step
        ) from error
    _check_complete(folder, info, () if entry.has_head else entry.outside)
    loaded: nn.Module = model.eval()
    return loaded.get_submodule(entry.part)


def _check_complete(folder: ModelFolder, info: Mapping[str, Any], outside: tuple[str, ...]) -> None:
    """Raise DataError where a weight was left at random, ignored, or had another shape, modules
    `outside` aside."""

    def counts(name: str) -> bool:
        return not name.endswith(BUFFERS) and set(name.split(".")).isdisjoint(outside)

    shapes = {}
    for name, stored, wanted in info["mismatched_keys"]:
        shapes[name] = f"{name}: file {tuple(stored)}, configuration {tuple(wanted)}"
    missing = sorted(filter(counts, set(info["missing_keys"]) - set(shapes)))
    unexpected = sorted(filter(counts, info["unexpected_keys"]))
    wrong = {
        "of another shape": list(shapes.values()),
        "missing": missing,
        "unexpected": unexpected,
    }
    problems = []
    for what, names in wrong.items():
        if names:
            more = ", …" if len(names) > 1 else ""
            problems.append(f"{len(names)} {what} ({names[0]}{more})")
    problems += map(str, info["error_msgs"])
    if problems:
        step = (
            _suggest_prefix(missing, unexpected)
            or "check that config.json and the weights belong to the same model"
        )
        got = "tensors " + ", ".join(problems)
        raise DataError(
            "weights and configuration disagree", where=folder.path, got=got, next_step=step
        )


def _suggest_prefix(missing: Sequence[str], unexpected: Sequence[str]) -> str:
    """What to do where every name in the files is one that is missing, behind a prefix; empty
    elsewhere."""
    prefix = unexpected[0].removesuffix(missing[0]) if missing and unexpected else ""
    if not prefix or {f"{prefix}{name}" for name in missing} != set(unexpected):
        return ""
    return (
        f"all names in the files begin with {prefix!r}, as torch.compile or "
        f"DistributedDataParallel write them: "
        "save the model inside again (model._orig_mod, model.module)"
    )


def _describe_error(error: BaseException) -> str:
    said = take_first_line(error, 200)
    return said if said == type(error).__name__ else f"{type(error).__name__}: {said}"

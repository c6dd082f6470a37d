"""A model of a folder's configuration without weights: its facts, and how many weights it has."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thermostats.errors import ThermostatsError, UsageError, build_install_error, take_first_line
from thermostats.measurement.checkpoint import list_load_errors, read_geometry
from thermostats.measurement.gguf_parts import is_gguf
from thermostats.measurement.hub import fetch_config_folder, find_local_folder
from thermostats.measurement.lookup import lookup
from thermostats.measurement.spectra import read_config
from thermostats.tables.choices import MAIN, split_revision

if TYPE_CHECKING:
    import torch


def count_parameters(folder: Path, loader: str = "AutoModelForCausalLM", **values: bool) -> int:
    """Weights of the model that a folder's configuration describes, tied ones once; raises as
    `build_empty_model` does."""
    return sum(
        parameter.numel() for parameter in build_empty_model(folder, loader, **values).parameters()
    )


def read_config_facts(model: str | Path) -> dict[str, int]:
    """n_layers, n_heads, d_head and n_params (tied weights once) by a configuration alone; no
    weights are read.

    model: a config.json or other file of its kind, a model's folder, or a hub id, behind an @
    a revision. Counting needs torch, which builds the model without memory.

    Raises UsageError for what is no model, for a class that is not described, that norms the stream
    itself or that does not attend to text; DataError for a configuration that is damaged.
    """
    path = Path(model).expanduser()
    if not path.is_file() or is_gguf(path):
        name, revision = split_revision(str(model))
        find_local_folder(name)
        return _read_facts(fetch_config_folder(name, revision=revision or MAIN))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copyfile(path, Path(folder) / "config.json")
        return _read_facts(Path(folder))


def _read_facts(folder: Path) -> dict[str, int]:
    config = read_config(folder)
    entry = lookup(config)
    if not (entry.additive and entry.attends and entry.reads == "text"):
        what = "gains of models of this class are not compared with those of others"
        allowed = "decoders that attend and add to their stream without norming it"
        raise UsageError(what, got=f"model_type {entry.model_type}", allowed=allowed)
    g = read_geometry(entry, config)
    try:
        n_params = count_parameters(folder, entry.loader, **entry.set_values)
    except ModuleNotFoundError as error:
        raise build_install_error(
            error, "counting a model's weights needs torch and transformers"
        ) from error
    return {"n_layers": g.n_layers, "n_heads": g.n_heads, "d_head": g.d_head, "n_params": n_params}


def build_empty_model(
    folder: Path, loader: str = "AutoModelForCausalLM", **values: bool
) -> torch.nn.Module:
    """The model that a folder's configuration describes, without memory and without its weights.

    `values` stand in the place of the configuration's own.

    Raises ThermostatsError where transformers cannot build it.
    """
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    auto: Any = getattr(transformers, loader)
    try:
        config = load_class_config(folder, loader, **values)
        with torch.device("meta"):
            model: torch.nn.Module = (
                auto.from_config(config) if loader.startswith("Auto") else auto(config)
            )
    except list_load_errors() as error:
        raise ThermostatsError(
            "transformers cannot build the model",
            where=folder,
            got=take_first_line(error),
            allowed="a configuration that its class takes",
            next_step="check config.json against that of the model's page",
        ) from error
    model.tie_weights()  # type: ignore[operator]
    return model


def load_class_config(
    folder: Path, loader: str, *, trust_remote_code: bool = False, **values: bool
) -> Any:
    """transformers' configuration of the model in a folder, `values` in the place of its own.

    What it says of the kernel that computes attention, which may not be installed here, and of the
    form in which outputs are returned is no part of the model, and left out.
    """
    import transformers  # noqa: PLC0415

    auto: Any = getattr(transformers, loader)
    kind = transformers.AutoConfig if loader.startswith("Auto") else auto.config_class
    config = kind.from_pretrained(
        folder, local_files_only=True, trust_remote_code=trust_remote_code, **values
    )
    config._attn_implementation = None
    for part in (
        config,
        *(getattr(config, name, None) for name in getattr(config, "sub_configs", ())),
    ):
        if part is not None:
            part.return_dict, part.output_hidden_states, part.output_attentions = True, False, False
    return config

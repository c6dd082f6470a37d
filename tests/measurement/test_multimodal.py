"""A class that reads pictures too: its text tower is measured, by itself and from either naming of its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch
from safetensors.torch import load_file, save_file

from thermostats.measurement.gains import measure_gains
from thermostats.measurement.hub import model_folder
from thermostats.measurement.loading import load
from thermostats.measurement.model_row import model_row
from thermostats.measurement.spectra import weights
from thermostats.tables.schemas import TABLES

NAMES = {
    "model.language_model.": "language_model.model.",
    "model.vision_tower.": "vision_tower.",
    "model.multi_modal_projector.": "multi_modal_projector.",
    "lm_head.": "language_model.lm_head.",
}
"""Names of transformers' modules → names in the files on the hub."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny.build("gemma3").save_pretrained(tmp_path)
    return tmp_path


def renamed(folder: Path, names: dict[str, str]) -> None:
    def name(old: str) -> str:
        return next((new + old[len(start) :] for start, new in names.items() if old.startswith(start)), old)

    tensors = load_file(folder / "model.safetensors")
    save_file({name(old): tensor for old, tensor in tensors.items()}, folder / "model.safetensors", {"format": "pt"})


def test_spectra_are_those_of_the_text_tower_under_either_naming(folder: Path) -> None:
    tower = tiny.build("gemma3").model.language_model
    for names in ({new: old for old, new in NAMES.items()}, NAMES):
        renamed(folder, names)
        rows = weights(folder).set_index(["layer", "matrix", "head"])["spectral_norm"]
        for layer, block in enumerate(tower.layers, start=1):
            expected = float(torch.linalg.matrix_norm(block.self_attn.v_proj.weight.detach().double(), 2))
            assert rows.loc[(layer, "W_V", "")] == pytest.approx(expected, rel=1e-6)


def test_parameters_are_those_of_the_decoder(folder: Path) -> None:
    models = pd.DataFrame({name: [] for name in TABLES["models"].columns}).astype(
        {"model_id": "str", "heritage": "str"}
    )
    row = model_row(folder, model_id="tiny", revision="main", models=models)
    tower = tiny.build("gemma3").model.language_model
    assert row["n_params"] == sum(parameter.numel() for parameter in tower.parameters())
    assert (row["architecture"], row["n_layers"], row["norm_place"]) == ("gemma3", 3, "sandwich")


def test_gains_are_those_of_the_text_model_alone(folder: Path) -> None:
    prompts = tiny.prompts(4, 7)
    full = load(model_folder(str(folder)), device="cpu", tokenizer=False).decoder
    tower = full.base.language_model
    alone = tiny.places(tower)
    assert (full.entry.name, alone.entry.name) == ("gemma3", "gemma3_text")
    first, second = (measure_gains(each, prompts).layers for each in (full, alone))
    np.testing.assert_allclose(first["gain_block"], second["gain_block"], rtol=2e-6)
    assert measure_gains(full, prompts, decode=str).outputs is not None

"""Models that read images or sound too: their text tower is measured, out of the whole model's
folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch
import transformers

from thermostats.measurement.architectures import TEXT_TOWERS
from thermostats.measurement.class_facts import collect_facts
from thermostats.measurement.gains import measure_gains
from thermostats.measurement.hub import fetch_model_folder
from thermostats.measurement.loading import load
from thermostats.measurement.model_row import build_model_row
from thermostats.measurement.proof import check_conformance
from thermostats.measurement.spectra import measure_weights
from thermostats.tables.schemas import TABLES

SIDE: dict[str, Any] = {
    **{
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "image_size": 16,
    },
    **{
        "patch_size": 4,
        "depth": 2,
        "embed_dim": 32,
        "out_hidden_size": 32,
        "num_heads": 4,
        "d_model": 32,
    },
    **{
        "encoder_layers": 2,
        "encoder_attention_heads": 4,
        "encoder_ffn_dim": 40,
        "deepstack_visual_indexes": [0],
    },
}
"""What any other tower may want, as far as it has it."""
SECTIONS = {
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
}
IN_SECTIONS = (
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen3_vl",
    "qwen3_vl_moe",
    "glm4v",
    "glm46v",
    "glmga",
    "glm_ocr",
)
IN_SECTIONS += ("paddleocr_vl",)
"""Whose rotary frequencies are shared out to time, height and width."""
OFTEN = ("llava", "qwen2_vl", "idefics3", "granite_docling", "qwen2_audio")
"""One of each place of the tower and of each naming of files; the others are slow."""


def whole(name: str) -> Any:
    """A tiny model of a class with several towers."""
    kind = transformers.CONFIG_MAPPING[name]
    stated = kind().to_dict()
    parts: dict[str, Any] = {}
    for part in ("text_config", "vision_config", "audio_config", "encoder_config", "speech_config"):
        if isinstance(of := stated.get(part), dict):
            text = part == "text_config"
            small = (tiny.SMALL if text else SIDE).items()
            fits = {key: x for key, x in small if key in of and (text or type(of[key]) is type(x))}
            parts[part] = {
                **({"model_type": of["model_type"]} if of.get("model_type") else {}),
                **fits,
            }
    if name in IN_SECTIONS:
        parts["text_config"] |= SECTIONS
    try:
        config = kind(**parts)
    except (ValueError, TypeError):  # a tower of images that can have no other shape
        config = kind(text_config=parts["text_config"])
    return tiny.noisy(transformers.AutoModelForMultimodalLM.from_config(config))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in TEXT_TOWERS],
)
def test_the_text_tower_is_measured_out_of_the_whole_folder(name: str, tmp_path: Path) -> None:
    try:
        model = whole(name)
    except ImportError as error:
        pytest.skip(str(error))
    model.save_pretrained(tmp_path)
    opened = load(fetch_model_folder(str(tmp_path)), tokenizer=False).decoder
    assert check_conformance(opened).passed, check_conformance(opened)

    prompts = tiny.prompts(4, 7)
    measured = measure_gains(opened, prompts, decode=str)
    assert measured.outputs is not None
    tower = model.base_model.get_submodule(TEXT_TOWERS[name])
    for prompt in prompts:
        with torch.no_grad():
            out = tower(
                input_ids=torch.tensor([prompt.token_ids]),
                use_cache=False,
                output_hidden_states=True,
            )
        norms = [
            float(state[0, -1].norm()) for state in out.hidden_states[:-1]
        ]  # the last is normed
        rows = measured.layers.query(
            "prompt_id == @prompt.prompt_id and position == 'last'"
        ).set_index("layer")
        expected = np.array(norms[1:]) / np.array(norms[:-1])
        np.testing.assert_allclose(rows["gain_block"].loc[1 : len(expected)], expected, rtol=1e-4)

    none = pd.DataFrame({column: [] for column in TABLES["models"].columns})
    known = none.astype({"model_id": "str", "heritage": "str"})
    row = build_model_row(tmp_path, model_id="tiny", revision="main", models=known)
    head = 0 if row["tied_embeddings"] else model.get_output_embeddings().weight.numel()
    assert row["n_params"] == sum(parameter.numel() for parameter in tower.parameters()) + head
    assert row["modality"] == "decoder"
    facts = collect_facts(model, opened.entry, opened.config, tied=row["tied_embeddings"])
    assert {key: row[key] for key in facts} == facts
    if opened.entry.attends:
        spectra = (
            measure_weights(tmp_path)
            .query("matrix == 'W_V' and head == ''")
            .set_index("layer")["spectral_norm"]
        )
        block = opened.blocks[1]
        matrix = block.get_submodule(opened.entry.value).weight.detach().double()
        if opened.entry.layout == "separate":
            assert spectra.loc[2] == pytest.approx(
                float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-5
            )

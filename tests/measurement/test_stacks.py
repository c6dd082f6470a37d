"""The encoder of an encoder–decoder is a run of its own, read from the whole model's folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
import tiny
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from thermostats.measurement.execute import run_specs
from thermostats.measurement.spec import RunSpec
from thermostats.tables import store

WHOLE = {
    "t5": "T5ForConditionalGeneration",
    "mbart": "MBartForConditionalGeneration",
    "bart": "BartModel",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(store.find_shipped("data") / "models.csv", folder)
    return folder


def saved(name: str, folder: Path) -> torch.nn.Module:
    """A whole tiny model with a tokenizer that ends each text with a token of its own."""
    kind, arguments = tiny.CONFIGURATIONS[name]
    model = tiny.noisy(getattr(transformers, WHOLE[name])(getattr(transformers, kind)(**arguments)))
    model.tie_weights()
    model.save_pretrained(folder)
    words = Tokenizer(
        models.WordLevel({w: i for i, w in enumerate(["?", "</s>", *"abcdefg"])}, unk_token="?")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(
        folder
    )
    return model


@pytest.mark.parametrize(
    "name", ["t5", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mbart", "bart"))]
)
def test_the_encoder_is_measured_out_of_the_whole_folder(
    name: str, tmp_path: Path, data: Path
) -> None:
    model = saved(name, tmp_path / name)
    spec = RunSpec(str(tmp_path / name), prompts=str(small.save_prompts(tmp_path)), heritage="Us")
    (done,) = run_specs([spec], data)
    assert done.status == "measured", done.problem.reason
    assert done.model == f"{name}:encoder"
    assert store.check(data)["runs"] == 3
    row = store.load("models", data).set_index("model_id").loc[f"{name}:encoder"]
    encoder = model.get_encoder()
    assert row["n_params"] == sum(p.numel() for p in encoder.parameters())
    assert row["modality"] == "encoder"
    assert row["norm_kind"] == ("RMSNorm" if name == "t5" else "LayerNorm")
    layers = store.load("layers", data).set_index(["prompt_id", "layer", "position"])["gain_block"]
    stream: list[torch.Tensor] = []
    blocks = encoder.block if name == "t5" else encoder.layers
    for block in blocks:
        block.register_forward_pre_hook(
            lambda _m, args, kwargs: stream.append((args or list(kwargs.values()))[0]),
            with_kwargs=True,
        )
        block.register_forward_hook(
            lambda _m, _a, out: stream.append(out[0] if isinstance(out, tuple) else out)
        )
    with torch.no_grad():
        encoder(input_ids=torch.tensor([[2, 3, 4, 1]]))  # a b c
    for layer in range(3):
        before, after = (stream[2 * layer + i].reshape(4, -1).norm(dim=-1) for i in (0, 1))
        assert layers["p001", layer + 1, "cls"] == pytest.approx(
            float(after[0] / before[0]), rel=1e-5
        )
    (again,) = run_specs([spec], data)
    assert again.status == "skipped"

"""What a measurement refuses or says, a sentence each, of input that is in no other test."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gguf")

import gguf_small
import small
import tiny
import torch
import transformers
from safetensors.torch import load_file, save_file

from thermostats.errors import DataError, ThermostatsError, UnforeseenError, UsageError
from thermostats.measurement import spectra
from thermostats.measurement.empty_models import read_config_facts
from thermostats.measurement.from_python import measure
from thermostats.measurement.gains import measure_gains
from thermostats.measurement.gguf_files import prepare_gguf_folder
from thermostats.measurement.hub import fetch_model_folder
from thermostats.measurement.loading import load
from thermostats.measurement.model_row import check_quantised
from thermostats.measurement.proof import check_proof, drop_unproven


def configured(folder: Path, **changes: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


def keys_for_values(_: Path) -> None:
    """Gains stand: no value matrix is in them."""
    decoder = tiny.opened("llama")
    decoder = replace(decoder, entry=replace(decoder.entry, value="self_attn.k_proj"))
    measured, proof = (
        measure_gains(decoder, tiny.prompts(5)),
        check_proof(decoder, needed=("stream",)),
    )
    assert drop_unproven(measured, proof).layers.equals(measured.layers)
    check_proof(decoder, needed=("value",))


def pieces_the_wrong_way_round(place: Path) -> None:
    content = gguf_small.write(
        place / "m.gguf", gguf_small.tensors(gguf_small.model(tied=False))
    ).read_bytes()
    size = 3 * len(content) // 5
    (place / "m.gguf.001").write_bytes(content[size:])
    (place / "m.gguf.002").write_bytes(content[:size])
    prepare_gguf_folder(place / "m.gguf.001", place / "cache")


def model_in_a_wrapper(place: Path) -> None:
    folder = small.save_model(place / "m")
    model, tokenizer = (
        kind.from_pretrained(folder)
        for kind in (transformers.AutoModelForCausalLM, transformers.AutoTokenizer)
    )
    measure(torch.nn.DataParallel(model), tokenizer, prompts=["a b"], what="gains")


def weights_outside_the_folder(place: Path) -> None:
    folder = small.save_model(place / "m")
    (place / "averaged.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    spectra.measure_weights(configured(folder, transformers_weights="../averaged.safetensors"))


REFUSED: dict[Callable[[Path], None], tuple[type[ThermostatsError], str]] = {
    keys_for_values: (ThermostatsError, "W_V is not the matrix"),
    pieces_the_wrong_way_round: (DataError, "not of one file, or not in order"),
    model_in_a_wrapper: (UsageError, r"Next: measure\(model\.module, tokenizer\)"),
    weights_outside_the_folder: (DataError, "transformers_weights is no file of weights"),
}


@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__)
def test_what_cannot_be_measured_is_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    kind, words = REFUSED[make]
    with pytest.raises(kind, match=words):
        make(tmp_path)


def test_a_sublayer_that_writes_nothing_is_a_norm_of_zero() -> None:
    model = tiny.opened("llama")
    model.blocks[1].mlp.down_proj.weight.data.zero_()
    rows = measure_gains(model, tiny.prompts(5)).layers.set_index(["layer", "position"])
    assert (
        rows.loc[(2, "mean"), "missing"] == "norm of zero: gain_mlp, write_mlp, centred_write_mlp"
    )
    assert rows.loc[(2, "mean"), ["gain_mlp", "write_mlp", "centred_write_mlp"]].isna().all()
    assert rows.loc[(1, "mean"), "missing"] == ""


def test_weights_that_the_configuration_names_are_those_measured(tmp_path: Path) -> None:
    folder = small.save_model(tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    before = spectra.measure_weights(folder).set_index("matrix")["spectral_norm"]["embedding"]
    save_file(
        {n: 3 * x for n, x in tensors.items()},
        folder / "averaged.safetensors",
        metadata={"format": "pt"},
    )
    configured(folder, transformers_weights="averaged.safetensors")
    after = spectra.measure_weights(folder).set_index("matrix")["spectral_norm"]["embedding"]
    assert after == pytest.approx(3 * before, rel=1e-5)


def test_a_configuration_that_says_quantised_over_plain_weights_is_no_obstacle(
    tmp_path: Path,
) -> None:
    folder = small.save_model(tmp_path / "m")
    stated = {"quantization_config": {"quant_method": "fp8"}}
    check_quantised({**json.loads((folder / "config.json").read_text()), **stated}, folder)


REFUSED_BY_ITS_CLASS = {"num_attention_heads": "four", "head_dim": 7, "rope_parameters": 3}
"""Values that transformers' class of llama refuses, each with an error of another kind."""


@pytest.mark.parametrize("key", REFUSED_BY_ITS_CLASS)
def test_a_configuration_that_its_class_refuses_is_refused_in_words(
    key: str, tmp_path: Path
) -> None:
    folder = small.save_model(tmp_path / "m")
    decoder = tiny.opened("llama")
    decoder.model.save_pretrained(folder)  # type: ignore[operator]
    configured(folder, **{key: REFUSED_BY_ITS_CLASS[key]})
    prompts = small.save_prompts(tmp_path)
    for call in (
        lambda: measure(folder, prompts=prompts, what="gains", heritage="Us", data=tmp_path / "d"),
        lambda: read_config_facts(folder / "config.json"),
        lambda: load(fetch_model_folder(str(folder)), device="cpu"),
    ):
        with pytest.raises(ThermostatsError) as raised:
            call()
        assert not isinstance(raised.value, UnforeseenError) and raised.value.allowed
        assert "tokenizer" not in raised.value.what


OUT = "transformer.h.1.attn.c_proj"
PARAMETRISED = f"{OUT}.parametrizations.weight.original"


def normalise_a_weight(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """hexgrad/kokoro#368: as torch writes a weight that is norm and direction."""
    weight = tensors.pop(f"{OUT}.weight")
    size = weight.norm(dim=1, keepdim=True)
    return {**tensors, f"{PARAMETRISED}0": size, f"{PARAMETRISED}1": weight / size}


def normalise_beside(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"{OUT}.weight": tensors[f"{OUT}.weight"], **normalise_a_weight({**tensors})}


def rename_all(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Blaizzy/mlx-audio#902, bytedance/Bernini#75: no name is one of the class."""
    return {f"other.{i}": tensor for i, tensor in enumerate(tensors.values())}


def drop_biases(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """paiml/entrenar#258: a training has saved weights alone."""
    return {name: x for name, x in tensors.items() if not name.endswith("c_attn.bias")}


STORED = {
    normalise_a_weight: "missing.*c_proj.*unexpected",
    normalise_beside: "unexpected.*parametrizations",
    rename_all: "lacks a tensor",
    drop_biases: "missing.*c_attn.bias",
}


@pytest.mark.parametrize("change", STORED, ids=lambda change: change.__name__)
def test_files_that_are_not_of_the_class_are_refused_by_name(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], tmp_path: Path
) -> None:
    folder = small.save_model(tmp_path / "m")
    stored = {n: x.contiguous() for n, x in change(load_file(folder / "model.safetensors")).items()}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    prompts = small.save_prompts(tmp_path)
    with pytest.raises(DataError, match=STORED[change]):
        measure(folder, prompts=prompts, what="gains", heritage="Us", data=tmp_path / "d")

"""What is measured is what computes: facts, counts and matrices of the files against the model that
is loaded."""

from __future__ import annotations

import inspect
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
import tiny
import torch
import transformers
from safetensors.torch import load_file, save_file

from thermostats.errors import DataError, UsageError
from thermostats.measurement import spectra
from thermostats.measurement.checkpoint import read_geometry
from thermostats.measurement.class_facts import check_loaded, collect_facts, find_differences
from thermostats.measurement.empty_models import build_empty_model
from thermostats.measurement.forward import Decoder
from thermostats.measurement.from_python import measure
from thermostats.measurement.hub import ModelFolder
from thermostats.measurement.loading import load
from thermostats.measurement.model_row import build_model_row
from thermostats.measurement.spectra import read_config
from thermostats.tables import store
from thermostats.tables.identities import WEIGHTS, count_parameters

KNOWN = pd.DataFrame({"model_id": [], "heritage": []}, dtype="str")


@pytest.fixture(params=tiny.in_turn(), scope="module")
def model(request: pytest.FixtureRequest) -> Decoder:
    return tiny.opened(request.param)


def row_of(folder: Path, reads: str = "text") -> dict[str, Any]:
    return build_model_row(folder, model_id="a/b", revision="main", models=KNOWN, reads=reads)


def loaded(folder: Path, reads: str = "text") -> Decoder:
    return load(
        ModelFolder("a/b", "main", folder, "", reads=reads), device="cpu", tokenizer=False
    ).decoder


def test_facts_of_the_files_are_those_of_the_class_and_of_the_loaded_model(
    model: Decoder, tmp_path: Path
) -> None:
    if model.config.get("is_encoder_decoder") or model.entry.name in {"t5", "mt5", "umt5"}:
        pytest.skip("files hold the whole model, of which this stack is a part: test_stacks")
    model.model.save_pretrained(tmp_path)  # type: ignore[operator]
    row, config = row_of(tmp_path, model.entry.reads), read_config(tmp_path, model.entry.reads)
    places = loaded(tmp_path, model.entry.reads)
    tied = check_loaded(places, tmp_path, config)
    by_class = collect_facts(
        build_empty_model(tmp_path, places.entry.loader), places.entry, config, tied=tied
    )
    assert find_differences(row, by_class, "of the class") == []
    assert (
        find_differences(
            row, collect_facts(places.model, places.entry, config, tied=tied), "loaded"
        )
        == []
    )
    inside = [
        parameter.numel()
        for name, parameter in places.model.named_parameters()
        if not set(name.split(".")) & set(places.entry.outside)
    ]
    assert row["n_params"] == sum(inside)


def test_a_gate_multiplies(model: Decoder) -> None:
    """A gated layer grows by one power of its input more than its activation does: f(cx) ~ c^(a +
    1), else c^a."""
    if not model.entry.mlp:
        pytest.skip("no feed-forward layer")
    layer = model.blocks[-1].get_submodule(model.entry.mlp)
    for module in layer.modules():
        for name in ("limit", "swiglu_limit"):
            if hasattr(module, name):
                setattr(module, name, math.inf)  # a layer that is clamped grows no more
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.endswith("bias") or {"gate", "router"} & set(
                name.split(".")
            ):  # experts count alike
                parameter.zero_()
        x = torch.randn(
            1,
            64,
            read_geometry(model.entry, model.config).d_model,
            generator=torch.Generator().manual_seed(4),
        )
        more = (
            [torch.zeros_like(x)]
            if "residual" in inspect.signature(layer.forward).parameters
            else []
        )

        def size(scale: float) -> float:
            out = layer(scale * x, *more)
            return float((out if isinstance(out, torch.Tensor) else out[0]).double().norm())

        power = math.log2(size(2e4) / size(1e4))
    facts = collect_facts(model.model, model.entry, model.config, tied=True)
    assert power - activation_power(layer) == pytest.approx(int(facts["gated_mlp"]), abs=0.05)


def activation_power(layer: torch.nn.Module) -> int:
    """Power with which the activation of a layer grows; 1 where it has none of its own (a linear
    map)."""
    names = ("act_fn", "act", "activation_fn", "intermediate_act_fn", "activation", "gelu_impl")
    powers = [
        getattr(m, n) for m in layer.modules() for n in names if callable(getattr(m, n, None))
    ]
    if not powers:
        return 1
    far = torch.full((1, 1), 1e4)
    return round(math.log2(powers[0](2 * far).item() / powers[0](far).item()))


LEARNED = (
    "gpt2",
    "gpt_neo",
    "opt",
    "biogpt",
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "data2vec-text",
    "luke",
)
LEARNED += (
    "mpnet",
    "esm",
    "roberta-prelayernorm",
    "megatron-bert",
    "distilbert",
    "albert",
    "electra",
    "roformer",
)


@pytest.mark.parametrize("name", sorted({*WEIGHTS} & {*tiny.CONFIGURATIONS}))
def test_formula_headers_and_model_count_the_same(name: str, tmp_path: Path) -> None:
    model = tiny.build(
        name, **({"bias": False} if name == "falcon" else {})
    )  # the formula stands for its 7b form
    model.save_pretrained(tmp_path)
    row = row_of(tmp_path)
    assert count_parameters(row) == (row["n_params"], row["n_params_nonembedding"])
    assert row["n_params"] == sum(parameter.numel() for parameter in model.parameters())


def with_tensors(folder: Path, **more: torch.Tensor) -> Path:
    path = folder / "model.safetensors"
    save_file({**load_file(path), **more}, path, metadata={"format": "pt"})
    return folder


def saved(name: str, folder: Path) -> Path:
    tiny.build(name).save_pretrained(folder)
    return folder


def test_layers_that_never_run_are_not_counted_and_named(tmp_path: Path) -> None:
    folder = saved("llama", tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    more = {
        n.replace("layers.2.", "layers.3."): v.clone()
        for n, v in tensors.items()
        if "layers.2." in n
    }
    with_tensors(folder, **more, **{"model.mtp_head.weight": torch.ones(7, 7)})
    with pytest.warns(UserWarning, match=f"{len(more) + 1} tensors, such as model.layers.3"):
        measure(folder, tmp_path / "data", what="weights")
    row = store.load("models", tmp_path / "data").set_index("model_id").loc["m"]
    assert row["n_params"] == sum(p.numel() for p in tiny.build("llama").parameters())
    run = store.load("runs", tmp_path / "data").set_index("model_id").loc["m"]
    assert "belong to no block that runs" in run["differences"]


def heads(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    return (
        model.get_input_embeddings().weight.detach(),
        model.get_output_embeddings().weight.detach(),
    )


@pytest.mark.parametrize("says", [True, False, None])
@pytest.mark.parametrize("stored", ["another", "the same", "none", "head alone"])
def test_unembedding_is_the_one_that_is_loaded(
    stored: str, says: bool | None, tmp_path: Path
) -> None:
    folder = saved("llama", tmp_path)
    tensors = load_file(folder / "model.safetensors")
    if stored == "the same":
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    if stored == "none":
        del tensors["lm_head.weight"]
    if stored == "head alone":
        del tensors["model.embed_tokens.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config.pop("tie_word_embeddings", None)
    (folder / "config.json").write_text(
        json.dumps({**config, **({} if says is None else {"tie_word_embeddings": says})})
    )
    if stored in ("none", "head alone") and says is not True:
        if says is False:
            with pytest.raises(DataError, match="lacks a tensor"):
                spectra.measure_weights(folder)
        with pytest.raises(DataError, match="weights and configuration disagree"):
            loaded(folder)  # transformers leaves it at random
        return
    rows = spectra.measure_weights(folder).set_index("matrix")["spectral_norm"]
    for name, matrix in zip(("embedding", "unembedding"), heads(folder), strict=True):
        assert rows[name] == pytest.approx(
            float(torch.linalg.matrix_norm(matrix.double(), 2)), rel=1e-5
        )
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tied = check_loaded(loaded(folder), folder, read_config(folder))
    assert tied == (model.get_output_embeddings().weight is model.get_input_embeddings().weight)
    if (stored, says) != ("the same", None):  # only the class can tell whether it ties by itself
        assert row_of(folder)["tied_embeddings"] == tied
        assert row_of(folder)["n_params"] == sum(p.numel() for p in model.parameters())


def shards(folder: Path, last: float) -> Path:
    """A model in two shards; the second has a matrix of the first too, multiplied by `last`."""
    held = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    name = "model.layers.0.self_attn.o_proj.weight"
    parts = {"a.safetensors": held, "b.safetensors": {name: held[name] * last}}
    for file, tensors in parts.items():
        save_file(tensors, folder / file, metadata={"format": "pt"})
    places = dict.fromkeys(held, "a.safetensors") | {"model.norm.weight": "b.safetensors"}
    parts["b.safetensors"]["model.norm.weight"] = held.pop("model.norm.weight")
    for file, tensors in parts.items():
        save_file(tensors, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize("last", [pytest.param(1.0, marks=pytest.mark.slow), 7.0])
def test_a_tensor_in_two_shards_is_measured_as_it_is_loaded(last: float, tmp_path: Path) -> None:
    folder = shards(saved("llama", tmp_path / "m"), last)
    if last == 1.0:
        measure(folder, tmp_path / "data", what="weights")
    else:
        with pytest.warns(
            UserWarning, match=r"o_proj.weight is in a.safetensors and b.safetensors"
        ):
            measure(folder, tmp_path / "data", what="weights")
    run = store.load("runs", tmp_path / "data").set_index("model_id").loc["m"]
    assert bool(run["differences"]) == (last != 1.0)
    rows = store.load("weights", tmp_path / "data", runs=[run["run_id"]])
    rows = rows[
        (rows["run_id"] == run["run_id"])
        & (rows["layer"] == 1)
        & (rows["matrix"] == "W_O")
        & (rows["head"] == "")
    ]
    computing = (
        transformers.AutoModelForCausalLM.from_pretrained(folder)
        .model.layers[0]
        .self_attn.o_proj.weight
    )
    norm = float(torch.linalg.matrix_norm(computing.detach().double(), 2))
    assert rows["spectral_norm"].tolist() == pytest.approx([norm], rel=1e-5)


def test_a_model_that_computes_with_other_numbers_than_its_files_is_refused(tmp_path: Path) -> None:
    folder = saved("llama", tmp_path)
    places = loaded(folder)
    check_loaded(places, folder, read_config(folder))
    with torch.no_grad():
        places.blocks[2].self_attn.v_proj.weight[0, 0] += 0.5  # type: ignore[union-attr, operator]
    with pytest.raises(
        DataError, match="not the one that the loaded model computes with"
    ) as caught:
        check_loaded(places, folder, read_config(folder))
    assert caught.value.got == "model.layers.2.self_attn.v_proj.weight, largest difference 0.5"


@pytest.mark.parametrize(
    ("name", "changes", "facts"),
    [
        ("dinov2", {"use_swiglu_ffn": True, "mlp_ratio": 3}, {"gated_mlp": True, "d_ff": 64}),
        ("dinov3_vit", {"use_gated_mlp": True}, {"gated_mlp": True, "d_ff": 40}),
        ("mpt", {"expansion_ratio": 2}, {"gated_mlp": False, "d_ff": 128}),
        ("falcon", {"ffn_hidden_size": 48}, {"d_ff": 48}),
        (
            "modernbert",
            {},
            {"gated_mlp": True, "d_ff": 40, "n_positions": 0, "position_scheme": "rotary"},
        ),
        ("gpt_oss", {}, {"gated_mlp": True, "d_ff": 40}),
        ("qwen3_moe", {"intermediate_size": 99}, {"gated_mlp": True, "d_ff": 24}),
        ("deepseek_v3", {}, {"gated_mlp": True, "d_ff": 40}),
        ("gemma3", {}, {"n_positions": 0, "position_scheme": "rotary"}),
        ("roformer", {}, {"n_positions": 0, "position_scheme": "rotary"}),
        ("phimoe", {}, {"norm_kind": "LayerNorm"}),
        ("swin", {}, {"position_scheme": "relative"}),
        (
            "granitemoehybrid_dense",
            {"position_embedding_type": "rope"},
            {"position_scheme": "rotary"},
        ),
        (
            "granitemoehybrid_dense",
            {"position_embedding_type": "nope"},
            {"position_scheme": "none"},
        ),
        ("granitemoehybrid_dense", {}, {"position_scheme": "none"}),
    ],
)
def test_facts_by_hand(
    name: str, changes: dict[str, Any], facts: dict[str, Any], tmp_path: Path
) -> None:
    model = tiny.build(name, **changes)
    model.save_pretrained(tmp_path)
    row = row_of(tmp_path, tiny.places(model).entry.reads)
    assert {label: row[label] for label in facts} == facts


def test_adapters_beside_a_model_are_named(tmp_path: Path) -> None:
    folder = small.save_model(tmp_path / "m")
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(UsageError, match="adapters"):
        measure(folder, tmp_path / "data", prompts=str(small.save_prompts(tmp_path)), what="gains")


def save_as_listed(folder: Path, n_layers: int) -> Path:
    """A model of random weights in the shape of roneneldan/TinyStories-1M, or of another depth."""
    config = transformers.GPTNeoConfig(
        vocab_size=50257,
        hidden_size=64,
        num_layers=n_layers,
        num_heads=16,
        attention_types=[[["global", "local"], n_layers // 2]],
        intermediate_size=256,
    )
    transformers.GPTNeoForCausalLM(config).save_pretrained(folder)
    return folder


def test_a_public_model_that_is_listed_has_the_lab_and_family_that_the_list_states(
    tmp_path: Path,
) -> None:
    """Else the line that `thermostats next` gives would bring rows that no claim reads."""
    candidates = store.load("candidates")
    listed = candidates.set_index("model_id").loc["roneneldan/TinyStories-1M"]
    assert listed["heritage"] and listed["family"]
    for depth, lab in ((int(listed["n_layers"]), listed["heritage"]), (4, "")):
        folder = save_as_listed(tmp_path / str(depth), depth)
        own = tmp_path / f"rows{depth}"
        name = "roneneldan/TinyStories-1M"
        measure(str(folder), name=name, what=("weights",), data=own)
        row = store.load("models", own).set_index("model_id").loc[name]
        assert row["heritage"] == lab and row["family"] == (listed["family"] if lab else "")

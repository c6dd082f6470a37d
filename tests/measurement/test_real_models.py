"""Shipped rows of trained models out of packages, against the same models written out in plain torch.

The folders are those of `scripts/real_models.py`, at `$THERMOSTATS_REAL_MODELS`; without it these tests are skipped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from thermostats.tables import store

PLACE = Path(os.environ.get("THERMOSTATS_REAL_MODELS", ""))
ENCODERS = {
    "rxnfp/bert_pretrained": "rxnfp-bert_pretrained",
    "rxnfp/bert_ft_10k_25s": "rxnfp-bert_ft_10k_25s",
    "rxnfp/bert_ft": "rxnfp-bert_ft",
    "rxnmapper/albert_heads_8_uspto_all_1310k": "rxnmapper-albert",
    "sentence-transformers/all-MiniLM-L6-v2": "all-MiniLM-L6-v2",
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (PLACE / "all-MiniLM-L6-v2").is_dir(), reason="scripts/real_models.py has not been run"),
]
State = dict[str, Tensor]


def state_of(folder: Path) -> State:
    """Weights in float64, without the name of the base model."""
    path = folder / "model.safetensors"
    held = (
        load_file(path)
        if path.is_file()
        else torch.load(folder / "pytorch_model.bin", weights_only=True, map_location="cpu")
    )
    plain = {name.removeprefix("bert.").removeprefix("albert."): x for name, x in held.items()}
    return {name: x.double() for name, x in plain.items() if x.is_floating_point()}


def linear(state: State, name: str, x: Tensor) -> Tensor:
    return functional.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])


def norm(state: State, name: str, x: Tensor, eps: float) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], eps)


def attend(state: State, names: tuple[str, str, str], x: Tensor, heads: int) -> Tensor:
    """softmax(q kᵀ/√d_h) v, every token to every token."""
    q, k, v = (linear(state, name, x).unflatten(-1, (heads, -1)).transpose(0, 1) for name in names)
    weights = torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, dim=-1)
    return (weights @ v).transpose(0, 1).flatten(1)


def encoder(folder: Path, ids: list[int]) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Gains and both sums before the norms, by layer, of every token."""
    config, state = json.loads((folder / "config.json").read_text()), state_of(folder)
    eps, heads = config["layer_norm_eps"], config["num_attention_heads"]
    tables = [state[f"embeddings.{name}_embeddings.weight"] for name in ("word", "token_type", "position")]
    x = norm(state, "embeddings.LayerNorm", tables[0][ids] + tables[1][0] + tables[2][: len(ids)], eps)
    shared = config["model_type"] == "albert"
    if shared:
        x = linear(state, "encoder.embedding_hidden_mapping_in", x)
    ratios = []
    for layer in range(config["num_hidden_layers"]):
        at = "encoder.albert_layer_groups.0.albert_layers.0" if shared else f"encoder.layer.{layer}"
        place = f"{at}.attention" if shared else f"{at}.attention.self"
        out = f"{at}.attention.dense" if shared else f"{at}.attention.output.dense"
        ln = f"{at}.attention.LayerNorm" if shared else f"{at}.attention.output.LayerNorm"
        read = attend(state, (f"{place}.query", f"{place}.key", f"{place}.value"), x, heads)
        first = x + linear(state, out, read)
        middle = norm(state, ln, first, eps)
        up, down = (f"{at}.ffn", f"{at}.ffn_output") if shared else (f"{at}.intermediate.dense", f"{at}.output.dense")
        second = middle + linear(state, down, functional.gelu(linear(state, up, middle)))
        y = norm(state, f"{at}.full_layer_layer_norm" if shared else f"{at}.output.LayerNorm", second, eps)
        n = [each.norm(dim=-1) for each in (x, middle, first, second, y)]
        ratios.append((n[4] / n[0], n[2] / n[0], n[3] / n[1]))
        x = y
    return ratios


def rows_of(model: str) -> Any:
    layers = store.load("layers")
    runs = store.load("runs")
    run = runs[(runs["model_id"] == model) & (runs["attention"] == "default")]["run_id"].iloc[0]
    return layers[layers["run_id"] == run].set_index(["prompt_id", "layer", "position"])


@pytest.mark.parametrize("model", ENCODERS)
def test_shipped_rows_of_encoders_are_those_of_plain_torch(model: str) -> None:
    folder, rows = PLACE / ENCODERS[model], rows_of(model)
    prompts = store.load("prompts").set_index("prompt_id")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for prompt in sorted(set(rows.index.get_level_values("prompt_id")))[::5]:
        text = prompts.loc[[prompt], "text"].iloc[0]
        for layer, numbers in enumerate(encoder(folder, tokenizer.encode(text).ids), 1):
            for column, x in zip(("gain_block", "gain_sum_attention", "gain_sum_mlp"), numbers, strict=True):
                expected = {"cls": x[0], "last": x[-2], "mean": x[1:-1].log().mean().exp()}
                for position, value in expected.items():
                    got = rows.loc[(prompt, layer, position), column]
                    assert got == pytest.approx(float(value), rel=1e-4), (prompt, layer, position, column)

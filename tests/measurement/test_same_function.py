"""The distance of functions: 0 for what any composition of allowed changes connects, not 0 for
anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch
import wide

from thermostats.errors import UsageError
from thermostats.measurement import gauge
from thermostats.measurement.compare import compare, weight_distances
from thermostats.measurement.forward import Decoder
from thermostats.measurement.gauge import ModelWeights, extract_weights, replace_weights
from thermostats.measurement.same_function import measure_function_distance

SAME = 1e-9
"""Rounding in float64."""
FIVE = ("llama", "qwen3", "gpt_neox", "gpt2", "opt")
HEADS, GROUPS = 4, {"llama": 2, "qwen3": 2}


def blocks(weights: ModelWeights) -> list[str]:
    return [weights.start(layer) for layer in weights.layers]


def projections(name: str) -> tuple[str, str]:
    """The matrix into attention, {} for q, k and v where they are apart, and the one out of it."""
    return {
        "gpt2": ("attn.c_attn", "attn.c_proj"),
        "gpt_neox": ("attention.query_key_value", "attention.dense"),
        "opt": ("self_attn.{}_proj", "self_attn.out_proj"),
    }.get(name, ("self_attn.{}_proj", "self_attn.o_proj"))


def feed_forward(name: str) -> tuple[str, str]:
    return {
        "gpt2": ("mlp.c_fc", "mlp.c_proj"),
        "gpt_neox": ("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
        "opt": ("fc1", "fc2"),
    }.get(name, ("mlp.up_proj", "mlp.down_proj"))


def by_columns(name: str, tensors: dict[str, Any], path: str) -> np.ndarray:
    """A view of a matrix as outputs × inputs."""
    matrix = tensors[f"{path}.weight"]
    return matrix.T if name == "gpt2" and not path.startswith("lm_head") else matrix


def copied(weights: ModelWeights) -> dict[str, Any]:
    return {key: x.copy() for key, x in weights.tensors.items()}


def qkv(name: str, tensors: dict[str, Any], start: str) -> list[list[np.ndarray]]:
    """Rows of queries and keys with their biases, head by head, as views: [queries, keys] of
    [weights, biases]."""
    path, _ = projections(name)
    parts: list[list[np.ndarray]] = []
    for i, each in enumerate("qk"):
        if name in ("gpt2", "gpt_neox"):
            pair = [by_columns(name, tensors, start + path), tensors[f"{start}{path}.bias"]]
            if name == "gpt2":
                d = pair[0].shape[1]
                pair = [x[i * d : (i + 1) * d].reshape(HEADS, -1, *x.shape[1:]) for x in pair]
            else:
                pair = [x.reshape(HEADS, 3, -1, *x.shape[1:])[:, i] for x in pair]
        else:
            n = HEADS if each == "q" else GROUPS.get(name, HEADS)
            held = [
                tensors.get(f"{start}{path.format(each)}.{kind}") for kind in ("weight", "bias")
            ]
            pair = [x.reshape(n, -1, *x.shape[1:]) for x in held if x is not None]
        parts.append(pair)
    return parts


def turn_queries(weights: ModelWeights) -> ModelWeights:
    """W_Q → A W_Q, W_K → A⁻ᵀ W_K: on rotary pairs A = c·R(φ), elsewhere any; with normed queries
    W_Q × c."""
    name, tensors, rng = weights.entry.name, copied(weights), np.random.default_rng(11)
    epsilon = {}
    for start in blocks(weights):
        queries, keys = qkv(name, tensors, start)
        if name == "qwen3":
            queries[0] *= 4
            epsilon[f"{start}self_attn.q_norm"] = 16.0
            continue
        d_h = queries[0].shape[1]
        rotary = {"llama": d_h, "gpt_neox": d_h // 4}.get(name, 0)
        for k in range(len(keys[0])):
            A = np.zeros((d_h, d_h))
            for i in range(rotary // 2):
                c, phi = rng.uniform(0.5, 2), rng.uniform(0, 6)
                turn = c * np.array([[np.cos(phi), -np.sin(phi)], [np.sin(phi), np.cos(phi)]])
                A[np.ix_([i, i + rotary // 2], [i, i + rotary // 2])] = turn
            A[rotary:, rotary:] = np.eye(d_h - rotary) + 0.3 * rng.standard_normal(
                (d_h - rotary, d_h - rotary)
            )
            inverse = np.linalg.inv(A).T
            share = HEADS // len(keys[0])
            for x in keys:
                x[k] = np.einsum("ij,j...->i...", inverse, x[k])
            for x in queries:
                for h in range(k * share, (k + 1) * share):
                    x[h] = np.einsum("ij,j...->i...", A, x[h])
    return weights.replace_tensors(tensors, epsilon)


def scale_stream(weights: ModelWeights, c: float = 4.0) -> ModelWeights:
    """Embeddings and all writes × c, ε × c²; the head of a tied model is put apart by what came
    before."""
    name, tensors = weights.entry.name, copied(weights)
    writes = [
        f"{start}{path}"
        for start in blocks(weights)
        for path in (projections(name)[1], feed_forward(name)[1])
    ]
    ends = ["embed_tokens", "wte", "wpe", "embed_in", "embed_positions"]
    for key in tensors:
        if key.rpartition(".")[0] in writes or key.split(".")[-2] in ends:
            tensors[key] = tensors[key] * c
    inside = (weights.entry.attention_norm, weights.entry.mlp_norm)
    norms = {f"{start}{norm}" for start in blocks(weights) for norm in inside}
    norms.add(weights.name(weights.entry.final_norm).removesuffix(".weight"))
    return weights.replace_tensors(tensors, dict.fromkeys(norms, c * c))


def turn_stream(weights: ModelWeights) -> ModelWeights:
    """The stream turned by an orthogonal R, with R1 = 1 where norms subtract the mean; norm weights
    are folded."""
    name, weights = weights.entry.name, gauge.fold_norms(weights)
    tensors, rng = copied(weights), np.random.default_rng(12)
    d = weights.config.get("hidden_size") or weights.config["n_embd"]
    R = np.linalg.qr(rng.standard_normal((d, d)))[0]
    if name in ("gpt2", "gpt_neox", "opt"):
        basis = np.linalg.qr(np.column_stack([np.ones(d), rng.standard_normal((d, d - 1))]))[0]
        inner = np.eye(d)
        inner[1:, 1:] = np.linalg.qr(rng.standard_normal((d - 1, d - 1)))[0]
        R = basis @ inner @ basis.T
    readers = {
        key
        for layer in weights.layers
        for key in weights.list_readers(layer, gauge.ATTENTION_READERS)
    }
    readers |= {
        key for layer in weights.layers for key in weights.list_readers(layer, gauge.MLP_READERS)
    }
    writes = [
        f"{start}{path}"
        for start in blocks(weights)
        for path in (projections(name)[1], feed_forward(name)[1])
    ]
    ends = ("embed_tokens", "wte", "wpe", "embed_in", "embed_positions", "lm_head")
    for key, x in tensors.items():
        path = key.rpartition(".")[0]
        norm = (
            path.split(".")[-1].startswith(("ln", "input_layernorm"))
            or "layer_norm" in path
            or "layernorm" in path
        )
        if key in readers:
            tensors[key] = R @ x if name == "gpt2" else x @ R.T
        elif key.endswith("bias") and (path in writes or norm):
            tensors[key] = R @ x
        elif path in writes:
            tensors[key] = x @ R.T if name == "gpt2" else R @ x
        elif path.split(".")[-1] in ends:
            tensors[key] = x @ R.T
    return weights.replace_tensors(tensors)


def move_neurons(weights: ModelWeights) -> ModelWeights:
    """Neurons in another order; of gated and ReLU ones up × c and down / c, c < 0 too where there
    is a gate."""
    name, tensors, rng = weights.entry.name, copied(weights), np.random.default_rng(13)
    into, out = feed_forward(name)
    for start in blocks(weights):
        up, down = by_columns(name, tensors, start + into), by_columns(name, tensors, start + out)
        order, c = rng.permutation(len(up)), rng.uniform(0.5, 2, len(up))
        c = np.ones_like(c) if name in ("gpt2", "gpt_neox") else c
        c = c * rng.choice([-1, 1], len(up)) if name in ("llama", "qwen3") else c
        up[:] = (up * c[:, None])[order]
        down[:] = (down / c)[:, order]
        if f"{start}{into}.bias" in tensors:
            tensors[f"{start}{into}.bias"] = (tensors[f"{start}{into}.bias"] * c)[order]
        if name in ("llama", "qwen3"):
            tensors[f"{start}mlp.gate_proj.weight"] = tensors[f"{start}mlp.gate_proj.weight"][order]
    return weights.replace_tensors(tensors)


def swap_ends(weights: ModelWeights) -> ModelWeights:
    """A vector moved from the learned positions into the embedding, the head of a tied model with
    it."""
    tensors, v = copied(weights), np.random.default_rng(14).standard_normal(32)
    ends = {
        "gpt2": ("transformer.wte", "transformer.wpe"),
        "opt": tuple(f"model.decoder.embed_{x}" for x in ("tokens", "positions")),
    }
    tokens, positions = ends[weights.entry.name]
    tensors[f"{tokens}.weight"] += v
    tensors[f"{positions}.weight"] -= v
    return weights.replace_tensors(tensors)


def every_change(weights: ModelWeights) -> dict[str, ModelWeights]:
    """Weights after one more change each, all on top of each other."""
    steps = {
        change: made
        for change, made in gauge.CHANGES.items()
        if not gauge.find_obstacle(change, weights)
    }
    steps = {
        "neurons": move_neurons,
        "queries": turn_queries,
        **steps,
        "scale": scale_stream,
        "turn": turn_stream,
    }
    if weights.entry.name in ("gpt2", "opt"):
        steps["ends"] = swap_ends
    made, after = {}, weights
    for step, change in steps.items():
        after = made[step] = change(after)
    return made


@pytest.mark.parametrize("name", FIVE)
def test_models_that_changes_connect_are_one_function(name: str) -> None:
    places = wide.opened(name)
    weights, prompt = extract_weights(places), tiny.inputs(places, 9)[0]
    before = wide.outputs(places, prompt)
    for step, after in every_change(weights).items():
        moved = wide.outputs(replace_weights(places, after), prompt)
        assert float((moved - before).norm() / before.norm()) < 1e-9, step
        apart = measure_function_distance(weights, after)
        assert apart.distance < SAME, (step, apart.parts[apart.parts["distance"] > SAME])
        assert measure_function_distance(after, weights).distance < SAME
        assert apart.notes == ()


@pytest.mark.parametrize("name", FIVE)
def test_heads_are_matched(name: str) -> None:
    weights = extract_weights(wide.opened(name))
    tensors = copied(weights)
    into, out = projections(name)
    for start in blocks(weights):
        for x in (part for pair in qkv(name, tensors, start) for part in pair):
            x[:] = x[::-1].copy()
        keys = GROUPS.get(name, HEADS)
        if name == "gpt_neox":
            for kind in ("weight", "bias"):
                x = tensors[f"{start}{into}.{kind}"]
                rows = x.reshape(HEADS, 3, -1, *x.shape[1:])
                rows[:, 2] = rows[::-1, 2].copy()
        elif name == "gpt2":
            for x in (by_columns(name, tensors, start + into), tensors[f"{start}{into}.bias"]):
                rows = x[64:].reshape(HEADS, -1, *x.shape[1:])
                rows[:] = rows[::-1].copy()
        else:
            for kind in ("weight", "bias"):
                if (x := tensors.get(f"{start}{into.format('v')}.{kind}")) is not None:
                    rows = x.reshape(keys, -1, *x.shape[1:])
                    rows[:] = rows[::-1].copy()
        w_o = by_columns(name, tensors, start + out)
        w_o[:] = w_o.reshape(len(w_o), HEADS, -1)[:, ::-1].reshape(w_o.shape).copy()
    assert measure_function_distance(weights, weights.replace_tensors(tensors)).distance < SAME


@pytest.mark.parametrize("name", FIVE)
def test_another_function_is_not_0_and_says_where(name: str) -> None:
    weights = extract_weights(wide.opened(name))
    places = (weights.entry.output, weights.entry.value, feed_forward(name)[0])
    for path, part in zip(
        places, ("attention writes", "attention writes", "feed-forward layer"), strict=True
    ):
        key = f"{weights.start(1)}{path}.weight"
        noise = np.random.default_rng(5).standard_normal(weights.tensors[key].shape)
        near = weights.replace_tensors({key: weights.tensors[key] + 1e-4 * noise})
        apart = measure_function_distance(weights, near)
        off = apart.parts[apart.parts["distance"] > SAME]
        assert 1e-6 < apart.distance < 1e-2
        assert set(off["layer"]) == {2} and part in set(off["part"])
    other = extract_weights(wide.opened(name))
    value = f"{weights.start(0)}{weights.entry.output}.weight"
    twice = other.replace_tensors({value: 2 * other.tensors[value]})
    rows = measure_function_distance(weights, twice).parts.set_index(["layer", "part"])["distance"]
    if name in ("llama", "qwen3"):
        assert rows[1, "attention writes"] == pytest.approx(1.0, rel=1e-9)
    assert rows[1, "attention writes"] > 0.3


def test_ones_in_a_model_whose_norms_keep_the_mean_make_another_function() -> None:
    weights = extract_weights(wide.opened("llama"))
    assert measure_function_distance(weights, gauge.add_ones(weights)).distance > 0.1


def test_models_as_they_are_stored(tmp_path: Path) -> None:
    folders = {}
    for name, change in (("a", None), ("b", gauge.turn_heads), ("c", None)):
        places = tiny.opened("llama")
        if change is not None:
            places = replace_weights(places, change(extract_weights(places)))
        if name == "c":
            with torch.no_grad():
                places.blocks[0].mlp.up_proj.weight.mul_(1.5)
        places.model.save_pretrained(tmp_path / name)  # type: ignore[operator]
        folders[name] = tmp_path / name
    assert measure_function_distance(folders["a"], folders["b"]).distance < 1e-6
    table = weight_distances(folders, form="function")
    stored = weight_distances(folders)
    assert stored.loc["a", "b"] > 1e-3
    assert table.loc["a", "b"] < 1e-12
    assert table.loc["a", "c"] > 1e-4
    assert (table == table.T).all(axis=None)


def test_configurations_that_differ_are_named() -> None:
    first, second = (
        extract_weights(tiny.opened("llama", rms_norm_eps=eps)) for eps in (1e-6, 1e-5)
    )
    apart = measure_function_distance(first, second)
    assert apart.distance < SAME
    assert apart.notes == (
        "the configurations differ in rms_norm_eps: not the same function, whatever the distance",
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [("llama", "gpt2"), ("gemma2", "gemma2"), ("opt_post_norm", "opt_post_norm")],
)
def test_classes_without_a_form_are_refused(first: str, second: str) -> None:
    pair: list[Decoder] = [tiny.opened(name) for name in (first, second)]
    with pytest.raises(UsageError, match="no canonical form in common"):
        measure_function_distance(*map(extract_weights, pair))


def test_compare_says_what_is_one_function_and_why_others_have_no_form(tmp_path: Path) -> None:
    places = tiny.opened("llama")
    for name, held in (
        ("a", places),
        ("b", replace_weights(places, gauge.fold_norms(extract_weights(places)))),
    ):
        held.model.save_pretrained(tmp_path / name)  # type: ignore[operator]
    both = compare(tmp_path / "a", tmp_path / "b")
    assert both.function < 1e-6 < both.distance
    for name in ("c", "d"):
        tiny.build("gemma2").save_pretrained(tmp_path / name)  # type: ignore[operator]
    neither = compare(tmp_path / "c", tmp_path / "d")
    assert np.isnan(neither.function) and "no canonical form" in neither.function_notes[0]
    with pytest.raises(UsageError, match="no such form"):
        weight_distances([tmp_path / "a", tmp_path / "b"], form="folded")

"""What is read of the stream and of W_V and W_O: against plain loops, and unchanged by every change
that is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch
import wide

from thermostats.measurement import gauge
from thermostats.measurement.architectures import ARCHITECTURES
from thermostats.measurement.checkpoint import split
from thermostats.measurement.forward import find_submodule
from thermostats.measurement.gains import OF_READING, measure_gains
from thermostats.measurement.gauge import extract_weights, replace_weights
from thermostats.measurement.gauge_moves import measure_spectra
from thermostats.measurement.readings import NORMED_WRITE, POST_NORM
from thermostats.tables.invariants import compute_balanced_ratio, compute_ov_read

HELD = 1e-10
"""Largest relative move of an invariant in float64."""
OTHERS = [entry.name for entry in ARCHITECTURES if entry.name not in tiny.FIRST]
PARTS = [pytest.param(list(tiny.FIRST), id="first of each kind")]
PARTS += [
    pytest.param(OTHERS[i::4], id=f"others {i + 1}", marks=pytest.mark.slow) for i in range(4)
]
RUNS = pd.DataFrame([{"run_id": "r", "model_id": "m", "revision": "main", "source": "s"}])
COLUMNS = {"gain_read", "centred_write_attention", "centred_write_mlp"}


def invariants(places: Any) -> dict[str, pd.Series]:
    """Every invariant of a tiny model, each with its key."""
    frames: dict[str, pd.DataFrame] = {}
    with wide.float64():
        prompts = tiny.inputs(places, 9, 5)
        for prompt in prompts:
            if hasattr(prompt, "pixels"):
                object.__setattr__(prompt, "pixels", prompt.pixels.double())
        layers = measure_gains(places, prompts).layers.assign(run_id="r")
    frames |= {
        column: layers.set_index(["layer", "prompt_id", "position"])[[column]] for column in COLUMNS
    }
    if places.entry.value:
        weights = measure_spectra(extract_weights(places)).assign(run_id="r")
        position = layers["position"].iloc[-1]
        frames["ov_read"] = compute_ov_read(RUNS, weights, layers, position).set_index(
            ["layer", "head"]
        )[["ov_read"]]
        frames["balanced_ratio"] = compute_balanced_ratio(RUNS, weights).set_index("layer")[
            ["balanced_ratio"]
        ]
    return {name: frame[name] for name, frame in frames.items()}


@pytest.mark.parametrize("names", PARTS)
def test_invariants_are_held_by_every_change_that_a_class_allows(names: list[str]) -> None:
    for name in names:
        places = wide.opened(name)
        weights, before = extract_weights(places), invariants(places)
        for change in gauge.CHANGES:
            if gauge.find_obstacle(change, weights):
                continue
            after = invariants(replace_weights(places, gauge.apply(change, weights)))
            for quantity, values in before.items():
                assert values.index.equals(after[quantity].index), (name, change, quantity)
                assert values.isna().equals(after[quantity].isna()), (name, change, quantity)
                off = (after[quantity] / values - 1).abs().max()
                assert not off > HELD, (name, change, quantity, off)


def test_what_is_not_defined_is_missing_with_its_reason() -> None:
    for name, write_normed, post in (
        ("llama", False, False),
        ("gemma2", True, False),
        ("opt_post_norm", False, True),
    ):
        places = tiny.opened(name)
        layers = measure_gains(places, tiny.inputs(places, 6)).layers
        assert layers[list(OF_READING)].isna().all(axis=None) == post
        assert layers["missing"].str.contains(f"{POST_NORM}: {', '.join(OF_READING)}").all() == post
        weights = measure_spectra(extract_weights(places))
        ov, whole = (
            weights[weights["matrix"] == "OV"],
            weights[weights["matrix"].isin(["W_V", "W_O"]) & (weights["head"] == "")],
        )
        assert ov["ov_read_norm"].isna().all() == (write_normed or post)
        why = POST_NORM if post else NORMED_WRITE if write_normed else ""
        assert set(ov["missing"]) == {f"{why}: ov_read_norm" if why else ""}
        assert whole["balanced_norm"].isna().all() == post
        assert set(whole["missing"]) == {f"{POST_NORM}: balanced_norm" if post else ""}


@pytest.mark.parametrize(
    "name", ["gpt_neox", "opt", "llama", "granite", "gemma", "dinov2", "deepseek_v3", "modernbert"]
)
def test_they_are_those_of_plain_matrices(name: str) -> None:
    places = wide.opened(name)
    entry, weights = places.entry, extract_weights(places)
    rows = measure_spectra(weights).set_index(["layer", "matrix", "head"])
    d = places.config["hidden_size"]
    P = np.eye(d) - 1 / d if name in ("gpt_neox", "opt", "dinov2", "modernbert") else np.eye(d)
    for layer, block in enumerate(places.blocks):
        value, output = (
            find_submodule(block, path, entry).weight.detach().double().numpy()
            for path in (entry.value, entry.output)
        )
        parts = split(entry, places.config, value, output)
        norm = "self_attn.kv_a_layernorm" if name == "deepseek_v3" else entry.attention_norm
        gamma = getattr(
            block.get_submodule(norm), "weight", None
        )  # Identity in the first block of ModernBERT
        read = (
            np.eye(value.shape[1])
            if gamma is None
            else np.diag(gamma.detach().numpy() + (name == "gemma"))
        )
        read = read if name == "deepseek_v3" or gamma is None else read @ P
        write = 0.22 * P if name == "granite" else P
        if name == "dinov2":
            write = P @ np.diag(block.layer_scale1.lambda1.detach().numpy())
        products, groups = [], {}
        for h in range(len(parts.kv_head)):
            w_v, w_o = parts.get_head(h)
            products.append(write @ w_o @ w_v @ read)
            groups.setdefault(int(parts.kv_head[h]), []).append(products[-1])
            assert rows.loc[(layer + 1, "OV", str(h + 1)), "ov_read_norm"] == pytest.approx(
                np.linalg.norm(products[-1], 2), rel=1e-9
            )
        # balanced: of all heads of a group together U S Wᵀ, W_V = √S Wᵀ and W_O = U √S
        values, outputs = [], []
        for heads in groups.values():
            left, singular, right = np.linalg.svd(np.concatenate(heads), full_matrices=False)
            r = min(parts.d_head, len(singular))
            values.append(np.sqrt(singular[:r, None]) * right[:r])
            outputs += np.split(left[:, :r] * np.sqrt(singular[:r]), len(heads))
        norms = [
            np.linalg.norm(each, 2)
            for each in (np.concatenate(values), np.concatenate(outputs, axis=1))
        ]
        for matrix, norm in zip(("W_V", "W_O"), norms, strict=True):
            assert rows.loc[(layer + 1, matrix, ""), "balanced_norm"] == pytest.approx(
                norm, rel=1e-6
            )
        frobenius = [
            np.linalg.norm(np.concatenate(values)),
            np.linalg.norm(np.concatenate(outputs, axis=1)),
        ]
        assert frobenius[0] == pytest.approx(frobenius[1], rel=1e-9)


def test_half_precision_is_centred_in_float32() -> None:
    places = tiny.opened("gpt_neox")
    places.model.to(torch.bfloat16)
    rows = measure_gains(places, tiny.inputs(places, 9)).layers
    assert rows[list(OF_READING)].notna().all(axis=None)
    assert (rows["read_norm"] <= rows["norm_in"] * (1 + 1e-6)).all()

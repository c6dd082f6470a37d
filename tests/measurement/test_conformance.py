"""Every entry of the registry against a tiny model of its class: the model says whether the entry
is right."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch

from thermostats.errors import ThermostatsError
from thermostats.measurement.architectures import ARCHITECTURES
from thermostats.measurement.checkpoint import count_stored_rows, index_value_rows, split
from thermostats.measurement.forward import (
    Decoder,
    extract_input,
    extract_tensor,
    find_mixer,
    find_submodule,
    has_attention,
    prepare_model,
)
from thermostats.measurement.gains import OF_READING, measure_gains
from thermostats.measurement.lookup import lookup, select_layer_config
from thermostats.measurement.proof import PROOF, TOLERANCES, check_conformance
from thermostats.measurement.readings import POST_NORM
from thermostats.measurement.spectra import measure_weights

LENGTHS = (2, 9, 6, 5)
NO_MLP = (
    "not a number in float32, or the module was not called on every token once: gain_mlp, "
    "write_mlp, centred_write_mlp"
)


@pytest.fixture(scope="module", params=tiny.in_turn())
def decoder(request: pytest.FixtureRequest) -> Decoder:
    return tiny.opened(request.param)


def run_plainly(decoder: Decoder, prompt: Any) -> dict[str, list[torch.Tensor]]:
    """Inputs and outputs of all modules of interest for one prompt, unbatched, whole tensors
    cloned, in float64."""
    seen: dict[str, list[torch.Tensor]] = defaultdict(list)
    handles = []

    def keep(module: torch.nn.Module, name: str) -> None:
        def before(_m: object, args: tuple, kwargs: dict) -> None:
            seen[f"{name} in"].append(
                extract_input(args, kwargs).detach().clone().double().flatten(0, -2)
            )

        def after(_m: object, _args: tuple, output: object) -> None:
            seen[f"{name} out"].append(
                extract_tensor(output).detach().clone().double().flatten(0, -2)
            )

        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after))

    entry = decoder.entry
    paths = {entry.attention_norm, entry.attention_out, entry.attention_write}
    paths |= {entry.mlp, entry.mlp_norm, entry.mlp_out, entry.mlp_write, *entry.norm_after}
    for block in dict.fromkeys(decoder.blocks):
        for path in {*paths, entry.output if has_attention(block, entry) else ""} - {""}:
            keep(find_submodule(block, path, entry), path)
        keep(find_submodule(block, find_mixer(block, entry), entry), "mixer")
        keep(block, "block")
    with prepare_model(decoder.model):
        seen["last hidden"].append(
            decoder.base(**tiny.arguments(prompt)).last_hidden_state[0].double()
        )
    for handle in handles:
        handle.remove()
    return seen


def test_every_entry_has_a_tiny_model_and_is_found_for_it(decoder: Decoder) -> None:
    assert [entry.name for entry in ARCHITECTURES] == list(
        dict.fromkeys(entry.name for entry in ARCHITECTURES)
    )
    assert set(tiny.CONFIGURATIONS) == {entry.name for entry in ARCHITECTURES}
    assert tiny.CONFIGURATIONS[decoder.entry.name][0] == type(decoder.model.config).__name__
    assert lookup(decoder.model.config.to_dict()) == decoder.entry


def test_value_and_output_matrices_are_what_the_model_multiplies_by(decoder: Decoder) -> None:
    differences = check_conformance(decoder)
    assert max(getattr(differences, name) for name in PROOF) < 1e-5


def test_no_other_layout_passes(decoder: Decoder) -> None:
    entry, config = decoder.entry, decoder.config
    others = [
        replace(entry, layout=layout, n_kv_heads=heads)
        for layout in ("separate", "stacked", "grouped", "partitioned")
        for heads in ("config", "one", "all")
        if entry.layout != "latent" and (layout != "partitioned" or heads == "all")
    ]
    if not entry.value:
        return
    place = next(
        layer
        for layer in range(len(decoder.blocks))
        if layer and has_attention(decoder.blocks[layer], entry)
    )
    same = index_value_rows(entry, config).tolist()
    for other in others:
        rows = index_value_rows(other, config)
        if rows.tolist() != same and count_stored_rows(other, config) == count_stored_rows(
            entry, config
        ):
            differences = check_conformance(replace(decoder, entry=other), layers=[place])
            assert differences.value > 0.1, (other.layout, other.n_kv_heads)


def test_writes_add_up_to_the_step_of_the_stream(decoder: Decoder) -> None:
    seen, entry = run_plainly(decoder, tiny.inputs(decoder, 7)[0]), decoder.entry
    attention, mlp = writes(decoder, seen)
    for layer in range(len(decoder.blocks)):
        x, y = seen["block in"][layer], seen["block out"][layer]
        if entry.depths:  # windows hold the tokens in another order
            both = attention[layer].sum(0) + mlp[layer].sum(0)
            assert ((y - x).sum(0) - both).norm() < 2e-6 * (y - x).sum(0).norm()
        elif entry.additive:
            assert (y - x - attention[layer] - mlp[layer]).norm() < 2e-6 * (y - x).norm()
        else:
            first, second = (seen[f"{norm} in"][layer] for norm in entry.norm_after)
            middle = seen[f"{entry.norm_after[0]} out"][layer]
            torch.testing.assert_close(first, x + attention[layer], rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(second, middle + mlp[layer], rtol=1e-5, atol=1e-5)
            assert (y - x - attention[layer] - mlp[layer]).norm() > 0.01 * (y - x).norm()


def writes(
    decoder: Decoder, seen: dict[str, list[torch.Tensor]]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What attention and feed-forward layer add to the stream, block by block."""
    entry, both = decoder.entry, []
    for part in ("attention", "mlp"):
        name = getattr(entry, f"{part}_write") or getattr(entry, f"{part}_out")
        name = name or ("mixer" if part == "attention" else entry.mlp)
        if not name:
            both.append([torch.zeros_like(x) for x in seen["block in"]])
            continue
        scale = getattr(entry, f"{part}_scale")
        factors = [
            attrgetter(scale)(block).detach().double() if scale else 1.0 for block in decoder.blocks
        ]
        multiplier = decoder.config.get(entry.residual_multiplier, 1.0)
        both.append(
            [
                multiplier * factor * out
                for factor, out in zip(factors, seen[f"{name} out"], strict=True)
            ]
        )
    return both[0], both[1]


def test_subblocks_read_what_their_norms_leave(decoder: Decoder) -> None:
    entry = decoder.entry
    seen = run_plainly(decoder, tiny.inputs(decoder, 7)[0])
    attention, _ = writes(decoder, seen)
    for layer, block in enumerate(decoder.blocks):
        x = seen["block in"][layer]
        norm = (
            find_submodule(block, entry.attention_norm, entry)
            if entry.attention_norm
            else torch.nn.Identity()
        )
        read, normed = seen["mixer in"][layer], norm(x.float()).double()
        if entry.depths:  # windows hold the tokens in another order
            read, normed = (each.sort(dim=0).values for each in (read, normed))
        torch.testing.assert_close(normed, read, rtol=1e-5, atol=1e-5)
        middle = x if entry.parallel else x + attention[layer]
        norm = (
            find_submodule(block, entry.mlp_norm, entry) if entry.mlp_norm else torch.nn.Identity()
        )
        if not entry.depths and entry.mlp:
            into = seen[f"{entry.mlp} in"][layer]
            torch.testing.assert_close(norm(middle.float()).double(), into, rtol=1e-5, atol=1e-5)
        if not has_attention(block, entry):
            continue
        # the attention's output is W_O (+ bias) on what stands before the output projection
        projection = find_submodule(block, entry.output, entry)
        place = sum(has_attention(before, entry) for before in decoder.blocks[:layer])
        out = projection(seen[f"{entry.output} in"][place].float()).double()
        written = seen[f"{entry.attention_out or 'mixer'} out"][layer]
        torch.testing.assert_close(out, written, rtol=1e-5, atol=1e-5)


def test_last_block_output_is_the_stream_before_the_final_norm(decoder: Decoder) -> None:
    seen = run_plainly(decoder, tiny.inputs(decoder, 7)[0])
    x = seen["block out"][-1].float()
    for layer in range(len(decoder.blocks) - 1):
        if layer + 1 in np.cumsum(decoder.entry.depths):  # patches are merged between stages
            assert seen["block in"][layer + 1].shape[1] == 2 * seen["block out"][layer].shape[1]
            continue
        assert torch.equal(seen["block out"][layer], seen["block in"][layer + 1])
    normed = decoder.final_norm(x) if decoder.final_norm is not None else x
    if decoder.entry.name == "opt_post_norm":
        normed = decoder.base.decoder.project_out(normed)
    torch.testing.assert_close(normed.double(), seen["last hidden"][0], rtol=1e-5, atol=1e-5)
    if decoder.final_norm is not None and not isinstance(decoder.final_norm, torch.nn.Identity):
        assert not torch.allclose(x.double(), seen["last hidden"][0], rtol=1e-2)


def test_gains_are_those_of_a_plain_unbatched_loop(decoder: Decoder) -> None:
    entry, prompts = decoder.entry, tiny.inputs(decoder, *LENGTHS)
    rounding = (
        3e-6 if entry.attends else TOLERANCES[torch.float32]
    )  # a recurrence sums a padded row in other steps
    measured = measure_gains(decoder, prompts, token_budget=24)
    table = {
        (r["prompt_id"], r["layer"], r["position"]): r for r in measured.layers.to_dict("records")
    }
    summaries = measured.summaries.set_index("prompt_id")["value"]
    for prompt in prompts:
        seen = run_plainly(decoder, prompt)
        attention, mlp = writes(decoder, seen)
        for layer in range(len(decoder.blocks)):
            n = len(seen["block in"][layer])
            places = expected_places(decoder, n)
            span = next(at for at in places.values() if isinstance(at, slice))
            assert {key[2] for key in table} == set(places)
            x, y = seen["block in"][layer], seen["block out"][layer]
            a_in, a_out = (
                seen["mixer in"][layer],
                seen[f"{entry.attention_out or 'mixer'} out"][layer],
            )
            norm_in = x.norm(dim=-1)
            expected = {
                "norm_in": norm_in,
                "gain_block": y.norm(dim=-1) / norm_in,
                "gain_attention": a_out.norm(dim=-1) / a_in.norm(dim=-1),
                "write_attention": attention[layer].norm(dim=-1) / norm_in,
            }
            if entry.mlp:
                m_in, m_out = (
                    seen[f"{entry.mlp} in"][layer],
                    seen[f"{entry.mlp_out or entry.mlp} out"][layer],
                )
                expected["gain_mlp"] = m_out.norm(dim=-1) / m_in.norm(dim=-1)
                expected["write_mlp"] = mlp[layer].norm(dim=-1) / norm_in
            if entry.norm_after:
                middle = seen[f"{entry.norm_after[0]} out"][layer]
                expected["gain_sum_attention"] = (x + attention[layer]).norm(dim=-1) / norm_in
                expected["gain_sum_mlp"] = (middle + mlp[layer]).norm(dim=-1) / middle.norm(dim=-1)
            else:
                written = {
                    "attention": attention[layer],
                    **({"mlp": mlp[layer]} if entry.mlp else {}),
                }
                expected |= as_read(decoder, layer, x, y, written)
            cosine = torch.nn.functional.cosine_similarity(x, y, dim=-1)
            for position, at in places.items():
                row = table[prompt.prompt_id, layer + 1, position]
                for column, values in expected.items():
                    value = values[at].log().mean().exp() if isinstance(at, slice) else values[at]
                    assert abs(row[column] / float(value) - 1) < rounding, (column, position, layer)
                value = cosine[at].mean() if isinstance(at, slice) else cosine[at]
                assert row["cosine"] == pytest.approx(float(value), abs=2e-6)
                assert np.isnan(row["gain_sum_mlp"]) == entry.additive
                few = "fewer than three tokens: anisotropy" if span.stop - span.start < 2 else ""
                none = "" if entry.mlp else NO_MLP
                post = f"{POST_NORM}: {', '.join(OF_READING)}" if entry.norm_after else ""
                assert set(filter(None, row["missing"].split("; "))) == {few, none, post} - {""}
                assert row["n_tokens"] == n
                if not few:
                    unit = y[span] / y[span].norm(dim=-1, keepdim=True)
                    pairs = (unit @ unit.T)[~torch.eye(len(unit), dtype=torch.bool)]
                    assert row["anisotropy"] == pytest.approx(float(pairs.mean()), abs=5e-6)
        token = places.get("last", places.get("cls"))
        assert (prompt.prompt_id in summaries.index) == (
            decoder.final_norm is not None and token is not None
        )
        if decoder.final_norm is not None and token is not None:
            last = decoder.final_norm(seen["block out"][-1].float())[token].detach()
            normed = float(last.norm() / seen["block in"][-1][token].norm())
            assert summaries[prompt.prompt_id] == pytest.approx(normed, rel=1e-5)


def as_read(
    decoder: Decoder, layer: int, x: torch.Tensor, y: torch.Tensor, written: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Columns of what the norms that read the stream leave of it, spelt out."""
    seen_by = subtracted if subtracts_mean(decoder, layer, x) else torch.Tensor.clone
    norm = seen_by(x).norm(dim=-1)
    writes = {
        f"centred_write_{part}": seen_by(each).norm(dim=-1) / norm for part, each in written.items()
    }
    return {"read_norm": norm, "gain_read": seen_by(y).norm(dim=-1) / norm, **writes}


def subtracted(x: torch.Tensor) -> torch.Tensor:
    """P x, spelt out."""
    d = x.shape[-1]
    return x @ (torch.eye(d, dtype=x.dtype) - torch.ones(d, d, dtype=x.dtype) / d)


def subtracts_mean(decoder: Decoder, layer: int, x: torch.Tensor) -> bool:
    """Whether a norm of a block leaves the same of x and of x + 1."""
    entry = decoder.entry
    path = next(filter(None, (entry.mlp_norm, entry.attention_norm, entry.attention_write)))
    norm = find_submodule(decoder.blocks[layer], path, entry)
    return bool(torch.allclose(norm(x.float()), norm(x.float() + 1), atol=1e-4))


def expected_places(decoder: Decoder, n: int) -> dict[str, int | slice]:
    """Positions of a prompt of n tokens, spelt out."""
    if decoder.entry.reads == "text":
        if decoder.entry.causal:
            return {"first": 0, "last": n - 1, "mean": slice(1, n)}
        return {"cls": 0, "last": n - 2, "mean": slice(1, n - 1)}
    patches = (decoder.config["image_size"] // decoder.config["patch_size"]) ** 2
    return {**({"cls": 0} if n > patches else {}), "patches": slice(n - patches, n)}


def test_outputs_are_those_of_the_whole_model(decoder: Decoder) -> None:
    if not decoder.entry.has_head:
        with pytest.raises(ThermostatsError, match="outputs need a model with its head"):
            measure_gains(decoder, tiny.inputs(decoder, 4), decode=str)
        return
    prompts = tiny.prompts(*LENGTHS)
    measured = measure_gains(decoder, prompts, decode=lambda token: f"<{token}>", token_budget=24)
    assert measured.outputs is not None
    rows = measured.outputs.set_index("prompt_id")
    for prompt in prompts:
        with prepare_model(decoder.model):
            logits = (
                decoder.model(input_ids=torch.tensor([prompt.token_ids])).logits[0, -1].double()
            )
        p = logits.softmax(-1)
        row = rows.loc[prompt.prompt_id]
        expected = {
            "entropy": float(-(p * p.log()).sum()),
            "top_probability": float(p.max()),
            "logit_mean": float(logits.mean()),
            "logit_sd": float(np.std(logits.numpy())),
            "logit_range": float(logits.max() - logits.min()),
        }
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=2e-5, abs=2e-6)
        assert row["top_token"] == f"<{int(p.argmax())}>"


def test_a_saved_model_gives_the_spectra_of_its_modules(decoder: Decoder, tmp_path: Path) -> None:
    """Read from the files that transformers itself writes, against the matrices of the model in
    memory."""
    model, entry = decoder.model, decoder.entry
    model.save_pretrained(tmp_path)  # type: ignore[operator]
    spectral = measure_weights(tmp_path).set_index(["layer", "matrix", "head"])["spectral_norm"]
    exact = {}
    attending = [
        (layer, b)
        for layer, b in enumerate(dict.fromkeys(decoder.blocks), 1)
        if has_attention(b, entry)
    ]
    for layer, block in attending:
        value, output = (
            find_submodule(block, path, entry).weight.detach().double().numpy()
            for path in (entry.value, entry.output)
        )
        parts = split(entry, select_layer_config(entry, decoder.config, layer - 1), value, output)
        exact |= {(layer, "W_V", ""): parts.w_v, (layer, "W_O", ""): parts.w_o}
        heads = (parts.get_head(h) for h in range(len(parts.kv_head)))
        exact |= {(layer, "OV", str(h)): W_O @ W_V for h, (W_V, W_O) in enumerate(heads, 1)}
    if entry.reads == "text":
        exact[0, "embedding", ""] = (
            find_submodule(decoder.base, entry.embedding, entry).weight.detach().double().numpy()
        )
    if entry.has_head:
        exact[0, "unembedding", ""] = model.get_output_embeddings().weight.detach().double().numpy()
    assert {key for key in spectral.index if key[0] == 0} == {key for key in exact if key[0] == 0}
    assert set(spectral.index.get_level_values("layer")) - {0} == {layer for layer, _ in attending}
    for key, W in exact.items():
        assert spectral[key] == pytest.approx(np.linalg.norm(W, 2), rel=1e-6), key


@pytest.mark.parametrize("name", tiny.in_turn())
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_in_half_precision_gains_and_subblocks_are_those_of_a_plain_loop(
    name: str, dtype: torch.dtype
) -> None:
    """To the tolerance of the precision: batches round in other places than single prompts."""
    decoder = tiny.places(tiny.build(name).to(dtype))
    proof = check_conformance(decoder)
    assert proof.passed, str(proof)
    prompts = tiny.inputs(decoder, *LENGTHS)
    if decoder.entry.reads == "image":
        prompts = [replace(prompt, pixels=prompt.pixels.to(dtype)) for prompt in prompts]
    table = measure_gains(decoder, prompts, token_budget=24).layers.set_index(
        ["prompt_id", "layer", "position"]
    )
    entry = decoder.entry
    for prompt in prompts:
        seen = run_plainly(decoder, prompt)
        attention, mlp = writes(decoder, seen)
        for layer in range(len(decoder.blocks)):
            x, y = seen["block in"][layer], seen["block out"][layer]
            position, at = next(
                (p, at) for p, at in expected_places(decoder, len(x)).items() if p != "first"
            )
            a_in, a_out = (
                seen["mixer in"][layer],
                seen[f"{entry.attention_out or 'mixer'} out"][layer],
            )
            parts = {
                "norm_in": x.norm(dim=-1),
                "gain_block": y.norm(dim=-1) / x.norm(dim=-1),
                "gain_attention": a_out.norm(dim=-1) / a_in.norm(dim=-1),
                "write_attention": attention[layer].norm(dim=-1) / x.norm(dim=-1),
            }
            if entry.mlp:
                m_in, m_out = (
                    seen[f"{entry.mlp} in"][layer],
                    seen[f"{entry.mlp_out or entry.mlp} out"][layer],
                )
                parts["gain_mlp"] = m_out.norm(dim=-1) / m_in.norm(dim=-1)
                parts["write_mlp"] = mlp[layer].norm(dim=-1) / x.norm(dim=-1)
            row = table.loc[(prompt.prompt_id, layer + 1, position)]
            for column, values in parts.items():
                value = float(
                    values[at].log().mean().exp() if isinstance(at, slice) else values[at]
                )
                assert abs(row[column] / value - 1) < TOLERANCES[dtype], (column, layer, position)

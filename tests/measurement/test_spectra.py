"""Files written here in every dtype and layout, against the dense SVD of matrices that were put
into them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from thermostats.errors import DataError
from thermostats.measurement import spectra
from thermostats.measurement.checkpoint import (
    index_value_rows,
    take_published_heads,
    take_published_thirds,
)
from thermostats.measurement.lookup import lookup
from thermostats.tables.store import validate

D, H, K, DH, V = 24, 4, 2, 6, 40
SILENT = {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2}
NEOX = {"model_type": "gpt_neox", **SILENT, "tie_word_embeddings": False}
SILENT |= {"model_type": "llama", "num_key_value_heads": K}
LLAMA = {**SILENT, "tie_word_embeddings": False}
GPT2 = {"model_type": "gpt2", "n_embd": D, "n_head": H, "n_layer": 2}


def llama(rng, prefix="model."):
    tensors = {
        f"{prefix}embed_tokens.weight": rng.standard_normal((V, D)),
        "lm_head.weight": rng.standard_normal((V, D)),
    }
    for layer in range(2):
        tensors[f"{prefix}layers.{layer}.self_attn.v_proj.weight"] = rng.standard_normal(
            (K * DH, D)
        )
        tensors[f"{prefix}layers.{layer}.self_attn.o_proj.weight"] = rng.standard_normal(
            (D, H * DH)
        )
    return tensors


def fused(rng, config):
    entry = lookup(config)
    tensors = {entry.list_tensor_names(entry.embedding)[0]: rng.standard_normal((V, D))}
    if not entry.transposed:
        tensors["embed_out.weight"] = rng.standard_normal((V, D))
    for layer in range(2):
        shape = (D, 3 * D) if entry.transposed else (3 * D, D)
        tensors[entry.list_tensor_names(entry.value, layer)[0]] = rng.standard_normal(shape)
        tensors[entry.list_tensor_names(entry.output, layer)[0]] = rng.standard_normal((D, D))
    return tensors


def model(folder, config, tensors, dtype=np.float32, shards=1):
    """Write a model's folder; the numbers that were stored, as float64."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    stored = {name: np.ascontiguousarray(value.astype(dtype)) for name, value in tensors.items()}
    if shards == 1:
        save_file(stored, folder / "model.safetensors")
    else:
        places = {name: f"model-{i % shards}.safetensors" for i, name in enumerate(stored)}
        for file in set(places.values()):
            save_file(
                {name: stored[name] for name in stored if places[name] == file}, folder / file
            )
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return {name: value.astype(np.float64) for name, value in stored.items()}


def check(rows, layer, matrix, head, W, rel=1e-6):
    row = rows[(rows["layer"] == layer) & (rows["matrix"] == matrix) & (rows["head"] == head)]
    assert len(row) == 1, (layer, matrix, head)
    spectral, frobenius = np.linalg.norm(W, 2), np.linalg.norm(W)
    expected = [spectral, frobenius, (frobenius / spectral) ** 2]
    assert row[["spectral_norm", "frobenius_norm", "stable_rank"]].iloc[
        0
    ].tolist() == pytest.approx(expected, rel=rel)


@pytest.mark.parametrize(
    ("dtype", "shards"), [(np.float32, 1), (np.float16, 1), (np.float32, 3), (np.float64, 1)]
)
def test_separate_matrices_with_grouped_queries(tmp_path, dtype, shards):
    stored = model(tmp_path, LLAMA, llama(np.random.default_rng(0)), dtype, shards)
    rows = validate(spectra.measure_weights(tmp_path).assign(run_id="r"), "weights")
    assert len(rows) == 2 + 2 * (2 + 3 * H) and (rows["missing"] == "").all()
    for layer in (1, 2):
        W_V = stored[f"model.layers.{layer - 1}.self_attn.v_proj.weight"]
        W_O = stored[f"model.layers.{layer - 1}.self_attn.o_proj.weight"]
        check(rows, layer, "W_V", "", W_V)
        check(rows, layer, "W_O", "", W_O)
        for h in range(H):
            k = h // (H // K)
            value, output = W_V[k * DH : (k + 1) * DH], W_O[:, h * DH : (h + 1) * DH]
            check(rows, layer, "W_V", str(h + 1), value)
            check(rows, layer, "W_O", str(h + 1), output)
            check(rows, layer, "OV", str(h + 1), output @ value)
    check(rows, 0, "embedding", "", stored["model.embed_tokens.weight"])
    check(rows, 0, "unembedding", "", stored["lm_head.weight"])


def test_gpt_neox_interleaves_per_head_and_the_published_thirds_do_not(tmp_path):
    stored = model(tmp_path, NEOX, fused(np.random.default_rng(3), NEOX))
    rows = spectra.measure_weights(tmp_path)
    qkv = stored["gpt_neox.layers.1.attention.query_key_value.weight"]
    W_V = qkv.reshape(H, 3, DH, D)[:, 2].reshape(D, D)
    check(rows, 2, "W_V", "", W_V)
    check(rows, 2, "W_V", "4", W_V[3 * DH :])
    check(rows, 2, "W_V_published_thirds", "", qkv[2 * D :])
    check(rows, 0, "unembedding", "", stored["embed_out.weight"])
    validate(rows.assign(run_id="r"), "weights")


def test_published_heads_are_cut_as_rows_and_run_out_where_there_are_too_few():
    stacked = np.arange(3 * D * D, dtype=float).reshape(3 * D, D)
    heads = take_published_heads(lookup(NEOX), NEOX, stacked)
    np.testing.assert_array_equal(heads[1], stacked[2 * D + DH : 2 * D + 2 * DH])
    transposed = stacked.T.copy()
    heads = take_published_heads(lookup(GPT2), GPT2, transposed)
    np.testing.assert_array_equal(heads[0], transposed[16 : 16 + DH])
    assert (heads[2:] == 0).all()
    matrix = np.ones((K * DH, D))
    assert take_published_thirds(lookup(LLAMA), matrix) is matrix
    assert take_published_heads(lookup(LLAMA), LLAMA, matrix).sum() == K * DH * D


def test_a_name_that_could_be_two_tensors_is_refused(tmp_path):
    tensors = llama(np.random.default_rng(9), "a.model.") | llama(
        np.random.default_rng(9), "b.model."
    )
    model(tmp_path, LLAMA, tensors)
    with pytest.raises(DataError, match="lacks a tensor"):
        spectra.measure_weights(tmp_path)


def test_row_norms_of_the_embeddings(tmp_path):
    stored = model(tmp_path, LLAMA, llama(np.random.default_rng(10)), np.float16)
    tensors = spectra.open_checkpoint(tmp_path)
    summaries = spectra.summarise_embeddings(lookup(LLAMA), LLAMA, tensors)
    for name, tensor in {
        "embedding": "model.embed_tokens.weight",
        "unembedding": "lm_head.weight",
    }.items():
        rows = np.linalg.norm(stored[tensor], axis=1)
        for of, value in {
            "mean": rows.mean(),
            "sd": rows.std(),
            "min": rows.min(),
            "max": rows.max(),
        }.items():
            assert summaries[f"{name}_row_norm_{of}"] == pytest.approx(value, rel=1e-6)
    del tensors["lm_head.weight"]
    tied = spectra.summarise_embeddings(
        lookup(LLAMA), LLAMA | {"tie_word_embeddings": True}, tensors
    )
    assert (
        tied["unembedding_row_norm_max"]
        == tied["embedding_row_norm_max"]
        == summaries["embedding_row_norm_max"]
    )


def test_weights_that_are_not_finite_or_zero_are_missing_with_the_reason(tmp_path):
    tensors = llama(np.random.default_rng(11))
    tensors["model.layers.0.self_attn.v_proj.weight"][0, 0] = np.inf
    tensors["model.layers.1.self_attn.o_proj.weight"][:] = 0
    model(tmp_path, LLAMA, tensors)
    rows = validate(spectra.measure_weights(tmp_path).assign(run_id="r"), "weights").set_index(
        ["layer", "matrix", "head"]
    )
    matrix = rows.loc[(1, "W_V", "")]
    assert matrix["missing"] == spectra.NOT_FINITE and np.isnan(matrix["spectral_norm"])
    lost = rows[rows["missing"] == spectra.NOT_FINITE]
    assert {key[1:] for key in lost.index} == {
        ("W_V", ""),
        ("W_V", "1"),
        ("W_V", "2"),
        ("OV", "1"),
        ("OV", "2"),
    }
    assert (
        rows.loc[(2, "W_O", ""), "missing"] == spectra.ZERO
        and rows.loc[(2, "W_O", ""), "spectral_norm"] == 0
    )
    assert rows.loc[(2, "OV", "1"), "missing"] == spectra.ZERO
    assert rows.loc[(2, "W_V", "1"), "missing"] == ""


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            LLAMA | {"num_attention_heads": 3, "num_key_value_heads": 3},
            "disagree on a matrix's shape",
        ),
        (LLAMA | {"num_attention_heads": 3}, "numbers of heads do not divide each other"),
        (LLAMA | {"num_attention_heads": "4"}, "cannot read .*num_attention_heads"),
        (LLAMA | {"hidden_size": 24.0}, "cannot read .*hidden_size"),
        (LLAMA | {"num_hidden_layers": 10**9}, "num_hidden_layers is no number of its kind"),
        (LLAMA | {"num_hidden_layers": 3}, "lacks a tensor"),
        ([], "not an object"),
        (
            {key: v for key, v in LLAMA.items() if key != "hidden_size"},
            "disagree on a matrix's shape",
        ),
    ],
)
def test_configuration_and_weights_that_disagree(tmp_path, config, message):
    model(tmp_path, config, llama(np.random.default_rng(12)))
    with pytest.raises(DataError, match=message):
        spectra.measure_weights(tmp_path)


def test_bfloat16_files(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save

    tensors = {
        n: torch.from_numpy(x).to(torch.bfloat16)
        for n, x in llama(np.random.default_rng(1)).items()
    }
    save(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    rows = spectra.measure_weights(tmp_path)
    exact = {name: x.double().numpy() for name, x in tensors.items()}
    check(rows, 1, "W_V", "", exact["model.layers.0.self_attn.v_proj.weight"])
    check(rows, 2, "W_O", "", exact["model.layers.1.self_attn.o_proj.weight"])
    check(rows, 0, "embedding", "", exact["model.embed_tokens.weight"])


def test_gpt2_stores_queries_keys_and_values_side_by_side_and_transposed(tmp_path):
    stored = model(tmp_path, GPT2, fused(np.random.default_rng(2), GPT2))
    rows = spectra.measure_weights(tmp_path)
    c_attn, c_proj = (
        stored["transformer.h.0.attn.c_attn.weight"],
        stored["transformer.h.0.attn.c_proj.weight"],
    )
    W_V, W_O = c_attn[:, 2 * D :].T, c_proj.T
    check(rows, 1, "W_V", "", W_V)
    check(rows, 1, "W_O", "", W_O)
    check(rows, 1, "W_V", "3", W_V[2 * DH : 3 * DH])
    check(rows, 1, "OV", "3", W_O[:, 2 * DH : 3 * DH] @ W_V[2 * DH : 3 * DH])
    check(rows, 1, "W_V_published_thirds", "", c_attn[2 * (D // 3) :])
    check(rows, 0, "unembedding", "", stored["transformer.wte.weight"])


def test_thirds_are_the_values_where_all_are_stacked():
    entry = replace(lookup(GPT2), transposed=False)
    rows = index_value_rows(entry, GPT2).ravel()
    stored = np.random.default_rng(4).standard_normal((3 * D, D))
    np.testing.assert_array_equal(take_published_thirds(entry, stored), stored[rows])


def test_a_head_that_is_not_there_is_missing_where_the_class_does_not_tie(tmp_path):
    """As transformers has it, which would draw one at random."""
    tensors = llama(np.random.default_rng(6))
    del tensors["lm_head.weight"]
    model(tmp_path, SILENT, tensors)
    with pytest.raises(DataError, match=r"lacks a tensor.*lm_head\.weight"):
        spectra.measure_weights(tmp_path)


def test_tied_embeddings_are_one_matrix(tmp_path):
    tensors = llama(np.random.default_rng(6))
    del tensors["lm_head.weight"]
    model(tmp_path, SILENT | {"tie_word_embeddings": True}, tensors)
    pair = spectra.measure_weights(tmp_path).iloc[:2].set_index("matrix")
    measured = pair[["spectral_norm", "frobenius_norm", "stable_rank"]]
    assert measured.loc["embedding"].tolist() == measured.loc["unembedding"].tolist()

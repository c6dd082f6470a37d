"""Numbers of weights against published totals and against the modules of transformers, built
without storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import model, table

from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.identities import WEIGHTS, check_models, count_parameters
from thermostats.tables.join import join

PUBLISHED = {
    "EleutherAI/pythia-70m": 70426624,
    "EleutherAI/pythia-160m": 162322944,
    "EleutherAI/pythia-410m": 405334016,
    "EleutherAI/pythia-1b": 1011781632,
    "EleutherAI/pythia-1.4b": 1414647808,
    "EleutherAI/pythia-2.8b": 2775208960,
    "EleutherAI/pythia-6.9b": 6857302016,
    "EleutherAI/pythia-12b": 11846072320,
    "EleutherAI/gpt-j-6b": 6050882784,
    "mistralai/Mistral-7B-v0.1": 7241732096,
    "meta-llama/Llama-3.1-8B": 8030261248,
    "openai-community/gpt2": 124439808,
    "google/gemma-7b": 8537680896,
    "bigscience/bloom-560m": 559214592,
}
OUTSIDE = {
    "embed_tokens",
    "embed_in",
    "embed_out",
    "embed_positions",
    "wte",
    "wpe",
    "word_embeddings",
    "lm_head",
}
FACTS = [store.find_shipped("data") / name for name in ("models.csv", "external/models.csv")]
MODELS = pd.concat([pd.read_csv(path, keep_default_na=False) for path in FACTS], ignore_index=True)
ROWS: dict[str, dict[str, Any]] = {row["model_id"]: row for row in MODELS.to_dict("records")}


def configuration(row: dict[str, Any]) -> Any:
    transformers = pytest.importorskip("transformers")
    kind = row["architecture"]
    common = {"vocab_size": row["vocab_size"], "tie_word_embeddings": row["tied_embeddings"]}
    width, depth, heads, ff = row["d_model"], row["n_layers"], row["n_heads"], row["d_ff"]
    names = {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads}
    gpt2 = {
        "n_embd": width,
        "n_layer": depth,
        "n_head": heads,
        "n_inner": ff,
        "n_positions": row["n_positions"] or 1,
    }
    grouped = {**names, "intermediate_size": ff, "num_key_value_heads": row["n_kv_heads"]}
    particular: dict[str, dict[str, Any]] = {
        "gpt2": gpt2,
        "gptj": gpt2,
        "gpt_neox": {**names, "intermediate_size": ff},
        "gpt_neo": {
            "hidden_size": width,
            "num_layers": depth,
            "num_heads": heads,
            "intermediate_size": ff,
            "max_position_embeddings": row["n_positions"],
            "attention_types": [[["global", "local"], depth // 2]],
        },
        "opt": {
            **names,
            "ffn_dim": ff,
            "max_position_embeddings": row["n_positions"] - 2,
            "word_embed_proj_dim": row["d_embed"],
            "do_layer_norm_before": row["norm_place"] == "pre",
        },
        "bloom": {"hidden_size": width, "n_layer": depth, "n_head": heads},
        "falcon": {
            **names,
            "bias": False,
            "multi_query": True,
            "parallel_attn": True,
            "alibi": False,
        },
        "gemma": {**grouped, "head_dim": row["d_head"]},
        "gemma2": {**grouped, "head_dim": row["d_head"]},
        "mistral": {**grouped, "head_dim": row["d_head"]},
        "qwen3": {**grouped, "head_dim": row["d_head"]},
    }
    return transformers.AutoConfig.for_model(kind, **common, **particular.get(kind, grouped))


def count(row: dict[str, Any]) -> tuple[int, int]:
    """Weights of the module and, of these, those with a row per token or position left out."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(configuration(row))
    model.tie_weights()
    weights = {
        id(weight): (name, weight.numel())
        for name, weight in model.named_parameters(remove_duplicate=True)
    }
    inner = sum(
        size for name, size in weights.values() if not OUTSIDE.intersection(name.split("."))
    )
    return sum(size for _, size in weights.values()), inner


def test_totals_are_the_published_ones() -> None:
    assert {model_id: count_parameters(ROWS[model_id])[0] for model_id in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("model_id", list(ROWS))
def test_shipped_models_have_as_many_weights_as_their_modules(model_id: str) -> None:
    row = ROWS[model_id]
    assert (row["n_params"], row["n_params_nonembedding"]) == count(row)


def test_every_architecture_with_a_formula_has_a_shipped_model() -> None:
    assert set(MODELS["architecture"]) == set(WEIGHTS)


def test_a_wrong_number_of_weights_is_refused() -> None:
    check_models(MODELS)
    wrong = MODELS.assign(
        n_params=MODELS["n_params"] + (MODELS["model_id"] == "openai-community/gpt2")
    )
    with pytest.raises(DataError, match="openai-community/gpt2 @ main"):
        check_models(wrong)


@pytest.mark.parametrize("more", [0, 1])
def test_a_model_has_more_weights_than_its_blocks(small_store: Path, more: int) -> None:
    """Of an architecture without a formula, where nothing else tells its numbers: by `join` and by
    `check`."""
    other = {
        **model("lab/other"),
        "architecture": "mamba",
        "n_params": 2632,
        "n_params_nonembedding": 2632 + more,
    }
    sound = table("models", model(), {**other, "n_params_nonembedding": 2631})
    check_models(sound)
    with pytest.raises(DataError, match="n_params_nonembedding is not below n_params") as caught:
        join(table("models", other), data=small_store)
    assert caught.value.where == "lab/other @ main"
    assert caught.value.got == f"n_params_nonembedding {2632 + more}, n_params 2632"
    store.save(table("models", model(), other), "models", small_store / "models.csv")
    with pytest.raises(DataError, match="n_params_nonembedding is not below n_params"):
        store.check(small_store)

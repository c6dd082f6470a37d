"""Result files of the study itself that its author later took out of the repository."""

import json
from pathlib import Path
from typing import Any

from source import Tables

from thermostats.tables.export import Source

SOURCE = Source(
    name="buk81-removed",
    title="Result files of the studied preprint, removed from its repository after publication",
    address="github.com/buk81/uniformity-asymmetry",
    commit="e3c7f94beb01a75e6774173ee3beeff3806d209c",
    licence="MIT",
    left_out="W_V, W_Q and W_K of Pythia and BLOOM, cut as thirds of an interleaved matrix, which "
    "they are not; "
    "effective ranks, whose definition is not stated; the file clean_residual_validation, which "
    "repeats a published "
    "one; figures of one file that follow from others (means, products, counts, verdicts)",
)
NAMES = {
    "gpt2": "openai-community/gpt2",
    "EleutherAI/gpt-neo-125M": "EleutherAI/gpt-neo-125m",
    "EleutherAI/gpt-j-6B": "EleutherAI/gpt-j-6b",
    "gpt-j-6b": "EleutherAI/gpt-j-6b",
    "pythia-6.9b": "EleutherAI/pythia-6.9b",
    "gemma-2b": "google/gemma-2b",
    "gemma-7b": "google/gemma-7b",
    "mistral-7b": "mistralai/Mistral-7B-v0.1",
}
INTERLEAVED = ("neox", "bloom")
"""Architectures whose fused matrix holds q, k, v head by head."""
STREAM = "hidden states of transformers"
ALL_TOKENS = f"{STREAM}, norms averaged over all tokens, the first included"
L_STAR = "L_star_definition_unstated"
FAMILY = "study_family_25"
"""The published prompt set of the family: means over it agree with a published file to the last
digit."""


def tables(folder: Path) -> Tables:
    """Norms of weights, gains over all tokens, sub-block gains and what else the removed files
    hold."""
    made = Tables(SOURCE)
    _restriction_maps(made, _read(folder, "restriction_map_spectral_20260105_202448.json"))
    _pooled_norms(
        made, "removed_llama2_llama31", _read(folder, "llama2_vs_llama31_hypothesis_test.json")
    )
    _pooled_norms(
        made, "removed_tuning_brake", _read(folder, "RLHF_safety_brake_test_results.json")
    )
    _sub_blocks(
        made,
        "removed_ffn_8",
        8,
        {"pythia-6.9b": _read(folder, "ffn_expansion_pythia69b_results.json")},
    )
    results = _read(folder, "cross_architecture_validation_results.json")["results"]
    _sub_blocks(made, "removed_cross_architecture", 1, results)
    _heads(made, _read(folder, "beautiful_ones_analysis_20260105_164639.json"))
    _family(made, _read(folder, "pythia_family_residual_gain_20260105_173135.json"))
    for name in ("anisotropy_results_pythia.json", "anisotropy_results_gemma.json"):
        _anisotropy(made, _read(folder, name))
    _transition(made, _read(folder, "l_star_cross_heritage_20260106_104357.json"))
    return made


def _read(folder: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    return content


def _restriction_maps(made: Tables, file: dict[str, Any]) -> None:
    """W_O of every model; W_V, W_Q and W_K of those where a third of the fused matrix, or a matrix,
    is one of them."""
    for result in file["results"]:
        model = NAMES.get(result["model"], result["model"])
        run = made.run(model, "", "singular values of whole matrices", "float32", file["date"])
        made.weights(run, "W_O", result["W_O_spectral_norm"], result["W_O_frobenius_norm"])
        if result["arch"] in INTERLEAVED:
            continue
        made.weights(run, "W_V", result["W_V_spectral_norm"], result["W_V_frobenius_norm"])
        for matrix in ("W_Q", "W_K"):
            for norm in ("spectral_norm", "frobenius_norm"):
                values = enumerate(result[f"{matrix}_{norm}"], 1)
                made.summaries(
                    run, {f"{matrix}_{norm}_layer_{layer:02}": value for layer, value in values}
                )


def _pooled_norms(made: Tables, prompts: str, file: dict[str, Any]) -> None:
    """Norms of 33 hidden states averaged over tokens; the last is after the final norm."""
    made.prompts(prompts, ["unstated"], "unstated")
    for name, model in file["models"].items():
        if name.startswith("_"):
            continue
        norms = model.get("residual", model)["norms"]
        run = made.run(model["hf_name"], prompts, ALL_TOKENS, measured_at=file["date"])
        made.norms(run, norms[:-1], "all")
        normed = {
            "normed_gain_all_tokens": norms[-1] / norms[-2],
            "normed_norm_all_tokens": norms[-1],
        }
        made.summaries(run, normed)
        if head := model.get("w_u"):
            weights = made.run(
                model["hf_name"], "", "singular values of whole matrices", measured_at=file["date"]
            )
            made.weights(
                weights, "unembedding", [head["spectral_norm"]], [head["frobenius_norm"]], first=0
            )


def _sub_blocks(made: Tables, prompts: str, count: int, models: dict[str, Any]) -> None:
    """Gains of attention and feed-forward layer; the token is not stated."""
    made.prompts(
        prompts,
        ["unstated"] if count == 1 else [f"p{n:02}" for n in range(1, count + 1)],
        "unstated",
    )
    for name, model in models.items():
        attention = model["attn_gains"] if "attn_gains" in model else model["attention"]["gains"]
        mlp = model["mlp_gains"] if "mlp_gains" in model else model["mlp"]["gains"]
        run = made.run(NAMES[name], prompts, "hooks on sub-blocks, output over input")
        for layer, (first, second) in enumerate(zip(attention, mlp, strict=True), 1):
            gains = {"gain_attention": first, "gain_mlp": second}
            made.add("layers", [{"run_id": run, "layer": layer, "position": "unstated", **gains}])


def _heads(made: Tables, file: dict[str, Any]) -> None:
    """Norms of what each head writes, and the ratio of the stream's norms, of which the token is
    not stated."""
    prompts = "removed_heads_5"
    made.prompts(
        prompts, [f"p{number:02}" for number in range(1, file["n_prompts"] + 1)], "unstated"
    )
    for name, model in file["models"].items():
        run = made.run(NAMES[name], prompts, STREAM, measured_at=file["date"])
        *inner, last = model["layers"]
        place = {"run_id": run, "position": "unstated"}
        made.add(
            "layers",
            (
                {**place, "layer": layer["layer"] + 1, "gain_block": layer["residual_ratio"]}
                for layer in inner
            ),
        )
        made.summaries(run, {"normed_gain_position_unstated": last["residual_ratio"]})
        for layer in model["layers"]:
            heads = enumerate(layer["head_norms"], 1)
            made.summaries(
                run,
                {
                    f"head_norm_layer_{layer['layer'] + 1:02}_head_{head:02}": norm
                    for head, norm in heads
                },
            )


def _family(made: Tables, file: dict[str, Any]) -> None:
    """The last ratio of hidden states, the final norm in it, prompt by prompt.

    Its means are published figures, so it has a name of its own: no measurement may count twice.
    """
    for model in file["models"]:
        run = made.run(f"EleutherAI/{model['model']}", FAMILY, STREAM, measured_at=file["date"])
        for number, value in enumerate(model["residual_gain_all"], 1):
            made.summaries(run, {"normed_gain_by_prompt": value}, f"p{number:02}")


def _anisotropy(made: Tables, file: dict[str, Any]) -> None:
    """Mean cosine of token vectors and the spread of their norms at every state, the last after the
    final norm."""
    prompts = "removed_anisotropy_16"
    if not any(row["prompt_set"] == prompts for row in made.rows["prompts"]):
        made.prompts(
            prompts, [f"p{number:02}" for number in range(1, file["n_prompts"] + 1)], "unstated"
        )
    run = made.run(file["model"], prompts, STREAM)
    for name in ("avg_cos_sim", "norm_cv", "intrinsic_dim_ratio"):
        made.summaries(
            run,
            {f"{name}_state_{state:02}": value for state, value in enumerate(file.get(name, ()))},
        )


def _transition(made: Tables, file: dict[str, Any]) -> None:
    """An earlier L*: neither how it was found nor how layers are counted is stated, so it is no row
    of transitions."""
    prompts = "removed_transition"
    made.prompts(prompts, ["unstated"], "unstated")
    for result in file["results"]:
        run = made.run(
            NAMES.get(result["model"], result["model"]),
            prompts,
            "unstated",
            measured_at=file["timestamp"],
        )
        made.summaries(
            run,
            {f"{L_STAR}_mean": result["L_star_empirical"], f"{L_STAR}_sd": result["L_star_std"]},
        )

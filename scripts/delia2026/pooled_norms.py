"""Readers of the files whose norms are pooled over all tokens: four models, input dependency,
Mistral, LLaMA.

Their norm is the Frobenius norm of the whole prompt's hidden state: norms stay near the first
token's (an attention sink, hundreds of times larger) from block 2 on, and n_2 / n_0 falls with the
prompt's length as one over its root. Probabilities and logits of the input dependency and Mistral
files are float16 numbers, not bfloat16: so is the run.
"""

from __future__ import annotations

import numpy as np
from ledger import Document, Place
from reading import EXACT, NAN, SINGLE, Curve, Reading, Run
from scipy import stats

INPUT_SET = "study_input_5"
MISTRAL = "mistralai/Mistral-7B-v0.1"
NORMED = "the published ratio has passed the final norm: summaries normed_gain_all_tokens"
UNKNOWN = "not known whether the last state has passed the final norm"
COPIED = "last ratio over all tokens, copied by hand"
OFFSET = 1e-10
"""The study adds it to a gain before taking the logarithm."""


def read_four_models(reading: Reading, document: Document) -> None:
    """`4model_validation_results`: norms and gains per layer of one prompt, cumulative energy."""
    top = document.top
    reference = top["mistral_reference"]
    reading.state(reference["last_layer_gain"], COPIED, MISTRAL)
    reading.state(
        reference["initial_explosion"], "first ratio over all tokens, copied by hand", MISTRAL
    )
    for place in reference["plateau_range"].each(2):
        reading.state(place, "ends of the plateau, 0-based", MISTRAL)
    gains: dict[str, Curve] = {}
    for model, place in reading.by_model(top["results"]):
        gains[model] = _stream(reading.run(document, model), place)
        _energy(reading, place, gains[model])
    for name, place in top["cumulative_energy"].named():
        reading.derive(place["final_cumulative"], top["results"][name]["final_cumulative"].peek())
    swiglu = top["swiglu_comparison"]
    llama = reading.derive(swiglu["llama31_8b_last_gain"], gains["meta-llama/Llama-3.1-8B"][-1])
    reading.derive(
        swiglu["ratio"], llama / reading.state(swiglu["mistral_7b_last_gain"], COPIED, MISTRAL)
    )
    reading.derive(top["universal_principle_test"]["total_models"], len(gains) + 1)
    apertus = gains["swiss-ai/Apertus-8B-2509"]
    reading.follow(
        top["paper2_connection"], {"layer28_gain": apertus[28], "last_layer_gain": apertus[-1]}
    )


def read_input_dependency(reading: Reading, document: Document) -> None:
    """`input_dependency_thermodynamics`: LLaMA-3.1-8B on five prompts."""
    top = document.top
    texts = [
        (name, p["text"].text(), p["difficulty"].text(), None) for name, p in top["prompts"].named()
    ]
    reading.prompts(INPUT_SET, texts)
    run = reading.run(document, reading.model(top["model"]), prompts=INPUT_SET, dtype="float16")
    last = []
    entropies = []
    for name, place in top["results"].named():
        *inner, final = place["gains"].each(run.L)
        run.layers({"gain_block": inner}, "all", name)
        normed = run.take(final, "normed_gain_all_tokens", name)
        last.append(reading.derive(place["last_gain"], normed))
        entropies.append(place["entropy"].peek())
        (first, probability), *others = (pair.each(2) for pair in place["top_tokens"].each(5))
        token = first.token("outputs.top_token")
        run.output({"entropy": place["entropy"], "top_probability": probability}, name, token)
        for rank, (_, place_of_probability) in enumerate(others, start=2):
            run.take(place_of_probability, f"token_probability_rank_{rank}", name)
    for kind, fit in (
        ("pearson", stats.pearsonr(last, entropies)),
        ("spearman", stats.spearmanr(last, entropies)),
    ):
        reading.follow(top["correlation"], {f"{kind}_r": fit[0], f"{kind}_p": fit[1]})


def read_mistral(reading: Reading, document: Document) -> None:
    """`mistral_paradox_investigation_results`: stream, (un)embedding and output of Mistral-7B.

    The list of norms has 32 entries for 32 blocks and its first (6.05) is no embedding (longest row
    0.25): it is n_1. So entry i of `gains` is G_(i+2), and the last is that of block 32, with or
    without the final norm.
    """
    top = document.top
    for name, place in top["residual_stream_analysis"].named():
        run = reading.run(document, reading.name(name), dtype="float16")
        *inner, final = place["norms"].each(run.L)
        *between, ratio = place["gains"].each(run.L - 1)
        _, gains = run.layers(
            {"norm_in": inner, "gain_block": between}, "all", first=2, missing=UNKNOWN
        )
        every = np.append(gains, run.take(ratio, "last_ratio_all_tokens_norm_unstated"))
        run.take(final, "last_norm_all_tokens_norm_unstated")
        reading.state(place["n_layers"], "number of layers as stated")
        extremes = {
            "last_gain": every[-1],
            "max_gain": every.max(),
            "max_gain_layer": every.argmax(),
        }
        reading.follow(place, {"contracting_pct": 100 * np.mean(every < 1), **extremes})
        above = np.flatnonzero(every > 1)
        for index, pair in zip(above, place["expansion_layers"].each(len(above)), strict=True):
            entry, gain_there = pair.each(2)
            reading.derive(entry, index, "0-based entry of gains above 1", within=EXACT)
            reading.derive(gain_there, every[index], "gains above 1", within=EXACT)
        _embeddings(run, top["unembedding_analysis"][name])
        _entropy(run, top["entropy_analysis"][name])


def read_llama(reading: Reading, document: Document) -> None:
    """`llama_anomaly_hypothesis_tests`: unembeddings of three models, facts of their position
    scheme."""
    top = document.top
    for model, place in reading.by_model(top["hypothesis_1_titanium_projector"]["results"]):
        run = reading.run(document, model, prompts="")
        _shape(run, place["shape"])
        run.hold(place, "vocab_size", "hidden_dim")
        spectral = _matrix(run, place, "unembedding")
        last = reading.state(place["last_gain"], "last gain, copied by hand")
        scaled = {"spectral_per_sqrt_vocab": spectral / np.sqrt(run.fact("vocab_size"))}
        reading.follow(place, scaled | {"effective_amplification": spectral * last})
    for _, place in reading.by_model(top["hypothesis_2_rope"]["results"]):
        for key in ("rope_theta", "max_position", "context_length"):
            reading.state(place[key], key)
        if place["rope_scaling"].value is not None:
            for key in (
                "factor",
                "low_freq_factor",
                "high_freq_factor",
                "original_max_position_embeddings",
            ):
                reading.state(place["rope_scaling"][key], f"rope_scaling {key}")


def _stream(run: Run, place: Place) -> Curve:
    """Norms and gains of one model by layer; returns the gains as published, the last past the
    final norm."""
    run.hold(place, "n_layers")
    *before, after = place["norms"].each(run.L + 1)
    *inner, last = place["gains"].each(run.L)
    norms, gains = run.layers({"norm_in": before, "gain_block": inner}, "all", missing=NORMED)
    norms = np.append(norms, run.take(after, "normed_norm_all_tokens"))
    published = np.append(gains, run.take(last, "normed_gain_all_tokens"))
    ratios = norms[1:] / norms[:-1]
    worst = int(np.abs(ratios / published - 1).argmax())
    if abs(ratios[worst] / published[worst] - 1) > SINGLE:
        words = {
            "where": f"{place.where}/gains/{worst}",
            "file": place.document.file,
            "model": run.model,
        }
        run.reading.disagree("ratio", float(published[worst]), float(ratios[worst]), **words)
    return published


def _energies(g: Curve) -> Curve:
    return np.asarray(np.exp(np.cumsum(np.log(g + OFFSET))))


def _energy(reading: Reading, place: Place, g: Curve) -> None:
    reading.follow_each(place["cumulative_energy"], _energies(g))
    shares = {"contracting_pct": 100 * np.mean(g < 1), "expanding_pct": 100 * np.mean(g >= 1)}
    ends = {
        "initial_gain": g[0],
        "last_gain": g[-1],
        "max_gain": g.max(),
        "max_gain_layer": g.argmax(),
    }
    reading.follow(place, ends | shares | {"final_cumulative": _energies(g)[-1]})
    if place["paper2_inversion_layer"].value is not None:
        lowest = g[:-1].argmin()
        reading.follow(
            place, {"paper2_inversion_layer": lowest, "paper2_inversion_gain": g[lowest]}
        )


def _embeddings(run: Run, place: Place) -> None:
    for matrix in ("unembedding", "embedding"):
        part = place[matrix]
        _shape(run, part["shape"])
        spectral = _matrix(run, part, matrix)
        for key in ("max_row_norm", "min_row_norm", "mean_abs", "std_abs"):
            run.take(part[key], f"{matrix}_{key}")
        d = run.fact("d_model")
        size = run.fact("d_model") * run.fact("vocab_size")
        scaled = {"frobenius_normalized": part["frobenius_norm"].peek() / np.sqrt(size)}
        scaled |= {"spectral_normalized": spectral / np.sqrt(d)}
        run.reading.follow(part, {"max_singular": spectral, **scaled})
    first, second = (
        place[matrix]["frobenius_norm"].peek() for matrix in ("unembedding", "embedding")
    )
    run.reading.derive(place["wu_we_ratio"], first / second)


def _matrix(run: Run, place: Place, matrix: str) -> float:
    """Norms of a matrix into `weights`, those of its rows into `summaries`; returns the spectral
    norm."""
    norms = {
        name: place[name].number(f"weights.{name}") for name in ("spectral_norm", "frobenius_norm")
    }
    run.add(
        "weights",
        layer=0,
        matrix=matrix,
        head="",
        **norms,
        missing=NAN if None in norms.values() else "",
    )
    run.take(place["mean_row_norm"], f"{matrix}_row_norm_mean")
    run.take(place["std_row_norm"], f"{matrix}_row_norm_sd")
    return place["spectral_norm"].peek()


def _shape(run: Run, place: Place) -> None:
    for side, label in zip(place.each(2), ("vocab_size", "d_model"), strict=True):
        run.same(side, label)


def _entropy(run: Run, place: Place) -> None:
    columns = {
        "entropy": "entropy",
        "logit_mean": "logit_mean",
        "logit_sd": "logit_std",
        "logit_range": "logit_range",
    }
    run.output({column: place[key] for column, key in columns.items()})
    for key, estimand in (
        ("logit_max",) * 2,
        ("logit_min",) * 2,
        ("top10_prob_mass", "top_10_probability"),
    ):
        run.take(place[key], estimand)
    run.reading.derive(place["effective_vocab"], np.exp(place["entropy"].peek()))

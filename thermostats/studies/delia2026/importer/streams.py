"""Readers of the files whose norms are pooled over all tokens: four models, input dependency, Mistral, LLaMA.

Their norm is the Frobenius norm of the whole prompt's hidden state: norms stay near the first token's (an attention
sink, hundreds of times larger) from block 2 on, and n_2 / n_0 falls with the prompt's length as one over its root.
Probabilities and logits of the input dependency and Mistral files are float16 numbers, not bfloat16: so is the run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from thermostats.studies.delia2026.importer.ledger import Document, Place
from thermostats.studies.delia2026.importer.names import model_id
from thermostats.studies.delia2026.importer.study import EXACT, SINGLE, UNSTATED_SET, Study

INPUT_SET = "study_input_5"
NORMED = "the published ratio has passed the final norm: summaries normed_gain_all_tokens"
OFFSET = 1e-10
"""The study adds it to a gain before taking the logarithm."""


def read_four_models(study: Study, document: Document) -> None:
    """`4model_validation_results`: norms and gains per layer of one prompt, cumulative energy."""
    top = document.top
    reference = top["mistral_reference"]
    mistral = "mistralai/Mistral-7B-v0.1"
    study.state(reference["last_layer_gain"], "last ratio over all tokens, copied by hand", mistral)
    study.state(reference["initial_explosion"], "first ratio over all tokens, copied by hand", mistral)
    for place in reference["plateau_range"].each(2):
        study.state(place, "ends of the plateau, 0-based", mistral)
    for name in ("llama3.1-8b", "apertus-8b", "gemma-7b", "pythia-6.9b"):
        _ = top["results"][name]
    finals: dict[str, float] = {}
    gains: dict[str, list[float]] = {}
    for name, place in top["results"].named():
        model = model_id(name, place)
        run = study.run(document, model, prompt_set=UNSTATED_SET)
        gains[name] = _stream(study, place, run, model)
        finals[name] = _energy(study, place, np.array(gains[name]))
    for name, place in top["cumulative_energy"].named():
        study.derive(place["final_cumulative"], finals.get(name, np.nan), "final_cumulative of the model", within=EXACT)
    swiglu = top["swiglu_comparison"]
    llama = study.derive(swiglu["llama31_8b_last_gain"], gains["llama3.1-8b"][-1], "gains, last entry", within=EXACT)
    other = study.state(swiglu["mistral_7b_last_gain"], "last ratio over all tokens, copied by hand", mistral)
    study.derive(swiglu["ratio"], llama / (other or np.nan), "LLaMA-3.1's last ratio over Mistral's")
    test = top["universal_principle_test"]
    study.derive(test["total_models"], len(finals) + 1, "number of models and the Mistral reference", within=EXACT)
    second = top["paper2_connection"]
    study.derive(second["layer28_gain"], gains["apertus-8b"][28], "gains, 0-based entry 28", within=EXACT)
    study.derive(second["last_layer_gain"], gains["apertus-8b"][-1], "gains, last entry", within=EXACT)


def read_input_dependency(study: Study, document: Document) -> None:
    """`input_dependency_thermodynamics`: LLaMA-3.1-8B on five prompts."""
    top = document.top
    model = study.model(top["model"])
    texts = [(name, p["text"].text(), p["difficulty"].text(), None) for name, p in top["prompts"].named()]
    study.prompts(INPUT_SET, texts)
    run = study.run(document, model, prompt_set=INPUT_SET, dtype="float16")
    L = int(study.fact(model, "n_layers"))
    for name in ("1_Factual", "2_Syntactic"):
        _ = top["results"][name]
    last, entropies = [], []
    for name, place in top["results"].named():
        *inner, final = place["gains"].each(L)
        for layer, gain in enumerate(inner, start=1):
            study.layer(run, layer, name, "all", gain_block=gain.number("layers.gain_block", above=0.0))
        normed = study.take(final, run, "normed_gain_all_tokens", name, above=0.0)
        last.append(
            study.derive(place["last_gain"], _nan(normed), "summaries.value normed_gain_all_tokens", within=EXACT)
        )
        entropy = place["entropy"].number("outputs.entropy", lower=0.0)
        entropies.append(_nan(entropy))
        tokens = [pair.each(2) for pair in place["top_tokens"].each(5)]
        study.output(
            run,
            name,
            entropy=entropy,
            top_token=tokens[0][0].token("outputs.top_token"),
            top_probability=tokens[0][1].number("outputs.top_probability", lower=0.0, upper=1.0),
        )
        for rank, (_, probability) in enumerate(tokens[1:], start=2):
            study.take(probability, run, f"token_probability_rank_{rank}", name, lower=0.0, upper=1.0)
    found = top["correlation"]
    pearson, spearman = stats.pearsonr(last, entropies), stats.spearmanr(last, entropies)
    study.derive(found["pearson_r"], pearson[0], "Pearson correlation of normed gain and entropy")
    study.derive(found["pearson_p"], pearson[1], "p of the Pearson correlation of normed gain and entropy")
    study.derive(found["spearman_r"], spearman[0], "Spearman correlation of normed gain and entropy")
    study.derive(found["spearman_p"], spearman[1], "p of the Spearman correlation of normed gain and entropy")


def read_mistral(study: Study, document: Document) -> None:
    """`mistral_paradox_investigation_results`: stream, (un)embedding and output of Mistral-7B.

    The list of norms has 32 entries for 32 blocks and its first (6.05) is no embedding (longest row 0.25): it is n_1.
    So entry i of `gains` is G_(i+2), and the last is that of block 32, with or without the final norm.
    """
    top = document.top
    for name, place in top["residual_stream_analysis"].named():
        model = model_id(name, place)
        run = study.run(document, model, prompt_set=UNSTATED_SET, dtype="float16")
        L = int(study.fact(model, "n_layers"))
        norms = [n.number("layers.norm_in", above=0.0) for n in place["norms"].each(L)[:-1]]
        gains = place["gains"].each(L - 1)
        values = [g.number("layers.gain_block", above=0.0) for g in gains[:-1]]
        for layer, (norm, gain) in enumerate(zip(norms, [*values, None], strict=True), start=2):
            missing = "" if gain is not None else "not known whether the last state has passed the final norm"
            study.layer(run, layer, "", "all", missing, norm_in=norm, gain_block=gain)
        last = study.take(gains[-1], run, "last_ratio_all_tokens_norm_unstated", above=0.0)
        study.take(place["norms"].each()[-1], run, "last_norm_all_tokens_norm_unstated", above=0.0)
        study.state(place["n_layers"], "number of layers as stated", model)
        every = np.array([*values, last], float)
        study.derive(place["contracting_pct"], 100 * np.mean(every < 1), "100 x share of gains below 1")
        study.derive(place["last_gain"], every[-1], "gains, last entry", within=EXACT)
        study.derive(place["max_gain"], every.max(), "largest of gains", within=EXACT)
        study.derive(place["max_gain_layer"], int(every.argmax()), "argmax of gains, 0-based", within=EXACT)
        expanding = place["expansion_layers"].each(int((every > 1).sum()))
        for index, pair in zip(np.flatnonzero(every > 1), expanding, strict=True):
            entry, ratio = pair.each(2)
            study.derive(entry, int(index), "0-based entry of gains above 1", within=EXACT)
            study.derive(ratio, every[index], "gains above 1", within=EXACT)
        _unembedding(study, top["unembedding_analysis"][name], run)
        _entropy(study, top["entropy_analysis"][name], run)


def read_llama(study: Study, document: Document) -> None:
    """`llama_anomaly_hypothesis_tests`: unembeddings of three models, facts of their position scheme."""
    top = document.top
    for name, place in top["hypothesis_1_titanium_projector"]["results"].named():
        model = model_id(name, place)
        run = study.run(document, model, prompt_set="")
        _shape(study, place["shape"], model)
        study.same(place["vocab_size"], model, "vocab_size")
        study.same(place["hidden_dim"], model, "d_model")
        spectral = _matrix(study, place, run, "unembedding")
        study.derive(
            place["spectral_per_sqrt_vocab"],
            spectral / np.sqrt(study.fact(model, "vocab_size")),
            "spectral norm / sqrt(V)",
        )
        last = study.state(place["last_gain"], "last gain, copied by hand", model)
        study.derive(place["effective_amplification"], spectral * (last or np.nan), "spectral norm x last gain stated")
    for name, place in top["hypothesis_2_rope"]["results"].named():
        model = model_id(name, place)
        for key in ("rope_theta", "max_position", "context_length"):
            study.state(place[key], key, model)
        if place["rope_scaling"].value is not None:
            for key in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"):
                study.state(place["rope_scaling"][key], f"rope_scaling {key}", model)


def _stream(study: Study, place: Place, run: str, model: str) -> list[float]:
    L = study.same(place["n_layers"], model, "n_layers")
    norms = [n.number("layers.norm_in", above=0.0) for n in place["norms"].each(L + 1)[:-1]]
    final = study.take(place["norms"].each()[-1], run, "normed_norm_all_tokens", above=0.0)
    *inner, last = place["gains"].each(L)
    gains = [_nan(gain.number("layers.gain_block", above=0.0)) for gain in inner]
    normed = study.take(last, run, "normed_gain_all_tokens", above=0.0)
    for layer, norm in enumerate(norms, start=1):
        if layer < L:
            study.layer(run, layer, "", "all", norm_in=norm, gain_block=gains[layer - 1])
        else:
            study.layer(run, layer, "", "all", NORMED, norm_in=norm)
    gains.append(_nan(normed))
    ratios = np.array([*norms[1:], final], float) / np.array(norms, float)
    worst = int(np.abs(ratios / gains - 1).argmax())
    if abs(ratios[worst] / gains[worst] - 1) > SINGLE:
        study.disagree(
            f"{place.where}/gains/{worst}",
            "does not follow",
            place.document,
            "the gain is not the ratio of the norms beside it",
            "both are imported as published",
            model=model,
            value=gains[worst],
            other_value=float(ratios[worst]),
        )
    return gains


def _energy(study: Study, place: Place, g: NDArray[np.float64]) -> float:
    energies = np.exp(np.cumsum(np.log(g + OFFSET)))
    for entry, energy in zip(place["cumulative_energy"].each(len(g)), energies, strict=True):
        study.derive(entry, energy, "running product of gains (plus 1e-10)")
    study.derive(place["initial_gain"], g[0], "gains, first entry", within=EXACT)
    study.derive(place["last_gain"], g[-1], "gains, last entry", within=EXACT)
    study.derive(place["max_gain"], g.max(), "largest of gains", within=EXACT)
    study.derive(place["max_gain_layer"], int(g.argmax()), "argmax of gains, 0-based", within=EXACT)
    study.derive(place["contracting_pct"], 100 * np.mean(g < 1), "100 x share of gains below 1")
    study.derive(place["expanding_pct"], 100 * np.mean(g >= 1), "100 x share of gains from 1 on")
    if place["paper2_inversion_layer"].value is not None:
        inversion = place["paper2_inversion_layer"].whole()
        inner = g[:-1]
        study.derive(place["paper2_inversion_layer"], int(inner.argmin()), "argmin of gains, 0-based", within=EXACT)
        study.derive(
            place["paper2_inversion_gain"], g[inversion] if inversion < len(g) else np.nan, "gains there", within=EXACT
        )
    return study.derive(place["final_cumulative"], energies[-1], "product of gains (plus 1e-10)")


def _unembedding(study: Study, place: Place, run: str) -> None:
    model = next(row["model_id"] for row in study.rows["runs"] if row["run_id"] == run)
    frobenius = {}
    for matrix in ("unembedding", "embedding"):
        part = place[matrix]
        size = _shape(study, part["shape"], model)
        spectral = _matrix(study, part, run, matrix)
        frobenius[matrix] = part["frobenius_norm"].peek()
        study.derive(part["max_singular"], spectral, "weights.spectral_norm", within=EXACT)
        for key in ("max_row_norm", "min_row_norm", "mean_abs", "std_abs"):
            study.take(part[key], run, f"{matrix}_{key}", lower=0.0)
        study.derive(
            part["frobenius_normalized"],
            frobenius[matrix] / np.sqrt(size),
            "Frobenius norm / sqrt(entries)",
            within=SINGLE,
        )
        width = study.fact(model, "d_model")
        study.derive(part["spectral_normalized"], spectral / np.sqrt(width), "spectral norm / sqrt(d)", within=SINGLE)
    ratio = frobenius["unembedding"] / frobenius["embedding"]
    study.derive(place["wu_we_ratio"], ratio, "ratio of the Frobenius norms", within=SINGLE)


def _matrix(study: Study, place: Place, run: str, matrix: str) -> float:
    """Norms of a matrix into `weights`, those of its rows into `summaries`; returns the spectral norm."""
    spectral = place["spectral_norm"].number("weights.spectral_norm", above=0.0)
    frobenius = place["frobenius_norm"].number("weights.frobenius_norm", above=0.0)
    study.add(
        "weights",
        run_id=run,
        layer=0,
        matrix=matrix,
        head="",
        spectral_norm=spectral,
        frobenius_norm=frobenius,
        stable_rank=None,
        missing="NaN in the file" if None in (spectral, frobenius) else "",
    )
    study.take(place["mean_row_norm"], run, f"{matrix}_row_norm_mean", lower=0.0)
    study.take(place["std_row_norm"], run, f"{matrix}_row_norm_sd", lower=0.0)
    return _nan(spectral)


def _shape(study: Study, place: Place, model: str) -> int:
    rows, columns = place.each(2)
    return study.same(rows, model, "vocab_size") * study.same(columns, model, "d_model")


def _entropy(study: Study, place: Place, run: str) -> None:
    entropy = place["entropy"].number("outputs.entropy", lower=0.0)
    study.output(
        run,
        "",
        entropy=entropy,
        top_token="",
        logit_mean=place["logit_mean"].number("outputs.logit_mean"),
        logit_sd=place["logit_std"].number("outputs.logit_sd", lower=0.0),
        logit_range=place["logit_range"].number("outputs.logit_range", lower=0.0),
    )
    study.take(place["logit_max"], run, "logit_max")
    study.take(place["logit_min"], run, "logit_min")
    study.take(place["top10_prob_mass"], run, "top_10_probability", lower=0.0, upper=1.0)
    study.derive(place["effective_vocab"], np.exp(_nan(entropy)), "exp(entropy)", within=SINGLE)


def _nan(value: float | None) -> float:
    return float("nan") if value is None else value

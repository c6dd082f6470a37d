"""Readers of the files whose norms are pooled over all tokens: four models, input dependency, Mistral, LLaMA.

Their norm is the Frobenius norm of the whole prompt's hidden state: norms stay near the first token's (an attention
sink, hundreds of times larger) from block 2 on, and n_2 / n_0 falls with the prompt's length as one over its root.
Probabilities and logits of the input dependency and Mistral files are float16 numbers, not bfloat16: so is the run.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from thermostats.studies.delia2026.importer.ledger import Document, Place
from thermostats.studies.delia2026.importer.model_names import model_id
from thermostats.studies.delia2026.importer.reading import EXACT, SINGLE, Curve, Reading, nan

INPUT_SET = "study_input_5"
NORMED = "the published ratio has passed the final norm: summaries normed_gain_all_tokens"
UNKNOWN = "not known whether the last state has passed the final norm"
COPIED = "last ratio over all tokens, copied by hand"
OFFSET = 1e-10
"""The study adds it to a gain before taking the logarithm."""


def read_four_models(reading: Reading, document: Document) -> None:
    """`4model_validation_results`: norms and gains per layer of one prompt, cumulative energy."""
    top = document.top
    reference = top["mistral_reference"]
    mistral = "mistralai/Mistral-7B-v0.1"
    reading.state(reference["last_layer_gain"], COPIED, mistral)
    reading.state(reference["initial_explosion"], "first ratio over all tokens, copied by hand", mistral)
    for place in reference["plateau_range"].each(2):
        reading.state(place, "ends of the plateau, 0-based", mistral)
    for name in ("llama3.1-8b", "apertus-8b", "gemma-7b", "pythia-6.9b"):
        _ = top["results"][name]
    finals: dict[str, float] = {}
    gains: dict[str, Curve] = {}
    for name, place in top["results"].named():
        model = model_id(name, place)
        gains[name] = _stream(reading, place, reading.run(document, model), model)
        finals[name] = _energy(reading, place, gains[name])
    for name, place in top["cumulative_energy"].named():
        reading.derive(place["final_cumulative"], finals.get(name, np.nan))
    swiglu = top["swiglu_comparison"]
    llama = reading.derive(swiglu["llama31_8b_last_gain"], gains["llama3.1-8b"][-1])
    other = reading.state(swiglu["mistral_7b_last_gain"], COPIED, mistral)
    reading.derive(swiglu["ratio"], llama / (other or np.nan))
    reading.derive(top["universal_principle_test"]["total_models"], len(finals) + 1)
    apertus = gains["apertus-8b"]
    reading.follow(top["paper2_connection"], {"layer28_gain": apertus[28], "last_layer_gain": apertus[-1]})


def read_input_dependency(reading: Reading, document: Document) -> None:
    """`input_dependency_thermodynamics`: LLaMA-3.1-8B on five prompts."""
    top = document.top
    model = reading.model(top["model"])
    texts = [(name, p["text"].text(), p["difficulty"].text(), None) for name, p in top["prompts"].named()]
    reading.prompts(INPUT_SET, texts)
    run = reading.run(document, model, prompt_set=INPUT_SET, dtype="float16")
    for name in ("1_Factual", "2_Syntactic"):
        _ = top["results"][name]
    last, entropies = [], []
    for name, place in top["results"].named():
        *inner, final = place["gains"].each(reading.depth(model))
        for layer, gain in enumerate(inner, start=1):
            reading.layer(run, layer, name, "all", gain_block=gain.number("layers.gain_block"))
        normed = reading.take(final, run, "normed_gain_all_tokens", name)
        last.append(reading.derive(place["last_gain"], nan(normed)))
        entropy = place["entropy"].number("outputs.entropy")
        entropies.append(nan(entropy))
        (first, first_probability), *others = (pair.each(2) for pair in place["top_tokens"].each(5))
        token = first.token("outputs.top_token")
        probability = first_probability.number("outputs.top_probability")
        reading.output(run, name, entropy=entropy, top_token=token, top_probability=probability)
        for rank, (_, place_of_probability) in enumerate(others, start=2):
            reading.take(place_of_probability, run, f"token_probability_rank_{rank}", name)
    for kind, found in (("pearson", stats.pearsonr(last, entropies)), ("spearman", stats.spearmanr(last, entropies))):
        reading.follow(top["correlation"], {f"{kind}_r": found[0], f"{kind}_p": found[1]})


def read_mistral(reading: Reading, document: Document) -> None:
    """`mistral_paradox_investigation_results`: stream, (un)embedding and output of Mistral-7B.

    The list of norms has 32 entries for 32 blocks and its first (6.05) is no embedding (longest row 0.25): it is n_1.
    So entry i of `gains` is G_(i+2), and the last is that of block 32, with or without the final norm.
    """
    top = document.top
    for name, place in top["residual_stream_analysis"].named():
        model = model_id(name, place)
        run = reading.run(document, model, dtype="float16")
        L = reading.depth(model)
        *inner, final = place["norms"].each(L)
        norms = [norm.number("layers.norm_in") for norm in inner]
        *between, ratio = place["gains"].each(L - 1)
        values = [gain.number("layers.gain_block") for gain in between]
        for layer, (norm, gain) in enumerate(zip(norms, [*values, None], strict=True), start=2):
            reading.layer(run, layer, "", "all", "" if gain is not None else UNKNOWN, norm_in=norm, gain_block=gain)
        last = reading.take(ratio, run, "last_ratio_all_tokens_norm_unstated")
        reading.take(final, run, "last_norm_all_tokens_norm_unstated")
        reading.state(place["n_layers"], "number of layers as stated", model)
        every = np.array([*values, last], float)
        above = np.flatnonzero(every > 1)
        shown = {"last_gain": every[-1], "max_gain": every.max(), "max_gain_layer": every.argmax()}
        reading.follow(place, {"contracting_pct": 100 * np.mean(every < 1), **shown})
        for index, pair in zip(above, place["expansion_layers"].each(len(above)), strict=True):
            entry, gain_there = pair.each(2)
            reading.derive(entry, index, "0-based entry of gains above 1", within=EXACT)
            reading.derive(gain_there, every[index], "gains above 1", within=EXACT)
        _unembedding(reading, top["unembedding_analysis"][name], run, model)
        _entropy(reading, top["entropy_analysis"][name], run)


def read_llama(reading: Reading, document: Document) -> None:
    """`llama_anomaly_hypothesis_tests`: unembeddings of three models, facts of their position scheme."""
    top = document.top
    for name, place in top["hypothesis_1_titanium_projector"]["results"].named():
        model = model_id(name, place)
        run = reading.run(document, model, prompt_set="")
        _shape(reading, place["shape"], model)
        rows = reading.geometry(place, model, "vocab_size", "hidden_dim")
        spectral = _matrix(reading, place, run, "unembedding")
        reading.derive(place["spectral_per_sqrt_vocab"], spectral / np.sqrt(rows))
        last = reading.state(place["last_gain"], "last gain, copied by hand", model)
        reading.derive(place["effective_amplification"], spectral * (last or np.nan))
    for name, place in top["hypothesis_2_rope"]["results"].named():
        model = model_id(name, place)
        for key in ("rope_theta", "max_position", "context_length"):
            reading.state(place[key], key, model)
        if place["rope_scaling"].value is not None:
            for key in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"):
                reading.state(place["rope_scaling"][key], f"rope_scaling {key}", model)


def _stream(reading: Reading, place: Place, run: str, model: str) -> Curve:
    """Norms and gains of one model by layer; returns the gains as published, the last past the final norm."""
    L = reading.same(place["n_layers"], model, "n_layers")
    *before, after = place["norms"].each(L + 1)
    norms = [norm.number("layers.norm_in") for norm in before]
    final = reading.take(after, run, "normed_norm_all_tokens")
    *inner, last = place["gains"].each(L)
    gains = [nan(gain.number("layers.gain_block")) for gain in inner]
    normed = reading.take(last, run, "normed_gain_all_tokens")
    for layer, (norm, gain) in enumerate(zip(norms, gains, strict=False), start=1):
        reading.layer(run, layer, "", "all", norm_in=norm, gain_block=gain)
    reading.layer(run, L, "", "all", NORMED, norm_in=norms[-1])
    published = np.array([*gains, nan(normed)])
    ratios = np.array([*norms[1:], final], float) / np.array(norms, float)
    worst = int(np.abs(ratios / published - 1).argmax())
    if abs(ratios[worst] / published[worst] - 1) > SINGLE:
        words = {"where": f"{place.where}/gains/{worst}", "file": place.document.file, "model": model}
        reading.disagree("ratio", float(published[worst]), float(ratios[worst]), **words)
    return published


def _energy(reading: Reading, place: Place, g: Curve) -> float:
    energies = np.exp(np.cumsum(np.log(g + OFFSET)))
    for entry, energy in zip(place["cumulative_energy"].each(len(g)), energies, strict=True):
        reading.derive(entry, energy)
    shares = {"contracting_pct": 100 * np.mean(g < 1), "expanding_pct": 100 * np.mean(g >= 1)}
    ends = {"initial_gain": g[0], "last_gain": g[-1], "max_gain": g.max(), "max_gain_layer": g.argmax()}
    reading.follow(place, ends | shares)
    inversion = place["paper2_inversion_layer"]
    if inversion.value is not None:
        there = inversion.whole()
        reading.derive(inversion, g[:-1].argmin())
        reading.derive(place["paper2_inversion_gain"], g[there] if there < len(g) else np.nan)
    return reading.derive(place["final_cumulative"], energies[-1])


def _unembedding(reading: Reading, place: Place, run: str, model: str) -> None:
    frobenius = {}
    for matrix in ("unembedding", "embedding"):
        part = place[matrix]
        size = _shape(reading, part["shape"], model)
        spectral = _matrix(reading, part, run, matrix)
        frobenius[matrix] = part["frobenius_norm"].peek()
        for key in ("max_row_norm", "min_row_norm", "mean_abs", "std_abs"):
            reading.take(part[key], run, f"{matrix}_{key}")
        normalized = {
            "frobenius_normalized": frobenius[matrix] / np.sqrt(size),
            "spectral_normalized": spectral / np.sqrt(reading.fact(model, "d_model")),
        }
        reading.follow(part, {"max_singular": spectral, **normalized})
    reading.derive(place["wu_we_ratio"], frobenius["unembedding"] / frobenius["embedding"])


def _matrix(reading: Reading, place: Place, run: str, matrix: str) -> float:
    """Norms of a matrix into `weights`, those of its rows into `summaries`; returns the spectral norm."""
    norms = {name: place[name].number(f"weights.{name}") for name in ("spectral_norm", "frobenius_norm")}
    missing = "NaN in the file" if None in norms.values() else ""
    reading.add("weights", run_id=run, layer=0, matrix=matrix, head="", **norms, stable_rank=None, missing=missing)
    reading.take(place["mean_row_norm"], run, f"{matrix}_row_norm_mean")
    reading.take(place["std_row_norm"], run, f"{matrix}_row_norm_sd")
    return nan(norms["spectral_norm"])


def _shape(reading: Reading, place: Place, model: str) -> int:
    rows, columns = place.each(2)
    return reading.same(rows, model, "vocab_size") * reading.same(columns, model, "d_model")


def _entropy(reading: Reading, place: Place, run: str) -> None:
    entropy = place["entropy"].number("outputs.entropy")
    columns = {"logit_mean": "logit_mean", "logit_sd": "logit_std", "logit_range": "logit_range"}
    logits = {column: place[key].number(f"outputs.{column}") for column, key in columns.items()}
    reading.output(run, "", entropy=entropy, top_token="", **logits)
    for key, estimand in (("logit_max",) * 2, ("logit_min",) * 2, ("top10_prob_mass", "top_10_probability")):
        reading.take(place[key], run, estimand)
    reading.derive(place["effective_vocab"], np.exp(nan(entropy)))

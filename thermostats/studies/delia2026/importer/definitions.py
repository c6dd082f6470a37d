"""Disagreements about what a figure is: token position, final norm, base of L*, rounding noise, formulas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thermostats.studies.delia2026.importer.quantities import Measured
from thermostats.studies.delia2026.importer.study import Study
from thermostats.studies.delia2026.importer.verdicts import H4_FILES, VERDICTS

FOUR, INPUT, MISTRAL, LLAMA = (
    "4model_validation_results.json",
    "input_dependency_thermodynamics.json",
    "mistral_paradox_investigation_results.json",
    "llama_anomaly_hypothesis_tests.json",
)
BENCHMARK, SIGN, OPT = "thermodynamic_benchmark.json", "l_star_sign_change.json", "OPT_anomaly.json"


def find(study: Study, measured: Sequence[Measured]) -> None:
    """Record where a figure is not what its name says."""
    of = study.file(BENCHMARK)
    last = {m.model: m.value for m in measured if m.quantity == "last gain" and m.file == of}
    _pooled(study, last)
    _final_norm(study, last)
    _mistral(study, last)
    _transitions(study)
    _laplacians(study)
    _sparsity(study)


def _pooled(study: Study, last: dict[str, float]) -> None:
    four, inputs = study.documents[FOUR], study.documents[INPUT]
    sink = "norms are Frobenius norms over all tokens of the prompt, the first (an attention sink) included: "
    gains = {k: v["gains"] for k, v in inputs.root["results"].items()}
    study.disagree(
        "pooled tokens: input dependency",
        "mislabelled",
        inputs,
        sink
        + "from block 3 on gains are 1.00, and n_2 / n_0 falls from the shortest prompt (value) to the longest (other "
        "value) as one over the root of the length; a mean over tokens would fall as one over the length",
        "layers position all",
        model="meta-llama/Llama-3.1-8B",
        value=np.prod(gains["1_Factual"][:2]),
        other_value=np.prod(gains["2_Syntactic"][:2]),
    )
    study.disagree(
        "pooled tokens: four models",
        "mislabelled",
        four,
        sink
        + "LLaMA's second gain (value) is that of the input dependency file's shortest prompt (other value) but for "
        "rounding, and all later ones are 1.00; Apertus jumps likewise at block 3",
        "layers position all",
        other_file=inputs.file,
        model="meta-llama/Llama-3.1-8B",
        value=four.root["results"]["llama3.1-8b"]["gains"][1],
        other_value=gains["1_Factual"][1],
    )
    study.disagree(
        "input dependency of 1.53",
        "unsupported",
        inputs,
        "the file speaks of a gain of 1.53 for a complex prompt, 3.19 times that of the factual one; its "
        "largest gain is",
        "text, not imported",
        model="meta-llama/Llama-3.1-8B",
        value=max(v["last_gain"] for v in inputs.root["results"].values()),
        other_value=1.53,
    )
    study.disagree(
        "total models",
        "wrong fact",
        four,
        "total_models counts the Mistral reference; the file holds four models",
        "derivable as four and the reference",
        value=four.root["universal_principle_test"]["total_models"],
        other_value=len(four.root["results"]),
    )
    study.disagree(
        "LayerNorm contracts",
        "verdict against numbers",
        four,
        "layernorm_all_contract rests on one model, and on a ratio that has passed the final norm",
        VERDICTS,
        model="EleutherAI/pythia-6.9b",
        value=four.root["results"]["pythia-6.9b"]["last_gain"],
        other_value=1.0,
    )


def _final_norm(study: Study, last: dict[str, float]) -> None:
    four, inputs = study.documents[FOUR], study.documents[INPUT]
    for name, entry in four.root["results"].items():
        study.disagree(
            f"final norm: four models, {name}",
            "mislabelled",
            four,
            f"last_gain has passed the final norm: {entry['n_layers'] + 1} states for {entry['n_layers']} "
            "blocks are the embedding and the hidden states, whose last is normed; other value: the block's own "
            "gain at the last token, where a file has it",
            "summaries normed_gain_all_tokens; layer L holds its norm_in only",
            model=study.name(name),
            value=entry["last_gain"],
            other_value=last.get(study.name(name)),
        )
    for prompt, entry in inputs.root["results"].items():
        study.disagree(
            f"final norm: input dependency, {prompt}",
            "mislabelled",
            inputs,
            "last_gain has passed the final norm; the block's own gain at the last token, mean of 25 "
            "prompts, is above 1",
            "summaries normed_gain_all_tokens",
            other_file=study.file("thermodynamic_benchmark.json"),
            model="meta-llama/Llama-3.1-8B",
            value=entry["last_gain"],
            other_value=last["meta-llama/Llama-3.1-8B"],
        )
    stated = study.documents[LLAMA]
    what = {
        "gemma2-9b": "last_gain of Gemma-2-9B is Gemma-7B's of the four-model file; no file measures Gemma-2-9B",
        "llama3.1-8b": "last_gain has passed the final norm; the block's gain at the last token is the other value",
        "mistral-7b": "last_gain is over all tokens, perhaps past the final norm; other value: at the last token",
    }
    for name, entry in stated.root["hypothesis_1_titanium_projector"]["results"].items():
        other = four.root["results"]["gemma-7b"]["last_gain"] if name == "gemma2-9b" else last.get(study.name(name))
        study.disagree(
            f"effective amplification: {name}",
            "wrong fact",
            stated,
            what.get(name, "last_gain is copied by hand"),
            "statement; effective_amplification inherits it",
            other_file=four.file if name == "gemma2-9b" else study.file(BENCHMARK),
            model=study.name(name),
            value=entry["last_gain"],
            other_value=other,
        )


def _mistral(study: Study, last: dict[str, float]) -> None:
    mistral = study.documents[MISTRAL]
    stream = mistral.root["residual_stream_analysis"]["mistral-7b"]
    study.disagree(
        "Mistral layers",
        "wrong fact",
        mistral,
        "n_layers is the number of gains; the model has 32 blocks and the list 32 norms. The first norm (6.05) is no "
        "embedding, whose longest row is 0.25: x_0 is the state that is missing, and gain i is G_(i+2)",
        "layers 2..31, position all",
        model="mistralai/Mistral-7B-v0.1",
        value=stream["n_layers"],
        other_value=32,
    )
    study.disagree(
        "Mistral last ratio",
        "mislabelled",
        mistral,
        "whether the last of the norms has passed the final norm cannot be told: 1.37 is within the range "
        "of block hooks at "
        "the last token in the benchmark (0.96 to 1.56, mean: other value), and what a normed state would give",
        "summaries last_ratio_all_tokens_norm_unstated, not a gain",
        model="mistralai/Mistral-7B-v0.1",
        other_file=study.file(BENCHMARK),
        value=stream["last_gain"],
        other_value=last["mistralai/Mistral-7B-v0.1"],
    )


def _transitions(study: Study) -> None:
    document = study.documents[SIGN]
    results = document.root["results"]
    figure = {r["model_id"]: r["value"] for r in study.rows["statements"] if str(r["pointer"]).startswith("fig. 5 ")}
    for entry in results:
        model = study.name(entry["model"])
        study.disagree(
            f"L*: {model}",
            "measured twice",
            document,
            "L* by change of sign against that read off the preprint's fig. 5"
            + (f"; calibration value {entry['L_star_calibration']}" if entry["L_star_calibration"] else "")
            + " (0-based; the figure's base is not stated)",
            "transitions first_sign_change and calibration (1-based), statements fig. 5",
            model=model,
            value=entry["L_star_empirical"],
            other_value=figure.get(model),
        )
    usual = [100 * abs(e["L_star_predicted"] / e["L_star_empirical"] - 1) for e in results]
    study.disagree(
        "MAPE",
        "mislabelled",
        document,
        "overall_mape is the mean of |predicted - empirical| / L, an error in per cent of depth; relative "
        "to the empirical "
        "L*, as the name says, it is the other value",
        "derivable",
        value=document.root["overall_mape"],
        other_value=float(np.mean(usual)),
    )
    known = [e for e in results if e["L_star_calibration"]]
    truth = np.array([e["L_star_calibration"] for e in known], float)
    depths = np.array([e["L"] for e in known], float)
    predicted = np.array([e["L_star_predicted"] for e in known], float)
    for name, guess in (("4.8", predicted), ("25", depths / 2)):
        depth = float(np.mean(100 * np.abs(guess - truth) / depths))
        ratio = float(np.mean(100 * np.abs(guess / truth - 1)))
        study.disagree(
            f"error of {name} per cent",
            "does not follow",
            document,
            f"the preprint's {name} % for {'the formula' if name == '4.8' else 'L/2'}, against the four "
            "calibration values: "
            f"{depth:.1f} % of depth, {ratio:.1f} % relative to L*; the two errors that the preprint "
            "compares are closest to "
            "different measures",
            "statement",
            value=depth,
            other_value=float(name),
        )
    half = [100 * abs(e["L"] / 2 - figure[study.name(e["model"])]) / e["L"] for e in results]
    full = [100 * abs(e["L_star_predicted"] - figure[study.name(e["model"])]) / e["L"] for e in results]
    study.disagree(
        "15.7 per cent against L/2",
        "verdict against numbers",
        document,
        "with the L* read off fig. 5 the formula errs by 15.7 % of depth, and L/2, which the preprint "
        "gives 25 %, by the "
        "other value",
        "statements fig. 5",
        value=float(np.mean(full)),
        other_value=float(np.mean(half)),
    )
    study.disagree(
        "base of L*",
        "mislabelled",
        document,
        "L* are 0-based indices (H4_v2: recomputed; here: the smallest is 1, what a first peak in 0-based "
        "counting gives); "
        "the formula was fitted to them, so its L* is an index too, 1 less than the layer",
        "tables hold index + 1; compare the formula with layer - 1",
        other_file=study.file(H4_FILES[1]),
        value=0,
        other_value=1,
    )


def _laplacians(study: Study) -> None:
    first, second, extended = (study.documents[name] for name in H4_FILES)
    maps = study.documents["restriction_maps_results.json"]
    largest = max(max(e["spectral_gaps"]) for e in first.root["results"])
    for document, gap in ((first, largest), (maps, float(np.nanmax(maps.root["sheaf_laplacian"]["spectral_gaps"])))):
        study.disagree(
            f"gaps of rounding: {document.file}",
            "wrong formula",
            document,
            "the spectral gap is the difference of the two smallest eigenvalues, both zero of a sheaf "
            "Laplacian whose kernel is "
            "as wide as the stalk, plus 1e-10 on the diagonal: gaps of 1e-18 to 1e-12 are rounding, and "
            "so is L* by them",
            "imported as published; not to be read as spectra",
            value=gap,
            other_value=0.0,
        )
    for key, what in (("lambda_2", "sheaf"), ("graph_lambda_2", "graph")):
        lows = {e["model"]: min(e[key]) for e in second.root["results"]}
        model = min(lows, key=lambda name: lows[name])
        study.disagree(
            f"negative {key}",
            "wrong formula",
            second,
            f"the second-smallest eigenvalue of the {what} Laplacian is negative "
            f"({sum(v < 0 for v in lows.values())} of "
            f"{len(lows)} models; the smallest is shown); a Laplacian has none below zero",
            "imported as published",
            model=study.name(model),
            value=lows[model],
            other_value=0.0,
        )
    traces = {e["model"]: e["mean_trace_multihead"] for e in second.root["results"]}
    for entry in extended.root["extended_results"]:
        if study.name(entry["model"]) == "EleutherAI/pythia-1b":
            study.disagree(
                "scale of the extended traces",
                "not comparable",
                extended,
                "multi_head traces of some 3e8 in all five models, nearly flat over depth, against 1e4 "
                "for the smaller Pythia "
                "(value: Pythia-1B, other value: Pythia-410M), quoted side by side; no spectrum of W_V in "
                "the files allows it",
                "imported as published, compare within the file only",
                other_file=second.file,
                model="EleutherAI/pythia-1b",
                value=entry["mean_trace_mh"],
                other_value=traces["EleutherAI/pythia-410m"],
            )
    study.disagree(
        "trace tells the sign",
        "verdict against numbers",
        second,
        "26 times is GPT-2 over OPT-125M, both labelled EXPAND; the two labelled DAMPEN lie between them, "
        "and the file's own "
        "finding is that the trace does not discriminate (1.2 times)",
        VERDICTS,
        model="openai-community/gpt2",
        value=traces["gpt2"] / traces["facebook/opt-125m"],
        other_value=1.2,
    )
    findings = [place.text() for place in second.top["findings"].each()]
    study.disagree(
        "H4 v2 partially validated",
        "verdict against numbers",
        second,
        "the verdict is PARTIALLY VALIDATED; the value counts the findings below it that are False, the other value "
        "all findings below it",
        VERDICTS,
        value=sum(f.endswith("False") for f in findings),
        other_value=len(findings),
    )
    by_first = [e["L_star_trace"] for e in second.root["results"]]
    by_heads = [int(np.abs(np.gradient(e["traces_multihead"])).argmax()) for e in second.root["results"]]
    study.disagree(
        "curve of L*",
        "mislabelled",
        extended,
        "L* is found on the multi_head trace here, on the first_head trace in H4_v2_validation, under one "
        f"name; there the multi_head trace would give {by_heads} in place of {by_first} (0-based)",
        "trace_variant says which",
        other_file=second.file,
    )
    ratios = maps.root["restriction_maps"]["contraction_ratios"]
    study.disagree(
        "contraction by construction",
        "wrong formula",
        maps,
        "the contraction ratio is the mean of sqrt(A_ij), at most 1 whatever the model does; before and "
        "after L* are told apart "
        "by an L* that is the place of the first NaN",
        "imported as published",
        model="EleutherAI/pythia-1.4b",
        value=float(np.nanmax(ratios)),
        other_value=1.0,
    )


def _sparsity(study: Study) -> None:
    document = study.documents[OPT]
    for name, entry in document.root["attention_analysis"].items():
        curve = np.array(entry["sparsity_by_layer"])
        low = curve < curve[0] - 1e-6
        if low.any():
            study.disagree(
                f"sparsity: {study.name(name)}",
                "wrong formula",
                document,
                f"sparsity falls below the share of the causal mask ({curve[0]:.4f}) in layers "
                f"{', '.join(str(i + 1) for i in np.flatnonzero(low))}, to 0 where the entropy is NaN: "
                "it seems that weights that overflowed were counted as not sparse; mean_sparsity inherits it",
                "imported as published",
                model=study.name(name),
                value=float(curve.min()),
                other_value=float(curve[0]),
            )

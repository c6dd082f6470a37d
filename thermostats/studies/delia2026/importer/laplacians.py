"""Readers of the sheaf Laplacian files: H4 in three versions, restriction maps, L* by change of sign.

Layers are 0-based indices in these files; tables are 1-based. Every index is recomputed from the curve it is said to
come from; one that falls on the first NaN is no maximum and is left missing in `transitions`.
"""

from __future__ import annotations

import numpy as np

from thermostats.studies.delia2026.importer.ledger import Document, Place
from thermostats.studies.delia2026.importer.model_names import model_id
from thermostats.studies.delia2026.importer.reading import UNSTATED, Curve, Reading

SIGN_SET, MAPS_SET = "study_sign_change_5", "study_maps_1"


def read_h4(reading: Reading, document: Document, copy: Document) -> None:
    """`H4_validation`: the first version, subsampled, 1e-10 on the diagonal."""
    top = document.top
    results = top["results"].each()
    reading.derive(top["models_tested"], len(results))
    for place, summary in zip(results, top["summary"].each(len(results)), strict=True):
        model, run, L = _start(reading, document, place)
        reading.attention({"trace": place["traces"]}, run, L, "subsampled")
        gap = reading.per_layer(place["spectral_gaps"], run, L, "sheaf_spectral_gap")
        second = reading.per_layer(place["lambda_2"], run, L, "sheaf_lambda2")
        peak, largest, mean = int(np.argmax(gap)), np.max(gap), np.mean(gap)
        reading.transition(place["L_star_gap_max"], run, "max_spectral_gap", "spectral_gap", L, expected=peak)
        at = int(np.argmax(second))
        reading.transition(place["L_star_lambda2_max"], run, "max_lambda2", "lambda2", L, expected=at)
        reading.transition(place["L_star_inflection"], run, "inflection", "spectral_gap", L)
        half = gap[L // 2]
        reading.follow(place, {"max_spectral_gap": largest, "mean_spectral_gap": mean, "spectral_gap_at_half": half})
        gaps = {"L* (gap max)": peak, "L* / L": peak / L, "Max Gap": float(largest), "Mean Gap": float(mean)}
        reading.follow(summary, {"Known Gain": place["known_gain"].peek(), "Layers": L, **gaps}, model)
    reading.copy(copy, document, document.root["summary"])


def read_h4_v2(reading: Reading, document: Document, copy: Document) -> None:
    """`H4_v2_validation`: traces without subsampling, L* a priori."""
    top = document.top
    results = top["results"].each()
    reading.derive(top["models_tested"], len(results))
    for place, summary in zip(results, top["summary"].each(len(results)), strict=True):
        model, run, L = _start(reading, document, place)
        heads = reading.geometry(place, model, "n_heads")
        first = reading.attention({"trace": place["traces_full"]}, run, L, "first_head")
        multi = reading.attention({"trace": place["traces_multihead"]}, run, L, "multi_head")
        gap = reading.per_layer(place["spectral_gaps"], run, L, "sheaf_spectral_gap")
        reading.per_layer(place["lambda_2"], run, L, "sheaf_lambda2")
        reading.attention({"graph_lambda2": place["graph_lambda_2"]}, run, L, "unstated")
        gain = place["known_gain"].peek()
        a_priori = L / 2 * (1 + np.tanh(5 * (gain - 1)))
        steepest, widest = _steepest(first), int(np.argmax(gap))
        reading.transition(place["L_star_trace"], run, "max_abs_gradient", "first_head", L, expected=steepest)
        reading.transition(place["L_star_spectral"], run, "max_spectral_gap", "spectral_gap", L, expected=widest)
        ratios = {"L_star_ratio_apriori": a_priori / L, "L_star_ratio_trace": steepest / L}
        means = {"mean_trace_full": np.mean(first), "mean_trace_multihead": np.mean(multi)}
        reading.follow(place, {"L_star_apriori": a_priori, **ratios, **means})
        shown = {
            "L* apriori": float(f"{a_priori:.1f}"),
            "L* empirical": steepest,
            "Mean Trace": float(f"{np.mean(first):.2f}"),
            "Mean Trace (MH)": float(f"{np.mean(multi):.2f}"),
        }
        reading.follow(summary, {"Gain": gain, "Heads": heads, "Layers": L, **shown}, model)
    reading.copy(copy, document, document.root["summary"])


def read_h4_extended(reading: Reading, document: Document) -> None:
    """`H4_v2_extended`: five larger models; NaN where attention overflowed in float16."""
    top = document.top
    for name, place in top["reference_results"].named():
        reading.state(place["trace_mh"], "mean multi_head trace, copied by hand", model_id(name, place))
    results = top["extended_results"].each()
    reading.derive(top["models_tested"], len(results))
    for place in results:
        model, run, L = _start(reading, document, place, dtype="float16")
        reading.geometry(place, model, "n_heads")
        reading.attention({"trace": place["traces_full"]}, run, L, "first_head")
        multi = reading.attention({"trace": place["traces_mh"]}, run, L, "multi_head")
        slope = np.abs(np.gradient(multi))
        index = reading.extreme(place["L_star"], run, "max_abs_gradient", "multi_head", L, slope, np.argmax)
        reading.follow(place, {"L_star_ratio": index / L, "mean_trace_mh": np.mean(multi)})


def read_maps(reading: Reading, document: Document) -> None:
    """`restriction_maps_results`: Pythia-1.4B, one prompt."""
    top = document.top
    model = reading.model(top["model"])
    prompt = "p01"
    reading.numbered_prompts(MAPS_SET, [top["test_prompt"].text()])
    run = reading.run(document, model, prompt_set=MAPS_SET, dtype="float16", attention="eager")
    L = reading.geometry(top, model, "n_layers", "n_heads", "hidden_dim")
    reading.take(top["seq_len"], run, "n_tokens", prompt)
    maps, sheaf = top["restriction_maps"], top["sheaf_laplacian"]
    columns = {
        "contraction_ratio": maps["contraction_ratios"],
        "operator_norm": maps["mean_op_norms"],
        "entropy": maps["attention_entropies"],
    }
    ratios = reading.attention(columns, run, L, "unstated", prompt)
    reading.per_layer(maps["W_V_op_norms"], run, L, "W_V_spectral_norm_published_thirds")
    reading.attention({"trace": sheaf["traces"]}, run, L, "subsampled", prompt)
    gap = reading.per_layer(sheaf["spectral_gaps"], run, L, "sheaf_spectral_gap", prompt)
    second = reading.per_layer(sheaf["lambda_2"], run, L, "sheaf_lambda2", prompt)
    for place, low in zip(sheaf["lambda_1"].each(L), second - gap, strict=True):
        if np.isnan(low):
            reading.state(place, "smallest eigenvalue where the attention overflowed", model)
        else:
            reading.derive(place, low)
    slope = np.abs(np.gradient(ratios))
    lowest, steepest = maps["L_star_min_contraction"], maps["L_star_inflection"]
    reading.extreme(lowest, run, "minimum", "contraction_ratio", L, ratios, np.argmin, prompt)
    reading.extreme(steepest, run, "inflection", "contraction_ratio", L, slope, np.argmax, prompt)


def read_sign_change(reading: Reading, document: Document) -> None:
    """`l_star_sign_change`: L* of six models on five prompts, against the formula."""
    top = document.top
    results = top["results"].each()
    reading.derive(top["n_models"], len(results))
    reading.numbered_prompts(SIGN_SET, [""] * 5)
    errors = []
    for place in results:
        model = reading.model(place["model"])
        reading.lab(place["lab"], model)
        run = reading.run(document, model, prompt_set=SIGN_SET)
        L = reading.geometry(place, model, "L", "H")
        H = reading.fact(model, "n_heads")
        indices = [
            reading.transition(entry, run, "first_sign_change", "unstated", L, prompt_id=f"p{i:02}")
            for i, entry in enumerate(place["individual_L_stars"].each(5), start=1)
        ]
        predicted = reading.derive(place["L_star_predicted"], L * (0.11 + 0.012 * L + 4.9 / H))
        mean = reading.derive(place["L_star_empirical"], np.mean(indices))
        reading.derive(place["L_star_std"], np.std(indices))
        errors.append(reading.derive(place["error_pct"], 100 * abs(predicted - mean) / L))
        if place["L_star_calibration"].value is not None:
            reading.transition(place["L_star_calibration"], run, "calibration", "unstated", L)
    overall = reading.derive(top["overall_mape"], np.mean(errors))
    before = reading.state(top["comparison_v2_argmax"], "error of the formula by argmax of the gradient, per cent")
    reading.derive(top["improvement_pp"], (before or np.nan) - overall)


def _start(reading: Reading, document: Document, place: Place, dtype: str = UNSTATED) -> tuple[str, str, int]:
    model = reading.model(place["model"])
    reading.lab(place["lab"], model)
    L = reading.same(place["n_layers"], model, "n_layers")
    reading.state(place["known_gain"], f"known gain, copied by hand; behaviour {place['behavior'].text()}", model)
    return model, reading.run(document, model, dtype=dtype), L


def _steepest(curve: Curve) -> int:
    return int(np.abs(np.gradient(curve)).argmax())

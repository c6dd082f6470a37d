"""Readers of the sheaf Laplacian files: H4 in three versions, restriction maps, L* by change of
sign.

Layers are 0-based indices in these files; tables are 1-based. Every index is recomputed from the
curve it is said to come from; one that falls on the first NaN is no maximum and is left missing in
`transitions`.
"""

from __future__ import annotations

import numpy as np
from ledger import Document, Place
from reading import UNSTATED, Curve, Reading, Run

SIGN_SET = "study_sign_change_5"
MAPS_SET = "study_maps_1"


def read_h4(reading: Reading, document: Document, copy: Document) -> None:
    """`H4_validation`: the first version, subsampled, 1e-10 on the diagonal."""
    top = document.top
    results = top["results"].each()
    reading.derive(top["models_tested"], len(results))
    for place, summary in zip(results, top["summary"].each(len(results)), strict=True):
        run = _run(reading, document, place)
        run.attention({"trace": place["traces"]}, "subsampled")
        gap = run.per_layer(place["spectral_gaps"], "sheaf_spectral_gap")
        second = run.per_layer(place["lambda_2"], "sheaf_lambda2")
        peak = run.transition(place["L_star_gap_max"], "max_spectral_gap", "spectral_gap", gap)
        run.transition(place["L_star_lambda2_max"], "max_lambda2", "lambda2", second)
        run.transition(place["L_star_inflection"], "inflection", "spectral_gap")
        means = {"max_spectral_gap": gap.max(), "mean_spectral_gap": gap.mean()}
        reading.follow(place, means | {"spectral_gap_at_half": gap[run.L // 2]})
        gaps = {
            "L* (gap max)": peak,
            "L* / L": peak / run.L,
            "Max Gap": gap.max(),
            "Mean Gap": gap.mean(),
        }
        reading.follow(
            summary, {"Known Gain": place["known_gain"].peek(), "Layers": run.L, **gaps}, run.model
        )
    reading.copy(copy, document, document.root["summary"])


def read_h4_v2(reading: Reading, document: Document, copy: Document) -> None:
    """`H4_v2_validation`: traces without subsampling, L* a priori."""
    top = document.top
    results = top["results"].each()
    reading.derive(top["models_tested"], len(results))
    for place, summary in zip(results, top["summary"].each(len(results)), strict=True):
        run = _run(reading, document, place)
        run.hold(place, "n_heads")
        first = run.attention({"trace": place["traces_full"]}, "first_head")
        multi = run.attention({"trace": place["traces_multihead"]}, "multi_head")
        gap = run.per_layer(place["spectral_gaps"], "sheaf_spectral_gap")
        run.per_layer(place["lambda_2"], "sheaf_lambda2")
        run.attention({"graph_lambda2": place["graph_lambda_2"]}, "unstated")
        gain = place["known_gain"].peek()
        a_priori = run.L / 2 * (1 + np.tanh(5 * (gain - 1)))
        steepest = run.transition(
            place["L_star_trace"], "max_abs_gradient", "first_head", _slope(first)
        )
        run.transition(place["L_star_spectral"], "max_spectral_gap", "spectral_gap", gap)
        ratios = {"L_star_ratio_apriori": a_priori / run.L, "L_star_ratio_trace": steepest / run.L}
        means = {"mean_trace_full": first.mean(), "mean_trace_multihead": multi.mean()}
        reading.follow(place, {"L_star_apriori": a_priori, **ratios, **means})
        printed = {
            "L* apriori": float(f"{a_priori:.1f}"),
            "L* empirical": steepest,
            "Mean Trace": float(f"{first.mean():.2f}"),
            "Mean Trace (MH)": float(f"{multi.mean():.2f}"),
        }
        facts = {"Gain": gain, "Heads": run.fact("n_heads"), "Layers": run.L}
        reading.follow(summary, facts | printed, run.model)
    reading.copy(copy, document, document.root["summary"])


def read_h4_extended(reading: Reading, document: Document) -> None:
    """`H4_v2_extended`: five larger models; NaN where attention overflowed in float16."""
    top = document.top
    for _, place in reading.by_model(top["reference_results"]):
        reading.state(place["trace_mh"], "mean multi_head trace, copied by hand")
    results = top["extended_results"].each()
    reading.derive(top["models_tested"], len(results))
    for place in results:
        run = _run(reading, document, place, dtype="float16")
        run.hold(place, "n_heads")
        run.attention({"trace": place["traces_full"]}, "first_head")
        multi = run.attention({"trace": place["traces_mh"]}, "multi_head")
        index = run.transition(place["L_star"], "max_abs_gradient", "multi_head", _slope(multi))
        reading.follow(place, {"L_star_ratio": index / run.L, "mean_trace_mh": multi.mean()})


def read_maps(reading: Reading, document: Document) -> None:
    """`restriction_maps_results`: Pythia-1.4B, one prompt."""
    top = document.top
    prompt = "p01"
    reading.numbered_prompts(MAPS_SET, [top["test_prompt"].text()])
    model = reading.model(top["model"])
    run = reading.run(document, model, prompts=MAPS_SET, dtype="float16", attention="eager")
    run.hold(top, "n_layers", "n_heads", "hidden_dim")
    run.take(top["seq_len"], "n_tokens", prompt)
    maps = top["restriction_maps"]
    sheaf = top["sheaf_laplacian"]
    columns = {
        "contraction_ratio": maps["contraction_ratios"],
        "operator_norm": maps["mean_op_norms"],
        "entropy": maps["attention_entropies"],
    }
    ratios = run.attention(columns, "unstated", prompt)
    run.per_layer(maps["W_V_op_norms"], "W_V_spectral_norm_published_thirds")
    run.attention({"trace": sheaf["traces"]}, "subsampled", prompt)
    gap = run.per_layer(sheaf["spectral_gaps"], "sheaf_spectral_gap", prompt)
    second = run.per_layer(sheaf["lambda_2"], "sheaf_lambda2", prompt)
    for place, low in zip(sheaf["lambda_1"].each(run.L), second - gap, strict=True):
        if np.isnan(low):
            reading.state(place, "smallest eigenvalue where the attention overflowed")
        else:
            reading.derive(place, low)
    run.transition(
        maps["L_star_min_contraction"], "minimum", "contraction_ratio", ratios, np.argmin, prompt
    )
    run.transition(
        maps["L_star_inflection"],
        "inflection",
        "contraction_ratio",
        _slope(ratios),
        prompt_id=prompt,
    )


def read_sign_change(reading: Reading, document: Document) -> None:
    """`l_star_sign_change`: L* of six models on five prompts, against the formula."""
    top = document.top
    results = top["results"].each()
    reading.derive(top["n_models"], len(results))
    reading.numbered_prompts(SIGN_SET, [""] * 5)
    for place in results:
        run = reading.run(document, reading.model(place["model"]), prompts=SIGN_SET)
        run.lab(place["lab"])
        run.hold(place, "L", "H")
        indices = [
            run.transition(entry, "first_sign_change", "unstated", prompt_id=f"p{i:02}")
            for i, entry in enumerate(place["individual_L_stars"].each(5), start=1)
        ]
        predicted = run.L * (0.11 + 0.012 * run.L + 4.9 / run.fact("n_heads"))
        error = 100 * abs(predicted - np.mean(indices)) / run.L
        moments = {"L_star_empirical": np.mean(indices), "L_star_std": np.std(indices)}
        reading.follow(place, {"L_star_predicted": predicted, **moments, "error_pct": error})
        if place["L_star_calibration"].value is not None:
            run.transition(place["L_star_calibration"], "calibration", "unstated")
    overall = reading.derive(
        top["overall_mape"], np.mean([place["error_pct"].peek() for place in results])
    )
    before = reading.state(
        top["comparison_v2_argmax"], "error of the formula by argmax of the gradient, per cent"
    )
    reading.derive(top["improvement_pp"], before - overall)


def _run(reading: Reading, document: Document, place: Place, dtype: str = UNSTATED) -> Run:
    run = reading.run(document, reading.model(place["model"]), dtype=dtype)
    run.lab(place["lab"])
    run.hold(place, "n_layers")
    reading.state(
        place["known_gain"], f"known gain, copied by hand; behaviour {place['behavior'].text()}"
    )
    return run


def _slope(curve: Curve) -> Curve:
    return np.asarray(np.abs(np.gradient(curve)))

"""Readers of the sheaf Laplacian files: H4 in three versions, restriction maps, L* by change of sign.

Layers are 0-based indices in these files; tables are 1-based. Every index is recomputed from the curve it is said to
come from; one that falls on the first NaN is no maximum and is left missing in `transitions`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from thermostats.studies.delia2026.importer.copies import twin
from thermostats.studies.delia2026.importer.ledger import Document, Place
from thermostats.studies.delia2026.importer.names import model_id
from thermostats.studies.delia2026.importer.study import EXACT, OVERFLOW, UNSTATED_SET, Study

Curve = NDArray[np.float64]
SIGN_SET, MAPS_SET = "study_sign_change_5", "study_maps_1"


def read_h4(study: Study, document: Document, copy: Document) -> None:
    """`H4_validation`: the first version, subsampled, 1e-10 on the diagonal."""
    top = document.top
    results = top["results"].each()
    study.derive(top["models_tested"], len(results), "number of models", within=EXACT)
    for place, summary in zip(results, top["summary"].each(len(results)), strict=True):
        model, run, L = _start(study, document, place)
        _traces(study, place["traces"], run, L, "subsampled")
        gap = _per_layer(study, place["spectral_gaps"], run, L, "sheaf_spectral_gap")
        second = _per_layer(study, place["lambda_2"], run, L, "sheaf_lambda2")
        peak = _argmax(gap)
        study.transition(place["L_star_gap_max"], run, "max_spectral_gap", "spectral_gap", L, expected=peak)
        study.transition(place["L_star_lambda2_max"], run, "max_lambda2", "lambda2", L, expected=_argmax(second))
        study.transition(place["L_star_inflection"], run, "inflection", "spectral_gap", L)
        study.derive(place["max_spectral_gap"], np.max(gap), "largest of the spectral gaps", within=EXACT)
        study.derive(place["mean_spectral_gap"], np.mean(gap), "mean of the spectral gaps")
        study.derive(place["spectral_gap_at_half"], gap[L // 2], "spectral gap, 0-based layer L // 2", within=EXACT)
        for key, value, rule in (
            ("Known Gain", place["known_gain"].peek(), "known_gain"),
            ("Layers", L, "models.n_layers"),
            ("L* (gap max)", peak, "argmax of the spectral gaps, 0-based"),
            ("L* / L", peak / L, "argmax of the spectral gaps, 0-based, over L"),
            ("Max Gap", float(np.max(gap)), "largest of the spectral gaps"),
            ("Mean Gap", float(np.mean(gap)), "mean of the spectral gaps"),
        ):
            study.derive(summary[key], value, rule, model=model, within=EXACT)
    twin(study, copy, document.root["summary"], document.file)


def read_h4_v2(study: Study, document: Document, copy: Document) -> None:
    """`H4_v2_validation`: traces without subsampling, L* a priori."""
    top = document.top
    results = top["results"].each()
    study.derive(top["models_tested"], len(results), "number of models", within=EXACT)
    for place, summary in zip(results, top["summary"].each(len(results)), strict=True):
        model, run, L = _start(study, document, place)
        study.same(place["n_heads"], model, "n_heads")
        first = _traces(study, place["traces_full"], run, L, "first_head")
        multi = _traces(study, place["traces_multihead"], run, L, "multi_head")
        gap = _per_layer(study, place["spectral_gaps"], run, L, "sheaf_spectral_gap")
        _per_layer(study, place["lambda_2"], run, L, "sheaf_lambda2")
        for layer, entry in enumerate(place["graph_lambda_2"].each(L), start=1):
            study.attention(run, layer, "unstated", graph_lambda2=entry.number("attention.graph_lambda2"))
        gain = place["known_gain"].peek()
        a_priori = L / 2 * (1 + np.tanh(5 * (gain - 1)))
        study.derive(place["L_star_apriori"], a_priori, "(L/2)(1 + tanh(5(known_gain - 1)))", "L* a priori")
        study.derive(place["L_star_ratio_apriori"], a_priori / L, "L_star_apriori over L")
        steepest = _argmax(np.abs(np.gradient(first)))
        study.transition(place["L_star_trace"], run, "max_abs_gradient", "first_head", L, expected=steepest)
        study.transition(place["L_star_spectral"], run, "max_spectral_gap", "spectral_gap", L, expected=_argmax(gap))
        study.derive(place["L_star_ratio_trace"], steepest / L, "L_star_trace, 0-based, over L")
        study.derive(place["mean_trace_full"], np.mean(first), "mean of attention.trace first_head")
        study.derive(place["mean_trace_multihead"], np.mean(multi), "mean of attention.trace multi_head")
        for key, value, rule in (
            ("Gain", gain, "known_gain"),
            ("Heads", study.fact(model, "n_heads"), "models.n_heads"),
            ("Layers", L, "models.n_layers"),
            ("L* apriori", float(f"{a_priori:.1f}"), "L_star_apriori, one decimal"),
            ("L* empirical", steepest, "L_star_trace, 0-based"),
            ("Mean Trace", float(f"{np.mean(first):.2f}"), "mean of attention.trace first_head, two decimals"),
            ("Mean Trace (MH)", float(f"{np.mean(multi):.2f}"), "mean of attention.trace multi_head, two decimals"),
        ):
            study.derive(summary[key], float(value), rule, model=model, within=EXACT)
    twin(study, copy, document.root["summary"], document.file)


def read_h4_extended(study: Study, document: Document) -> None:
    """`H4_v2_extended`: five larger models; NaN where attention overflowed in float16."""
    top = document.top
    for name, place in top["reference_results"].named():
        study.state(place["trace_mh"], "mean multi_head trace, copied by hand", model_id(name, place))
    results = top["extended_results"].each()
    study.derive(top["models_tested"], len(results), "number of models", within=EXACT)
    for place in results:
        model, run, L = _start(study, document, place, dtype="float16")
        study.same(place["n_heads"], model, "n_heads")
        _traces(study, place["traces_full"], run, L, "first_head")
        multi = _traces(study, place["traces_mh"], run, L, "multi_head")
        steepness = np.abs(np.gradient(multi))
        index = _transition(study, place["L_star"], run, "max_abs_gradient", "multi_head", L, steepness, np.argmax)
        study.derive(place["L_star_ratio"], index / L, "L_star, 0-based, over L")
        study.derive(place["mean_trace_mh"], np.mean(multi), "mean of attention.trace multi_head, NaN where one is")


def read_maps(study: Study, document: Document) -> None:
    """`restriction_maps_results`: Pythia-1.4B, one prompt."""
    top = document.top
    model = study.model(top["model"])
    study.prompts(MAPS_SET, [("p01", top["test_prompt"].text(), "unstated", None)])
    run = study.run(document, model, prompt_set=MAPS_SET, dtype="float16", attention="eager")
    L = study.same(top["n_layers"], model, "n_layers")
    study.same(top["n_heads"], model, "n_heads")
    study.same(top["hidden_dim"], model, "d_model")
    study.take(top["seq_len"], run, "n_tokens", "p01", lower=1)
    maps, sheaf = top["restriction_maps"], top["sheaf_laplacian"]
    ratios = []
    columns = (maps["contraction_ratios"], maps["mean_op_norms"], maps["attention_entropies"])
    for layer, (ratio, norm, entropy) in enumerate(zip(*(c.each(L) for c in columns), strict=True), start=1):
        values = {
            "contraction_ratio": ratio.number("attention.contraction_ratio", lower=0.0),
            "operator_norm": norm.number("attention.operator_norm", lower=0.0),
            "entropy": entropy.number("attention.entropy", lower=0.0),
        }
        missing = OVERFLOW if None in values.values() else ""
        study.attention(run, layer, "unstated", missing, prompt_id="p01", **values)
        ratios.append(_nan(values["contraction_ratio"]))
    _per_layer(study, maps["W_V_op_norms"], run, L, "W_V_spectral_norm_published_thirds")
    _traces(study, sheaf["traces"], run, L, "subsampled", "p01")
    gap = _per_layer(study, sheaf["spectral_gaps"], run, L, "sheaf_spectral_gap", "p01")
    second = _per_layer(study, sheaf["lambda_2"], run, L, "sheaf_lambda2", "p01")
    for place, low in zip(sheaf["lambda_1"].each(L), second - gap, strict=True):
        if np.isnan(low):
            study.state(place, "smallest eigenvalue where the attention overflowed", model)
        else:
            study.derive(place, low, "sheaf_lambda2 less sheaf_spectral_gap")
    curve = np.array(ratios)
    _transition(study, maps["L_star_min_contraction"], run, "minimum", "contraction_ratio", L, curve, np.argmin, "p01")
    steepness = np.abs(np.gradient(curve))
    _transition(
        study, maps["L_star_inflection"], run, "inflection", "contraction_ratio", L, steepness, np.argmax, "p01"
    )


def read_sign_change(study: Study, document: Document) -> None:
    """`l_star_sign_change`: L* of six models on five prompts, against the formula."""
    top = document.top
    results = top["results"].each()
    study.derive(top["n_models"], len(results), "number of models", within=EXACT)
    study.prompts(SIGN_SET, [(f"p{i:02}", "", "unstated", None) for i in range(1, 6)])
    errors = []
    for place in results:
        model = study.model(place["model"])
        study.lab(place["lab"], model)
        run = study.run(document, model, prompt_set=SIGN_SET)
        L, H = study.same(place["L"], model, "n_layers"), study.same(place["H"], model, "n_heads")
        entries = place["individual_L_stars"].each(5)
        indices = [
            study.transition(entry, run, "first_sign_change", "unstated", L, prompt_id=f"p{i:02}")
            for i, entry in enumerate(entries, start=1)
        ]
        predicted = study.derive(
            place["L_star_predicted"], L * (0.11 + 0.012 * L + 4.9 / H), "L (0.11 + 0.012 L + 4.9 / H)"
        )
        mean = study.derive(place["L_star_empirical"], np.mean(indices), "mean of the prompts' L*, 0-based")
        study.derive(place["L_star_std"], np.std(indices), "standard deviation (n) of the prompts' L*")
        errors.append(study.derive(place["error_pct"], 100 * abs(predicted - mean) / L, "100 |predicted - mean| / L"))
        if place["L_star_calibration"].value is not None:
            study.transition(place["L_star_calibration"], run, "calibration", "unstated", L)
    overall = study.derive(top["overall_mape"], np.mean(errors), "mean of error_pct")
    before = study.state(top["comparison_v2_argmax"], "error of the formula by argmax of the gradient, per cent")
    study.derive(top["improvement_pp"], (before or np.nan) - overall, "comparison_v2_argmax less overall_mape")


def _start(study: Study, document: Document, place: Place, dtype: str = "unstated") -> tuple[str, str, int]:
    model = study.model(place["model"])
    study.lab(place["lab"], model)
    L = study.same(place["n_layers"], model, "n_layers")
    study.state(place["known_gain"], f"known gain, copied by hand; behaviour {place['behavior'].text()}", model)
    return model, study.run(document, model, prompt_set=UNSTATED_SET, dtype=dtype), L


def _traces(study: Study, place: Place, run: str, L: int, variant: str, prompt_id: str = "") -> Curve:
    values = []
    for layer, entry in enumerate(place.each(L), start=1):
        value = entry.number("attention.trace")
        study.attention(run, layer, variant, OVERFLOW if value is None else "", prompt_id=prompt_id, trace=value)
        values.append(_nan(value))
    return np.array(values)


def _per_layer(study: Study, place: Place, run: str, L: int, estimand: str, prompt_id: str = "") -> Curve:
    values = [
        study.take(entry, run, f"{estimand}_layer_{layer:02}", prompt_id)
        for layer, entry in enumerate(place.each(L), start=1)
    ]
    return np.array(values, float)


def _transition(
    study: Study,
    place: Place,
    run: str,
    definition: str,
    variant: str,
    L: int,
    curve: Curve,
    find: Callable[[Curve], np.intp],
    prompt_id: str = "",
) -> int:
    """Import an index; where NaN won the search it becomes a statement and the table's layer is missing."""
    index = place.whole()
    if not np.isnan(curve).any():
        study.transition(place, run, definition, variant, L, expected=int(find(curve)), prompt_id=prompt_id)
        return index
    model = next(row["model_id"] for row in study.rows["runs"] if row["run_id"] == run)
    study.state(place, f"L* ({definition}), 0-based, as published", model)
    finite = np.flatnonzero(~np.isnan(curve))
    among = int(finite[find(curve[finite])])
    by_nan = index == int(np.isnan(curve).argmax())
    study.add(
        "transitions",
        run_id=run,
        prompt_id=prompt_id,
        definition=definition,
        trace_variant=variant,
        layer=None,
        relative_depth=None,
        missing="the published index is where the first NaN stands, not an extreme" if by_nan else "curve has NaN",
    )
    study.disagree(
        f"nan-as-extreme-{place.document.file}-{definition}-{model}",
        "wrong formula",
        place.document,
        f"L* ({definition} of {variant}) is the place of the first NaN, which wins every search for an extreme; among "
        "the layers that are numbers it is another (both 0-based)",
        "statement; layer missing in transitions",
        model=model,
        value=index,
        other_value=among,
    )
    return index


def _argmax(curve: Curve) -> int:
    return int(np.argmax(curve))


def _nan(value: float | None) -> float:
    return float("nan") if value is None else value

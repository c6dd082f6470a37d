"""Readers of the files that hold residual gains at the last token without the final norm: family,
hunt, clean residual.

In these files entry i (from 0) of `all_layer_gains` is G_(i+1), averaged over prompts, but for the
last entry, which is ‖norm_f(x_L)‖ / n_(L-1): hidden states end in a normed one. Their "residual
gain" is the penultimate gain G_(L-1).
"""

from __future__ import annotations

import numpy as np
from ledger import Document, Place
from reading import Reading, Run
from scipy import stats

FAMILY_SET = "study_family_25"
HUNT_SET = "study_hunt_5"
CLEAN_SET = "study_clean_3"
DENSE = 0.2
"""Head density from which on the study expects a model to dampen."""


def read_family(reading: Reading, document: Document) -> None:
    """`pythia_family_NO_FINAL_LN`: eight Pythia sizes, 25 penultimate gains each."""
    top = document.top
    models = top["models"].each()
    n = top["n_prompts"].integer()
    reading.follow(
        top, {"n_prompts": len(models[0]["residual_gain_all"].each()), "n_models": len(models)}
    )
    reading.numbered_prompts(FAMILY_SET, [""] * n)
    means = []
    densities = []
    for place in models:
        run = reading.run(document, reading.model(place["model"]), prompts=FAMILY_SET)
        _curve(run, place)
        reading.state(place["rotary_pct"], "share of the head that is rotated")
        gains = place["residual_gain_all"].each(n)
        for i, gain in enumerate(gains, start=1):
            run.layers({"gain_block": [gain]}, "last", f"p{i:02}", first=run.L - 1)
        values = np.array([gain.peek() for gain in gains])
        reading.follow(
            place, {"residual_gain_mean": values.mean(), "residual_gain_std": values.std()}
        )
        means.append(place["residual_gain_mean"].peek())
        densities.append(reading.density(run.model))
        _label(run, place, "is_dampening", means[-1])
    fit = stats.pearsonr(densities, means)
    dampens = np.array(means) < 1
    dense = np.array(densities) >= DENSE
    rates = {
        "high_rho_dampen_rate": np.mean(dampens[dense]),
        "low_rho_expand_rate": np.mean(~dampens[~dense]),
    }
    correlation = {"rho_gain_correlation": fit.statistic, "correlation_p_value": fit.pvalue}
    reading.follow(top["analysis"], correlation | rates)


def read_hunt(reading: Reading, document: Document) -> None:
    """`high_rho_hunt_NO_FINAL_LN`: sixteen models of five labs, averages over five prompts, lab
    signatures."""
    top = document.top
    reading.numbered_prompts(HUNT_SET, [""] * 5)
    models = top["tested_results"].each()
    reading.follow(top, {"models_scanned": len(models), "models_tested": len(models)})
    by_lab: dict[str, list[float]] = {}
    right = []
    for place in models:
        run = reading.run(document, reading.model(place["model"]), prompts=HUNT_SET)
        run.lab(place["lab"])
        mean = _averages(run, place)
        by_lab.setdefault(place["lab"].text(), []).append(mean)
        right.append((reading.density(run.model) >= DENSE) == (mean < 1))
        _label(run, place, "is_dampening", mean)
    reading.derive(top["h25_accuracy"], np.mean(right))
    for lab, place in top["h26_lab_signatures"].named():
        values = np.array(by_lab[lab])
        moments = {"mean_gain": values.mean(), "std_gain": values.std()}
        reading.follow(
            place, moments | {"dampen_pct": 100 * np.mean(values < 1), "n_models": len(values)}
        )


def read_clean(reading: Reading, document: Document) -> None:
    """`clean_residual_NO_FINAL_LN`: Pythia-6.9B and GPT-J on three prompts, float32."""
    top = document.top
    reading.numbered_prompts(CLEAN_SET, [place.text() for place in top["prompts"].each()])
    right = []
    for _, place in top["results"].named():
        run = reading.run(
            document, reading.model(place["path"]), prompts=CLEAN_SET, dtype=top["precision"].text()
        )
        mean = _averages(run, place)
        _label(run, place, "is_dampening_no_ln", mean)
        right.append((reading.density(run.model) >= DENSE) == (mean < 1))
    reading.derive(top["h25_accuracy"], 100 * np.mean(right))


def _averages(run: Run, place: Place) -> float:
    """Averages over prompts of one model; returns the mean penultimate gain."""
    mean = _curve(run, place)
    run.reading.follow(place, {"n_hidden_states": run.L + 1, "gain_no_ln_mean": mean})
    run.take(place["gain_no_ln_std"], "penultimate_gain_sd")
    return mean


def _curve(run: Run, place: Place) -> float:
    """Geometry, gains of layers 1..L-1 averaged over prompts, the normed gain; returns the mean
    penultimate gain."""
    run.hold(place, "n_layers", "n_heads", "d_model", "d_head")
    run.reading.derive(place["rho"], run.reading.density(run.model))
    *inner, last = place["all_layer_gains"].each(run.L)
    (gains,) = run.layers({"gain_block": inner}, "last")
    run.reading.derive(place["gain_with_ln_mean"], run.take(last, "normed_gain"))
    run.take(place["gain_with_ln_std"], "normed_gain_sd")
    return float(gains[-1])


def _label(run: Run, place: Place, key: str, mean: float) -> None:
    if place[key].value != (mean < 1):
        words = {"where": place.where, "file": place.document.file, "model": run.model}
        run.reading.disagree("label", mean, 1.0, **words)

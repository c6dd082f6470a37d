"""Readers of the files that hold residual gains at the last token without the final norm: family, hunt, clean residual.

In these files entry i (from 0) of `all_layer_gains` is G_(i+1), averaged over prompts, but for the last entry, which is
‖norm_f(x_L)‖ / n_(L-1): hidden states end in a normed one. Their "residual gain" is the penultimate gain G_(L-1).
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from thermostats.studies.delia2026.importer.ledger import Document, Place
from thermostats.studies.delia2026.importer.reading import Reading, nan

FAMILY_SET, HUNT_SET, CLEAN_SET = "study_family_25", "study_hunt_5", "study_clean_3"
DENSE = 0.2
"""Head density from which on the study expects a model to dampen."""


def read_family(reading: Reading, document: Document) -> None:
    """`pythia_family_NO_FINAL_LN`: eight Pythia sizes, 25 penultimate gains each."""
    top = document.top
    models = top["models"].each()
    n = top["n_prompts"].whole()
    lengths = {len(place["residual_gain_all"].each(n)) for place in models}
    reading.follow(top, {"n_prompts": max(lengths, default=0), "n_models": len(models)})
    reading.numbered_prompts(FAMILY_SET, [""] * n)
    means, densities = [], []
    for place in models:
        model = reading.model(place["model"])
        run = reading.run(document, model, prompt_set=FAMILY_SET)
        L = _geometry(reading, place, model)
        reading.state(place["rotary_pct"], "share of the head that is rotated", model)
        gains = [gain.number("layers.gain_block") for gain in place["residual_gain_all"].each(n)]
        for i, gain in enumerate(gains, start=1):
            reading.layer(run, L - 1, f"p{i:02}", "last", gain_block=gain)
        per_prompt = np.array(gains, float)
        mean = reading.derive(place["residual_gain_mean"], per_prompt.mean())
        reading.derive(place["residual_gain_std"], per_prompt.std())
        _curve(reading, place, run, L)
        means.append(mean)
        densities.append(reading.density(model))
        _label(reading, place, "is_dampening", mean, model)
    found = stats.pearsonr(densities, means)
    dampens, dense = np.array(means) < 1, np.array(densities) >= DENSE
    rates = {"high_rho_dampen_rate": np.mean(dampens[dense]), "low_rho_expand_rate": np.mean(~dampens[~dense])}
    correlation = {"rho_gain_correlation": found.statistic, "correlation_p_value": found.pvalue}
    reading.follow(top["analysis"], correlation | rates)


def read_hunt(reading: Reading, document: Document) -> None:
    """`high_rho_hunt_NO_FINAL_LN`: sixteen models of five labs, averages over five prompts, lab signatures."""
    top = document.top
    reading.numbered_prompts(HUNT_SET, [""] * 5)
    models = top["tested_results"].each()
    reading.follow(top, {"models_scanned": len(models), "models_tested": len(models)})
    by_lab: dict[str, list[float]] = {}
    right = []
    for place in models:
        model = reading.model(place["model"])
        run = reading.run(document, model, prompt_set=HUNT_SET)
        reading.lab(place["lab"], model)
        mean = _averages(reading, place, run, model)
        by_lab.setdefault(place["lab"].text(), []).append(mean)
        right.append((reading.density(model) >= DENSE) == (mean < 1))
        _label(reading, place, "is_dampening", mean, model)
        place["norm_type"].text()
    reading.derive(top["h25_accuracy"], np.mean(right))
    for lab, place in top["h26_lab_signatures"].named():
        place["signature"].text()
        values = np.array(by_lab.get(lab, [np.nan]))
        moments = {"mean_gain": values.mean(), "std_gain": values.std()}
        reading.follow(place, moments | {"dampen_pct": 100 * np.mean(values < 1), "n_models": len(values)})


def read_clean(reading: Reading, document: Document) -> None:
    """`clean_residual_NO_FINAL_LN`: Pythia-6.9B and GPT-J on three prompts, float32."""
    top = document.top
    reading.numbered_prompts(CLEAN_SET, [place.text() for place in top["prompts"].each()])
    right = []
    for _, place in top["results"].named():
        model = reading.model(place["path"])
        run = reading.run(document, model, prompt_set=CLEAN_SET, dtype=top["precision"].text())
        mean = _averages(reading, place, run, model)
        _label(reading, place, "is_dampening_no_ln", mean, model)
        right.append((reading.density(model) >= DENSE) == (mean < 1))
    reading.derive(top["h25_accuracy"], 100 * np.mean(right))


def _geometry(reading: Reading, place: Place, model: str) -> int:
    L = reading.geometry(place, model, "n_layers", "n_heads", "d_model", "d_head")
    reading.derive(place["rho"], reading.density(model))
    return L


def _averages(reading: Reading, place: Place, run: str, model: str) -> float:
    """Averages over prompts of one model; returns the mean penultimate gain."""
    L = _geometry(reading, place, model)
    reading.derive(place["n_hidden_states"], L + 1)
    mean = _curve(reading, place, run, L)
    reading.derive(place["gain_no_ln_mean"], mean)
    reading.take(place["gain_no_ln_std"], run, "penultimate_gain_sd")
    return mean


def _curve(reading: Reading, place: Place, run: str, L: int) -> float:
    """Gains of layers 1..L-1 averaged over prompts, and the normed gain; returns the mean penultimate gain."""
    *inner, last = place["all_layer_gains"].each(L)
    values = [gain.number("layers.gain_block") for gain in inner]
    for layer, value in enumerate(values, start=1):
        reading.layer(run, layer, "", "last", gain_block=value)
    normed = reading.take(last, run, "normed_gain")
    reading.derive(place["gain_with_ln_mean"], nan(normed))
    reading.take(place["gain_with_ln_std"], run, "normed_gain_sd")
    return nan(values[-1])


def _label(reading: Reading, place: Place, key: str, mean: float, model: str) -> None:
    if place[key].flag() != (mean < 1):
        words = {"where": place.where, "file": place.document.file, "model": model}
        reading.disagree("label", mean, 1.0, **words)

"""Readers of the files that hold residual gains at the last token without the final norm: family, hunt, clean residual.

In these files entry i (from 0) of `all_layer_gains` is G_(i+1), averaged over prompts, but for the last entry, which is
‖norm_f(x_L)‖ / n_(L-1): hidden states end in a normed one. Their "residual gain" is the penultimate gain G_(L-1).
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from thermostats.studies.delia2026.importer.ledger import Document, Place
from thermostats.studies.delia2026.importer.study import EXACT, Study

PENULTIMATE = "layers.gain_block, layer L-1"
FAMILY_SET, HUNT_SET, CLEAN_SET = "study_family_25", "study_hunt_5", "study_clean_3"


def read_family(study: Study, document: Document) -> None:
    """`pythia_family_NO_FINAL_LN`: eight Pythia sizes, 25 penultimate gains each."""
    top = document.top
    models = top["models"].each()
    n = top["n_prompts"].whole()
    lengths = {len(place["residual_gain_all"].each(n)) for place in models}
    study.derive(top["n_prompts"], max(lengths, default=0), "number of gains per model", within=EXACT)
    study.prompts(FAMILY_SET, [(f"p{i:02}", "", "unstated", None) for i in range(1, n + 1)])
    study.derive(top["n_models"], len(models), "number of models", within=EXACT)
    means, densities, dampens = [], [], []
    for place in models:
        model = study.model(place["model"])
        run = study.run(document, model, prompt_set=FAMILY_SET)
        L = _geometry(study, place, model)
        study.state(place["rotary_pct"], "share of the head that is rotated", model)
        gains = []
        for i, gain in enumerate(place["residual_gain_all"].each(n), start=1):
            value = gain.number("layers.gain_block", above=0.0)
            study.layer(run, L - 1, f"p{i:02}", "last", gain_block=value)
            gains.append(value)
        per_prompt = np.array(gains, float)
        mean = study.derive(
            place["residual_gain_mean"], per_prompt.mean(), "mean over prompts of layers.gain_block, layer L-1"
        )
        study.derive(
            place["residual_gain_std"], per_prompt.std(), "standard deviation (n) of layers.gain_block, layer L-1"
        )
        _curve(study, place, run, L)
        means.append(mean)
        densities.append(study.fact(model, "n_heads") / study.fact(model, "d_head"))
        dampens.append(mean < 1)
        _label(study, place, mean, model)
    found = stats.pearsonr(densities, means)
    analysis = top["analysis"]
    rule = "Pearson correlation of H/d_h and mean penultimate gain"
    study.derive(analysis["rho_gain_correlation"], found.statistic, rule)
    study.derive(analysis["correlation_p_value"], found.pvalue, f"p of the {rule}")
    high = np.array(densities) >= 0.2
    study.derive(analysis["high_rho_dampen_rate"], np.mean(np.array(dampens)[high]), "share below 1 of rho >= 0.2")
    study.derive(analysis["low_rho_expand_rate"], np.mean(~np.array(dampens)[~high]), "share above 1 of rho < 0.2")


def read_hunt(study: Study, document: Document) -> None:
    """`high_rho_hunt_NO_FINAL_LN`: sixteen models of five labs, averages over five prompts, lab signatures."""
    top = document.top
    study.prompts(HUNT_SET, [(f"p{i:02}", "", "unstated", None) for i in range(1, 6)])
    models = top["tested_results"].each()
    for key in ("models_scanned", "models_tested"):
        study.derive(top[key], len(models), "number of models", within=EXACT)
    by_lab: dict[str, list[float]] = {}
    right = []
    for place in models:
        model = study.model(place["model"])
        run = study.run(document, model, prompt_set=HUNT_SET)
        study.lab(place["lab"], model)
        L = _geometry(study, place, model)
        _hidden_states(study, place, L)
        mean = _curve(study, place, run, L)
        study.derive(place["gain_no_ln_mean"], mean, PENULTIMATE, "mean penultimate gain")
        study.take(place["gain_no_ln_std"], run, "penultimate_gain_sd", lower=0.0)
        by_lab.setdefault(place["lab"].text(), []).append(mean)
        right.append((study.fact(model, "n_heads") / study.fact(model, "d_head") >= 0.2) == (mean < 1))
        _label(study, place, mean, model)
        place["norm_type"].text()
    study.derive(top["h25_accuracy"], np.mean(right), "share of models with (rho >= 0.2) == (penultimate gain < 1)")
    for lab, place in top["h26_lab_signatures"].named():
        place["signature"].text()
        values = np.array(by_lab.get(lab, [np.nan]))
        of = "penultimate gains of the lab's models"
        study.derive(place["mean_gain"], values.mean(), f"mean of the {of}")
        study.derive(place["std_gain"], values.std(), f"standard deviation (n) of the {of}")
        study.derive(place["dampen_pct"], 100 * np.mean(values < 1), f"100 x share below 1 of the {of}")
        study.derive(place["n_models"], len(values), "number of models of the lab", within=EXACT)


def read_clean(study: Study, document: Document) -> None:
    """`clean_residual_NO_FINAL_LN`: Pythia-6.9B and GPT-J on three prompts, float32."""
    top = document.top
    prompts = [place.text() for place in top["prompts"].each()]
    study.prompts(CLEAN_SET, [(f"p{i:02}", text, "unstated", None) for i, text in enumerate(prompts, start=1)])
    right = []
    for _, place in top["results"].named():
        model = study.model(place["path"])
        run = study.run(document, model, prompt_set=CLEAN_SET, dtype=top["precision"].text())
        L = _geometry(study, place, model)
        _hidden_states(study, place, L)
        mean = _curve(study, place, run, L)
        study.derive(place["gain_no_ln_mean"], mean, PENULTIMATE, "mean penultimate gain")
        study.take(place["gain_no_ln_std"], run, "penultimate_gain_sd", lower=0.0)
        if place["is_dampening_no_ln"].flag() != (mean < 1):
            _label_wrong(study, place, mean, model)
        right.append((study.fact(model, "n_heads") / study.fact(model, "d_head") >= 0.2) == (mean < 1))
    study.derive(top["h25_accuracy"], 100 * np.mean(right), "100 x share with (rho >= 0.2) == (penultimate gain < 1)")


def _geometry(study: Study, place: Place, model: str) -> int:
    L = study.same(place["n_layers"], model, "n_layers")
    for label in ("n_heads", "d_model", "d_head"):
        study.same(place[label], model, label)
    rho = study.fact(model, "n_heads") / study.fact(model, "d_head")
    study.derive(place["rho"], rho, "models.n_heads / models.d_head", within=EXACT)
    return L


def _curve(study: Study, place: Place, run: str, L: int) -> float:
    """Gains of layers 1..L-1 averaged over prompts, and the normed gain; returns the mean penultimate gain."""
    curve = place["all_layer_gains"].each(L)
    values = []
    for layer, gain in enumerate(curve[:-1], start=1):
        values.append(gain.number("layers.gain_block", above=0.0))
        study.layer(run, layer, "", "last", gain_block=values[-1])
    normed = study.take(curve[-1], run, "normed_gain", above=0.0)
    study.derive(place["gain_with_ln_mean"], _nan(normed), "summaries.value normed_gain", "mean normed gain")
    study.take(place["gain_with_ln_std"], run, "normed_gain_sd", lower=0.0)
    return _nan(values[-1])


def _hidden_states(study: Study, place: Place, L: int) -> None:
    study.derive(place["n_hidden_states"], L + 1, "models.n_layers + 1", within=EXACT)


def _label(study: Study, place: Place, mean: float, model: str) -> None:
    if place["is_dampening"].flag() != (mean < 1):
        _label_wrong(study, place, mean, model)


def _label_wrong(study: Study, place: Place, mean: float, model: str) -> None:
    study.disagree(
        f"{place.where}/is_dampening",
        "mislabelled",
        place.document,
        "the label for dampening does not go with the gain",
        "labels are not imported; the sign follows from the gain",
        model=model,
        value=mean,
        other_value=1.0,
    )


def _nan(value: float | None) -> float:
    return float("nan") if value is None else value

"""Readers of the files with gains of attention and MLP, and of the spectra of W_V and W_O."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from thermostats.studies.delia2026.importer.ledger import Document, Place
from thermostats.studies.delia2026.importer.study import EXACT, OVERFLOW, UNSTATED_SET, Study

Curve = NDArray[np.float64]
THIRDS_ARE_W_V = {"opt", "gpt_neo", "gpt2"}
"""Architectures whose published W_V is W_V: three matrices, or q, k, v side by side.

GPT-2's was cut along the right axis: its condition number of 2e4 is that of a square matrix, not of a block of rows.
"""


def read_ffn(study: Study, document: Document) -> None:
    """`ffn_expansion_results`: Pythia-1.4B, averages over eight prompts."""
    top = document.top
    model = study.model(top["model"])
    run = study.run(document, model, prompt_set=UNSTATED_SET)
    L = study.same(top["n_layers"], model, "n_layers")
    study.same(top["hidden_dim"], model, "d_model")
    study.state(top["n_prompts"], "number of prompts averaged over", model)
    attention, mlp = _sub_blocks(study, run, top["attention"]["gains"], top["mlp"]["gains"], L)
    combined = attention * mlp
    for place, value in zip(top["combined"]["gains"].each(L), combined, strict=True):
        study.derive(place, value, "gain_attention x gain_mlp")
    for key, g, argument, index in (
        ("attention", attention, "L_star_min", int(attention.argmin())),
        ("mlp", mlp, "L_star_max", int(mlp.argmax())),
    ):
        part = top[key]
        study.derive(part["min_gain"], g.min(), f"smallest of layers.gain_{key}", within=EXACT)
        study.derive(part["max_gain"], g.max(), f"largest of layers.gain_{key}", within=EXACT)
        study.transition(
            part[argument], run, "minimum" if key == "attention" else "peak", f"gain_{key}", L, expected=index
        )
        _sides(study, part, g, ("n_contracting", "n_expanding"))
    _sides(study, top["combined"], combined, ("n_net_contracting", "n_net_expanding"))


def read_scaling(study: Study, document: Document) -> None:
    """`scaling_law_multi_pythia_results`: eight Pythia sizes, the fit of the last MLP gain against size."""
    top = document.top
    models = top["models"].each()
    study.derive(top["n_models"], len(models), "number of models", within=EXACT)
    sizes, lasts = [], []
    for place in models:
        model = study.model(place["model"])
        run = study.run(document, model, prompt_set=UNSTATED_SET)
        L = study.same(place["n_layers"], model, "n_layers")
        sizes.append(study.same(place["n_params"], model, "n_params"))
        study.same(place["hidden_dim"], model, "d_model")
        attention, mlp = _sub_blocks(study, run, place["attn_gains"], place["mlp_gains"], L)
        lasts.append(float(mlp[-1]))
        study.derive(place["last_layer_attn_gain"], attention[-1], "layers.gain_attention, layer L", within=EXACT)
        study.derive(place["last_layer_mlp_gain"], mlp[-1], "layers.gain_mlp, layer L", within=EXACT)
        study.derive(place["attn_contracting_pct"], 100 * np.mean(attention < 1), "100 x share of gain_attention < 1")
        study.derive(place["mlp_contracting_pct"], 100 * np.mean(mlp < 1), "100 x share of gain_mlp < 1")
        study.derive(place["max_mlp_gain"], mlp.max(), "largest of layers.gain_mlp", within=EXACT)
        study.transition(place["max_mlp_layer"], run, "peak", "gain_mlp", L, expected=int(mlp.argmax()))
    fit = stats.linregress(np.log10(sizes), np.log10(lasts))
    law = top["scaling_law"]
    rule = "of log10 gain_mlp (layer L) on log10 models.n_params"
    study.derive(law["exponent_alpha"], fit.slope, f"slope {rule}")
    study.derive(law["exponent_std_err"], fit.stderr, f"standard error of the slope {rule}")
    study.derive(law["intercept"], fit.intercept, f"intercept {rule}")
    study.derive(law["r_squared"], fit.rvalue**2, f"r squared {rule}")
    study.derive(law["p_value"], fit.pvalue, f"p {rule}")
    test = top["hypothesis_test"]
    stated = study.state(test["hypothesized_alpha"], "hypothesised exponent of the last MLP gain in size")
    study.derive(test["measured_alpha"], fit.slope, f"slope {rule}")
    study.derive(test["difference"], abs((stated or np.nan) - fit.slope), "hypothesised less measured exponent")


def read_opt(study: Study, document: Document) -> None:
    """`OPT_anomaly`: W_V averaged over layers, attention entropy and sparsity per layer, three models."""
    top = document.top
    runs: dict[str, str] = {}
    for name, place in top["W_V_analysis"].named():
        model = study.model(place["model"])
        runs[name] = study.run(document, model, prompt_set=UNSTATED_SET, dtype="float16")
        for key, estimand in (
            ("mean_spectral", "W_V_spectral_norm_mean"),
            ("mean_frobenius", "W_V_frobenius_norm_mean"),
            ("mean_condition", "W_V_condition_mean"),
        ):
            study.take(place[key], runs[name], estimand + thirds(study, model), lower=0.0)
    for name, place in top["attention_analysis"].named():
        model = study.model(place["model"])
        L = int(study.fact(model, "n_layers"))
        run = study.known(runs, name, place)
        entropies = []
        for layer, entry in enumerate(place["entropy_by_layer"].each(L), start=1):
            value = entry.number("attention.entropy", lower=0.0)
            entropies.append(np.nan if value is None else value)
            study.attention(run, layer, "unstated", OVERFLOW if value is None else "", entropy=value)
        sparsities = [
            study.take(entry, run, f"attention_sparsity_layer_{layer:02}", lower=0.0, upper=1.0)
            for layer, entry in enumerate(place["sparsity_by_layer"].each(L), start=1)
        ]
        study.derive(place["mean_entropy"], np.nanmean(entropies), "mean of attention.entropy where it is a number")
        study.derive(place["mean_sparsity"], np.mean(np.array(sparsities, float)), "mean of attention_sparsity")


def read_restriction_summary(study: Study, document: Document) -> None:
    """`restriction_map_summary`: means over layers of the spectral norms of W_V and W_O, seven models."""
    for place in document.top.each():
        model = study.model(place["Model"])
        study.lab(place["Lab"], model)
        place["Expected"].text()
        study.same(place["Layers"], model, "n_layers")
        run = study.run(document, model, prompt_set="")
        study.take(place["W_V Mean"], run, "W_V_spectral_norm_mean" + thirds(study, model), above=0.0)
        study.take(place["W_O Mean"], run, "W_O_spectral_norm_mean", above=0.0)


def thirds(study: Study, model: str) -> str:
    """Suffix of a published W_V figure: the fused matrix of GPT-NeoX and BLOOM cut in thirds is not W_V."""
    return "" if study.fact(model, "architecture") in THIRDS_ARE_W_V else "_published_thirds"


def _sub_blocks(study: Study, run: str, attention: Place, mlp: Place, L: int) -> tuple[Curve, Curve]:
    pairs = []
    for layer, (a, m) in enumerate(zip(attention.each(L), mlp.each(L), strict=True), start=1):
        gain_attention = a.number("layers.gain_attention", above=0.0)
        gain_mlp = m.number("layers.gain_mlp", above=0.0)
        study.layer(run, layer, "", "unstated", gain_attention=gain_attention, gain_mlp=gain_mlp)
        pairs.append((gain_attention, gain_mlp))
    columns = np.array(pairs, float)
    return columns[:, 0], columns[:, 1]


def _sides(study: Study, place: Place, g: Curve, keys: tuple[str, str]) -> None:
    study.derive(place[keys[0]], int((g < 1).sum()), "number of gains below 1", within=EXACT)
    study.derive(place[keys[1]], int((g > 1).sum()), "number of gains above 1", within=EXACT)

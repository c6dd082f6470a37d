"""Readers of the files with gains of attention and MLP, and of the spectra of W_V and W_O."""

from __future__ import annotations

import numpy as np
from scipy import stats

from thermostats.studies.delia2026.importer.ledger import Document, Place
from thermostats.studies.delia2026.importer.reading import Curve, Reading

THIRDS_ARE_W_V = {"opt", "gpt_neo", "gpt2"}
"""Architectures whose published W_V is W_V: three matrices, or q, k, v side by side.

GPT-2's was cut along the right axis: its condition number of 2e4 is that of a square matrix, not of a block of rows.
"""


def read_ffn(reading: Reading, document: Document) -> None:
    """`ffn_expansion_results`: Pythia-1.4B, averages over eight prompts."""
    top = document.top
    model = reading.model(top["model"])
    run = reading.run(document, model)
    L = reading.geometry(top, model, "n_layers", "hidden_dim")
    reading.state(top["n_prompts"], "number of prompts averaged over", model)
    attention, mlp = _sub_blocks(reading, run, top["attention"]["gains"], top["mlp"]["gains"], L)
    combined = attention * mlp
    for place, value in zip(top["combined"]["gains"].each(L), combined, strict=True):
        reading.derive(place, value)
    for key, g, argument, definition, index in (
        ("attention", attention, "L_star_min", "minimum", attention.argmin()),
        ("mlp", mlp, "L_star_max", "peak", mlp.argmax()),
    ):
        sides = {"n_contracting": (g < 1).sum(), "n_expanding": (g > 1).sum()}
        reading.follow(top[key], {"min_gain": g.min(), "max_gain": g.max(), **sides})
        reading.transition(top[key][argument], run, definition, f"gain_{key}", L, expected=int(index))
    net = {"n_net_contracting": (combined < 1).sum(), "n_net_expanding": (combined > 1).sum()}
    reading.follow(top["combined"], net)


def read_scaling(reading: Reading, document: Document) -> None:
    """`scaling_law_multi_pythia_results`: eight Pythia sizes, the fit of the last MLP gain against size."""
    top = document.top
    models = top["models"].each()
    reading.derive(top["n_models"], len(models))
    sizes, lasts = [], []
    for place in models:
        model = reading.model(place["model"])
        run = reading.run(document, model)
        L = reading.geometry(place, model, "n_layers", "n_params", "hidden_dim")
        sizes.append(int(reading.fact(model, "n_params")))
        attention, mlp = _sub_blocks(reading, run, place["attn_gains"], place["mlp_gains"], L)
        lasts.append(float(mlp[-1]))
        last = {"last_layer_attn_gain": attention[-1], "last_layer_mlp_gain": mlp[-1]}
        shares = {"attn_contracting_pct": 100 * np.mean(attention < 1), "mlp_contracting_pct": 100 * np.mean(mlp < 1)}
        reading.follow(place, last | shares | {"max_mlp_gain": mlp.max()})
        reading.transition(place["max_mlp_layer"], run, "peak", "gain_mlp", L, expected=int(mlp.argmax()))
    fit = stats.linregress(np.log10(sizes), np.log10(lasts))
    law = {"exponent_alpha": fit.slope, "exponent_std_err": fit.stderr, "intercept": fit.intercept}
    reading.follow(top["scaling_law"], law | {"r_squared": fit.rvalue**2, "p_value": fit.pvalue})
    test = top["hypothesis_test"]
    stated = reading.state(test["hypothesized_alpha"], "hypothesised exponent of the last MLP gain in size")
    reading.follow(test, {"measured_alpha": fit.slope, "difference": abs((stated or np.nan) - fit.slope)})


def read_opt(reading: Reading, document: Document) -> None:
    """`OPT_anomaly`: W_V averaged over layers, attention entropy and sparsity per layer, three models."""
    top = document.top
    runs: dict[str, str] = {}
    for name, place in top["W_V_analysis"].named():
        model = reading.model(place["model"])
        runs[name] = reading.run(document, model, dtype="float16")
        for key, norm in (("spectral", "spectral_norm"), ("frobenius", "frobenius_norm"), ("condition", "condition")):
            reading.take(place[f"mean_{key}"], runs[name], f"W_V_{norm}_mean{_thirds(reading, model)}")
    for name, place in top["attention_analysis"].named():
        L = reading.depth(reading.model(place["model"]))
        run = reading.known(runs, name, place)
        entropies = reading.attention({"entropy": place["entropy_by_layer"]}, run, L, "unstated")
        sparsities = reading.per_layer(place["sparsity_by_layer"], run, L, "attention_sparsity")
        reading.follow(place, {"mean_entropy": np.nanmean(entropies), "mean_sparsity": np.mean(sparsities)})


def read_restriction_summary(reading: Reading, document: Document) -> None:
    """`restriction_map_summary`: means over layers of the spectral norms of W_V and W_O, seven models."""
    for place in document.top.each():
        model = reading.model(place["Model"])
        reading.lab(place["Lab"], model)
        place["Expected"].text()
        reading.geometry(place, model, "Layers")
        run = reading.run(document, model, prompt_set="")
        reading.take(place["W_V Mean"], run, "W_V_spectral_norm_mean" + _thirds(reading, model))
        reading.take(place["W_O Mean"], run, "W_O_spectral_norm_mean")


def _thirds(reading: Reading, model: str) -> str:
    """Suffix of a published W_V figure: the fused matrix of GPT-NeoX and BLOOM cut in thirds is not W_V."""
    return "" if reading.fact(model, "architecture") in THIRDS_ARE_W_V else "_published_thirds"


def _sub_blocks(reading: Reading, run: str, attention: Place, mlp: Place, L: int) -> tuple[Curve, Curve]:
    pairs = []
    for layer, (a, m) in enumerate(zip(attention.each(L), mlp.each(L), strict=True), start=1):
        pair = (a.number("layers.gain_attention"), m.number("layers.gain_mlp"))
        reading.layer(run, layer, "", "unstated", gain_attention=pair[0], gain_mlp=pair[1])
        pairs.append(pair)
    columns = np.array(pairs, float)
    return columns[:, 0], columns[:, 1]

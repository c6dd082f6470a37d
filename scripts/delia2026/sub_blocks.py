"""Readers of the files with gains of attention and MLP, and of the spectra of W_V and W_O."""

from __future__ import annotations

import numpy as np
from ledger import Document
from reading import Reading, Run
from scipy import stats

THIRDS_ARE_W_V = {"opt", "gpt_neo", "gpt2"}
"""Architectures whose published W_V is W_V: three matrices, or q, k, v side by side.

GPT-2's was cut along the right axis: its condition number of 2e4 is that of a square matrix, not of
a block of rows.
"""


def read_ffn(reading: Reading, document: Document) -> None:
    """`ffn_expansion_results`: Pythia-1.4B, averages over eight prompts."""
    top = document.top
    run = reading.run(document, reading.model(top["model"]))
    run.hold(top, "n_layers", "hidden_dim")
    reading.state(top["n_prompts"], "number of prompts averaged over")
    columns = {f"gain_{part}": top[part]["gains"].each(run.L) for part in ("attention", "mlp")}
    attention, mlp = run.layers(columns, "unstated")
    combined = attention * mlp
    reading.follow_each(top["combined"]["gains"], combined)
    net = {"n_net_contracting": (combined < 1).sum(), "n_net_expanding": (combined > 1).sum()}
    reading.follow(top["combined"], net)
    for key, g in (("attention", attention), ("mlp", mlp)):
        sides = {"n_contracting": (g < 1).sum(), "n_expanding": (g > 1).sum()}
        reading.follow(top[key], {"min_gain": g.min(), "max_gain": g.max(), **sides})
    run.transition(
        top["attention"]["L_star_min"], "minimum", "gain_attention", attention, np.argmin
    )
    run.transition(top["mlp"]["L_star_max"], "peak", "gain_mlp", mlp)


def read_scaling(reading: Reading, document: Document) -> None:
    """`scaling_law_multi_pythia_results`: eight Pythia sizes, the fit of the last MLP gain against
    size."""
    top = document.top
    models = top["models"].each()
    reading.derive(top["n_models"], len(models))
    sizes = []
    lasts = []
    for place in models:
        run = reading.run(document, reading.model(place["model"]))
        run.hold(place, "n_layers", "n_params", "hidden_dim")
        gains = {"gain_attention": place["attn_gains"], "gain_mlp": place["mlp_gains"]}
        attention, mlp = run.layers(
            {name: column.each(run.L) for name, column in gains.items()}, "unstated"
        )
        last = {"last_layer_attn_gain": attention[-1], "last_layer_mlp_gain": mlp[-1]}
        shares = {
            "attn_contracting_pct": 100 * np.mean(attention < 1),
            "mlp_contracting_pct": 100 * np.mean(mlp < 1),
        }
        reading.follow(place, last | shares | {"max_mlp_gain": mlp.max()})
        run.transition(place["max_mlp_layer"], "peak", "gain_mlp", mlp)
        sizes.append(int(run.fact("n_params")))
        lasts.append(mlp[-1])
    fit = stats.linregress(np.log10(sizes), np.log10(lasts))
    law = {"exponent_alpha": fit.slope, "exponent_std_err": fit.stderr, "intercept": fit.intercept}
    reading.follow(top["scaling_law"], law | {"r_squared": fit.rvalue**2, "p_value": fit.pvalue})
    test = top["hypothesis_test"]
    stated = reading.state(
        test["hypothesized_alpha"], "hypothesised exponent of the last MLP gain in size"
    )
    reading.follow(test, {"measured_alpha": fit.slope, "difference": abs(stated - fit.slope)})


def read_opt(reading: Reading, document: Document) -> None:
    """`OPT_anomaly`: W_V averaged over layers, attention entropy and sparsity per layer, three
    models."""
    top = document.top
    runs: dict[str, Run] = {}
    for name, place in top["W_V_analysis"].named():
        runs[name] = reading.run(document, reading.model(place["model"]), dtype="float16")
        for key, norm in (
            ("spectral", "spectral_norm"),
            ("frobenius", "frobenius_norm"),
            ("condition", "condition"),
        ):
            runs[name].take(place[f"mean_{key}"], f"W_V_{norm}_mean{_thirds(runs[name])}")
    for name, place in top["attention_analysis"].named():
        entropies = runs[name].attention({"entropy": place["entropy_by_layer"]}, "unstated")
        sparsities = runs[name].per_layer(place["sparsity_by_layer"], "attention_sparsity")
        reading.follow(
            place, {"mean_entropy": np.nanmean(entropies), "mean_sparsity": np.mean(sparsities)}
        )


def read_restriction_summary(reading: Reading, document: Document) -> None:
    """`restriction_map_summary`: means over layers of the spectral norms of W_V and W_O, seven
    models."""
    for place in document.top.each():
        run = reading.run(document, reading.model(place["Model"]), prompts="")
        run.lab(place["Lab"])
        run.hold(place, "Layers")
        run.take(place["W_V Mean"], "W_V_spectral_norm_mean" + _thirds(run))
        run.take(place["W_O Mean"], "W_O_spectral_norm_mean")


def _thirds(run: Run) -> str:
    """Suffix of a published W_V figure: the fused matrix of GPT-NeoX and BLOOM cut in thirds is not
    W_V."""
    return "" if run.fact("architecture") in THIRDS_ARE_W_V else "_published_thirds"

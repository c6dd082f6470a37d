"""C17: attention always contracts, the last MLP always expands, and its gain grows as params^0.35.

Claim: in every block attention gives out less norm than it takes in; the last feed-forward layer gives out more; and
its gain is proportional to the number of parameters to the power 0.35.
Estimand: share of blocks with attention gain below 1; share of models whose last MLP gain is above 1; exponent of the
last MLP gain over all parameters (log-log least squares).
Rule: "always" falls with one counterexample, a mean over prompts on the other side of 1; it is supported where there is
none and the exact 95 % interval over models lies above one half. Exponent: supported where the 95 % interval (t, HC3
errors) lies within ±MARGIN of STATED, against where it excludes STATED; otherwise inconclusive (an interval wider than
twice MARGIN can only be inconclusive or against). Beside the exponent a Bayesian line through the logarithms: supported
where P(exponent within ±MARGIN of STATED) is at least 0.95, against where at most 0.05; beside the last MLP the
posterior of the share of models that expand, against one half by the same limits. A counterexample to "always" needs no
model. Each part has the verdict that both come to. The claim as a whole needs every part, and one part against it is
enough. Unit: the model (eight sizes of one family).
Source: scaling_law_multi_pythia, ffn_expansion; the preprint's text states the exponent in its notes only.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, if_above, if_all
from thermostats.modelling.classical.association import power_law
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.laws.line import fit_line
from thermostats.modelling.laws.share import fit_share
from thermostats.plots.general import MUTED, lines_by_layer, scatter_labelled
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.evidence import stated, stated_by_model
from thermostats.studies.delia2026.provenance import follows
from thermostats.words import number, range_text, relation, short_name

SCALING, FFN = "scaling_law_multi_pythia_results.json", "ffn_expansion_results.json"
STATED, MARGIN = 0.35, 0.10
SEED = 17
SCALE = 1.0
"""Last MLP gains that differ by a factor e over one SD of size would be no surprise."""
CLAIMED = "exponent as claimed"
FIT = {
    "exponent": "/scaling_law/exponent_alpha",
    "standard error of the exponent": "/scaling_law/exponent_std_err",
    "intercept": "/scaling_law/intercept",
    "R²": "/scaling_law/r_squared",
    "p of the exponent against 0": "/scaling_law/p_value",
}
CONTRACTING = {
    "attention of {} contracts, % of blocks": r"/models/\d+/attn_contracting_pct",
    "MLPs of {} contract, % of blocks": r"/models/\d+/mlp_contracting_pct",
}

CLAIM = Claim(
    id="C17",
    title="Attention always contracts, the last MLP always expands, its gain goes as params^0.35",
    said="Attention gains are below 1 in every block, the last MLP's gain is above 1 in every model and grows as "
    f"the number of parameters to the power {STATED:g} (measured 0.265 ± 0.079).",
    estimand="share of contracting attention blocks; share of models with an expanding last MLP; exponent of its gain",
    rule="One counterexample is enough against each 'always'; without one it is supported where the exact interval "
    f"over models lies above one half. Exponent: supported where its 95 % interval lies within {STATED:g} ± "
    f"{MARGIN:g}, against where it excludes {STATED:g}. Beside exponent and last MLP stand posteriors; a part has the "
    "verdict that both come to. The whole needs every part. Unit: the model.",
    source="scaling_law_multi_pythia, ffn_expansion",
    rows="study",
)


def analyse(tables: Evidence) -> list[Finding]:
    """The claim as a whole, then its three parts."""
    layers = tables.table("layers", source=SCALING)
    sizes = tables.table("models").set_index("model_id")["n_params"]
    layers = layers[["model_id", "heritage", "layer", "gain_attention", "gain_mlp"]].astype({"layer": float})
    last = layers.sort_values("layer").groupby("model_id", as_index=False).last()
    last["n_params"] = last["model_id"].map(sizes).astype("float64")
    last["largest_attention_gain"] = last["model_id"].map(layers.groupby("model_id")["gain_attention"].max())
    last = last.sort_values("n_params", ignore_index=True)
    parts = [
        with_line(last, exponent(last, tables)),
        attention(layers, last, tables),
        with_share(last, last_mlp(layers, last)),
    ]
    words = {part.estimand: part.verdict for part in parts}
    verdict = if_all(words.values())
    decides = next((part for part in parts if part.verdict == AGAINST), parts[0])
    whole = Finding(
        claim="C17",
        estimand=f"{decides.estimand} (the part that decides of three)",
        verdict=verdict,
        plain=f"{SENTENCES[verdict]} as a whole: "
        + "; ".join(f"{name}, {word}" for name, word in words.items())
        + ". "
        + decides.plain,
        estimate=decides.estimate,
        lower=decides.lower,
        upper=decides.upper,
        interval=decides.interval,
        probability=decides.probability,
        probability_kind=decides.probability_kind,
        n_models=len(last),
        n_heritages=last["heritage"].nunique(),
        published=parts[0].published,
        reproduced=parts[0].reproduced,
        table=last,
        draw=decides.draw,
        caption=decides.caption,
        notes=(
            parts[0].notes[0],
            parts[0].notes[-1],
            follows(tables, SCALING),
            "Eight sizes of one family from one lab: nothing here speaks of other families.",
        ),
    )
    return [whole, *(replace(part, draw=None, caption="") if part is decides else part for part in parts)]


def exponent(last: pd.DataFrame, tables: Evidence) -> Finding:
    """Exponent of the last MLP gain over the number of parameters."""
    fit = power_law(last["n_params"], last["gain_mlp"], against=STATED)
    line = stats.linregress(np.log10(last["n_params"]), np.log10(last["gain_mlp"]))
    half = (fit.upper - fit.lower) / 2
    excludes = fit.lower > STATED or fit.upper < STATED
    inside = abs(fit.lower - STATED) <= MARGIN and abs(fit.upper - STATED) <= MARGIN
    verdict = AGAINST if excludes else SUPPORTED if inside else OPEN

    def draw(axes: Axes) -> None:
        x = np.geomspace(last["n_params"].min(), last["n_params"].max(), 50)
        axes.plot(x, fit.prefactor * x**fit.estimate, color="#0072B2", label=f"fit, exponent {fit.estimate:.2f}")
        centre = np.exp(np.log(last["n_params"]).mean()), np.exp(np.log(last["gain_mlp"]).mean())
        ends = [centre[1] * (x / centre[0]) ** slope for slope in (fit.lower, fit.upper)]
        axes.fill_between(x, np.minimum(*ends), np.maximum(*ends), color="#0072B2", alpha=0.12, linewidth=0)
        axes.plot(x, centre[1] * (x / centre[0]) ** STATED, color=MUTED, linestyle="--", label=f"exponent {STATED:g}")
        axes.set(xscale="log", yscale="log")
        scatter_labelled(last, axes, x="n_params", y="gain_mlp")
        axes.set(xlabel="parameters (log scale)", ylabel="gain of the last MLP (log scale)")
        log_axis(axes, "y")

    return Finding(
        claim="C17",
        estimand="exponent of the last MLP gain over parameters",
        verdict=verdict,
        plain=f"The gain of the last MLP grows with the number of parameters to the power {number(fit.estimate)}, "
        f"with an interval of {range_text(fit.lower, fit.upper)} over {fit.n} models. {SENTENCES[verdict]} for the "
        f"value {STATED:g}: it lies {'outside' if excludes else 'inside'} the interval, and leaving out one model "
        f"moves the exponent between {number(fit.smallest_without_one)} and {number(fit.largest_without_one)}.",
        estimate=fit.estimate,
        lower=fit.lower,
        upper=fit.upper,
        interval=f"{fit.interval}, 95 %",
        probability=fit.p_value,
        probability_kind="p of the stated exponent",
        n_models=len(last),
        n_heritages=last["heritage"].nunique(),
        table=last,
        draw=draw,
        published=stated(tables, {CLAIMED: "MLP exponent"}) | stated(tables, FIT, SCALING),
        reproduced={CLAIMED: float(line.slope)}
        | dict(
            zip(FIT, map(float, (line.slope, line.stderr, line.intercept, line.rvalue**2, line.pvalue)), strict=True)
        ),
        caption=f"Gain of the last MLP over parameters, {len(last)} models, both axes logarithmic. Fitted exponent "
        f"with its 95 % interval about the mean {number(fit.estimate)} {range_text(fit.lower, fit.upper)}; dashed: "
        f"{STATED:g}.",
        notes=(
            f"The claimed {STATED:g} is not what the file's own fit gives: it has "
            f"{number(float(line.slope))} ± {number(float(line.stderr), 2)}, recomputed here.",
            f"The probability is that of a deviation from {STATED:g} as large as this one; against 0, by the "
            f"study's least squares, it is p {relation(float(line.pvalue))}.",
            "Size and depth grow together in the family, so the exponent cannot be told from an effect of depth.",
            f"The interval reaches {number(half, 2)} to either side and the rule allows {MARGIN:g}, so these models "
            f"{'can' if half <= MARGIN else 'cannot'} show the exponent to be the stated one.",
        ),
    )


def with_line(last: pd.DataFrame, finding: Finding) -> Finding:
    """The finding on the exponent with the posterior of a line through the logarithms."""
    logs = last.assign(log_gain=np.log(last["gain_mlp"]), log_params=np.log(last["n_params"]))
    fit = fit_line(logs, "log_gain", ["log_params"], scale=SCALE, group=None, sources=[SCALING], seed=SEED)
    told = posterior_of(
        fit,
        model="Line of the log gain of the last MLP over log parameters; its slope is the exponent.",
        statement=f"exponent within {STATED:g} ± {MARGIN:g}",
        truth=abs(fit.quantities["log_params"] - STATED) <= MARGIN,
        classical=finding.verdict,
        tables=["rows"],
    )
    return beside(finding, fit, told)


def with_share(last: pd.DataFrame, finding: Finding) -> Finding:
    """The finding on the last MLP with the posterior of the share of models that expand."""
    fit = fit_share(last.assign(expands=last["gain_mlp"] > 1), "expands", group=None, sources=[SCALING], seed=SEED)
    told = posterior_of(
        fit,
        model="Share of models whose last MLP expands, models of the one family alike.",
        statement="share > 0.5",
        truth=fit.quantities["share"] > 0.5,
        classical=finding.verdict,
        tables=["groups"],
    )
    return beside(finding, fit, told)


def attention(layers: pd.DataFrame, last: pd.DataFrame, tables: Evidence) -> Finding:
    """Is every attention gain below 1?"""
    breaking = layers[layers["gain_attention"] >= 1]
    models = int((last["largest_attention_gain"] < 1).sum())
    share = proportion(models, len(last))
    verdict = AGAINST if len(breaking) else SUPPORTED if if_above(share.lower, share.upper, 0.5) == SUPPORTED else OPEN
    again = tables.table("layers", source=FFN)
    named = "; ".join(
        f"{short_name(r.model_id)} block {r.layer:.0f}: {r.gain_attention:.3f}" for r in breaking.itertuples()
    )

    def draw(axes: Axes) -> None:
        lines_by_layer(layers, axes, y="gain_attention", null=1.0)
        axes.set_ylabel("attention gain, output over normed input")

    return Finding(
        claim="C17",
        estimand="share of models in which attention contracts in every block",
        verdict=verdict,
        plain=f"Attention gives out less norm than it takes in, in {len(layers) - len(breaking)} of {len(layers)} "
        f"blocks. {SENTENCES[verdict]} as 'always'{': ' + named if named else ', with no exception'}.",
        estimate=share.estimate,
        lower=share.lower,
        upper=share.upper,
        interval="Clopper–Pearson exact interval over models, 95 %",
        n_models=len(last),
        n_heritages=last["heritage"].nunique(),
        table=breaking if len(breaking) else last,
        draw=draw,
        caption=f"Attention gain over layers, {len(last)} models; dashed line: 1. {len(breaking)} of {len(layers)} "
        "blocks lie on or above it.",
        published=stated_by_model(tables, SCALING, CONTRACTING),
        reproduced=contracting(layers),
        notes=(
            f"A second file measured {again['model_id'].nunique()} of these models on other prompts: its largest "
            f"attention gain is {number(float(again['gain_attention'].max()))}.",
        ),
    )


def contracting(layers: pd.DataFrame) -> dict[str, float]:
    """Per cent of blocks below 1 in every model, by the names of `CONTRACTING`."""
    figures: dict[str, float] = {}
    for model, part in layers.groupby("model_id"):
        for name, column in zip(CONTRACTING, ("gain_attention", "gain_mlp"), strict=True):
            figures[name.format(short_name(str(model)))] = 100 * float((part[column] < 1).mean())
    return figures


def last_mlp(layers: pd.DataFrame, last: pd.DataFrame) -> Finding:
    """Is the last MLP's gain above 1 in every model?"""
    above = int((last["gain_mlp"] > 1).sum())
    share = proportion(above, len(last))
    verdict = AGAINST if above < len(last) else if_above(share.lower, share.upper, 0.5)
    largest = layers.loc[layers.groupby("model_id")["gain_mlp"].idxmax(), ["model_id", "layer"]]
    at_end = int((largest.set_index("model_id")["layer"].reindex(last["model_id"]).to_numpy() == last["layer"]).sum())
    others = layers.merge(last[["model_id", "layer"]].rename(columns={"layer": "end"}), on="model_id")
    before = float((others.loc[others["layer"] < others["end"], "gain_mlp"] > 1).mean())

    def draw(axes: Axes) -> None:
        lines_by_layer(layers, axes, y="gain_mlp", null=1.0)
        axes.set_ylabel("MLP gain, output over normed input")

    return Finding(
        claim="C17",
        estimand="share of models whose last MLP expands",
        verdict=verdict,
        plain=f"The last MLP gives out more norm than it takes in, in {above} of {len(last)} models. "
        f"{SENTENCES[verdict]} for the family measured: its gain runs from {number(last['gain_mlp'].min())} to "
        f"{number(last['gain_mlp'].max())} and is the largest of its model in {at_end}; of the MLPs before it "
        f"{before:.0%} expand.",
        estimate=share.estimate,
        lower=share.lower,
        upper=share.upper,
        interval="Clopper–Pearson exact interval over models, 95 %",
        n_models=len(last),
        n_heritages=last["heritage"].nunique(),
        table=last[["model_id", "gain_mlp"]],
        draw=draw,
        caption=f"MLP gain over layers, {len(last)} models; dashed line: 1. The last point of {above} lines lies "
        "above it.",
    )


if __name__ == "__main__":
    run(CLAIM, analyse)

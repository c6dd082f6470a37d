"""N03's head density: the threshold of ρ, and the part of ρ's effect that goes with the trace of the Laplacian."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED
from thermostats.modelling.classical.counts import classification_accuracy
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.modelling.laws.spectra import mediation
from thermostats.plots.general import legend_above, reference
from thermostats.plots.scales import log_axis
from thermostats.studies.nursery.recipe_fit import too_few, unmeasured
from thermostats.studies.nursery.slopes import held
from thermostats.tables.vocabulary import NURSERY
from thermostats.words import number, relation

ALPHA = 0.05
PENULTIMATE = "penultimate_gain"


def threshold(rows: pd.DataFrame, cuts: Mapping[str, float], *, seed: int) -> Finding:
    """The finding on the threshold of ρ, as in C10."""
    dampens = rows[PENULTIMATE] < 1
    commoner = float(max(dampens.mean(), 1 - dampens.mean()))
    estimand = "accuracy of ρ ≥ threshold in the controlled study"
    if commoner == 1:
        side = "dampen" if dampens.all() else "expand"
        return Finding(
            claim="N03",
            estimand=estimand,
            verdict=OPEN,
            n_models=len(rows),
            n_heritages=rows["recipe"].nunique(),
            plain=f"{SENTENCES[OPEN]}: all {len(rows)} models {side}, whatever their head density, so that no rule can "
            "name the side better than always naming that one.",
        )
    words = {True: "dampens", False: "expands"}
    tried = {cut: classification_accuracy((rows["rho"] >= cut).map(words), dampens.map(words)) for cut in cuts.values()}
    best = max(tried, key=lambda cut: tried[cut].estimate)
    found = tried[best]
    decided = SUPPORTED if found.p_value <= ALPHA else AGAINST if found.estimate <= found.majority else OPEN
    finding = Finding(
        claim="N03",
        estimand=estimand,
        verdict=decided,
        plain=f"{SENTENCES[decided]}: ρ ≥ {best:g} names the right side of gain 1 in {found.estimate:.0%} of {found.n} "
        f"models (95 % interval {found.lower:.0%} to {found.upper:.0%}), and always naming the commoner side in "
        f"{found.majority:.0%} (one-sided p of being better {relation(found.p_value)}). Its balanced accuracy is "
        f"{found.balanced_accuracy:.0%}, where a coin has 50%.",
        estimate=found.estimate,
        lower=found.lower,
        upper=found.upper,
        interval=f"95 % {found.interval}",
        probability=found.p_value,
        probability_kind="one-sided p-value",
        n_models=found.n,
        n_heritages=rows["recipe"].nunique(),
    )
    right = rows.assign(heritage=rows["recipe"], side_named_rightly=(rows["rho"] >= best) == dampens)
    fit = fit_share(right, "side_named_rightly", against=commoner, sources=[NURSERY], seed=seed)
    told = posterior_of(
        fit,
        model="Share of models whose side of 1 follows from the threshold of ρ, recipes as groups.",
        statement=f"share > {commoner:g}",
        classical=decided,
        tables=["groups"],
    )
    return beside(finding, fit, told)


def through(rows: pd.DataFrame) -> Finding:
    """The finding on the trace as a mediator of ρ's effect, W_V and W_O beside it."""
    mediators = {"trace": "trace of the sheaf Laplacian", "wv_norm": "‖W_V‖", "wo_norm": "‖W_O‖"}
    others = [name for name in held(rows) if name != "log_rho"]
    found = {}
    for column, words in mediators.items():
        known = rows[rows[column].notna() & (rows[column] > 0)]
        if too_few(known):
            continue
        logs = known.assign(mediator=np.log(known[column].astype("float64")))
        found[words] = mediation(logs, "log_gain", "log_rho", "mediator", others, group="recipe")
    estimand = "effect of log ρ through the log trace of the sheaf Laplacian, penultimate gain"
    first = next(iter(mediators.values()))
    if first not in found:
        return unmeasured("N03", estimand, rows[rows["trace"].notna()])
    main = found[first]
    decided = SUPPORTED if main.lower > 0 or main.upper < 0 else OPEN
    table = pd.DataFrame(
        [
            {
                "mediator": words,
                "indirect": m.estimate,
                "lower": m.lower,
                "upper": m.upper,
                "total": m.total,
                "direct": m.direct,
                "n_models": m.n,
            }
            for words, m in found.items()
        ]
    )
    return Finding(
        claim="N03",
        estimand=estimand,
        verdict=decided,
        plain=f"{SENTENCES[decided]}: of the slope of the log gain on log ρ, {number(main.total)}, the part that goes "
        f"with the trace at the end of training is {number(main.estimate)} (95 % interval {number(main.lower)} to "
        f"{number(main.upper)}), and {number(main.direct)} is beside it. ρ was set by design and the trace was not: "
        "what moves trace and gain both would look the same.",
        estimate=main.estimate,
        lower=main.lower,
        upper=main.upper,
        interval=f"95 % {main.interval}",
        n_models=main.n,
        n_heritages=main.n_groups,
        table=table,
    )


def draw_density(rows: pd.DataFrame, *, seed: int) -> Callable[[Axes], None]:
    """Penultimate gain over head density, marked by depth."""

    def draw(axes: Axes) -> None:
        reference(axes, 1.0)
        spread = np.random.default_rng(seed)
        for depth, own in rows.groupby("n_layers", sort=True):
            shift = np.exp(spread.uniform(-0.1, 0.1, len(own)))
            axes.scatter(own["rho"] * shift, own[PENULTIMATE], s=26, alpha=0.85, label=f"L = {depth}")
        log_axis(axes, "x")
        log_axis(axes, "y")
        axes.set_xlabel("head density ρ = H / d_h")
        axes.set_ylabel("gain of the last block but one")
        legend_above(axes)

    return draw

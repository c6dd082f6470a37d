"""Labs: their models at hand, their population of models, their next model; spreads of the superpopulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.modelling.draws import Array, summary
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.blocks import FAMILY
from thermostats.modelling.heritage.law import HeritageDesign
from thermostats.modelling.heritage.quantities import contributions, lab_means, log_gains

FEW_GROUPS = 8
"""With fewer a superpopulation's standard deviation mostly repeats its prior."""
SCALES = {"half the prior scale": 0.5, "double the prior scale": 2.0}


def labs_table(fit: Fit) -> pd.DataFrame:
    """Per lab: its effect, partially pooled, and three probabilities that it dampens.

    `probability_dampens`: of P(mean log gain of its models at hand < 0); `population_dampens`: of the mean of all
    models that the lab could make, with the geometry and scale of those at hand; `next_dampens`: of one new model, of a
    new family where families are in the model, with the geometry and scale of one of those at hand.
    """
    values, design = fit.draws.values, fit.designed(HeritageDesign)
    lab, means = design.lab, lab_means(design)
    effect, mean = contributions(values, design)[lab] @ means, log_gains(values, design) @ means
    centre, spread = _new_models(fit)
    below = stats.norm.cdf(0.0, centre, spread[..., None])
    exact = ["effect"] if fit.draws.exact else []
    table = summary({"effect": effect}, level=fit.level, exact=exact).drop(columns="quantity")
    table.insert(0, "heritage", list(design.levels[lab].index))
    table.insert(1, "n_models", np.bincount(design.codes[lab]))
    return table.assign(
        mean_log_gain=mean.mean(axis=(0, 1)),
        probability_dampens=(mean < 0).mean(axis=(0, 1)),
        population_dampens=(centre @ means < 0).mean(axis=(0, 1)),
        next_dampens=below.mean(axis=(0, 1)) @ means,
    )


def _new_models(fit: Fit) -> tuple[Array, Array]:
    """Mean log gain (chain × draw × M) and its SD (chain × draw) of new models like those at hand, of new families."""
    values, design = fit.draws.values, fit.designed(HeritageDesign)
    parts = contributions(values, design)
    variance = np.square(values["scale"][..., -1])
    centre = values["beta"] + sum(part for name, part in parts.items() if name not in (FAMILY, "model"))
    if FAMILY in parts:
        scale = values["scale"][..., list(parts).index(FAMILY)]
        shares = design.levels[FAMILY].to_numpy()
        unit = 1 / np.sqrt(1 - np.square(shares).sum())  # what a family's effect of 1 adds to its models
        centre = centre - unit * (values[f"u_{FAMILY}"][..., : shares.size] @ shares)[..., None]
        variance = variance + np.square(scale * unit)
    return centre, np.sqrt(variance)


def superpopulation(fit: Fit) -> pd.DataFrame:
    """Standard deviation τ√φ of all labs (and families) there could be: block, groups, prior, median, lower, upper.

    With fewer than `FEW_GROUPS` groups also under half and double the prior scale of τ, by refits; it decides nothing.
    """
    heritage, blocks = fit.designed(HeritageDesign).heritage, list(fit.designed(HeritageDesign).bases)
    groups = {name: len(fit.designed(HeritageDesign).levels[name]) for name in heritage.groups}
    fits = {"as fitted": fit}
    if min(groups.values()) < FEW_GROUPS:
        for name, factor in SCALES.items():
            other = replace(heritage, total_sd=factor * heritage.total_sd)
            fits[name] = fit.under(replace(fit.law, of=other.of))
    rows = []
    for block, n in groups.items():
        for prior, other_fit in fits.items():
            if prior == "as fitted" or n < FEW_GROUPS:
                sd = other_fit.draws["scale"][..., blocks.index(block)]
                row = summary({"sd": sd}, level=fit.level, exact=["sd"])[["median", "lower", "upper"]].iloc[0]
                rows.append({"block": block, "groups": n, "prior": prior, **row.to_dict()})
    return pd.DataFrame(rows)

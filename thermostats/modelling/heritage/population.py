"""Beyond the models at hand: a lab's population of models, its next model, and spreads of the superpopulation."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.modelling.heritage.blocks import FAMILY, lab_basis
from thermostats.modelling.heritage.closed_form import closed_form
from thermostats.modelling.heritage.model import HeritagePosterior
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import Array

FEW_GROUPS = 8
"""With fewer a superpopulation's standard deviation mostly repeats its prior."""
SCALES = (0.5, 2.0)


def labs_table(fit: HeritagePosterior) -> pd.DataFrame:
    """Per lab: its effect, partially pooled, and three probabilities that it dampens.

    `probability_dampens`: of P(mean log gain of its models at hand < 0); `population_dampens`: of the mean of all
    models that the lab could make, with the geometry and scale of those at hand; `next_dampens`: of one new model, of a
    new family where families are in the model, with the geometry and scale of one of those at hand.
    """
    design, draws, means = fit.design, fit.draws, fit.design.lab_means()
    effect, mean = fit.contributions["heritage"] @ means, draws["m"] @ means
    centre, spread = _new_models(fit)
    below = stats.norm.cdf(0.0, centre, spread[..., None])
    exact = ["effect"] if fit.draws.exact else []
    table = sampling.summary({"effect": effect}, exact=exact).drop(columns="quantity")
    table.insert(0, "heritage", list(design.labs))
    table.insert(1, "n_models", design.lab_sizes())
    return table.assign(
        mean_log_gain=mean.mean(axis=(0, 1)),
        probability_dampens=(mean < 0).mean(axis=(0, 1)),
        population_dampens=(centre @ means < 0).mean(axis=(0, 1)),
        next_dampens=below.mean(axis=(0, 1)) @ means,
    )


def _new_models(fit: HeritagePosterior) -> tuple[Array, Array]:
    """Mean log gain (chain × draw × M) and its SD (chain × draw) of new models like those at hand, of new families."""
    design, draws, parts = fit.design, fit.draws, fit.contributions
    variance = np.square(draws["tau"]) * draws["share"][..., -1]
    centre = draws["alpha"][..., None] + parts["heritage"] + parts["geometry"] + parts["scale"]
    if design.families:
        scale = draws["tau"] * np.sqrt(draws["share"][..., design.blocks.index(FAMILY)])
        shares = np.bincount(design.family) / design.n_models
        unit = np.ptp(lab_basis(design.family), axis=0).max()  # what a family's effect of 1 adds to its models
        centre = centre - (scale * unit * (draws["v"] @ shares))[..., None]
        variance = variance + np.square(scale * unit)
    return centre, np.sqrt(variance)


def superpopulation(fit: HeritagePosterior) -> pd.DataFrame:
    """Standard deviation τ√φ of all labs (and families) there could be: block, groups, prior, median, lower, upper.

    With fewer than `FEW_GROUPS` groups also under half and double the prior scale of τ, by exact refits of the models'
    means in closed form; it decides nothing.
    """
    design = fit.design
    groups = {"heritage": len(design.labs)} | ({FAMILY: len(design.families)} if design.families else {})
    drawn = {"as fitted": fit.draws}
    if min(groups.values()) < FEW_GROUPS:
        for factor, name in zip(SCALES, ("half the prior scale", "double the prior scale"), strict=True):
            total_sd = factor * fit.total_sd
            drawn[name] = closed_form(design, total_sd=total_sd, concentration=fit.concentration, seed=fit.seed)
    rows = []
    for block, n in groups.items():
        for prior, draws in drawn.items():
            if prior == "as fitted" or n < FEW_GROUPS:
                sd = draws["tau"] * np.sqrt(draws["share"][..., design.blocks.index(block)])
                found = sampling.summary({"sd": sd})[["median", "lower", "upper"]].iloc[0]
                rows.append({"block": block, "groups": n, "prior": prior, **found.to_dict()})
    return pd.DataFrame(rows)

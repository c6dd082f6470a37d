"""Expand before giving up: further declared models, compared by what they say of a lab that they have not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from thermostats.errors import UsageError, did_you_mean
from thermostats.modelling.heritage.blocks import INTERACTION
from thermostats.modelling.heritage.closed_form import closed_form
from thermostats.modelling.heritage.densities import log_density_of
from thermostats.modelling.heritage.held_out import refit_without
from thermostats.modelling.heritage.laws import BY_LAB, NORMAL, SKEW, STUDENT
from thermostats.modelling.heritage.model import CLOSED, HeritagePosterior
from thermostats.modelling.heritage.predictive import model_statistics, new_models
from thermostats.modelling.inference import checks
from thermostats.modelling.inference.draws import Array

EXPANSIONS = (NORMAL, STUDENT, SKEW, INTERACTION, BY_LAB)
"""From the simplest; every one has the blocks of the first."""
CLOSE = 2.0
"""Standard errors of a difference in log predictive density within which models are averaged."""
ROUNDS = 500


def expanded(posterior: HeritagePosterior, name: str) -> HeritagePosterior:
    """The model of that name, of the same design and priors, in closed form of the models' means.

    Raises UsageError for a name that is not in `EXPANSIONS`, and for Student-t lab effects.
    """
    if name not in EXPANSIONS or posterior.lab_df:
        raise UsageError(
            "no such expansion",
            got=f"{name}, lab_df {posterior.lab_df:g}",
            allowed=f"{', '.join(EXPANSIONS)}, with normal lab effects",
            next_step=did_you_mean(name, EXPANSIONS),
        )
    design = replace(posterior.design, interaction=name == INTERACTION)
    residuals = NORMAL if name == INTERACTION else name
    draws = closed_form(
        design,
        total_sd=posterior.total_sd,
        concentration=posterior.concentration,
        seed=posterior.seed,
        settings=posterior.draws.settings,
        residuals=residuals,
    )
    return replace(posterior, design=design, draws=draws, method=CLOSED, residuals=residuals)


def not_reproduced(posterior: HeritagePosterior, seed: int) -> list[str]:
    """Test quantities of the models' means, shapes too, that the gate's own replications miss (p < 0.01 or > 0.99)."""
    observed, replicated = posterior.design.means()[0], new_models(posterior, seed)
    table = checks.posterior_predictive(replicated, observed, model_statistics(posterior.design)).table
    return list(table.loc[table["tail"] < checks.SURPRISING, "statistic"])


def lab_densities(posterior: HeritagePosterior, seed: int) -> Array:
    """Joint log predictive density of the models of every lab, by exact refits without it."""
    found = []
    for j in range(len(posterior.design.labs)):
        out = np.flatnonzero(posterior.design.lab == j)
        draws = refit_without(posterior, out, seed=seed + j)
        density = log_density_of(posterior, draws, out).sum(axis=1)
        found.append(float(np.logaddexp.reduce(density) - np.log(density.size)))
    return np.array(found)


def compared(posteriors: Mapping[str, HeritagePosterior], seed: int) -> pd.DataFrame:
    """One row per model, in the order of their complexity.

    Columns: model; not_reproduced, test quantities that its replications miss; elpd, sum of the labs' log predictive
    densities, difference from the best and its standard error over labs; close, within `CLOSE` of these; weight, by
    stacking of the close ones (Yao et al. 2018, doi:10.1214/17-BA1091), 0 for the others.
    """
    density = {name: lab_densities(one, seed) for name, one in posteriors.items()}
    best = max(density, key=lambda name: density[name].sum())
    rows = []
    for name, one in posteriors.items():
        less = density[name] - density[best]
        error = float(np.sqrt(less.size) * less.std(ddof=1))
        rows.append(
            {
                "model": name,
                "not_reproduced": ", ".join(not_reproduced(one, one.seed)),
                "elpd": float(density[name].sum()),
                "difference": float(less.sum()),
                "difference_error": error,
                "close": bool(-less.sum() <= CLOSE * error),
            }
        )
    table = pd.DataFrame(rows)
    weights = stacking(np.column_stack([density[name] for name in table.loc[table["close"], "model"]]))
    table["weight"] = 0.0
    table.loc[table["close"], "weight"] = weights
    return table


def preferred(posteriors: Mapping[str, HeritagePosterior], seed: int) -> tuple[str, str]:
    """Name of the model with the highest log predictive density of left-out labs, and a sentence about it."""
    if len(posteriors) == 1:
        (name,) = posteriors
        return name, f"{name}: the only declared model that reproduces the data"
    table = compared(posteriors, seed).sort_values("elpd", ascending=False)
    best, others = table.iloc[0], table[table["close"]].iloc[1:]
    close = ", ".join(f"{row.model} ({row.difference:.1f})" for row in others.itertuples())
    said = f"{best['model']}: best at predicting labs left out, of the declared models that reproduce the data"
    return str(best["model"]), f"{said}; about as good, by their log density: {close}" if close else said


def stacking(density: Array) -> Array:
    """Weights of models, summing to 1, whose mixture has the highest sum of log densities; units × models."""
    weight = np.full(density.shape[1], 1 / density.shape[1])
    likelihood = np.exp(density - density.max(axis=1, keepdims=True))
    for _ in range(ROUNDS):
        share = likelihood * weight
        weight = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
    return np.asarray(weight)

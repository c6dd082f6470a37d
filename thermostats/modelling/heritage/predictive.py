"""What checks ask of the heritage model: new models, models under the prior, prompts left out, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from thermostats.modelling.heritage.averages import CENTRE, SPREAD
from thermostats.modelling.heritage.blocks import Design
from thermostats.modelling.heritage.calibration import of_posterior
from thermostats.modelling.heritage.densities import log_density_of
from thermostats.modelling.heritage.laws import NORMAL, law
from thermostats.modelling.heritage.model import (
    CATEGORIES,
    CLOSED,
    SAMPLING,
    TAILS,
    HeritagePosterior,
    explained,
    prior_blocks,
)
from thermostats.modelling.heritage.sensitivity import log_ratios
from thermostats.modelling.inference import checks
from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.parts import Part, updates_of

REPLICATED = 400


def part_of(posterior: HeritagePosterior, quantities: Mapping[str, Array]) -> Part:
    """What the checks need of a posterior and of the draws that are reported."""
    prompted = posterior.method == SAMPLING and posterior.design.prompted.size
    return Part(
        draws=posterior.draws,
        observed=posterior.design.means()[0],
        of={"model_id": posterior.design.models, "lab": [posterior.design.labs[i] for i in posterior.design.lab]},
        statistics=model_statistics(posterior.design),
        prior=partial(from_prior, posterior),
        replicate=partial(new_models, posterior),
        density=partial(density_of_means, posterior),
        log_prior=lambda: -0.5 * np.square(posterior.draws["tau"] / posterior.total_sd),
        alternatives=partial(log_ratios, posterior),
        updates=lambda seed: updates_of(prior_of(posterior, seed), quantities),
        simulator=of_posterior(posterior),
        loo=partial(prompt_pit, posterior) if prompted else None,
    )


def prior_of(posterior: HeritagePosterior, seed: int) -> dict[str, Array]:
    """Draws from the prior of a posterior's model."""
    return prior_blocks(posterior.design, **posterior.priors_given, residuals=posterior.residuals, seed=seed)


def model_statistics(design: Design) -> dict[str, checks.Statistic]:
    """Statistics of the models' mean log gains that the claims are about."""
    means = design.lab_means()
    return {
        "share of models that dampen": lambda m: float((m < 0).mean()),
        "spread of labs' shares of dampeners": lambda m: float(((m < 0) @ means).std()),
        "spread of lab means": lambda m: float((m @ means).std()),
    }


def new_models(posterior: HeritagePosterior, seed: int, draws: int = REPLICATED) -> Array:
    """Mean log gains of new models with the same labs, geometry and scale, draws × M: their own part is drawn anew."""
    rng, (mean, own, at), error = np.random.default_rng(seed), _chosen(posterior, draws), posterior.design.means()[1]
    factor, shift = np.ones(mean.shape), np.zeros(mean.shape)
    if posterior.residuals != NORMAL:
        given = law(posterior.residuals)
        factor, shift = given.draws(given.number_of(posterior.draws.flat("shape")[at]), mean.shape[1], rng)
        if given.of_labs:
            factor = posterior.draws.flat("factor")[at]
    mean = mean + own * shift
    return np.asarray(mean + rng.normal(size=mean.shape) * np.sqrt(own**2 * factor + error**2))


def density_of_means(posterior: HeritagePosterior) -> Array:
    """Log density of the models' means given labs, geometry and scale, draws × M."""
    _, _, at = _chosen(posterior)
    return log_density_of(posterior, posterior.draws, np.arange(posterior.design.n_models))[at]


def prompt_pit(posterior: HeritagePosterior, seed: int) -> checks.Check:
    """LOO-PIT of the log gains of prompts."""
    size = posterior.draws["tau"].size
    at = np.linspace(0, size - 1, REPLICATED).astype(int)
    centre, sigma, nu = _prompts(posterior, {name: posterior.draws.flat(name)[at] for name in posterior.draws.values})
    again = centre + sigma * np.random.default_rng(seed).standard_t(nu, centre.shape)
    density = stats.t.logpdf(posterior.design.y, nu, centre, sigma)
    return checks.loo_pit(density, again, posterior.design.y, seed=seed)


def from_prior(posterior: HeritagePosterior, seed: int) -> Array:
    """Means of models under the prior, draws × M: over prompts where they were sampled, else about the model's mean."""
    design, rng = posterior.design, np.random.default_rng(seed)
    m = prior_of(posterior, seed)["m"][:REPLICATED]
    if posterior.method == CLOSED:
        return np.asarray(m + rng.normal(size=m.shape) * design.means()[1])
    draws, (middle, spread) = len(m), (rng.normal(*CENTRE, (len(m), 1)), np.exp(rng.normal(*SPREAD, (len(m), 1))))
    log_sigma = rng.normal(middle, spread, m.shape)
    means, averaged = np.empty(m.shape), design.average_model
    means[:, averaged] = rng.normal(m[:, averaged], np.exp(log_sigma[:, averaged]) / design.average_n**0.5)
    if design.prompted.size:
        contrasts = len(design.categories) - 1
        drawn = {"m": m, "log_sigma": log_sigma, "nu": rng.gamma(*TAILS, draws)}
        drawn |= {name: np.abs(rng.normal(0, CATEGORIES, draws)) for name in ("category_sd", "crossed_sd")}
        drawn["category"] = rng.normal(size=(draws, contrasts))
        drawn["crossed"] = rng.normal(size=(draws, design.prompted.size, contrasts))
        centre, sigma, nu = _prompts(posterior, drawn)
        gains = centre + sigma * rng.standard_t(nu, centre.shape)
        for i in design.prompted:
            means[:, i] = gains[:, design.y_model == i].mean(axis=1)
    return means


def _prompts(posterior: HeritagePosterior, drawn: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Centre, scale and degrees of freedom of the t of every prompt's log gain, draws × prompts."""
    design, data = posterior.design, posterior.data()
    centre, sigma = drawn["m"][:, design.y_model], np.exp(drawn["log_sigma"][:, design.y_model])
    if data["crossed"]:
        of_all, own = (drawn[f"{name}_sd"][:, None, None] for name in ("category", "crossed"))
        effects = (of_all * drawn["category"][:, None, :] + own * drawn["crossed"]) @ data["contrasts"].T
        centre = centre + effects[:, data["y_prompted"], data["y_category"]]
    return centre, sigma, drawn["nu"][:, None]


def _chosen(posterior: HeritagePosterior, draws: int = REPLICATED) -> tuple[Array, Array, NDArray[np.int64]]:
    """Draws at even spacing: what the blocks say of every model, draws × M, SD of what is left, draws × 1, numbers."""
    mean, own = explained(posterior.design, posterior.draws)
    at = np.linspace(0, len(own) - 1, draws).astype(int)
    return mean[at], own[at], at

"""What checks ask of the heritage model: new models, models under the prior, prompts left out, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from scipy import stats

from thermostats.modelling.heritage.blocks import BLOCKS, ORDERS, Design
from thermostats.modelling.heritage.calibration import of_posterior
from thermostats.modelling.heritage.model import (
    CLOSED,
    SAMPLING,
    HeritagePosterior,
    explained,
    heritage_model,
    prior_blocks,
)
from thermostats.modelling.heritage.sensitivity import alternatives
from thermostats.modelling.inference import checks, sampling
from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.fitted import Part, Update

REPLICATED = 400


def part_of(posterior: HeritagePosterior, quantities: Mapping[str, Array]) -> Part:
    """What the checks need of a posterior and of the draws that are reported."""
    tau = posterior.draws["tau"]
    prompted = posterior.method == SAMPLING and posterior.design.prompted.size
    return Part(
        draws=posterior.draws,
        observed=posterior.design.means()[0],
        statistics=model_statistics(posterior.design),
        decisive={**{order: posterior.holds(order) for order in ORDERS}, "total SD": tau},
        prior=partial(from_prior, posterior),
        replicate=partial(new_models, posterior),
        density=partial(density_of_means, posterior),
        log_prior=lambda: -0.5 * np.square(tau / posterior.total_sd),
        alternatives=partial(alternatives, posterior),
        updates=partial(_updates, posterior, quantities),
        simulator=of_posterior(posterior),
        loo=partial(prompt_pit, posterior) if prompted else None,
    )


def _updates(posterior: HeritagePosterior, quantities: Mapping[str, Array], seed: int) -> dict[str, Update]:
    """Standard deviations of the blocks, shares and τ before and after the data."""
    before = prior_blocks(posterior.design, **posterior.priors_given, seed=seed)
    found = {"total_sd": Update(prior=before["total"], posterior=quantities["total_sd"].ravel())}
    for b, name in enumerate(BLOCKS):
        for kind in ("sd", "share"):
            after = quantities[f"{kind}_{name}"].ravel()
            found[f"{kind}_{name}"] = Update(prior=before[kind][:, b], posterior=after)
    return found


def model_statistics(design: Design) -> dict[str, checks.Statistic]:
    """Statistics of the models' mean log gains that the claims are about."""
    means = design.lab_means()
    return {
        "share of models that dampen": lambda m: float((m < 0).mean()),
        "spread of labs' shares of dampeners": lambda m: float(((m < 0) @ means).std()),
        "spread of lab means": lambda m: float((m @ means).std()),
        "largest": lambda m: float(m.max()),
        "smallest": lambda m: float(m.min()),
        "skew": lambda m: float(((m - m.mean()) ** 3).mean() / m.std() ** 3),
    }


def new_models(posterior: HeritagePosterior, seed: int) -> Array:
    """Mean log gains of new models with the same labs, geometry and scale, draws × M: their own part is drawn anew."""
    mean, spread = _chosen(posterior)
    return np.asarray(mean + np.random.default_rng(seed).normal(size=mean.shape) * spread)


def density_of_means(posterior: HeritagePosterior) -> Array:
    """Log density of the models' means given labs, geometry and scale, draws × M."""
    return np.asarray(stats.norm.logpdf(posterior.design.means()[0], *_chosen(posterior)))


def prompt_pit(posterior: HeritagePosterior, seed: int) -> checks.Check:
    """LOO-PIT of the log gains of prompts."""
    given = (heritage_model, posterior.data(), posterior.draws)
    prompts = sampling.posterior_predictive(*given, seed=seed, draws=REPLICATED)["log_gain"]
    density = sampling.log_likelihood(*given)["log_gain"]
    density = density.reshape(-1, density.shape[-1])
    chosen = np.linspace(0, len(density) - 1, REPLICATED).astype(int)
    return checks.loo_pit(density[chosen], prompts, posterior.design.y, seed=seed)


def from_prior(posterior: HeritagePosterior, seed: int) -> Array:
    """Means of models under the prior, draws × M: over prompts where they were sampled, else about the model's mean."""
    design = posterior.design
    if posterior.method == CLOSED:
        m = prior_blocks(design, **posterior.priors_given, seed=seed)["m"][:REPLICATED]
        return np.asarray(m + np.random.default_rng(seed).normal(size=m.shape) * design.means()[1])
    drawn = sampling.prior_predictive(heritage_model, posterior.data(), seed=seed, draws=REPLICATED)
    means = np.empty((REPLICATED, design.n_models))
    if "average_gain" in drawn:
        means[:, design.average_model] = drawn["average_gain"]
    for i in design.prompted:
        means[:, i] = drawn["log_gain"][:, design.y_model == i].mean(axis=1)
    return means


def _chosen(posterior: HeritagePosterior) -> tuple[Array, Array]:
    """Mean and standard deviation of every model's observed mean for draws at even spacing, both draws × M."""
    mean, own = explained(posterior.design, posterior.draws)
    at = np.linspace(0, len(own) - 1, REPLICATED).astype(int)
    return mean[at], np.hypot(own[at], posterior.design.means()[1])

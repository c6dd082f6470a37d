"""What the heritage model predicts: means of new models, of models under the prior, and prompts left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from thermostats.modelling.heritage.blocks import BLOCKS, Design
from thermostats.modelling.heritage.model import CLOSED, arrays, heritage_model, prior_blocks
from thermostats.modelling.inference import checks, sampling
from thermostats.modelling.inference.draws import Array

if TYPE_CHECKING:
    from thermostats.modelling.heritage.fit import HeritageFit

REPLICATED = 400


def model_statistics(design: Design) -> dict[str, checks.Statistic]:
    """Statistics of the models' mean log gains that the claims are about."""
    sizes = design.lab_sizes()
    indicators = np.eye(len(design.labs))[design.lab] / sizes[design.lab][:, None]
    return {
        "share of models that dampen": lambda m: float((m < 0).mean()),
        "spread of labs' shares of dampeners": lambda m: float(((m < 0) @ indicators).std()),
        "spread of lab means": lambda m: float((m @ indicators).std()),
        "largest": lambda m: float(m.max()),
        "smallest": lambda m: float(m.min()),
        "skew": lambda m: float(((m - m.mean()) ** 3).mean() / m.std() ** 3),
    }


def new_models(fit: HeritageFit, seed: int, draws: int = REPLICATED) -> Array:
    """Mean log gains of new models with the same labs, geometry and scale, draws × M: their own part is drawn anew."""
    explained, spread = _explained(fit, draws)
    return np.asarray(explained + np.random.default_rng(seed).normal(size=explained.shape) * spread)


def density_of_means(fit: HeritageFit) -> Array:
    """Log density of the models' means given labs, geometry and scale, draws × M."""
    return np.asarray(stats.norm.logpdf(fit.design.means()[0], *_explained(fit, REPLICATED)))


def prompt_pit(fit: HeritageFit, seed: int) -> checks.Check:
    """LOO-PIT of the log gains of prompts."""
    data = _data(fit)
    prompts = sampling.posterior_predictive(heritage_model, data, fit.draws, seed=seed, draws=REPLICATED)["log_gain"]
    density = sampling.log_likelihood(heritage_model, data, fit.draws)["log_gain"]
    density = density.reshape(-1, density.shape[-1])
    chosen = np.linspace(0, len(density) - 1, REPLICATED).astype(int)
    return checks.loo_pit(density[chosen], prompts, fit.design.y, seed=seed)


def from_prior(fit: HeritageFit, seed: int, draws: int = REPLICATED) -> Array:
    """Means of models under the prior, draws × M: over prompts where they were sampled, else about the model's mean."""
    design = fit.design
    if fit.method == CLOSED:
        prior = {"total_sd": fit.total_sd, "concentration": fit.concentration, "lab_df": fit.lab_df}
        m = prior_blocks(design, **prior, seed=seed)["m"][:draws]
        return np.asarray(m + np.random.default_rng(seed).normal(size=m.shape) * design.means()[1])
    drawn = sampling.prior_predictive(heritage_model, _data(fit), seed=seed, draws=draws)
    means = np.empty((draws, design.n_models))
    if "average_gain" in drawn:
        means[:, design.average_model] = drawn["average_gain"]
    for i in design.prompted:
        means[:, i] = drawn["log_gain"][:, design.y_model == i].mean(axis=1)
    return means


def _data(fit: HeritageFit) -> dict[str, Any]:
    return arrays(fit.design, total_sd=fit.total_sd, concentration=fit.concentration, lab_df=fit.lab_df)


def _explained(fit: HeritageFit, draws: int) -> tuple[Array, Array]:
    """What lab, geometry and scale say of every model's mean, and the SD of what is left, both draws × M."""
    parts = fit.contributions
    explained = np.asarray(fit.draws["alpha"][..., None] + sum(parts[name] for name in BLOCKS[:-1]))
    own = (fit.draws["tau"] * np.sqrt(fit.draws["share"][..., -1])).reshape(-1, 1)
    chosen = np.linspace(0, len(own) - 1, draws).astype(int)
    return explained.reshape(len(own), -1)[chosen], np.hypot(own[chosen], fit.design.means()[1])

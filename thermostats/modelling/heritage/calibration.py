"""Simulation-based calibration of the heritage model: sampled as it is fitted, and its closed form in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from thermostats.modelling.heritage.averages import CENTRE, SPREAD, Averages
from thermostats.modelling.heritage.blocks import ORDERS, Design, block_sds, in_order
from thermostats.modelling.heritage.closed_form import closed_form
from thermostats.modelling.heritage.laws import NORMAL, law
from thermostats.modelling.heritage.model import (
    CLOSED,
    HeritagePosterior,
    block_contributions,
    heritage_model,
    standard_residuals,
)
from thermostats.modelling.heritage.simulate import contributions
from thermostats.modelling.inference import calibration, sampling
from thermostats.modelling.inference.calibration import SHORT, Refit, Simulator, weighed
from thermostats.modelling.inference.draws import Array, Settings


def of_posterior(posterior: HeritagePosterior) -> Simulator:
    """The model of a fit with its design, priors and method."""
    if posterior.method == CLOSED:
        return by_weights(
            posterior.design,
            total_sd=posterior.total_sd,
            concentration=posterior.concentration,
            residuals=posterior.residuals,
        )
    settings = replace(SHORT, target_accept=posterior.draws.settings.target_accept)
    return sampled(posterior.design, posterior.data(), settings=settings)


def sampled(laid_out: Design, data: Mapping[str, Any], *, settings: Settings = SHORT) -> Simulator:
    """The model of a design with new outcomes, prompts and averages alike."""
    observed = {"log_gain": "y", "average_gain": "average", "average_spread": "average_variance"}

    def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
        drawn = sampling.prior_predictive(heritage_model, data, seed=seed, draws=size)
        outcomes = [drawn[name] for name in observed if name in drawn]
        return quantities(laid_out, drawn), np.concatenate(outcomes, axis=1)

    def arrays_of(outcome: Array) -> dict[str, Array]:
        kept = [name for name in observed.values() if name in data]
        return dict(zip(kept, np.split(outcome, np.cumsum([data[name].size for name in kept])[:-1]), strict=True))

    return calibration.by_sampling(
        heritage_model, data, joint, arrays_of, lambda values: quantities(laid_out, values), settings=settings
    )


def by_weights(laid_out: Design, *, total_sd: float, concentration: float, residuals: str = NORMAL) -> Simulator:
    """The closed form of very many models' means, with new means and new spreads over prompts."""
    n = laid_out.averages.n

    def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
        rng = np.random.default_rng(seed)
        share = rng.dirichlet(np.full(len(laid_out.blocks), concentration), size)
        total = np.abs(rng.normal(scale=total_sd, size=size))
        drawn, y = [], np.empty((size, laid_out.n_models))
        for i in range(size):
            parts = contributions(laid_out, dict(zip(laid_out.blocks, share[i], strict=True)), total[i], rng)
            if residuals != NORMAL:
                own = total[i] * np.sqrt(share[i, -1])
                parts["model"] = own * standard_residuals(law(residuals), laid_out, rng, 1)[0]
            drawn.append(parts)
            y[i] = rng.normal(0.0, 2 * total_sd) + sum(parts.values())
        contributed = {name: np.stack([parts[name] for parts in drawn]) for name in laid_out.blocks}
        truths = _named(total, share, contributed)
        if (n == 1).all():
            return truths, np.concatenate([y, np.zeros(y.shape)], axis=1)
        omega = np.exp(rng.normal(*SPREAD, size=(size, 1)))
        sigma = np.exp(rng.normal(*CENTRE, size=(size, 1)) + omega * rng.normal(size=y.shape))
        spread = sigma * np.sqrt(rng.chisquare(np.maximum(n - 1, 1), size=y.shape) / np.maximum(n - 1, 1))
        y = y + sigma / np.sqrt(n) * rng.normal(size=y.shape)
        return truths, np.concatenate([y, spread], axis=1)

    def posterior(outcome: Array, seed: int) -> Refit:
        mean, spread = np.split(outcome, 2)
        means = Averages(mean=mean, sd=spread, n=n)
        drawn = closed_form(
            laid_out,
            total_sd=total_sd,
            concentration=concentration,
            seed=seed,
            settings=SHORT,
            means=means,
            residuals=residuals,
        )
        return replace(weighed(drawn), values=quantities(laid_out, drawn.values))

    return Simulator(joint=joint, posterior=posterior)


def quantities(laid_out: Design, values: Mapping[str, Array]) -> dict[str, Array]:
    """What is ranked, from draws (… per quantity): τ, shares, finite-population SDs, and indicators of the orders."""
    return _named(values["tau"], values["share"], block_contributions(laid_out, values))


def _named(total: Array, share: Array, parts: Mapping[str, Array]) -> dict[str, Array]:
    sds = block_sds(parts)
    shares = {f"share_{name}": share[..., b] for b, name in enumerate(parts)}
    return {"total_sd": total, **shares, **sds} | {o: in_order(o, sds).astype(np.float64) for o in ORDERS}

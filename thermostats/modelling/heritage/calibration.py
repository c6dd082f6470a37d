"""Simulation-based calibration of the heritage model: sampled as it is fitted, and its closed form in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from thermostats.modelling.heritage.blocks import BLOCKS, ORDERS, Design, in_order, stacked_sds
from thermostats.modelling.heritage.closed_form import closed_form
from thermostats.modelling.heritage.model import CLOSED, HeritagePosterior, block_contributions, heritage_model
from thermostats.modelling.heritage.simulate import contributions
from thermostats.modelling.inference import calibration, sampling
from thermostats.modelling.inference.calibration import SHORT, Refit, Simulator, weighed
from thermostats.modelling.inference.draws import Array, Draws, Settings


def of_posterior(posterior: HeritagePosterior) -> Simulator:
    """The model of a fit with its design, priors and method."""
    if posterior.method == CLOSED:
        return by_weights(posterior.design, total_sd=posterior.total_sd, concentration=posterior.concentration)
    settings = replace(SHORT, target_accept=posterior.draws.settings.target_accept)
    return sampled(posterior.design, posterior.data(), settings=settings)


def sampled(laid_out: Design, data: Mapping[str, Any], *, settings: Settings = SHORT) -> Simulator:
    """The model of a design with new outcomes, prompts and averages alike."""
    observed = {"log_gain": "y", "average_gain": "average"}

    def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
        drawn = sampling.prior_predictive(heritage_model, data, seed=seed, draws=size)
        outcomes = [drawn[name] for name in observed if name in drawn]
        return quantities(laid_out, drawn), np.concatenate(outcomes, axis=1)

    def arrays_of(outcome: Array) -> dict[str, Array]:
        kept = [name for name in observed.values() if name in data]
        return dict(zip(kept, np.split(outcome, np.cumsum([data[name].size for name in kept])[:-1]), strict=True))

    return calibration.by_sampling(
        heritage_model, data, joint, arrays_of, settings=settings, quantities=lambda v: quantities(laid_out, v)
    )


def by_weights(laid_out: Design, *, total_sd: float, concentration: float) -> Simulator:
    """The closed form of very many models' means, with new means."""
    error = laid_out.means()[1]

    def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
        rng = np.random.default_rng(seed)
        share = rng.dirichlet(np.full(len(BLOCKS), concentration), size)
        total = np.abs(rng.normal(scale=total_sd, size=size))
        sd, y = np.empty_like(share), np.empty((size, laid_out.n_models))
        for i in range(size):
            parts = contributions(laid_out, dict(zip(BLOCKS, share[i], strict=True)), total[i], rng)
            sd[i] = stacked_sds(parts)
            y[i] = rng.normal(0.0, 2 * total_sd) + sum(parts.values())
        return _named(total, share, sd), y + rng.normal(size=y.shape) * error

    def posterior(outcome: Array, seed: int) -> Refit:
        drawn = closed_form(
            laid_out, total_sd=total_sd, concentration=concentration, seed=seed, settings=SHORT, means=(outcome, error)
        )
        return replace(weighed(drawn), values=quantities(laid_out, drawn.values))

    return Simulator(joint=joint, posterior=posterior)


def quantities(laid_out: Design, values: Mapping[str, Array]) -> dict[str, Array]:
    """What is ranked, from draws (… per quantity): τ, shares, finite-population SDs, and indicators of the orders."""
    parts = block_contributions(laid_out, cast(Draws, values))  # it reads by name alone
    return _named(values["tau"], values["share"], stacked_sds(parts))


def _named(total: Array, share: Array, sd: Array) -> dict[str, Array]:
    found = {"total_sd": total}
    for kind, values in (("share", share), ("sd", sd)):
        found |= {f"{kind}_{name}": values[..., b] for b, name in enumerate(BLOCKS)}
    return found | {order: in_order(order, sd).astype(np.float64) for order in ORDERS}

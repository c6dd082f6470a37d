"""How often posteriors of simulated studies of heritage are sure of an order of its causes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from thermostats.modelling.checks import SURE
from thermostats.modelling.draws import Settings
from thermostats.modelling.heritage.law import (
    STANDARD,
    compute_quantities,
    list_bases,
    list_orders,
    mark_ordered,
)
from thermostats.modelling.heritage.simulated import simulate_contributions, simulate_facts

PER_DESIGN = 10
"""Simulated outcomes per drawn geometry."""
DRAWN = Settings(draws=250)
TOTAL, ERROR = 0.2, 0.01
"""SD of log gain between models; standard error of a model's mean over prompts."""


def sure(
    n_models: int,
    n_labs: int,
    shares: Mapping[str, float],
    *,
    simulations: int,
    seed: int,
    geometry: str = "met",
) -> dict[str, float]:
    """Per order of the blocks the share of simulated studies in which its posterior probability is
    above `SURE`."""
    rng, results = np.random.default_rng(seed), dict[str, list[float]]()
    for _ in range(-(-simulations // PER_DESIGN)):
        facts = simulate_facts(n_models, n_labs, rng, geometry=geometry)
        for _ in range(PER_DESIGN):
            for order, probability in _orders(facts, shares, rng).items():
                results.setdefault(order, []).append(probability)
    return {order: float((np.array(values) > SURE).mean()) for order, values in results.items()}


def _orders(
    facts: pd.DataFrame, shares: Mapping[str, float], rng: np.random.Generator
) -> dict[str, float]:
    """Posterior probabilities of the orders in one simulated study."""
    bases = list_bases(STANDARD.design_rows(facts))
    y = np.sum(list(simulate_contributions(bases, shares, TOTAL, rng).values()), axis=0)
    y = y + ERROR * rng.normal(size=len(facts))
    laid = STANDARD.design_rows(facts.assign(log_gain=y, error=ERROR))
    draws = laid.model.sample(seed=int(rng.integers(2**31)), settings=DRAWN)
    drawn = compute_quantities(draws.values, laid)
    return {order: float(mark_ordered(order, drawn).mean()) for order in list_orders(tuple(bases))}

"""Every law by simulation: true values drawn from the prior have uniform ranks in their posteriors.

What is laid out for the table of a good case is drawn anew and fitted again. Of every variable the first element is
ranked. Pairs and thresholds, whose outcomes also enter as data or as a mixture, and rankings, at half their prior
scales, have tests of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from bad_inputs import CASES
from calibrated import FALSE_ALARM, ranks
from scipy import stats

from thermostats.modelling.draws import Settings
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.sampling import Sampled

MODELS, LABS = 12, 4
ELSEWHERE = {"invariance", "threshold", "benchmark"}
EXACT, SAMPLED = 200, 60
"""Simulated tables."""
FEW, SHORT = Settings(draws=250), Settings(draws=500, tune=500)


def first_elements(dimensions: Mapping[str, int]) -> object:
    """A function of draws to the first element of every variable of so many dimensions."""
    return lambda values: {name: values[name][(..., *[0] * n)] for name, n in dimensions.items()}


def calibrated(model: Gaussian | Sampled) -> dict[str, float]:
    """p-value of uniform ranks by quantity, Kolmogorov–Smirnov."""
    prior = model.from_prior(2, np.random.default_rng(0))
    drawn = model.sample(seed=0, settings=FEW if isinstance(model, Gaussian) else SHORT).values
    dimensions = {name: values.ndim - 2 for name, values in drawn.items() if name in prior and name != "y"}
    simulations, settings = (EXACT, FEW) if isinstance(model, Gaussian) else (SAMPLED, SHORT)
    by_quantity = ranks(model, first_elements(dimensions), simulations, seed=1, settings=settings)
    return {name: float(stats.kstest(rank, "uniform").pvalue) for name, rank in by_quantity.items()}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("law", sorted(CASES.keys() - ELSEWHERE))
def test_a_law_is_calibrated(law: str) -> None:
    case = CASES[law]
    model = case.fit(case.good(MODELS, LABS)).model
    assert isinstance(model, (Gaussian, Sampled))
    p = calibrated(model)
    assert len(p) >= 2, f"{law}: {sorted(p)}"
    low = {name: value for name, value in p.items() if value < FALSE_ALARM / len(p)}
    assert not low, f"{law}: {low}"

"""Laws by simulation: true values drawn from the prior have uniform ranks in their posteriors, in
place and in spread.

What is laid out for the table of a good case is drawn anew and fitted again: every law of `CASES`
but thresholds, held against NUTS alone; lineage is held against a reference of its own. Ranked are
all that the model tells of β, scales and levels, and the first effect of every kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from bad_inputs import CASES
from calibrated import FALSE_ALARM, Read, rank_of, ranks, uniform
from scipy import stats

from thermostats.modelling.draws import Settings
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.sampling import Sampled

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {"threshold"}
EXACT, SAMPLED = 200, 60
"""Simulated tables."""
FEW, SHORT = Settings(draws=250), Settings(draws=500, tune=500)


def elements(model: Gaussian | Sampled, shapes: Mapping[str, tuple[int, ...]]) -> Read:
    """A function of draws to what is ranked: numbers, β, scales, levels that outcomes tell, the
    first of effects."""
    if isinstance(model, Gaussian):
        told = {"beta": shapes["beta"][0], "scale": shapes["scale"][0]}
    else:
        told = {name: int(model.data["model"].max()) + 1 for name in model.priors}

    def read(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = {name: values[name] for name, shape in shapes.items() if not shape}
        for name in (name for name, shape in shapes.items() if shape):
            found |= {f"{name}[{i}]": values[name][..., i] for i in range(told.get(name, 1))}
        return found

    return read


def calibrated(model: Gaussian | Sampled) -> dict[str, float]:
    """p-value of uniform ranks by quantity."""
    prior = model.draw_prior(2, np.random.default_rng(0))
    simulations, settings = (EXACT, FEW) if isinstance(model, Gaussian) else (SAMPLED, SHORT)
    drawn = model.sample(seed=0, settings=settings).values
    shapes = {
        name: values.shape[2:] for name, values in drawn.items() if name in prior and name != "y"
    }
    by_quantity = ranks(model, elements(model, shapes), simulations, seed=1, settings=settings)
    return {name: uniform(rank) for name, rank in by_quantity.items()}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("law", sorted(CASES.keys() - ELSEWHERE))
def test_a_law_is_calibrated(law: str) -> None:
    case = CASES[law]
    model = case.fit(case.good(12, 4)).model
    assert isinstance(model, (Gaussian, Sampled))
    p = calibrated(model)
    assert len(p) >= 2, f"{law}: {sorted(p)}"
    low = {name: value for name, value in p.items() if value < FALSE_ALARM / len(p)}
    assert not low, f"{law}: {low}"


def test_the_page_of_checks_names_the_laws_that_are_calibrated() -> None:
    page = ROOT / "docs" / "explanation" / "posterior-checks.md"
    said = page.read_text(encoding="utf-8").partition("`make test-long`")[2].partition("Two are")[0]
    assert set(re.findall(r"`fit_(\w+)`", said)) == CASES.keys() - ELSEWHERE


@pytest.mark.parametrize(("width", "seen"), [(1.0, False), (1 / 1.5, True), (1.5, True)])
def test_ranks_in_a_posterior_of_another_width_are_seen(width: float, seen: bool) -> None:
    """In 200 tables, among forty quantities; at 1/1.5 the spread is beyond its bound in 99.99 % of
    such studies."""
    rng, bound = np.random.default_rng(0), FALSE_ALARM / 40
    rank = [rank_of(width * rng.standard_normal(1000), rng.standard_normal()) for _ in range(EXACT)]
    assert (uniform(np.array(rank)) < bound) == seen
    above = stats.chi2.isf(bound / 4, EXACT)
    assert stats.chi2.sf(above / 1.5**2, EXACT) > 0.9999

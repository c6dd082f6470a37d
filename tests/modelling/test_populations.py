"""A population inside a PyMC model has the prior that it states, in whatever coordinates it is
sampled."""

from typing import Any

import numpy as np
import pytest

from thermostats.modelling.populations import (
    effects,
    informed_share,
    members,
    population,
    populations,
    several_members,
)
from thermostats.modelling.sampling import Sampled

N, SIZE = 3, 8


def model(data: Any) -> None:
    import pymc as pm

    population("level", 2.0, data["mean_sd"], data["scale"], data)
    effects("effect", data["scale"], data["effect_told"], data["size"])
    pm.Normal("y", 0.0, 1.0, observed=data["y_observed"])


@pytest.mark.slow
@pytest.mark.parametrize("weight", [0.4, 0.0, 1.0])
def test_levels_have_their_mean_and_covariance_seen_or_not(weight: float) -> None:
    """Levels are N(m, 0.5²), m ~ N(2, 1.5²): every variance 2.5, every covariance with another and
    with m 2.25."""
    data = {
        **members(N, SIZE),
        "mean_sd": np.asarray(1.5),
        "scale": np.asarray(0.5),
        "y_observed": np.zeros(2),
    }
    data |= {"level_told": np.asarray(weight), "effect_told": np.full(SIZE, weight)}
    draws = Sampled(declare=model, data=data).from_prior(40_000, np.random.default_rng(1))
    both = np.column_stack([draws["level"], draws["level_mean"]])
    expected = 1.5**2 + np.diag([0.5**2] * SIZE + [0.0])
    assert both.mean(axis=0) == pytest.approx(np.full(SIZE + 1, 2.0), abs=0.04)
    assert np.cov(both.T) == pytest.approx(expected, abs=0.08)
    assert np.cov(draws["effect"].T) == pytest.approx(0.25 * np.eye(SIZE), abs=0.01)


def several(data: Any) -> None:
    import pymc as pm

    _, levels = populations("level", data["mean_sd"], pm.math.stack([0.5, 1.0, 2.0]), data)
    pm.Deterministic("levels", levels)
    pm.Normal("y", 0.0, 1.0, observed=data["y_observed"])


def test_levels_of_several_populations_know_nothing_of_one_another() -> None:
    """Levels of k are N(m_k, s_k²), m_k ~ N(0, 1.5²); the last two are of populations 0 and 2, and
    not seen."""
    of, sds = np.array([0, 1, 0, 1, 0, 1, 0, 2]), np.array([0.5, 1.0, 2.0])
    data = {**several_members(of, 6, 3, 8), "mean_sd": np.asarray(1.5), "y_observed": np.zeros(2)}
    draws = Sampled(declare=several, data=data).from_prior(40_000, np.random.default_rng(1))
    both = np.column_stack([draws["levels"], draws["level_mean"]])
    number = np.append(of, np.arange(3))
    expected = 1.5**2 * (number[:, None] == number) + np.diag(np.append(sds[of] ** 2, np.zeros(3)))
    assert both.mean(axis=0) == pytest.approx(np.zeros(11), abs=0.06)
    assert np.cov(both.T) == pytest.approx(expected, abs=0.12)


def test_how_far_outcomes_tell() -> None:
    assert informed_share(np.array([]), 0.1) == 0.0
    assert informed_share(np.array([0.1, -0.1]), 0.1) == pytest.approx(0.5)
    assert informed_share(np.array([3.0, -3.0]), 0.1) > 0.95

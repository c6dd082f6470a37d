from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from test_quadrature import some_lines

from thermostats.modelling.inference.quadrature import posterior
from thermostats.modelling.laws.lines import between


def test_narrow_bounds_are_their_middle_and_width_over_root_twelve():
    lines = some_lines(1)
    found = between(lines, lines.y - 0.01, lines.y + 0.01, seed=1)
    assert found.y == pytest.approx(lines.y, abs=5e-4)
    assert found.error == pytest.approx(np.full(lines.y.size, 0.02 / 12**0.5), rel=0.05)


def test_open_bounds_give_the_posterior_of_the_truncated_likelihood():
    rng = np.random.default_rng(3)
    n, sigma = 16, 0.5
    z = 0.6 + rng.normal(0, sigma, n)
    lower, upper = np.where(z > 1, 1.0, np.floor(z * 4) / 4), np.where(z > 1, np.inf, np.floor(z * 4) / 4 + 0.25)
    lines = replace(
        some_lines(1, n=n, groups=0), y=z, X=np.ones((n, 1)), mean=np.zeros(1), sd=np.ones(1), error=np.zeros(n)
    )

    def joint(s: float, a: float) -> float:
        mass = stats.norm.cdf((upper - a) / s) - stats.norm.cdf((lower - a) / s)
        return float(
            np.exp(np.log(np.maximum(mass, 1e-300)).sum() + 20) * stats.norm.pdf(a) * stats.halfnorm.pdf(s, scale=0.5)
        )

    grid_a, grid_s = np.linspace(-1, 2, 81), np.linspace(0.1, 1.8, 81)
    density = np.array([[joint(s, a) for s in grid_s] for a in grid_a])
    total = integrate.simpson(integrate.simpson(density, x=grid_s), x=grid_a)
    mean_a = integrate.simpson(integrate.simpson(density, x=grid_s) * grid_a, x=grid_a) / total
    mean_s = integrate.simpson(integrate.simpson(density * grid_s, x=grid_s), x=grid_a) / total
    found = posterior(between(lines, lower, upper, seed=1), seed=2, draws=20_000)
    assert (z > 1).sum() >= 2
    assert found.beta[:, 0].mean() == pytest.approx(mean_a, abs=0.15 * found.beta[:, 0].std())
    assert found.sigma.mean() == pytest.approx(mean_s, abs=0.15 * found.sigma.std())

"""A line: its posterior against a sum over a grid, and known values recovered; against NUTS: `test_against_nuts.py`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import thermostats
from thermostats.modelling.draws import mcse
from thermostats.modelling.fit import Fit
from thermostats.modelling.lines import fit_line

ERRORS = 5.0
"""Monte-Carlo errors by which a mean of draws may lie off."""
SCALE = 0.5


def rows(n: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x = rng.normal(3.0, 2.0, n)
    error = rng.uniform(0.05, 0.3, n)
    y = 0.4 - 0.1 * (x - 3.0) + rng.normal(0, 0.2, n) + error * rng.normal(size=n)
    return pd.DataFrame({"model_id": [f"m{i}" for i in range(n)], "x": x, "y": y, "error": error})


def off(fit: Fit, quantity: str, expected: float) -> float:
    """By how many Monte-Carlo errors the mean of the draws lies off."""
    draws = fit.quantities[quantity]
    return float(abs(draws.mean() - expected) / mcse(draws))


def test_without_groups_a_line_is_that_of_a_sum_over_a_grid() -> None:
    """Priors as the docstring has them: a ~ N(0, (2 scale)²), b ~ N(0, scale²), σ half-normal(scale)."""
    table = rows()
    z = ((table["x"] - table["x"].mean()) / table["x"].std(ddof=0)).to_numpy()
    a, b, sigma = np.linspace(-0.6, 1.4, 101), np.linspace(-1.0, 1.0, 101), np.linspace(0.002, 1.2, 120)
    log = (
        stats.norm.logpdf(a, 0, 2 * SCALE)[:, None, None]
        + stats.norm.logpdf(b, 0, SCALE)[None, :, None]
        + stats.halfnorm.logpdf(sigma, 0, SCALE)[None, None, :]
    )
    for place, y, error in zip(z, table["y"], table["error"], strict=True):
        mean = a[:, None, None] + b[None, :, None] * place
        log = log + stats.norm.logpdf(y, mean, np.hypot(sigma, error)[None, None, :])
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    fit = fit_line(table, "y", "x", scale=SCALE, group=None, error="error", seed=1)
    assert off(fit, "mean", float((weight.sum(axis=(1, 2)) * a).sum())) < ERRORS
    slope = float((weight.sum(axis=(0, 2)) * b).sum()) / table["x"].std(ddof=0)
    assert off(fit, "slope on x", slope) < ERRORS
    assert off(fit, "residual_sd", float((weight.sum(axis=(0, 1)) * sigma).sum())) < ERRORS
    sign = float(weight.sum(axis=(0, 2))[b > 0].sum())
    assert fit.probabilities["slope on x > 0"] == pytest.approx(sign, abs=0.02)


def test_a_slope_and_spreads_that_are_known_are_recovered() -> None:
    rng = np.random.default_rng(7)
    lab = np.repeat(np.arange(40), 6)
    x = rng.normal(size=lab.size)
    y = 0.3 + 0.25 * x + rng.normal(0, 0.3, 40)[lab] + rng.normal(0, 0.15, lab.size)
    names = [f"m{i}" for i in range(lab.size)]
    table = pd.DataFrame({"model_id": names, "heritage": [f"lab{i}" for i in lab], "x": x, "y": y})
    found = fit_line(table, "y", "x", scale=SCALE, seed=1).summary().set_index("quantity")
    for quantity, truth, width in (("slope on x", 0.25, 0.06), ("group_sd", 0.3, 0.2), ("residual_sd", 0.15, 0.05)):
        row = found.loc[quantity]
        assert row["lower"] < truth < row["upper"] and row["upper"] - row["lower"] < width, quantity


@pytest.mark.parametrize("unit", [1e-30, 1e-9, 1e-3, 1e9])
def test_a_line_does_not_depend_on_the_unit(unit: float) -> None:
    """Without a scale the priors are those of the outcomes' spread, so all but the unit stays, to MC errors."""
    table = rows().assign(heritage=list("abcd") * 3)
    near, there = (thermostats.fit_line(table.assign(y=table["y"] * u), "y", "x", seed=1) for u in (1.0, unit))
    assert there.params.to_numpy() / unit == pytest.approx(near.params.to_numpy(), rel=0.05)
    assert there.loo().elpd + len(table) * np.log(unit) == pytest.approx(near.loo().elpd, abs=0.1)
    sd = [fit.predict(table.head(3))["sd"].to_numpy() for fit in (near, there)]
    assert sd[1] / unit == pytest.approx(sd[0], rel=0.05)

"""Means and lines: agreement with the exact posterior and with least squares, and bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from matplotlib.figure import Figure
from scipy import integrate, stats
from test_quadrature import some_lines

from thermostats.errors import UsageError
from thermostats.modelling.heritage.rows import lines
from thermostats.modelling.inference.fitted import NO_SOURCE
from thermostats.modelling.inference.quadrature import Lines, posterior
from thermostats.modelling.inference.sensitivity import HEAVY
from thermostats.modelling.laws.lines import between, fit_line


def table(n: int = 24, slope: float = 0.3, labs: int = 4, lab_sd: float = 0.2, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, lab = rng.normal(size=n) * 2, np.arange(n) % labs
    y = 1 + slope * x + rng.normal(scale=lab_sd, size=labs)[lab] + rng.normal(scale=0.1, size=n)
    return pd.DataFrame({"model_id": [f"m{i}" for i in range(n)], "heritage": [f"lab{j}" for j in lab], "x": x, "y": y})


def model(rows: pd.DataFrame) -> Lines:
    """The line that `fit_line(rows, "y", ["x"], scale=0.5)` fits."""
    X = np.column_stack([np.ones(len(rows)), (rows["x"] - rows["x"].mean()) / rows["x"].std(ddof=0)])
    return lines(rows, rows["y"].to_numpy(), X, sd=[1.0, 0.5], sigma_scale=0.5, tau_scale=0.5)


def test_the_line_is_the_exact_posterior() -> None:
    rows = table()
    fit = fit_line(rows, "y", ["x"], scale=0.5, seed=1)
    assert fit.status == "passed"
    exact, sd = posterior(model(rows), seed=1, draws=20_000), rows["x"].std(ddof=0)
    summary = fit.summary().set_index("quantity")
    error = summary["sd"] / np.sqrt(fit.quantities["mean"].size)
    for name, drawn in (("mean", exact.beta[:, 0]), ("slope on x", exact.beta[:, 1] / sd), ("group_sd", exact.tau)):
        assert summary["mean"][name] == pytest.approx(drawn.mean(), abs=5 * error[name] + 0.02 * drawn.std()), name
        assert summary["sd"][name] == pytest.approx(drawn.std(), rel=0.12), name
    assert summary["lower"]["slope on x"] < 0.3 < summary["upper"]["slope on x"]
    assert fit.probabilities["slope on x > 0"] > 0.99


def test_the_figure_shows_the_covariate_asked_with_the_others_taken_off_and_checks_are_made_once() -> None:
    rows = table(slope=0.5, labs=1, lab_sd=0).assign(other=lambda t: np.random.default_rng(9).normal(size=len(t)))
    rows["y"] += 2 * rows["other"]
    fit = fit_line(rows, "y", ["other", "x"], scale=1.0, group=None, seed=3)
    axes = fit.plot(Figure().subplots())
    x, y = np.asarray(axes.lines[0].get_xydata(), dtype=np.float64).T
    assert axes.get_xlabel() == "x" and x.tolist() == rows["x"].tolist()
    slope, level = np.polyfit(x, y, 1)
    assert slope == pytest.approx(0.5, abs=0.05)
    assert np.std(y - level - slope * x) < 0.2
    first, again = fit.check(), fit.check({"slope on x > 0": lambda q: q["slope on x"] > 0})
    assert first.checks[0].table is again.checks[0].table


def test_a_wide_prior_gives_least_squares() -> None:
    rows = table(labs=1, lab_sd=0)
    fit = fit_line(rows, "y", ["x"], scale=100.0, group=None, seed=1)
    least = sm.OLS(rows["y"], sm.add_constant(rows["x"])).fit()
    summary = fit.summary().set_index("quantity")
    assert summary["mean"]["slope on x"] == pytest.approx(least.params["x"], abs=0.1 * least.bse["x"])
    assert summary["sd"]["slope on x"] == pytest.approx(least.bse["x"], rel=0.15)


def test_a_mean_without_covariates_and_its_checks() -> None:
    rows = table(slope=0.0)
    fit = fit_line(rows, "y", scale=1.0, seed=2)
    assert fit.probabilities["mean > 0"] > 0.95
    gate = fit.check()
    assert gate.passes, gate.reasons
    kinds = ["line: prior predictive", "line: posterior predictive", "line: LOO-PIT"]
    assert [check.name for check in gate.checks] == [*kinds, "prior sensitivity", "influence"]
    assert "rhat" not in fit.summary()
    assert len(fit.equations) == 3
    assert [quantity for quantity, *_ in fit.priors] == ["a", "σ", "τ"]


def test_groups_and_models_are_left_out_in_turn_where_they_are_not_the_same_rows() -> None:
    def left_out(rows: pd.DataFrame, **options: str | None) -> list[str]:
        fit = fit_line(rows, "y", ["x"], scale=0.5, seed=1, **options)
        return [name for name, _ in fit.left_out(1)] if fit.left_out else []

    rows = table(12, labs=4)
    models = rows["model_id"].tolist()
    assert left_out(rows) == ["lab0", "lab1", "lab2", "lab3", *models]
    assert left_out(rows, group=None) == left_out(rows.assign(heritage="a")) == models
    assert left_out(rows, group="model_id") == models
    assert left_out(rows.assign(model_id="one")) == ["lab0", "lab1", "lab2", "lab3"]
    assert left_out(rows.assign(model_id="one", heritage="a")) == []


def test_bad_input_is_named() -> None:
    rows = table()
    for scale in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(UsageError, match="scale"):
            fit_line(rows, "y", scale=scale, seed=1)
    with pytest.raises(UsageError, match="absent"):
        fit_line(rows, "y", ["absent"], scale=1.0, seed=1)
    assert NO_SOURCE in fit_line(rows, "y", scale=1.0, seed=1).warnings
    assert NO_SOURCE not in fit_line(rows, "y", scale=1.0, sources=["file"], seed=1).warnings


def test_alternatives_answer_the_statement_and_the_first_is_the_fit() -> None:
    fit = fit_line(table().assign(recipe=lambda t: t["heritage"]), "y", ["x"], scale=0.5, group="recipe", seed=1)
    found = fit.sensitivity({"slope on x > 0.3": lambda q: q["slope on x"] > 0.3}).set_index("alternative")[
        "probability"
    ]
    exact = ["half the prior scales", "twice the prior scales", "no effects of recipes"]
    assert found.index.tolist() == ["as fitted", *exact, "prior to the power 0.8", "prior to the power 1.25", HEAVY]
    assert found["as fitted"] == (fit.quantities["slope on x"] > 0.3).mean()
    none = fit_line(table(), "y", ["x"], scale=0.5, group=None, seed=1)
    assert found["no effects of recipes"] == pytest.approx((none.quantities["slope on x"] > 0.3).mean(), abs=0.04)


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


def test_nothing_is_found_where_nothing_is() -> None:
    """Under no slope P(b > 0) is about uniform: by the exact posterior of 200 tables, at most 20 of them (P < 0.002 of
    more were the rate 5%) lie beyond 0.975 or 0.025."""
    extreme = 0
    for seed in range(200):
        p = (posterior(model(table(slope=0.0, seed=seed)), seed=seed, draws=1000).beta[:, 1] > 0).mean()
        extreme += not 0.025 <= p <= 0.975
    assert extreme <= 20

"""A line: its posterior against a sum over a grid, and known values recovered; against NUTS:
`test_against_nuts.py`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.draws import estimate_mcse
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
    return float(abs(draws.mean() - expected) / estimate_mcse(draws))


def test_without_groups_a_line_is_that_of_a_sum_over_a_grid() -> None:
    """Priors as the docstring has them: a ~ N(0, (2 scale)²), b ~ N(0, scale²), σ
    half-normal(scale)."""
    table = rows()
    z = ((table["x"] - table["x"].mean()) / table["x"].std(ddof=0)).to_numpy()
    a, b, sigma = (
        np.linspace(-0.6, 1.4, 101),
        np.linspace(-1.0, 1.0, 101),
        np.linspace(0.002, 1.2, 120),
    )
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
    fit = fit_line(table, "y", "x", scale=SCALE, group=None, se="error", seed=1)
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
    found = fit_line(table, "y", "x", scale=SCALE, seed=1).summary()
    for quantity, truth, width in (
        ("slope on x", 0.25, 0.06),
        ("group_sd", 0.3, 0.2),
        ("residual_sd", 0.15, 0.05),
    ):
        row = found.loc[quantity]
        assert row["lower"] < truth < row["upper"] and row["upper"] - row["lower"] < width, quantity


@pytest.mark.parametrize("unit", [1e-30, 1e-9, 1e-3, 1e9])
def test_a_line_does_not_depend_on_the_unit(unit: float) -> None:
    """Without a scale the priors are those of the outcomes' spread, so all but the unit stays, to
    MC errors."""
    table = rows().assign(heritage=list("abcd") * 3)
    near, there = (
        thermostats.fit_line(table.assign(y=table["y"] * u), "y", "x", seed=1) for u in (1.0, unit)
    )
    assert there.params.to_numpy() / unit == pytest.approx(near.params.to_numpy(), rel=0.05)
    assert there.loo().elpd + len(table) * np.log(unit) == pytest.approx(near.loo().elpd, abs=0.1)
    sd = [fit.predict(table.head(3))["y_sd"].to_numpy() for fit in (near, there)]
    assert sd[1] / unit == pytest.approx(sd[0], rel=0.05)


@pytest.mark.parametrize("power", [-58, -20, 20, 58])
def test_a_slope_has_the_outcomes_unit_at_any_scale(power: int) -> None:
    """Against least squares of the outcome in its first unit; no check rings for the unit alone."""
    table, unit = rows(40), 10.0**power
    slope, _ = np.polyfit(table["x"], table["y"], 1)
    fit = fit_line(table.assign(y=table["y"] * unit), "y", "x", group=None, seed=1)
    assert fit.params["slope on x"] / unit == pytest.approx(slope, rel=0.05)
    near = fit_line(table, "y", "x", group=None, seed=1).check(refits=False).reasons
    assert fit.check(refits=False).reasons == near


@pytest.mark.parametrize("power", [-160, 160])
@pytest.mark.parametrize("column", ["x", "y"])
def test_numbers_whose_powers_are_no_doubles_are_refused_with_their_unit(
    power: int, column: str
) -> None:
    table = rows().assign(**{column: rows()[column] * 10.0**power})
    with pytest.raises(
        UsageError, match=rf'beyond double precision \({column}\).*df\["{column}"\] / \de'
    ):
        fit_line(table, "y", "x", group=None)


DAY = pd.Timestamp("2024-01-01")
NO_NUMBERS = {
    "dates": pd.Series(pd.date_range(DAY, periods=12)),
    "durations": pd.Series(pd.to_timedelta(range(12), unit="h")),
    "complex numbers": pd.Series(np.arange(12) + 2j),
    "true and false": pd.Series([True, False] * 6),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize("dtype", [None, object, "nullable"])
def test_outcomes_that_are_no_numbers_are_refused_by_kind(kind: str, dtype: object) -> None:
    values = NO_NUMBERS[kind]
    y = (
        values
        if dtype is None
        else values.astype(object)
        if dtype is object
        else values.convert_dtypes()
    )
    with pytest.raises(UsageError, match=f"not numeric.*got {kind}"):
        fit_line(rows().assign(y=y), "y", "x", group=None)


def test_true_and_false_are_a_covariate() -> None:
    """The slope is the difference of two means."""
    table = rows(40).assign(tuned=lambda t: t["x"] > 3)
    means = table.groupby("tuned")["y"].mean()
    fit = fit_line(table, "y", "tuned", group=None, seed=1)
    assert fit.params["slope on tuned"] == pytest.approx(means[True] - means[False], abs=0.02)


def test_the_outcome_is_none_of_its_covariates() -> None:
    with pytest.raises(UsageError, match=r"the outcome is among its covariates \(y\)"):
        fit_line(rows(), "y", ["x", "y"], group=None)


def kinds() -> pd.DataFrame:
    """Thirty models of three kinds whose gains lie 0, 0.5 and 1 above 1."""
    kind = pd.Series(np.repeat(["base", "chat", "code"], 10))
    gain = (
        1
        + kind.map({"base": 0.0, "chat": 0.5, "code": 1.0})
        + np.random.default_rng(0).normal(0, 0.02, 30)
    )
    return pd.DataFrame(
        {"model_id": [f"m{i}" for i in range(30)], "kind": kind, "v": np.repeat([1, 2, 3], 10)}
    ).assign(gain=gain)


@pytest.mark.parametrize("formula", ["gain ~ kind", "gain ~ C(kind)", "np.log(gain) ~ kind"])
def test_a_missing_category_is_refused_by_name_at_fit_and_prediction(formula: str) -> None:
    table = kinds()
    said = r"missing values \(kind\): got 5 of 30 rows.*df\[\"kind\"\]\.notna\(\)"
    gaps = table.assign(kind=table["kind"].where(np.arange(30) >= 5))
    with pytest.raises(UsageError, match=said):
        fit_line(gaps, formula, group=None)
    fit = fit_line(table, formula, group=None, seed=1)
    with pytest.raises(UsageError, match=said):
        fit.predict(gaps)


UNSEEN = {
    "vision": ("gain ~ kind", "kind", "vision"),
    "near": ("gain ~ kind", "kind", "chats"),
    "text": ("gain ~ C(v)", "v", "2"),
}


@pytest.mark.parametrize("case", UNSEEN)
def test_a_category_never_seen_is_refused_by_name(case: str) -> None:
    formula, column, value = UNSEEN[case]
    fit = fit_line(kinds(), formula, group=None, seed=1)
    new = kinds().tail(2).assign(**{column: value})
    with pytest.raises(
        UsageError, match=rf"not seen.*\({column}\): got {value!r}; allowed"
    ) as refused:
        fit.predict(new)
    kept = eval(  # noqa: S307
        refused.value.next_step.removeprefix("fit.predict(").removesuffix(")"), {"df": kinds()}
    )
    means = kinds().groupby("kind")["gain"].mean()
    predicted = fit.predict(kept).groupby("kind")["gain_mean"].mean()
    assert dict(predicted) == pytest.approx(dict(means), abs=0.02)


def test_text_where_the_fit_has_numbers_is_refused() -> None:
    fit = fit_line(kinds(), "gain ~ v", group=None, seed=1)
    with pytest.raises(UsageError, match="of another kind than in the fit"):
        fit.predict(kinds().assign(v="much"))


LEVELS: dict[str, Callable[[Any], object]] = {
    "conf_int(0.95)": lambda fit: fit.conf_int(0.05),
    "summary(level=0.9)": lambda fit: fit.summary(level=0.1),
    "predict(new, level=0.99)": lambda fit: fit.predict(rows(), level=0.01),
}


@pytest.mark.parametrize("line", LEVELS)
def test_a_level_below_one_half_is_refused_with_the_line_that_is_meant(line: str) -> None:
    fit = fit_line(rows(), "y", "x", group=None, seed=1)
    with pytest.raises(UsageError, match=re.escape(f"Next: fit.{line}")):
        LEVELS[line](fit)

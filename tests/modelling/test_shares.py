"""Shares of units for which a statement holds: posteriors against sums over a grid, and shares that
are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

from thermostats.errors import UsageError
from thermostats.modelling.draws import estimate_mcse
from thermostats.modelling.fit import Fit
from thermostats.modelling.shares import fit_share

pytestmark = pytest.mark.slow
GROUPS = {"a": (1, 6), "b": (3, 8), "c": (7, 9), "d": (4, 4)}
"""Of every group for how many units the statement holds, and how many there are."""
ERRORS = 5.0
"""Monte-Carlo errors by which a mean of draws may lie off."""


def units(groups: dict[str, tuple[int, int]]) -> pd.DataFrame:
    rows = [(lab, i < k) for lab, (k, n) in groups.items() for i in range(n)]
    table = pd.DataFrame(rows, columns=["heritage", "holds"])
    return table.assign(model_id=[f"m{i}" for i in range(len(table))])


def mean_of(fit: Fit, quantity: str) -> tuple[float, float]:
    """Mean of the draws with its Monte-Carlo error."""
    draws = fit.quantities[quantity]
    return float(draws.mean()), estimate_mcse(draws)


def test_without_groups_the_share_is_that_of_a_sum_over_a_grid() -> None:
    table = units(GROUPS)
    mu = np.linspace(-8, 8, 4001)
    k, n = int(table["holds"].sum()), len(table)
    weight = stats.norm.pdf(mu, 0, 1.5) * stats.binom.pmf(k, n, expit(mu))
    expected = float((weight * expit(mu)).sum() / weight.sum())
    fit = fit_share(table, "holds", group=None, seed=1)
    mean, error = mean_of(fit, "share")
    assert abs(mean - expected) < ERRORS * error
    assert fit.loo().refits <= 1 and fit.check(refits=False).checks, (
        "without its only count the model is its prior"
    )


def test_with_groups_the_share_is_that_of_a_sum_over_a_grid() -> None:
    """Given μ and τ groups are independent: each is a sum over its own z, then both over their
    priors."""
    table = units(GROUPS)
    mu, tau, z = np.linspace(-6, 6, 121), np.linspace(0.005, 5, 100), np.linspace(-5, 5, 201)
    p = expit(mu[:, None, None] + tau[None, :, None] * z)
    normal = stats.norm.pdf(z)
    like = {lab: stats.binom.pmf(k, n, p) * normal for lab, (k, n) in GROUPS.items()}
    marginal = {lab: values.sum(axis=2) for lab, values in like.items()}
    weight = stats.norm.pdf(mu, 0, 1.5)[:, None] * stats.halfnorm.pdf(tau, 0, 1.0)[None, :]
    weight = weight * np.prod(list(marginal.values()), axis=0)
    weight /= weight.sum()
    of_groups = {
        lab: ((values * p).sum(axis=2) / marginal[lab] * weight).sum()
        for lab, values in like.items()
    }
    expected = sum(of_groups[lab] * n for lab, (_, n) in GROUPS.items()) / len(table)
    found, error = mean_of(fit_share(table, "holds", seed=1), "share")
    assert abs(found - expected) < ERRORS * error


def test_a_share_that_is_known_is_recovered() -> None:
    rng = np.random.default_rng(3)
    truth = 0.75
    groups = {f"lab{i}": (int(rng.binomial(20, truth)), 20) for i in range(20)}
    fit = fit_share(units(groups), "holds", against=0.6, seed=1)
    row = fit.summary().loc["share"]
    assert row["lower"] < truth < row["upper"] and row["upper"] - row["lower"] < 0.12
    assert fit.probabilities["share > 0.6"] > 0.99


def test_units_of_which_nobody_knows_are_refused_and_the_others_have_their_share() -> None:
    """Ten of twelve known gains lie above 1; the posterior mean by quadrature under logit p ~ N(0,
    1.5²)."""
    gain = [1.2, 1.1, 1.3, 1.05, 0.9, 1.15, 1.25, 1.02, 0.95, 1.1, 1.3, 1.07, *[np.nan] * 8]
    table = pd.DataFrame({"model_id": [f"m{i}" for i in range(20)], "gain": gain})
    for holds in ("gain > 1", "~(gain > 1)", "gain > 1 | gain < 0.5"):
        with pytest.raises(UsageError, match=r"missing \(gain\): got 8 of 20 rows"):
            fit_share(table, holds, group=None)
    mu = np.linspace(-8, 8, 4001)
    weight = stats.norm.pdf(mu, 0, 1.5) * stats.binom.pmf(10, 12, expit(mu))
    mean, error = mean_of(
        fit_share(table.dropna(subset=["gain"]), "gain > 1", group=None, seed=1), "share"
    )
    assert abs(mean - (weight * expit(mu)).sum() / weight.sum()) < ERRORS * error


def test_predictions_are_counts_of_named_groups() -> None:
    """Rows come in any order; each prediction says which group it is of."""
    fit = fit_share(units(GROUPS), "holds", seed=1)
    new = pd.DataFrame({"heritage": ["d", "never seen", "a"], "model_id": list("xyz")})
    counts = fit.predict(new).set_index("outcome")["units_mean"]
    p = fit.quantities["p"].mean(axis=(0, 1))
    expected = {"a": p[0], "d": p[3], "never seen": fit.quantities["share_of_new_group"].mean()}
    assert dict(counts) == pytest.approx(expected, abs=0.03)

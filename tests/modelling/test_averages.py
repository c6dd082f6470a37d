"""Rows of mean, spread and number of prompts: what they say of their errors, and the same answer as the prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from thermostats.modelling.heritage.averages import CENTRE, SPREAD, Averages, known
from thermostats.modelling.heritage.blocks import design
from thermostats.modelling.heritage.closed_form import closed_form
from thermostats.modelling.heritage.fit import HeritageFit, fit_heritage
from thermostats.modelling.heritage.simulate import model_facts, simulate_heritage
from thermostats.tables.caching import CACHE_VARIABLE

SHARES = {"heritage": 0.5, "geometry": 0.15, "scale": 0.05}


def few_prompts(n_models: int, *, nu: float = 200.0) -> pd.DataFrame:
    """Five prompts a model, normal, with errors about as large as what is the model's own."""
    facts = model_facts(n_models, 6, np.random.default_rng(2))
    return simulate_heritage(
        facts, shares=SHARES, total=0.15, prompt_sd=0.08, nu=nu, seed=2, n_prompts=5, n_categories=1
    ).table


def averaged(table: pd.DataFrame) -> pd.DataFrame:
    """The same known by average alone, so that mean and spread of the logs are those of the prompts."""
    logs = np.log(table["gain"]).groupby(table["model_id"])
    facts = table.drop(columns=["prompt_id", "category", "gain"]).drop_duplicates("model_id")
    mean, sd = (facts["model_id"].map(found) for found in (logs.mean(), logs.std()))
    gain = np.exp(mean + sd**2 / 2)
    return facts.assign(gain=gain, gain_sd=sd * gain, n_prompts=5, prompt_id="", category="")


def test_spreads_are_pooled_and_cover_the_truth() -> None:
    """Forty models of five prompts: s is off by 38%, its t interval twice too wide; pooled it is nearer."""
    rng = np.random.default_rng(1)
    sigma = np.exp(-3 + 0.2 * rng.normal(size=40))
    s = sigma * np.sqrt(rng.chisquare(4, 40) / 4)
    found = Averages(mean=np.zeros(40), sd=s, n=np.full(40, 5.0))
    errors, log_weight = found.errors(4000, rng)
    lower, upper = np.quantile(errors * 5**0.5, [0.03, 0.97], axis=0)
    assert ((lower < sigma) & (sigma < upper)).mean() >= 0.85
    off = [np.sqrt(np.square(np.log(x / sigma)).mean()) for x in (found.error * 5**0.5, s)]
    assert off[0] < 0.75 * off[1]
    assert np.sqrt(np.square(errors).mean(axis=0)) == pytest.approx(found.error, rel=0.04)
    assert log_weight == pytest.approx(np.zeros(4000), abs=1e-9)


def test_one_spread_is_what_the_prior_and_the_likelihood_say() -> None:
    """By brute force: draws of the hierarchy weighed by the χ² density of s²."""
    rng = np.random.default_rng(2)
    n, s, size = np.array([4.0, 8.0]), np.array([0.03, 0.2]), 2_000_000
    log_omega = rng.normal(*SPREAD, size=size)
    log_sigma = rng.normal(*CENTRE, size=size) + np.exp(log_omega) * rng.normal(size=(2, size))
    ratio = s[:, None] ** 2 * np.exp(-2 * log_sigma)
    log_weight = ((n - 1)[:, None] / 2 * (np.log(ratio) - ratio)).sum(axis=0)
    weight = np.exp(log_weight - log_weight.max())
    expected = np.sqrt((np.exp(2 * log_sigma) @ weight) / weight.sum() / n)
    assert Averages(mean=np.zeros(2), sd=s, n=n).error == pytest.approx(expected, rel=0.04)


def test_a_model_of_one_prompt_has_the_spread_of_the_others_and_known_errors_stay() -> None:
    some = Averages(mean=np.zeros(21), sd=np.r_[np.full(20, 0.05), 0.0], n=np.r_[np.full(20, 50.0), 1.0])
    assert some.error[:20] == pytest.approx(0.05 / 50**0.5, rel=0.1)
    assert some.error[20] == pytest.approx(0.05, rel=0.25)
    alone = Averages(mean=np.zeros(3), sd=np.zeros(3), n=np.ones(3))
    assert (alone.error == 0).all() and (alone.errors(5, np.random.default_rng(1))[0] == 0).all()
    exact = known(np.zeros(3), np.array([0.1, 0.2, 0.3]))
    assert exact.errors(2, np.random.default_rng(1))[0].tolist() == [[0.1, 0.2, 0.3]] * 2


def test_draws_that_are_favoured_weigh_less() -> None:
    rng = np.random.default_rng(3)
    found = Averages(mean=np.zeros(4), sd=np.full(4, 0.1), n=np.full(4, 6.0))
    plain, _ = found.errors(20_000, rng)
    tilted, log_weight = found.errors(20_000, rng, lambda square: 50 * square)
    assert tilted.mean() > 1.02 * plain.mean()
    weight = np.exp(log_weight - log_weight.max())
    assert (weight / weight.sum()) @ tilted == pytest.approx(plain.mean(axis=0), rel=0.01)


def test_an_average_is_worth_its_prompts() -> None:
    """The closed form reads both as mean, spread and number: nothing is lost, and nothing is made wider for few."""
    table = few_prompts(18)
    one, other = design(table, "simulated"), design(averaged(table), "simulated")
    for name in ("mean", "sd", "n"):
        assert getattr(one.averages, name) == pytest.approx(getattr(other.averages, name))
    drawn = [closed_form(laid_out, total_sd=0.5, seed=1).flat("m") for laid_out in (one, other)]
    assert drawn[0].mean(axis=0) == pytest.approx(drawn[1].mean(axis=0), abs=1e-3)


def test_many_noisy_averages_keep_their_weights() -> None:
    """Each of 96 unknown errors moves the density; drawn without regard to the means the weights would fail."""
    facts = model_facts(96, 16, np.random.default_rng(0))
    table = simulate_heritage(facts, shares=SHARES, prompt_sd=0.2, nu=30, seed=1, n_prompts=5, n_categories=1).table
    draws = closed_form(design(table, "simulated"), total_sd=0.5, seed=1)
    assert draws.status == "passed", draws.diagnostics.failures()


def agree(one: HeritageFit, other: HeritageFit, rel: float) -> None:
    for name, values in one.quantities.items():
        assert values.mean() == pytest.approx(other.quantities[name].mean(), abs=rel * values.std()), name
    a, b = (fit.models() for fit in (one, other))
    assert a["mean"].to_numpy() == pytest.approx(b["mean"].to_numpy(), abs=rel * a["sd"].max())
    assert a["sd"].to_numpy() == pytest.approx(b["sd"].to_numpy(), rel=0.15)


@pytest.mark.slow
@pytest.mark.long
def test_sampled_averages_give_what_their_prompts_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """Normal prompts one by one, the same known by average alone, and the closed form of either."""
    monkeypatch.setenv(CACHE_VARIABLE, "off")
    table = few_prompts(18)
    given: Mapping[str, Any] = {"estimand": "simulated", "seed": 1}
    averages = fit_heritage(averaged(table), **given)
    assert averages.status == "passed" and "log_sigma" in averages.draws.values
    agree(averages, fit_heritage(table, **given), 0.25)
    agree(averages, fit_heritage(table, method="closed form", **given), 0.25)

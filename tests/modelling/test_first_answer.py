"""The first answer about labs: statsmodels' F tests, and rates that simulated worlds with known
truth must have."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.anova import anova_lm

from thermostats.errors import UsageError
from thermostats.modelling.heritage.lab_tests import WORLDS, answer_questions


def models(labs: int = 5, each: int = 3, lab_sd: float = 0.1, seed: int = 3) -> pd.DataFrame:
    rng, n = np.random.default_rng(seed), labs * each
    gain = np.repeat(rng.normal(0, lab_sd, labs), each) + rng.normal(0, 0.02, n)
    facts = {
        "n_layers": rng.choice([8, 16, 24, 32], n),
        "n_params": rng.choice([1e8, 3e8, 1e9, 4e9], n),
    }
    return pd.DataFrame(
        {"log_gain": gain, "heritage": np.repeat(list("ABCDEFGHIJ")[:labs], each), **facts}
    )


def test_tests_are_those_of_statsmodels() -> None:
    table = models()
    alone, beyond = answer_questions(table)
    plain = anova_lm(
        smf.ols("log_gain ~ 1", table).fit(), smf.ols("log_gain ~ heritage", table).fit()
    )
    formula = "log_gain ~ np.log(n_layers) + np.log(n_params)"
    nested = anova_lm(smf.ols(formula, table).fit(), smf.ols(formula + " + heritage", table).fit())
    for tested, known in ((alone, plain), (beyond, nested)):
        assert tested.f == pytest.approx(known["F"].iloc[1], rel=1e-9)
        assert tested.p == pytest.approx(known["Pr(>F)"].iloc[1], rel=1e-6)


def test_rates_are_those_of_the_f_distribution() -> None:
    """5% without effects of labs; else F/(1 + n τ²/σ²) is F distributed, here with n = 3 models a
    lab and τ = σ."""
    alone, _ = answer_questions(models())
    k, rest = alone.df
    power = stats.f.sf(stats.f.isf(0.05, k, rest) / 4, k, rest)
    for rate, known in ((alone.false, 0.05), (alone.power, power)):
        assert abs(rate - known) <= 4 * np.sqrt(known * (1 - known) / WORLDS)
    assert alone.wanted == 1 if alone.power >= 0.8 else alone.wanted > 1 or np.isnan(alone.wanted)
    assert alone.error == pytest.approx(np.sqrt(alone.power * (1 - alone.power) / WORLDS))


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(UsageError, match="one lab"):
        answer_questions(models(labs=1, each=8))
    with pytest.raises(UsageError, match="too few models"):
        answer_questions(models(labs=5, each=1))

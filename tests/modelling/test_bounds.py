import numpy as np
import pytest
from calibrated import assert_covered
from scipy import optimize, stats

from thermostats.errors import UsageError
from thermostats.modelling.laws.depth import probability_above, quantile_power_law, share_above, share_of_models


def test_probability_above_is_the_t_test_turned_round():
    values = np.random.default_rng(1).normal(0.1, 0.2, 12)
    expected = stats.ttest_1samp(values, 0.05, alternative="greater").pvalue
    found = probability_above(
        np.array([values.mean()]), np.array([values.std(ddof=1) / 12**0.5]), np.array([0.05]), np.array([12.0])
    )
    assert found[0] == pytest.approx(1 - expected)


def test_without_error_a_model_is_above_or_is_not():
    found = probability_above(np.array([1.0, 2.0]), np.zeros(2), np.array([1.5, 1.5]), np.array([np.nan, 5]))
    assert found.tolist() == [0.0, 1.0]


def test_share_above_agrees_with_throwing_the_coins():
    p = np.array([0.1, 0.4, 0.9, 0.99, 0.5, 0.7])
    mean, low, high = share_above(p, level=0.9)
    thrown = (np.random.default_rng(2).random((100_000, 6)) < p).mean(axis=1)
    assert mean == pytest.approx(thrown.mean(), abs=0.005)
    assert (low, high) == pytest.approx(tuple(np.quantile(thrown, [0.05, 0.95])))


def test_share_of_all_models_is_jeffreys():
    mean, low, high = share_of_models(0, 10, level=0.95)
    assert mean == pytest.approx(0.5 / 11)
    assert 0 < low < 1e-3
    assert high == pytest.approx(stats.beta(0.5, 10.5).ppf(0.975))


@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_quantile_line_has_the_loss_of_the_linear_programme(tau):
    rng = np.random.default_rng(3)
    L = rng.choice([6, 12, 24, 32, 36, 48], 40).astype(float)
    y = 2 * L**-0.8 * np.exp(-np.abs(rng.normal(0, 0.5, 40)))
    row = quantile_power_law(L, y, (tau,), seed=1).iloc[0]
    x, z = np.log10(L), np.log10(y)
    design = np.column_stack([np.ones(40), x])
    both = np.hstack([design, np.eye(40), -np.eye(40)])
    best = optimize.linprog(
        np.r_[0, 0, np.full(40, tau), np.full(40, 1 - tau)],
        A_eq=both,
        b_eq=z,
        bounds=[(None, None)] * 2 + [(0, None)] * 80,
    )
    residual = z - np.log10(row["k"]) + row["beta"] * x
    loss = np.where(residual > 0, tau * residual, (tau - 1) * residual).sum()
    assert loss == pytest.approx(best.fun, rel=1e-3)
    assert row["beta_lower"] <= row["beta"] <= row["beta_upper"]


def test_bootstrap_of_quantile_lines_covers_the_exponent():
    """150 tables of y = L^(−1) e^ε: every quantile line has the exponent 1."""
    rng, covered = np.random.default_rng(4), []
    for i in range(150):
        L = rng.uniform(6, 80, 60)
        y = L**-1.0 * np.exp(rng.normal(0, 0.3, 60))
        rows = quantile_power_law(L, y, (0.5, 0.9), seed=i)
        covered.append((rows["beta_lower"] <= 1) & (rows["beta_upper"] >= 1))
    assert_covered(np.array(covered))


def test_models_at_or_below_zero_do_not_move_the_upper_lines():
    rng = np.random.default_rng(5)
    L = np.tile([6.0, 12, 24, 48], 10)
    y = L**-1.0 * np.exp(rng.normal(0, 0.2, 40))
    low = y.argsort()[:6]
    moved = y.copy()
    moved[low] = -0.2
    one, other = (quantile_power_law(L, values, (0.9,), seed=1).iloc[0] for values in (y, moved))
    assert other["beta"] == pytest.approx(one["beta"], abs=0.05)
    assert other["n_floored"] == 6


def test_bad_columns_are_refused():
    L, y = np.array([6.0, 12, 24, 48, 6]), np.array([0.2, 0.1, 0.1, 0.05, 0.3])
    for wrong, words in ((np.nan, "missing or infinite"), (np.inf, "missing or infinite")):
        with pytest.raises(UsageError, match=words):
            quantile_power_law(L, np.array([wrong, *y[1:]]), seed=1)
    with pytest.raises(UsageError, match="logarithm"):
        quantile_power_law(np.array([0.0, *L[1:]]), y, seed=1)
    with pytest.raises(UsageError, match="too few"):
        quantile_power_law(L[:3], y[:3], seed=1)
    with pytest.raises(UsageError, match="differ in length"):
        quantile_power_law(L, y[:4], seed=1)


def test_shares_are_calibrated():
    """Coins of known probability; shares of all models from Jeffreys' prior, exact binomial bounds."""
    rng, inside = np.random.default_rng(8), []
    for _ in range(200):
        share = rng.beta(0.5, 0.5)
        _, low, high = share_of_models(int(rng.binomial(24, share)), 24)
        inside.append(low <= share <= high)
    assert_covered(inside)
    p = rng.uniform(0, 1, 24)
    _, low, high = share_above(p)
    thrown = (rng.random((4000, 24)) < p).mean(axis=1)
    assert ((low <= thrown) & (thrown <= high)).mean() >= 0.93


def test_probability_above_is_calibrated():
    """P(true value > bound) at the true value is uniform over samples of 5 prompts."""
    rng = np.random.default_rng(10)
    samples = 0.3 + rng.normal(0, 1, (500, 5))
    error = samples.std(axis=1, ddof=1) / 5**0.5
    stated = probability_above(samples.mean(axis=1), error, np.full(500, 0.3), np.full(500, 5.0))
    assert stats.kstest(stated, "uniform").pvalue > 0.001


def test_no_line_where_every_gain_is_below_one_and_none_for_one_depth():
    assert quantile_power_law(np.array([6.0, 12, 24, 48]), -np.ones(4), seed=1).empty
    with pytest.raises(UsageError, match="constant"):
        quantile_power_law(np.full(5, 12.0), np.ones(5), seed=1)


def test_a_thousand_models_get_asymptotic_intervals():
    rng = np.random.default_rng(6)
    L = rng.uniform(6, 80, 1000)
    row = quantile_power_law(L, L**-1.0 * np.exp(rng.normal(0, 0.3, 1000)), (0.9,), seed=1).iloc[0]
    assert row["interval"].startswith("asymptotic")
    assert row["beta_lower"] < 1 < row["beta_upper"]

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
from calibrated import assert_covered
from scipy import optimize, stats
from simulated import depth_outcomes, depth_truth, model_table

from thermostats.errors import UsageError
from thermostats.modelling.laws.depth import (
    SCALE,
    _left_out,
    bounded_rows,
    fit_kleiber,
    probability_above,
    quantile_power_law,
    share_above,
    share_of_models,
)
from thermostats.modelling.laws.depth_curves import BETA, NOISE, Curve, curve

LN10 = np.log(10)


def frontier_table(seed: int, *, k: float = 2.0, beta: float = 0.6, below: float = 0.06, n: int = 24):
    rng = np.random.default_rng(seed)
    L = rng.choice([6, 12, 16, 24, 32, 36, 48], n)
    y = k * L**-beta - np.abs(rng.normal(0, below, n)) + rng.normal(0, 0.01, n)
    return model_table(y * LN10, L=L, error=0.01)


def law_table(L, y, *, labs: int = 6):
    return model_table(y * LN10, L=L, labs=labs, error=0.01 * LN10, estimand="max_gain")


@pytest.fixture(scope="module")
def fitted():
    return fit_kleiber(frontier_table(1), "penultimate_gain", seed=1, cache=False)


def test_frontier_recovers_its_truth_and_lies_above_the_middle(fitted):
    rows = fitted.summary().set_index("quantity")
    assert fitted.status == "passed"
    for name, truth in (("frontier_beta", 0.6), ("frontier_k", 2.0), ("below", 0.06)):
        assert rows.loc[name, "lower"] < truth < rows.loc[name, "upper"]
    top = fitted.quantities["frontier_over_bound"] / fitted.numbers["middle_depth"]
    assert top.mean() > fitted.parts["curve"].draws["middle"].mean()


def test_frontier_agrees_with_a_sum_over_its_posterior(fitted):
    part = fitted.parts["frontier"]
    draws, models = part.draws, fitted.table("models")
    x = np.log(models["n_layers"].to_numpy(float) / fitted.numbers["middle_depth"])
    y, error = models["log10_gain"].to_numpy(), models["error"].to_numpy()
    rng = np.random.default_rng(3)
    names = ("frontier_middle", "frontier_beta", "below", "noise")
    centre = np.array([draws[n].mean() for n in names])
    spread = 2 * np.array([draws[n].std() for n in names])
    m, b, down, noise = (stats.t(4, c, s).rvs(30_000, random_state=rng) for c, s in zip(centre, spread, strict=True))
    proposal = sum(stats.t(4, c, s).logpdf(v) for c, s, v in zip(centre, spread, (m, b, down, noise), strict=True))
    ok = (m > 0) & (down > 0) & (noise > 0)
    m, b, down, noise, proposal = (v[ok] for v in (m, b, down, noise, proposal))
    either = np.hypot(noise[:, None], error)
    e = y - m[:, None] * np.exp(-b[:, None] * x)
    total = np.hypot(down[:, None], either)
    density = stats.skewnorm.logpdf(e, -down[:, None] / either, 0, total).sum(axis=1)
    prior = stats.norm.logpdf(b, *BETA) - (m**2 + down**2) / SCALE**2 / 2 - noise**2 / (NOISE * SCALE) ** 2 / 2
    weights = np.exp(density + prior - proposal - (density + prior - proposal).max())
    for name, values in zip(names, (m, b, down, noise), strict=True):
        expected = np.average(values, weights=weights)
        assert draws[name].mean() == pytest.approx(expected, abs=0.15 * draws[name].std())


def test_result_says_what_it_is_about(fitted):
    record = json.loads(json.dumps(fitted.to_dict(), allow_nan=False))
    assert record["estimand"] == "penultimate_gain"
    assert record["sources"] == ["simulated"]
    assert {"models", "quantiles", "rivals", "sensitivity", "classical"} == set(record["tables"])
    exponent, share = fitted.table("classical")["estimate"]
    beta = fitted.summary().set_index("quantity").loc["beta"]
    assert -exponent == pytest.approx(beta["mean"], abs=3 * beta["sd"])
    assert share * fitted.n_models == fitted.numbers["models_above"]
    gate = fitted.check()
    assert gate.passes, gate.reasons
    left_out = next(check for check in gate.checks if check.name == "influence").table["left_out"]
    assert left_out.tolist() == [f"lab{i}" for i in range(6)] + fitted.table("models")["model_id"].tolist()
    symbols = {name for line in fitted.priors for name in line[0].split(", ")}
    assert symbols == {"m", "m′", "β", "β′", "σ", "τ", "ω", "η"}
    assert any("u_lab" in line for line in fitted.equations)
    figure, axes = plt.subplots()
    assert fitted.plot(axes) is axes
    plt.close(figure)


@pytest.mark.slow
def test_above_the_bound_everywhere_and_nowhere():
    L = np.tile([6, 12, 24, 48], 5)
    # three times the bound: a constant above it would leave a second mode, β = 1 with labs that all lie as far above
    far = fit_kleiber(model_table(3 * LN10 / L, L=L), "penultimate_gain", seed=1, cache=False)
    assert far.status == "passed"
    assert far.numbers["share_above"] == pytest.approx(1, abs=1e-6)
    assert far.probabilities["new model at the middle depth above 10^(1/L)"] > 0.95
    under = fit_kleiber(model_table(LN10 / L - 0.2, L=L), "penultimate_gain", seed=1, cache=False)
    assert under.numbers["share_above"] == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
def test_rivals_find_what_made_the_gains():
    rng = np.random.default_rng(4)
    L = rng.choice([6, 12, 24, 32, 48], 30)
    claimed = model_table((1 / L + rng.normal(0, 0.005, 30)) * LN10, L=L, error=0.001)
    by_depth = fit_kleiber(claimed, "penultimate_gain", seed=1, cache=False)
    assert by_depth.table("rivals")["rival"].iloc[0] == "published"
    x = np.linspace(-3, 0, 30)
    dense = model_table((0.1 - 0.05 * x + rng.normal(0, 0.005, 30)) * LN10, L=L, rho=np.exp(x))
    by_density = fit_kleiber(dense, "penultimate_gain", seed=1, cache=False).table("rivals")
    assert by_density["rival"].iloc[0] == "density"
    assert by_density.set_index("rival").loc["density", ["difference_model", "difference_lab"]].tolist() == [0, 0]


def test_missing_geometry_is_said_and_wrong_tables_are_refused():
    table = frontier_table(2, n=8)
    with pytest.raises(UsageError, match="no such column"):
        fit_kleiber(table, "max_gain", seed=1)
    with pytest.raises(UsageError, match="too few points"):
        fit_kleiber(table.head(3), "penultimate_gain", seed=1)
    with pytest.raises(UsageError, match="constant"):
        fit_kleiber(table.assign(n_layers=12), "penultimate_gain", seed=1)
    with pytest.raises(UsageError, match=r"constant column decides nothing.*penultimate_gain"):
        fit_kleiber(table.assign(penultimate_gain=1.5), "penultimate_gain", seed=1)
    gains = table["penultimate_gain"].to_numpy()
    for wrong in (0.0, -1.0, np.inf):
        with pytest.raises(UsageError, match="infinite" if wrong == np.inf else "logarithm"):
            fit_kleiber(table.assign(penultimate_gain=[wrong, *gains[1:]]), "penultimate_gain", seed=1)
    with pytest.raises(UsageError, match="no row holds"):
        fit_kleiber(table.assign(penultimate_gain=np.nan), "penultimate_gain", seed=1)
    with pytest.raises(UsageError, match="missing"):
        fit_kleiber(table.assign(n_layers=np.nan), "penultimate_gain", seed=1)


@pytest.mark.slow
def test_the_exponent_is_recovered_and_zero_is_not_taken_for_a_fall():
    """β of 100 tables: no bias beyond its error; with β = 0, P(β > 0) > 0.95 in at most 5 %, by a binomial bound."""
    found: dict[float, list[Curve]] = {0.0: [], 0.7: []}
    for beta, fits in found.items():
        for i in range(100):
            rng = np.random.default_rng(3000 + i)
            truth = {**depth_truth(rng), "middle": 0.12, "beta": beta, "sigma": 0.03, "tau": 0.02}
            L, y = depth_outcomes(rng, truth, envelope=False)
            fits.append(curve(bounded_rows(law_table(L, y), "max_gain").depths, seed=i, draws=1000))
    middles = np.array([np.median(f.beta) for f in found[0.7]])
    assert abs(middles.mean() - 0.7) < 3.3 * middles.std(ddof=1) / 10 + 0.02
    above = sum((f.beta > 0).mean() > 0.95 for f in found[0.0])
    assert above <= stats.binom.isf(0.001, 100, 0.05)


def test_envelope_and_labs_are_told_by_the_table():
    fitted = fit_kleiber(frontier_table(5, n=12).assign(heritage="one"), "penultimate_gain", seed=1, cache=False)
    assert any("one lab only" in words for words in fitted.warnings)
    assert "lab_sd" not in fitted.quantities
    assert "elpd_lab" not in fitted.table("rivals")
    assert not any("u_lab" in line for line in fitted.equations)
    each = frontier_table(6, n=8)
    each = each.assign(heritage=each["model_id"], rho=np.nan, n_params_nonembedding=7.0)
    said = " ".join(fit_kleiber(each, "penultimate_gain", seed=1, cache=False).warnings)
    for words in ("one model of every lab", "rival density left out", "rival scale left out"):
        assert words in said


def test_a_lab_without_which_one_depth_is_left_is_named():
    L = np.array([12, 12, 12, 12, 24, 36])
    table = model_table(0.3 + 0.02 * np.arange(6), L=L).assign(heritage=[*["alike"] * 4, *["apart"] * 2])
    check = _left_out(bounded_rows(table, "penultimate_gain"), seed=1)
    verdicts = check.table.set_index("left_out")["verdict"]
    assert verdicts["apart"] == "one depth is left" and "envelope" in verdicts["alike"]
    assert check.outcome == "undecided" and "apart" in check.reason
    assert len(verdicts) == 8


def test_prior_scale_follows_the_estimand():
    table = frontier_table(1).assign(geometric_gain=np.linspace(1.04, 1.06, len(frontier_table(1))))
    assert bounded_rows(table, "penultimate_gain").depths.scale == SCALE
    middle = np.exp(np.log(table["n_layers"]).mean())
    assert bounded_rows(table, "geometric_gain").depths.scale == pytest.approx(SCALE / (middle - 2) ** 0.5)
    assert bounded_rows(table, "geometric_gain", scale=0.2).depths.scale == 0.2
    with pytest.raises(UsageError, match="prior scale"):
        bounded_rows(table, "penultimate_gain", scale=0.0)


@pytest.mark.slow
@pytest.mark.long
def test_a_thousand_models_are_fitted_and_checked():
    rng = np.random.default_rng(9)
    truth = {**depth_truth(rng), "middle": 0.12, "beta": 0.7, "sigma": 0.03, "tau": 0.02}
    L, y = depth_outcomes(rng, truth, envelope=False, n=1000, labs=120)
    fitted = fit_kleiber(law_table(L, y, labs=120), "max_gain", seed=1, cache=False)
    rows = fitted.summary().set_index("quantity")
    assert rows.loc["beta", "lower"] < 0.7 < rows.loc["beta", "upper"]
    said = " ".join(fitted.warnings)
    assert "1000 models: left out in 20 groups" in said
    assert "120 labs: left out in 20 groups" in said
    assert {c.name for c in fitted.check().checks} >= {"influence"}


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

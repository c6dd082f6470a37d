import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats
from simulated import depth_outcomes, depth_truth, model_table

from thermostats.errors import UsageError
from thermostats.modelling.laws.depth import SCALE, _left_out, bounded_rows, fit_kleiber
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

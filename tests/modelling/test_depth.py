import json

import numpy as np
import pytest
from by_pymc import envelope_data, envelope_model
from calibrated import assert_covered, within
from scipy import optimize, stats
from scipy.special import logsumexp
from simulated import depth_outcomes, depth_truth, model_table

from thermostats.errors import UsageError
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import Settings
from thermostats.modelling.inference.quadrature import log_evidence
from thermostats.modelling.laws import depth
from thermostats.modelling.laws.depth import (
    BETA,
    CURVE,
    FRONTIER,
    NOISE,
    SCALE,
    Curve,
    Depths,
    bounded_rows,
    curve,
    draw_curve,
    fit_kleiber,
    frontier,
    frontier_density,
    left_out_pit,
    node,
    probability_above,
    quantile_power_law,
)

LN10 = np.log(10)
STEPS = Settings(target_accept=0.97)


def frontier_table(seed: int, *, k: float = 2.0, beta: float = 0.6, below: float = 0.06, n: int = 24):
    rng = np.random.default_rng(seed)
    L = rng.choice([6, 12, 16, 24, 32, 36, 48], n)
    y = k * L**-beta - np.abs(rng.normal(0, below, n)) + rng.normal(0, 0.01, n)
    return model_table(y * LN10, L=L, error=0.01)


def law_table(L, y, *, labs: int = 6):
    return model_table(y * LN10, L=L, labs=labs, error=0.01 * LN10, estimand="max_gain")


@pytest.fixture(scope="module")
def fitted():
    return fit_kleiber(frontier_table(1), "penultimate_gain", seed=1)


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
    centre = np.array([draws[n].mean() for n in FRONTIER])
    spread = 2 * np.array([draws[n].std() for n in FRONTIER])
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
    for name, values in zip(FRONTIER, (m, b, down, noise), strict=True):
        expected = np.average(values, weights=weights)
        assert draws[name].mean() == pytest.approx(expected, abs=0.15 * draws[name].std())


@pytest.mark.slow
def test_result_says_what_it_is_about(fitted):
    record = json.loads(json.dumps(fitted.to_dict(), allow_nan=False))
    assert record["estimand"] == "penultimate_gain"
    assert record["sources"] == ["simulated"]
    assert {"models", "quantiles", "rivals"} == set(record["tables"])
    models, beta = fitted.table("models"), fitted.summary().set_index("quantity").loc["beta"]
    exponent = -np.polyfit(np.log(models["n_layers"]), np.log(models["log10_gain"]), 1)[0]
    assert exponent == pytest.approx(beta["mean"], abs=3 * beta["sd"])
    gate = fitted.check()
    assert gate.passes, gate.reasons
    left_out = next(check for check in gate.checks if check.name == "influence").table["left_out"]
    units = ["nothing", *(f"lab{i}" for i in range(6)), *fitted.table("models")["model_id"]]
    assert left_out.tolist() == units * len(fitted.statements)
    symbols = {name for line in fitted.priors for name in line[0].split(", ")}
    assert symbols == {"m", "m′", "β", "β′", "σ", "τ", "ω", "η"}
    assert any("u_lab" in line for line in fitted.equations)
    assert fitted.plot().has_data()


@pytest.mark.slow
def test_above_the_bound_everywhere_and_nowhere():
    L = np.tile([6, 12, 24, 48], 5)
    # three times the bound: a constant above it would leave a second mode, β = 1 with labs that all lie as far above
    far = fit_kleiber(model_table(3 * LN10 / L, L=L), "penultimate_gain", seed=1)
    assert far.status == "passed"
    assert far.table("models")["p_above"].to_numpy() == pytest.approx(1, abs=1e-6)
    assert far.probabilities["new model at the middle depth above 10^(1/L)"] > 0.95
    under = fit_kleiber(model_table(LN10 / L - 0.2, L=L), "penultimate_gain", seed=1)
    assert under.table("models")["p_above"].to_numpy() == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
def test_rivals_find_what_made_the_gains():
    rng = np.random.default_rng(4)
    L = rng.choice([6, 12, 24, 32, 48], 30)
    claimed = model_table((1 / L + rng.normal(0, 0.005, 30)) * LN10, L=L, error=0.001)
    by_depth = fit_kleiber(claimed, "penultimate_gain", seed=1)
    assert by_depth.table("rivals")["rival"].iloc[0] == "published"
    x = np.linspace(-3, 0, 30)
    dense = model_table((0.1 - 0.05 * x + rng.normal(0, 0.005, 30)) * LN10, L=L, rho=np.exp(x))
    by_density = fit_kleiber(dense, "penultimate_gain", seed=1).table("rivals")
    assert by_density["rival"].iloc[0] == "density"
    assert by_density.set_index("rival").loc["density", ["difference_model", "difference_lab"]].tolist() == [0, 0]


@pytest.mark.slow
def test_the_exponent_is_recovered_and_zero_is_not_taken_for_a_fall():
    """β of 100 tables: no bias beyond its error; with β = 0, P(β > 0) > 0.95 in at most 5%, by a binomial bound."""
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
    fitted = fit_kleiber(frontier_table(5, n=12).assign(heritage="one"), "penultimate_gain", seed=1)
    assert any("only one lab" in words for words in fitted.warnings)
    assert "lab_sd" not in fitted.quantities
    assert "elpd_lab" not in fitted.table("rivals")
    assert not any("u_lab" in line for line in fitted.equations)
    each = frontier_table(6, n=8)
    each = each.assign(heritage=each["model_id"], rho=np.nan, n_params_nonembedding=7.0)
    said = " ".join(fit_kleiber(each, "penultimate_gain", seed=1).warnings)
    for words in ("one model of every lab", "rival density left out", "rival scale left out"):
        assert words in said


def test_without_a_lab_that_leaves_one_depth_only_the_gains_are_asked():
    L = np.array([12, 12, 12, 12, 24, 36])
    table = model_table(0.3 + 0.02 * np.arange(6), L=L).assign(heritage=[*["alike"] * 4, *["apart"] * 2])
    rests = dict(depth._left_out(bounded_rows(table, "penultimate_gain"), seed=1))
    assert set(rests["apart"]) == {"excess"} and rests["apart"]["excess"].shape[-1] == 4
    assert {"beta", "frontier_beta", "excess"} <= set(rests["alike"]) and len(rests) == 8


def test_prior_scale_follows_the_estimand():
    table = frontier_table(1).assign(geometric_gain=np.linspace(1.04, 1.06, len(frontier_table(1))))
    assert bounded_rows(table, "penultimate_gain").depths.scale == SCALE
    middle = np.exp(np.log(table["n_layers"]).mean())
    assert bounded_rows(table, "geometric_gain").depths.scale == pytest.approx(SCALE / (middle - 2) ** 0.5)
    assert bounded_rows(table, "geometric_gain", scale=0.2).depths.scale == 0.2
    with pytest.raises(UsageError, match="prior scale"):
        bounded_rows(table, "penultimate_gain", scale=0.0)


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


@pytest.mark.slow
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


def test_no_quantile_line_where_every_gain_is_below_one():
    assert quantile_power_law(np.array([6.0, 12, 24, 48]), -np.ones(4), seed=1).empty


def test_a_thousand_models_get_asymptotic_intervals():
    rng = np.random.default_rng(6)
    L = rng.uniform(6, 80, 1000)
    row = quantile_power_law(L, L**-1.0 * np.exp(rng.normal(0, 0.3, 1000)), (0.9,), seed=1).iloc[0]
    assert row["interval"].startswith("asymptotic")
    assert row["beta_lower"] < 1 < row["beta_upper"]


def some_depths(seed: int, *, envelope: bool, n: int = 24, labs: int = 6) -> tuple[Depths, dict[str, float]]:
    rng = np.random.default_rng(seed)
    truth = depth_truth(rng)
    L, y = depth_outcomes(rng, truth, envelope=envelope, n=n, labs=labs)
    x = np.log(L / np.exp(np.log(L).mean()))
    return Depths(y=y, x=x, error=np.full(n, 0.01), groups=np.arange(n) % labs, n_groups=labs, scale=0.3), truth


def test_density_of_the_envelope_is_a_proper_one_and_that_of_its_parts():
    grid = np.linspace(-3, 2, 20_001)
    density = np.exp(frontier_density(grid, np.array(0.2), np.array(0.4), np.array(0.1)))
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=1e-6)
    rng = np.random.default_rng(1)
    y = 0.2 - np.abs(rng.normal(0, 0.4, 200_000)) + rng.normal(0, 0.1, 200_000)
    assert np.trapezoid(density * grid, grid) == pytest.approx(y.mean(), abs=0.003)


@pytest.mark.slow
@pytest.mark.parametrize("envelope", [False, True])
def test_intervals_cover_tables_from_the_prior(envelope):
    inside = []
    for i in range(100):
        depths, truth = some_depths(500 * envelope + i, envelope=envelope)
        drawn = frontier(depths, seed=i, draws=3000)[0] if envelope else curve(depths, seed=i, draws=1500).values
        inside.append(within([truth[name] for name in drawn], np.column_stack(list(drawn.values()))))
    assert_covered(inside)


def test_evidence_is_the_integral_over_the_prior():
    depths, _ = some_depths(7, envelope=True, n=5, labs=2)
    rng = np.random.default_rng(2)
    n = 100_000
    m, below, noise = (np.abs(rng.normal(0, s, (n, 1))) for s in (0.3, 0.3, 0.05))
    top = m * np.exp(-rng.normal(0.5, 1, (n, 1)) * depths.x)
    each = frontier_density(depths.y, top, below, np.hypot(noise, depths.error)).sum(axis=1)
    weights = np.exp(each - each.max())
    error = weights.std() / weights.mean() / n**0.5
    assert frontier(depths, seed=1)[2] == pytest.approx(logsumexp(each) - np.log(n), abs=0.08 + 4 * error)
    beta = rng.normal(0.5, 1, 2000)
    each = np.array([log_evidence(node(depths, b)) for b in beta])
    weights = np.exp(each - each.max())
    error = weights.std() / weights.mean() / beta.size**0.5
    assert curve(depths, seed=1).found.log_evidence == pytest.approx(logsumexp(each) - np.log(beta.size), abs=4 * error)


def test_transforms_of_left_out_models_are_uniform_on_average():
    pits = []
    for i in range(4):
        for envelope in (True, False):
            depths, _ = some_depths(900 + i, envelope=envelope, n=12, labs=4)
            pits.append(left_out_pit(depths, [str(k % 6) for k in range(12)], envelope=envelope, seed=i))
    assert abs(np.mean(pits) - 0.5) < 4 * (1 / 12 / 96) ** 0.5


@pytest.mark.slow
def test_a_curve_with_two_modes_is_summed_over_both():
    """Gains on a curve: labs alike and β about 0.45, or labs apart and β about 1; against 3000 nodes of equal spacing.

    Chains stay in one of them.
    """
    L = np.tile([6, 12, 24, 48], 5)
    depths = Depths(
        y=1 / L + 0.2 / LN10,
        x=np.log(L / np.exp(np.log(L).mean())),
        error=np.full(20, 0.01 / LN10),
        groups=np.arange(20) % 6,
        n_groups=6,
        scale=0.3,
    )
    grid = np.linspace(-0.5, 2.5, 3001)
    density = np.array([log_evidence(node(depths, b)) for b in grid]) - 0.5 * (grid - 0.5) ** 2
    weights = np.exp(density - logsumexp(density))
    found = curve(depths, seed=1, draws=20_000)
    assert found.settled
    for below in (0.4, 0.5, 0.7, 0.9, 1.0):
        assert (found.beta < below).mean() == pytest.approx(weights[grid < below].sum(), abs=0.015)
    low = found.beta < 0.7
    assert 0.05 < low.mean() < 0.5
    assert np.median(found.found.tau[low]) < 0.02
    assert np.median(found.found.tau[~low]) > 0.05


def curve_model(pm, data):
    """The curve as its equations say it, nothing summed out."""
    m, beta = pm.Normal("middle", 0, data["scale"]), pm.Normal("beta", 0.5, 1)
    sigma, centre = pm.HalfNormal("sigma", data["share"]), m * pm.math.exp(-beta * data["x"])
    if data["labs"]:
        raw = pm.Normal("raw", 0, 1, shape=data["labs"])
        centre = centre + pm.math.dot(data["member"], pm.HalfNormal("tau", data["share"]) * raw)
    pm.Normal("outcome", centre, pm.math.sqrt(sigma**2 + data["error"] ** 2), observed=data["y"])


def sampled_envelope(depths: Depths, seed: int) -> sampling.Draws:
    return sampling.fit(envelope_model, envelope_data(depths), seed=seed, settings=STEPS, cache=False)


@pytest.mark.slow
@pytest.mark.parametrize("labs", [0, 6])
def test_the_seam_and_the_exact_posteriors_agree(labs):
    depths, _ = some_depths(3, envelope=False)
    depths = Depths(**{**vars(depths), "n_groups": labs, "y": depths.y + 0.1})
    data = {name: getattr(depths, name) for name in ("y", "x", "error", "scale", "share")}
    data |= {"labs": labs, "member": (depths.groups[:, None] == np.arange(labs)).astype(float)}
    sampled = sampling.fit(curve_model, data, seed=1, settings=STEPS, cache=False)
    assert sampled.status == "passed"
    through, _ = draw_curve(depths, seed=1)
    top = sampled_envelope(depths, seed=1)
    assert through.status == top.status == "passed"
    pairs = [(sampled[name], through[name]) for name in CURVE[: 4 if labs else 3]]
    pairs += [(top[name], values) for name, values in frontier(depths, seed=1, draws=20_000)[0].items()]
    for one, other in pairs:
        assert one.mean() == pytest.approx(other.mean(), abs=0.15 * other.std())
        assert one.std() == pytest.approx(other.std(), rel=0.12)


def test_a_curve_that_did_not_settle_fails_its_gate(monkeypatch):
    monkeypatch.setattr(depth, "HALVINGS", 1)
    depths, _ = some_depths(3, envelope=False)
    draws, _ = draw_curve(depths, seed=1)
    assert draws.status == "inconclusive: sampler"
    assert "quadrature" in draws.diagnostics.name


def test_probability_above_is_calibrated():
    """P(true value > bound) at the true value is uniform over samples of 5 prompts."""
    samples = 0.3 + np.random.default_rng(10).normal(0, 1, (500, 5))
    error = samples.std(axis=1, ddof=1) / 5**0.5
    stated = probability_above(samples.mean(axis=1), error, np.full(500, 0.3), np.full(500, 5.0))
    assert stats.kstest(stated, "uniform").pvalue > 0.001

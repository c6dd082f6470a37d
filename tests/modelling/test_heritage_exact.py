"""The heritage model's draws: against quadrature, against NUTS, calibrated by simulation, with very
many models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from calibrated import FALSE_ALARM, uniform
from scipy import stats

from thermostats.modelling.draws import Settings
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.heritage.law import (
    ORDER,
    SKEW,
    STANDARD,
    STUDENT,
    compute_contributions,
    compute_quantities,
    list_bases,
    log_gains,
    mark_ordered,
)
from thermostats.modelling.heritage.simulated import simulate_facts, simulate_heritage
from thermostats.modelling.model_gains import gain_rows

SHARES = {"heritage": 0.6, "geometry": 0.15, "scale": 0.05}


def simulated(n_models: int, n_labs: int, seed: int = 1, **options: float) -> pd.DataFrame:
    facts = simulate_facts(n_models, n_labs, np.random.default_rng(seed))
    return simulate_heritage(facts, shares=SHARES, seed=seed, **options).table


def test_it_is_the_posterior_by_quadrature() -> None:
    """Of labs alone the two variances are summed over a grid, with the whole covariance at every
    node."""
    one = simulated(18, 6, n_prompts=1)
    fit = fit_heritage(one, blocks={"heritage": ["heritage"]})
    y, basis = fit.model.y, list_bases(fit.design)["heritage"]
    assert (fit.model.error == 0).all()
    nodes = np.array([(h, m) for h in np.linspace(-14, 2, 60) for m in np.linspace(-14, 2, 60)])
    total, share = np.exp(nodes).sum(axis=1), np.exp(nodes[:, 0]) / np.exp(nodes).sum(axis=1)
    density = np.empty(len(nodes))
    for i, (h, m) in enumerate(nodes):
        covariance = np.ones((18, 18)) + np.exp(h) * basis @ basis.T + np.exp(m) * np.eye(18)
        density[i] = stats.multivariate_normal.logpdf(y, np.zeros(18), covariance)
    log_prior = (
        stats.halfnorm.logpdf(np.sqrt(total), scale=0.5) - np.log(total) / 2
    )  # of τ², shares uniform
    log_jacobian = nodes.sum(axis=1) - np.log(total)  # of both variances to τ² and the share
    weight = np.exp(density + log_prior + log_jacobian - (density + log_prior + log_jacobian).max())
    weight /= weight.sum()
    drawn = fit.quantities
    assert drawn["total_sd"].mean() == pytest.approx(weight @ np.sqrt(total), rel=0.02)
    assert drawn["share_heritage"].mean() == pytest.approx(weight @ share, abs=0.015)
    assert drawn["share_heritage"].std() == pytest.approx(
        np.sqrt(weight @ share**2 - (weight @ share) ** 2), rel=0.06
    )


def test_published_rows_leave_the_order_open() -> None:
    """What docs/how-to/heritage.md says; block SDs of the posterior that was published with the
    first report."""
    rows = gain_rows("penultimate_gain")
    fit = fit_heritage(rows[rows["source"].str.endswith(".json")], estimand="penultimate_gain")
    assert 0.155 < fit.probabilities[ORDER] < 0.2
    means = {
        name: fit.quantities[f"sd_{name}"].mean()
        for name in ("heritage", "geometry", "scale", "family")
    }
    assert means == pytest.approx(
        {"heritage": 0.046, "geometry": 0.063, "scale": 0.035, "family": 0.078}, abs=0.004
    )
    assert fit.check(refits=False).passes


@pytest.mark.parametrize(("n_models", "n_labs"), [(96, 16)])
def test_many_models_of_five_noisy_prompts_keep_their_weights(n_models: int, n_labs: int) -> None:
    """Each unknown error moves the density; drawn without regard to the means the weights would
    fail."""
    fit = fit_heritage(
        simulated(n_models, n_labs, prompt_sd=0.2, nu=30, n_prompts=5), estimand="simulated"
    )
    assert fit.status == "passed", fit.draws.failures()
    assert fit.draws.effective > 1000


def agree(exact: Fit, sampled: Fit, *, rel: float, p: float) -> None:
    assert sampled.status == "passed", sampled.draws.failures()
    for name, values in exact.reported.items():
        assert sampled.reported[name].mean() == pytest.approx(
            values.mean(), abs=rel * values.std()
        ), name
        assert sampled.reported[name].std() == pytest.approx(values.std(), rel=0.12), name
    for order, probability in exact.probabilities.items():
        assert sampled.probabilities[order] == pytest.approx(probability, abs=p), order


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))]
)
def test_it_agrees_with_nuts(seed: int) -> None:
    """Lab effects of 10,000 degrees of freedom are normal, but for PyMC to draw; errors of five
    prompts are unknown."""
    table = simulated(22, 5, seed, prompt_sd=0.1, nu=30, n_prompts=5)
    exact = fit_heritage(table, estimand="simulated", settings=Settings(draws=3000))
    sampled = fit_heritage(table, estimand="simulated", lab_df=1e4)
    assert (exact.draws.engine, sampled.draws.exact) == ("exact", False)
    agree(exact, sampled, rel=0.12, p=0.04)
    m = [log_gains(fit.draws.values, fit.design).mean(axis=(0, 1)) for fit in (exact, sampled)]
    assert m[1] == pytest.approx(m[0], abs=0.01)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("residuals", [STUDENT, SKEW])
def test_residuals_that_are_not_normal_are_found(residuals: str) -> None:
    """Three outliers, or a tail to the right; a model of normal residuals predicts models left out
    less well."""
    rng = np.random.default_rng(1)
    facts = simulate_facts(60, 12, rng)
    off = (
        rng.standard_t(2.2, 60) * 0.05
        if residuals == STUDENT
        else 0.15 * (rng.exponential(size=60) - 1)
    )
    table = facts.assign(
        gain=np.exp(off + 0.1 * rng.normal(size=12)[np.arange(60) % 12]), gain_sd=0.02, n_prompts=25
    )
    fits = [fit_heritage(table, residuals=law) for law in ("normal", residuals)]
    assert fits[1].status == "passed", fits[1].draws.failures()
    assert fits[1].loo().elpd > fits[0].loo().elpd
    values, design = fits[1].draws.values, fits[1].design
    parts = compute_contributions(values, design)
    m = log_gains(values, design)
    assert m.mean(axis=(0, 1)) == pytest.approx(design.gaussian.y, abs=0.02)
    assert sum(parts.values()) + values["beta"] == pytest.approx(m)
    new = fits[1].predict(facts.head(2).assign(heritage="never seen", model_id=["a", "b"]))
    assert np.isfinite(new.filter(like="_sd")).all(axis=None)


def after_prior(simulations: int, size: int, seed: int) -> pd.DataFrame:
    """Ranks of the truth among so many posterior draws, of data sets from the prior, on 12 models
    of 4 labs.

    For the order: its posterior probability, and whether it is true.
    """
    rng = np.random.default_rng(seed)
    facts = simulate_facts(12, 4, rng).assign(error=0.03, freedom=6.0)
    laid, rows = STANDARD.design_rows(facts), []
    truth = laid.model.draw_prior(simulations, rng)
    real = compute_quantities({name: values[None] for name, values in truth.items()}, laid)
    for i, y in enumerate(truth["y"]):
        again = STANDARD.design_rows(facts.assign(log_gain=y))
        draws = again.model.sample(seed=int(rng.integers(2**31)))
        drawn = compute_quantities(
            {name: values[None] for name, values in draws.few(size).items()}, again
        )
        names = [name for name in drawn if name.startswith(("sd_", "share_", "total", "mean_log"))]
        row = {name: float((drawn[name] < real[name][0, i]).sum()) for name in names}
        row["passed"] = float(draws.status == "passed")
        rows.append(
            row
            | {
                "p": float(mark_ordered(ORDER, drawn).mean()),
                "true": float(mark_ordered(ORDER, real)[0, i]),
            }
        )
    return pd.DataFrame(rows)


@pytest.mark.slow
@pytest.mark.long
def test_it_is_calibrated() -> None:
    """Talts et al. 2018, arXiv:1804.06788: ranks are uniform; the order is true as often as its
    probability says."""
    found = after_prior(300, 500, seed=1)
    assert found["passed"].mean() >= 0.97
    quantities_ranked = found.columns.drop(["p", "true", "passed"])
    for name in quantities_ranked:
        assert uniform((found[name].to_numpy() + 0.5) / 501) > FALSE_ALARM / len(
            quantities_ranked
        ), name
    error = np.sqrt((found["p"] * (1 - found["p"])).sum())
    assert abs(found["true"].sum() - found["p"].sum()) < 3.3 * error
    assert np.square(found["true"] - found["p"]).mean() < 0.9 * found["true"].var()


@pytest.mark.slow
@pytest.mark.long
def test_intervals_cover_where_spreads_come_from_five_prompts() -> None:
    """The whole way from prompts, their spreads log-normal over models, shares from the prior."""
    rng, inside = np.random.default_rng(3), []
    for seed in range(200):
        share = dict(
            zip(("heritage", "geometry", "scale"), rng.dirichlet(np.ones(4)), strict=False)
        )
        one = simulate_heritage(
            simulate_facts(22, 5, rng),
            shares=share,
            total=0.2,
            prompt_sd=0.08,
            nu=200,
            seed=seed,
            n_prompts=5,
            n_categories=1,
        )
        rows = fit_heritage(one.table, estimand="simulated", settings=Settings(draws=500)).summary()
        inside += [
            rows["lower"][f"sd_{b}"] <= sd <= rows["upper"][f"sd_{b}"] for b, sd in one.sds.items()
        ]
    assert np.mean(inside) == pytest.approx(0.94, abs=0.03)

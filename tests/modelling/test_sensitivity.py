from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from test_quadrature import some_lines

from thermostats.modelling.inference import sensitivity as module
from thermostats.modelling.inference.draws import Settings
from thermostats.modelling.inference.quadrature import posterior
from thermostats.modelling.inference.sensitivity import (
    HEAVY,
    alternatives,
    heavy_errors,
    others_of,
    refitted,
    rescaled,
    sensitivity,
    weighted,
)
from thermostats.modelling.laws import lines as linear


def test_every_alternative_is_a_refit_of_its_own():
    lines = some_lines(1, n=13, groups=5)
    named = alternatives(lines)
    assert set(named) == {
        "as stated",
        "half the prior scales",
        "twice the prior scales",
        "outcomes taken as exact",
        "no effects of labs",
    }
    table = sensitivity(lines, {"slope": lambda p: p.beta[:, 1]}, seed=1).set_index("alternative")
    assert set(table.index) == {*named, HEAVY}
    wide = posterior(named["twice the prior scales"], seed=1).beta[:, 1]
    assert table.loc["twice the prior scales", "median"] == np.median(wide)
    narrow, stated, wide_sd = (
        table.loc[n, "upper"] - table.loc[n, "lower"]
        for n in ("half the prior scales", "as stated", "twice the prior scales")
    )
    assert narrow < wide_sd
    assert narrow < 1.1 * stated


@pytest.mark.slow
@pytest.mark.parametrize("groups", [0, 5])
def test_t_errors_by_weights_are_those_that_are_sampled(groups, monkeypatch):
    """Rows near a line: weights and sampling agree. One row far from it: sampling has numbers where weights have none,
    and the level stays nearer to that of the other rows.
    """
    lines = some_lines(3, n=15, groups=groups)
    asked = {"level": lambda p: p.beta[:, 0], "slope": lambda p: p.beta[:, 1]}
    monkeypatch.setattr(linear, "STEPS", replace(linear.STEPS, draws=8000))
    found = posterior(lines, seed=1, draws=40_000)
    drawn = weighted({HEAVY: heavy_errors(lines, found)}, {k: of(found) for k, of in asked.items()}, 15)
    anew = linear.sensitivity_anew(lines, asked, 1, cache=False)
    drawn, anew = (table[table["alternative"] == HEAVY].set_index("quantity") for table in (drawn, anew))
    assert (drawn["pareto_k"] <= 0.7).all() and (anew["status"] == "passed").all()
    width = drawn["upper"] - drawn["lower"]
    for column in ("median", "lower", "upper"):
        assert ((drawn[column] - anew[column]).abs() < 0.05 * width).all(), column
    y = lines.y.copy()
    y[0] += 40 * lines.sigma_scale
    far = replace(lines, y=y)
    one = sensitivity(far, asked, seed=1).set_index(["alternative", "quantity"])
    assert one.loc[HEAVY, "median"].isna().all() and (one.loc[HEAVY, "pareto_k"] > 0.7).all()
    again = linear.sensitivity_anew(far, asked, 1, cache=False).set_index(["alternative", "quantity"])
    moved = (one.loc["as stated", "median"] - drawn["median"]).abs() - (
        again.loc[HEAVY, "median"] - drawn["median"]
    ).abs()
    assert moved["level"] > 0


def test_densities_of_t_errors_are_those_of_their_scale():
    """The sum over rows of log t₄(e/s) − log s, s = √(d/2), less log N(e; 0, d)."""
    lines = some_lines(4, n=7, groups=3)
    found = posterior(lines, seed=2, draws=5)
    mean = found.beta @ lines.X.T + found.effects[:, lines.groups]
    d = found.sigma[:, None] ** 2 + lines.error**2
    t = stats.t.logpdf(lines.y, 4, loc=mean, scale=np.sqrt(d / 2))
    assert heavy_errors(lines, found) == pytest.approx((t - stats.norm.logpdf(lines.y, mean, np.sqrt(d))).sum(axis=1))


def test_labs_of_one_model_are_left_out_where_there_are_some():
    lines = some_lines(2, n=11, groups=10)
    assert alternatives(lines)["without labs of one model"].y.size == 2


def test_weights_give_what_the_other_prior_would():
    """x ~ N(0, 1) under y = 1 with unit error: the mean is 1/2, with a prior of twice the scale 4/5."""
    x = np.random.default_rng(1).normal(0.5, 0.5**0.5, (4, 5000))
    ratios = {"twice": rescaled(x, 1.0, 2.0), "far": rescaled(10 * x, 1.0, 0.01)}
    table = weighted(ratios, {"x": x, "less 1": x - 1}, n=1).set_index(["alternative", "quantity"])
    assert table.loc[("as stated", "x"), "median"] == pytest.approx(np.median(x), abs=0.001)
    assert table.loc[("twice", "x"), "median"] == pytest.approx(0.8, abs=0.03)
    assert table.loc[("twice", "less 1"), "P(> 0)"] == pytest.approx(stats.norm.sf(0.2 / 0.8**0.5), abs=0.02)
    assert table.loc["far", ["P(> 0)", "median", "lower", "upper"]].isna().all(axis=None)
    assert (table.loc["far", "pareto_k"] > 0.7).all()


def test_rescaling_is_the_ratio_of_the_densities():
    x = np.random.default_rng(2).normal(size=(2, 5, 3))
    expected = (stats.norm.logpdf(x, 0, 0.6) - stats.norm.logpdf(x, 0, 0.3)).sum(axis=-1)
    assert rescaled(x, 0.3, 2.0) == pytest.approx(expected)


def test_the_posterior_as_stated_is_drawn_once(monkeypatch):
    lines, drawn = some_lines(1, n=13, groups=5), []
    monkeypatch.setattr(module, "posterior", lambda other, seed: drawn.append(other) or posterior(other, seed=seed))
    sensitivity(lines, {"slope": lambda p: p.beta[:, 1]}, seed=1)
    assert len(drawn) == len(alternatives(lines)) and drawn[0] is lines
    sampled = []

    def fit(model, data, **options):
        sampled.append(data["factor"])
        return SimpleNamespace(seed=options["seed"], status="passed", x=np.arange(8.0))

    monkeypatch.setattr(module.sampling, "fit", fit)
    others, stated = others_of({"factor": 1.0}), SimpleNamespace(seed=1, status="passed", x=np.arange(8.0) + 1)
    known = {"n": 5, "settings": Settings(), "cache": False, "stated": stated}
    table = refitted(None, others, lambda draws: {"x": draws.x}, seed=1, **known).set_index("alternative")
    assert sampled == [0.5, 2.0, 1.0] and table["median"]["as stated"] == 4.5
    refitted(None, others, lambda draws: {"x": draws.x}, seed=2, **known)
    assert sampled[3:] == [1.0, 0.5, 2.0, 1.0]

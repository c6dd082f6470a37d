import numpy as np
import pytest
from scipy import stats
from test_gaussian import some_lines

from thermostats.modelling.gaussian import posterior
from thermostats.modelling.sensitivity import alternatives, rescaled, sensitivity, weighted


def test_every_alternative_is_a_refit_of_its_own():
    lines = some_lines(1, n=13, groups=5)
    named = alternatives(lines)
    assert set(named) == {
        "as stated", "half the prior scales", "twice the prior scales", "outcomes taken as exact", "no effects of labs",
    }  # fmt: skip
    table = sensitivity(lines, {"slope": lambda p: p.beta[:, 1]}, seed=1).set_index("alternative")
    wide = posterior(named["twice the prior scales"], seed=1).beta[:, 1]
    assert table.loc["twice the prior scales", "median"] == np.median(wide)
    narrow, stated, wide_sd = (
        table.loc[n, "upper"] - table.loc[n, "lower"]
        for n in ("half the prior scales", "as stated", "twice the prior scales")
    )
    assert narrow < wide_sd
    assert narrow < 1.1 * stated


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

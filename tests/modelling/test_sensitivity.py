import numpy as np
import pytest
from sampled_lines import sampled
from scipy import stats
from test_quadrature import some_lines

from thermostats.modelling.inference.quadrature import posterior
from thermostats.modelling.inference.sensitivity import HEAVY, alternatives, heavy_errors, rescaled
from thermostats.modelling.inference.statements import sensitivity


def test_every_alternative_is_another_model_or_other_rows():
    lines = some_lines(1, n=13, groups=5)
    named = alternatives(lines)
    names = {"half the prior scales", "twice the prior scales", "outcomes taken as exact", "no effects of labs"}
    assert set(named) == names
    narrow, wide = (posterior(named[f"{n} the prior scales"], seed=1).beta[:, 1].std() for n in ("half", "twice"))
    assert narrow < wide


@pytest.mark.slow
@pytest.mark.parametrize("groups", [0, 5])
def test_t_errors_by_weights_are_those_that_are_sampled(groups):
    """Rows near a line: weights and sampling agree. One row far from it: the weights cannot be trusted, and say so."""
    lines = some_lines(3, n=15, groups=groups)
    found, draws = posterior(lines, seed=1, draws=40_000), sampled(lines, heavy=True, draws=8000)
    bars = {k: float(np.quantile(found.beta[:, k], 0.7)) for k in range(2)}
    asked = {f"{k}": lambda q, k=k, bar=bar: q["beta"][..., k] > bar for k, bar in bars.items()}
    table = sensitivity(asked, {"beta": found.beta[None]}, [], {HEAVY: heavy_errors(lines, found)})
    heavy = table[table["alternative"] == HEAVY].set_index("statement")
    assert (heavy["pareto_k"] <= 0.7).all() and draws.status == "passed"
    for k, bar in bars.items():
        expected = (draws.flat("beta")[:, k] > bar).mean()
        assert heavy["probability"][f"{k}"] == pytest.approx(expected, abs=0.03)


def test_densities_of_t_errors_are_those_of_their_scale():
    """The sum over rows of log t₄(e/s) − log s, s = √(d/2), less log N(e; 0, d)."""
    lines = some_lines(4, n=7, groups=3)
    found = posterior(lines, seed=2, draws=5)
    mean = found.beta @ lines.X.T + found.effects[:, lines.groups]
    d = found.sigma[:, None] ** 2 + lines.error**2
    t = stats.t.logpdf(lines.y, 4, loc=mean, scale=np.sqrt(d / 2))
    expected = (t - stats.norm.logpdf(lines.y, mean, np.sqrt(d))).sum(axis=1)
    assert heavy_errors(lines, found) == pytest.approx(expected)


def test_labs_of_one_model_are_left_out_where_there_are_some():
    lines = some_lines(2, n=11, groups=10)
    assert alternatives(lines)["without labs of one model"].y.size == 2


def test_rescaling_is_the_ratio_of_the_densities():
    x = np.random.default_rng(2).normal(size=(2, 5, 3))
    expected = (stats.norm.logpdf(x, 0, 0.6) - stats.norm.logpdf(x, 0, 0.3)).sum(axis=-1)
    assert rescaled(x, 0.3, 2.0) == pytest.approx(expected)

import math
from dataclasses import replace

import numpy as np
import pytest
from calibrated import assert_covered, within
from sampled_lines import sampled
from scipy import stats
from scipy.special import logsumexp

from thermostats.modelling.inference.held_out import held_out
from thermostats.modelling.inference.quadrature import Lines, log_evidence, posterior, predict
from thermostats.modelling.laws import lines as linear


def some_lines(seed: int, n: int = 18, groups: int = 5, *, truth: dict[str, float] | None = None) -> Lines:
    rng = np.random.default_rng(seed)
    t = {"a": 0.1, "b": 0.2, "tau": 0.2, "sigma": 0.1} | (truth or {})
    codes = np.arange(n) % max(groups, 1)
    X = np.column_stack([np.ones(n), rng.standard_normal(n)])
    effects = t["tau"] * rng.standard_normal(max(groups, 1)) * (groups > 0)
    y = X @ [t["a"], t["b"]] + effects[codes] + t["sigma"] * rng.standard_normal(n)
    return Lines(
        y=y,
        X=X,
        groups=codes,
        n_groups=groups,
        error=np.full(n, 0.02),
        mean=np.zeros(2),
        sd=np.full(2, 0.5),
        sigma_scale=0.5,
        tau_scale=0.5,
    )


@pytest.mark.parametrize("groups", [0, 5])
def test_evidence_is_the_integral_over_the_prior(groups):
    lines = some_lines(1, groups=groups)
    rng = np.random.default_rng(2)
    sigma, tau = np.abs(rng.normal(0, 0.5, (2, 8000)))
    same = (lines.groups[:, None] == lines.groups) * float(groups > 0)
    fixed = 0.25 * lines.X @ lines.X.T + np.diag(lines.error**2)
    each = [
        stats.multivariate_normal.logpdf(lines.y, cov=fixed + s**2 * np.eye(lines.y.size) + t**2 * same)
        for s, t in zip(sigma, tau, strict=True)
    ]
    weights = np.exp(each - np.max(each))
    error = weights.std() / weights.mean() / math.sqrt(weights.size)
    assert log_evidence(lines) == pytest.approx(logsumexp(each) - math.log(len(each)), abs=4 * error)


def drawn_truth(rng: np.random.Generator) -> dict[str, float]:
    """Quantities of `some_lines`, drawn from their priors."""
    truth = dict(zip(("a", "b"), rng.normal(0, 0.5, 2), strict=True))
    return truth | dict(zip(("sigma", "tau"), np.abs(rng.normal(0, 0.5, 2)), strict=True))


def test_intervals_of_every_quantity_cover_draws_from_the_prior():
    """Ranks are uniform, and intervals hold the truth as often as they say."""
    rng, ranks, inside = np.random.default_rng(5), [], []
    for i in range(150):
        truth = drawn_truth(rng)
        found = posterior(some_lines(100 + i, n=12, groups=4, truth=truth), seed=i, draws=500)
        drawn = np.column_stack([found.beta, found.sigma, found.tau])
        known = [truth[name] for name in ("a", "b", "sigma", "tau")]
        ranks.append((drawn < known).mean(axis=0))
        inside.append(within(known, drawn))
    for own in np.array(ranks).T:
        assert stats.kstest(own, "uniform").pvalue > 0.001
    assert_covered(inside)


def test_intervals_of_groups_left_out_cover():
    """Mean coverage of a table against its level: within tables rows are not independent, tables are."""
    rng = np.random.default_rng(6)
    inside = []
    for i in range(60):
        lines = some_lines(300 + i, n=16, groups=4, truth=drawn_truth(rng))
        left = held_out(lines, lines.groups.astype(str).tolist(), seed=i, draws=600)
        low, high = left.interval(0.9)
        inside.append(((low <= lines.y) & (lines.y <= high)).mean())
    assert abs(np.mean(inside) - 0.9) < stats.norm.isf(0.0005) * np.std(inside, ddof=1) / 60**0.5


def test_new_groups_are_wider_than_known_ones():
    lines = some_lines(3)
    found = posterior(lines, seed=1)
    new = replace(lines, groups=np.full(lines.y.size, -1))
    assert predict(found, new, seed=2).std(axis=0).min() > 1.3 * predict(found, lines, seed=2).std(axis=0).max()


@pytest.mark.slow
def test_the_sampler_and_the_quadrature_agree():
    lines = some_lines(8, n=22, groups=6)
    exact, draws = posterior(lines, seed=1, draws=20_000), sampled(lines)
    assert draws.status == "passed"
    pairs = [
        (exact.beta[:, 0], draws["beta"][..., 0]),
        (exact.beta[:, 1], draws["beta"][..., 1]),
        (exact.sigma, draws["sigma"]),
        (exact.tau, draws["tau"]),
        (exact.effects[:, 0], draws["effects"][..., 0]),
    ]
    for one, other in pairs:
        assert other.mean() == pytest.approx(one.mean(), abs=0.12 * one.std())
        assert other.std() == pytest.approx(one.std(), rel=0.1)


def test_replicates_follow_the_rows():
    lines = some_lines(8, n=22, groups=6)
    drawn = linear.sample(lines, seed=1).part(statistics={}).replicate(3)
    assert drawn.shape == (500, 22)
    assert np.corrcoef(drawn.mean(axis=0), lines.y)[0, 1] > 0.9


def test_slopes_have_no_bias_and_absent_ones_are_seldom_sure():
    slopes = {
        b: [posterior(some_lines(800 + i, truth={"b": b}), seed=i, draws=1000).beta[:, 1] for i in range(100)]
        for b in (0.0, 0.2)
    }
    middles = np.median(slopes[0.2], axis=1)
    assert abs(middles.mean() - 0.2) < stats.norm.isf(0.0005) * middles.std(ddof=1) / 10 + 0.005
    sure = [p > 0.95 or p < 0.05 for p in (np.array(slopes[0.0]) > 0).mean(axis=1)]
    assert sum(sure) <= stats.binom.isf(0.001, 100, 0.1)


def test_a_thousand_groups_take_seconds_and_follow_their_own_row():
    lines = some_lines(4, n=1000, groups=1000)
    found = posterior(lines, seed=1, draws=500)
    assert found.effects.shape == (500, 1000)
    shrunk = np.corrcoef(found.effects.mean(axis=0), lines.y - lines.X @ found.beta.mean(axis=0))[0, 1]
    assert shrunk > 0.99


def test_a_column_twice_and_a_constant_column_are_shared_by_their_priors():
    lines = some_lines(5, groups=0)
    twice = replace(lines, X=lines.X[:, [0, 1, 1]], mean=np.zeros(3), sd=np.full(3, 0.5 / 2**0.5))
    alone = replace(lines, X=lines.X[:, :2], sd=np.array([0.5 / 2**0.5, 0.5]))
    one, both = posterior(alone, seed=1, draws=20_000), posterior(twice, seed=2, draws=20_000)
    assert log_evidence(twice) == pytest.approx(log_evidence(alone), abs=1e-6)
    assert both.beta[:, 1:].sum(axis=1).mean() == pytest.approx(one.beta[:, 1].mean(), abs=0.002)
    assert both.beta[:, 1].std() > 3 * one.beta[:, 1].std()

"""Posteriors of nuisances: against dense matrices, known distributions, and their own priors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling import nuisances
from thermostats.modelling.nuisances import AR, DECLARED, RATIO, SHARE, SKEW, TAILS

Array = NDArray[Any]
SIZES = (9, 7, 5, 5, 4, 4, 3, 2, 2, 1, 1, 1)
"""Models of twelve labs."""


def make_models(rng: np.random.Generator, sizes: tuple[int, ...] = SIZES) -> pd.DataFrame:
    """Labs, and three columns of shape."""
    lab = np.repeat(np.arange(len(sizes)), sizes)
    shape = {name: rng.normal(size=len(lab)) for name in ("depth", "heads", "width")}
    return pd.DataFrame({"lab": [f"lab {code}" for code in lab], **shape})


def draw_errors(
    rng: np.random.Generator, rows: pd.DataFrame, ar: Array, ratio: Array, share: Array
) -> Array:
    """Normal errors with these nuisances, one study for each value of them."""
    order = np.argsort(rows["depth"].to_numpy(), kind="stable")
    lab = pd.factorize(rows["lab"])[0]
    n, studies = len(rows), len(ar)
    chain = rng.normal(size=(studies, n))
    for place in range(1, n):
        new = np.sqrt(1 - ar**2) * chain[:, place]
        chain[:, place] = ar * chain[:, place - 1] + new
    errors = np.empty_like(chain)
    errors[:, order] = chain
    levels = rng.normal(size=(studies, lab.max() + 1))[:, lab]
    errors = np.sqrt(share)[:, None] * levels + np.sqrt(1 - share)[:, None] * errors
    steps = rows["depth"].rank().sub(1).div(n - 1).to_numpy()
    return np.asarray(errors * ratio[:, None] ** steps)


def test_restricted_likelihood_is_that_of_dense_contrasts() -> None:
    rng = np.random.default_rng(3)
    rows = make_models(rng, (4, 3, 3, 2, 1))
    rows.loc[3, "depth"] = rows.loc[4, "depth"]
    y, n = rng.normal(size=(2, 13)), 13
    x = nuisances.span_columns(rows, ["depth", "heads"])
    lab, column = pd.factorize(rows["lab"])[0], rows["depth"].to_numpy()
    nodes = {AR: np.array([0.0, 0.4]), RATIO: np.array([0.5, 1.0, 4.0]), SHARE: np.array([0, 0.7])}
    levels = nuisances.indicate_groups(lab)
    found = nuisances.measure_dependence_density(y, x, column, levels, nodes)

    contrasts = np.linalg.svd(x)[0][:, x.shape[1] :]
    order = np.argsort(column, kind="stable")
    place = np.empty(n)
    place[order] = np.arange(n)
    rank = stats.rankdata(column)
    steps = (rank - rank.min()) / np.ptp(rank)
    expected = np.empty(found.shape)
    for i, ar in enumerate(nodes[AR]):
        for j, ratio in enumerate(nodes[RATIO]):
            for k, share in enumerate(nodes[SHARE]):
                chain = ar ** np.abs(place[:, None] - place)
                covariance = share * (lab[:, None] == lab) + (1 - share) * chain
                scale = ratio**steps
                v = contrasts.T @ (covariance * np.outer(scale, scale)) @ contrasts
                left = y @ contrasts
                squares = np.einsum("si,ij,sj->s", left, np.linalg.inv(v), left)
                prior = stats.norm.logpdf(math.atanh(ar), scale=math.atanh(0.6) / 1.959964)
                prior += stats.norm.logpdf(math.log(ratio), scale=math.log(3) / 1.959964)
                prior += stats.beta.logpdf(share, 1, 3.2694)
                likelihood = -(np.linalg.slogdet(v)[1] + len(v) * np.log(squares)) / 2
                expected[i, j, k] = prior + likelihood
    expected = np.exp(expected - expected.max(axis=(0, 1, 2)))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_what_rows_cannot_tell_keeps_the_declared_bound() -> None:
    one = np.ones((1, 1))
    for name, nodes, prior in (
        (AR, nuisances.AR_NODES, stats.norm.pdf(np.arctanh(nuisances.AR_NODES), scale=0.35365)),
        (
            RATIO,
            nuisances.RATIO_NODES,
            stats.norm.pdf(np.log(nuisances.RATIO_NODES), scale=0.56053),
        ),
        (SHARE, nuisances.SHARE_NODES, stats.beta.pdf(nuisances.SHARE_NODES, 1, 3.27)),
        (TAILS, nuisances.TAILS_NODES, stats.norm.pdf(nuisances.TAILS_NODES, scale=1 / 5.87989)),
        ("spread", nuisances.SPREAD_NODES, stats.norm.pdf(nuisances.SPREAD_NODES, scale=0.35715)),
    ):
        upper = nuisances.NuisancePosterior(nodes, one * prior).bound(name)[1]
        assert upper[0] == pytest.approx(getattr(DECLARED, name), rel=0.015), name
    rng = np.random.default_rng(1)
    rows = make_models(rng)
    own = nuisances.span_columns(rows, ["lab"])
    found = nuisances.estimate_dependence(
        rng.normal(size=(1, 44)), own, groups=pd.factorize(rows.lab)[0]
    )
    assert found[SHARE].bound(SHARE)[1][0] == pytest.approx(0.6, abs=0.01)
    assert set(found) == {SHARE}


def test_wider_bounds_are_those_of_the_rule() -> None:
    wider = nuisances.Bounds(0.47, 2.1, 0.5, (-0.33, 0.28), 0.3, 0.4).widen()
    assert wider.ar == pytest.approx(2 * 0.47 / (1 + 0.47**2))
    assert wider.ratio == pytest.approx(4.41)
    assert wider.share == pytest.approx(0.8)
    assert wider.skew == (-0.66, 0.56)
    assert (wider.tails, wider.spread) == (0.6, 0.8)


def test_large_nuisances_are_found_and_none_is_not() -> None:
    rng = np.random.default_rng(8)
    rows = make_models(rng, tuple([20] * 20))
    x, lab = nuisances.span_columns(rows, ["depth", "heads"]), pd.factorize(rows["lab"])[0]
    column = rows["depth"].to_numpy()
    truth = np.array([0.5, 0.0]), np.array([3.0, 1.0]), np.array([0.5, 0.0])
    found = nuisances.estimate_dependence(draw_errors(rng, rows, *truth), x, column, lab)
    for name, (large, none) in zip((AR, RATIO, SHARE), truth, strict=True):
        middle, upper = found[name].quantile(0.5), found[name].bound(name)[1]
        assert middle[0] == pytest.approx(large, rel=0.25), name
        assert none <= upper[1] < (large + none) / 2, name


def test_direction_of_a_ratio_does_not_matter() -> None:
    rng = np.random.default_rng(8)
    rows = make_models(rng)
    x, column = nuisances.span_columns(rows, []), rows["depth"].to_numpy()
    y = draw_errors(rng, rows, np.zeros(1), np.full(1, 5.0), np.zeros(1))
    ends = [
        nuisances.estimate_dependence(y, x, way, ordered=False)[RATIO].bound(RATIO)[1]
        for way in (column, -column)
    ]
    np.testing.assert_allclose(*ends, rtol=1e-9)
    assert ends[0] > 3


def test_columns_of_two_values_have_no_neighbours() -> None:
    rng = np.random.default_rng(8)
    rows = make_models(rng)
    x, y = nuisances.span_columns(rows, ["depth"]), rng.normal(size=(1, len(rows)))
    focal = (rows["lab"] == "lab 0").to_numpy(float)
    assert set(nuisances.estimate_dependence(y, x, focal)) == {RATIO}
    assert set(nuisances.estimate_dependence(y, x, rows["depth"].to_numpy())) == {AR, RATIO}


def test_names_are_levels_and_numbers_are_slopes() -> None:
    rows = make_models(np.random.default_rng(2))
    assert nuisances.span_columns(rows, []).shape[1] == 1
    assert nuisances.span_columns(rows, ["lab", "depth", "heads"]).shape[1] == 12 + 2
    twice = rows.assign(again=rows["depth"] * 3 + 1, focal=rows["lab"] == "lab 0")
    assert nuisances.span_columns(twice, ["depth", "again", "focal"]).shape[1] == 3


def test_statistics_of_shape_are_the_known_ones() -> None:
    rng = np.random.default_rng(4)
    skewed = rng.gamma(2.0, size=(3, 50))
    np.testing.assert_allclose(nuisances.measure_skewness(skewed), stats.skew(skewed, axis=1))
    places = (np.arange(20000) + 0.5) / 20000
    known = {"uniform": (places, 0.0), "normal": (stats.norm.ppf(places), 0.1226)}
    known["logistic"] = (stats.logistic.ppf(places), 1 / 6)
    for name, (values, expected) in known.items():
        found = nuisances.measure_kurtosis(values[None])[0]
        assert found == pytest.approx(expected, abs=2e-3), name


def test_skewed_and_tailed_errors_are_told_from_normal_ones() -> None:
    rng = np.random.default_rng(5)
    rows = make_models(rng, tuple([12] * 10))
    x, n = nuisances.span_columns(rows, ["depth", "heads", "width"]), len(rows)
    shapes = nuisances.Shapes.simulate(x, seed=2, studies=1000)
    errors = np.stack([np.exp(rng.normal(size=n)), -np.exp(rng.normal(size=n)), rng.normal(size=n)])
    lower, upper = shapes.estimate(errors)[SKEW].bound(SKEW)
    assert lower[0] == 0 and upper[0] > 0.6
    assert lower[1] < -0.6 and upper[1] == 0
    assert lower[2] < 0 < upper[2] and upper[2] - lower[2] < 0.6
    tails = shapes.estimate(np.stack([rng.standard_t(2.2, n), rng.normal(size=n)]))[TAILS]
    assert tails.quantile(0.5)[0] > 0.25 > tails.bound(TAILS)[1][1]

    shortest = shapes.estimate(np.where(rng.random((1, n)) < 0.5, -1.0, 1.0))[TAILS]
    assert shortest.bound(TAILS)[1][0] < 0.15


def test_residuals_in_units_of_their_groups_forget_unlike_sds() -> None:
    rng = np.random.default_rng(5)
    rows = make_models(rng, tuple([30] * 8))
    x, lab = nuisances.span_columns(rows, ["lab"]), pd.factorize(rows["lab"])[0]
    y = rng.normal(size=(1, len(rows)))
    unlike = y * np.exp(rng.normal(size=8))[lab]
    kurtosis = [
        nuisances.measure_kurtosis(nuisances.studentise(values, x, scaled))[0]
        for values, scaled in ((unlike, None), (unlike, lab), (y, lab))
    ]
    assert kurtosis[0] > 0.2 and kurtosis[1] == pytest.approx(kurtosis[2])


def test_unlike_sds_of_groups_are_found() -> None:
    rng = np.random.default_rng(6)
    rows = make_models(rng, tuple([12] * 20))
    x, lab = nuisances.span_columns(rows, ["depth"]), pd.factorize(rows["lab"])[0]
    y = rng.normal(size=(1, len(rows))) * np.exp(0.8 * rng.normal(size=20))[lab]
    even = rng.normal(size=(1, len(rows)))
    spread = nuisances.estimate_spread(np.concatenate([y, even]), x, lab)
    assert spread is not None
    assert spread.quantile(0.5)[0] == pytest.approx(0.8, abs=0.25)
    assert spread.bound("spread")[1][1] < 0.25
    alone = nuisances.estimate_spread(even, x, np.zeros(len(rows), dtype=np.intp))
    assert alone is None


@pytest.mark.parametrize("fit", ["dependence", "shapes", "spread"])
def test_too_few_rows_are_refused(fit: str) -> None:
    rows = make_models(np.random.default_rng(1), (3, 2, 2, 1))
    x, y = nuisances.span_columns(rows, ["depth", "heads", "width"]), np.ones((1, 8))
    with pytest.raises(UsageError, match=r"got 8 rows and \d columns; allowed: 5 rows or more"):
        if fit == "dependence":
            nuisances.estimate_dependence(y, x)
        elif fit == "shapes":
            nuisances.Shapes.simulate(x, seed=1)
        else:
            nuisances.estimate_spread(y, x, pd.factorize(rows["lab"])[0])


STUDIES = 600
CLOSE = 0.03
"""Over three standard errors of a coverage of 95%; that of the log-SD, whose χ² is not exact where
slopes were fitted with one weight, may be as much lower again."""


@pytest.mark.slow
def test_bounds_hold_as_often_as_they_say_where_truth_comes_from_the_prior() -> None:
    rng = np.random.default_rng(11)
    rows = make_models(rng)
    x, lab = nuisances.span_columns(rows, ["depth", "heads", "width"]), pd.factorize(rows.lab)[0]
    n, column = len(rows), rows["depth"].to_numpy()
    half = {name: np.abs(rng.normal(size=STUDIES)) for name in (AR, TAILS, "spread")}
    ar = np.tanh(half[AR] * nuisances.AR_SCALE)
    log_ratio = rng.normal(size=STUDIES) * nuisances.RATIO_SCALE
    share = rng.beta(1, nuisances.BETA, size=STUDIES)
    errors = draw_errors(rng, rows, ar, np.exp(log_ratio), share)
    found = nuisances.estimate_dependence(errors, x, column, lab)
    truth = {AR: ar, RATIO: np.exp(np.abs(log_ratio)), SHARE: share}
    holds = {name: (true <= found[name].bound(name)[1]).mean() for name, true in truth.items()}

    shapes = nuisances.Shapes.simulate(x, seed=12)
    sigma = rng.normal(size=STUDIES) * nuisances.SKEW_SCALE
    normal = rng.normal(size=(STUDIES, n))
    skewed = np.sign(sigma)[:, None] * np.expm1(np.abs(sigma)[:, None] * normal)
    posterior = shapes.estimate(skewed / np.abs(sigma)[:, None])[SKEW]
    holds["skew, upper"] = (sigma <= posterior.quantile(0.95)).mean()
    holds["skew, lower"] = (sigma >= posterior.quantile(0.05)).mean()
    tails = half[TAILS] * nuisances.TAILS_SCALE
    tailed = np.stack([rng.standard_t(1 / each, n) for each in tails])
    holds[TAILS] = (tails <= shapes.estimate(tailed)[TAILS].bound(TAILS)[1]).mean()
    for name, rate in holds.items():
        assert rate == pytest.approx(0.95, abs=CLOSE), name

    spread = half["spread"] * nuisances.SPREAD_SCALE
    unlike = np.exp(spread[:, None] * rng.normal(size=(STUDIES, lab.max() + 1)))[:, lab]
    unlikeness = nuisances.estimate_spread(normal * unlike, x, lab)
    assert unlikeness is not None
    rate = (spread <= unlikeness.bound("spread")[1]).mean()
    assert 0.95 - 2 * CLOSE < rate < 0.95 + CLOSE

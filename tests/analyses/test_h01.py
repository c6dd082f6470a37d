"""H01: models of labs and families that are alike, models that are not, and sources that are
alike."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, analysis, shipped
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.heritability import (
    SHARES,
    SOURCES,
    build_lab_covariance,
    estimate_heritabilities,
)
from thermostats.modelling.tree_likelihood import Restricted
from thermostats.plots.general import set_house_style


def models(n_labs: int = 10, each: int = 6, lam: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Models of labs with two families each; a share `lam` of the variance drifts along labs and
    families."""
    rng = np.random.default_rng(seed)
    lab = np.repeat(np.arange(n_labs), each)
    rows = pd.DataFrame(
        {
            "model_id": [f"m{i}" for i in range(lab.size)],
            "heritage": [f"lab{i}" for i in lab],
            "family": [f"f{i}" for i in 2 * lab + np.tile(np.arange(each) % 2, n_labs)],
            "source": "one",
            **{name: rng.normal(size=lab.size) for name in ("log_L", "log_H", "log_d_h", "log_n")},
        }
    )
    root = np.linalg.cholesky((1 - lam) * np.eye(lab.size) + lam * build_lab_covariance(rows))
    return rows.assign(log_gain=0.2 * root @ rng.standard_normal(lab.size), lab=lab)


def verdict(rows: pd.DataFrame) -> str:
    h01 = analysis("h01")
    return str(h01.HERITABLE.verdict(h01.DESCENT(rows)))


def test_the_rule_on_models_that_are_alike_and_on_models_that_are_not() -> None:
    assert verdict(models(20, lam=0.9)) == YES
    assert verdict(models(20, lam=0.0)) == NO
    assert verdict(models(3, each=4, lam=0.5)) == OPEN


def test_shape_that_goes_with_the_lab_is_no_descent() -> None:
    rows = models(20, seed=1)
    rng = np.random.default_rng(5)
    rows["log_L"] = rng.normal(size=20)[rows["lab"]]
    rows["log_gain"] += 0.5 * rows["log_L"]
    assert estimate_heritabilities(rows, rows[["log_gain"]].to_numpy().T, ()).p[0] < 0.001
    assert verdict(rows) != YES


def test_families_and_labs_share_a_third_each() -> None:
    rows = models(2, each=4).assign(family=["a", "a", "b", "", "c", "c", "c", "c"])
    k = 3 * build_lab_covariance(rows)
    assert k[0].tolist() == [3, 2, 1, 1, 0, 0, 0, 0] and k[4].tolist() == [0, 0, 0, 0, 3, 2, 2, 2]


def test_one_source_is_the_restricted_likelihood_of_descent_alone() -> None:
    rows = models(8, each=4, lam=0.5, seed=3)
    y, x = rows["log_gain"].to_numpy(), np.ones((len(rows), 1))
    alone = Restricted.build(y, x, build_lab_covariance(rows))
    found = estimate_heritabilities(rows, y[None], ())
    [share], [lower], [upper], [p] = found.estimate, found.lower, found.upper, found.p
    assert abs(share - alone.estimate()) <= 0.05
    assert abs(lower - alone.interval()[0]) <= 0.05 and abs(upper - alone.interval()[1]) <= 0.05
    assert p == pytest.approx(stats.chi2.sf(float(alone.statistic()), 1) / 2, rel=0.05)


def test_the_likelihood_beside_sources_is_that_of_the_normal_density() -> None:
    rows = models(6, each=3, lam=0.5, seed=5).assign(source=lambda t: ["a", "b", "b"] * 6)
    y, x = rows["log_gain"].to_numpy(), np.ones((len(rows), 1))
    source = rows["source"].to_numpy()
    alike = (source[:, None] == source).astype(float)

    def twice(share: float, ratio: float) -> float:
        v = ratio * alike + share * build_lab_covariance(rows) + (1 - share) * np.eye(len(rows))
        beta, df = gls(v, y, x), len(rows) - 1
        rest = y - x @ beta
        sigma = rest @ np.linalg.solve(v, rest) / df
        density = stats.multivariate_normal(cov=sigma * v, allow_singular=False).logpdf(rest)
        inside = np.linalg.slogdet(x.T @ np.linalg.solve(sigma * v, x))[1]
        return float(2 * density - inside + np.log(2 * np.pi))

    ratios = [rest / (1 - rest) for rest in SOURCES]
    profile = [max(twice(share, ratio) for ratio in ratios) for share in SHARES]
    found = estimate_heritabilities(rows, y[None], ())
    [share], [p] = found.estimate, found.p
    assert share == SHARES[int(np.argmax(profile))]
    assert p == pytest.approx(stats.chi2.sf(max(profile) - profile[0], 1) / 2, rel=1e-6)


def gls(v: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Generalised least squares by the normal equations."""
    return np.asarray(np.linalg.solve(x.T @ np.linalg.solve(v, x), x.T @ np.linalg.solve(v, y)))


SHAPE = ("log_L", "log_H", "log_d_h", "log_n")


@pytest.mark.parametrize(
    ("labs", "columns", "least"), [(5, (), 5 + 3), (2, SHAPE, len(SHAPE) + 1 + 3)]
)
def test_as_many_models_as_the_refusal_asks_for_are_enough(
    labs: int, columns: tuple[str, ...], least: int
) -> None:
    rows = models(labs, each=4)
    order = np.argsort(rows.groupby("heritage").cumcount(), kind="stable")
    enough, fewer = (rows.iloc[order[:n]] for n in (least, least - 1))
    assert fewer["heritage"].nunique() == labs
    estimate_heritabilities(enough, enough[["log_gain"]].to_numpy().T, columns)
    words = "2 labs, 3 models more than labs, 3 more than columns and the mean"
    with pytest.raises(UsageError, match=f"allowed: {words}"):
        estimate_heritabilities(fewer, fewer[["log_gain"]].to_numpy().T, columns)


def test_sources_that_differ_are_no_descent() -> None:
    rows = models(12, each=3).assign(source=lambda t: np.where(t["lab"] < 6, "one", "other"))
    rng = np.random.default_rng(1)
    levels = np.where(
        rows["source"] == "one", rng.standard_normal((400, 1)), rng.standard_normal((400, 1))
    )
    outcomes = 0.6**0.5 * levels + 0.4**0.5 * rng.standard_normal((400, len(rows)))
    beside = int((estimate_heritabilities(rows, outcomes, ()).p <= 0.05).sum())
    without = int(
        (estimate_heritabilities(rows.assign(source="one"), outcomes, ()).p <= 0.05).sum()
    )
    assert stats.binom.sf(beside - 1, 400, 0.05) > 0.001
    assert stats.binom.sf(without - 1, 400, 0.05) < 1e-6


def test_the_figure_shows_the_interval_of_lambda_and_its_names_do_not_collide() -> None:
    evidence = shipped().fork().named("pooled")
    h01 = analysis("h01")
    rows = h01.select_rows(evidence, h01.GAINS[0])
    with set_house_style():
        figure = Figure()
        canvas = FigureCanvasAgg(figure)
        h01.prepare_tree_figure(evidence, rows)(figure.add_subplot())
        canvas.draw()
        above, below, *_ = figure.axes
        boxes = {text.get_text(): text.get_window_extent() for text in below.texts}
    assert len(boxes) > len(rows)
    assert [
        pair for pair in combinations(boxes, 2) if boxes[pair[0]].overlaps(boxes[pair[1]])
    ] == []
    estimate = h01.DESCENT(rows).headline
    assert above.get_xlabel().startswith("λ")
    inside = above.lines[1].get_xdata()
    assert (min(inside), max(inside)) == (estimate.lower, estimate.upper)
    assert above.collections[0].get_offsets()[0][0] == estimate.value

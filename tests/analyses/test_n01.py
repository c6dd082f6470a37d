"""N01 on simulated studies whose causes are known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, UNMEASURED, YES, analysis, by_rules_alone, is_drawn, shipped
from altered import judged as findings
from scipy import stats
from simulated_studies import Simulated

from thermostats.claims.finding import Finding
from thermostats.modelling.heritage.left_out import HeldOut
from thermostats.studies.nursery.rows import (
    GEOMETRY,
    columns_of_block,
    distinct,
    final,
    fit_recipes,
    judged,
    published_rows,
    slopes,
    too_few,
)
from thermostats.studies.nursery.shares import drawn_slopes, jackknifed_error_saved, saved_by_recipe

PRIMARY = "penultimate_gain"
HELD = HeldOut(
    left_out="heritage",
    predictions=pd.DataFrame({"model_id": ["m"], "heritage": ["r01"]}),
    rmse=0.1,
    rmse_baseline=0.3,
    rmse_lab_mean=np.nan,
    rmse_rival=0.2,
    coverage=0.9,
    elpd=20.0,
    elpd_difference=9.0,
    elpd_difference_error=2.0,
)


@pytest.fixture(scope="module")
def recipe_first() -> Simulated:
    return Simulated(lambda x: 0.4 * x["optimiser=sgd"] + 0.25 * x["peak"] + 0.3 * x["log_L"], noise=0.02)


@pytest.fixture(scope="module")
def rows(recipe_first: Simulated) -> pd.DataFrame:
    return judged(final(recipe_first), PRIMARY)


def found(rows: pd.DataFrame, name: str) -> Finding:
    """One finding of made-up rows by the classical rule."""
    n01 = by_rules_alone("n01")
    n01.models = lambda *_: rows
    return findings(n01, shipped(), name)[name]


def test_pinned_and_two_block_models_are_not_judged(recipe_first: Simulated, rows: pd.DataFrame) -> None:
    everything = final(recipe_first)
    assert len(everything) == 96 and rows["comparable"].all() and rows["n_layers"].min() == 4
    assert len(judged(everything, PRIMARY, pinned=True)) > len(rows)
    assert 2 in set(judged(everything, "last_gain")["n_layers"])
    assert not too_few(rows) and too_few(rows.iloc[:20])


def test_the_verdict_follows_the_causes(rows: pd.DataFrame) -> None:
    name = "order"
    assert found(rows, name).verdict == YES
    assert found(rows.assign(log_gain=rows["log_L"] + 0.3 * rows["log_rho"]), name).verdict == NO
    noise = np.random.default_rng(2).normal(size=len(rows))
    assert found(rows.assign(log_gain=noise), name).verdict == OPEN


@pytest.mark.parametrize(("noise", "small"), [(0.01, True), (1.0, False)])
def test_the_share_of_the_seed(rows: pd.DataFrame, noise: float, small: bool) -> None:
    """The rule is met on either side and neither is said: both come falsely too often in some world."""
    rng = np.random.default_rng(3)
    known = 0.5 * rows["x peak"] + 0.3 * rows["log_L"] + rng.normal(0, noise, len(rows))
    finding = found(rows.assign(log_gain=known), "seed")
    assert (finding.headline.upper < 0.05, finding.headline.lower > 0.05) == (small, not small)
    assert finding.verdict == OPEN and "too often to be believed" in finding.criterion.settles
    assert found(rows[~distinct(rows).duplicated()].reset_index(drop=True), "seed").verdict == UNMEASURED


def test_one_pair_that_did_not_learn_decides_nothing_about_the_seed(rows: pd.DataFrame) -> None:
    rng = np.random.default_rng(3)
    known = rows.assign(log_gain=0.3 * rows["x peak"] + rng.normal(0, 0.02, len(rows)))
    again = known.index[known["replicate_of"] != ""][0]
    known.loc[again, "log_gain"] += 2.0
    one = found(known, "seed")
    assert one.headline.value > 0.05 and (one.verdict, one.reason) == (OPEN, "hangs on one unit")
    assert f"Without the two trainings of {known.loc[again, 'replicate_of']} it is 0." in one.plain


def test_slopes_of_the_fit_are_those_of_the_causes(rows: pd.DataFrame) -> None:
    fit = fit_recipes(rows, PRIMARY, seed=1)
    unit = np.log(20 / 2) / 2
    assert slopes(fit, rows, "geometry", GEOMETRY).mean(axis=0) == pytest.approx([0.3 / unit, 0.0], abs=0.03)
    assert len(columns_of_block(rows, "architecture")) >= 5
    assert any("u_recipe(i)" in line and "geometry: log_L, log_rho; scale: log_d" in line for line in fit.law.equations)


def test_too_few_models_need_measurement() -> None:
    few = findings(analysis("n01"), Simulated(lambda x: x["peak"], models=30))
    assert {finding.verdict for finding in few.values()} == {UNMEASURED} and len(few) == 12
    assert {name for name, finding in few.items() if "too few" not in finding.plain} == {
        *("whole", "recipe", "shape", "alike", "carry_over_third"),
        *("second", "corpus", "together"),
    }


@pytest.mark.parametrize(("slope", "verdict"), [(0.3, YES), (0.0, OPEN)])
def test_recipes_not_seen_are_predicted_where_depth_has_a_slope(rows: pd.DataFrame, slope: float, verdict: str) -> None:
    rng = np.random.default_rng(5)
    made = rows.assign(log_gain=slope * rows["log_L"] + rng.normal(0, 0.05, len(rows)))
    n01 = by_rules_alone("n01")
    n01.models, n01.leave_one_out = lambda *_: made, lambda *_, **__: HELD
    one = findings(n01, shipped(), "unseen_recipes")["unseen_recipes"]
    assert one.verdict == verdict
    saved = saved_by_recipe(made)
    own, rest = (made[(made["recipe"] == "r03") == out] for out in (True, False))
    x = [np.column_stack([np.ones(len(part)), part[["log_L", "log_rho", "log_d"]]]) for part in (own, rest)]
    line = np.linalg.lstsq(x[1], rest["log_gain"], rcond=None)[0]
    errors = [np.square(own["log_gain"] - by).mean() for by in (rest["log_gain"].mean(), x[0] @ line)]
    assert saved["r03"] == pytest.approx(errors[0] - errors[1])


@pytest.mark.parametrize(("slope", "verdicts"), [(0.26, {YES, OPEN}), (-0.26, {NO, OPEN})])
def test_published_gains_made_by_the_nursery_s_slopes_are_predicted(
    rows: pd.DataFrame, slope: float, verdicts: set[str]
) -> None:
    rng = np.random.default_rng(5)
    published = pd.DataFrame(
        {
            "model_id": [f"lab{i % 5}/m{i}" for i in range(20)],
            "heritage": [f"lab{i % 5}" for i in range(20)],
            "n_layers": rng.integers(12, 48, 20),
            "d_model": rng.integers(512, 4096, 20),
            "log_rho": rng.normal(-1, 1, 20),
        }
    )
    published = published.assign(log_L=np.log(published["n_layers"]), log_d=np.log(published["d_model"]))
    gains = published.assign(log_gain=slope * published["log_L"] + rng.normal(0, 0.01, 20))
    fit = fit_recipes(rows, PRIMARY, seed=1)
    assert drawn_slopes(fit, rows).shape[1] == 3
    n01 = analysis("n01")
    n01.models, n01.recipe_fit, n01.published = lambda *_: rows, lambda *_: fit, lambda _: gains
    finding = findings(n01, shipped(), "carry_over")["carry_over"]
    assert finding.verdict in verdicts and (finding.headline.value > 0) == (slope > 0)
    assert (finding.posterior.conclusion.probability > 0.95) == (slope > 0)


@pytest.mark.parametrize("wider", ["models", "labs"])
def test_the_interval_of_a_prediction_is_the_wider_of_labs_and_of_models(wider: str) -> None:
    """Five labs that all agree say little, the models of each do not; and the other way round where labs differ."""
    rng, number = np.random.default_rng(3), np.arange(20)
    names = {"model_id": [f"m{i}" for i in number], "heritage": [f"lab{i % 5}" for i in number]}
    place = number % 5 if wider == "labs" else number // 5
    gains = rng.normal(size=5)[place] + 0.1 * rng.normal(size=20)
    predictions = pd.DataFrame(names).assign(log_gain=gains, predicted=rng.normal(size=5)[place])
    y, p = (predictions[name].to_numpy() for name in ("log_gain", "predicted"))

    def saved(rows: np.ndarray) -> float:
        return float(y[rows].var() - np.square((y[rows] - y[rows].mean()) - (p[rows] - p[rows].mean())).mean())

    halves = {}
    for unit, words in (("model_id", "models"), ("heritage", "labs")):
        left = np.array([saved((predictions[unit] != name).to_numpy()) for name in predictions[unit].unique()])
        n = len(left)
        halves[words] = stats.t.ppf(0.975, n - 1) * np.sqrt((n - 1) / n * np.square(left - left.mean()).sum())
    assert max(halves, key=lambda words: halves[words]) == wider
    one = jackknifed_error_saved(predictions)
    assert one.value == pytest.approx(saved(y < np.inf)) and f"(that over {wider})" in one.interval
    assert [one.value - one.lower, one.upper - one.value] == pytest.approx([halves[wider]] * 2)


@pytest.mark.slow
def test_the_whole_analysis(recipe_first: Simulated) -> None:
    n01 = analysis("n01")
    n01.published = lambda _: published_rows(shipped())
    n01.CLAIM.questions[:] = [replace(each, curve=None) for each in n01.CLAIM.questions]  # it reads gains by prompt
    whole = findings(n01, recipe_first)
    primary = whole["order"]
    assert len(whole) == 12 and primary.posterior is not None and primary.posterior.conclusion.probability > 0.95
    for finding in whole.values():
        if finding.figure.draw is not None:
            assert is_drawn(finding) and finding.figure.caption

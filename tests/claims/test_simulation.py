"""Rates of verdicts in simulated worlds, what hangs on one unit, and what the judge makes of both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.claims import error_rates, simulation
from thermostats.claims.error_rates import ErrorRates
from thermostats.claims.evidence import Evidence
from thermostats.claims.judge import answered
from thermostats.claims.left_out import hangs_on
from thermostats.claims.noise import BY_PROMPT, ERRORS
from thermostats.claims.question import Question
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Above, Below, Decide, V
from thermostats.claims.simulation import simulated
from thermostats.claims.template import Template
from thermostats.claims.trial import Trial
from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED
from thermostats.claims.worlds import (
    World,
    worlds_of_causes,
    worlds_of_levels,
    worlds_of_line,
    worlds_of_parts,
    worlds_of_share,
    worlds_of_slopes,
)

RISES = Decide((V("r") > 0) & (V("r").p <= 0.05), (V("r") < 0) & (V("r").p <= 0.05))


def of_line(rows: pd.DataFrame) -> Result:
    """A correlation as a claim of a line reads it."""
    found = stats.pearsonr(rows["x"], rows["y"])
    return Result(quantities={"r": Estimate(float(found.statistic), p=float(found.pvalue))})


def study(n: int = 20) -> pd.DataFrame:
    """Models of five labs."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"model_id": [f"m{i}" for i in range(n)], "heritage": [f"lab{i % 5}" for i in range(n)]})
    return rows.assign(family=rows["heritage"], x=rng.normal(size=n), y=0.0, log_n=rng.normal(size=n)).assign(
        log_L=rng.normal(size=n), log_H=rng.normal(size=n), log_d_h=rng.normal(size=n)
    )


def question(r: float = 0.7) -> Question:
    """A claim of a line, tried in its worlds."""
    trial = Trial(lambda _: study(), of_line, "", worlds_of_line("y", "x", r))
    return Question("T01.line", "line", None, lambda _: Result(), RISES, trial=trial)


def test_rates_are_those_of_the_test() -> None:
    asked = question()
    claimed, null, *_ = asked.trial.worlds
    yes, no = (simulated(asked, study(), world, 100) for world in (claimed, null))
    assert yes["supported"] > 0.8 and yes["not_supported"] == 0 and 0.9 < yes["exaggeration"] < 1.3
    assert no["supported"] <= 0.08 and no["not_supported"] <= 0.08
    assert simulated(asked, study(), claimed, 20) == simulated(asked, study(), claimed, 20)


def test_a_small_study_says_how_many_models_would_do() -> None:
    asked = question(0.4)
    rows = study(10)
    found = simulated(asked, rows, asked.trial.worlds[0], 100)
    assert found["supported"] < 0.5 and found["models_wanted"] in {40, 60, 80}
    known = ErrorRates(pd.DataFrame([found]))
    assert f"{found['models_wanted']} models of" in known.sentence(OPEN, "lab")
    assert known.power == found["supported"]


@pytest.mark.parametrize(("outlier", "unit"), [(0.0, ""), (9.0, "m0")])
def test_a_verdict_that_one_unit_carries_hangs_on_it(outlier: float, unit: str) -> None:
    rows = study()
    rng = np.random.default_rng(4)
    rows["y"] = (0 if outlier else 1) * rows["x"] + 0.3 * rng.normal(size=len(rows))
    rows.loc[0, ["x", "y"]] += outlier
    trial = Trial(lambda _: rows, of_line, "model_id")
    assert RISES.verdict(of_line(rows)) == SUPPORTED
    assert hangs_on(RISES, trial, rows, SUPPORTED) == unit
    assert hangs_on(RISES, replace(trial, unit=""), rows, SUPPORTED) == ""


def test_slipping_below_the_bar_is_not_hanging() -> None:
    near = Result(quantities={"r": Estimate(0.3, -0.05, 0.6, p=0.08)})
    other = Result(quantities={"r": Estimate(-0.1, -0.4, 0.2, p=0.5)})
    for rule in (RISES, Above("r", 0)):
        assert rule.verdict(near) == OPEN
        assert rule.nearly().verdict(near) == SUPPORTED != rule.nearly().verdict(other)
    assert Below("r", 0).nearly().verdict(other) == SUPPORTED


def test_a_verdict_against_stands_where_the_other_side_is_nearly_met_too() -> None:
    rule = Decide((V("r") < 0) & (V("r").p <= 0.05), V("r").lower > -0.3)
    slopes = iter([0.3, 0.15, 0.3])
    trial = Trial(
        lambda _: study(3), lambda _: Result(quantities={"r": Estimate(-0.1, -0.25, 0.1, p=next(slopes))}), "model_id"
    )
    assert hangs_on(rule, trial, study(3), AGAINST) == ""


@pytest.mark.parametrize(
    ("null", "claimed", "verdict", "errs"), [(0.04, 0.9, SUPPORTED, False), (0.12, 0.9, SUPPORTED, True)]
)
def test_a_side_that_is_often_wrong_is_not_given(null: float, claimed: float, verdict: str, errs: bool) -> None:
    world = {"holds": False, "declared": False, "words": "t3", "supported": null, "not_supported": 0.0}
    true = {"holds": True, "declared": False, "words": "as claimed", "supported": claimed, "not_supported": null}
    known = ErrorRates(pd.DataFrame([world, true]).assign(simulations=400, point=""))
    assert [known.worst(side) is not None for side in (SUPPORTED, AGAINST, OPEN)] == [errs, errs, False]
    few = ErrorRates(pd.DataFrame([world, true]).assign(simulations=10, point=""))
    assert few.worst(SUPPORTED) is None
    assert ("falsely in 12.0%" in known.sentence(SUPPORTED, "lab")) == errs
    assert [f"“{side}” is withheld" in known.withheld() for side in (SUPPORTED, AGAINST)] == [errs, errs]


@pytest.mark.parametrize(("rate", "errs"), [(0.07, False), (0.08, True)])
def test_in_the_worst_world_that_was_found_a_rule_may_err_more_often(rate: float, errs: bool) -> None:
    false = {"holds": False, "words": "found", "supported": rate, "not_supported": 0.0, "simulations": 2000}
    known = ErrorRates(pd.DataFrame([{**false, "declared": False, "point": "ar=0.6; kind=t3"}]))
    assert (known.worst(SUPPORTED) is not None) == errs and known.worst(AGAINST) is None
    assert bool(known.withheld()) == errs


def test_a_rule_tried_in_some_of_its_worlds_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    words = Template(Path("t01.md"), "T01", "t", {}, {"line": {"estimand": "r", "plain": "{{ verdict.sentence }}."}})
    asked, rows = question(), study()
    worlds = [simulated(asked, rows, world, 5) for world in asked.trial.worlds]
    criteria = []
    for made in (worlds, worlds[:2]):
        monkeypatch.setattr(error_rates, "table", lambda made=made: pd.DataFrame(made))
        criteria.append(answered(words, asked, of_line(rows.assign(y=rows["x"])), rows, Evidence()).criterion)
    assert [criterion.untried for criterion in criteria] == [0, len(worlds) - 2]
    assert "yet" not in criteria[0].could
    assert f"not been tried in {len(worlds) - 2} kinds yet" in criteria[1].could


def test_rates_of_another_rule_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question()
    made = pd.DataFrame([simulated(asked, study(), asked.trial.worlds[0], 5)])
    monkeypatch.setattr(error_rates, "table", lambda: made)
    assert len(error_rates.rates(asked, 20)) == 1 and error_rates.rates(asked, 21).empty
    assert error_rates.rates(replace(asked, primary=Above("r", 0)), 20).empty
    assert error_rates.rates(replace(asked, trial=replace(asked.trial, version=2)), 20).empty
    assert [world.id for world in error_rates.missing(asked, error_rates.rates(asked, len(study())))] == list(ERRORS)


@pytest.mark.parametrize("world", worlds_of_causes("y"), ids=lambda world: world.id)
def test_worlds_have_the_causes_that_they_say(world: World) -> None:
    rows = pd.concat([study().assign(heritage=lambda f, i=i: f["heritage"] + str(i)) for i in range(20)])
    rows = rows.reset_index(drop=True)
    y = world.change(rows, np.random.default_rng(1))["y"]
    between = y.groupby(rows["heritage"]).transform("mean").var() / y.var()
    assert (between > 0.45) == (world.holds or world.id in {"lab alone", "families only"})
    assert 0.1 < y.std() < 0.6


def test_shares_are_met_whether_units_are_alike_or_not() -> None:
    rows = pd.concat([study().assign(heritage=lambda f, i=i: f["heritage"] + str(i)) for i in range(100)])
    worlds = worlds_of_share("flips", 0.9, 0.5)
    assert [world.holds for world in worlds] == [True, True, False, False]
    for world, share in zip(worlds, (0.9, 0.9, 0.5, 0.5), strict=True):
        assert world.change(rows, np.random.default_rng(1))["flips"].mean() == pytest.approx(share, abs=0.03)


def test_a_share_of_one_holds_everywhere() -> None:
    claimed, alike, *_ = worlds_of_share("flips", 1.0, 0.0)
    assert all(world.change(study(), np.random.default_rng(1))["flips"].all() for world in (claimed, alike))


def prompts(models: int = 40) -> pd.DataFrame:
    """Values of prompts in four categories by models of five labs."""
    cells = [(f"m{m}", f"lab{m % 5}", f"p{p}", f"c{p % 4}") for m in range(models) for p in range(24)]
    rows = pd.DataFrame(cells, columns=["model_id", "heritage", "prompt_id", "category"])
    return rows.assign(x=np.random.default_rng(2).normal(size=len(rows)))


def test_worlds_by_prompt_have_the_levels_and_slopes_that_they_say() -> None:
    rows, levels = prompts(), {f"m{m}": float(m % 2) for m in range(40)}
    null = dict.fromkeys(levels, 0.5)
    for world in worlds_of_levels("y", levels, null, sd=0.2):
        means = world.change(rows, np.random.default_rng(1)).groupby("model_id")["y"].mean()
        assert means.mean() == pytest.approx(0.5, abs=0.1) and (means.std() > 0.4) == world.holds
    for world in worlds_of_slopes("y", "x", 0.6):
        made = world.change(rows, np.random.default_rng(1))
        within = made[["x", "y"]] - made.groupby("model_id")[["x", "y"]].transform("mean")
        assert within.corr().iloc[0, 1] == pytest.approx(0.6 if world.holds else 0.0, abs=0.1)
    assert {world.id for world in worlds_of_levels("y", levels, null)} == {"as claimed", *BY_PROMPT}


@pytest.mark.parametrize("world", worlds_of_parts("y", 0.9, 0.5), ids=lambda world: world.id)
def test_models_have_the_share_of_the_variance_that_the_world_says(world: World) -> None:
    found = []
    for seed in range(30):
        made = world.change(prompts(), np.random.default_rng(seed))
        within = made.groupby("model_id")["y"].var().mean()
        found.append(1 - within / made["y"].var())
    assert np.median(found) == pytest.approx(0.9 if world.holds else 0.5, abs=0.15)


def test_a_study_of_prompts_grows_by_prompts() -> None:
    rows = prompts(1)
    trial = Trial(lambda _: rows, of_line, "", worlds_of_slopes("y", "x", 0.3), larger="prompt")
    asked = Question("T01.prompts", "prompts", None, lambda _: Result(), RISES, trial=trial)
    found = simulated(asked, rows, trial.worlds[0], 60)
    assert found["models_wanted"] in {72, 96, 144} and found["groups_wanted"] == 1
    said = ErrorRates(pd.DataFrame([found]), larger="prompt").sentence(OPEN, "lab")
    assert f"{found['models_wanted']} prompts would find an effect" in said


def test_plain_rows_say_the_same_in_types_of_numpy() -> None:
    rows = pd.DataFrame({"n": [1, 2, None], "whole": [1, 2, 3], "sure": [True, False, True], "name": ["a", "b", None]})
    rows = rows.convert_dtypes().astype({"name": "string"})
    made = simulation.plain(rows)
    assert [kind.kind for kind in made.dtypes] == ["f", "i", "b", "O"]
    assert made["whole"].tolist() == [1, 2, 3] and made["n"].isna().tolist() == [False, False, True]
    pd.testing.assert_frame_equal(simulation.plain(made), made)

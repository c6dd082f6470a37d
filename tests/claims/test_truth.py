"""What is true in a simulated world: in the dimension over which a statement averages, and of the
units that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from thermostats.claims import levels
from thermostats.claims.noise import Errors, Random
from thermostats.claims.question import Question, Test, Trial
from thermostats.claims.result import AGAINST, SUPPORTED, Result
from thermostats.claims.rule import ALPHA, Decide, Each, V
from thermostats.claims.worlds import (
    TOTAL,
    Off,
    SideColumns,
    Worlds,
    build_descent_worlds,
    build_level_worlds,
    build_line_worlds,
    build_shift_worlds,
    build_side_worlds,
    name_size,
)
from thermostats.modelling.classical.many import (
    Many,
    estimate_correlations,
    estimate_means,
    estimate_welch_differences,
    take_group_means,
)

MEAN = V("mean")
RISES = Decide(MEAN.lower > 0, MEAN.upper < 0)


def draw(errors: Errors, rows: pd.DataFrame, studies: int = 1, seed: int = 1) -> Any:
    return errors.draw(rows, Random(np.random.default_rng(seed), studies))


def prompts(models: int = 2, each: int = 6) -> pd.DataFrame:
    at = np.arange(models * each)
    return pd.DataFrame(
        {
            "model_id": [f"m{one // each}" for one in at],
            "prompt_id": [f"p{one % each}" for one in at],
            "heritage": "lab",
            "category": "c",
            "y": 0.0,
        }
    )


def ask(trial: Trial, rule: Decide = RISES) -> Question:
    return Question("T01.truth", "truth", None, lambda _: Result(), rule, trial=trial)


def by_prompt(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    return {"mean": estimate_means(take_group_means(outcomes["y"], rows["prompt_id"]))}


def by_model(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    means = take_group_means(outcomes["y"], rows["model_id"]).T
    nothing = np.zeros(len(means[0]))
    return {"models": [{"mean": Many(each, each, each, nothing)} for each in means]}


def test_an_exact_tie_is_true_of_no_side_however_many_units_are_compared() -> None:
    """Of eight coins one shows heads: in large samples one of eight ties is nearly always broken,
    in closed form none is."""
    rows = prompts(8)
    rule = Decide(Each("models", MEAN.lower > 0), Each("models", MEAN.upper < 0))
    closed = build_level_worlds(
        "y", 0.1, 0.0, large=lambda level: Result(rows={"models": pd.DataFrame({"mean": [level]})})
    )
    trial = Trial(lambda _: rows, Test(by_model, ("y",)), "", closed)
    asked = ask(trial, rule)
    assert levels.count_truths(asked, rows, closed.build_world("null")) == {
        SUPPORTED: 0,
        AGAINST: 0,
    }
    assert levels.count_truths(asked, rows, closed.build_world("claimed"))[SUPPORTED] == 20


@pytest.mark.parametrize(("averaged", "true"), [((), False), (("prompt",), True)])
def test_rows_are_multiplied_in_what_the_estimand_averages(
    averaged: tuple[str, ...], true: bool
) -> None:
    """The mean of a level a tenth of the prompts' SD above 0: six prompts do not show it, however
    many models meet them."""
    worlds = build_level_worlds("y", 0.12 * TOTAL, 0.0)
    rows = prompts()
    trial = Trial(lambda _: rows, Test(by_prompt, ("y",)), "", worlds, averaged=averaged)
    world = worlds.build_world(shared=1.0)
    held = levels.count_truths(ask(trial), rows, world)[SUPPORTED]
    assert (held >= levels.MOSTLY) == true


def test_a_truth_is_computed_by_a_quicker_test_of_the_same_estimates() -> None:
    def refuse(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
        raise AssertionError(f"too slow for {len(rows)} rows")

    worlds = build_level_worlds("y", 0.5 * TOTAL, 0.0)
    rows = prompts()
    slow, quick = Test(refuse, ("y",)), Test(by_prompt, ("y",))
    trial = Trial(lambda _: rows, slow, "", worlds, larger="prompt", estimand=quick)
    held = levels.count_truths(ask(trial), rows, worlds.build_world())
    assert held == {SUPPORTED: levels.SAMPLES, AGAINST: 0}


@pytest.mark.parametrize("kind", ["normal", "heteroscedastic labs", "small noisy labs"])
def test_errors_that_are_larger_in_some_labs_leave_less_of_the_variance_to_descent(
    kind: str,
) -> None:
    """By the mean square of their SDs, which small labs, of which the test knows, do not change."""
    worlds = build_descent_worlds("y", 0.6, "x", "λ")
    world = worlds.build_world(kind=kind)
    rows = pd.DataFrame({"x": np.arange(3000.0), "heritage": np.arange(3000) // 3})
    assert isinstance(world.errors, Errors) and world.large is not None
    square = float(np.square(draw(world.errors, rows, 40)).mean())
    assert world.errors.mean_square == pytest.approx(square, rel=0.05)
    share = world.large.quantities["λ"].value
    assert share == pytest.approx(0.6 / (0.6 + 0.4 * square), abs=0.01)
    assert worlds.build_world("null", kind=kind).large == name_size("λ", 0.0)


def test_a_mean_off_the_data_is_as_far_off_in_a_larger_study() -> None:
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"heritage": np.arange(14) % 5, "model_id": np.arange(14)})
    rows = rows.assign(x=rng.normal(size=14), y=rng.normal(size=14))
    worlds = build_line_worlds("y", "x", 0.5, mean=True)
    world = worlds.build_world(mean=1.0)
    many = levels.repeat_rows("model", rows, 200)
    signal = world.fix_design(rows).signal
    assert isinstance(signal, Off)
    rest = worlds.build_world("null", mean=0.0).fix_design(rows)
    there = world.fix_design(rows).draw(many, Random(np.random.default_rng(1)))["y"].mean()
    middle = rest.draw(many, Random(np.random.default_rng(1)))["y"].mean()
    half = 2.160 / 14**0.5  # t of 13 degrees of freedom, in standard deviations
    assert there - middle == pytest.approx(TOTAL * half, abs=0.02)
    assert worlds.version > 1 and build_line_worlds("y", "x", 0.5, ordered=False).version == 1


def test_a_lab_that_lies_off_is_no_trend_along_a_column() -> None:
    """Neighbours err alike, and yet the lab's four standard deviations are its own rows' alone."""
    rows = pd.DataFrame({"x": np.arange(12.0), "heritage": ["small"] * 2 + ["a"] * 5 + ["b"] * 5})
    errors = Errors("one outlying lab", along="x", ar=0.6)
    common = errors.draw_levels(rows, Random(np.random.default_rng(1), 50))
    np.testing.assert_array_equal(np.abs(common), np.tile([4.0] * 2 + [0.0] * 10, (50, 1)))
    own = draw(errors, rows, 4000) - errors.draw_levels(
        rows, Random(np.random.default_rng(1), 4000)
    )
    assert np.corrcoef(own[:, 2], own[:, 3])[0, 1] == pytest.approx(0.6, abs=0.05)
    assert own.mean() == pytest.approx(0.0, abs=0.03) and own.std() == pytest.approx(1.0, abs=0.03)


def test_levels_of_groups_are_left_uncorrelated_along_a_column() -> None:
    """A share of .5 between labs of one model each: neighbours are alike by the chain's half."""
    rows = pd.DataFrame({"x": np.arange(40.0), "heritage": np.arange(40)})
    drawn = draw(Errors(between=0.5, along="x", ar=0.6), rows, 3000)
    assert np.corrcoef(drawn[:, 5], drawn[:, 6])[0, 1] == pytest.approx(0.3, abs=0.04)


GROUPS = pd.DataFrame({"heritage": np.repeat([f"r{k}" for k in range(8)], 6)}).assign(
    apart=lambda rows: rows["heritage"] == "r0", model_id=np.arange(48)
)


def compare(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Of the first group minus the means of the others."""
    means = take_group_means(outcomes["y"], rows["heritage"])
    values = np.concatenate([outcomes["y"][:, rows["apart"].to_numpy(bool)], means[:, 1:]], axis=1)
    return {"mean": estimate_welch_differences(values, np.arange(values.shape[1]) < 6)}


def of_groups(units: bool) -> tuple[Question, Worlds]:
    worlds = build_shift_worlds("y", 1.0, 0.5, "apart", units=units)
    trial = Trial(lambda _: GROUPS, Test(compare, ("y",), "95%"), "", worlds)
    return ask(trial, Decide(MEAN.lower > 0.5, MEAN.upper < 0.5)), worlds


def test_a_named_group_has_the_truth_of_each_study() -> None:
    """Its own level is part of what is true of it: the level is that of the interval, not of the
    draw of groups."""
    point = {"size": "0.5", "kind": "normal", "between": 0.6}
    found = {}
    for units in (True, False):
        asked, worlds = of_groups(units)
        search = levels.Search(asked, GROUPS, AGAINST, (), levels.AT_ONCE)
        found[units] = search.simulate_point(point, levels.PLAUSIBLE, 4000)
        if units:
            truth = levels.judge_studies(asked, GROUPS, worlds.build_world(**point), 4000, "s")
    assert 0.4 < truth[SUPPORTED].mean() < 0.6 and not (truth[SUPPORTED] & truth[AGAINST]).any()
    assert 1500 < found[True]["studies"] < 2500 and found[False]["studies"] == 4000
    assert found[True]["rate"] < 0.03 and found[True]["bound_05"] > 0.05
    assert found[False]["rate"] > 0.1 and found[False]["bound_05"] < 0.02


def test_without_levels_a_named_group_has_the_truth_of_the_world() -> None:
    asked, worlds = of_groups(True)
    held = levels.count_truths(asked, GROUPS, worlds.build_world("claimed"))
    assert held == {SUPPORTED: 20, AGAINST: 0}
    made = [
        levels.simulate_side(
            asked, GROUPS, worlds.build_world("claimed"), SUPPORTED, (40, "s", np.inf), true=true
        )
        for true in (True, False)
    ]
    assert [len(each) for each in made] == [40, 0] and levels.measure_rate(made[1], ALPHA) == 0.0


SIDES = SideColumns("below", "clear", "focal", "error", "half")


def test_a_gain_measured_with_errors_may_lie_on_the_other_side_of_1() -> None:
    """True shares of 1 and 0: without errors no model is on the other side, with errors some are,
    and fewer clearly."""
    rows = pd.DataFrame({"heritage": np.arange(400) % 20, "focal": np.arange(400) < 200})
    worlds = build_side_worlds(
        SIDES, (1.0, 0.0), (0.4,), lambda shares: name_size("d", shares[0] - shares[1])
    )
    rng = np.random.default_rng(1)
    off = {}
    for error in (0.0, 0.1, np.nan):
        known = rows.assign(error=error, half=1.96 * error)
        made = worlds.build_world("claimed").change(known, rng)
        wrong = made["below"] != made["focal"]
        off[error] = wrong.mean(), (wrong & made["clear"]).mean()
    assert off[0.0] == (0.0, 0.0) and off[np.nan] == (0.0, 0.0)
    assert 0.08 < off[0.1][0] < 0.22 and off[0.1][1] < 0.02
    null = worlds.build_world("null", alike=0.0).change(rows.assign(error=0.0, half=0.0), rng)
    assert null["below"].mean() == pytest.approx(0.4, abs=0.07)
    assert worlds.build_world("claimed").large == name_size("d", 1.0)


R = V("r")
LINE = pd.DataFrame({"model_id": np.arange(30), "x": np.arange(30.0), "heritage": np.arange(30)})


def correlate(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    return {"r": estimate_correlations(rows["x"], outcomes["y"])}


def test_a_small_effect_is_told_from_a_tie_by_a_larger_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """r = .035 in 240 rows is above 0 in seven samples of ten, in 3,840 in nearly all; r = 0 is
    never told."""
    worlds = build_line_worlds("y", "x", 0.035, ordered=False, group="")
    trial = Trial(lambda _: LINE, Test(correlate, ("y",)), "", worlds)
    asked = ask(trial, Decide(R.lower > 0, R.upper < 0))
    grown = {
        size: levels.count_truths(asked, LINE, worlds.build_world(size))[SUPPORTED]
        for size in ("claimed", "null")
    }
    assert grown["claimed"] >= levels.MOSTLY > grown["null"] > levels.SAMPLES - levels.MOSTLY
    monkeypatch.setattr(levels, "LARGEST", 240)
    assert levels.count_truths(asked, LINE, worlds.build_world())[SUPPORTED] < levels.MOSTLY


def test_a_boundary_beyond_what_is_claimed_is_sought_up_to_another_size() -> None:
    """“Above −.4” is true at 0 and at the claimed −.3, and turns between that and −.6."""
    worlds = build_line_worlds(
        "y", "x", -0.3, ordered=False, group="", others={"clear": -0.6, "other way": 0.6}
    )
    trial = Trial(lambda _: LINE, Test(correlate, ("y",)), "", worlds)
    sizes = levels.find_false_sizes(ask(trial, Decide(R < 0, R.lower > -0.4)), LINE)
    assert sizes[AGAINST][0] == "clear" and len(sizes[AGAINST]) == 2
    assert worlds.size(sizes[AGAINST][1]) == pytest.approx(-0.4, abs=0.03)

"""The search finds the worst world within its bounds, and a rule that errs there is not believed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.claims import error_rates, search, simulation
from thermostats.claims.error_rates import ErrorRates
from thermostats.claims.judge import standing
from thermostats.claims.noise import BY_PROMPT, SHARED, Errors, PromptErrors
from thermostats.claims.question import Question
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Decide, V
from thermostats.claims.trial import Trial
from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, Reason
from thermostats.claims.worlds import (
    UNSAID,
    Effort,
    Off,
    Search,
    World,
    searches_among,
    searches_of_contrast,
    searches_of_line,
    searches_of_share,
    worlds_of_exponent,
    worlds_of_levels,
    worlds_of_line,
    worlds_of_mean,
    worlds_of_shift,
    worlds_of_slopes,
)

RISES = Decide((V("r") > 0) & (V("r").p <= 0.05), (V("r") < 0) & (V("r").p <= 0.05))
SEARCHES = searches_of_line("y", "x", 0.7)


def study(n: int = 20) -> pd.DataFrame:
    """Models of five labs, their outcomes about 3 with a standard deviation of 2."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"model_id": [f"m{i}" for i in range(n)], "heritage": [f"lab{i % 5}" for i in range(n)]})
    x = np.arange(n) + rng.normal(size=n)
    return rows.assign(x=x, y=3 + 2 * stats.zscore(x, ddof=1))


def of_line(rows: pd.DataFrame) -> Result:
    """A correlation by a test that takes errors for independent."""
    found = stats.pearsonr(rows["x"], rows["y"])
    return Result.of(rows, {"r": Estimate(float(found.statistic), p=float(found.pvalue))})


def question(searches: tuple[Search, ...] = SEARCHES) -> Question:
    """A claim of a line with a search."""
    trial = Trial(lambda _: study(), of_line, "", worlds_of_line("y", "x", 0.7), searches=searches)
    return Question("T01.line", "line", None, lambda _: of_line(study()), RISES, trial=trial)


def test_errors_are_correlated_and_uneven_as_they_say() -> None:
    rows = pd.DataFrame({"heritage": np.arange(4000) % 400, "x": np.arange(4000.0)})
    drawn = Errors("normal", along="x", ar=0.6, ratio=3.0).draw(rows, np.random.default_rng(1))
    assert np.corrcoef(drawn[1:], drawn[:-1])[0, 1] == pytest.approx(0.6, abs=0.05)
    assert drawn[-400:].std() / drawn[:400].std() == pytest.approx(3.0, rel=0.25)
    assert np.square(drawn).mean() == pytest.approx(1.0, abs=0.1)
    levels = (
        pd.Series(Errors("normal", between=0.5).draw(rows, np.random.default_rng(2))).groupby(rows["heritage"]).mean()
    )
    assert levels.var() == pytest.approx(0.5 + 0.05, abs=0.1)


def test_errors_along_a_column_are_told_without_its_name() -> None:
    words = Errors("normal", along="n_layers", ar=0.6, ratio=3.0).words
    assert words.endswith("correlated at 0.6 between neighbours in depth, SD 3 times as large at the largest depth")
    rows = error_rates.table()
    assert not rows["words"].str.contains("n_layers|log_n|neighbours along").any()


@pytest.mark.parametrize("off", [-1.0, 0.0, 1.0])
def test_outcomes_lie_about_the_mean_of_the_data(off: float) -> None:
    rows = study(400)
    signal = Off(worlds_of_line("y", "x", 0.5)[1].signal, "y", off)
    made = signal(rows, lambda rows: Errors().draw(rows, np.random.default_rng(1)), np.random.default_rng(2))["y"]
    expected = 3 / 2 + off * stats.t.ppf(0.975, 399) / 20
    assert made.mean() / 0.2 == pytest.approx(expected, abs=0.12)


def test_points_are_corners_and_what_lies_between() -> None:
    tried = list(search.points(SEARCHES[0]))
    assert {(0.0, 0.333), (0.6, 3.0)} <= {(point["ar"], point["ratio"]) for point in tried}
    assert all(0 <= point["ar"] <= 0.6 and 0.33 <= point["ratio"] <= 3 for point in tried)
    assert {point["kind"] for point in tried} == set(SEARCHES[0].kinds)
    world = SEARCHES[0].world(**tried[3])
    again = search.world_at(SEARCHES[0], search.text(tried[3]))
    assert (again.errors, again.words) == (world.errors, world.words) and not world.holds
    assert SEARCHES[1].world(**tried[3]).holds


@pytest.mark.slow
def test_the_worst_world_is_found_and_that_side_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors correlated along x make the test err; the verdict of the very data is then left open."""
    only_normal = tuple(replace(one, kinds=("normal",), effort=Effort(few=100, fresh=400)) for one in SEARCHES)
    asked = question(only_normal)
    rows = [search.searched(asked, study(), one) for one in only_normal]
    by_name = {row["world"]: row for row in rows}
    false = by_name["worst, no relation"]
    assert search.world_at(only_normal[0], false["point"]).errors.ar > 0.4
    assert false["supported"] > error_rates.WORST and false["simulations"] == 400
    again = search.errs(asked, study(), search.world_at(only_normal[0], false["point"]), 200, "another seed")
    assert again == pytest.approx(false["supported"], abs=0.09)
    monkeypatch.setattr(error_rates, "table", lambda: pd.DataFrame(rows))
    known, result = ErrorRates(error_rates.rates(asked, len(study()))), of_line(study())
    assert standing(RISES, result, known, SUPPORTED) == (OPEN, Reason.WITHHELD)
    assert standing(RISES, result, known, AGAINST)[0] == AGAINST and not known.silent
    assert standing(RISES, result, known, OPEN) == (OPEN, Reason.UNDECIDED)
    either = ErrorRates(pd.concat([known.rates, pd.DataFrame([{**false, "holds": True, "not_supported": 0.2}])]))
    assert standing(RISES, result, either, OPEN) == (OPEN, Reason.WITHHELD) and either.silent
    assert "neither verdict is given" in either.sentence(OPEN, "lab", Reason.WITHHELD)
    assert "“supported” is withheld" in known.could() and "correlated at" in known.could()
    assert "“not supported” is withheld" not in known.could()
    small = pd.DataFrame(
        [{**rows[0], "holds": True, "declared": True, "supported": 0.2, "not_supported": 0.0, "point": ""}, *rows]
    )
    assert "no number of models is named" in ErrorRates(small).sentence(OPEN, "lab")
    assert "no number of models" not in ErrorRates(small[:1]).sentence(OPEN, "lab")


def test_a_search_is_missing_until_its_row_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question()
    made = pd.DataFrame([simulation.simulated(asked, study(), world, 5) for world in asked.trial.worlds])
    monkeypatch.setattr(error_rates, "table", lambda: made)
    tried = error_rates.rates(asked, len(study()))
    assert [named.id for named in error_rates.missing(asked, tried)] == [search.id for search in SEARCHES]
    wider = replace(SEARCHES[0], bounds={**SEARCHES[0].bounds, "ar": (0.0, 0.9)})
    assert asked.digest(wider) != asked.digest(SEARCHES[0])


@pytest.mark.parametrize("setting", ["few", "more", "fresh", "best", "between"])
def test_a_row_of_a_search_with_another_setting_counts_for_nothing(setting: str) -> None:
    asked, full = question(), replace(SEARCHES[0], effort=Effort(*UNSAID))
    other = replace(full, effort=replace(full.effort, **{setting: 7}))
    assert asked.digest(other) != asked.digest(full)
    assert f"{setting} 7" in other.words and "fresh" not in full.words


def by_prompt(n: int = 3, prompts: int = 400) -> pd.DataFrame:
    """Models by prompt, of two categories."""
    rows = pd.MultiIndex.from_product([range(n), range(prompts)], names=["model_id", "prompt_id"]).to_frame(index=False)
    return rows.assign(heritage="lab", category=rows["prompt_id"] % 2, place=rows["model_id"], y=0.0)


def test_errors_by_prompt_are_shared_and_uneven_as_they_say() -> None:
    rows = by_prompt()
    drawn = PromptErrors(shared=0.6, along="place", ratio=3.0).draw(rows, np.random.default_rng(1)).reshape(3, -1)
    assert np.corrcoef(drawn)[np.triu_indices(3, 1)] == pytest.approx(0.6, abs=0.12)
    assert drawn[2].std() / drawn[0].std() == pytest.approx(3.0, rel=0.15)
    assert np.square(drawn).mean() == pytest.approx(1.0, abs=0.12)
    words = PromptErrors("t3", shared=0.6, along="place", ratio=3.0).words
    assert words.endswith(
        "60% of their variance of prompts in all models, SD 3 times as large at the largest place in the order"
    )
    assert PromptErrors("t3").words == BY_PROMPT["t3"]


@pytest.mark.parametrize(
    ("worlds", "bounds"),
    [
        (worlds_of_mean("y", 1.0, 0.0, 1.0), {"ar", "ratio", "between"}),
        (worlds_of_shift("y", 1.0, 1.0), {"ar", "ratio", "between"}),
        (worlds_of_exponent("y", "x", 1.0, 0.5, 0.3), {"ar", "ratio", "between"}),
        (worlds_of_levels("y", 1.0, 0.0), {"ratio", "shared"}),
        (worlds_of_slopes("y", "x", 0.5), {"ratio", "shared"}),
    ],
)
def test_every_family_opens_its_errors_and_keeps_its_signals(worlds: tuple[World, ...], bounds: set[str]) -> None:
    searches = searches_among(worlds, along="x")
    assert [one.holds for one in searches] == [False, True] and {*searches[0].bounds} == bounds
    rows = by_prompt() if "shared" in bounds else study()
    rows = rows.assign(y=0.0, x=np.arange(len(rows)) % 7)
    for one in searches:
        known = [world for world in worlds if world.holds == one.holds]
        assert {*one.signals} <= {world.id for world in known} and {*one.kinds} <= {w.errors.kind for w in worlds}
        points = list(search.points(one))
        assert {point.get("like") for point in points} == {*one.signals} or not one.signals
        world = search.world_at(one, search.text(points[-1]))
        assert world.words == one.world(**points[-1]).words and world.holds == one.holds and not world.declared
        # with no nuisance at all, the world is the committed one
        like = known[0] if not one.signals else next(w for w in known if w.id == one.signals[0])
        none = {"shared": SHARED} if "shared" in bounds else {}
        plain = one.world(kind=like.errors.kind, **none, **({"like": one.signals[0]} if one.signals else {}))
        made = [own.change(rows, np.random.default_rng(3))["y"].to_numpy() for own in (plain, like)]
        assert (made[0] == made[1]).all()


def test_without_order_or_groups_fewer_numbers_are_open() -> None:
    worlds = worlds_of_mean("y", 1.0, 0.0, 1.0)
    assert {*searches_among(worlds, along="x", ordered=False, group="")[0].bounds} == {"ratio"}
    assert {*searches_among(worlds)[0].bounds} == {"between"}


def test_shares_are_alike_in_groups_as_they_say() -> None:
    rows = pd.DataFrame({"heritage": np.arange(40000) % 4000, "holds": True})
    for one, share in zip(searches_of_share("holds", 0.9, 0.5), (0.5, 0.9), strict=True):
        assert one.holds == (share == 0.9)
        made = one.world(kind="normal", alike=0.6).change(rows, np.random.default_rng(1))
        assert made["holds"].mean() == pytest.approx(share, abs=0.03)
        by_lab = made.groupby("heritage")["holds"].mean()
        assert by_lab.var() > 2.5 * share * (1 - share) / 10
    contrast = searches_of_contrast("holds", "focal", (0.8, 0.0), (0.2, 0.6))
    assert {*contrast[0].bounds} == {"alike", "share"} and {*contrast[1].bounds} == {"alike"}
    rows = rows.assign(focal=rows["heritage"] % 2 == 0)
    null = contrast[0].world(kind="normal", alike=0.0, share=0.3).change(rows, np.random.default_rng(1))
    assert null.groupby("focal")["holds"].mean().to_list() == pytest.approx([0.3, 0.3], abs=0.02)


def test_a_search_rates_the_false_verdict_alone_as_a_world_does() -> None:
    """Leaving units out is asked of that verdict only, so that its rate is the same."""
    asked = question()
    asked = replace(asked, trial=replace(asked.trial, unit="heritage"))
    world = asked.trial.worlds[1]
    both = simulation.simulated(asked, study(), world, 20)
    only = simulation.simulated(asked, study(), world, 20, only=SUPPORTED)
    assert only["supported"] == both["supported"] and np.isnan(only["not_supported"]) and both["not_supported"] >= 0
    true = simulation.simulated(asked, study(), asked.trial.worlds[0], 20, only=AGAINST)
    assert true["not_supported"] == 0 and np.isnan(true["supported"]) and np.isnan(true["exaggeration"])


def test_next_to_a_null_without_margin_either_verdict_may_be_false() -> None:
    worlds = worlds_of_mean("y", 1.0, 0.0, 1.0)
    false, true = searches_among(worlds, sided=True)
    assert true.signals == ("as claimed", "next to normal") and not false.signals
    world = true.world(kind="normal", like="next to normal")
    assert world.holds and world.words == "next to mean 0, normal errors"
    made = world.change(study(4000), np.random.default_rng(1))
    assert made["y"].mean() == pytest.approx(0.0, abs=0.06)
    _, held = searches_of_share("holds", 0.9, 0.5, sided=True)
    assert held.bounds["share"] == (0.5, 0.9) and held.world(kind="normal", alike=0.0, share=0.5).holds
